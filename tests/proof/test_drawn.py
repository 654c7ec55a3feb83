"""Where a run drew a text, by the order run backwards as by looking at every sample."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, lines
from corpora import all_windows, odd_corpus
from effort import THOROUGH

import duckplets as dp
from duckplets.order.permute import index_of, ranks_at
from duckplets.proof.drawn import drawn

OWN = dp.TripletRecipe(
    "own", dp.role("anchor"), dp.position(1), dp.role("context"), strategy="same_record"
)
RUNS = {
    "random": {},
    "mined": {"negatives": dp.Negatives(num=2, by="bm25", when_short="drop")},
    "mixed": {"negatives": dp.Negatives(by={"bm25": 0.5, "random": 0.5}), "swap": True},
    "own": {"recipes": [OWN]},
    "pairs": {"kind": "pairs"},
    "drawn pairs": {"kind": "labelled_pairs", "negatives": 2},
    "lists": {"kind": "lists", "negatives": 3},
    "texts": {"kind": "texts"},
    "by source": {"batch_by": "source", "mixture": {"odd0": 3, "odd1": 1}},
    "by a key": {"batch_by": "meta['topic']"},
    "no duplicates": {"no_duplicates": True},
    "by a column": {"mixture": dp.Mixture({"news": 2, "law": 1}, column="meta['topic']")},
    "up stairs": {"mixture": dp.Mixture(order_by="date", stairs=3), "kind": "pairs"},
    "by tokens": {"mixture": dp.Mixture({"odd0": 1, "odd1": 2}, unit="tokens")},
}


@pytest.mark.parametrize("size", [1, 2, 5, 4096, 4097, 70_001])
def test_an_item_has_the_number_that_the_order_gives_it(size):
    draw = np.random.default_rng(size)
    items, epochs = draw.integers(0, size, 300), draw.integers(0, 9, 300)
    for stream in (3, 2**63 + 5):
        found = index_of(stream, size, items, epochs)
        assert (found // size == epochs).all()
        order = np.argsort(found, kind="stable")
        assert (ranks_at(stream, size, found[order])[0] == items[order]).all()


EXACT = {"mined", "own", "pairs", "texts", "no duplicates"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("drawn") / "c.duckdb"
    with odd_corpus(path, 60, 1, sources=2) as corpus:
        corpus.mine(depth=10, progress=False)
    with dp.Corpus(path, read_only=True) as corpus:
        yield corpus


def served(batches, columns):
    """Return how often each text was at each place, by the batches themselves."""
    found = Counter()
    for step, batch in enumerate(batches):
        for name in columns:
            for at, value in enumerate(batch[name]):
                for text in value if isinstance(value, list) else [value]:
                    found[text, step, at, name] += 1
    return found


def told_of(rows, texts):
    places = ((position % 4) for position in rows["position"].to_pylist())
    columns = (rows[name].to_pylist() for name in ("text", "step"))
    told = zip(*columns, places, rows["column"].to_pylist(), strict=True)
    return Counter((texts[number], *rest) for number, *rest in told)


@pytest.mark.parametrize("name", RUNS)
def test_every_time_that_a_text_was_drawn_is_found(corpus, name):
    how = dict(RUNS[name])
    options = dp.Options(swap=how.pop("swap", False))
    windows = {}  # what is found of a text: itself, and windows of a section that is written so
    for window in all_windows(corpus):
        windows.setdefault(window.text, {window.text})
        if window.section in windows or " ".join(window.section.split()) == window.section:
            windows.setdefault(window.section, set()).add(window.text)
    with corpus.sampler(**{"batch_size": 4, "seed": 3, "options": options, **how}) as sampler:
        taken = [next(sampler) for _ in range(12)]
        if "mixture" not in how and "batch_by" not in how:
            sampler.set_weights({"odd0": 1.0, "odd1": 4.0})
        taken += [next(sampler) for _ in range(12)]
        expected = served(taken, sampler.text_columns)
        texts = [*windows, "of no record"]
        if not THOROUGH:
            texts = random.Random(0).sample(texts, 60)
        oracle = Counter()
        for text in texts:
            for (window, *place), times in expected.items():
                if window in windows.get(text, ()):
                    oracle[text, *place] += times
        every = told_of(drawn(sampler, texts, every=True, progress=False), texts)
        assert every
        assert every == oracle
        found = told_of(drawn(sampler, texts, progress=False), texts)
        assert found <= every
        sure = {"anchor", "positive", "text"}
        if name in EXACT:
            assert found == every
        assert not {place for place in every - found if place[-1] in sure}


def test_texts_of_the_command_line_and_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        odd_corpus(tmp_path / "c.duckdb", 20, 1) as corpus,
        corpus.sampler("pairs", batch_size=4) as run,
    ):
        batches = [next(run) for _ in range(9)]
        run.save()
    first, second = (batches[at]["anchor"][0] for at in (0, 5))
    times = sum(batch[name].count(first) for batch in batches for name in ("anchor", "positive"))
    done = cli("runs", "c.duckdb", "default", "--drawn", first, "--all")
    assert (done.exit_code, done.stderr.count("random negatives")) == (0, 0)
    assert len(lines(done.stdout)) >= times > 0
    (tmp_path / "t.txt").write_text(f"{first}\n\n{second}\nof no record\n")
    rows = [{"text": text} for text in (first, second, "of no record")]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    told = [
        cli("runs", "c.duckdb", "default", "--drawn", f"t.{suffix}")
        for suffix in ("txt", "parquet")
    ]
    assert told[0].stdout == told[1].stdout
    assert {row["text"] for row in lines(told[0].stdout)} == {0, 1}
    assert "run default: 2 of 3 texts drawn, " in told[0].stderr
    assert "random negatives were not searched: --all" in told[0].stderr
    none = cli("runs", "c.duckdb", "default", "--drawn", "of no record")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "0 of 1 text drawn; random" in none.stderr
