"""Advice on a corpus: what it says, that it writes nothing, and what it does with bad input."""

import json
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from collections_by_hand import collection
from commands import cli, error, ok
from effort import often
from prebuilt import prebuilt
from programs import ran
from threadpoolctl import threadpool_limits

import duckplets as dp
from duckplets import advise as room
from duckplets.advise import halving
from duckplets.advise.halving import ARMS, IN_BATCH, SEEDS
from duckplets.errors import EmptyPoolError, RecipeError, SamplerError, SplitError

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
def asked(path, count=260, **changed):
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
    assert [sum(n >= stage for n in by_batches) for stage in stages] == [8, 5, 4][-len(stages) :]
    for arm in found.arms:
        assert arm.low <= arm.difference <= arm.high
        assert arm.difference == pytest.approx(np.mean(arm.by_seed))
        assert (len(arm.by_seed), 0 < arm.ndcg < 100) == (len(SEEDS), True)
    (plain,) = [arm for arm in found.arms if arm.arm == IN_BATCH]
    assert (plain.batches, plain.low, plain.high) == (stages[-1], 0, 0)
    best = next(arm for arm in found.arms if arm.arm != IN_BATCH)
    assert found.gain == (found.sure >= 0.9 and min(best.by_seed) > 0)
    assert found.recommended == (best.arm if found.gain else IN_BATCH)
    assert (0 <= found.sure <= 1, found.work > 0) == (True, True)
    assert found.families < found.queries
    assert found.anchors + found.queries <= 260


@pytest.mark.parametrize(
    ("gains", "recommended"),
    [
        ({"1 dense": 0.022, "4 dense": 0.02}, "4 dense"),
        ({"1 dense": 0.04, "4 dense": 0.02}, "1 dense"),
        ({"1 dense": 0.02, "4 dense": -0.02}, "1 dense"),
        ({"1 random": 0.02, "4 BM25": 0.021, "4 dense": 0.019}, "4 BM25"),
        ({"1 dense": 0.0, "4 dense": -0.01}, IN_BATCH),
    ],
)
def test_of_arms_that_queries_do_not_separate_the_one_with_most_negatives(gains, recommended):
    draw = np.random.default_rng(1)
    results = {IN_BATCH: {400: {seed: draw.uniform(0.2, 0.6, 400) for seed in SEEDS}}}
    for name, gain in gains.items():
        noise = {seed: draw.normal(0, 0.1, 400) for seed in SEEDS}
        differences = {seed: gain + one - one.mean() for seed, one in noise.items()}
        results[name] = {400: {s: results[IN_BATCH][400][s] + differences[s] for s in SEEDS}}

    def compared(name):
        own = results.get(name, {}).get(400, {})
        return 400 * bool(own), np.array([own[s] - results[IN_BATCH][400][s] for s in own])

    judge = SimpleNamespace(families=[str(n) for n in range(400)])
    trained = SimpleNamespace(
        judge=judge, results=results, compared=compared, spent=1, cut_short=""
    )
    facts = {"recipe": "r", "anchors": 1, "documents": 1, "seconds": 1.0, "notes": ()}
    found = room._advice(trained, {"batch_size": 8}, **facts)
    top = max(gains, key=lambda name: gains[name])
    assert found.recommended == recommended
    assert found.arms[0].arm == recommended or not found.gain
    assert len(found.notes) == (found.gain and top != recommended)
    if found.notes:
        assert found.notes[0].startswith(f"{top} has +{100 * gains[top]:.1f}. Queries do not")
        assert str(found).startswith(f"Take {recommended}")


def test_it_is_the_same_with_any_number_of_threads(advised):
    folder, found, _ = advised
    with dp.Corpus(folder / "toy.duckdb", threads=2) as corpus, threadpool_limits(4, "blas"):
        corpus.mine(split="train", progress=False)
        again = corpus.advise(seconds=1, progress=False)
    assert (again.arms, again.run, again.sure) == (found.arms, found.run, found.sure)
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
    assert " exists; " in cli("advise", "toy.duckdb", "--write", "run.toml").stderr
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


class Planted:
    """A halving whose arms differ as they are told to, query by query."""

    def __init__(self, gains, spread=0.0):
        draw = np.random.default_rng(1)
        self.judge, self.plans = (
            SimpleNamespace(families=[*"aabbcdefgh"]),
            SimpleNamespace(batch=16),
        )
        self.spent, self.cut_short = 0, ""
        noise = {(arm, seed): draw.normal(0, spread, 10) for arm in gains for seed in SEEDS}
        self.results = {
            arm: {9: {seed: 0.5 + gain + noise[arm, seed] for seed in SEEDS}}
            for arm, gain in gains.items()
        }

    def compared(self, name):
        return halving.Halving.compared(self, name)


def planted(gains, run=None, **how):
    facts = {"recipe": "r", "anchors": 1, "documents": 1, "seconds": 1.0, "notes": ()}
    return room._advice(Planted(dict.fromkeys(ARMS, 0.0) | gains, **how), run or {}, **facts)


def test_nothing_is_recommended_that_queries_and_seeds_do_not_show():
    assert planted({}).recommended == IN_BATCH
    for gains, spread in (({"4 BM25": 0.01}, 0.3), ({"1 random": -0.1, "4 dense": -0.2}, 0.0)):
        found = planted(gains, spread=spread)
        assert (found.recommended, found.gain) == (IN_BATCH, False)
        assert str(found).startswith("Nothing to be gained here")
    found = planted({"4 BM25": 0.05, "1 dense": 0.04}, spread=0.001)
    assert (found.recommended, found.gain, found.sure) == ("4 BM25", True, 1.0)


def test_every_recommendation_is_a_run_that_opens(advised, tmp_path):
    shutil.copy(advised[0] / "toy.duckdb", tmp_path)
    with dp.Corpus(tmp_path / "toy.duckdb") as corpus:
        texts = corpus.sql("SELECT DISTINCT text FROM chunk_texts ORDER BY text")["text"]
        vectors = np.random.default_rng(1).standard_normal((len(texts), 4))
        corpus.add_vectors("default", {"text": texts, "vector": vectors}, progress=False)
        corpus.mine(split="train", progress=False)
        corpus.mine(by=dp.Dense(), split="train", progress=False)
        for name in ARMS:
            own = {
                "mixture": {"weights": {"s": 1.0}},
                "recipes": ["anchor_context"],
                "batch_size": 8,
            }
            found = planted({name: 0.1} if name != IN_BATCH else {}, own)
            assert found.recommended == name
            (tmp_path / "run.toml").write_text(found.run)
            run = dp.load_run(tmp_path / "run.toml")
            assert run["recipes"] == ["anchor_context"]
            assert run.get("negatives") == ARMS[name].get("negatives")
            with corpus.sampler(**run, steps=1) as sampler:
                assert len(next(sampler)) == 8
            command = {"dense": "duckplets embed", "BM25": "duckplets mine", "consistent": "embed"}
            assert all(told in found.run for word, told in command.items() if word in name)


# ---- bad input


def test_an_end_before_the_end_shows_what_is_done(advised, monkeypatch):
    folder, _, _ = advised

    def stop(done, total):
        if done == after:
            raise KeyboardInterrupt

    with dp.Corpus(folder / "toy.duckdb") as corpus:
        after = 5
        part = corpus.advise(seconds=1, progress=stop)
        assert part.cut_short == "interrupted"
        assert [arm.arm for arm in part.arms if arm.arm != IN_BATCH] == ["1 random"]
        assert "It was interrupted" in str(part)
        after = 1
        with pytest.raises(KeyboardInterrupt):
            corpus.advise(seconds=1, progress=stop)
        monkeypatch.setattr(room, "_PATIENCE", -1000.0)
        with pytest.raises(EmptyPoolError, match="before two arms ended"):
            corpus.advise(seconds=1, progress=False)


STOPPED = """
from duckplets.advise import halving
from duckplets.cli import main
train, left = halving.Halving._train, iter(range(7))  # two arms by two seeds, and what ranks
def stop(*given):
    if next(left, None) is None:
        raise KeyboardInterrupt
    train(*given)
halving.Halving._train = stop
main(["advise", "toy.duckdb", "--seconds", "1"])
"""


def test_ctrl_c_on_the_command_line_shows_what_is_done(advised):
    done = ran(sys.executable, "-c", STOPPED, cwd=advised[0])
    assert done.returncode == 130
    assert "It was interrupted" in done.stdout
    assert "1 random" in done.stdout
    assert done.stderr.endswith("interrupted\n")


def test_too_little_to_tell_is_said(tmp_path):
    same = {"q": lambda row: "one question", "a": lambda row: "one answer"}
    for number, (count, changed, why) in enumerate(
        [
            (100, {}, "too few to tell: .* advise needs 200"),
            (300, {"g": lambda row: "one"}, "no anchor can be tried: .*one family"),
            (
                300,
                {"q": lambda row: "one question"},
                "no anchor can be tried|too few (anchors|texts)",
            ),
            (300, {"a": lambda row: "one class"}, "no anchor can be tried: .*no negative"),
            (300, {"a": lambda row: f"class {len(row['a']) % 7}"}, "too few to tell: . distinct"),
            (300, same, "no anchor can be tried"),
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
    long = " ".join(WORDS) * often(100_000, less=5_000)  # 20 MB
    with dp.Corpus(tmp_path / "odd.duckdb") as corpus:
        given = [
            {"id": row["id"], "q": row["q"].translate(scripts), "a": row["a"].translate(scripts)}
            for row in rows(260)
        ]
        given[7]["a"] += long
        source = dp.sources.MemorySource(given, id="id", anchor="q", positive="a")
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1, 0, 0)
        role = dp.role
        drawn = dp.TripletRecipe("own", role("anchor"), role("context"), role("context"), by="bm25")
        corpus.add_recipe(drawn)
        ready = replace(drawn, name="ready", strategy="same_record", by=None)
        with pytest.raises(RecipeError, match="already has its negatives"):
            corpus.advise(ready)
        found = corpus.advise("own", seconds=1, progress=False)
    assert 'by = "bm25"' not in found.run.partition("[[recipe]]")[2]
    assert 'name = "own"' in found.run
    assert found.queries == found.families > 10
    assert max(arm.ndcg for arm in found.arms) > 5


def test_a_collection_is_judged_by_its_labels(tmp_path):
    draw, given = random.Random(1), [*rows(300)]
    with dp.Corpus(tmp_path / "set.duckdb") as corpus:
        documents = [{"id": f"d{n}", "text": row["a"]} for n, row in enumerate(given)]
        labels = [(row["id"], f"d{n}", draw.choice([1, 2])) for n, row in enumerate(given)]
        queries = [{"id": row["id"], "q": row["q"]} for row in given]
        collection(corpus, "s", queries, documents, labels)
        corpus.split(1, 0, 0)
        found = corpus.advise(seconds=1, progress=False)
    assert found.documents == 300
    assert found.anchors + found.queries <= 300
    assert max(arm.ndcg for arm in found.arms) > 5
