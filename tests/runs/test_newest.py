"""Text that arrives while a model trains: later versions of the corpus join a run.

With what stands beside it: labels, prefixes, vectors, weights.
"""

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from commands import ok
from effort import THOROUGH, often, some, thorough
from frozen_runs import TITLED, titled
from prebuilt import copied, copying
from text_vectors import DIMENSION, hashed, texts_of, vector, vectors

import duckplets as dp
from duckplets.testing import toy_records
from duckplets.vectors.store import VectorSet, VectorStore

PAIR = dp.TripletRecipe("pair", dp.role("anchor"), dp.role("context"), dp.role("context"))
BACK = dp.TripletRecipe(
    "back", dp.role("context"), dp.role("anchor"), dp.role("anchor"), weight=0.5
)
TEXTS = dp.TextRecipe("each", dp.any_section(), per="chunk")
BATCH = 8
RUNS = {
    "triplets": {"kind": "triplets", "recipes": [PAIR, BACK]},
    "pairs": {"kind": "labelled_pairs", "recipes": [PAIR], "negatives": 2},
    "texts": {"kind": "texts", "recipes": [TEXTS]},
    "apart": {"kind": "triplets", "recipes": [PAIR], "no_duplicates": "negatives", "batch_size": 4},
    "distinct": {"kind": "triplets", "recipes": [BACK], "no_duplicates": True, "batch_size": 4},
    "anneal": {
        "kind": "triplets",
        "recipes": [PAIR, BACK],
        "mixture": dp.Mixture({"a": 3}, anneal=dp.Anneal(5, {"b": 4}, end_step=40), omitted=1),
    },
}
SLOTS = {"texts": ("text", "text"), "pairs": ("anchor", "other")}
SEEN = often(880, less=480)  # positions that are looked at
LATER = [("a", 7), ("b", 11), ("c", 9), ("a", 20)]  # what each of the later versions adds


def grown(path):
    """A corpus of several versions, and runs that were opened at the first of them."""
    sizes = Counter({"a": 13, "b": 17, "d": 5})
    corpus = titled(path, dict(sizes))
    for run, arguments in RUNS.items():
        corpus.sampler(run=run, **{"batch_size": BATCH, **arguments}).save()
    for name, count in LATER:
        records = toy_records(sizes[name] + count, seed=name)[sizes[name] :]
        corpus.ingest(records, name=name, **TITLED)
        sizes[name] += count
    return corpus


FIRST = 3  # the version at which runs were opened
NEWEST = FIRST + len(LATER)


@pytest.fixture
def path(tmp_path):
    copied(tmp_path / "c.duckdb", grown)
    return tmp_path / "c.duckdb"


@pytest.fixture
def corpus(path):
    with dp.Corpus(path, read_only=True) as opened:
        yield opened


def taken(sampler, steps):
    return [row for batch in islice(sampler, steps) for row in batch.to_pylist()]


def told(table):
    """A table of what is served without the versions it is drawn from."""
    return table.drop_columns(["version"]) if "version" in table.column_names else table


def check_parts(table, run, begins):
    """From the step of a join on all is of its version, and streams begin a new epoch there."""
    slots = SLOTS.get(run, ("anchor", "positive"))
    every = 3 if run == "pairs" else 1  # of each draw one sample
    rows = table.to_pylist()
    versions = [row.get("version", FIRST) for row in rows]
    parts = [[] for _ in begins]
    for row, version in zip(rows, versions, strict=True):
        part = bisect_right([*begins], row["step"]) - 1
        assert version == [*begins.values()][part]
        parts[part].append(row)
    for part in parts:
        streams = defaultdict(list)
        for row in part[::every]:
            slot = slots[bool(row.get("swapped"))]
            place = tuple(row[f"{slot}_{name}"] for name in ("record_id", "section", "window"))
            streams[row["source"], row["recipe"]].append(place)
        for found in streams.values():
            length = len({*found})
            if run == "distinct":
                counts = Counter(found).values()
                assert max(counts) - min(counts) <= 1 + (len(part) % (64 * BATCH) > 0)
                continue
            for low in range(0, len(found), length):
                epoch = found[low : low + length]
                assert len({*epoch}) == len(epoch), "an anchor comes twice in an epoch"


@pytest.mark.parametrize("run", some(RUNS, less=2))
@pytest.mark.parametrize("seed", range(often(5, less=1)))
def test_versions_join_a_run_wherever_it_stands(corpus, run, seed):
    """What was served stays, and what follows is the same however it is come to."""
    draw = random.Random(f"{run} {seed}")
    with corpus.resume(run) as pinned:
        batch, expected = pinned.settings.global_batch, pinned.served(0, SEEN)
    served, version, begins = [], FIRST, {0: FIRST}
    for _ in range(draw.randint(2, 4) if THOROUGH else 2):
        steps = draw.choice([1, draw.randint(2, 40)])
        version = min(NEWEST, version + draw.randint(0, 2))
        with corpus.resume(run, version=version) as sampler:
            changed = SEEN if sampler.changed_from is None else min(sampler.changed_from, SEEN)
            now = sampler.served(0, SEEN)
            assert changed >= min(sampler.position, SEEN)
            assert told(now).slice(0, changed).equals(told(expected).slice(0, changed))
            begins = {0: FIRST} | {j.step: j.corpus_version for j in sampler.settings.joins}
            if run != "apart" and draw.random() < 0.3:  # whose sources are small
                source = draw.choice(sampler.settings.versions[-1].sources)
                sampler.set_weights({source: draw.choice([0.3, 2, 5])})
            expected = sampler.served(0, SEEN)
            served += taken(sampler, steps)
            state = sampler.state_dict()
            sampler.save()
    check_parts(expected, run, begins)
    with corpus.resume(run) as again:  # replays what has joined
        assert again.served(0, SEEN).equals(expected)
        metrics, counted = again.metrics(), state["counts"]
        for name, (tokens, *_) in counted["sources"].items():
            assert counted["position"] != state["position"] or (
                metrics[f"data/{name}/tokens"] == tokens
            )
        again.move(0)
        whole = [each.to_pylist() for each in islice(again, 40)]
        assert [row for each in whole for row in each][: len(served)] == served[: 40 * batch]
        for step in draw.sample(range(40), 40 if THOROUGH else 8):  # resumed at any step
            again.load_state_dict({**state, "position": step * batch})
            assert next(again).to_pylist() == whole[step]
        assert again.forecast(SEEN // batch).table["samples"].to_numpy().sum() == SEEN
        check_nominal_epochs(again, [*begins])


def check_nominal_epochs(sampler, begins):
    """They go on from the step of a join, with its own length."""
    batch, last = sampler.settings.global_batch, -1
    for step in range(60):
        sampler.move(step * batch)
        assert last <= sampler.epoch
        assert step not in begins[1:] or sampler.epoch > last or not step
        last = sampler.epoch
    for epoch in range(last):
        sampler.set_epoch(epoch)
        assert sampler.epoch == epoch or sampler.settings.no_duplicates


@thorough
@pytest.mark.parametrize("run", RUNS)
def test_ranks_let_the_same_join_and_may_change_in_number(corpus, run):
    with corpus.resume(run) as sampler:
        taken(sampler, 5)
        sampler.save()
    with corpus.resume(run, version="newest") as whole:
        expected = whole.served(0, SEEN)
        batch, rows = whole.settings.global_batch, taken(whole, 20)
    ranks = [corpus.resume(run, version="newest", rank=r, world_size=4) for r in range(4)]
    parts = [row for _ in range(12) for rank in ranks for row in next(rank).to_pylist()]
    assert parts == rows[: 12 * batch]
    assert all(rank.served(0, SEEN).equals(expected) for rank in ranks)
    assert not any(rank.notes for rank in ranks[1:])
    ranks[0].save()
    with corpus.resume(run, world_size=1) as alone:
        assert alone.served(0, SEEN).equals(expected)
        assert taken(alone, 8) == rows[12 * batch :]


def test_anchors_that_a_join_cuts_off_are_counted_at_once_and_in_the_forecast(path):
    with dp.resume(path, "triplets") as sampler:
        anchors = {
            (row["source"], row["recipe"]): row["anchors"]
            for row in sampler.forecast().table.to_pylist()
        }
        rows = sampler.served(0, 9 * BATCH).to_pylist()
        drawn = Counter((row["source"], row["recipe"]) for row in rows)
        sampler.move(9 * BATCH)
        sampler.save()
    left = sum(-drawn[stream] % count for stream, count in anchors.items())
    said = f"{left} of {sum(anchors.values())} anchors are not reached"
    with dp.resume(path, "triplets", version="newest") as sampler:
        assert any(said in note for note in sampler.notes)
        assert any(said in warning for warning in sampler.forecast().warnings)


def test_a_source_that_came_since_takes_the_recipes_that_are_given(path):
    with dp.resume(path, "triplets", version="newest", recipes=[PAIR, BACK]) as sampler:
        assert any("'c' 0." in note and "(pair, back)" in note for note in sampler.notes)
        mixed = sampler.served(0, 300)
    assert {*mixed["recipe"].to_pylist()} == {"pair", "back"}
    mixture = dp.Mixture(phases=[dp.Phase(4, {"c": 0})])
    with dp.resume(path, "triplets", version="newest", mixture=mixture) as sampler:
        served = sampler.served(0, 300).to_pylist()
        seen = {row["step"] for row in served if row["source"] == "c"}
        assert seen
        assert seen <= {0, 1, 2, 3}


def test_a_source_that_came_since_and_has_no_anchor_stays_out(tmp_path):
    def ingest(name, count):
        rows = [{"id": i, "q": f"{name} asks {i}", "a": f"{name} says {i}"} for i in range(count)]
        corpus.ingest(rows, name=name, id="id", anchor="q", positive="a")

    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        ingest("a", 20)
        corpus.split(1, 0, 0)
        for run, mixture in {"word": None, "omitted": dp.Mixture({"a": 1}, omitted=1)}.items():
            corpus.sampler(batch_size=8, mixture=mixture, run=run).save()
        ingest("single", 1)
        ingest("other", 9)
        for run in ("word", "omitted"):
            with corpus.resume(run, version="newest") as sampler:
                assert any(
                    "in source 'single', split 'train': 1 no neg" in n for n in sampler.notes
                )
                assert not any("came since" in n and "single" in n for n in sampler.notes)
                served = sampler.served(0, 200)
                assert {*served["source"].to_pylist()} == {"a", "other"}
                sampler.save()
            with corpus.resume(run) as sampler:
                assert sampler.served(0, 200).equals(served)
        with pytest.raises(dp.EmptyPoolError, match="'single'"):  # somebody named it
            corpus.resume("omitted", version="newest", mixture=dp.Mixture({"a": 1, "single": 1}))
        ingest("single", 5)
        with corpus.resume("word", version="newest") as sampler:  # by now it has some
            assert "single" in sampler.served(0, 400)["source"].to_pylist()


def test_versions_that_a_run_cannot_take(path):
    with dp.resume(path, "triplets", version="newest") as sampler:
        taken(sampler, 5)
        sampler.save()
    for version, message in {
        "new": "give 'newest'",
        NEWEST + 1: "version",
        FIRST: f"draws from corpus version {NEWEST}",
    }.items():
        with pytest.raises(dp.SamplerError, match=message):
            dp.resume(path, "triplets", version=version)
    with dp.resume(path, "pairs") as sampler:
        sampler.move(16)
        sampler.save(tag="two")
        sampler.move(0)
        sampler.save()
    with (
        dp.resume(path, "pairs", version="newest") as sampler,
        pytest.raises(dp.StateMismatchError, match="checkpoints beyond step"),
    ):
        sampler.save()


@thorough
def test_records_that_were_removed_come_no_more(path):
    with dp.resume(path, "triplets") as sampler:
        sampler.move(3 * BATCH)
        sampler.save()
    with dp.Corpus(path) as corpus:
        corpus.remove("d")
    with pytest.raises(dp.EmptyPoolError, match="'d'"):
        dp.resume(path, "triplets", version="newest")
    mixture = dp.Mixture(phases=[dp.Phase(3, {"d": 0})])
    with dp.resume(path, "triplets", version="newest", mixture=mixture) as sampler:
        served = sampler.served(0, 300).to_pylist()
        assert {row["step"] for row in served if row["source"] == "d"} == {0, 1, 2}
        sampler.save()
        expected = taken(sampler, 40)
    with dp.Corpus(path) as corpus:
        corpus.prepare()
        corpus.compact()
    with dp.resume(path, "triplets") as sampler:  # from the snapshot
        assert taken(sampler, 40) == expected


def test_the_command_line_lets_text_join(path):
    sample = ("sample", path, "--run", "triplets", "--resume", "--steps", 3, "--save")
    ok(*sample)
    ok(*sample, "--set", "version=newest")
    with dp.resume(path, "triplets") as sampler:
        assert [join.step for join in sampler.settings.joins] == [3]
        assert "from step 3 on: corpus version 7" in sampler.describe()
    assert "3, 7 from step 3" in ok("status", path)
    assert "3, 7 from step 3" in ok("runs", path)


# ---- what stands beside texts

LENGTHS = (14, 25)  # records of the source at the first version, and at the second
NEW = 6  # of the source that comes with it
TRIPLE = ("anchor", "positive", "negative")


def source(name, low, high, **more):
    rows = [
        {"id": str(i), "a": f"{name} asks {i}", "p": f"{name} says {i}", "l": i % 2, "t": i}
        for i in range(low, high)
    ]
    table = pa.Table.from_pylist(rows)
    return dp.sources.MemorySource(table, anchor="a", positive="p", id="id", meta=["t"], **more)


def ingest(corpus, name, low, high, **more):
    prefix = dp.Prefix(1, [[dp.Field("from", [name], 1)]])
    corpus.ingest(
        source(name, low, high, **more), name=name, options=dp.IngestOptions(prefix=prefix)
    )


def first(path):
    """A corpus with prefixes, of one source with labels and one without."""
    corpus = dp.Corpus(path)
    corpus.split(1, 0, 0)
    ingest(corpus, "judged", 0, LENGTHS[0], label="l")
    ingest(corpus, "plain", 0, LENGTHS[0])
    return corpus


judged = copying(first)


def grow(corpus):
    ingest(corpus, "judged", *LENGTHS, label="l")
    ingest(corpus, "plain", *LENGTHS)
    ingest(corpus, "new", 0, NEW)


def test_judged_pairs_and_prefixes_of_both_versions(judged):
    columns = ["anchor", "other", "label", "anchor_record_id", "other_record_id", "source"]
    how = {"columns": [*columns, "anchor_prefix"], "batch_size": 7}
    steps, more = 3, 30
    with judged.sampler("labelled_pairs", mixture={"judged": 1}, **how) as sampler:
        before = taken(sampler, steps)
        sampler.save()
    grow(judged)
    with judged.resume(version="newest") as sampler:
        after = taken(sampler, more)
        sampler.save()
    with judged.resume() as sampler:  # replays
        sampler.move(0)
        assert taken(sampler, steps + more) == before + after
    rows = before + after
    for row in rows:
        assert row["anchor"].startswith(row["anchor_prefix"])
        assert f"from={row['source']}" in row["anchor_prefix"]
    for row in rows:
        assert row["anchor_record_id"] == row["other_record_id"]
        assert row["label"] == int(row["anchor_record_id"].split("/")[1]) % 2
    ids = [[row["anchor_record_id"] for row in of] for of in (before, after)]
    for found, size in zip(ids, LENGTHS, strict=True):  # each begins with an epoch of its own
        for start in range(0, len(found) - size, size):
            assert len({*found[start : start + size]}) == size


def embed(corpus, name, lacking="no such text"):
    """Give texts that have none their vector, but for those that hold some words."""
    store = VectorStore(corpus.path)
    there = store.find(name)
    known = {*store.known(there).tolist()} if there else set()
    of = VectorSet(name, DIMENSION, "float32", {"by": "a test"})
    texts = sorted({t for t in texts_of(corpus).values() if lacking not in t})
    texts = [text for text in texts if hashed(text) not in known]
    hashes = np.array([hashed(text) for text in texts], np.uint64)
    store.append(of, [(hashes, vectors(texts))])


LACKING = ("judged asks 1", "new asks 2")  # before, and after the second version has joined
SET_OF = dict(some({"error": "all", "drop": "some", "null": "some"}.items(), less=2))


@thorough
def test_vectors_of_both_versions(judged):
    embed(judged, "all")
    embed(judged, "some", LACKING[0])  # 1, 10, 11, …
    before = {}
    for missing, name in SET_OF.items():
        how = {"columns": [*TRIPLE, *(f"{slot}_vector:{name}" for slot in TRIPLE)]}
        how |= {
            "batch_size": 20,
            "run": missing,
            "options": dp.Options(missing_vectors=missing, prefixes=False),
        }
        with judged.sampler(mixture=dp.Mixture({"judged": 3}, omitted=1), **how) as sampler:
            before[missing] = taken(sampler, 2)
            sampler.save()
    grow(judged)
    with pytest.raises(dp.errors.VectorError, match="of source new have none in 'all'"):
        judged.resume("error", version="newest")
    with judged.resume(
        "error", version="newest", options=dp.Options(missing_vectors="null")
    ) as sampler:
        assert any("their vectors are null" in note for note in sampler.notes)
    embed(judged, "all")
    embed(judged, "some", LACKING[1])
    after = {}
    for missing in SET_OF:
        with judged.resume(missing, version="newest") as sampler:
            assert sum("vectors" in note for note in sampler.notes) <= 1
            after[missing] = taken(sampler, 12)
            sampler.save()
    embed(judged, "some")  # comes too late
    for missing, name in SET_OF.items():
        with judged.resume(missing) as sampler:
            sampler.move(0)
            assert taken(sampler, 14) == before[missing] + after[missing]
        for rows, lacking in zip((before[missing], after[missing]), LACKING, strict=True):
            found = [(row[slot], row[f"{slot}_vector:{name}"]) for row in rows for slot in TRIPLE]
            texts = {text for text, _ in found}
            absent = {text for text in texts if lacking in text}
            assert bool(absent) == (missing != "drop")
            null = absent if missing == "null" else set()
            assert {text for text, got in found if got is None} == null
            assert all(got == vector(text).tolist() for text, got in found if text not in null)
        assert any(text.startswith("new") for text in texts)


@thorough
def test_a_recipe_without_anchors_in_a_later_version_is_reported(judged):
    names = {"few": "meta['t'] = '3'", "some": None, "late": "meta['t'] = '20'"}
    text = dp.role("context")
    recipes = [dp.TripletRecipe(n, dp.role("anchor", w), text, text) for n, w in names.items()]
    how = {"mixture": dp.Mixture({"judged": 0}, omitted=1), "batch_size": 4}
    judged.sampler(recipes=recipes, **how, options=dp.Options(empty="skip")).save()
    grow(judged)
    with judged.resume(version="newest") as sampler:
        assert not any("finds no anchor" in note for note in sampler.notes)
        assert {row["recipe"] for row in taken(sampler, 30)} >= {"few", "some", "late"}
    row = pa.table({"id": ["3"], "a": ["x"], "p": ["y"], "t": [0]})
    judged.ingest(
        row, name="plain", on_conflict="replace", anchor="a", positive="p", id="id", meta=["t"]
    )
    with judged.resume(version="newest") as sampler:
        told = [note for note in sampler.notes if "'few' has no anchor in corpus version" in note]
        assert "and is left out from there" in told[0]
        assert {row["recipe"] for row in taken(sampler, 20)} == {"late", "some", "anchor_context"}
