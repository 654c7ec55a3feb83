"""Write mined negatives with their anchors and positives in the formats of trainers.

minings ─subject→ Reader ─examples→ Example ─formats→ rows ─files→ JSON lines or Parquet at PATH

``beir``, an evaluation set, needs no mining. Texts are whole sections, uncut. Rows are ordered by
source, anchor and rank, so equal minings give equal files.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, listed, shown
from duckplets.base.settings import checked
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import EmptyPoolError, SamplerError
from duckplets.export import record_lines
from duckplets.export.collection import Collections
from duckplets.export.examples import ExportRequest, SubjectReader
from duckplets.export.files import ExportPlace, appearing, check
from duckplets.export.formats import FORMS, ExportFormat, write_collection
from duckplets.export.subject import mined, pooled
from duckplets.ingest.splits import need_splits
from duckplets.recipes.mined import Negatives, consistent_of, negatives_of
from duckplets.recipes.recipes import TripletRecipe

log = logging.getLogger("duckplets")

__all__ = ["Documents", "ExportReport", "Format", "Shape", "export"]

Format = Literal[
    "sentence-transformers",
    "flagembedding",
    "ms-swift",
    "tevatron",
    "pylate",
    "automodel",
    "lighton",
    "beir",
    "jsonl",
]
Documents = Literal["split", "all"]
Shape = Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportReport(Reported):
    """What an export wrote.

    Attributes:
        path: The file or folder.
        format: Its format.
        rows: Rows of the main file; for ``beir`` its judgements.
        anchors: Anchors written; for ``beir`` queries.
        negatives: Negatives written, counted once per anchor; for ``beir`` 0.
        filled: How many of them were drawn at random to make up the number.
        left_out: Anchors left out, by reason. ``negatives without a score`` counts negatives
            instead, and the positives of a ``repeated question`` (``beir``) are with the first
            anchor of its text.
        sources: Names of the sources.
        files: Names of the files, relative to the folder if it is one.
        recipe: Name of the recipe.
    """

    path: Path
    format: str
    rows: int
    anchors: int
    negatives: int
    filled: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    recipe: str = field(default="", compare=False)


@stage("export from")
def export(
    of: CorpusFile,
    /,
    path: str | Path,
    format: Format,  # noqa: A002 - it is what users call it
    *,
    negatives: int | Negatives | None = None,
    recipe: TripletRecipe | str | None = None,
    source: str | None = None,
    split: str | None = None,
    shape: Shape | None = None,
    consistent: Any = None,
    documents: Documents | None = None,
    scores: bool = False,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> ExportReport:
    """Write the anchors of a mined recipe with positives and negatives, or records, to a file.

    The files appear whole or not at all. An anchor without a negative or a positive is left
    out and counted.

    Args:
        path: ``sentence-transformers`` writes FILE.parquet or FILE.jsonl; ``flagembedding``
            and ``ms-swift`` FILE.jsonl; ``tevatron`` a folder with ``train.jsonl`` and
            ``corpus.jsonl``; ``pylate`` a folder with ``train.jsonl`` (ids with scores),
            ``queries.jsonl`` and ``documents.jsonl``; ``lighton`` the same with ``scores.jsonl``;
            ``automodel`` a folder with ``train.json`` and the folder ``corpus``; ``beir`` a folder
            with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``; ``jsonl`` FILE.jsonl.
            Ids of one collection are as they came.
        format: Format of the file. ``beir``, an evaluation set, and ``jsonl``, all records with the
            text as gates saw it and ``meta`` (source, id, file, row, digest), need no mining. Of
            collections ``beir`` has all documents, all queries and all labels, unless a recipe is
            given; the other formats have positives, and count labels other than 1.
        negatives: Negatives of each anchor at most, the hardest first, or ``Negatives`` with their
            scorer and cut. Default: all. Every row of an ``n-tuple`` has exactly this many. 0
            writes plain pairs of anchor and positive, which need no mining. ``sampling`` and
            ``in_batch_margin`` are about batches of a run: a note says so. Negatives drawn at
            random (``when_short``) keep the same guards and are marked where the format can.
        recipe: A recipe or the name of one. Default: the one with the most mined anchors; of plain
            pairs and ``beir`` otherwise the first that a sampler draws.
        source: From this source only. Default: all sources of the mined recipe.
        split: The split. Default: ``train``; of ``beir`` ``test``, and of its collections all.
        shape: Of ``sentence-transformers``: ``triplet`` (the default), ``n-tuple``,
            ``labeled-pair`` or ``labeled-list``.
        consistent: Write only pairs whose positive a scorer ranks high enough, as for ``sampler``.
        documents: Of ``beir``: documents of the ``split`` alone (the default), or of ``all``.
        scores: Write scores. That of every positive is the lowest of its anchor's.
        overwrite: Replace the file, of ``jsonl`` one that such an export has written. A folder is
            never replaced.
        progress: As for ``mine``.

    Raises:
        SamplerError, RecipeError, SplitError: An argument is wrong, or something is there.
        SourceError: A file of ``jsonl`` cannot be written, or holds something else.
        StateMismatchError: Nothing was mined, or it is stale.
        EmptyPoolError: No anchor is left.
    """
    database, asked = of.database, Negatives(None) if negatives is None else negatives_of(negatives)
    if checked("format", format, Format, SamplerError) == "jsonl":
        given = {"negatives": negatives, "recipe": recipe, "source": source, "split": split}
        given |= {"shape": shape, "documents": documents, "scores": scores or None}
        given |= {"consistent": consistent}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise SamplerError(f"{wrong[0]}=: format='jsonl' writes all records; leave it out")
        rows = record_lines.written(database, path, overwrite=overwrite)
        return ExportReport(path=Path(path), format=format, rows=rows, anchors=0, negatives=0)
    if of_runs := [n for n in ("sampling", "in_batch_margin") if n in asked.to_dict()]:
        log.warning("export: %s is about batches of a run; files do not heed it", of_runs[0])
    form = FORMS[format]
    wanted = _wanted(format, form, asked, shape=shape, scores=scores)
    checked("documents", documents, Documents | None, SamplerError)
    if documents is not None and form.mined:
        what = f"documents={documents!r}: format={format!r}"
        raise SamplerError(f"{what} has no documents of its own choice")
    place, path = form.place, Path(path)
    check(path, place, overwrite=overwrite)
    collection = None
    if not form.mined and recipe is None and consistent is None:
        collection = Collections.chosen(database, source, split)
    if collection is not None:
        return _written_as_is(collection, path, place, progress)
    split = split or ("train" if form.mined else "test")
    where: dict[str, Any] = {"source": source, "split": split}
    where["consistent"] = consistent_of(consistent, SamplerError)
    if form.mined and not wanted.pairs:
        subject = mined(database, recipe, **where, negatives=asked)
    else:
        subject = pooled(database, recipe, **where, every=documents == "all")
    wanted = replace(wanted, instruction=subject.recipe.instruction)
    # Ids of several sources need their names.
    alone = subject.sources[0] if len(subject.sources) == 1 else None
    collection = None if alone is None else Collections.chosen(database, alone, subject.split)
    with appearing(path, place, overwrite=overwrite) as aside:
        with (
            SubjectReader.opened(database, subject, collection) as reader,
            working(INLINE, progress, "anchors") as work,
        ):
            tally = form.write(reader, wanted, aside, work)
            sources = reader.sources
        if collection is not None and form.mined and place.files:
            others = sum(row["label"] != 1 for row in collection.labels())
            tally.left_out["label other than 1"] = others
        left_out = {reason: n for reason, n in sorted(tally.left_out.items()) if n}
        if not tally.rows:
            counts = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
            raise EmptyPoolError(
                f"recipe {subject.recipe.name!r}, split {subject.split!r}: nothing to write: "
                f"{counts or 'there is no anchor'}"
            )
        files = _names(aside) if place.files else [path.name]
    return ExportReport(
        path=path,
        format=format,
        recipe=subject.recipe.name,
        rows=tally.rows,
        anchors=tally.anchors,
        negatives=tally.negatives,
        filled=tally.filled,
        left_out=left_out,
        sources=sources,
        files=files,
    )


def _written_as_is(
    found: Collections, path: Path, place: ExportPlace, progress: Progress | bool | None
) -> ExportReport:
    """Write collections for evaluation, as of one moment."""
    with (
        appearing(path, place, overwrite=False) as aside,
        closing(found.database.cursor()) as own,
        own.transaction(),
        working(INLINE, progress, "labels") as work,
    ):
        tally = write_collection(replace(found, database=own), aside, work)
        if not tally.rows:
            need_splits(found.database)
            where = "" if found.split is None else f" of split {found.split!r}"
            raise EmptyPoolError(
                f"{shown(listed(found.sources), 80)}: no label names a query{where}"
            )
        files = _names(aside)
    return ExportReport(
        path=path,
        format="beir",
        rows=tally.rows,
        anchors=tally.anchors,
        negatives=0,
        sources=found.sources,
        files=files,
    )


def _names(folder: Path) -> list[str]:
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(name.as_posix() for name in found)


def _wanted(
    name: str, form: ExportFormat, asked: Negatives, *, shape: Shape | None, scores: bool
) -> ExportRequest:
    """Return the request that arguments make of a format, if it can be met."""
    if shape is not None and name != "sentence-transformers":
        raise SamplerError(f"shape={shape!r}: format={name!r} has no choice; leave it out")
    shape = checked("shape", shape or "triplet", Shape, SamplerError)
    num, short = asked.num, asked.when_short
    if asked != Negatives(None) and not form.mined:
        raise SamplerError(f"negatives={asked!r}: format={name!r} has none; leave it out")
    if num == 0 and (scores or asked.chosen != Negatives()):
        what = "scores" if scores else f"negatives={asked!r}"
        raise SamplerError(f"{what}: with 0 negatives there are plain pairs; leave it out")
    if asked.by is not None and (not isinstance(asked.by, str) or asked.by == "random"):
        raise SamplerError(
            f"negatives: by={asked.by!r}: an export takes the candidates of one scorer, as in "
            f"by='bm25'; when_short='random' fills up"
        )
    if scores and not form.scored:
        raise SamplerError(f"scores: format={name!r} has no place for them")
    if short == "keep" and shape == "n-tuple":
        raise SamplerError(
            "when_short='keep': every row of shape='n-tuple' has the same number of negatives; "
            "give drop or random"
        )
    if short == "random" and scores:
        raise SamplerError(
            "when_short='random': negatives drawn at random have no score; leave scores out"
        )
    return ExportRequest(
        shape=shape, negatives=num, pairs=num == 0, when_short=short or "", scores=bool(scores)
    )
