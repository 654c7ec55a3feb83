"""Apply a policy to mined candidates: find the survivors of each anchor and the cut of the others.

parts of a mining ─cut_by, in SQL→ within margins and scores ─range→ by anchor and rank
               labelled_pairs ─┘

``cut_by``, a macro of the corpus file, is the only definition: the view ``negatives``, samplers,
exports and reports use it. Rows are sorted by falling score, so the survivors of an anchor are one
run of rows, and rows stream in stored order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Floats, Integers, Words, turns
from duckplets.base.settings import value_shown
from duckplets.base.stages import stage
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.db.writes import CorpusFile
from duckplets.errors import RecipeError
from duckplets.ingest import records
from duckplets.mining.labels import relabelled_sections
from duckplets.mining.store import Mining, Minings, folder_of
from duckplets.pools.arrays import pair_hashes
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import Mined, Negatives, negatives_of, policy_for
from duckplets.recipes.recipes import Recipe, TripletRecipe

QUANTILES = ("0 %", "5 %", "25 %", "50 %", "75 %", "95 %", "100 %")
_CUTS = ("absolute_margin", "relative_margin", "min_score", "max_score")
_BATCH = 1 << 20
_SAMPLED = 4_000_000  # candidates sampled for quantiles


def survivors(
    database: Database, mining: Mining, policy: Mined, version: int
) -> Iterator[tuple[Integers, Integers, Integers, Floats, Floats]]:
    """Yield the candidates that pass a policy and the labels of a version, by anchor and rank."""
    settings = _parameters(database, mining, policy)
    if not settings["files"]:
        return
    refused = _pairs(*relabelled_sections(database, version))
    tops = settings["absolute_margin"], settings["relative_margin"], settings["max_score"]
    # without a cut at the top, survivors have the first ranks
    bounded = tops == (None, None, None) and not len(refused)
    settings["most"] = policy.range_max if bounded else None
    last, before = -1, 0  # anchor of the last row, and number of its rows so far
    for batch in database.stream(query("mining/store/left"), settings, rows=_BATCH):
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        if len(refused):
            is_legal = ~np.isin(_pairs(columns[0], columns[2]), refused)
            columns = [column[is_legal] for column in columns]
        anchors, ranks, negatives, *scores = columns
        if not len(anchors):
            continue
        place = turns(anchors)
        if anchors[0] == last:
            place[: np.searchsorted(anchors, last, side="right")] += before
        last, before = anchors[-1], place[-1] + 1
        at = np.flatnonzero((place >= policy.range_min) & (place < policy.range_max))
        yield anchors[at], ranks[at], negatives[at], scores[0][at], scores[1][at]


def _pairs(anchors: Integers, negatives: Integers) -> Words:
    return pair_hashes(anchors, negatives.astype(np.uint64))


def outcomes(database: Database, mining: Mining, policy: Mined) -> dict[str, int]:
    """Count the anchors and candidates of a mining by their outcome under a policy."""
    settings = _parameters(database, mining, policy)
    if not settings["files"]:
        return {}
    settings |= {"range_min": policy.range_min, "range_max": policy.range_max}
    settings["version"] = records.current_version(database)
    (row,) = database.table("mining/store/outcomes", settings).to_pylist()
    return {name: int(count or 0) for name, count in row.items()}


def quantiles(database: Database, mining: Mining) -> tuple[dict[str, dict[str, float]], int]:
    """Return quantiles of scores and of the positives' ranks, and the number of unranked ones."""
    every = 1 + mining.candidates // _SAMPLED
    files = mining.files(folder_of(database))
    if not files:
        return {name: {} for name in ("negative_score", "positive_score", "positive_rank")}, 0
    (row,) = database.table("mining/store/quantiles", {"files": files, "every": every}).to_pylist()
    unranked = row.pop("unranked") * every
    return {n: dict(zip(QUANTILES, v, strict=True)) if v else {} for n, v in row.items()}, unranked


def found(database: Database, mining: Mining) -> dict[str, float]:
    """Return recall and reciprocal rank of the positives; empty if none is ranked."""
    row = _of_positives(database, mining, "mining/store/found")
    return {name: value for name, value in row.items() if value is not None}


def _of_positives(database: Database, mining: Mining, statement: str) -> dict[str, Any]:
    """Return the row of a statement over the files of positives; empty without files."""
    files = mining.files(folder_of(database), "positives")
    return dict(database.table(statement, {"files": files}).to_pylist()[0]) if files else {}


def explained(database: Database, mining: Mining, policy: Mined, anchor: str) -> pa.Table:
    """Return the candidates of an anchor (record id or text), with the reason for each cut."""
    settings = _parameters(database, mining, policy) | {"anchor": anchor}
    settings["version"] = records.current_version(database)
    rows = database.table("mining/store/why", settings)
    cuts, place = list[str](), 0
    for row in rows.select(["anchor", "rank", "cut"]).to_pylist():
        place = 0 if row["rank"] == 1 else place
        cuts.append(row["cut"] or "")
        if not row["cut"]:
            within = policy.range_min <= place < policy.range_max
            cuts[-1], place = "" if within else "range", place + 1
    at = rows.schema.get_field_index("cut")
    return rows.set_column(at, "cut", pa.array(cuts, pa.string()))


def _parameters(database: Database, mining: Mining, policy: Mined) -> dict[str, Any]:
    settings = {name: value for name, value in asdict(policy).items() if name in _CUTS}
    return settings | {"files": mining.files(folder_of(database))}


@stage("look at negatives of")
def negatives(
    corpus: CorpusFile,
    /,
    anchor: str | None = None,
    *,
    negatives: Negatives | None = None,
    recipe: TripletRecipe | str | None = None,
    source: str | None = None,
    split: str | None = None,
) -> pa.Table:
    """Count the candidates that pass a cut, or list the candidates of one anchor.

    Args:
        anchor: An anchor, by record id or text. The rows are then its candidates with their
            scores. ``cut`` is the reason why one is not drawn; it is empty for drawn ones.
        negatives: Another cut, as ``Negatives``; its ``by`` limits the scorers. Default: the cut of
            the recipe.
        recipe: Show the candidates that this recipe draws from, whatever their recipe.
        source: Show this source only.
        split: Show this split only.

    Returns:
        Rows by mining: recipe, source, split, scorer, anchors, candidates, counts of anchors by
        outcome (full, short, none) and of candidates by outcome. ``positives`` and ``within_1``,
        ``within_5``, ``within_20``, ``within_100`` count positives by rank, for ``consistent=``.
        With ``anchor`` rows by rank: recipe, scorer, anchor, rank, negative, score,
        positive_score, positive_rank, cut and text.

    Raises:
        RecipeError: There are no candidates.
    """
    if not isinstance(anchor, str | None):
        raise RecipeError(
            f"anchor={value_shown(anchor)}: give the record id or the text of an anchor"
        )
    database, cut = corpus.database, Negatives() if negatives is None else negatives_of(negatives)
    version = records.current_version(database)
    known = recipe_store.names(database, version)
    wanted: Recipe | None = None if isinstance(recipe, str) else recipe
    if isinstance(recipe, str) and recipe in known:
        wanted = recipe_store.find(database, recipe, version)
    if wanted is None:
        minings = Minings(database).found(cast(str | None, recipe), source=source, split=split)
    else:
        recipe, minings = wanted.name, Minings(database).drawn_by(wanted, source, split)
    minings = [mining for mining in minings if mining.scorer in cut.ways or not cut.ways]
    tables: list[pa.Table] = []
    for mining in minings:
        policy = cut.policy(mining.scorer)
        if policy is None:
            own = wanted
            if own is None and mining.recipe in known:
                own = recipe_store.find(database, mining.recipe, version)
            policy = policy_for(getattr(own, "by", None), mining.scorer)
        names = {"recipe": recipe or mining.recipe, "source": mining.source, "split": mining.split}
        names |= {"scorer": mining.scorer}
        if anchor is None:
            row = names | {"anchors": mining.anchors, "candidates": mining.candidates}
            row |= outcomes(database, mining, policy)
            row |= _of_positives(database, mining, "mining/store/within")
            tables.append(pa.Table.from_pylist([row]))
        elif (rows := explained(database, mining, policy, anchor)).num_rows:
            for name in ("scorer", "recipe"):
                rows = rows.add_column(0, name, pa.array([names[name]] * rows.num_rows))
            tables.append(rows)
    if not tables:
        of = f"of {anchor!r} " if anchor is not None and minings else ""
        raise RecipeError(
            f"no candidates {of}were mined for "
            f"{'recipe ' + repr(recipe) if recipe else 'any recipe'}"
            f"{' by ' + ', '.join(map(repr, cut.ways)) if cut.ways else ''}; mine them: "
            f"duckplets mine {database.path}"
        )
    return pa.concat_tables(tables, promote_options="default")
