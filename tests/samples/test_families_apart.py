"""Batches without two samples of one family: a group, equal texts, or a value of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
PLAIN = dp.TripletRecipe("plain", ANCHOR, CONTEXT, CONTEXT)
KINDS: list[dict[str, Any]] = [
    {"recipes": [PLAIN], "negatives": 2},
    {"recipes": [PLAIN], "kind": "pairs"},
    {"recipes": [dp.TextRecipe("answers", CONTEXT)], "kind": "texts"},
]


def rows() -> Iterator[dict[str, str | None]]:
    """Of 300 records a third is in groups, a third asks in few ways; half are of 30 entities."""
    for i in range(300):
        group, asked = (f"g{i % 40}", f"asks {i}") if i % 3 == 0 else (None, f"asks {i}")
        if i % 3 == 1:
            asked = f"Asks  OFTEN {i % 20}" if i % 2 else f"asks often {i % 20}"
        entity = f"e{i % 30}" if i % 2 else None
        yield {"id": str(i), "q": asked, "a": f"answer {i}", "g": group, "entity": entity}


SLOTS = {"text", "anchor", "positive", "other", "negative_1", "negative_2"}
FAMILY = {
    row["id"]: row["g"] or " ".join(str(row["q"]).lower().split()) for row in rows()
}  # what "group" keeps apart
ENTITY = {row["id"]: row["entity"] or row["id"] for row in rows()}
APART = {"group": FAMILY, "meta['entity']": ENTITY, "coalesce(meta['entity'], record_id)": ENTITY}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    with dp.Corpus(tmp_path_factory.mktemp("families") / "c.duckdb") as corpus:
        source = dp.MemorySource(
            [*rows()], id="id", anchor="q", positive="a", group="g", meta=["entity"]
        )
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1, 0, 0)
        yield corpus


@pytest.mark.parametrize(("size", "seed"), [(20, 42), (7, 1), (13, 5)])
@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("apart", APART)
def test_no_batch_has_two_of_a_family_and_every_anchor_comes(
    corpus: dp.Corpus, apart: str, kind: int, size: int, seed: int
) -> None:
    given = {**KINDS[kind], "batch_size": size, "epochs": 2, "seed": seed}
    sampler, plain = corpus.sampler(**given, no_duplicates=apart), corpus.sampler(**given)
    record = "text_record_id" if kind == 2 else "anchor_record_id"
    for batch in sampler:
        texts = [text for slot in SLOTS & {*batch.keys()} for text in batch[slot]]
        assert len(texts) == len({*texts})
    served = sampler.served(0, sampler.position)
    found = [APART[apart][name.split("/")[1]] for name in served[record].to_pylist()]
    batches = [found[at : at + size] for at in range(0, len(found), size)]
    assert all(len(batch) == len({*batch}) for batch in batches)
    gave = sum(source is not None for source in served["displaced"].to_pylist())
    due = Counter(plain.served(0, sampler.position)[record].to_pylist())
    assert (due - Counter(served[record].to_pylist())).total() <= gave <= len(served) // 10
    assert_resumes_everywhere(corpus.sampler(**given, no_duplicates=apart), 5)


def test_a_literal_is_data_wherever_it_stands(corpus: dp.Corpus) -> None:
    odd = "coalesce(meta['entity'], 'x\n; DROP TABLE records; --')"
    batch = next(corpus.sampler(**KINDS[2], batch_size=2, no_duplicates=odd))
    assert len(batch) == 2
    assert corpus.count() == 300


def test_a_batch_of_more_than_there_are_families_is_refused(corpus: dp.Corpus) -> None:
    size = len({*FAMILY.values()})
    given: dict[str, Any] = {**KINDS[2], "no_duplicates": "group"}
    with pytest.raises(dp.RecipeError, match=rf"kept apart\) for {size}; lower"):
        corpus.sampler(batch_size=size + 1, **given)
    assert len(next(corpus.sampler(batch_size=size // 2, **given))) == size // 2


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        ("negative", r"'negatives', 'group', or a value of records .*unknown column negative"),
        ("text", "text"),
        ("source) IS NOT NULL OR (label", "one value"),
        ("meta['x']; DROP TABLE records", "condition"),
        ("random()", "random"),
        ("", "no_duplicates=''"),
        ("meta['entty']", "no record of split 'train' has such a value"),
        ("record_id::INT", r"no_duplicates='record_id::INT': Conversion Error"),
        (7, "no_duplicates=7"),
    ],
)
def test_what_is_no_value_of_records_is_refused(corpus: dp.Corpus, apart: Any, said: str) -> None:
    with pytest.raises(dp.SamplerError, match=said):
        corpus.sampler(recipes=[PLAIN], no_duplicates=apart)
