"""Records that share n-grams with an evaluation set: found by words, told with their place."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import ok as run
from effort import some
from prebuilt import prebuilt

import duckplets as dp
from duckplets.errors import QualityError, ReadOnlyError, SamplerError, SourceError, SplitError

WORDS = [f"word{i}" for i in range(500)]
RECORDS = 60


def words_of(seed, count=60):
    return random.Random(str(seed)).choices(WORDS, k=count)


@prebuilt
def corpus_of(path):
    """Return a corpus of two sources, split."""
    corpus = dp.Corpus(path)
    for name in ("one", "two"):
        rows = [{"id": str(i), "text": " ".join(words_of((name, i)))} for i in range(RECORDS)]
        corpus.ingest(rows, name=name, id="id", text="text")
    corpus.split(0.5, 0.2, 0.3, seed=1)
    return corpus


def leak(source, number, length=13, start=20):
    """Return a text that shares so many words with a record, told apart otherwise."""
    shared = words_of((source, number))[start : start + length]
    return " ".join([*words_of("before", 5), ", ".join(shared).upper(), *words_of("after", 5)])


def splits_of(corpus):
    rows = corpus.sql("SELECT record_id, split FROM live_records").to_pylist()
    return {row["record_id"]: row["split"] for row in rows}


def rows_of(corpus):
    return list(
        corpus.sql(
            "SELECT record_id, version, against, matches, ngram, evaluation, action "
            "FROM contaminations JOIN records USING (record_key) ORDER BY ALL"
        ).to_pylist()
    )


def found(corpus):
    return {row["record_id"]: row["evaluation"] for row in rows_of(corpus)}


QUESTIONS = [leak("one", 3), leak("one", 5, 12), leak("two", 7, 15), "too short", None, " "]


def write(folder, form):
    """Write the questions as a file of a form."""
    path = folder / f"eval.{form}"
    rows = [{"id": i, "q": text, "a": "an answer"} for i, text in enumerate(QUESTIONS)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif form == "csv":
        lines = [f'{row["id"]},"{row["q"] or ""}",{row["a"]}' for row in rows]
        path.write_text("\n".join(["id,q,a", *lines]))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("form", some(["csv", "parquet", "jsonl"], less=1))
def test_shared_ngrams_are_found_with_their_place(tmp_path, form):
    path = write(tmp_path, form)
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        report = corpus.decontaminate(path, text=["q", "a"])
        rows = {row["record_id"]: row for row in rows_of(corpus)}
        splits = splits_of(corpus)
    assert rows.keys() == {"one/3", "two/7"}  # 12 words are too few
    assert rows["one/3"]["ngram"] == " ".join(words_of(("one", 3))[20:33])
    assert [rows[key]["matches"] for key in ("one/3", "two/7")] == [1, 3]
    line = {"jsonl": ":1", "csv": ":2", "parquet": ", row 1"}[form]
    assert rows["one/3"]["evaluation"] == f"{path}{line}"
    assert (report.contaminated, report.records, report.version) == (2, 2 * RECORDS, 2)
    assert (report.texts, report.short) == (4 + 6, 1 + 6)
    (note,) = report.notes
    assert note.startswith("7 of 10 texts have fewer than 13 words")
    assert report.skipped == {"no text": 2}
    told = {(r["source"], r["split"]): r["contaminated"] for r in report.by_source}
    assert sum(r["records"] for r in report.by_source) == 2 * RECORDS
    assert told["one", splits["one/3"]] == told["two", splits["two/7"]] == 1
    assert sum(told.values()) == 2
    assert report.examples[0]["record_id"] == "one/3"


TOO_SHORT = [
    ([20] * 9, 13, []),
    ([12] + [20] * 39, 13, ["1 of 40 texts have fewer than 13 words and match nothing"]),
    ([7, 8, *[9] * 17, 20], 13, "; ngram=7 leaves out 0"),
    ([1] * 3 + [6] * 96 + [13], 13, "; ngram=6 leaves out 3"),
    ([2] * 5 + [20], 13, "; ngram=5 leaves out 5"),
    ([2] * 5 + [20], 4, ["5 of 6 texts have fewer than 4 words and match nothing"]),
]


def test_texts_too_short_to_be_found_are_said_with_an_ngram_that_reaches_most(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        for sizes, ngram, said in TOO_SHORT:
            rows = [{"text": " ".join(words_of(i, size))} for i, size in enumerate(sizes)]
            questions = dp.sources.MemorySource(rows, text="text")
            report = corpus.decontaminate(questions, ngram=ngram, dry_run=True)
            assert report.short == sum(size < ngram for size in sizes)
            assert report.notes == said or report.notes[0].endswith(said), (sizes, report.notes)


@pytest.mark.parametrize("n", some([2, 1, 4], less=1))
def test_matches_are_those_of_plain_sets(tmp_path, n):
    draw = random.Random(n)
    texts = [draw.choices("abcdefghijklmnop", k=draw.randint(1, 12)) for _ in range(40)]
    asked = [draw.choices("abcdefghijklmnop", k=draw.randint(n, 9)) for _ in range(30)]
    rows = [{"id": str(i), "text": " ".join(text)} for i, text in enumerate(texts)]
    questions = dp.sources.MemorySource([{"text": " ".join(text)} for text in asked], text="text")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="s", id="id", text="text")
        corpus.decontaminate(questions, ngram=n)
        stored = {
            r["record_id"]: (r["matches"], r["ngram"], r["evaluation"]) for r in rows_of(corpus)
        }
    first = {}
    for number, text in enumerate(asked, 1):
        for i in range(len(text) - n + 1):
            first.setdefault(tuple(text[i : i + n]), number)
    expected = {}
    for number, text in enumerate(texts):
        ours = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        if hits := [gram for gram in ours if gram in first]:
            place = f"row {first[hits[0]]}"
            expected[f"s/{number}"] = (len(hits), " ".join(hits[0]), place)
    assert stored == expected


def with_leaks(corpus):
    """Add to train and validation what the test split has, and to one source what another has."""
    rows = corpus.sql("SELECT record_id FROM live_records WHERE split = 'test' ORDER BY record_id")
    name, number = rows["record_id"][0].as_py().split("/")
    texts = [{"id": str(i), "text": leak(name, int(number)), "g": f"g{i}"} for i in range(30)]
    corpus.ingest(texts, name="leaks", id="id", text="text", group="g")


def test_the_test_split_and_a_source(tmp_path):
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        with_leaks(corpus)
        split = splits_of(corpus)
        report = corpus.decontaminate("test")
        leaks = {key for key in split if key.startswith("leaks/")}
        assert found(corpus).keys() == {key for key in leaks if split[key] != "test"}
        assert {row["split"] for row in report.by_source} == {"train", "validation"}
        assert report.against == "split test"
        assert set(found(corpus).values()) <= {key for key in split if split[key] == "test"}
        before = corpus.version
        done = corpus.decontaminate("test", action="remove")
        assert corpus.version == done.version == before + 1
        assert done.contaminated == report.contaminated > 3
        again = corpus.decontaminate("test", action="remove")
        assert (again.contaminated, corpus.version) == (0, before + 1)
        left = set(corpus.sql("SELECT record_id FROM live_records")["record_id"].to_pylist())
        assert left == {key for key in split if key not in leaks or split[key] == "test"}
        of = corpus.decontaminate("leaks", dry_run=True)
        assert {row["source"] for row in of.by_source} == {"one", "two"}
        assert of.contaminated == 1
        kinds = {(row["version"], row["action"]) for row in rows_of(corpus)}
        assert kinds == {(before, "mark"), (before + 1, "remove")}


def test_wrong_evaluation_sets_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "short.jsonl").write_text('{"q": "three short words"}')
    (tmp_path / "none.jsonl").write_text('{"q": null}')
    (tmp_path / "eval.xyz").write_text("what")
    (tmp_path / "texts").mkdir()
    cases = [
        ("missing.jsonl", {"text": "q"}, SourceError, "is no file, no source"),
        ("oen", {}, SourceError, "did you mean 'one'"),
        (tmp_path / "empty.jsonl", {"text": "q"}, SourceError, "is empty"),
        (tmp_path / "none.jsonl", {"text": "q"}, SourceError, "no text to compare with: 1 no"),
        (tmp_path / "short.jsonl", {"text": "q"}, SourceError, "has 13 words, the longest has 3"),
        (tmp_path / "short.jsonl", {}, SourceError, "say which columns hold the text"),
        (tmp_path / "short.jsonl", {"text": "x"}, SourceError, "x"),
        (tmp_path / "eval.xyz", {}, SourceError, "its format is not clear from"),
        (tmp_path / "texts", {"text": "q"}, SourceError, "text= is for files with columns"),
        ("test", {"text": "q"}, SourceError, "is in the corpus"),
        ("test", {"ngram": 0}, SamplerError, "ngram=0: give an integer from 1"),
        ("test", {"action": "drop"}, SamplerError, "give 'mark' or 'remove'"),
        (3, {}, SourceError, "source"),
    ]
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        for against, options, error, told in cases:
            with pytest.raises(error, match=told):
                corpus.decontaminate(against, **options)
        assert not rows_of(corpus)
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        assert corpus.decontaminate("test", dry_run=True).contaminated == 0
        with pytest.raises(ReadOnlyError, match="cannot decontaminate"):
            corpus.decontaminate("test")
    with (
        dp.Corpus(tmp_path / "d.duckdb") as corpus,
        pytest.raises(SplitError, match="no splits yet"),
    ):
        corpus.decontaminate("test")


def test_a_folder_of_texts_and_the_command(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "exam.txt").write_text(leak("two", 9))
    path, questions = tmp_path / "c.duckdb", write(tmp_path, "jsonl")
    with corpus_of(path) as corpus:
        corpus.decontaminate(tmp_path / "texts")
        assert found(corpus)["two/9"].startswith(str(tmp_path / "texts" / "exam.txt"))
    several = f"{questions.with_suffix('')}.js*"
    told = run("decontaminate", path, several, "--text", "q", "--action", "remove")
    facts = dict(line.split(None, 1) for line in told.splitlines() if line.count("  "))
    assert (facts["records"], facts["contaminated"], facts["action"]) == ("120", "2", "remove")
    assert facts["one/3"].endswith(f"{questions}:1")


def beir_folder(path, queries, **qrels):
    """Write a BEIR folder whose queries are texts, and labels by split as numbers of queries."""
    (path / "qrels").mkdir(parents=True)
    (path / "corpus.jsonl").write_text('{"_id": "d", "title": "", "text": "of no use"}\n')
    rows = [json.dumps({"_id": f"q{n}", "text": text}) for n, text in enumerate(queries)]
    (path / "queries.jsonl").write_text("\n".join(rows) + "\n")
    for split, named in qrels.items():
        lines = [f"q{n}\td\t1" for n in named]
        head = "query-id\tcorpus-id\tscore"
        (path / "qrels" / f"{split}.tsv").write_text("\n".join([head, *lines]) + "\n")
    return path


def test_a_folder_of_beir_folders_and_its_card(tmp_path):
    beir = tmp_path / "beir"
    beir_folder(beir / "one", [leak("one", 3), leak("one", 4), "few words"], test=[0, 2], train=[1])
    beir_folder(beir / "cqa" / "two", [leak("one", 3), leak("one", 5)], dev=[0, 1])
    beir_folder(beir / "three", [" ".join(words_of("nobody"))])
    with corpus_of(tmp_path / "c.duckdb") as corpus:
        plain = {"dry_run": True, "card": tmp_path / "card.md", "progress": False}
        report = corpus.decontaminate(beir, **plain)
        sets = {row["set"]: row for row in report.sets}
        assert [*sets] == ["cqa/two", "one", "three"]
        assert [row["split"] for row in report.sets] == ["validation", "test", "all"]
        assert [row["texts"] for row in report.sets] == [2, 2, 1]
        assert [row["contaminated"] for row in report.sets] == [2, 1, 0]
        assert sets["one"]["short"] == 1
        assert sets["one"]["matches"] == 1
        assert (report.contaminated, report.texts, report.short) == (2, 5, 1)
        card = (tmp_path / "card.md").read_text().partition("## Records")[0]
        for name, row in sets.items():
            (line,) = (line for line in card.splitlines() if line.startswith(f"| ` {name} `"))
            assert f"| {row['contaminated']} | {row['matches']} |" in line
        assert "n-grams of 13 words" in card
        alone = corpus.decontaminate(beir / "one", dry_run=True)
        assert [(row["set"], row["contaminated"]) for row in alone.sets] == [("one", 1)]
        for given, error, said in (
            ({"card": tmp_path / "no" / "card.md"}, QualityError, "no such folder"),
            ({"card": tmp_path}, QualityError, "cannot be written"),
            ({"text": "text"}, SourceError, "is for a file"),
        ):
            with pytest.raises(error, match=said):
                corpus.decontaminate(beir, **plain | given)
        (beir / "one" / "qrels" / "test.tsv").unlink()
        with pytest.raises(SourceError, match=r"one: qrels are of train; give test.tsv"):
            corpus.decontaminate(beir, **plain)
        (beir / "one" / "queries.jsonl").unlink()
        with pytest.raises(SourceError, match=r"corpus.jsonl exists and queries.jsonl does not"):
            corpus.decontaminate(beir, **plain)
