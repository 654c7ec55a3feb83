"""Report the samples of a run: by recipe, the mixture over steps, and the served ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.report.plots import bars, lines, stacked_shares
from duckplets.report.tables import Table, selected, table_of
from duckplets.runs.forecast import share_words
from duckplets.samples.columns import negative_columns, slot_names

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler

_EACH = 5  # samples per recipe
_FOLLOWING = 100  # next samples of the run
_SEARCHED = 2_048  # samples searched for rare recipes
_RECIPES = 24  # recipes with samples
_BARS = 8  # the number of colours
_POINTS = 200  # points of a source's line
_AROUND = 80  # characters before and after a window
_DETAILS = ("record_id", "section", "kind", "window", "start", "length")
_FORECAST = "corpus.sampler(…).forecast().table"
_BASICS = ("position", "recipe", "source")

VISITS = "Visits per anchor"
"""Title of the table of streams with the visits of each anchor."""
LOSSES = "Loss by source"
"""Title of the table of reported losses."""


def columns_of(kind: str, negatives: int) -> list[str]:
    """Return the columns that identify the texts of samples."""
    found = [f"{slot}_{detail}" for slot in slot_names(kind, negatives) for detail in _DETAILS]
    more = [] if kind == "texts" else ["swapped", *negative_columns(kind, negatives)]
    return [*_BASICS, *more, *found]


# -- samples ------------------------------------------------------------------------------------


def samples(database: Database, sampler: Sampler, cut: int) -> tuple[list[Table], list[Table]]:
    """Return samples of each recipe and the next ones of the run, texts cut at ``cut``."""
    batches = -(-_SEARCHED // sampler.settings.batch_size)
    rows = [row for batch in islice(sampler.peek(batches), batches) for row in batch.to_pylist()]
    slots = slot_names(sampler.settings.kind, sampler.settings.num)
    version = sampler.settings.versions[-1].corpus_version

    by_recipe: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_recipe.setdefault(row["recipe"], []).append(row)
    each = [
        _cards(database, f"Samples of {name}", some[:_EACH], slots, version, cut)
        for name, some in islice(sorted(by_recipe.items()), _RECIPES)
    ]
    if not rows:
        return each, []
    return each, [_cards(database, "Samples", rows[:_FOLLOWING], slots, version, cut)]


def _cards(
    database: Database,
    title: str,
    rows: Sequence[dict[str, Any]],
    slots: Sequence[str],
    version: int,
    cut: int,
) -> Table:
    texts = [text for row in rows for text in _texts(row, slots)]
    numbered = [{"number": number} | text for number, text in enumerate(texts)]
    parameters: dict[str, int | str] = {"texts": json.dumps(numbered), "version": version}
    parameters |= {"cut": cut, "around": _AROUND}
    return selected(
        database, title, "report/drawn/texts", parameters, form="cards", most=len(texts)
    )


def _texts(row: dict[str, Any], slots: Sequence[str]) -> Iterator[dict[str, Any]]:
    for slot in slots:
        negative = slot.startswith("negative") or slot == "other"
        name = "negative" if slot == "other" else slot
        origin = {
            f"negative_{fact}": row.get(f"{name}_{fact}") if negative else None
            for fact in ("by", "rank", "score")
        }
        details = {detail: row[f"{slot}_{detail}"] for detail in _DETAILS}
        basics = {name: row[name] for name in _BASICS}
        yield basics | {"swapped": row.get("swapped"), "slot": slot} | origin | details


# -- the mixture --------------------------------------------------------------------------------


def mixture(sampler: Sampler) -> list[Table]:
    """Return the samples of a run over steps and by recipe, and the served ones."""
    forecast = sampler.forecast()
    batch = sampler.settings.global_batch
    words = share_words(sampler.settings, sampler.planner.schedule.mixture)
    total = sum(forecast.table["samples"].to_pylist())
    whole = table_of(
        "Shares of the sources",
        forecast.table.column_names,
        [list(row.values()) for row in forecast.table.to_pylist()],
        _FORECAST,
        of="python",
        note="; ".join([forecast.title, *words, *forecast.ends]),
        plot=stacked_shares(forecast, steps=-(-total // batch)),
    )
    served = [_served(sampler)] if sampler.position else []
    return [whole, _visits(forecast.table.to_pylist()), *served, *_losses(sampler)]


def _visits(rows: Sequence[dict[str, Any]]) -> Table:
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        value = [row["value"]] if "value" in row else []
        counts = found.setdefault(
            (" / ".join([row["source"], *value]), row["recipe"]),
            [row["anchors"], 0, 0, 0.0, row["negatives"]],
        )
        for place, name in ((1, "samples"), (2, "tokens"), (3, "visits")):
            counts[place] += row[name]
    few = sorted(found.items(), key=lambda item: -item[1][3])[:_BARS]
    return table_of(
        VISITS,
        ("source", "recipe", "anchors", "samples", "tokens", "visits", "negatives"),
        [[*names, *counts] for names, counts in sorted(found.items())],
        _FORECAST,
        of="python",
        plot=bars(
            VISITS,
            [""],
            {f"{recipe} of {source}": [counts[3]] for (source, recipe), counts in few},
            x="recipe",
            y="visits",
        ),
    )


def _served(sampler: Sampler) -> Table:
    expected: dict[str, list[int]] = {}
    for row in sampler.forecast(sampler.step).table.to_pylist():
        counts = expected.setdefault(row.get("value", row["source"]), [0, 0])
        counts[0] += row["samples"]
        counts[1] += row["tokens"]
    metrics = sampler.metrics()
    return table_of(
        f"Served up to step {sampler.step:,}",
        ("source", "samples", "expected_samples", "tokens", "expected_tokens"),
        [
            [
                name,
                metrics.get(f"data/{name}/samples", 0),
                expected.get(name, [0, 0])[0],
                metrics.get(f"data/{name}/tokens", 0),
                expected.get(name, [0, 0])[1],
            ]
            for name in sampler.settings.names
        ],
        "corpus.resume(…).metrics()",
        of="python",
    )


def _losses(sampler: Sampler) -> list[Table]:
    """Return the reported losses of a run, as means for at most ``_POINTS`` points."""
    reported = sampler.losses()
    if not reported.num_rows:
        return []
    steps = 1 + pc.max(reported["step"]).as_py() // _POINTS
    reported = reported.append_column("nth", pc.divide(reported["step"], steps))
    how = [("step", "min"), ("step", "max"), ("loss", "count"), ("loss", "mean")]
    means = reported.group_by(["source", "nth"], use_threads=False).aggregate(how)
    rows = means.sort_by([("source", "ascending"), ("nth", "ascending")]).drop_columns("nth")
    series: dict[str, list[tuple[float, float]]] = {}
    for source, first, _, _, loss in (row.values() for row in rows.to_pylist()):
        series.setdefault(source, []).append((first, loss))
    few = dict(islice(series.items(), _BARS))
    return [
        table_of(
            LOSSES,
            ("source", "from_step", "to_step", "reports", "loss"),
            [list(row.values()) for row in rows.to_pylist()],
            "corpus.resume(…).losses()",
            of="python",
            plot=lines(LOSSES, few, x="step", y="loss"),
        )
    ]
