"""What the exports write is read again, and a ready negative is never a positive."""

import json
from collections import Counter
from random import Random

import pyarrow.parquet as pq
import pytest
from effort import often, some
from mined_by_hand import RECIPE, mine_by_hand, odd_text_corpus
from prebuilt import prebuilt

import duckplets as dp

SECTIONS = """
    SELECT record_id, list({'role': role, 'text': text} ORDER BY position) AS sections
    FROM section_texts GROUP BY record_id
"""


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "odd.duckdb"
    with odd_text_corpus(path, 30, ("one",)) as corpus:
        mine_by_hand(corpus)
        yield corpus


def texts_in(corpus):
    """Of every record its anchor, its positives, its negatives."""
    found = Counter()
    for row in corpus.sql(SECTIONS).to_pylist():
        of = {role: [s["text"] for s in row["sections"] if s["role"] == role] for role in ROLES}
        (anchor,) = of["anchor"]
        found[anchor, tuple(of["context"]), tuple(of["rejected"])] += 1
    return found


ROLES = ("anchor", "context", "rejected")


def ingested(folder, source):
    with dp.Corpus(folder / "again.duckdb") as corpus:
        # Rows that are equal have one id without an id column, and are one record.
        report = corpus.ingest(source, name="again")
        assert report.failed == 0
        assert report.read == report.added + report.skipped
        assert set(report.reasons) <= {"duplicate id, same content"}
        return texts_in(corpus)


def filled(texts):
    return tuple(text for text in texts if text is not None and text.strip())


FILES = [("flagembedding", None, "jsonl")]
FILES += [
    ("sentence-transformers", shape, ending)
    for shape in ("triplet", "n-tuple", "labeled-list")
    for ending in ("parquet", "jsonl")
]


@pytest.mark.parametrize(("format", "shape", "ending"), some(FILES, less=3))
def test_what_exports_write_is_read_again(mined, tmp_path, format, shape, ending):  # noqa: A002
    path = tmp_path / f"s.{ending}"
    options = {"negatives": 2} if shape == "n-tuple" else {}
    mined.export(path, format, recipe=RECIPE, shape=shape, **options)
    if ending == "parquet":
        rows, kind = pq.read_table(path).to_pylist(), dp.sources.ParquetSource
    else:
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        kind = dp.sources.JsonSource
    if format == "flagembedding":
        source = kind(path, anchor="query", positive="pos", negative="neg")
        wanted = {(r["query"], filled(r["pos"]), filled(r["neg"])) for r in rows}
    elif shape == "labeled-list":
        most = max(len(row["documents"]) for row in rows)
        negatives = [f"documents[{i}]" for i in range(1, most)]
        source = kind(path, anchor="anchor", positive="documents[0]", negative=negatives)
        lists = [(r["anchor"], r["documents"]) for r in rows]
        wanted = {(anchor, filled(texts[:1]), filled(texts[1:])) for anchor, texts in lists}
    else:
        names = [name for name in rows[0] if name.startswith("negative")]
        source = kind(path, anchor="anchor", positive="positive", negative=names)
        wanted = {
            (r["anchor"], filled([r["positive"]]), filled(r[name] for name in names)) for r in rows
        }
    assert set(ingested(tmp_path, source)) == wanted


@prebuilt
def ready_corpus(path, seed):
    """Records of up to three positives and four negatives; each text says what it is."""
    draw = Random(seed)
    records = [
        {
            "id": str(i),
            "q": f"anchor {i}",
            "pos": [f"positive {i} {n}" for n in range(draw.randint(1, 3))],
            "neg": [f"negative {i} {n}" for n in range(draw.choice([0, 1, 2, 4]))],
            "hard": draw.choice([None, "", f"negative {i} hard"]),
        }
        for i in range(60)
    ]
    # Longer than a window: of a negative no recipe for long sections is made.
    records[0]["neg"] = ["negative 0 " * 800]
    corpus = dp.Corpus(path)
    corpus.ingest(records, name="s", id="id", anchor="q", positive="pos", negative=["neg", "hard"])
    corpus.split(1.0, 0.0, 0.0)
    return corpus


@pytest.mark.parametrize("seed", range(often(5, less=1)))
def test_a_ready_negative_is_never_a_positive(tmp_path, seed):
    with ready_corpus(tmp_path / "c.duckdb", seed) as corpus:
        columns = ["recipe", "anchor", "positive", "negative", "negative_by"]
        triplets = corpus.sampler(
            batch_size=64, steps=12, seed=seed, columns=columns, options=dp.Options(swap=False)
        )
        rows = [row for batch in triplets for row in batch.to_pylist()]
        assert {row["recipe"] for row in rows} == {"ready_negative", "anchor_context"}
        shares = Counter(row["recipe"] for row in rows)
        assert abs(shares["ready_negative"] - 0.75 * len(rows)) < 1
        for row in rows:
            assert (row["anchor"].split()[0], row["positive"].split()[0]) == ("anchor", "positive")
            if row["recipe"] == "ready_negative":
                assert row["negative"].split()[0] == "negative"
                own = row["negative"].split()[1] == row["anchor"].split()[1]
                assert row["negative_by"] == ("given" if own else "random")
            else:
                assert row["negative"].split()[0] == "positive"
        pairs = corpus.sampler("labelled_pairs", batch_size=64, steps=12, seed=seed)
        rows = [row for batch in pairs for row in batch.to_pylist()]
        assert {row["label"] for row in rows} == {0, 1}
        for row in rows:
            if row["label"] == 1:
                assert "negative" not in (row["anchor"].split()[0], row["other"].split()[0]), row
                assert row["other"].split()[1] == row["anchor"].split()[1]
        if seed == 0:
            recipes = [dp.TripletRecipe("any", *[dp.any_section()] * 3)]
            whole = corpus.sampler("triplets", recipes=recipes, batch_size=64, steps=6, run="any")
            for batch in whole:
                for slot in ("anchor", "positive", "negative"):
                    assert not any(text.startswith("negative") for text in batch[slot])
