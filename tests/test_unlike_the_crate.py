"""Faults that were found in another sampler of triplets by running it, and that ours must not have.

Each is a property over several sizes and seeds: of weights, resuming, ids, caches, negatives,
splits and small corpora.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import often, some
from hub_data import jsonl, point_to, read
from hub_server import Hub
from prebuilt import prebuilt, toy_corpus

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError
from duckplets.ingest import ingest
from duckplets.runs import reader as blocks
from duckplets.sources import row_batches
from duckplets.sources.remote.hub import HubSource
from duckplets.sources.rows import Mark
from duckplets.testing import assert_resumes_everywhere

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[dp.Corpus]:
    with toy_corpus(tmp_path / "two.duckdb", 60, sources=("a", "b")) as corpus:
        yield corpus


def furthest(names: Sequence[str], weights: Mapping[str, float]) -> float:
    """Return how far the count of a name in any beginning is from its exact share."""
    places = np.arange(1, len(names) + 1)
    total = sum(weights.values())
    return max(
        float(np.abs(np.cumsum(np.array(names) == name) - places * weight / total).max())
        for name, weight in weights.items()
    )


# ---- weights


SHARES = [(0.99, 0.01), (127.0, 1.0), (19.0, 1.0), (7.0, 1.0), (1.5, 1.0), (1.0, 3.0), (1e6, 1.0)]
SIZES = [25, 64, 5, 3, 1, 127, 20]  # of batches: some divide the cycle of the weights, some do not


def test_small_weights_reach_the_samples_whatever_the_batch_size(two: dp.Corpus) -> None:
    cases = [(shares, size) for shares in SHARES for size in SIZES]
    for (a, b), size in some(cases, less=4):
        sampler = two.sampler(batch_size=size, mixture={"a": a, "b": b})
        names = sampler.plan(4096 // size)["source"].to_pylist()
        assert furthest(names, {"a": a, "b": b}) <= 1, (a, b, size)
    served = [name for _ in range(3) for name in next(sampler)["source"]]
    assert served == names[: 3 * size]


@pytest.mark.parametrize(
    ("given", "due"),
    [
        ({"a": 0.5}, {"a"}),
        (dp.Mixture({"a": 0.0}, omitted=1), {"b"}),
        (dp.Mixture({"b": 0}, omitted=1), {"a"}),
    ],
)
def test_a_map_of_one_entry_is_not_ignored(two: dp.Corpus, given: Any, due: set[str]) -> None:
    assert set(two.sampler(batch_size=64, mixture=given).plan(4)["source"].to_pylist()) == due


def test_weights_that_are_none_are_refused(two: dp.Corpus) -> None:
    wrong = [float("nan"), float("inf"), -float("inf"), -1.0, -1e-300, "1", True, None]
    for weight in wrong:
        for mixture in ({"a": weight}, {"a": 1.0, "b": weight}):
            with pytest.raises(dp.MixtureError):
                two.sampler(mixture=mixture)
    for mixture in ({"a": 0}, {}, {"a": 0, "b": 0}, {"a": 0.0, "b": -0.0}, {"c": 1.0}):
        with pytest.raises(dp.MixtureError):
            two.sampler(mixture=mixture)


def test_weights_of_recipes_are_exact(two: dp.Corpus) -> None:
    slots = (dp.role("anchor"), dp.role("context"), dp.role("context"))
    shares = [1.5, 1.4, 32.0, 1 / 3, 0.01]
    for weight in some(shares, less=3):
        recipes = [
            dp.TripletRecipe("heavy", *slots, weight=weight),
            dp.TripletRecipe("light", *slots, weight=1.0),
        ]
        for size in some([7, 64], less=1):
            plan = two.sampler(
                recipes=recipes, batch_size=size, mixture=dp.Mixture({"b": 0}, omitted=1)
            ).plan(2048 // size)
            due = {"heavy": weight, "light": 1.0}
            assert furthest(plan["recipe"].to_pylist(), due) <= 1, (weight, size)


# ---- no row is lost

AROUND = [*(2**k + 1 for k in range(11)), 4097, 10_000]


def test_every_number_is_read_once_with_a_cursor_saved_after_every_page() -> None:
    for n in some(AROUND[: often(len(AROUND), less=10)], less=4):
        draw = random.Random(n)
        seen: list[int] = []
        cursor: Any = None
        while cursor is None or cursor["done"] < n:
            source = dp.IndexedSource(name="n", get=lambda i: i, size=n, seed=n)
            with closing(source._batches(n)(cursor)) as pages:
                taken = list(islice(pages, draw.randint(1, 9)))
            seen += [number for numbers, _ in taken for number in numbers]
            cursor = json.loads(json.dumps(taken[-1][1]))
        assert sorted(seen) == list(range(n))


class Pages:
    """Rows in pages, of which one fails now and then."""

    name = "pages"

    def __init__(self, rows: int, page: int, fails: bool) -> None:
        self.rows, self.page, self.fails = rows, page, fails

    def batches(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        for start in range(cursor or 0, self.rows, self.page):
            stop = min(start + self.page, self.rows)
            yield [{"id": f"r{i}", "text": f"text {i}"} for i in range(start, stop)], stop
            if self.fails and stop < self.rows:
                raise ConnectionError("the page after it is not there")


@pytest.mark.parametrize("rows", some([9, 17, 33, 65], less=1))
def test_an_ingest_that_stops_after_every_page_loses_no_row(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batches, "MAX_ROWS", 1)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)
    failures = 0
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        while not corpus.count():
            try:
                corpus.ingest(Pages(rows, rows // 4, fails=True), progress=False)
            except dp.SourceError:
                failures += 1
        ids = corpus.sql("SELECT record_id FROM records")["record_id"].to_pylist()
    assert failures >= 3
    assert sorted(ids) == sorted(f"pages/r{i}" for i in range(rows))


def test_pages_of_the_hub_are_read_once_from_every_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_ROWS", "_CHUNK_ROWS"):
        monkeypatch.setattr(row_batches, name, 16)
    with Hub() as hub:
        point_to(hub, monkeypatch, tmp_path / "cache")
        for n in some([17, 33, 65, 129], less=1):
            rows = [{"key": f"k{i}", "question": f"question {i}"} for i in range(n)]
            hub.add(
                f"org/data{n}", {"a.jsonl": jsonl(rows[: n // 2]), "b.jsonl": jsonl(rows[n // 2 :])}
            )
            source = HubSource(f"hf://org/data{n} text=question id=key")
            seen: list[str] = []
            cursor: Any = None
            while True:
                batches, mark = until_mark(source, cursor)
                seen += [row["key"] for batch in batches for row in batch.to_pylist()]
                if mark is None:
                    break
                cursor = json.loads(json.dumps(mark.cursor))
            assert seen == [row["key"] for row in rows]


def until_mark(source: HubSource, cursor: Any) -> tuple[list[pa.RecordBatch], Mark | None]:
    reader = Database.reader()
    try:
        rows = source.open(reader, cursor)
        found: list[pa.RecordBatch] = []
        for item in rows.batches:
            if isinstance(item, Mark):
                return found, item
            found.append(item)
        return found, None
    finally:
        reader.close()


# ---- ids and splits are of the record, not of its place


def test_a_file_that_sorts_first_changes_no_id_and_no_split(tmp_path: Path) -> None:
    folder, tables = tmp_path / "texts", tmp_path / "tables"
    folder.mkdir()
    tables.mkdir()
    for i in range(40):
        (folder / f"m{i:02}.txt").write_text(f"text {i}")
    (tables / "m.csv").write_text("text\n" + "".join(f"row {i}\n" for i in range(60)))
    sources = {
        "folder": dp.TextFileSource(folder),
        "table": dp.CsvSource(f"{tables}/*.csv", text="text"),
    }
    splits = "SELECT record_id, split FROM live_records ORDER BY ALL"
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(train=0.5, validation=0.3, test=0.2, seed=3)
        for name, source in sources.items():
            corpus.ingest(source, name=name, progress=False)
        before = corpus.sql(splits).to_pylist()
        (folder / "a.txt").write_text("a text")
        (tables / "a.csv").write_text("text\n" + "".join(f"new {i}\n" for i in range(7)))
        added = [corpus.ingest(s, name=n, progress=False).added for n, s in sources.items()]
        after = corpus.sql(splits).to_pylist()
    assert added == [1, 7]
    assert len(before) == 100
    assert len({row["record_id"] for row in after}) == len(after) == 108
    assert [row for row in after if row in before] == before


# ---- nothing is remembered by its path alone


def test_what_is_read_is_what_is_there_now(reader: Database, tmp_path: Path) -> None:
    def texts(source: Any) -> list[str]:
        batches = [batch for batch in source.open(reader).batches if not isinstance(batch, Mark)]
        return [row["sections"][0]["text"] for batch in batches for row in batch.to_pylist()]

    forms = {
        "x.csv": lambda rows: "a,b\n" + "".join(f"{r['a']},{r['b']}\n" for r in rows),
        "x.jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
        "x.parquet": None,
    }
    kinds = {"x.csv": dp.CsvSource, "x.jsonl": dp.JsonSource, "x.parquet": dp.ParquetSource}
    for name, form in forms.items():
        path = tmp_path / name
        for seed in range(2):
            rows = [{"a": f"a{seed}{i}", "b": f"b{seed}{i}"} for i in range(3)]
            if form is None:
                pq.write_table(pa.Table.from_pylist(rows), path)
            else:
                path.write_text(form(rows))
            for column in "ab":
                assert texts(kinds[name](path, text=column)) == [row[column] for row in rows]


def test_what_was_downloaded_is_of_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def texts(column: str) -> list[str]:
        found = read(HubSource(f"hf://org/data text={column} id=id"))
        return [row["sections"][0]["text"] for row in found]

    with Hub() as hub:
        point_to(hub, monkeypatch, tmp_path / "cache")
        rows = [{"id": f"i{i}", "a": f"a{i}", "b": f"b{i}"} for i in range(5)]
        repo = hub.add("org/data", {"train.jsonl": jsonl(rows)})
        assert texts("a") == [row["a"] for row in rows]
        assert texts("b") == [row["b"] for row in rows]
        changed = [row | {"a": f"{row['a']} as it is now"} for row in rows]
        repo.change({"train.jsonl": jsonl(changed)})
        assert texts("a") == [row["a"] for row in changed]


# ---- resuming


@prebuilt
def long_corpus(path: Path, records: int, seed: int) -> dp.Corpus:
    """Make a corpus with conversations, and texts of several windows."""
    draw = random.Random(seed)
    rows = [
        {
            "id": f"r{i}",
            "instruction": f"question {i} of {draw.random()}",
            "output": " ".join(f"w{draw.randrange(99)}" for _ in range(draw.randint(3, 30))),
        }
        for i in range(records)
    ]
    corpus = dp.Corpus(path)
    corpus.chunk(dp.Chunking(max_tokens=12, overlap=(2,), summary_tokens=5))
    corpus.ingest(dp.MemorySource(rows, converter="alpaca", id="id"), name="s", progress=False)
    corpus.split(0.8, 0.1, 0.1, seed)
    return corpus


KINDS = ["triplets", "pairs", "texts", "messages"]


@pytest.mark.parametrize("kind", some(KINDS, less=2))
def test_resuming_goes_on_while_the_corpus_is_larger_than_any_buffer(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = blocks.BlockMaker.follow

    def short(self: Any, start: int) -> tuple[int, int] | None:
        self._target = 16  # samples, instead of thousands
        return follow(self, start)

    monkeypatch.setattr(blocks.BlockMaker, "follow", short)
    path = tmp_path / "c.duckdb"
    for seed in range(often(3, less=1)):
        path.unlink(missing_ok=True)
        with long_corpus(path, 80, seed) as corpus:
            sampler = corpus.sampler(kind, batch_size=10, seed=seed, run=f"run {seed}")
            for _ in range(5):
                next(sampler)
            sampler.save()
            expected = [next(sampler).table for _ in range(6)]
        with dp.resume(path, f"run {seed}") as sampler:
            assert [next(sampler).table for _ in range(6)] == expected
            sampler.move(0)
            assert_resumes_everywhere(sampler, often(20, less=3))


# ---- small corpora


@pytest.mark.parametrize("records", some([6, 1, 2, 5, 20], less=1))
def test_small_corpora_are_not_filled_up_with_copies(records: int, tmp_path: Path) -> None:
    rows = [{"id": i, "q": f"question {i}", "a": f"answer {i}"} for i in range(records)]
    source = dp.MemorySource(rows, anchor="q", positive="a", id="id")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1.0, 0.0, 0.0)
        for epochs in (1, 2):
            questions = [dp.TextRecipe("questions", dp.role("anchor"))]
            sampler = corpus.sampler("texts", batch_size=128, epochs=epochs, recipes=questions)
            texts = [text for batch in sampler for text in batch["text"]]
            assert Counter(texts) == {row["q"]: epochs for row in rows}
        if records == 1:
            with pytest.raises(dp.EmptyPoolError):
                corpus.sampler(batch_size=128)
            return
        sampler = corpus.sampler(batch_size=128, epochs=1, recipes=["anchor_context"])
        (batch,) = list(sampler)
        anchors = [sample["anchor"] for sample in batch.to_pylist()]
        swapped = {text.replace("answer", "question") for text in anchors}
        assert len(anchors) == len(swapped) == records


# ---- splits


def test_a_split_that_was_not_given_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    source = dp.MemorySource(
        [{"a": f"a {i}", "b": f"b {i}"} for i in range(30)], anchor="a", positive="b"
    )
    with dp.Corpus(path) as corpus:
        corpus.ingest(source, name="s", progress=False)
        for split in ("train", "validation", "test"):
            with pytest.raises(dp.SplitError, match="no splits yet"):
                corpus.sampler(split=split)
        corpus.split(1.0, 0.0, 0.0)
        for kind in KINDS[:3]:
            with pytest.raises(dp.EmptyPoolError):
                corpus.sampler(kind, split="test")
        for wrong in ("all", "", None, "Train"):
            with pytest.raises(DuckpletsError):
                corpus.sampler(split=wrong)


@pytest.mark.parametrize(
    "ratios",
    [(1.5, -0.25, -0.25), (-1, 1, 1), (0.5, 0.5, 0.5), (float("nan"), 0.5, 0.5), (2, 0, -1)],
)
def test_ratios_that_are_none_are_refused(ratios: Any, tmp_path: Path) -> None:
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.SplitError):
            corpus.split(*ratios)
        with pytest.raises(dp.SplitError):
            corpus.sampler()


# ---- negatives


def sections_of(corpus: dp.Corpus) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Return role, text and split of every section, by its record's id and its position."""
    rows = corpus.sql("SELECT record_id, position, role, text, split FROM section_texts")
    return {
        (row["record_id"], row["position"]): (row["role"], row["text"], row["split"])
        for row in rows.to_pylist()
    }


def test_prefixes_do_not_hide_that_texts_are_equal(tmp_path: Path) -> None:
    rows = [
        {"id": f"r{i}", "q": f"question {i}", "a": f"answer {i % 4}", "topic": f"topic {i}"}
        for i in range(16)
    ]
    source = dp.MemorySource(rows, anchor="q", positive="a", id="id", meta="topic")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(source, name="s", prefix="topic", progress=False)
        corpus.split(1.0, 0.0, 0.0)
        texts = sections_of(corpus)
        for seed in range(often(5, less=1)):
            sampler = corpus.sampler(batch_size=64, seed=seed, negatives=2)
            batch = next(sampler)
            assert any("topic" in text for text in batch["negative_1"])
            for row in sampler.plan(2).to_pylist():
                slots = ("anchor", "positive", "negative_1", "negative_2")
                found = [texts[row[f"{s}_record_id"], row[f"{s}_section"]][1] for s in slots]
                assert len(set(found)) == 4, row


def test_negatives_of_the_own_record_are_of_other_sections(tmp_path: Path) -> None:
    rows = [
        {"id": f"r{i}", "q": f"question {i}", "a": [long_text(i, j) for j in range(3)]}
        for i in range(20)
    ]
    recipe = dp.TripletRecipe(
        "own", dp.role("anchor"), dp.position(1), dp.role("context"), strategy="same_record"
    )
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=8, overlap=(3,)))
        corpus.ingest(
            dp.MemorySource(rows, anchor="q", context="a", id="id"), name="s", progress=False
        )
        corpus.split(1.0, 0.0, 0.0)
        for seed in range(often(5, less=1)):
            plan = corpus.sampler(recipes=[recipe], batch_size=64, seed=seed, swap=False).plan(15)
            for row in plan.to_pylist():
                assert row["negative_record_id"] == row["anchor_record_id"]
                assert row["positive_section"] == 1
                assert row["negative_section"] in (2, 3)


def long_text(i: int, j: int) -> str:
    return " ".join(f"word{i}x{j}x{k}" for k in range(30))


def test_all_pairs_of_sections_come(tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "t": [f"section {j} of {i}" for j in range(4)]} for i in range(5)]
    slots = (dp.role("context"), dp.role("context"), dp.role("context"))
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(rows, context="t", id="id"), name="s", progress=False)
        corpus.split(1.0, 0.0, 0.0)
        for per in some(["record", "chunk"], less=1):
            recipe = dp.TripletRecipe("pairs", *slots, per=per)
            plan = corpus.sampler(recipes=[recipe], batch_size=64, swap=False).plan(40).to_pylist()
            for i in range(5):
                found = {
                    (row["anchor_section"], row["positive_section"])
                    for row in plan
                    if row["anchor_record_id"] == f"s/r{i}"
                }
                assert found == set(permutations(range(4), 2)), (per, i)


def test_mined_negatives_are_no_answer_to_the_question_and_of_its_split(tmp_path: Path) -> None:
    for seed in range(often(4, less=1)):
        draw = random.Random(seed)
        words = [f"word{i}" for i in range(12)]
        asked = [f"{draw.choice(words)} is {i}" for i in range(10)] * 3  # three records each
        tails = [" ".join(draw.choices(words, k=6)) for _ in asked]
        rows = [
            {"id": f"r{i}", "q": f"which {what}", "a": f"{what} {tails[i]} {i}"}
            for i, what in enumerate(asked)
        ]
        answers = {(row["q"], row["a"]) for row in rows}
        recipe = dp.TripletRecipe(
            "hard", dp.role("anchor"), dp.role("context"), dp.role("context"), by="bm25"
        )
        with dp.Corpus(tmp_path / f"{seed}.duckdb") as corpus:
            source = dp.MemorySource(rows, anchor="q", positive="a", id="id")
            corpus.ingest(source, name="s", progress=False)
            corpus.split(0.6, 0.2, 0.2, seed)
            corpus.index(dp.Terms(stemmer="none"), progress=False)
            corpus.add_recipe(recipe)
            corpus.mine(progress=False)
            sections = sections_of(corpus)
            for split in some(["train", "validation", "test"], less=1):
                sampler = corpus.sampler(
                    split=split, batch_size=16, swap=False, columns=["negative_by"]
                )
                assert "bm25" in next(sampler)["negative_by"]
                for row in sampler.plan(6).to_pylist():
                    anchor, negative = (
                        sections[row[f"{slot}_record_id"], row[f"{slot}_section"]]
                        for slot in ("anchor", "negative")
                    )
                    assert (anchor[1], negative[1]) not in answers
                    assert anchor[2] == negative[2] == split
