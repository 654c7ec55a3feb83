"""Report what a run draws: samples of each recipe, the mixture over steps, what was served."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.db import migrate
from duckplets.db.database import Database
from duckplets.db.short_open import for_a_moment
from duckplets.errors import StateMismatchError
from duckplets.ingest.records import fingerprint
from duckplets.report.plots import bars, lines, stacked_shares
from duckplets.report.tables import Table, asked, table_of
from duckplets.runs import state
from duckplets.samples.columns import negative_columns, slot_names

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler

_EACH = 5  # samples per recipe
_LEAFED = 100  # samples to leaf through
_LOOKED = 2_048  # samples searched for rare recipes
_RECIPES = 24  # recipes with samples
_BARS = 8  # as many as there are colours
_POINTS = 200  # points of a source's line
_AROUND = 80  # characters before and after a window
_MESSAGES = 12  # messages shown of a conversation
_DETAILS = ("record_id", "section", "kind", "window", "start", "length")
_FORECAST = "corpus.sampler(…).forecast().table"
_BASICS = ("position", "recipe", "source")

VISITS = "Visits per anchor"
"""Title of the table of streams with how often each anchor is visited."""


def columns_of(kind: str, negatives: int) -> list[str]:
    """Return the columns that identify the texts of samples."""
    if kind == "messages":
        return [*_BASICS, "record_id"]
    found = [f"{slot}_{detail}" for slot in slot_names(kind, negatives) for detail in _DETAILS]
    more = [] if kind == "texts" else ["swapped", *negative_columns(kind, negatives)]
    return [*_BASICS, *more, *found]


# -- samples ------------------------------------------------------------------------------------


def samples(database: Database, sampler: Sampler, cut: int) -> tuple[list[Table], list[Table]]:
    """Return samples of each recipe and the next ones of the run, texts cut at ``cut``."""
    kind = sampler.settings.kind
    batch = sampler.settings.batch_size
    rows = [
        row
        for part in islice(sampler.peek(-(-_LOOKED // batch)), -(-_LOOKED // batch))
        for row in part.to_pylist()
    ]
    slots = slot_names(kind, sampler.settings.negatives)
    version = sampler.settings.versions[-1].corpus_version

    def of(title: str, some: Sequence[dict[str, Any]]) -> Table:
        if kind == "messages":
            return _conversations(database, title, some, version, cut)
        return _cards(database, title, some, slots, version, cut)

    by_recipe: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_recipe.setdefault(row["recipe"], []).append(row)
    each = [
        of(f"Samples of {name}", some[:_EACH])
        for name, some in islice(sorted(by_recipe.items()), _RECIPES)
    ]
    return each, [of("Samples", rows[:_LEAFED])] if rows else []


def _cards(
    database: Database,
    title: str,
    rows: Sequence[dict[str, Any]],
    slots: Sequence[str],
    version: int,
    cut: int,
) -> Table:
    wanted = [text for row in rows for text in _wanted(row, slots)]
    numbered = [{"number": number} | text for number, text in enumerate(wanted)]
    lengths = {"cut": cut, "around": _AROUND}
    given: dict[str, int | str] = {"asked": json.dumps(numbered), "version": version, **lengths}
    return asked(database, title, "report/drawn/texts", given, form="cards", most=len(wanted))


def _conversations(
    database: Database, title: str, rows: Sequence[dict[str, Any]], version: int, cut: int
) -> Table:
    wanted = [{"number": n} | row for n, row in enumerate(rows)]
    lengths = {"cut": cut, "each": _MESSAGES}
    given: dict[str, int | str] = {"asked": json.dumps(wanted), "version": version, **lengths}
    return asked(
        database,
        title,
        "report/drawn/messages",
        given,
        form="cards",
        most=2 * _MESSAGES * len(rows),  # chosen and rejected messages
        note=f"Of a conversation the first {_MESSAGES} messages are shown.",
    )


def _wanted(row: dict[str, Any], slots: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what identifies the text of each slot."""
    for slot in slots:
        negative = slot.startswith("negative") or slot == "other"
        of = "negative" if slot == "other" else slot
        origin = {
            f"negative_{what}": row.get(f"{of}_{what}") if negative else None
            for what in ("by", "rank", "score")
        }
        details = {detail: row[f"{slot}_{detail}"] for detail in _DETAILS}
        basics = {name: row[name] for name in _BASICS}
        yield basics | {"swapped": row.get("swapped"), "slot": slot} | origin | details


# -- the mixture --------------------------------------------------------------------------------


def mixture(sampler: Sampler) -> list[Table]:
    """Return what a run draws, over steps and by recipe, beside what it has served."""
    forecast = sampler.forecast()
    batch = sampler.settings.global_batch
    total = sum(forecast.table["samples"].to_pylist())
    whole = table_of(
        "Shares of the sources",
        forecast.table.column_names,
        [list(row.values()) for row in forecast.table.to_pylist()],
        _FORECAST,
        of="python",
        note=forecast.title,
        plot=stacked_shares(forecast, steps=-(-total // batch)),
    )
    taken = [_taken(sampler)] if sampler.position else []
    return [whole, _visits(forecast.table.to_pylist()), *taken]


def _visits(rows: Sequence[dict[str, Any]]) -> Table:
    """Return visits per anchor by source and recipe, over all steps."""
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        of = found.setdefault(
            (row["source"], row["recipe"]), [row["anchors"], 0, 0, 0.0, row["negatives"]]
        )
        for place, name in ((1, "samples"), (2, "tokens"), (3, "visits")):
            of[place] += row[name]
    few = sorted(found.items(), key=lambda item: -item[1][3])[:_BARS]
    return table_of(
        VISITS,
        ("source", "recipe", "anchors", "samples", "tokens", "visits", "negatives"),
        [[*names, *of] for names, of in sorted(found.items())],
        _FORECAST,
        of="python",
        plot=bars(
            VISITS,
            [""],
            {f"{recipe} of {source}": [of[3]] for (source, recipe), of in few},
            x="recipe",
            y="visits",
        ),
    )


def _taken(sampler: Sampler) -> Table:
    """Return what a run has served of each source so far, beside the forecast."""
    expected: dict[str, list[int]] = {}
    for row in sampler.forecast(sampler.step).table.to_pylist():
        of = expected.setdefault(row["source"], [0, 0])
        of[0] += row["samples"]
        of[1] += row["tokens"]
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
            for name in sampler.settings.sources
        ],
        "corpus.resume(…).metrics()",
        of="python",
    )


# -- the state file -----------------------------------------------------------------------------


def saved(database: Database, path: Path, run: str | None) -> tuple[list[Table], list[str]]:
    """Return what the state file says of the runs, and why it says nothing.

    Raises:
        StateMismatchError: The requested run is missing, or of another corpus.
    """
    if run is not None:
        state.load(path, run)
    runs = state.runs(path)
    if not runs:
        return [], ["No run has been saved."]
    strange = [each.run for each in runs if not _is_of(database, each.corpus_version, each)]
    if strange:
        if run in strange:
            raise StateMismatchError(f"{path}: run {run!r} is of another corpus")
        return [], [f"{path.name} is of another corpus, so its runs are left out."]
    with for_a_moment(path, read_only=True) as opened:
        migrate.check(opened, "state")
        tables = [
            asked(opened, "Saved runs", "report/runs/cursors", of="state"),
            asked(opened, "Served by saved runs", "report/runs/served", of="state"),
        ]
        there = {name for (name,) in opened.run("report/runs/tables")}
        names = [run] if run is not None else sorted({each.run for each in runs})
        if "losses" in there:
            tables += [table for name in names for table in _losses(opened, name)]
    return tables, []


def _is_of(database: Database, version: int, run: Any) -> bool:
    """Return whether a run was saved for this corpus."""
    known = run.settings.get("records")
    return known is None or list(known) == fingerprint(database, version)


def _losses(opened: Database, run: str) -> Iterator[Table]:
    last = opened.run("report/runs/last_loss", {"run": run})[0][0]
    if last is None:
        return
    given = {"run": run, "apart": 1 + last // _POINTS}
    found = asked(opened, f"Loss of run {run}", "report/runs/losses", given, most=_POINTS * 8)
    series: dict[str, list[tuple[float, float]]] = {}
    for row in found.records():
        series.setdefault(row["source"], []).append((row["from_step"], row["loss"]))
    few = dict(islice(series.items(), 8))
    yield table_of(
        found.title,
        found.columns,
        found.rows,
        found.made_by,
        of="state",
        total=found.total,
        most=len(found.rows),
        plot=lines(found.title, few, x="step", y="loss"),
    )
