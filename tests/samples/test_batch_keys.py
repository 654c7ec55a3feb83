"""Batches whose samples share a source, a recipe, a length or a value."""

from collections import Counter
from itertools import product

import pytest
from effort import some

import duckplets as dp
from duckplets.errors import DuckpletsError
from duckplets.testing import assert_resumes_everywhere

RECORDS = {"a": 130, "b": 61}
SIZE = 8


def topic(number):
    """Return the topic of a record: one has half of them, others fill no batch, or it is none."""
    if number % 11 == 0:
        return None
    return "often" if number % 2 else f"t{number % 10}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with dp.Corpus(tmp_path_factory.mktemp("keys") / "c.duckdb") as corpus:
        for name, count in RECORDS.items():
            rows = [
                {
                    "id": str(number),
                    "q": f"{name} asks {number} " + "and " * (number % 23),
                    "a": f"{name} answers {number // 3}",
                    "topic": topic(number),
                }
                for number in range(count)
            ]
            corpus.ingest(rows, name=name, id="id", anchor="q", positive="a", meta=["topic"])
        corpus.split(1, 0, 0)
        yield corpus


def labels_of(table, by, lengths):
    """Return what each sample is kept to a batch by."""
    found = []
    for source, recipe, record in zip(
        *(table[n].to_pylist() for n in ("source", "recipe", "anchor_record_id")), strict=True
    ):
        key = lengths[record] if by == "length" else topic(int(record.split("/")[1]))
        label = {"source": (source,), "recipe": (source, recipe)}
        found.append(label.get(by, (source, recipe, key)))
    return found


RULES = ["source", "recipe", "length", "meta['topic']"]
RUNS = [
    {},
    {"no_duplicates": True},
    {"mixture": {"a": 0.25, "b": 0.75}, "no_duplicates": "negatives"},
    {"kind": "labelled_pairs", "negatives": 3},
    {"mixture": dp.Mixture({"a": 1.0}, phases=[dp.Phase(20, {"a": 0.5, "b": 0.5})])},
    {"mixture": dp.Mixture({"a": 1, "b": 0}, anneal=dp.Anneal(9, {"a": 0, "b": 1}, end_step=40))},
]


@pytest.mark.parametrize(
    ("by", "given"), some(product(RULES, RUNS), less=6), ids=lambda of: str(of)[:40]
)
def test_batches_are_of_their_keys_and_every_anchor_comes_once_an_epoch(corpus, by, given):
    recipes = [
        dp.TripletRecipe(name, anchor, positive, dp.role("context"), weight=weight)
        for name, anchor, positive, weight in (
            ("usual", dp.role("anchor"), dp.role("context"), 1.0),
            ("back", dp.role("context"), dp.role("anchor"), 0.5),
        )
    ]
    recipes = recipes[: 2 if by in ("source", "recipe") else 1]  # the keys are of anchors' texts
    per_draw = given.get("negatives", 0) + 1 if given.get("kind") == "labelled_pairs" else 1
    run = {"batch_size": SIZE * per_draw, "recipes": recipes, **given}
    run |= {"batch_by": by}
    sampler = corpus.sampler(**run)
    steps = 60
    table = sampler.served(0, steps * SIZE * per_draw)
    lengths = _buckets(corpus) if by == "length" else {}
    labels = labels_of(table, by, lengths)[::per_draw]
    streams = [
        *zip(
            table["source"].to_pylist()[::per_draw],
            table["recipe"].to_pylist()[::per_draw],
            strict=True,
        )
    ]
    displaced = [False] * len(streams)
    if "displaced" in table.column_names:
        displaced = [source is not None for source in table["displaced"].to_pylist()]
    sources, mixed = Counter[str](), 0
    # in proportion the rests of epochs, and a batch that two share, are of both sources
    in_epochs, several_sources = by == "source" and "mixture" not in given, 0
    for at in range(0, len(labels), SIZE):
        batch = labels[at : at + SIZE]
        if in_epochs:
            several_sources += len({*batch}) > 1
            continue
        assert len({*streams[at : at + SIZE]}) == 1 or by == "source"
        assert len({source for source, _ in streams[at : at + SIZE]}) == 1
        sources[batch[0][0]] += 1
        is_pure = len({*batch}) == 1 and None not in (label[-1] for label in batch)
        mixed += not is_pure and not any(displaced[at : at + SIZE])
    assert mixed == 0 if by in ("source", "recipe") else mixed <= 0.8 * steps
    assert several_sources <= 3 * len(labels) / sum(RECORDS.values())
    if given.get("mixture") == {"a": 0.25, "b": 0.75}:  # shares hold for batches
        assert abs(sources["b"] - 0.75 * steps) < 1
    if by != "source" and not any(displaced):
        anchors = table["anchor_record_id"].to_pylist()[::per_draw]
        for stream in {*streams}:
            count = RECORDS[stream[0]]
            mine = [anchor for anchor, of in zip(anchors, streams, strict=True) if of == stream]
            for low in range(0, len(mine), count):
                epoch = mine[low : low + count]
                assert len(epoch) == len({*epoch})
    for world in some((2, 4), less=1):
        part = {"batch_size": SIZE * per_draw // world, "world_size": world}
        ranks = [corpus.sampler(**run | part, rank=rank) for rank in range(world)]
        slices = [text for rank in ranks for text in rank.batch_at(3)["anchor"]]
        assert slices == sampler.batch_at(3)["anchor"]
    assert_resumes_everywhere(sampler, 5)


@pytest.mark.parametrize(
    "given", [{}, {"no_duplicates": True}, {"kind": "labelled_pairs"}], ids=str
)
def test_every_anchor_of_every_source_comes_once_an_epoch_of_batches_by_source(given, tmp_path):
    sizes, size = {"big": 90, "middle": 21, "small": 3}, 16
    per_draw = 2 if "kind" in given else 1
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        for name, count in sizes.items():
            rows = [{"q": f"{name} asks {n}", "a": f"{name} answers {n}"} for n in range(count)]
            corpus.ingest(rows, name=name, anchor="q", positive="a")
        corpus.split(1, 0, 0)
        run = {"batch_size": size, "batch_by": "source", "epochs": 4, **given}
        sampler = corpus.sampler(**run)
        length = sum(sizes.values()) * per_draw
        table = sampler.served(0, 4 * length)
        sources, due = table["source"].to_pylist(), Counter[str]()
        for epoch in range(4):
            mine = table.slice(epoch * length, length)["anchor_record_id"].to_pylist()
            due.update({name: count * per_draw for name, count in sizes.items()})
            if not given.get("no_duplicates"):
                assert {*Counter(mine).values()} == {per_draw}
                assert Counter(sources[: (epoch + 1) * length]) == due
        several = [len({*sources[at : at + size]}) > 1 for at in range(0, len(sources), size)]
        assert sum(several) <= 4 * (2 if not given else 4)
        displaced = 0
        if given.get("no_duplicates"):
            displaced = len(table) - table["displaced"].null_count
            assert displaced <= 16  # of sources with few texts, which fit in few batches
            for batch in sampler.peek(len(sampler)):
                texts = batch["anchor"] + batch["positive"] + batch["negative"]
                assert len(texts) == len({*texts})
        came = Counter(table["anchor_record_id"].to_pylist())
        assert sum(abs(count - 4 * per_draw) for count in came.values()) <= 2 * displaced
        assert len(came) == sum(sizes.values())
        forecast = sampler.forecast()
        assert forecast.table["samples"].to_pylist() == [4 * n * per_draw for n in sizes.values()]
        assert "('small'): these anchors are in batches of several sources" in str(forecast)
        assert "are in batches of several" in sampler.describe()
        assert_resumes_everywhere(corpus.sampler(**run), 5)
        # a change of weights on the way goes on in each source's order, by whole batches
        sampler = corpus.sampler(**run | {"epochs": None, "no_duplicates": False})
        sampler.move(5 * size)
        sampler.set_weights({"big": 1, "middle": 1, "small": 1})
        table = sampler.served(0, 12 * length)
        for name, count in sizes.items():
            rows = [
                *zip(*(table[of].to_pylist() for of in ("source", "anchor_record_id")), strict=True)
            ]
            mine = [record for of, record in rows if of == name][::per_draw]
            assert all(
                len({*mine[low : low + count]}) == len(mine[low : low + count])
                for low in range(0, len(mine), count)
            )
        rows = table["source"].to_pylist()[5 * size :]
        assert all(len({*rows[at : at + size]}) == 1 for at in range(0, len(rows), size))
        warned = str(
            corpus.sampler(**run | {"batch_by": "recipe", "no_duplicates": False}).forecast()
        )
        assert "these anchors come more than once in a batch" in warned
        assert "samples are still due" in warned


def _buckets(corpus):
    """Return the sixteenth that each record is of, by the tokens of its source's records."""
    rows = corpus.sql(
        "SELECT record_id, id_hash, sum(token_count)::BIGINT AS tokens FROM sections "
        "JOIN records USING (record_key) GROUP BY ALL"
    ).to_pylist()
    found = {}
    for name, count in RECORDS.items():
        mine = [row for row in rows if row["record_id"].startswith(f"{name}/")]
        mine.sort(key=lambda row: (row["tokens"], row["id_hash"]))
        found |= {row["record_id"]: at * 16 // count for at, row in enumerate(mine)}
    return found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_by": "meta['nothing']"}, "no record of split 'train' has such a value"),
        ({"batch_by": "lenght"}, r"batch_by='lenght': give .* \(did you mean 'length'\?\)"),
        ({"batch_by": "1) OR (1"}, "batch_by"),
        ({"batch_by": 3}, "batch_by=3: give 'source'"),
        ({"batch_by": "length", "kind": "labelled_pairs", "negatives": 2}, "a multiple of 3"),
        ({"batch_by": "length", "no_duplicates": "group", "batch_size": 96}, "at most"),
    ],
)
def test_wrong_keys_are_refused(corpus, given, message):
    with pytest.raises(DuckpletsError, match=message):
        corpus.sampler(**{"batch_size": SIZE, **given})


def test_a_saved_run_keeps_its_keys_when_a_version_joins(tmp_path):
    def source(first, stop):
        rows = [
            {"id": str(n), "q": f"asks {n}", "a": f"answers {n}", "topic": f"t{n % 3}"}
            for n in range(first, stop)
        ]
        return dp.sources.MemorySource(rows, id="id", anchor="q", positive="a", meta=["topic"])

    by = "meta['topic']"
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(source(0, 72), name="s")
        corpus.split(1, 0, 0)
        with corpus.sampler(batch_size=SIZE, batch_by=by) as sampler:
            next(sampler)
            before = sampler.served(0, 800)
            sampler.save()
        with corpus.resume() as sampler:
            assert sampler.served(0, 800).equals(before)
        corpus.ingest(source(72, 120), name="s")
        corpus.ingest(source(0, 48), name="t")
        with corpus.resume(version="newest") as sampler:
            table = sampler.served(SIZE, 61 * SIZE)
        records, sources = (table[n].to_pylist() for n in ("anchor_record_id", "source"))
        for at in range(0, len(records), SIZE):
            assert len({*sources[at : at + SIZE]}) == 1
            assert len({int(record.split("/")[1]) % 3 for record in records[at : at + SIZE]}) == 1
        for name, count in (("s", 120), ("t", 48)):
            mine = [record for record in records if record.startswith(f"{name}/")]
            for low in range(0, len(mine), count):
                epoch = mine[low : low + count]
                assert len(epoch) == len({*epoch})
