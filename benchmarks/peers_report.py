"""Writes docs/peers.md from peers.json and peers_large.json: python benchmarks/peers_report.py."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from peers_loaders import PEERS
from scale_report import table

HERE = Path(__file__).parent
RESULTS, LARGE = HERE / "peers.json", HERE / "peers_large.json"
PAGE = HERE.parent / "docs" / "peers.md"
OURS = "ours"
NEGATIVES = {"other": "any other row", "next": "the next row of its batch"}
Found = dict[str, Any]

TEXT = """# Compared with other loaders

This page shows which loaders lose or repeat rows, how exact their mixtures are, and how fast they are.
`benchmarks/peers_report.py` writes it from `benchmarks/peers.json` and `peers_large.json`.
`benchmarks/peers.py` measured it, {date}. It measured first the rows and shares of all loaders, then the
speed, one loader after another. It ran Python {python} on {cpus} cores that others use too. So compare
within a table. Each loader has its own environment and copy of the rows. It is used as its pages say,
and reads without worker processes. "–" means that it does not offer this. The texts are the same as in
[Benchmarks](benchmarks.md).

{versions}

## Rows lost and repeated

{counted:,} rows come in batches of 384 for all ranks. Each rank is a process. The first columns sum up
two whole epochs by 1, 2 and 3 ranks. For the last columns, 2 ranks stop half way in an epoch. Other
processes continue from the loader's state, with 2 ranks and with 3.

{lost}

{whole}

## Shares of two sources

The shares are set to .7 and .3. The table has the error of the first source in samples, after 100 and
after 10,000. It is the worst of {seeds} seeds:

{shares}

A loader that draws sources at random has the error of a coin. mosaicml-streaming can also fix the
shares in each batch (`batching_method="stratified"`). This was not measured.

## Speed

A sample is a title, its body and the body of another row, in batches of 256 as Python lists. Samples
per second of processor time come first, because other users disturb them least. The files of a loader
were written or read just before. So they are in memory if there is room. A loader that reads rows by
their number takes the negative from any row. A loader that streams takes the next body of the batch.
This is cheaper, and no random draw. A loader with both ways was measured both ways. A shuffle buffer
mixes a row only with rows that are read near it. So it is fast; no figure here shows how little it
mixes. Private memory is the peak. The first batch counts from the start of the process, imports
included. "Made" is the time to write the format of a loader. For duckplets it is an ingest with its
snapshot and its pool (`prepare=True`). Other users of the machine can make it longer.

{size}

{large}

One run of the script measured ten million rows. The JSON has the load before each measurement. By
default lancedb sorts in 100 MB, and refuses to shuffle this number of rows. So
`LANCEDB_PERM_BUILDER_MEMORY_LIMIT` is 1 GB.
"""

SIZE = """### {records:,} rows, {text_mb:,.0f} MB of text

{date}, load of the machine {load}; {seconds:.0f} s of one process after a warm-up.

{speed}

{held}

Where a peer is better:

{better}"""


def page() -> str:
    """Return the page."""
    found, more = (measured(path) for path in (RESULTS, LARGE))
    peers = found["peers"]
    return TEXT.format(
        **found,
        versions=versions(peers),
        lost=lost(peers),
        whole=whole(peers),
        shares=shares(peers),
        size=size(found),
        large=size(more),
    )


def measured(path: Path) -> Found:
    """Return what a run measured, each peer with its title."""
    found: Found = json.loads(path.read_text(encoding="utf-8"))
    for name, each in found["peers"].items():
        each |= {"title": PEERS[name].title, "note": PEERS[name].note}
    return found


def size(found: Found) -> str:
    """Tell the speed at one number of rows."""
    peers = found["peers"]
    runs = [each.get(run, {}) for each in peers.values() for run in ("speed", "held")]
    loads = {
        found["load_before"],
        *(one["load"] for run in runs for one in run.values() if "load" in one),
    }
    return SIZE.format(
        **found,
        load=" to ".join(dict.fromkeys(f"{end(loads):.1f}" for end in (min, max))),
        speed=speed(peers),
        held=held(peers, found["held_mb"]),
        better=better(peers),
    )


def versions(peers: Found) -> str:
    """Say which versions were measured, and how."""
    rows = (
        (each["title"], each.get("version", ""), each.get("failed", each["note"]))
        for each in peers.values()
    )
    return table(("loader", "version", ""), *rows)


# ---- rows


def lost(peers: Found) -> str:
    heads = ("loader", "1 rank", "2 ranks", "3 ranks", "resumed", "resumed on 3 ranks")
    rows = (
        (each["title"], *(_counts(cell) for cell in _cells(each)))
        for each in peers.values()
        if "epochs" in each
    )
    return table(heads, *rows)


def _cells(peer: Found) -> list[Found | None]:
    epochs = peer["epochs"]
    ranks = [epochs if "failed" in epochs else epochs[world] for world in ("1", "2", "3")]
    return [*ranks, peer.get("resumed"), peer.get("rescaled")]


def _counts(cell: Found | None) -> str:
    if cell is None:
        return "–"
    if "failed" in cell:
        return f"fails: {cell['failed']}"
    return ", ".join(f"{cell[name]:,} {name}" for name in ("lost", "repeated") if cell[name]) or "0"


def _exact(peer: Found) -> bool:
    cells = _cells(peer) if "epochs" in peer else [None]
    return all(cell == {"lost": 0, "repeated": 0} for cell in cells)


def whole(peers: Found) -> str:
    """Say who loses and repeats nothing in all that was tried."""
    return f"Nothing lost or repeated in any of it: {_titles(peers, _exact)}."


def shares(peers: Found) -> str:
    rows = []
    for each in peers.values():
        off = each.get("mixed", {})
        cells = (
            [off["failed"], ""] if "failed" in off else [_whole(off, "100"), _whole(off, "10000")]
        )
        rows.append((each["title"], *cells))
    return table(("loader", "off at 100", "off at 10,000"), *rows)


def _whole(values: Found, name: str) -> str:
    return f"{values[name]:,.0f}" if name in values else "–"


# ---- speed


def speed(peers: Found) -> str:
    measured = [(each, *pair) for each in peers.values() for pair in each.get("speed", {}).items()]
    most = max(figures.get("per_cpu_s", 0) for _, _, figures in measured)
    heads = ("loader", "negative", "per second of processor time", "")
    more = ("a second", "private memory", "first batch", "made", "on disk")
    rows = [
        (
            each["title"],
            NEGATIVES[negative],
            *(
                _figures(figures, most)
                if "failed" not in figures
                else (figures["failed"], *" " * 4)
            ),
            *_made(each),
        )
        for each, negative, figures in measured
    ]
    return table((*heads, *more), *rows)


def _made(each: Found) -> tuple[str, str]:
    if not each["mb"]:  # it reads the Parquet file
        return ("–", "–")
    return (f"{each['make_s']:,.0f} s", f"{each['mb']:,.0f} MB")


def _figures(figures: Found, most: float) -> tuple[str, ...]:
    bar = "█" * max(1, round(20 * figures["per_cpu_s"] / most))
    return (
        f"{figures['per_cpu_s']:,.0f}",
        bar,
        f"{figures['per_s']:,.0f}",
        f"{figures['private_mb']:,.0f} MB",
        f"{figures['first_batch_s']:.1f} s",
    )


def held(peers: Found, limit_mb: float) -> str:
    if not limit_mb:
        return "No control group could be made, so nothing was measured with less memory."
    heads = ("loader", "negative", "per second of processor time", "a second")
    rows = [
        (
            each["title"],
            NEGATIVES[negative],
            *(
                (figures["failed"], "")
                if "failed" in figures
                else (f"{figures['per_cpu_s']:,.0f}", f"{figures['per_s']:,.0f}")
            ),
        )
        for each in peers.values()
        for negative, figures in each.get("held", {}).items()
    ]
    return (
        f"The next table has a control group of {limit_mb:,.0f} MB: a tenth of the text and 300 MB, pages "
        f"of files included. No page was in memory before:\n\n" + table(heads, *rows)
    )


# ---- where a peer is better

BETTER = {
    "Samples per second of processor time": ("speed", "per_cpu_s", 1),
    "The same with less memory": ("held", "per_cpu_s", 1),
    "Samples a second with less memory": ("held", "per_s", 1),
    "Private memory": ("speed", "private_mb", -1),
    "First batch": ("speed", "first_batch_s", -1),
}
MADE = {"Sooner made from Parquet": "make_s", "Smaller on disk": "mb"}


def better(peers: Found) -> str:
    """Name who is better than ours in what was measured."""
    ours = peers[OURS]

    def beats(run: str, name: str, sign: int) -> Callable[[Found], bool]:
        mark = sign * ours[run].get("other", {}).get(name, math.inf)

        def beat(each: Found) -> bool:
            figures = each.get(run, {}).values()
            return any(name in one and sign * one[name] > mark for one in figures)

        return beat

    lines = [f"- {say}: {_titles(peers, beats(*by))}." for say, by in BETTER.items()]
    for say, name in MADE.items():
        made = {key: each for key, each in peers.items() if each.get("mb")}
        least = ours[name]
        lines.append(f"- {say}: {_titles(made, lambda each, n=name, m=least: each[n] < m)}.")
    return "\n".join(lines)


def _titles(peers: Found, which: Callable[[Found], bool]) -> str:
    found: Iterable[str] = (each["title"] for each in peers.values() if which(each))
    return "; ".join(found) or "none"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
