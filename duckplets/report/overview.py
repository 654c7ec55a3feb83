"""The overview of the page: sizes, shares, and what needs attention."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import counted, listed, size, tallied
from duckplets.ingest.splits import SPLITS
from duckplets.report.drawn import VISITS
from duckplets.report.plots import bars
from duckplets.report.tables import Section, Table, table_of

if TYPE_CHECKING:
    from duckplets.corpus.status import Status

_OFTEN = 10  # times as often as others: visits from there on are told of
_DRAWN = 8  # sources, the largest
_NAMED = 5  # of several things, in a sentence
_COUNTS = ("records", "sections", "chunks", "tokens")

Rows = Sequence[Mapping[str, Any]]


def overview(path: Path, status: Status, tables: Mapping[str, Rows]) -> Section:
    """Return the section with sizes, shares, and what needs attention."""
    sources = status["sources"]
    by_split: dict[str, int] = {}
    for row in status["records"]:
        by_split[row["split"]] = by_split.get(row["split"], 0) + row["records"]
    sizes = {"sources": len(sources)}
    sizes |= {name: sum(source[name] for source in sources) for name in _COUNTS}
    sizes |= {f"in {name}" if name else "in no split": n for name, n in by_split.items()}
    on_disk = [["on disk", size(path.stat().st_size)]]
    corpus, call = shlex.quote(str(path)), "corpus.status()"
    attention = [
        *_of_status(status, corpus),
        *_left_short(tables.get("Anchors by outcome", ()), corpus),
        *_visited(tables.get(VISITS, ()), corpus),
        *_left_out(tables, corpus),
    ]
    shown = [
        table_of(
            "Size",
            ("what", "how_much"),
            [*map(list, sizes.items()), *on_disk],
            call,
            of="python",
            form="sizes",
        ),
        _shares(sources, tables.get(VISITS, ())),
        table_of(
            "Needs attention", ("what", "command"), attention, call, of="python", form="commands"
        ),
    ]
    return Section(name="overview", title="Overview", tables=shown)


def _shares(sources: Rows, visits: Rows) -> Table:
    """Return each source's share of records, tokens and samples."""
    samples: dict[str, int] = {}
    for row in visits:
        samples[row["source"]] = samples.get(row["source"], 0) + row["samples"]
    of_all = {
        "records": {row["name"]: row["records"] for row in sources},
        "tokens": {row["name"]: row["tokens"] for row in sources},
        "samples": samples,
    }
    names = [row["name"] for row in sorted(sources, key=lambda row: -row["records"])]
    shares = {
        what: [counts.get(name, 0) / max(sum(counts.values()), 1) for name in names]
        for what, counts in of_all.items()
        if sum(counts.values())
    }
    title = "Share of each source"
    few = {what: values[:_DRAWN] for what, values in shares.items()}
    plot = bars(title, names[:_DRAWN], few, x="source", y="share") if len(names) > 1 else None
    rows = [list(row) for row in zip(names, *shares.values(), strict=True)]
    call = "corpus.status(), corpus.sampler(…).forecast().table"
    return table_of(title, ("source", *shares), rows, call, of="python", plot=plot)


# -- what needs attention, with the command that helps --------------------------------------------


def _of_status(status: Status, corpus: str) -> Iterator[list[str]]:
    if not status["splits"]:
        what = "Records are not split, so nothing can be drawn."
        yield [what, f"duckplets split {corpus}"]
    stale: dict[str, list[dict[str, Any]]] = {}
    for mining in status["mining"]:
        if mining["stale"]:
            stale.setdefault(mining["recipe"], []).append(mining)
    for recipe, minings in stale.items():
        where = listed((f"{m['source']}, {m['split']}" for m in minings), _NAMED)
        what = f"Mined negatives of {recipe} are stale or missing ({where}): {minings[0]['stale']}."
        yield [what, f"duckplets mine {corpus} {shlex.quote(recipe)}"]
    shared = [
        f"{of['shared']:,} of {split} ({100 * of['shared'] / of['anchors']:.1f} %)"
        for split, of in status["shared_anchors"].items()
        if of["shared"]
    ]
    if shared:
        what = f"Anchors of other splits are anchors of train too: {listed(shared)}."
        how = status["splits"] or {}
        same = " ".join(f"--{name} {how[name]}" for name in (*SPLITS, "seed") if name in how)
        yield [what, f"duckplets split {corpus} {same} --keep-together text --reassign"]


def _left_short(outcomes: Rows, corpus: str) -> Iterator[list[str]]:
    anchors: dict[str, list[int]] = {}
    for row in outcomes:
        of = anchors.setdefault(row["recipe"], [0, 0])
        of[0] += row["anchors"]
        of[1] += row["anchors"] if row["outcome"] == "none" else 0
    for recipe, (every, short) in anchors.items():
        if short:
            what = (
                f"{short:,} of {counted(every, 'anchor')} of {recipe} have no mined candidate "
                f"left, and draw at random or are left out."
            )
            yield [what, f"duckplets show {corpus} --negatives"]


def _visited(visits: Rows, corpus: str) -> Iterator[list[str]]:
    rates = {(row["source"], row["recipe"]): row["visits"] for row in visits if row["visits"] > 0}
    if not rates:
        return
    least = min(rates, key=lambda stream: rates[stream])
    often = [stream for stream, rate in rates.items() if rate > _OFTEN * rates[least]]
    if often:
        times = max(rates.values()) / rates[least]
        names = listed((f"{recipe} of {source}" for source, recipe in often), _NAMED)
        what = (
            f"Each anchor of {names} is visited up to {times:,.0f} times as often as one of "
            f"{least[1]} of {least[0]}."
        )
        yield [what, f"duckplets forecast {corpus} --mixture proportional"]


def _left_out(tables: Mapping[str, Rows], corpus: str) -> Iterator[list[str]]:
    by_source: dict[str, dict[str, int]] = {}
    for row in tables["Rows left out, by reason"]:
        if row["what"] == "row":
            reasons = by_source.setdefault(row["source"], {})
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["rows"]
    aside = {row["source"] for row in tables["Quarantined rows"]}
    judged = {row["source"] for row in tables.get("Rows by outcome, gate and rule", ())}
    for source, reasons in by_source.items():
        rows = counted(sum(reasons.values()), "row")
        what = f"{rows} of {source} left out, by reason: {tallied(reasons)}."
        if source in aside:
            yield [what, f"duckdb -readonly {corpus} 'FROM quarantine'"]
        elif source in judged:
            yield [what, f"duckplets quality {corpus}"]
        else:
            yield [what, f"duckplets ingest {corpus} FILE … --on-error quarantine"]
