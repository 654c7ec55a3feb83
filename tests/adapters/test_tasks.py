"""The tasks of tests/tasks that need PyTorch: 7 and 12."""

import json
import runpy
from pathlib import Path

import pytest
from adapters.models import arguments, embedder
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import duckplets as dp

TASKS = Path(__file__).parent.parent / "tasks"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"q": f"what is {i}", "a": f"{i} is number {i % 7}"} for i in range(60)]
    with dp.Corpus("mixed.duckdb") as corpus:
        corpus.ingest(rows, name="faq", anchor="q", positive="a")
        corpus.split(0.8, 0, 0.2)
        yield corpus


def solve(number, **given):
    (file,) = TASKS.glob(f"t{number:02}_*")
    assert len([line for line in file.read_text().splitlines() if line.strip()]) <= 11
    return runpy.run_path(str(file), init_globals=given)


def test_two_models_are_compared_with_an_interval(corpus, capsys):
    model = embedder()
    solve(7, before=model, after=model)
    printed = capsys.readouterr().out
    assert "ndcg@10" in printed
    found = dp.compare("before.json", "after.json").metrics[0]
    assert (found["difference"], found["low"], found["high"]) == (0, 0, 0)
    assert json.loads(Path("before.json").read_text())["queries"]


class Recording(MultipleNegativesRankingLoss):
    """The loss, with what it was asked for, and an end as if the process were killed."""

    def __init__(self, model, killed_after):
        super().__init__(model)
        self.seen, self.killed_after = [], killed_after

    def forward(self, features, labels=None):
        if len(self.seen) == self.killed_after:
            raise KeyboardInterrupt
        decode = self.model.tokenizer.batch_decode
        self.seen.append(decode(features[0]["input_ids"], skip_special_tokens=True))
        return super().forward(features, labels)


def test_a_killed_training_goes_on_from_its_checkpoint(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    seen = []
    for killed_after in (5, None):
        model = embedder()
        loss = Recording(model, killed_after)
        saving = {"save_strategy": "steps", "save_steps": 3, "ignore_data_skip": True}
        given = {"args": arguments(tmp_path, 8, 8, **saving), "model": model, "loss": loss}
        try:
            solve(12, **given)
        except KeyboardInterrupt:
            assert killed_after
        seen.append(loss.seen)
    with corpus.sampler(batch_size=8, seed=7) as whole:
        expected = [whole.batch_at(step)["anchor"] for step in range(8)]
    assert seen[0] == expected[:5]
    assert seen[1] == expected[3:]
