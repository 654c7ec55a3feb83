"""Find hard negatives: the verbs of a corpus from index and search to mine, add and export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.base.stages import stage
from duckplets.corpus.writes import changes
from duckplets.engine.work import working
from duckplets.errors import RecipeError
from duckplets.ingest import records
from duckplets.recipes import store as recipe_store
from duckplets.recipes.bm25 import given_settings
from duckplets.recipes.recipes import TripletRecipe

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.corpus.corpus import Corpus
    from duckplets.export import Documents, ExportReport, Format, Shape, WhenShort
    from duckplets.mining.external import GivenReport
    from duckplets.mining.report import MiningReport
    from duckplets.recipes.bm25 import RangeOn, Sampling, Scope
    from duckplets.recipes.bm25 import WhenShort as Policy
    from duckplets.recipes.defaults import Preset
    from duckplets.search.analyzer_settings import Terms
    from duckplets.search.index import IndexReport
    from duckplets.vectors.knn import SearchBy


@changes("index")
def index(
    corpus: Corpus,
    /,
    terms: Terms | None = None,
    *,
    source: str | None = None,
    split: str | None = None,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> list[IndexReport]:
    """Build the full-text indexes that are missing or stale; the others stay as they are.

    Searching and mining do that themselves, so it is needed only to choose ``terms``.

    Args:
        terms: How text becomes terms from now on: stemmer, stop words.
        source: Of this source only; by default of all.
        split: Of this split only.
        engine: What splits texts into words, as for ``mine``.
        progress: As for ``ingest``.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
    """
    from duckplets.search import index

    with working(engine, progress, "documents") as work:
        return index.refresh(
            corpus.database,
            terms=terms,
            source=source,
            split=split,
            work=work,
        )


def terms(corpus: Corpus, /, source: str | None = None, **changes: Any) -> Terms:
    """Return how text becomes terms, some settings changed, for ``index``.

    Args:
        source: In this source; by default in all that have no settings of their own.
        changes: Fields of ``Terms``.

    Raises:
        RecipeError: A setting is unknown or wrong.
    """
    from duckplets.search import index
    from duckplets.search.analyzer_settings import Terms

    return Terms.from_dict(index.terms_of(corpus.database, source).to_dict() | changes)


def search(
    corpus: Corpus,
    /,
    text: Any,
    k: int = 10,
    source: str | None = None,
    split: str | None = None,
    *,
    by: SearchBy = "bm25",
    encoder: Any = None,
) -> pa.Table:
    """Return the sections that fit a text best, by BM25 or by vectors, or by both.

    Args:
        text: What to look for: any text, its distinct terms count. By vectors also a vector
            of the set, (dimension,).
        k: At most so many.
        source: In this source only; by default in the whole corpus.
        split: In this split only.
        by: ``bm25``, or the name of a set of vectors: all of them are compared, by cosine,
            and a section is as near as the nearest of its chunks. Or a list of these: the
            score is then the sum of 1 / (60 + rank) over those among whose first 100 (k, if
            that is more) it is, and columns ``rank_NAME`` have its ranks.
        encoder: What makes a vector of the text, as ``embed`` takes it; by default the
            model that the set was made by. The text gets the set's prompt for anchors.

    Returns:
        Columns ``record_id``, ``score``, ``text``, ``source``, ``split``, ``section`` (its
        position), ``role`` and ``snippet``; the best first, equal ones by record id.

    Raises:
        QueryError: An index is missing or stale and the corpus is open read-only.
        VectorError: There is no such set, or text, vector or encoder do not fit it.
    """
    if by == "bm25" and encoder is None:
        from duckplets.search import search

        return search.search(corpus.database, text, k, source=source, split=split)
    from duckplets.vectors import knn

    return knn.search_by(
        corpus.database, text, k, by=by, source=source, split=split, encoder=encoder
    )


@changes("mine negatives in")
def mine(
    corpus: Corpus,
    /,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None = None,
    *,
    source: str | None = None,
    split: str | None = None,
    preset: Preset | None = None,
    top_k: int | None = None,
    range_min: int | None = None,
    range_max: int | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    range_on: RangeOn | None = None,
    query_tokens: int | None = None,
    sampling: Sampling | None = None,
    rotation: int | None = None,
    when_short: Policy | None = None,
    scope: Scope | None = None,
    shard_documents: int | None = None,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> MiningReport:
    """Mine hard negatives by BM25, where they are missing or stale.

    Samplers draw them from then on, unless they or a recipe say ``by="random"``. Interrupted,
    killed even, it goes on where it was when called again.

    Args:
        recipe: A recipe or several, or names of them; by default every triplet recipe that a
            sampler would draw, but for those that say ``by="random"`` or cannot be mined, as
            those of strategy ``same_record``.
        source: For this source only; by default for all.
        split: For this split only; by default for all that have anchors.
        preset: ``crate`` for the recipes of a sampler with that preset.
        top_k: How many are kept for each anchor; 32 by default. This and the others up to
            ``shard_documents`` are the attributes of ``dp.bm25``, for recipes that leave them
            open. Where none is given, what was mined with others stays as it is.
        range_min: So many of the first are passed over.
        range_max: Ranks that are looked at, before any filter by score; by default all.
        min_score: Drop what scores less.
        max_score: Drop what scores more.
        absolute_margin: Drop what does not score so much less than the anchor's positive. For
            scores that judge the positive, as those of a model do: by BM25 it often has none.
        relative_margin: The same, as a share of the positive's score.
        range_on: Whether ``range_min`` passes over ``survivors`` of the filters (the default),
            or ``raw`` ranks.
        query_tokens: How many of the anchor's first tokens are looked for; 64 by default.
        sampling: ``rotate`` through those kept by visits to the anchor (the default), always
            take the ``top``, or draw at ``random``.
        rotation: Rotate or draw over the first so many of those kept; by default all.
        when_short: What to do about an anchor with fewer than were asked for: ``backfill``
            from beyond ``range_max`` (the default), fill up at ``random``, ``drop`` it, or
            ``keep`` it so.
        scope: Search the whole ``pool`` (the default), or the anchor's own ``shard`` of it.
        shard_documents: Documents of a shard; 65,536 by default.
        engine: What runs the work: None for this process, ``local:4`` for four processes of
            this machine, ``dask://HOST:PORT`` for a cluster of Dask, or a
            ``distributed.Client``. The result is the same.
        progress: Called with anchors done and their number; True or False for a bar on
            stderr or none, by default a bar if stderr is a terminal.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
        EngineError: The engine is none, cannot be reached, or fails.
    """
    settings = given_settings(locals())
    from duckplets.mining import mine as mining

    with working(engine, progress, "anchors") as work:
        return mining.mine(
            corpus.database,
            recipe,
            settings,
            source=source,
            split=split,
            preset=preset,
            work=work,
        )


@changes("add negatives to")
def add_negatives(
    corpus: Corpus,
    /,
    table: Any,
    *,
    name: str | TripletRecipe,
    source: str | None = None,
    split: str | None = None,
    top_k: int | None = None,
    range_min: int | None = None,
    range_max: int | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    range_on: RangeOn | None = None,
    sampling: Sampling | None = None,
    rotation: int | None = None,
    when_short: Policy | None = None,
    progress: Progress | bool | None = None,
) -> GivenReport:
    """Take negatives that something else has ranked, under the same guards as mined ones.

    Args:
        table: Rows of ``anchor_id``, ``negative_id`` (record ids) and ``score``: an Arrow
            table or reader, a data frame, or dicts. For scores of sections,
            ``anchor_section_key`` and ``negative_section_key`` instead. Rows whose negative
            is a positive of the anchor tell its score, for margins.
        name: The recipe they are for, or its name; samplers with it draw from them.
        source: Only rows of this source.
        split: Only rows of this split.
        top_k: As for ``mine``, like the others up to ``when_short``. What a recipe says
            itself, in ``by=dp.bm25(...)``, holds.
        range_min: As for ``mine``.
        range_max: As for ``mine``.
        min_score: As for ``mine``.
        max_score: As for ``mine``.
        absolute_margin: As for ``mine``.
        relative_margin: As for ``mine``.
        range_on: As for ``mine``.
        sampling: As for ``mine``.
        rotation: As for ``mine``.
        when_short: As for ``mine``.
        progress: As for ``mine``.

    Raises:
        RecipeError: The table or an argument is wrong.
    """
    settings = given_settings(locals())
    from duckplets.mining import external

    recipe = _triplet_recipe(corpus, name) if isinstance(name, str) else name
    with working(None, progress, "anchors") as work:
        return external.add(
            corpus.database,
            table,
            recipe=recipe,
            source=source,
            split=split,
            settings=settings,
            work=work,
        )


@stage("export negatives of")
def export_negatives(
    of: Corpus,
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
    allow_stale: bool = False,
    progress: Progress | bool | None = None,
) -> ExportReport:
    """Write the anchors of a mined recipe, with positives and negatives, for a trainer.

    The files appear whole or not at all. An anchor without a negative or a positive is left
    out and counted.

    Args:
        path: ``sentence-transformers`` writes FILE.parquet or FILE.jsonl; ``flagembedding``
            FILE.jsonl; ``tevatron`` a folder with ``train.jsonl`` and ``corpus.jsonl``, or
            FILE.jsonl of ``passages``; ``beir`` a folder with ``corpus.jsonl``,
            ``queries.jsonl`` and ``qrels/SPLIT.tsv``.
        format: Whose format. ``beir`` is an evaluation set and needs no mining.
        recipe: A recipe or the name of one; by default the one with the most mined anchors, of
            plain pairs and of ``beir`` else the first that a sampler would draw.
        source: From this source only; by default from all that the recipe was mined for.
        split: By default ``train``, of ``beir`` ``test``.
        preset: ``crate`` for the recipes of a sampler with that preset.
        shape: Of ``sentence-transformers``: ``triplet`` (the default), ``n-tuple``,
            ``labeled-pair`` or ``labeled-list``. Of ``tevatron``: ``documents`` (the default)
            or ``passages`` (texts in every row).
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
        overwrite: Replace what an earlier export wrote there.
        allow_stale: Export what was mined although records or recipe have changed since.
        progress: As for ``mine``.

    Raises:
        SamplerError, RecipeError, SplitError: An argument is wrong, or something is there.
        StateMismatchError: Nothing was mined, or it is stale.
        EmptyPoolError: No anchor is left.
    """
    from duckplets import export

    with working(None, progress, "anchors") as work:
        return export.export(
            of.database,
            path,
            format=format,
            recipe=recipe,
            source=source,
            split=split,
            preset=preset,
            shape=shape,
            negatives=negatives,
            when_short=when_short,
            corpus=corpus,
            scores=scores,
            overwrite=overwrite,
            allow_stale=allow_stale,
            work=work,
        )


def evaluator(
    of: Corpus,
    /,
    split: str = "test",
    *,
    corpus: Documents = "split",
    recipe: TripletRecipe | str | None = None,
    source: str | None = None,
    **options: Any,
) -> Any:
    """Return an ``InformationRetrievalEvaluator``; see ``huggingface.evaluator``."""
    from duckplets.adapters import huggingface

    return huggingface.evaluator(of, split, corpus=corpus, recipe=recipe, source=source, **options)


def _triplet_recipe(corpus: Corpus, /, name: str) -> TripletRecipe:
    version = records.current_version(corpus.database)
    recipe = recipe_store.find(corpus.database, name, version)
    if isinstance(recipe, TripletRecipe):
        return recipe
    raise RecipeError(f"recipe {name!r} makes texts, and only triplets have negatives")
