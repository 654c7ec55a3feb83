"""Drawings: areas are as large as what they show, and whatever names say stays text."""

import re
from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st
from report_corpora import HOSTILE

from duckplets.report.plots import HEIGHT, WIDTH, bars, lines, stacked_shares
from duckplets.runs.forecast import SCHEMA

POINT = re.compile(r"(-?[\d.]+) (-?[\d.]+)")


def points(path):
    return [(float(x), float(y)) for x, y in POINT.findall(path)]


def area(path):
    """Return the area of an outline."""
    corners = points(path)
    around = pairwise([*corners, corners[0]])
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in around)) / 2


def forecast(stretches):
    """A forecast of stretches: phase, steps and the parts of each source."""
    rows = []
    start = 0
    for phase, steps, parts in stretches:
        for source, part in parts.items():
            share = part / sum(parts.values())
            rows.append(dict.fromkeys(SCHEMA.names) | {
                "phase": phase, "start_step": start, "source": source, "share": share,
                "samples": round(share * steps * 1000),
            })  # fmt: skip
        start += steps
    return pa.Table.from_pylist(rows, schema=SCHEMA)


NAMES = [f"source {i}" for i in range(12)]
STRETCHES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 500),
        st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=often(1000, less=15), deadline=None)
@given(STRETCHES)
def test_areas_are_the_shares_of_all_samples(stretches):
    steps = sum(length for _, length, _ in stretches)
    plot = stacked_shares(forecast(stretches), steps=steps)
    mean = defaultdict(float)
    for _, length, parts in stretches:
        for name, part in parts.items():
            mean[name] += part / sum(parts.values()) * length / steps
    whole = sum(area(shape.path) for shape in plot.shapes)
    drawn = {name: area(s.path) / whole for name, s in zip(plot.series, plot.shapes, strict=True)}
    assert len(drawn) == min(len(mean), 8)
    for name in drawn.keys() & mean.keys():
        assert drawn[name] == pytest.approx(mean[name], abs=0.01)
    changes = sum(a[0] != b[0] for a, b in pairwise(stretches))
    assert len(plot.marks) == changes
    check(plot)


def test_a_forecast_of_nothing_and_of_one_stretch():
    check(stacked_shares(pa.Table.from_pylist([], schema=SCHEMA)))
    plot = stacked_shares(forecast([(0, 5, {"a": 1})]))
    assert plot.x == "sample"
    assert stacked_shares(forecast([(0, 5, {"a": 1}), (1, 5, {"a": 1})])).along[-1][1] == "10"


@settings(max_examples=often(1000, less=15), deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e12) | st.just(0.0), min_size=1, max_size=30),
    st.sampled_from(HOSTILE),
)
def test_bars_are_as_high_as_their_figures(values, name):
    labels = [f"{name} {i}" for i in range(len(values))]
    plot = bars("t", labels, {name: values}, x="x", y="y")
    tops = [float(re.findall(r"V([\d.]+)", shape.path)[0]) for shape in plot.shapes]
    drawn = [value for value in values if value]
    assert len(tops) == len(drawn)
    floor = HEIGHT - 44
    for top, value in zip(tops, drawn, strict=True):
        assert floor - top == pytest.approx((floor - 28) * value / max(drawn), abs=0.2)
    check(plot)


@settings(max_examples=often(1000, less=15), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
def test_lines_stay_inside(several):
    plot = lines("t", {"a": several, "none": []}, x="x", y="y")
    (shape,) = plot.shapes
    assert len(points(shape.path)) == len(several)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(shape.path))
    check(plot)


def check(plot):
    """Check that a drawing has few ticks at ascending places, and only elements of drawings."""
    for ticks in (plot.along, plot.up):
        assert len(ticks) <= 13
        assert len({place for place, _ in ticks}) == len(ticks)
    known = {"style", "div", "svg", "path", "text", "title", "ul", "li", "bdi"}
    assert set(re.findall(r"<([^\s/>]+)", plot._repr_html_())) <= known
