"""The verbs of a corpus about recipes, their pools, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duckplets.db.parser import check_query
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import QueryError
from duckplets.ingest import records
from duckplets.ingest.splits import checked_split
from duckplets.mining.store import Minings
from duckplets.mining.views import show
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import policy_of
from duckplets.recipes.recipes import checked_preset

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.pools.arrays import Pool
    from duckplets.recipes.mined import Mined
    from duckplets.recipes.recipes import Preset

Recipe = recipe_store.Recipe


@changes("add a recipe to")
def add_recipe(corpus: CorpusFile, /, recipe: Recipe) -> bool:
    """Store a recipe: samplers that are given none then draw by the stored ones.

    Returns:
        Whether it was not stored yet, just so.
    """
    return recipe_store.add(corpus.database, recipe, records.current_version(corpus.database))


def recipes(corpus: CorpusFile, /) -> list[Recipe]:
    """Return the stored recipes, by name."""
    return recipe_store.stored(corpus.database)


def brought_recipes(corpus: CorpusFile, /) -> dict[str, list[Recipe]]:
    """Return by source its own recipes or its defaults, without long sections."""
    sources = recipe_store.sources_of(corpus.database, records.current_version(corpus.database))
    return {name: list(brought.recipes(None)) for name, brought in sources.items()}


def pool(
    corpus: CorpusFile,
    /,
    recipe: str | Recipe,
    *,
    source: str | None = None,
    split: str = "train",
    sql: bool = False,
    preset: Preset | None = None,
) -> pa.Table | str:
    """Return the pool of a recipe, one row an anchor, or its statement.

    Columns: ``record_key``, ``record_id``, ``anchors`` (keys of its chunks) and ``anchor``, the
    text of the section of the first. It is the pool of a new run, so of mined negatives where
    there are some. Anchors that a policy drops (``when_short="drop"``) are not among them.

    Args:
        recipe: A recipe, or the name of one.
        source: Name of a source. Default: the first that the recipe suits.
        split: Name of a split.
        sql: Return the statement for the duckdb CLI instead, with its parameters written in.
        preset: ``crate`` for the recipes of a sampler with that preset.
    """
    compiled = compiled_pool(corpus, recipe, source, split, preset)
    if sql:
        return compiled.runnable()
    with PoolReader(corpus.database, [compiled]) as reader:
        rows, policy = (
            reader.list(compiled, "pool"),
            policy_of(getattr(compiled.recipe, "by", None)),
        )
        if policy is None or policy.when_short != "drop":
            return rows
        read = reader.read(compiled)
    return _without_short(corpus, rows, read, policy)


def _without_short(corpus: CorpusFile, rows: pa.Table, pool: Pool, policy: Mined) -> pa.Table:
    """Return the rows of a pool without the anchors that a policy leaves no candidate."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from duckplets.samples import candidates

    compiled, database = pool.compiled, corpus.database
    where = {name: compiled.parameters[name] for name in ("source", "split")}
    mining = Minings(database).serving(compiled.recipe, **where).get(policy.scorer)
    if mining is None or pool.guarded is None:
        return rows
    left = candidates.read(database, pool, mining, policy, scores=False)
    short = np.isin(pool.guarded.sections, left.short(compiled.negatives))
    anchors = rows["anchors"].combine_chunks()
    kept = np.isin(anchors.flatten(), pool.anchors.chunks[short], invert=True)
    owners = pc.list_parent_indices(anchors).to_numpy()[kept]
    counts = np.bincount(owners, minlength=len(anchors))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(ends, anchors.flatten().filter(pa.array(kept)))
    at = rows.schema.get_field_index("anchors")
    return rows.set_column(at, "anchors", lists).filter(pa.array(counts > 0))


def compiled_pool(
    corpus: CorpusFile,
    name: str | Recipe,
    source: str | None,
    split: str,
    preset: Preset | None = None,
) -> CompiledPool:
    """Compile the pool that a sampler draws a recipe from; see ``pool``."""
    database = corpus.database
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    recipe = recipe_store.find(database, name, version, source, checked_preset(preset))
    if source is None:
        source = recipe_store.first_source(database, recipe, version)
    minings, of = Minings(database), labels_of(database, version).of(source)
    recipe = minings.as_drawn(recipe, source, checked_split(split))
    where: dict[str, Any] = {"source": source, "split": split, "version": version}
    return compile_pool(recipe, ranked=minings.ranks_of(recipe, **where), **where, **of)


def sql(corpus: CorpusFile, /, query: str, params: Mapping[str, Any] | None = None) -> pa.Table:
    """Run one reading statement over the corpus's tables and return its rows, with whole values.

    ``statement_timeout`` of the corpus bounds it, and fetching its rows. DuckDB cannot interrupt a
    function at work: a statement that makes a value of a gigabyte is stopped after that value.

    Raises:
        QueryError: It is no reading statement, or DuckDB refuses it.
        DamagedFileError: It calls a macro of a recipe, and the definition of a recipe is damaged.
        DeadlineError: It took longer than ``statement_timeout``.
    """
    kinds = corpus.database.statement_type(query)
    if kinds not in (["SELECT"], ["EXPLAIN"]):
        raise QueryError(
            f"sql() runs one SELECT statement, not {' and '.join(kinds) or 'nothing'}; "
            f"open the file with the duckdb CLI to change it"
        )
    if check_query(query):
        recipes(corpus)  # a macro beside a damaged definition was compared with nothing
        brought_recipes(corpus)
    return corpus.database.read(query, params, show if corpus.read_only else None)
