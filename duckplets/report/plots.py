"""Draw bars, stacked shares and lines as SVG coloured by a style sheet, light or dark."""

# Colours are by Okabe and Ito for colour-blind readers. matplotlib has 174 MB, takes a second to
# import, and has fixed colours; this module needs only the page's templates.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.report.rendering import read, rendered, words

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.runs.forecast import Forecast

WIDTH, HEIGHT = 480, 230  # the width fits a telephone
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 28, 44
_COLOURS = 8
_CHARACTER = 8  # width of a character of a label
_OTHERS = "all others"
_LEAST = 1e-9  # ticks of a scale


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of a plot: the number of its colour, its description, the ``d`` of an SVG path."""

    series: int
    title: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A drawing of shapes, which a notebook shows."""

    # Ticks (``along`` the bottom, ``up`` the left) and ``marks`` are pairs of place and label.

    title: str
    x: str
    y: str
    series: list[str]
    shapes: list[Shape]
    is_lines: bool = False
    along: list[tuple[float, str]] = field(default_factory=list)
    up: list[tuple[float, str]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)

    def svg(self) -> str:
        """Return the SVG element alone; classes of ``plot.css`` colour it."""
        size = {"width": WIDTH, "height": HEIGHT, "left": _LEFT, "top": _TOP}
        edges = {"right": WIDTH - _RIGHT, "bottom": HEIGHT - _BOTTOM}
        return rendered("plot.svg.jinja", plot=self, **size, **edges)

    def _repr_html_(self) -> str:
        return f"<style>{read('plot.css')}</style><div class='plot'>{self.svg()}</div>"


def bars(
    title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], *, x: str, y: str
) -> Plot:
    """Draw groups of bars side by side, one group per label."""
    height = _Scale(0, max((max(values, default=0) for values in series.values()), default=0))
    group = (WIDTH - _LEFT - _RIGHT) / max(len(labels), 1)
    wide, base = 0.86 * group / max(len(series), 1), HEIGHT - _BOTTOM
    shapes = [
        Shape(
            number % _COLOURS,
            f"{name}, {label}: {words(value)}",
            f"M{_LEFT + (i + 0.07) * group + number * wide:.1f} {base}V{height.up(value)}"
            f"h{wide:.1f}V{base}Z",
        )
        for number, (name, values) in enumerate(series.items())
        for i, (label, value) in enumerate(zip(labels, values, strict=True))
        if value
    ]
    longest = max((len(shown(label, 80)) for label in labels), default=0)
    every = min(max(1, ceil(_CHARACTER * longest / group)), len(labels))
    limit = int(every * group / _CHARACTER)
    along = [
        (round(_LEFT + (i + 0.5) * group, 1), _short(labels[i], limit))
        for i in range(0, len(labels), max(every, 1))
    ]
    return Plot(
        title=title, x=x, y=y, series=_named(series), shapes=shapes, along=along, up=height.ticks()
    )


def lines(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], *, x: str, y: str
) -> Plot:
    """Draw a line per series."""
    points = [point for several in series.values() for point in several]
    wide = _Scale(min((p[0] for p in points), default=0), max((p[0] for p in points), default=0))
    high = _Scale(min((p[1] for p in points), default=0), max((p[1] for p in points), default=0))
    shapes = [
        Shape(
            number % _COLOURS,
            f"{name}: {words(several[0][1])} at {words(several[0][0])} to "
            f"{words(several[-1][1])} at {words(several[-1][0])}",
            "M" + "L".join(f"{wide.along(a)} {high.up(b)}" for a, b in several),
        )
        for number, (name, several) in enumerate(series.items())
        if several
    ]
    return Plot(
        title=title,
        x=x,
        y=y,
        series=_named(series),
        shapes=shapes,
        is_lines=True,
        along=wide.ticks(across=True),
        up=high.ticks(),
    )


def intervals(
    title: str, values: Mapping[str, tuple[float, float, float]], *, x: str, y: str
) -> Plot:
    """Draw an interval with its middle per label, and a line at 0."""
    ends = [0.0, *(end for low, _, high in values.values() for end in (low, high))]
    high, group = _Scale(min(ends), max(ends)), (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    shapes, along = [], []
    for number, (label, (low, middle, top)) in enumerate(values.items()):
        at, up = round(_LEFT + (number + 0.5) * group, 1), high.up(middle)
        path = f"M{at} {high.up(low)}V{high.up(top)}M{at - 6:.1f} {up}h12"
        description = f"{label}: {words(middle)}, {words(low)} to {words(top)}"
        shapes.append(Shape(number % _COLOURS, description, path))
        along.append((at, _short(label, int(group / _CHARACTER))))
    zero = f"M{_LEFT} {high.up(0)}H{WIDTH - _RIGHT}"
    return Plot(
        title=title,
        x=x,
        y=y,
        series=_named(values),
        shapes=[*shapes, Shape(0, "no difference", zero)],
        is_lines=True,
        along=along,
        up=high.ticks(),
    )


def stacked_shares(
    forecast: Forecast | pa.Table, *, steps: int | None = None, title: str = "Shares of the sources"
) -> Plot:
    """Draw the share of each source in the samples over the steps, with marked phases."""
    table: pa.Table = getattr(forecast, "table", forecast)
    rows: list[dict[str, Any]] = table.to_pylist()
    shares: dict[int, dict[str, float]] = {}
    samples: dict[int, int] = {}
    phases: dict[int, int] = {}
    for row in rows:
        own = shares.setdefault(row["start_step"], {})
        name = row.get("value", row["source"])
        own[name] = own.get(name, 0.0) + row["share"]
        samples[row["start_step"]] = samples.get(row["start_step"], 0) + row["samples"]
        phases.setdefault(row["start_step"], row["phase"])
    starts = sorted(shares)
    ends = [*starts[1:], _end(starts, samples, steps)] if starts else []
    total: dict[str, float] = {}
    for own in shares.values():
        for name, share in own.items():
            total[name] = total.get(name, 0) + share
    names = sorted(total, key=lambda name: (-total[name], name))
    few = names if len(names) <= _COLOURS else names[: _COLOURS - 1]
    stacks = [[shares[at].get(name, 0.0) for at in starts] for name in few]
    if len(few) < len(names):
        few = [*few, _OTHERS]
        rest = [sum(shares[at].values()) for at in starts]
        stacks.append([all_ - sum(parts) for all_, *parts in zip(rest, *stacks, strict=True)])
    wide, high = _Scale(starts[0] if starts else 0, ends[-1] if ends else 1), _Scale(0, 1)
    below = [0.0] * len(starts)
    shapes = []
    for number, (name, stack) in enumerate(zip(few, stacks, strict=True)):
        above = [low + part for low, part in zip(below, stack, strict=True)]
        edges = [*_stairs(starts, ends, above), *_stairs(starts, ends, below)[::-1]]
        outline = "L".join(f"{wide.along(x)} {high.up(y)}" for x, y in edges)
        span = f"{100 * min(stack):.3g} to {100 * max(stack):.3g} %" if stack else ""
        shapes.append(Shape(number, f"{name}: {span}", f"M{outline}Z"))
        below = above
    later = [b for a, b in pairwise(starts) if phases[a] != phases[b]]
    return Plot(
        title=title,
        x="step" if steps is not None or len(starts) > 1 else "sample",
        y="share",
        series=_named(few),
        shapes=shapes,
        along=wide.ticks(across=True),
        up=[(high.up(part / 4), f"{25 * part} %") for part in range(5)],
        marks=[(wide.along(at), f"phase {phases[at]}") for at in later],
    )


def _end(starts: Sequence[int], samples: Mapping[int, int], steps: int | None) -> int:
    """Return the last step of the last row."""
    if steps is not None:
        return max(steps, starts[-1] + 1)
    if len(starts) == 1:
        return max(samples[starts[0]], 1)
    before, last = starts[-2:]
    return last + max(1, samples[last] * (last - before) // max(samples[before], 1))


def _stairs(
    starts: Sequence[int], ends: Sequence[int], values: Sequence[float]
) -> list[tuple[int, float]]:
    return [(x, y) for a, b, y in zip(starts, ends, values, strict=True) for x in (a, b)]


class _Scale:
    """Map numbers to positions, and choose round ticks."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high if high - low > _LEAST else low + 1

    def along(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return round(_LEFT + self._part(value) * (WIDTH - _LEFT - _RIGHT), 1)

    def up(self, value: float) -> float:
        """Return the vertical position of a value; SVG counts from the top."""
        return round(HEIGHT - _BOTTOM - self._part(value) * (HEIGHT - _TOP - _BOTTOM), 1)

    def ticks(self, *, across: bool = False) -> list[tuple[float, str]]:
        """Return positions and labels of about five round numbers."""
        rough = (self._high - self._low) / 5
        magnitude = 10.0 ** floor(log10(rough))
        step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= rough * 0.999)
        first, end = -(-self._low // step), self._high + step / 1000
        values = [(first + i) * step for i in range(8) if (first + i) * step <= end]
        place = self.along if across else self.up
        return [(at, label) for label, at in {f"{v:,.9g}": place(v) for v in values}.items()]

    def _part(self, value: float) -> float:
        return (value - self._low) / (self._high - self._low)


def _short(label: str, limit: int) -> str:
    """Return a label cut to fit; the shape's title has all of it."""
    text = shown(label, 80)
    return text if len(text) <= limit else f"{text[: max(limit - 1, 1)]}…"


def _named(series: Mapping[str, object] | Sequence[str]) -> list[str]:
    return [shown(name, 40) for name in series]
