"""Write mined negatives with their anchors and positives in the formats of trainers.

minings ─subject→ Reader ─examples→ Example ─formats→ rows ─files→ JSON lines or Parquet at PATH

``beir``, an evaluation set, needs no mining. Texts are whole sections, uncut. Rows are ordered by
source, anchor and rank, so equal minings give equal files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from duckplets.base.checks import integer
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported
from duckplets.base.settings import checked
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import EmptyPoolError, SamplerError
from duckplets.export.examples import ExportRequest, SubjectReader
from duckplets.export.files import appearing, check
from duckplets.export.formats import FORMS, ExportFormat
from duckplets.export.subject import mined, pooled
from duckplets.recipes.recipes import Preset, TripletRecipe, checked_preset

__all__ = ["Documents", "ExportReport", "Format", "Shape", "WhenShort", "export_negatives"]

Format = Literal["sentence-transformers", "flagembedding", "ms-swift", "tevatron", "pylate", "beir"]
WhenShort = Literal["keep", "drop", "random"]
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


@stage("export negatives of")
def export_negatives(
    of: CorpusFile,
    /,
    path: str | Path,
    *,
    format: Format,  # noqa: A002 - it is what users call it
    recipe: TripletRecipe | str | None = None,
    source: str | None = None,
    split: str | None = None,
    preset: Preset | None = None,
    shape: Shape | None = None,
    negatives: int | None = None,
    when_short: WhenShort | None = None,
    corpus: Documents | None = None,
    scores: bool = False,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> ExportReport:
    """Write the anchors of a mined recipe, with positives and negatives, for a trainer.

    The files appear whole or not at all. An anchor without a negative or a positive is left
    out and counted.

    Args:
        path: ``sentence-transformers`` writes FILE.parquet or FILE.jsonl; ``flagembedding``
            and ``ms-swift`` FILE.jsonl; ``tevatron`` a folder with ``train.jsonl`` and
            ``corpus.jsonl``; ``pylate`` a folder with ``train.jsonl`` (ids with scores),
            ``queries.jsonl`` and ``documents.jsonl``; ``beir`` a folder with ``corpus.jsonl``,
            ``queries.jsonl`` and ``qrels/SPLIT.tsv``.
        format: Whose format. ``beir`` is an evaluation set and needs no mining.
        recipe: A recipe or the name of one; by default the one with the most mined anchors, of
            plain pairs and of ``beir`` else the first that a sampler would draw.
        source: From this source only; by default from all that the recipe was mined for.
        split: By default ``train``, of ``beir`` ``test``.
        preset: ``crate`` for the recipes of a sampler with that preset.
        shape: Of ``sentence-transformers``: ``triplet`` (the default), ``n-tuple``,
            ``labeled-pair`` or ``labeled-list``.
        negatives: So many of each anchor at most, the hardest; by default all. Every row of
            an ``n-tuple`` has exactly so many, and anchors with fewer are left out. 0 writes
            plain pairs of anchor and positive, which need no mining.
        when_short: What becomes of anchors with fewer negatives than ``negatives`` (without
            it: than the fullest anchor): ``keep`` them with what they have, ``drop`` them, or
            fill them up at ``random``, under the same guards; counted, and marked where the
            format has room (``neg_by`` of flagembedding, ``negative_by`` of tevatron). By
            default ``drop`` for an ``n-tuple``, else ``keep``.
        corpus: Of ``beir``: documents of the ``split`` alone, or of ``all`` splits.
        scores: Write scores. That of every positive is the lowest of its anchor's.
        overwrite: Replace the file. A folder is never replaced.
        progress: As for ``mine``.

    Raises:
        SamplerError, RecipeError, SplitError: An argument is wrong, or something is there.
        StateMismatchError: Nothing was mined, or it is stale.
        EmptyPoolError: No anchor is left.
    """
    database = of.database
    form = FORMS[checked("format", format, Format, SamplerError)]
    preset = checked_preset(preset)
    wanted = _wanted(
        format, form, shape=shape, negatives=negatives, when_short=when_short, scores=scores
    )
    checked("corpus", corpus, Documents | None, SamplerError)
    if corpus is not None and form.mined:
        what = f"corpus={corpus!r}: format={format!r}"
        raise SamplerError(f"{what} has no documents of its own choice")
    place, path = form.place, Path(path)
    check(path, place, overwrite=overwrite)
    split = split or ("train" if form.mined else "test")
    where: dict[str, Any] = {"source": source, "split": split, "preset": preset}
    if form.mined and not wanted.pairs:
        subject = mined(database, recipe, **where)
    else:
        subject = pooled(database, recipe, **where, every=corpus == "all")
    wanted = replace(wanted, instruction=subject.recipe.instruction)
    with appearing(path, place, overwrite=overwrite) as aside:
        with (
            SubjectReader.opened(database, subject) as reader,
            working(INLINE, progress, "anchors") as work,
        ):
            tally = form.write(reader, wanted, aside, work)
            sources = reader.sources
        left_out = {reason: n for reason, n in sorted(tally.left_out.items()) if n}
        if not tally.rows:
            counts = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
            raise EmptyPoolError(
                f"recipe {subject.recipe.name!r}, split {subject.split!r}: nothing to write: "
                f"{counts or 'there is no anchor'}"
            )
        found = (file.relative_to(aside) for file in aside.rglob("*") if file.is_file())
        files = sorted(name.as_posix() for name in found) if place.files else [path.name]
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


def _wanted(
    name: str,
    form: ExportFormat,
    *,
    shape: Shape | None,
    negatives: int | None,
    when_short: str | None,
    scores: bool,
) -> ExportRequest:
    """Return the request that arguments make of a format, if it can be met."""
    if shape is not None and name != "sentence-transformers":
        raise SamplerError(f"shape={shape!r}: format={name!r} has no choice; leave it out")
    shape = checked("shape", shape or "triplet", Shape, SamplerError)
    if negatives is not None:
        if not form.mined:
            raise SamplerError(f"negatives={negatives!r}: format={name!r} has none; leave it out")
        negatives = integer("negatives", negatives, 0)
        if negatives == 0 and (scores or when_short is not None):
            named = "scores" if scores else f"when_short={when_short!r}"
            raise SamplerError(f"{named}: with negatives=0 there are plain pairs; leave it out")
    if scores and not form.scored:
        raise SamplerError(f"scores: format={name!r} has no place for them")
    if checked("when_short", when_short, WhenShort | None, SamplerError) and not form.mined:
        raise SamplerError(f"when_short={when_short!r}: format={name!r} has no negatives")
    if when_short == "keep" and shape == "n-tuple":
        raise SamplerError(
            "when_short='keep': every row of shape='n-tuple' has the same number of negatives; "
            "give drop or random"
        )
    if when_short == "random" and scores:
        raise SamplerError(
            "when_short='random': what is drawn at random has no score; leave scores out"
        )
    return ExportRequest(
        shape=shape,
        negatives=negatives,
        pairs=negatives == 0,
        when_short=when_short or "",
        scores=bool(scores),
    )
