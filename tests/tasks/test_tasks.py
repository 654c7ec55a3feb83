"""Twenty tasks that people have: each solution is a file beside this one, of at most ten lines.

Tasks 7 and 12 need PyTorch: tests/adapters has them.
"""

import json
import runpy
import shlex
from pathlib import Path

import pytest
from commands import ok
from tokenizer_files import byte_level

import duckplets as dp

HERE = Path(__file__).parent
TOPICS = ("red", "blue", "green", "grey", "teal")
FAQ = [
    (
        f"what is number {i} of {TOPICS[i % 5]}",
        f"number {i} of {TOPICS[i % 5]} is " + "long " * (i % 7),
    )
    for i in range(48)
]
MANUAL = [
    {"title": f"how to use {i}", "body": f"use {i} as any {TOPICS[i % 5]} thing"} for i in range(24)
]


def table(rows):
    return "question,answer\n" + "".join(f"{one},{other}\n" for one, other in rows)


def files():
    """Make the files that the tasks begin with, in the working folder."""
    beir = Path("scifact")
    (beir / "qrels").mkdir(parents=True)
    notes = Path("notes")
    notes.mkdir()
    documents = [{"_id": f"d{i}", "title": "", "text": other} for i, (_, other) in enumerate(FAQ)]
    queries = [{"_id": f"q{i}", "text": one} for i, (one, _) in enumerate(FAQ[:12])]
    labels = "".join(f"q{i}\td{i}\t1\n" for i in range(12))
    made = {
        "faq.csv": table(FAQ),
        "more.csv": table([(f"what is new {i}", f"new {i} is this") for i in range(9)]),
        "odd.csv": table(FAQ[:3]) + "alone,\n",
        "exam.csv": "question\nwhat is number 3 of grey\n",
        "manual.jsonl": "".join(json.dumps(row) + "\n" for row in MANUAL),
        "notes/one.md": "# Tea\n\nBoil it.\n\n## Milk\n\nPour it.\n",
        "notes/two.md": "# Bread\n\nBake it.\n\n## Salt\n\nAdd it.\n",
        "scifact/corpus.jsonl": "".join(json.dumps(row) + "\n" for row in documents),
        "scifact/queries.jsonl": "".join(json.dumps(row) + "\n" for row in queries),
        "scifact/qrels/train.tsv": f"query-id\tcorpus-id\tscore\n{labels}",
        "strict.toml": "language = false\nmin_characters = 60\nmin_words = 1\n",
        "loose.toml": "language = false\nmin_characters = 20\nmin_words = 1\n",
    }
    for name, text in made.items():
        Path(name).write_text(text)
    byte_level(Path("tokenizer.json"))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return a folder with the files, and a corpus of two sources."""
    folder = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files()
        with dp.Corpus("mixed.duckdb") as corpus:
            corpus.ingest("faq.csv", name="faq", anchor="question", positive="answer")
            corpus.ingest("manual.jsonl", name="manual", anchor="title", positive="body")
            corpus.split(1, 0, 0)
    return folder


@pytest.fixture
def solved(begun, tmp_path, monkeypatch):
    """Run a task's solution in a copy of the folder; return the names that it leaves, or output."""
    import shutil

    shutil.copytree(begun, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")

    def solve(number):
        (file,) = HERE.glob(f"t{number:02}_*")
        text = file.read_text()
        assert len([line for line in text.splitlines() if line.strip()]) <= 16
        if file.suffix == ".py":
            return runpy.run_path(str(file))
        return [ok(*words[1:]) for words in commands(text)]

    return solve


def commands(text):
    """Yield the commands of a shell script, with the files that it writes made before."""
    rows = iter(text.splitlines())
    for row in rows:
        if "<<" in row:
            name = row.split(">")[1].split("<<")[0].strip()
            written = []
            for line in rows:
                if line == "END":
                    break
                written.append(line)
            Path(name).write_text("\n".join(written))
        elif row.strip():
            yield shlex.split(row)


def test_a_run_of_four_ranks_goes_on_with_three(solved):
    found = solved(1)["found"]
    with dp.resume("mixed.duckdb", "four", rank=0, world_size=1) as alone:
        assert sorted(alone.batch_at(20)["anchor"]) == found


def test_negatives_with_a_margin_are_exported(solved):
    solved(2)
    rows = [json.loads(line) for line in Path("train.jsonl").read_text().splitlines()]
    assert {*rows[0]} >= {"query", "pos", "neg"}
    assert max(len(row["neg"]) for row in rows) == 8


def test_each_candidate_of_an_anchor_has_its_reason(solved):
    _, shown = solved(3)
    assert " cut" in shown


def test_shares_follow_the_anneal(solved):
    found = solved(4)["found"]
    first, last = (
        sum(count["faq"] for count in found[part]) for part in (slice(50), slice(100, 150))
    )
    assert abs(first / (50 * 128) - 0.7) < 0.01
    assert abs(last / (50 * 128) - 0.2) < 0.01


def test_each_batch_is_of_one_source(solved):
    found = solved(5)["found"]
    assert {len(sources) for sources in found} == {1}
    assert len(set.union(*found)) == 2


def test_rows_that_were_not_taken_have_file_and_line(solved):
    _, shown = solved(6)
    assert "odd.csv" in shown
    assert " 5 " in shown


def test_headings_of_markdown_become_anchors(solved):
    found = solved(8)["found"]
    assert len({row["anchor"] for row in found}) == 4


def test_what_the_exam_asks_is_gone(solved):
    solved(9)
    with dp.Corpus("mixed.duckdb") as corpus:
        asked = "SELECT text FROM live_records JOIN sections USING (record_key)"
        assert "what is number 3 of grey" not in corpus.sql(asked)["text"].to_pylist()


def test_sources_of_other_columns_keep_their_names(solved):
    solved(10)
    with dp.Corpus("both.duckdb") as corpus:
        assert corpus.sources()["name"].to_pylist() == ["faq", "manual"]


def test_no_batch_has_a_text_twice(solved):
    for batch in solved(11)["found"]:
        texts = [row[name] for row in batch for name in ("anchor", "positive", "negative")]
        assert len(texts) == len({*texts})


def test_queries_draw_negatives_of_all_documents(solved):
    solved(13)
    rows = [json.loads(line) for line in Path("batch.jsonl").read_text().splitlines()]
    assert len(rows) == 4


def test_pairs_are_kept_whose_positive_is_ranked_high_enough(solved):
    _, counts, _ = solved(14)
    assert "within_20" in counts
    kept = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
    assert len(kept) == 4


def test_scores_come_with_the_batch(solved):
    row = solved(15)["found"][0]
    assert row["positive_score"] >= 0
    assert row["negative_1"]


def test_the_highest_losses_are_named(solved):
    found = solved(16)["found"]
    assert len(found) == 5
    with dp.resume("mixed.duckdb", "losses") as run:
        assert run.step == 60


def test_new_text_joins_a_saved_run(solved):
    assert {f"what is new {i}" for i in range(9)} <= solved(17)["found"]


def test_tokens_are_packed(solved):
    found = solved(18)["found"]
    assert {rows.shape[1] for rows in found} == {64}


def test_a_run_is_told_before_it_starts(solved):
    first, second = solved(19)
    assert "faq" in first
    assert "faq" in second
    assert Path("run.toml").exists()


def test_gates_are_loosened_without_reading_again(solved):
    *_, loosened = solved(20)
    assert loosened
    with dp.Corpus("gated.duckdb") as corpus:
        assert corpus.sources()["records"].to_pylist()[0] > 20
