"""The overview of the page: sizes, shares, and problems."""

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

_OFTEN = 10  # the overview reports streams with this many times the fewest visits
_DRAWN = 8  # largest sources in the plot
_NAMED = 5  # names in a sentence
_COUNTS = ("records", "sections", "chunks", "tokens")

Rows = Sequence[Mapping[str, Any]]


def overview(path: Path, status: Status, tables: Mapping[str, Rows]) -> Section:
    """Return the section with sizes, shares and problems; ``tables`` are by title."""
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
        *_short(tables.get("Anchors by outcome", ()), corpus),
        *_visited(tables.get(VISITS, ()), corpus),
        *_excluded(tables, corpus),
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
    samples: dict[str, int] = {}
    for row in visits:
        samples[row["source"]] = samples.get(row["source"], 0) + row["samples"]
    counted_by = {
        "records": {row["name"]: row["records"] for row in sources},
        "tokens": {row["name"]: row["tokens"] for row in sources},
        "samples": samples,
    }
    names = [row["name"] for row in sorted(sources, key=lambda row: -row["records"])]
    shares = {
        unit: [counts.get(name, 0) / max(sum(counts.values()), 1) for name in names]
        for unit, counts in counted_by.items()
        if sum(counts.values())
    }
    title = "Share of each source"
    few = {unit: values[:_DRAWN] for unit, values in shares.items()}
    plot = bars(title, names[:_DRAWN], few, x="source", y="share") if len(names) > 1 else None
    rows = [list(row) for row in zip(names, *shares.values(), strict=True)]
    call = "corpus.status(), corpus.sampler(…).forecast().table"
    return table_of(title, ("source", *shares), rows, call, of="python", plot=plot)


# -- problems, with the command that helps --------------------------------------------------------


def _of_status(status: Status, corpus: str) -> Iterator[list[str]]:
    if not status["splits"]:
        yield ["Records have no split, so no sample can be drawn.", f"duckplets split {corpus}"]
    stale: dict[str, list[dict[str, Any]]] = {}
    for mining in status["mining"]:
        if mining["stale"]:
            stale.setdefault(mining["recipe"], []).append(mining)
    for recipe, minings in stale.items():
        where = listed((f"{m['source']}, {m['split']}" for m in minings), _NAMED)
        text = f"Mined negatives of {recipe} are stale or missing ({where}): {minings[0]['stale']}."
        yield [text, f"duckplets mine {corpus} {shlex.quote(recipe)}"]
    shared = [
        f"{counts['shared']:,} of {split} ({100 * counts['shared'] / counts['anchors']:.1f} %)"
        for split, counts in status["shared_anchors"].items()
        if counts["shared"]
    ]
    if shared:
        text = f"Anchors of other splits are also anchors of train: {listed(shared)}."
        how = status["splits"] or {}
        same = " ".join(f"--{name} {how[name]}" for name in (*SPLITS, "seed") if name in how)
        yield [text, f"duckplets split {corpus} {same} --keep-together text --reassign"]


def _short(outcomes: Rows, corpus: str) -> Iterator[list[str]]:
    anchors: dict[str, list[int]] = {}
    for row in outcomes:
        counts = anchors.setdefault(row["recipe"], [0, 0])
        counts[0] += row["anchors"]
        counts[1] += row["anchors"] if row["outcome"] == "none" else 0
    for recipe, (every, short) in anchors.items():
        if short:
            text = (
                f"{short:,} of {counted(every, 'anchor')} of {recipe} have no mined candidate, "
                f"and draw at random or are left out."
            )
            yield [text, f"duckplets show {corpus} --negatives"]


def _visited(visits: Rows, corpus: str) -> Iterator[list[str]]:
    rates = {(row["source"], row["recipe"]): row["visits"] for row in visits if row["visits"] > 0}
    if not rates:
        return
    least = min(rates, key=lambda stream: rates[stream])
    often = [stream for stream, rate in rates.items() if rate > _OFTEN * rates[least]]
    if often:
        times = max(rates.values()) / rates[least]
        names = listed((f"{recipe} of {source}" for source, recipe in often), _NAMED)
        text = (
            f"Each anchor of {names} has up to {times:,.0f} times the visits of an anchor of "
            f"{least[1]} of {least[0]}."
        )
        yield [text, f"duckplets forecast {corpus} --mixture proportional"]


def _excluded(tables: Mapping[str, Rows], corpus: str) -> Iterator[list[str]]:
    by_source: dict[str, dict[str, int]] = {}
    for row in tables["Rows left out, by reason"]:
        if row["what"] == "row":
            reasons = by_source.setdefault(row["source"], {})
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["rows"]
    quarantined = {row["source"] for row in tables["Quarantined rows"]}
    judged = {row["source"] for row in tables.get("Rows by outcome, gate and rule", ())}
    for source, reasons in by_source.items():
        rows = counted(sum(reasons.values()), "row")
        text = f"{rows} of {source} left out, by reason: {tallied(reasons)}."
        if source in quarantined:
            yield [text, f"duckdb -readonly {corpus} 'FROM quarantine'"]
        elif source in judged:
            yield [text, f"duckplets quality {corpus}"]
        else:
            yield [text, f"duckplets ingest {corpus} FILE … --on-error quarantine"]
