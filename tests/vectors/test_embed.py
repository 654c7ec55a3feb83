"""Embedding: every text once, each with its own vector, and no loss after failures or kills."""

import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import test_kills
from commands import cli, ok, usage
from corpora import ODD_MAPPING, odd_corpus, odd_records
from effort import kills
from hashed import DIMENSION, Embedder, check_whole, hashed, kept, reasons, texts_of
from prebuilt import toy_corpus
from programs import python
from test_kills import Child, tell

import duckplets as dp
from duckplets.vectors import embed as embedding

KILLS = kills(20, less=1)


@pytest.fixture
def corpus(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 40, 3) as opened:
        yield opened


@pytest.fixture
def toy(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 60) as opened:
        yield opened


def test_every_text_has_its_own_vector_and_is_embedded_once(corpus):
    first, texts = Embedder(), texts_of(corpus)
    report = corpus.embed(first, batch_size=7)
    assert Counter(first.texts) == Counter(texts.values())  # summaries, windows, equal texts
    assert (report.texts, report.there, report.embedded) == (len(texts), 0, len(texts))
    assert (report.failed, report.dimension, report.dtype) == (0, DIMENSION, "float32")
    assert max(map(len, first.calls)) == 7
    check_whole(corpus)

    rows = odd_records(50, 3)[10:]  # ten go, ten come, some others are replaced
    for row in rows[:5]:
        row["body"] = f"now {row['body']}"
    corpus.remove("odd0")
    corpus.ingest(rows, name="odd0", **ODD_MAPPING)
    fresh = texts_of(corpus).keys() - texts.keys()
    second = Embedder()
    report = corpus.embed(second)
    assert fresh
    assert Counter(second.texts) == Counter(texts_of(corpus)[each] for each in fresh)
    assert report.there == report.texts - len(fresh)
    vectors = kept(corpus.path)
    assert vectors.keys() == texts.keys() | fresh
    assert corpus.embed(third := Embedder()).embedded == 0
    assert not third.calls
    rows = corpus.sql("SELECT DISTINCT text FROM chunk_texts WHERE split = 'validation'")
    corpus.embed(embedder := Embedder(), "validation", split="validation")
    assert sorted(embedder.texts) == sorted(rows["text"].to_pylist())


def raising(texts):
    raise RuntimeError("out of \x1b memory")


def not_finite(texts):
    found = hashed(texts)
    found[[text == "not finite" for text in texts], 2] = np.nan
    return found


FAILING = {
    "raising": (raising, "RuntimeError: out of \\x1b memory"),
    "too few": (lambda texts: hashed(texts)[1:], "it returned 0 vectors for 1 texts"),
    "other dimension": (
        lambda texts: np.zeros((len(texts), 3)),
        f"it returned vectors of 3 numbers, not of {DIMENSION}",
    ),
    "words": (
        lambda texts: [["a"] * DIMENSION for _ in texts],
        "it returned a list of <U1, no numbers: return an array (texts, dimension)",
    ),
    "nothing": (
        lambda texts: None,
        "it returned a NoneType, no numbers: return an array (texts, dimension)",
    ),
    "ragged": (
        lambda texts: [[0.0] * (1 + n) for n in range(len(texts) + 1)],
        "it returned a list of vectors that differ in length",
    ),
    "flat": (
        lambda texts: hashed(texts).ravel(),
        f"it returned an array of shape ({DIMENSION},), not (1, d)",
    ),
    "not finite": (not_finite, "its vector is not finite in float32"),  # the others have vectors
}


def failing(texts):
    """Fail as the first of those among the texts says."""
    named = [name for name in FAILING if name in texts]
    return FAILING[named[0]][0](texts) if named else hashed(texts)


def test_texts_that_fail_cost_no_other(toy):
    there = toy.embed(hashed, split="test", made_by="teacher").embedded
    rows = [{"id": name, "text": name} for name in FAILING]
    toy.ingest(dp.sources.MemorySource(rows, id="id", text="text"), name="failing")
    texts = texts_of(toy)
    report = toy.embed(failing, batch_size=64, made_by="teacher")
    assert (report.embedded, report.failed) == (len(texts) - there - len(FAILING), len(FAILING))
    told = {texts[each]: reason for each, reason in reasons(toy.path).items()}
    assert told == {name: reason for name, (_, reason) in FAILING.items()}
    assert report.reasons == dict.fromkeys(told.values(), 1)
    assert {texts[each] for each in kept(toy.path)} == {*texts.values()} - {*FAILING}

    # They are tried again, and no others are.
    mended = Embedder()
    report = toy.embed(mended.encode, made_by="teacher")
    assert sorted(mended.texts) == sorted(FAILING)
    assert (report.embedded, report.failed) == (len(FAILING), 0)
    assert not reasons(toy.path)
    check_whole(toy)


def test_it_stops_when_too_many_of_the_last_texts_fail(toy):
    never = {text for text in texts_of(toy).values() if int(text.split()[-1], 36) % 4 == 0}
    calls = []

    def function(texts):
        if never & {*texts}:
            raise ValueError("never")
        return hashed(texts)

    def stumbling(texts):
        calls.append(len(texts))
        if len(calls) % 3:
            raise ConnectionError
        return hashed(texts)

    assert len(never) > 11
    with pytest.raises(dp.errors.VectorError, match=r"stopped: 11 of the last 200.*never"):
        toy.embed(function, "some", batch_size=8, max_failures=0.05)
    failed, vectors = reasons(toy.path, "some"), kept(toy.path, "some")
    assert never >= {texts_of(toy)[each] for each in failed}
    assert (len(failed), bool(vectors)) == (11, True)
    again, name = Embedder(), f"{function.__module__}.{function.__qualname__}"
    toy.embed(again.encode, "some", made_by=name)
    assert len(again.texts) == 120 - len(vectors)
    check_whole(toy, "some")
    # A call that fails is made again, as often as is allowed.
    report = toy.embed(stumbling, retries=2, batch_size=30)
    assert (report.failed, report.embedded) == (0, 120)
    assert all(calls[i] == calls[i + 1] == calls[i + 2] for i in range(0, len(calls), 3))
    check_whole(toy)


def test_prompts_by_role(tmp_path):
    texts = [("twin", "first"), ("second", "twin"), ("third", "fourth")]
    rows = [{"id": str(n), "q": q, "a": a} for n, (q, a) in enumerate(texts)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="s", id="id", anchor="q", positive="a")
        cases = {
            "both": ({"anchor": "q: ", "context": "p: "}, "q: "),
            "other way round": ({"context": "p: ", "anchor": "q: "}, "p: "),
        }
        for name, (prompts, of_twin) in cases.items():
            embedder, context = Embedder(), prompts["context"]
            report = corpus.embed(embedder, name, prompts=prompts)
            wanted = ["q: second", "q: third", f"{of_twin}twin"]
            wanted += [f"{context}first", f"{context}fourth"]
            assert sorted(embedder.texts) == sorted(wanted)
            assert (report.prompted, report.made_by["prompts"]) == (1, prompts)
            assert kept(corpus.path, name).keys() == texts_of(corpus).keys()  # of the bare texts
            # A set keeps to its prompts, here and in every later call.
            with pytest.raises(dp.errors.VectorError, match="prompts"):
                corpus.embed(embedder, name)


def of_lists(texts):
    return hashed(texts).tolist()


def test_other_makers_are_refused_and_nothing_is_called(toy):
    toy.embed(of_lists, split="test")
    other = Embedder()
    check = {
        "function": (other, {}),
        "dtype": (of_lists, {"dtype": "float16"}),
        "prompts": (of_lists, {"prompts": {"context": "p: "}}),
    }
    for told, (function, options) in check.items():
        with pytest.raises(dp.errors.VectorError, match=told):
            toy.embed(function, **options)
    assert not other.calls
    toy.embed(of_lists)
    check_whole(toy)


WRONG = {
    "no function": (7, {}, "model=7: give a function"),
    "partial": (functools.partial(hashed), {}, "partial function has no name.*made_by="),
    "no module": ("nowhere.at_all:f", {}, "model='nowhere.at_all:f': cannot import nowhere"),
    "no such function": ("hashed:hashes", {}, r"has no 'hashes' \(did you mean 'hashed'\?\)"),
    "batch_size": (hashed, {"batch_size": 0}, "batch_size=0"),
    "retries": (hashed, {"retries": -1}, "retries=-1"),
    "max_failures": (hashed, {"max_failures": 5}, "max_failures=5: give a finite number from 0"),
    "dtype": (hashed, {"dtype": "int8"}, "dtype='int8': give 'float32' or 'float16'"),
    "name": (hashed, {"name": "bm25"}, "name='bm25' is reserved for the text search"),
    "blank": (hashed, {"name": " "}, "name=' ': give up to"),
    "split": (hashed, {"split": "tset"}, "split='tset'"),
    "role": (hashed, {"prompts": {"query": "q: "}}, "='query': give 'anchor', 'context'"),
    "prompt": (hashed, {"prompts": "q: "}, "prompts='q: ': give a table"),
    "made_by": (hashed, {"made_by": 7}, "made_by=7: give text"),
}  # fmt: skip


def test_wrong_arguments_are_named(toy, monkeypatch):
    for model, options, message in WRONG.values():
        with pytest.raises(dp.DuckpletsError, match=message):
            toy.embed(model, **options)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(dp.errors.ExtensionError, match=r"pip install 'duckplets\[hf\]'"):
        toy.embed("all-minilm")
    # Called with each text alone it would look as it should, and all vectors be the same.
    for pooled in (lambda texts: np.ones((1, 4), np.float32), lambda texts: [[1.0] * 4]):
        with pytest.raises(
            dp.errors.VectorError, match=r"one vector for [0-9]+ texts: return an array"
        ):
            toy.embed(pooled, "pooled", batch_size=8, made_by="pooled")
    assert [path.name for path in toy.path.parent.iterdir()] == [toy.path.name]


def test_two_embedders_of_one_set(toy):
    refused = []

    def meanwhile(texts):
        if not refused:
            with pytest.raises(
                dp.errors.VectorError, match="another process embeds into the set 'default'"
            ) as e:
                toy.embed(meanwhile)
            refused.append(e)
            assert toy.embed(of_lists, "beside").embedded == 120
        return hashed(texts)

    assert toy.embed(meanwhile).embedded == 120
    assert refused
    check_whole(toy)
    check_whole(toy, "beside")


def logged(texts):
    with open(os.environ["EMBEDDED"], "a", encoding="utf-8") as log:
        log.write("".join(f"{text}\n" for text in texts))
    return hashed(texts)


def embedder(path, log):
    """Embed until the end, or a kill."""
    os.environ["EMBEDDED"] = log
    embedding._BATCHES, embedding._SECONDS = 2, 0
    with dp.Corpus(path, read_only=True) as corpus:
        corpus.embed(logged, made_by="logged", batch_size=8, progress=lambda n, _: tell("done", n))


test_kills.JOBS["embedder"] = embedder


def test_killed_it_loses_nothing_and_embeds_nothing_twice(tmp_path):
    draw = random.Random(5)
    path, log = tmp_path / "c.duckdb", tmp_path / "log"
    before = {}
    with python(__file__, stdin=subprocess.PIPE, stderr=None) as nursery:
        for killed in range(KILLS):
            if killed % 5 == 0:  # another corpus: few kills are enough for all texts of one
                path = tmp_path / str(killed) / "c.duckdb"
                path.parent.mkdir()
                toy_corpus(path, 100).close()
                before = {}
            log.write_text("")
            child = Child(nursery, "embedder", path, log)
            for _ in range(draw.randint(1, 6)):
                child.first()
            time.sleep(draw.uniform(0, 0.03))
            child.kill()
            assert child.code in (-signal.SIGKILL, 0), child.told
            with dp.Corpus(path, read_only=True) as corpus:
                texts = texts_of(corpus)
            after, done = kept(path), log.read_text().splitlines()
            assert before.keys() <= after.keys()
            assert {texts[each] for each in after.keys() - before.keys()} <= {*done}
            assert not {*done} & {texts[each] for each in before}, "embedded twice"
            assert len(done) == len({*done})
            before = after
    with dp.Corpus(path) as corpus:
        rest = Embedder()
        report = corpus.embed(rest, made_by="logged")
        assert len(rest.texts) == report.embedded == 200 - len(before)
        check_whole(corpus)
    assert {file.name for file in path.parent.iterdir()} == {"c.duckdb", "c.vectors.duckdb"}


def test_the_command(toy, monkeypatch):
    path = toy.path
    toy.close()
    said = cli("embed", path, "hashed:hashes").stderr
    assert "MODEL" not in said
    assert "hashed.py) has no 'hashes'" in said
    assert "give ROLE=TEXT" in usage("embed", path, "hashed:hashed", "--prompt", "anchor")
    options = ("--prompt", "anchor=q, ", "--name", "teacher", "--json")
    report = ok("embed", path, "hashed:hashed", *options)
    assert '"embedded": 120' in report
    assert '"anchor": "q, "' in report
    assert "embedded   120\n" in ok("embed", path, "hashed:hashed", "--batch-size", "50")
    with dp.Corpus(path, read_only=True) as corpus:
        check_whole(corpus)


if __name__ == "__main__":
    test_kills.nursery()
