"""Show what a run draws: a table with a row for every stream between two changes of shares.

How it is worked out is in ``sampling.outlook``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import pyarrow as pa

from duckplets.base.sanitize import shown

if TYPE_CHECKING:
    from duckplets.report.plots import Plot

NAME = 40  # characters of a name that is printed
_ROWS = 60  # of a table that is printed

SCHEMA = pa.schema(
    [
        *(("phase", pa.int32()), ("start_step", pa.int64())),
        *(("source", pa.string()), ("recipe", pa.string())),
        *(("share", pa.float64()), ("anchors", pa.int64()), ("samples", pa.int64())),
        *(("tokens", pa.int64()), ("visits", pa.float64()), ("negatives", pa.string())),
        *(("fallback_anchors", pa.int64()), ("swap", pa.bool_())),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a run draws, a row for every stream between two changes of shares.

    ``print`` shows it as a table with its warnings, a notebook as HTML; ``len`` is the number of
    rows.

    Attributes:
        table: Arrow. ``phase`` is that of the mixture, from 0, and ``start_step`` where these
            shares set in: an anneal in stairs and what follows it are two of one phase, and
            weights that were set during the run begin rows of their own. ``share`` of all samples
            of these steps (of an anneal the mean). ``anchors`` of the stream; ``samples`` of all
            ranks, each pair one; ``tokens`` that all their texts are expected to have, without
            prefixes; ``visits``: how often each anchor comes up. ``negatives``: ``random``,
            ``mined``, ``given`` (with the rows), ``same_record``, or null for texts.
            ``fallback_anchors``: how many have fewer mined or given ones than a sample takes, or
            fewer in their source where ``negatives_from="split"`` lets all sources fill in.
            ``swap``: whether anchor and positive change places in half of the samples. Where the
            run has taken later versions of the corpus, ``version``: a stream has a row of each.
        warnings: What is likely not meant, a sentence each.
        title: What was forecast, in words.
        exact: Whether ``samples`` is what is served, to the sample. Not so where
            ``no_duplicates=True`` keeps more samples apart than are planned for a forecast.
    """

    table: pa.Table
    warnings: list[str]
    title: str
    exact: bool

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        columns, rows = self._cells()
        lines = [self.title, *(f"  {line}" for line in aligned([columns, *rows]))]
        return "\n".join([*lines, *self._told()])

    def plot(self) -> Plot:
        """Draw the share of each source over the steps, stacked, phases marked; for a notebook."""
        from duckplets.report.plots import stacked_shares

        return stacked_shares(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        columns, rows = self._cells()
        body = "".join(_html_row("td", row) for row in rows)
        told = "".join(f"<p>{escape(line)}</p>" for line in self._told())
        head = _html_row("th", columns)
        return f"<p>{escape(self.title)}</p><table>{head}{body}</table>{told}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the names of what is shown, and the first rows as texts."""
        columns = ["from step", "source", "recipe", "share", "anchors", "samples", "visits"]
        columns += ["tokens", "negatives", "fall back"]
        rows = [
            [
                f"{row['start_step']:,}",
                *(shown(row[name], NAME) for name in ("source", "recipe")),
                percent(row["share"]),
                *(f"{row[name]:,}" for name in ("anchors", "samples")),
                figure(row["visits"]),
                f"{row['tokens']:,}",
                row["negatives"] or "-",
                f"{row['fallback_anchors']:,}",
            ]
            for row in self.table.slice(0, _ROWS).to_pylist()
        ]
        return columns, rows

    def _told(self) -> Iterator[str]:
        """Yield what stands below the table."""
        if len(self) > _ROWS:
            yield f"and {len(self) - _ROWS:,} more rows, in .table"
        swaps = self.table["swap"].to_pylist()
        if swaps and self.table["negatives"][0].as_py() is not None:
            yield swap_words(swaps[0])
        if not self.exact:
            yield "samples of these steps may be off by a few: see Forecast.exact"
        yield from (f"warning: {warning}" for warning in self.warnings)


# -- words and figures --------------------------------------------------------------------------


def swap_words(swaps: bool) -> str:
    """Say whether anchor and positive change places."""
    return (
        "swap on: anchor and positive change places in half of the samples"
        if swaps
        else "swap off: anchor and positive stay in their places"
    )


def percent(part: float) -> str:
    """Return a share in percent."""
    return f"{100 * part:.3g} %"


def figure(number: float) -> str:
    """Return a number with three digits, or whole."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of cells as lines, each column as wide as its widest; numbers to the right."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = [all(row[i][:1].isdigit() for row in rows[1:] or rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in cells).rstrip()


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
