"""What docs/scale.md says is what was measured, and the order holds its promises at that size."""

import ast
import json
import re

import pytest
from benchmark_scripts import FOLDER, load
from effort import THOROUGH


@pytest.fixture(scope="module")
def simulation():
    return load("simulate_ranks")


def size(simulation, **others):
    """Return the size to simulate: all of it in full, else as many positions and fewer looks."""
    if THOROUGH:
        return simulation.Size(**others)
    ranks = {"save_every": 2000, "between_failures": 4000.0, "blocks": 1}
    looks = {"sources": (2, 12), "prefixes": 100, "anchors": (3, 4097, 65_537, 10**9), "windows": 3}
    return simulation.Size(**ranks, **looks, **others)


# ---- ranks, sources and anchors


def test_a_long_run_of_ranks_that_fail_breaks_no_promise(simulation):
    found = simulation.simulated(size(simulation))
    run, expected = found["run"], {"missing": 0, "repeated": 0, "taken_by_ranks": 10**10}
    assert found["ranks"] == 1024
    assert {name: run[name] for name in expected} == expected
    assert run["failures"] >= 5
    assert run["done_again"] > 0
    assert run["slices"] > 10_000
    assert simulation.broken(found) == 0


def test_what_the_page_quotes_is_of_the_full_size(simulation):
    found = json.loads((FOLDER / "simulate_ranks.json").read_text(encoding="utf-8"))
    full = simulation.Size()
    assert (found["positions"], found["ranks"], found["batch"]) == (10**10, 1024, full.batch)
    assert found["broken"] == simulation.broken(found) == 0
    assert found["epochs"].keys() == {str(count) for count in full.anchors}
    assert found["shares"].keys() == {str(count) for count in full.sources}


# ---- the page


def test_pages_are_written_from_the_results():
    report = load("scale_report")
    names = set()
    for page in (report.PAGE, FOLDER.parent / "README.md"):
        text = page.read_text(encoding="utf-8")
        assert text == report.page(text), (
            f"{page.name} is not from benchmarks/*.json: python benchmarks/report.py"
        )
        names |= {name for _, name, _ in report.BLOCK.findall(text)}
    assert names == report.BLOCKS.keys()


def test_no_figure_of_that_page_is_typed_by_hand():
    report = load("scale_report")
    words = report.BLOCK.sub("", report.PAGE.read_text(encoding="utf-8"))
    words = re.sub(r"^```.*?^```|`[^`\n]+`|\]\([^)]+\)", "", words, flags=re.DOTALL | re.MULTILINE)
    sizes = re.compile(r"10\^\d+|600 bytes|32 bits")  # of the task, and of a type
    assert not re.findall(r".*\d.*", sizes.sub("", words))


def test_the_deployments_on_that_page_are_python():
    page = load("scale_report").PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == page.count("<!-- not run: it needs a cluster") == 2
    assert all(ast.parse(block).body for block in blocks)


@pytest.mark.skipif(not THOROUGH, reason="takes half a minute: DUCKPLETS_THOROUGH=1")
def test_every_measurement_of_scale_runs(tmp_path):
    scale = load("scale")
    scale.SECONDS = 0.1
    for name in scale.MEASUREMENTS:
        found = scale.measured(name, tmp_path, 600)
        assert all(value > 0 for value in found.values()), (name, found)
