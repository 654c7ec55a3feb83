"""The order of rows, and the format of their file, change no draw."""

import csv
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import batches_of
from effort import some
from prebuilt import prebuilt

import duckplets as dp

TEXTS = [f"{word} body of the film" for word in ("red", "blue", "green", "grey", "teal", "plum")]


def rows_of(order):
    """Return 48 rows without ids, in some order; of few texts, days and topics."""
    draw = random.Random(5)
    rows = [
        {
            "title": f"film {n % 40} " + "and more " * (n % 5),
            "body": f"{draw.choice(TEXTS)} {n}",
            "more": " ".join(f"{draw.choice('abcde')}{k}" for k in range(90)),
            "wrong": f"{draw.choice(TEXTS)} of another {n}",
            "day": f"2024-01-{1 + n % 9:02}",
            "topic": draw.choice("xyz"),
        }
        for n in range(48)
    ]
    random.Random(order).shuffle(rows)
    return rows


@prebuilt
def filled(path, order, ending):
    rows, file = rows_of(order), path.with_name(f"{path.stem}.{order}.{ending}")
    if ending == "csv":
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif ending == "jsonl":
        file.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    corpus = dp.Corpus(path)
    names = {"anchor": "title", "positive": ["body", "more"], "negative": "wrong", "date": "day"}
    corpus.chunk(dp.Chunking(max_tokens=40, overlap=(8,)))
    source = getattr(
        dp.sources, {"csv": "CsvSource", "jsonl": "JsonSource"}.get(ending, "ParquetSource")
    )
    corpus.ingest(source(file, meta=["topic"], **names), name="films")
    corpus.split(0.8, 0.1, 0.1)
    corpus.add_recipe(dp.TripletRecipe("mined", *ROLES, by="bm25"))
    corpus.mine("mined", split="train")
    return corpus


ROLES = (dp.role("anchor"), dp.role("context"), dp.role("context"))
OWN = (dp.role("anchor"), dp.role("context"), dp.role("rejected"))
DRAWS = {
    "triplets": ("triplets", {}, {}),
    "three": ("triplets", {}, {"negatives": 3, "batch_size": 4, "no_duplicates": True}),
    "apart": ("triplets", {}, {"no_duplicates": "negatives"}),
    "topics": ("triplets", {}, {"batch_by": "meta['topic']"}),
    "lengths": ("triplets", {}, {"batch_by": "length"}),
    "pairs": ("pairs", {}, {"negatives": 1}),
    "mined": ("triplets", {"by": dp.Negatives(by="bm25")}, {}),
    "weighed": (
        "triplets",
        {"by": dp.Negatives(by="bm25", sampling="score")},
        {"negatives": 2},
    ),
    "mixed": (
        "triplets",
        {"by": dp.Negatives(by="bm25")},
        {"negatives": dp.Negatives(by={"bm25": 0.5, "random": 0.5})},
    ),
    "windows": ("triplets", {"per": "chunk"}, {}),
    "dated": ("triplets", {"positive": dp.near_date(1)}, {}),
    "nearest": ("triplets", {"negative": dp.near_date(2)}, {}),
    "topic": (
        "triplets",
        {"strategy": dp.sql("negative.meta['topic'] <> anchor.meta['topic']")},
        {},
    ),
    "own": ("triplets", {"negative": dp.role("rejected"), "strategy": "same_record"}, {}),
}


@pytest.mark.parametrize("name", some([*DRAWS, "texts"], less=3))
def test_draws_depend_on_rows_and_not_on_their_order_or_format(tmp_path, name):
    kind, of, run = DRAWS.get(name, ("texts", {}, {}))
    parts = {"anchor": ROLES[0], "positive": ROLES[1], "negative": ROLES[2]} | of
    recipe = dp.TripletRecipe("mined" if "by" in of else "drawn", **parts)
    if kind == "texts":
        recipe = dp.TextRecipe("texts", dp.role("context"), per="chunk")
    found = []
    for order, ending in enumerate(("parquet", "csv", "jsonl", "parquet")):
        path = tmp_path / f"{order}.duckdb"
        with filled(path, order, ending) as corpus:
            how = {
                "batch_size": 8,
                "seed": 3,
                "recipes": [recipe],
                "options": dp.Options(empty="skip"),
            } | run
            with corpus.sampler(kind, **how) as sampler:
                found.append([batch.to_pylist() for batch in batches_of(sampler, 12)])
    for n, draws in enumerate(found):
        assert draws == found[0], n
    assert len({str(row) for batch in found[0] for row in batch}) > 12


def test_a_run_saved_in_an_older_order_is_refused(tmp_path, monkeypatch):
    with filled(tmp_path / "c.duckdb", 0, "parquet") as corpus:
        monkeypatch.setattr("duckplets.runs.settings.ORDER_VERSION", 3)
        corpus.sampler(batch_size=4, run="old", recipes=["mined"]).save()
        monkeypatch.undo()
        with pytest.raises(dp.StateMismatchError, match=r"order version 3; .* in order version 4"):
            corpus.resume(run="old")
