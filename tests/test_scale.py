"""What docs/scale.md says is what was measured, and the order holds its promises at that size."""

from __future__ import annotations

import ast
import json
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import FOLDER, load
from effort import THOROUGH

from duckplets.order.ranks import RankPart


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return load("simulate_ranks")


def size(simulation: ModuleType, **others: Any) -> Any:
    """Return the size to simulate: all of it in full, else as many positions and fewer looks."""
    if THOROUGH:
        return simulation.Size(**others)
    ranks = {"save_every": 2000, "between_failures": 4000.0, "blocks": 1}
    looks = {"sources": (2, 12), "prefixes": 100, "anchors": (3, 4097, 65_537, 10**9), "windows": 3}
    return simulation.Size(**ranks, **looks, **others)


# ---- ranks, sources and anchors


def test_a_long_run_of_ranks_that_fail_breaks_no_promise(simulation: ModuleType) -> None:
    found = simulation.simulated(size(simulation))
    run, expected = found["run"], {"missing": 0, "repeated": 0, "taken_by_ranks": 10**10}
    assert found["ranks"] == 1024
    assert {name: run[name] for name in expected} == expected
    assert run["failures"] >= 5
    assert run["done_again"] > 0
    assert run["slices"] > 10_000
    assert simulation.broken(found) == 0


def small(simulation: ModuleType) -> Any:
    """A run that costs nothing, to be broken."""
    few: dict[str, Any] = {"positions": 10**6, "ranks": 8, "batch": 48, "anchors": (70_001,)}
    return simulation.Size(**few, sources=(3,), prefixes=50, blocks=2, windows=2)


@pytest.mark.parametrize("count", range(6))
def test_histories_of_any_kind_are_covered(simulation: ModuleType, count: int) -> None:
    of = {"positions": 10**6 + 17 * count, "ranks": 8, "batch": 48 * (count + 1), "seed": count}
    some = simulation.Size(**of, save_every=40 + count, between_failures=60.0)
    history = simulation.stints(some)
    assert len({stint.world for stint in history}) > 1
    found = simulation.coverage(some, history)
    assert found == {"missing": 0, "repeated": 0, "taken_by_ranks": some.positions}


def test_a_run_that_goes_on_elsewhere_than_at_its_save_is_noticed(simulation: ModuleType) -> None:
    some = small(simulation)
    first, second, *rest = simulation.stints(some)
    for off, name in ((1, "missing"), (-1, "repeated")):
        moved = simulation.Stint(second.start + off, second.kept, second.stop, second.world)
        found = simulation.coverage(some, [first, moved, *rest])
        assert found[name] == some.batch


@pytest.mark.parametrize("part", ["slice", "own", "epochs", "dealt"])
def test_an_order_that_breaks_a_promise_is_noticed(
    simulation: ModuleType, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    some = small(simulation)
    assert simulation.broken(simulation.simulated(some)) == 0
    if part == "slice":
        right = RankPart.slice
        monkeypatch.setattr(
            RankPart, "slice", lambda own, a, b: (right(own, a, b)[0], b - (own.rank == 3))
        )
    elif part == "own":
        took = RankPart.own
        monkeypatch.setattr(RankPart, "own", lambda own, a, b: took(own, a, b)[1:])
    elif part == "epochs":
        monkeypatch.setattr(
            simulation,
            "ranks",
            lambda stream, n, a, b: (
                np.random.default_rng(a).integers(0, n, b - a),
                np.arange(a, b) // n,
            ),
        )
    else:
        schedule = simulation.Schedule
        right = schedule.dealt

        def dealt(own: Any, draws: int) -> list[int]:
            first, second, *rest = right(own, draws)
            return [first + 5 * (draws > 1000), second - 5 * (draws > 1000), *rest]

        monkeypatch.setattr(schedule, "dealt", dealt)
    assert simulation.broken(simulation.simulated(some)) > 0


def test_what_the_page_quotes_is_of_the_full_size(simulation: ModuleType) -> None:
    found = json.loads((FOLDER / "simulate_ranks.json").read_text(encoding="utf-8"))
    full = simulation.Size()
    assert (found["positions"], found["ranks"]) == (10**10, 1024)
    assert (found["positions"], found["ranks"], found["batch"]) == (
        *(full.positions, full.ranks, full.batch),
    )
    assert found["broken"] == simulation.broken(found) == 0
    assert found["epochs"].keys() == {str(count) for count in full.anchors}
    assert found["shares"].keys() == {str(count) for count in full.sources}


# ---- the page


def test_the_page_of_scale_is_written_from_the_results() -> None:
    report = load("scale_report")
    text = report.PAGE.read_text(encoding="utf-8")
    assert text == report.page(text), (
        "docs/scale.md is not from benchmarks/*.json: python benchmarks/report.py"
    )
    assert {name for _, name, _ in report.BLOCK.findall(text)} == report.BLOCKS.keys()


def test_no_figure_of_that_page_is_typed_by_hand() -> None:
    report = load("scale_report")
    words = report.BLOCK.sub("", report.PAGE.read_text(encoding="utf-8"))
    words = re.sub(r"^```.*?^```|`[^`\n]+`|\]\([^)]+\)", "", words, flags=re.DOTALL | re.MULTILINE)
    sizes = re.compile(r"10\^\d+|600 bytes|32 bits")  # of the task, and of a type
    assert not re.findall(r".*\d.*", sizes.sub("", words))


def test_the_deployments_on_that_page_are_python() -> None:
    page = load("scale_report").PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == page.count("Not run here.") == 2
    assert all(ast.parse(block).body for block in blocks)


def test_a_line_is_found_and_says_how_far_it_is_off() -> None:
    model = load("scale_model")
    line = model.fitted({n: 7 + 3 * n for n in (10, 30, 100)})
    assert line.at(1000) == pytest.approx(3007)
    assert line.off == pytest.approx(0, abs=1e-9)
    bent = model.fitted({10: 37, 30: 97, 100: 614})
    assert bent.ahead == pytest.approx(307 / 614 - 1)
    assert bent.off > 0.1


@pytest.mark.skipif(not THOROUGH, reason="takes half a minute: DUCKPLETS_THOROUGH=1")
def test_every_measurement_of_scale_runs(tmp_path: Any) -> None:
    scale = load("scale")
    scale.SECONDS = 0.1
    for name in scale.MEASUREMENTS:
        found = scale.measured(name, tmp_path, 600)
        assert all(value > 0 for value in found.values()), (name, found)
