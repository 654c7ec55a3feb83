"""Write mined negatives with their anchors and positives in the formats of trainers.

minings ─subject→ Reader ─examples→ Example ─formats→ rows ─files→ JSON lines or Parquet at PATH

The format ``beir``, an evaluation set, needs no mining. Texts are whole sections. Rows are ordered
by source, anchor and rank, so equal minings give equal files.
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
    """The result of an export.

    Attributes:
        path: The file or folder.
        format: Its format.
        rows: Rows of the main file; for ``beir`` its labels.
        anchors: Written anchors; for ``beir`` queries.
        negatives: Written negatives, counted once an anchor; for ``beir`` 0.
        filled: Number of negatives drawn at random to complete the number.
        left_out: Excluded anchors by reason. ``negatives without a score`` counts negatives
            instead. For a ``repeated question`` (``beir``), the first anchor of its text has the
            positives.
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
    corpus: CorpusFile,
    /,
    path: str | Path,
    format: Format,  # noqa: A002 - the word of users
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

    A file appears only when it is complete. Anchors without a negative or a positive are excluded
    and counted.

    Args:
        path: ``sentence-transformers`` writes FILE.parquet or FILE.jsonl. ``flagembedding``,
            ``ms-swift`` and ``jsonl`` write FILE.jsonl. The others write a folder. ``tevatron``:
            ``train.jsonl`` and ``corpus.jsonl``. ``pylate``: ``train.jsonl`` (ids with scores),
            ``queries.jsonl`` and ``documents.jsonl``. ``lighton``: the same with ``scores.jsonl``.
            ``automodel``: ``train.json`` and the folder ``corpus``. ``beir``: ``corpus.jsonl``,
            ``queries.jsonl`` and ``qrels/SPLIT.tsv``. Ids of a single collection stay the same.
        format: Format of the file. Two formats need no mining. ``beir`` is an evaluation set.
            ``jsonl`` has all records with their normalised text and ``meta`` (source, id, file,
            row, digest). For collections without a recipe, ``beir`` has all documents, queries and
            labels. The other formats have positives, and count labels other than 1.
        negatives: Maximum number of negatives of each anchor, hardest first, or ``Negatives`` with
            scorer and cuts. Default: all. Every row of an ``n-tuple`` has exactly this number. 0
            writes pairs of anchor and positive, which need no mining. ``sampling`` and
            ``in_batch_margin`` have no effect in files; a note says so. Random negatives
            (``when_short``) obey the same rules, and are marked if the format allows it.
        recipe: A recipe or its name. Default: the recipe with the most mined anchors; without
            mining, for pairs and ``beir``, the first recipe that a sampler draws.
        source: Use this source only. Default: all sources of the mined recipe.
        split: The split. Default: ``train``; for ``beir`` ``test``, and all for its collections.
        shape: Shape of ``sentence-transformers``: ``triplet`` (the default), ``n-tuple``,
            ``labeled-pair`` or ``labeled-list``.
        consistent: Write only pairs whose positive a scorer ranks high enough, as for ``sampler``.
        documents: Documents of ``beir``: of the ``split`` (the default), or of ``all`` splits.
        scores: Write scores. Every positive has the lowest score of its anchor's positives.
        overwrite: Replace the file; for ``jsonl`` only a file of an earlier export. A folder is
            never replaced.
        progress: As for ``mine``.

    Raises:
        SamplerError, RecipeError, SplitError: An argument is wrong, or the path exists.
        SourceError: A file of ``jsonl`` cannot be written, or the path has another file.
        StateMismatchError: No negatives are mined, or they are stale.
        EmptyPoolError: No anchor remains.
    """
    database = corpus.database
    policy = Negatives(None) if negatives is None else negatives_of(negatives)
    if checked("format", format, Format, SamplerError) == "jsonl":
        others = {"negatives": negatives, "recipe": recipe, "source": source, "split": split}
        others |= {"shape": shape, "documents": documents, "scores": scores or None}
        others |= {"consistent": consistent}
        if wrong := [name for name, value in others.items() if value is not None]:
            raise SamplerError(f"{wrong[0]}=: format='jsonl' writes all records; remove it")
        rows = record_lines.written(database, path, overwrite=overwrite)
        return ExportReport(path=Path(path), format=format, rows=rows, anchors=0, negatives=0)
    if of_runs := [n for n in ("sampling", "in_batch_margin") if n in policy.to_dict()]:
        log.warning("export: %s is for batches of a run, and has no effect in files", of_runs[0])
    form = FORMS[format]
    request = _request(format, form, policy, shape=shape, scores=scores)
    checked("documents", documents, Documents | None, SamplerError)
    if documents is not None and form.mined:
        raise SamplerError(f"documents={documents!r} is for format='beir', not {format!r}")
    place, path = form.place, Path(path)
    check(path, place, overwrite=overwrite)
    collection = None
    if not form.mined and recipe is None and consistent is None:
        collection = Collections.chosen(database, source, split)
    if collection is not None:
        return _write_collections(collection, path, place, progress)
    split = split or ("train" if form.mined else "test")
    where: dict[str, Any] = {"source": source, "split": split}
    where["consistent"] = consistent_of(consistent, SamplerError)
    if form.mined and not request.pairs:
        subject = mined(database, recipe, **where, negatives=policy)
    else:
        subject = pooled(database, recipe, **where, every=documents == "all")
    request = replace(request, instruction=subject.recipe.instruction)
    # With several sources, ids need the names of sources.
    only = subject.sources[0] if len(subject.sources) == 1 else None
    collection = None if only is None else Collections.chosen(database, only, subject.split)
    with appearing(path, place, overwrite=overwrite) as temporary:
        with (
            SubjectReader.opened(database, subject, collection) as reader,
            working(INLINE, progress, "anchors") as work,
        ):
            tally = form.write(reader, request, temporary, work)
            sources = reader.sources
        if collection is not None and form.mined and place.files:
            others = sum(row["label"] != 1 for row in collection.labels())
            tally.left_out["label other than 1"] = others
        excluded = {reason: n for reason, n in sorted(tally.left_out.items()) if n}
        if not tally.rows:
            counts = ", ".join(f"{n} {reason}" for reason, n in excluded.items())
            raise EmptyPoolError(
                f"recipe {subject.recipe.name!r}, split {subject.split!r}: nothing to write: "
                f"{counts or 'there is no anchor'}"
            )
        files = _names(temporary) if place.files else [path.name]
    return ExportReport(
        path=path,
        format=format,
        recipe=subject.recipe.name,
        rows=tally.rows,
        anchors=tally.anchors,
        negatives=tally.negatives,
        filled=tally.filled,
        left_out=excluded,
        sources=sources,
        files=files,
    )


def _write_collections(
    found: Collections, path: Path, place: ExportPlace, progress: Progress | bool | None
) -> ExportReport:
    with (
        appearing(path, place, overwrite=False) as temporary,
        closing(found.database.cursor()) as own,
        own.transaction(),
        working(INLINE, progress, "labels") as work,
    ):
        tally = write_collection(replace(found, database=own), temporary, work)
        if not tally.rows:
            need_splits(found.database)
            where = "" if found.split is None else f" of split {found.split!r}"
            raise EmptyPoolError(
                f"{shown(listed(found.sources), 80)}: no label names a query{where}"
            )
        files = _names(temporary)
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


def _request(
    name: str, form: ExportFormat, policy: Negatives, *, shape: Shape | None, scores: bool
) -> ExportRequest:
    """Return the request for a format, or refuse its arguments."""
    if shape is not None and name != "sentence-transformers":
        raise SamplerError(f"shape={shape!r}: format={name!r} has no shapes; remove it")
    shape = checked("shape", shape or "triplet", Shape, SamplerError)
    num, short = policy.num, policy.when_short
    if policy != Negatives(None) and not form.mined:
        raise SamplerError(f"negatives={policy!r}: format={name!r} has none; remove it")
    if num == 0 and (scores or policy.chosen != Negatives()):
        argument = "scores" if scores else f"negatives={policy!r}"
        raise SamplerError(f"{argument}: 0 negatives give plain pairs; remove it")
    if policy.by is not None and (not isinstance(policy.by, str) or policy.by == "random"):
        raise SamplerError(
            f"negatives: by={policy.by!r}: an export takes the candidates of one scorer, as in "
            f"by='bm25'; when_short='random' adds random ones"
        )
    if scores and not form.scored:
        raise SamplerError(f"scores: format={name!r} has no scores; remove it")
    if short == "keep" and shape == "n-tuple":
        raise SamplerError(
            "when_short='keep': every row of shape='n-tuple' has the same number of negatives; "
            "give drop or random"
        )
    if short == "random" and scores:
        raise SamplerError("when_short='random': random negatives have no score; remove scores")
    return ExportRequest(
        shape=shape, negatives=num, pairs=num == 0, when_short=short or "", scores=bool(scores)
    )
