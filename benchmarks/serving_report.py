"""The part of docs/benchmarks.md about serving, from serving.json and serving_large.json.

An aim is a line of a table below: what was measured, and what it should be at least or at most,
by itself or as a multiple of something else of the same run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TITLES = {
    "snapshot": "a snapshot of all, with the pools of the default runs",
    "snapshot_of_more": "10,000 records more",
    "snapshot_mined": "a snapshot with mined candidates",
    "lists_256": "triplets as lists, batches of 256",
    "lists_32": "triplets as lists, batches of 32",
    "arrow_256": "triplets as Arrow, `batch.table`, batches of 256",
    "no_duplicates": "with `no_duplicates`",
    "ten_sources": "ten sources, weights changing every 500 steps",
    "mined": "with mined negatives",
    "one_of_eight": "what one of eight ranks takes, batches of 256 a rank",
    "held": "with memory for a tenth of the snapshot",
    "eight_processes": "eight ranks at the same time, all of them",
    "set_weights_one": "`set_weights`, then a batch: one source",
    "set_weights_ten": "`set_weights`, then a batch: ten sources",
    "open_small": "2,000 records, no snapshot",
    "open_small_snapshot": "2,000 records, from a snapshot",
    "open_all": "all records",
    "open_far": "all records, resumed at position 10^9",
    "open_100_sources": "100 sources, no snapshot",
    "open_100_sources_snapshot": "100 sources, from a snapshot",
    "open_many_sources": "{sources:,.0f} sources, from a snapshot",
    "cold": "all records, no page in memory",
    "grain_256": "Grain {grain}",
    "grain_32": "Grain {grain}, batches of 32",
    "datasets_random": "`datasets` {datasets}, random batches, random negatives",
    "datasets_arrow": "the same, asked for as Arrow, of which lists are made",
    "datasets_in_batch": "`datasets`, random batches, negatives from the batch",
    "datasets_buffer": "`datasets`, streaming shuffle buffer, pairs only",
    "python_lists": "Python lists in memory, indexed one by one",
    "object_arrays": "Python strings in NumPy arrays of objects",
}


class Aim(NamedTuple):
    """What a figure should be.

    Attributes:
        figure: Measurement and field.
        bound: ``at least`` or ``at most``.
        limit: The number; or a multiple, if there is an ``of``.
        of: Measurement and field, or "" for none.
        note: What the figure is, beside the measurement's title.
    """

    figure: str
    bound: str
    limit: float
    of: str = ""
    note: str = ""


LEAST, MOST = "at least", "at most"
PLAIN = "lists_256.per_s"
_CPU, _FIRST, _LATER = "processor time", "private memory", "private memory, later"
OPENED = ("open_small", "open_small_snapshot", "open_all", "open_far")
AIMS = (
    Aim(PLAIN, LEAST, 12, "grain_256.per_s"),
    Aim(PLAIN, LEAST, 4, "datasets_random.per_s"),
    Aim(PLAIN, LEAST, 1, "datasets_buffer.per_s"),
    Aim(PLAIN, LEAST, 1, "python_lists.per_s"),
    Aim(PLAIN, LEAST, 1, "object_arrays.per_s"),
    Aim("lists_32.per_s", LEAST, 0.8, PLAIN),
    Aim("arrow_256.per_s", LEAST, 20, "grain_256.per_s"),
    Aim("no_duplicates.per_s", LEAST, 0.8, PLAIN),
    Aim("ten_sources.per_s", LEAST, 0.8, PLAIN),
    Aim("mined.per_s", LEAST, 0.8, PLAIN),
    Aim("one_of_eight.per_s", LEAST, 0.8, PLAIN),
    *(Aim(f"{name}.cpu_s", MOST, 0.7, note=_CPU) for name in OPENED),
    Aim("open_100_sources.cpu_s", MOST, 1, note=_CPU),
    Aim("open_100_sources_snapshot.cpu_s", MOST, 1, note=_CPU),
    Aim("open_many_sources.cpu_s", MOST, 8, note=_CPU),
    *(Aim(f"{name}.anonymous_mb", MOST, 300, note=_FIRST) for name in OPENED),
    *(Aim(f"{name}.later_anonymous_mb", MOST, 300, note=_LATER) for name in OPENED),
    Aim("set_weights_one.median_ms", MOST, 5, note="median"),
    Aim("set_weights_ten.median_ms", MOST, 5, note="median"),
    Aim("snapshot.seconds", MOST, 10),
    Aim("snapshot_of_more.seconds", MOST, 1),
    Aim("snapshot.anonymous_mb", MOST, 1000, note="private memory at its peak"),
    Aim("snapshot.disk_mb", MOST, 1, "snapshot.allowed_mb", "on disk"),
    Aim("snapshot_mined.disk_mb", MOST, 1, "snapshot_mined.allowed_mb", "on disk"),
    Aim("eight_processes.per_s", LEAST, 1, PLAIN),
    Aim("eight_processes.anonymous_mb", MOST, 2400, note="private memory of all"),
)
LARGE = (Aim(PLAIN, LEAST, 0.8, f"smaller {PLAIN}"),)
OTHERS = {"allowed_mb": "1.2 × the text, 80 bytes a chunk and 12 a candidate"}

_AGAIN = """These were taken once more, right after that run, with all corpora made and compiled:
{}.

"""
TEXT = """
## Serving

One run of `benchmarks/serving.py`{date} (load {load_before:.1f} before it), {records:,} records,
duckplets from a snapshot. Each measurement is a process of its own. All ran in turns, {count} times
round. Figures are medians. Rates are over {seconds:g} s after a warm-up. A triplet of duckplets is
consumed as `batch["anchor"]`, `["positive"]` and `["negative"]`. It comes from the train split; the
peers draw from all records. Grain draws from Python lists in memory, without threads, which is its
fastest setting here. `datasets` draws from its memory-mapped file, by lists of row numbers from NumPy.
Its shuffle buffer has {buffer:,} records and reads them in stored order.

{again}{rates}

A ratio of 1 or more means that the aim is reached:

{aims}
"""
OPENINGS = """
An opening is a process from its start to its first batch of 256, imports included. Bytecode is
compiled and pages are warm. Figures are medians. *Private* is `Anonymous` of
`/proc/self/smaps_rollup`, without the pages that processes share.

{opened}
"""
WEIGHTS = """
Weights were changed before every batch of 256, {calls} times. With one source this took
{one[median_ms]:.1f} ms in the median and {one[p99_ms]:.1f} ms at the 99th percentile. With ten sources it
took {ten[median_ms]:.1f} and {ten[p99_ms]:.1f} ms.
"""
COLD = """
**Cold.** After a `sync`, `posix_fadvise(POSIX_FADV_DONTNEED)` made the kernel drop all pages of the
corpus and its snapshot. `mincore` found {resident_before_mb:,.0f} MB of them left. Then a new process
had its first batch after {wall_s:.1f} s. It served {served_per_s:,.0f} triplets/s from its start, and
read {read_mb:,.0f} MB from the disk.
"""
HELD = """
**With memory for a tenth.** A control group of the kernel limited the process and its pages of files
to {held_mb:,.0f} MB. No page was in memory at the start. It served {per_s:,.0f} triplets/s, and read
{read_mb:,.0f} MB from the disk.
"""
APART = """
Measured on the same day by runs of their own: {names}.
"""
MISSING = """
Not measured in this run:

{names}
"""


def section(results: dict[str, Any], larger: dict[str, Any] | None = None) -> str:
    """Return the section for the output of ``serving.py``; and for another with more records."""
    text = _section(results, AIMS)
    if larger is not None:
        of_any_size = tuple(aim for aim in AIMS if not aim.figure.endswith(".seconds"))
        base = larger.get("beside", results)
        told = _section(larger, of_any_size + LARGE, smaller=base)
        head, _, rest = told.partition("\n## Serving\n")
        text += f"{head}\n## Serving {larger['records']:,} records\n{rest}"
    return text


def _section(
    results: dict[str, Any], aims: tuple[Aim, ...], smaller: dict[str, Any] | None = None
) -> str:
    there = {name for name in TITLES if isinstance(results.get(name), dict)}
    parts = [
        TEXT.format(
            date=f", {results['date']}" if "date" in results else "",
            again=_AGAIN.format(", ".join(f"`{n}`" for n in results["again"]))
            if "again" in results
            else "",
            **{n: results[n] for n in ("load_before", "records", "seconds", "buffer")},
            count=len(results["rounds"]),
            rates=_rates(results, there),
            aims=_aims(results, aims, smaller or {}),
        )
    ]
    if opened := _opened(results, there):
        parts.append(OPENINGS.format(opened=opened))
    if there >= {"set_weights_one", "set_weights_ten"}:
        one, ten = results["set_weights_one"], results["set_weights_ten"]
        parts.append(WEIGHTS.format(one=one, ten=ten, calls=results["calls"]))
    if snapshots := _snapshots(results, there):
        parts.append(f"\n{snapshots}\n")
    if "cold" in there:
        parts.append(COLD.format(**results["cold"]))
    if apart := results.get("apart"):
        parts.append(APART.format(names=", ".join(f"`{name}`" for name in apart)))
    if "held" in there:
        parts.append(HELD.format(**results["held"]))
    if missing := [f"`{name}`" for name in TITLES if name not in there]:
        parts.append(MISSING.format(names="\n".join(f"- {name}" for name in missing)))
    return "".join(parts)


def title(results: dict[str, Any], name: str) -> str:
    """Return what a measurement is."""
    versions = {peer: results[peer] for peer in ("grain", "datasets")}
    sources = results.get("open_many_sources", {})
    many = sources["sources"] if isinstance(sources, dict) and sources else 0
    return TITLES[name].format(**versions, sources=many)


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown; nothing where there are no rows."""
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines) if rows else ""


def _rates(results: dict[str, Any], there: set[str]) -> str:
    rows = []
    for name in TITLES:
        if name not in there or name == "held" or "per_s" not in results[name]:
            continue
        found, every = results[name], [one[name]["per_s"] for one in results["rounds"]]
        rows.append(
            [
                title(results, name),
                f"{found['per_s']:,.0f}",
                f"{min(every):,.0f} to {max(every):,.0f}",
                f"{found['per_cpu_s']:,.0f}",
                f"{found['anonymous_mb']:,.0f} MB",
            ]
        )
    return _table(["", "a second", "rounds", "a second of processor time", "private memory"], rows)


def _aims(results: dict[str, Any], aims: tuple[Aim, ...], smaller: dict[str, Any]) -> str:
    rows = []
    for aim in aims:
        value, base = _figure(results, aim.figure), 1.0
        if aim.of:
            known = smaller if aim.of.startswith("smaller ") else results
            base = _figure(known, aim.of.removeprefix("smaller "))
        if value is None or base is None:
            continue
        limit = aim.limit * base
        ratio = value / limit if aim.bound == LEAST else limit / value
        measurement, _, field = aim.figure.partition(".")
        what = title(results, measurement) + (f": {aim.note}" if aim.note else "")
        told = _shown(field, limit)
        if aim.of:
            other, _, name = aim.of.removeprefix("smaller ").partition(".")
            times = f"{aim.limit:g} × " if aim.limit != 1 else ""
            of = OTHERS.get(name) or title(results, other)
            of += f" of {smaller['records']:,} records" if known is smaller else ""
            told = f"{times}{of}: {told}"
        rows.append([what, _shown(field, value), f"{aim.bound} {told}", f"{ratio:.2f}"])
    return _table(["", "measured", "aim", "ratio"], rows)


def _figure(results: dict[str, Any], name: str) -> Any:
    measurement, _, field = name.partition(".")
    found = results.get(measurement)
    return found.get(field) if isinstance(found, dict) else None


def _shown(field: str, value: float) -> str:
    if field == "per_s":
        return f"{value:,.0f}/s"
    if field.endswith("_mb"):
        return f"{value:,.0f} MB"
    if field.endswith("_ms"):
        return f"{value:.1f} ms"
    return f"{value:.2f} s" if field in ("seconds", "cpu_s", "wall_s") else f"{value:,.0f}"


def _opened(results: dict[str, Any], there: set[str]) -> str:
    rows = []
    for name in TITLES:
        if name in there and name != "cold" and "cpu_s" in results[name]:
            shown = ("cpu_s", "wall_s", "anonymous_mb", "later_anonymous_mb")
            cells = [_shown(field, results[name][field]) for field in shown]
            rows.append([title(results, name), *cells])
    later = f"private, {results['sampling']:g} s later"
    return _table(["", "processor time", "wall", "private", later], rows)


SNAPSHOT = {
    "seconds": "time",
    "anonymous_mb": "private memory",
    "peak_mb": "peak with mapped pages",
    "disk_mb": "on disk",
    "text_mb": "text",
    "chunks": "chunks",
    "candidates": "candidates",
}


def _snapshots(results: dict[str, Any], there: set[str]) -> str:
    rows = []
    for name in TITLES:
        if name in there and "seconds" in results[name]:
            found = results[name]
            cells = [_shown(field, found[field]) if field in found else "" for field in SNAPSHOT]
            rows.append([title(results, name), *cells])
    return _table(["", *SNAPSHOT.values()], rows)
