"""Advice on a corpus: what it says, that it writes nothing, and what it does with bad input."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from collections_by_hand import collection
from commands import cli, error, ok
from prebuilt import prebuilt
from threadpoolctl import threadpool_limits

import duckplets as dp
from duckplets import advise as room
from duckplets.advise import halving
from duckplets.advise.halving import ARMS, IN_BATCH, SEEDS
from duckplets.errors import EmptyPoolError, SamplerError, SplitError

WORDS = [
    f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "re", "sa") for b in ("dar", "fel", "gor", "pim")
]


def rows(count, seed=1):
    """Questions of three words whose answers have two of them, in families of up to three."""
    draw = random.Random(seed)
    for n in range(count):
        asked = draw.sample(WORDS, 3)
        answer = [*asked[:2], *draw.choices(WORDS, k=3), f"n{n}"]
        yield {"id": f"r{n}", "q": " ".join(asked), "a": " ".join(answer), "g": f"g{n // 3}"}


@prebuilt
def asked(path, count=500, **changed):
    corpus = dp.Corpus(path)
    given = [row | {name: make(row) for name, make in changed.items()} for row in rows(count)]
    source = dp.sources.MemorySource(given, id="id", anchor="q", positive="a", group="g")
    corpus.ingest(source, name="s", progress=False)
    corpus.split(0.8, 0.1, 0.1, seed=1)
    return corpus


def state(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """One corpus, its advice, and what was told meanwhile."""
    folder = tmp_path_factory.mktemp("advised")
    with asked(folder / "toy.duckdb"):
        pass
    before, told = state(folder), []
    with dp.Corpus(folder / "toy.duckdb", read_only=True) as corpus, threadpool_limits(1, "blas"):
        found = corpus.advise(seconds=1, progress=lambda *each: told.append(each))
    assert state(folder) == before, "nothing is written"
    return folder, found, told


def test_the_arms_are_halved_and_compared_with_in_batch_negatives(advised):
    _, found, told = advised
    assert [n for n, _ in told] == [*range(1, told[-1][1] + 1)]
    assert {arm.arm for arm in found.arms} == {*ARMS}
    by_batches = [arm.batches for arm in found.arms]
    assert by_batches == sorted(by_batches, reverse=True)
    stages = sorted({*by_batches})
    assert [sum(n >= stage for n in by_batches) for stage in stages] == [8, 4, 3][-len(stages) :]
    for arm in found.arms:
        assert arm.low <= arm.difference <= arm.high
        assert arm.difference == pytest.approx(np.mean(arm.by_seed))
        assert (len(arm.by_seed), 0 < arm.ndcg < 100) == (len(SEEDS), True)
    (plain,) = [arm for arm in found.arms if arm.arm == IN_BATCH]
    assert (plain.batches, plain.low, plain.high) == (stages[-1], 0, 0)
    best = next(arm for arm in found.arms if arm.arm != IN_BATCH)
    assert found.gain == (best.low > 0 and min(best.by_seed) > 0)
    assert found.recommended == (best.arm if found.gain else IN_BATCH)
    assert (0 <= found.sure <= 1, found.work > 0) == (True, True)
    assert found.families < found.queries
    assert found.anchors + found.queries <= 500


def test_it_is_the_same_with_any_number_of_threads(advised):
    folder, found, _ = advised
    with dp.Corpus(folder / "toy.duckdb", threads=2) as corpus, threadpool_limits(4, "blas"):
        corpus.mine(progress=False)
        again = corpus.advise(seconds=1, progress=False)
        other = corpus.advise(seconds=1, seed=2, progress=False)
    assert (again.arms, again.run, again.sure) == (found.arms, found.run, found.sure)
    assert other.arms != found.arms
    assert "BM25 index" in str(found)
    assert "BM25 index" not in str(again)


def test_text_json_and_page_say_the_same(advised, monkeypatch):
    folder, found, _ = advised
    monkeypatch.chdir(folder)
    out = ok(
        "advise",
        "toy.duckdb",
        "--seconds",
        "1",
        "--json",
        "--write",
        "run.toml",
        "--page",
        "p.html",
    )
    told = json.loads(out)
    assert [arm["arm"] for arm in told["arms"]] == [arm.arm for arm in found.arms]
    assert Path("run.toml").read_text() == told["run"] == found.run
    assert "exists already" in cli("advise", "toy.duckdb", "--write", "run.toml").stderr
    text = str(found)
    assert found.run in text
    assert "Not tried" in text
    answer = f"Take {found.recommended}" if found.gain else "Nothing to be gained here"
    assert text.startswith(answer)
    page = Path("p.html").read_text()
    with dp.Corpus("toy.duckdb") as corpus:
        data = corpus.report(advice=found).data
    (section,) = [each for each in data["sections"] if each["name"] == "advice"]
    assert section["notes"][0] in text
    assert section["tables"][0]["rows"] == [arm.row() for arm in found.arms]
    for arm in found.arms:
        assert f"<title>{arm.arm}: " in page


@pytest.mark.parametrize("name", ARMS)
def test_every_recommendation_is_a_run_that_opens(name, advised, tmp_path, monkeypatch):
    """By way of an answer that is planted: the results of one arm are raised."""
    ndcg = halving.Judge.ndcg
    monkeypatch.setattr(halving.Judge, "ndcg", lambda *_: np.full(len(_[0].families), 0.5))
    train = halving.Halving._train

    def raised(self, arm, seed, until, deadline):
        monkeypatch.setattr(halving.Probe, "learn", lambda *_: 0.0)
        train(self, arm, seed, until, deadline)
        if arm == name:
            self.results[arm][until][seed] = np.full(len(self.judge.families), 0.6)

    monkeypatch.setattr(halving.Halving, "_train", raised)
    assert callable(ndcg)
    with asked(tmp_path / "toy.duckdb") as corpus:
        found = corpus.advise("anchor_context", source="s", seconds=1, progress=False)
        assert (found.recommended, found.gain) == (name, name != IN_BATCH)
        file = tmp_path / "run.toml"
        file.write_text(found.run)
        run = dp.load_run(file)
        kept = ARMS[name].get("negatives", dp.Negatives())
        assert (run["recipes"], run.get("negatives", dp.Negatives())) == (["anchor_context"], kept)
        if "dense" in found.run:
            texts = corpus.sql("SELECT DISTINCT text FROM chunk_texts ORDER BY text")["text"]
            vectors = np.random.default_rng(1).standard_normal((len(texts), 4))
            corpus.add_vectors("default", {"text": texts, "vector": vectors}, progress=False)
            corpus.mine(by=dp.Dense(), progress=False)
        elif "bm25" in found.run:
            corpus.mine(progress=False)
        with corpus.sampler(**run, steps=1) as sampler:
            assert len(next(sampler)) == run["batch_size"]


# ---- bad input


def test_an_end_before_the_end_shows_what_is_done(advised, tmp_path, monkeypatch):
    folder, found, _ = advised

    def stop(done, total):
        if done == after:
            raise KeyboardInterrupt

    with dp.Corpus(folder / "toy.duckdb") as corpus:
        for after in (5, 17):
            part = corpus.advise(seconds=1, progress=stop)
            assert part.cut_short == "interrupted"
            assert len(part.arms) == min(8, after // 2)
            assert "It was interrupted" in str(part)
        (same,) = [
            arm for arm in corpus.advise(seconds=1, progress=stop).arms if arm.arm == "1 BM25"
        ]
        assert same.batches <= max(arm.batches for arm in found.arms)
        after = 1
        with pytest.raises(KeyboardInterrupt):
            corpus.advise(seconds=1, progress=stop)
        monkeypatch.setattr(room, "_PATIENCE", -1000.0)
        with pytest.raises(EmptyPoolError, match="before two arms were done"):
            corpus.advise(seconds=1, progress=False)


def test_too_little_to_tell_is_said(tmp_path):
    same = {"q": lambda row: "one question", "a": lambda row: "one answer"}
    for number, (count, changed, why) in enumerate(
        [
            (100, {}, "too few to tell: .* advise needs 200"),
            (400, {"g": lambda row: "one"}, "too few to tell: .* other families"),
            (400, {"a": lambda row: "one class"}, "nothing to try: .*no negative"),
            (400, {"a": lambda row: f"class {len(row['a']) % 7}"}, "too few to tell: . different"),
            (400, same, "nothing to try"),
        ]
    ):
        with asked(tmp_path / f"{number}.duckdb", count, **changed) as corpus:
            with pytest.raises(EmptyPoolError, match=why) as told:
                corpus.advise(seconds=1, progress=False)
            assert len(str(told.value)) <= 240
    with dp.Corpus(tmp_path / "new.duckdb") as corpus:
        source = dp.sources.MemorySource([*rows(300)], id="id", anchor="q", positive="a")
        corpus.ingest(source, name="s", progress=False)
        with pytest.raises(SplitError):
            corpus.advise()
        corpus.split()
        with pytest.raises(SamplerError, match="seconds=0"):
            corpus.advise(seconds=0)
    assert "too few to tell" in error("advise", tmp_path / "0.duckdb")


def test_long_texts_other_scripts_and_no_families_are_no_obstacle(tmp_path):
    scripts = {ord(a): b for a, b in zip("adefgiklmnoprsu", "犬猫鳥魚เสือлисمάβㄱ", strict=False)}
    long = " ".join(WORDS) * 150_000  # 20 MB
    with dp.Corpus(tmp_path / "odd.duckdb") as corpus:
        given = [
            {"id": row["id"], "q": row["q"].translate(scripts), "a": row["a"].translate(scripts)}
            for row in rows(300)
        ]
        given[7]["a"] += long
        source = dp.sources.MemorySource(given, id="id", anchor="q", positive="a")
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1, 0, 0)
        found = corpus.advise(seconds=1, progress=False)
    assert found.queries == found.families > 10
    assert max(arm.ndcg for arm in found.arms) > 5


def test_a_collection_is_judged_by_its_labels(tmp_path):
    draw, given = random.Random(1), [*rows(600)]
    with dp.Corpus(tmp_path / "set.duckdb") as corpus:
        documents = [{"id": f"d{n}", "text": row["a"]} for n, row in enumerate(given)]
        labels = [(row["id"], f"d{n}", draw.choice([1, 2])) for n, row in enumerate(given)]
        queries = [{"id": row["id"], "q": row["q"]} for row in given]
        collection(corpus, "s", queries, documents, labels)
        corpus.split(1, 0, 0)
        found = corpus.advise(seconds=1, progress=False)
    assert found.documents == 600
    assert found.anchors + found.queries <= 600
    assert max(arm.ndcg for arm in found.arms) > 5
