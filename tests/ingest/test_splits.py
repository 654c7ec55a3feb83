"""Splits: the stored formula, against hashlib; assigned once, the same in every order."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import empty_corpus

import duckplets as dp

Ratios = tuple[float, float, float]

GROUPS = [None, "family", "Ünïcode 漢", "x\0y", "two words", "s/r1"]


def fraction(seed: int, key: str) -> float:
    """Where a key lies between 0 and 1."""
    digest = hashlib.md5(str(seed).encode() + b"\x1f" + key.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(seed: int, key: str, ratios: Ratios) -> str:
    train, validation, test = ratios
    u = fraction(seed, key)
    if u < train:
        return "train"
    # 1 is not always the sum of two ratios: without a share, test gets nothing.
    return "validation" if u < train + validation or test == 0 else "test"


def records(count: int, start: int = 0) -> list[dict[str, str | None]]:
    """Records of which some are of a group."""
    return [
        {
            "id": f"r{i}",
            "text": f"text {i}",
            "group": GROUPS[i % 11] if i % 11 < 6 else f"g{i % 40}",
        }
        if i % 3 == 0
        else {"id": f"é{i}\U0001f600", "text": f"text {i}"}
        for i in range(start, start + count)
    ]


def source(given: list[dict[str, str | None]]) -> dp.MemorySource:
    return dp.MemorySource(given, id="id", text="text", group="group")


def stored(corpus: dp.Corpus) -> list[dict[str, Any]]:
    return corpus.sql(
        "SELECT record_key, record_id, group_key, split "
        "FROM records LEFT JOIN splits USING (record_key) ORDER BY record_key"
    ).to_pylist()


def assignment(corpus: dp.Corpus) -> dict[str, str]:
    """Split by id, of the newest version."""
    rows = corpus.sql("SELECT record_id, split FROM live_records").to_pylist()
    return {row["record_id"]: row["split"] for row in rows}


def check(corpus: dp.Corpus, seed: int, ratios: Ratios) -> None:
    """Check that every record has the split of the formula, once."""
    rows = stored(corpus)
    assert len({row["record_key"] for row in rows}) == len(rows)
    for row in rows:
        key = row["record_id"] if row["group_key"] is None else row["group_key"]
        assert row["split"] == split_of(seed, key, ratios), row


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    """A corpus to split again and again."""
    with dp.Corpus(tmp_path_factory.mktemp("filled") / "c.duckdb") as corpus:
        corpus.ingest(source(records(200)), name="s")
        corpus.ingest(source(records(100)), name="other")
        yield corpus


twentieths = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
any_ratios = st.one_of(
    st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0.7, 0.2, 0.1)]),
    twentieths.map(lambda cuts: (cuts[0] / 20, (cuts[1] - cuts[0]) / 20, (20 - cuts[1]) / 20)),
    st.tuples(st.floats(0, 1), st.floats(0, 1))
    .map(sorted)
    .map(lambda cuts: (cuts[0], cuts[1] - cuts[0], 1 - cuts[1])),
)


@settings(max_examples=often(80, less=16), deadline=None)
@given(ratios=any_ratios, seed=st.integers(-(2**70), 2**70))
def test_splits_are_those_of_the_formula(filled: dp.Corpus, ratios: Ratios, seed: int) -> None:
    counts = filled.split(*ratios, seed=seed, reassign=True)
    check(filled, seed, ratios)
    assert counts == Counter(assignment(filled).values())
    assert filled.split(*ratios, seed=seed) == counts  # again alike
    for name, ratio in zip(("train", "validation", "test"), ratios, strict=True):
        assert ratio > 0 or not counts.get(name)


def test_the_limits_are_exact(filled: dp.Corpus) -> None:
    key = "s/é1\U0001f600"
    u = fraction(42, key)
    above = math.nextafter(u, 1)
    for ratios, split in [
        ((u, 1 - u, 0), "validation"),
        ((above, 1 - above, 0), "train"),
        ((0, u, 1 - u), "test"),
        ((0, above, 1 - above), "validation"),
        ((0.1, 0.2, 0.7 + 5e-10), None),  # within the tolerance
    ]:
        filled.split(*ratios, reassign=True)
        assert split in (None, assignment(filled)[key])


def test_later_ingests_move_nothing(corpus: dp.Corpus) -> None:
    ratios = (0.5, 0.3, 0.2)
    assert corpus.split(*ratios, seed=5) == {}
    for start in (0, 60, 120):
        before = stored(corpus)
        corpus.ingest(source(records(60, start)), name=f"s{start}")
        assert stored(corpus)[: len(before)] == before
        check(corpus, 5, ratios)
    changed = [record | {"text": f"{record['text']} again"} for record in records(60)]
    before = assignment(corpus)
    corpus.ingest(source(changed[::2]), name="s0", on_conflict="replace")
    assert assignment(corpus) == before
    check(corpus, 5, ratios)  # the replaced ones too: pinned runs read them
    corpus.remove("s60")
    check(corpus, 5, ratios)
    assert len(stored(corpus)) == 210
    assert sum(corpus.split(*ratios, seed=5).values()) == 120


def test_the_order_of_ingest_and_split_does_not_matter(tmp_path: Path) -> None:
    rows = records(120)
    shuffled = random.Random(1).sample(rows, len(rows))
    found = []
    for name, steps in {
        "ingested, then split": [rows, None],
        "split, then ingested": [None, rows],
        "between two": [rows[:70], None, rows[70:]],
        "in another order": [shuffled[:50], None, shuffled[50:], shuffled],
        "with rows between": [None, [{"id": "new", "text": "new"}, *shuffled]],
    }.items():
        with empty_corpus(tmp_path / f"{name}.duckdb") as corpus:
            for step in steps:
                if step is None:
                    corpus.split(0.6, 0.2, 0.2, seed=9)
                else:
                    corpus.ingest(source(step), name="s")
            found.append(assignment(corpus))
            found[-1].pop("s/new", None)
    assert len(found[0]) == 120
    assert all(other == found[0] for other in found)


def test_other_settings_need_a_word(corpus: dp.Corpus) -> None:
    corpus.ingest(source(records(80)), name="s")
    corpus.split(0.8, 0.1, 0.1, seed=42)
    before = stored(corpus)
    for settings_now, told in [
        ({"seed": 43}, r"seed=42, not with .*seed=43.*reassign=True"),
        ({"train": 0.5, "validation": 0.4}, r"train=0.8.*not with train=0.5, validation=0.4"),
        ({"train": 1, "validation": 0, "test": 0}, r"train=1\.0,"),
    ]:
        with pytest.raises(dp.SplitError, match=told):
            corpus.split(**settings_now)
        assert stored(corpus) == before
    with pytest.raises(dp.SplitError):  # nor is a corpus split that has no record yet
        corpus.split(0.5, 0.25, 0.25)
    corpus.split(0.5, 0.25, 0.25, seed=43, reassign=True)
    check(corpus, 43, (0.5, 0.25, 0.25))
    corpus.ingest(source(records(20, 80)), name="s")
    check(corpus, 43, (0.5, 0.25, 0.25))
    assert len(corpus.sql("FROM settings WHERE name = 'splits'")) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"train": -0.1, "validation": 0.6, "test": 0.5}, "train=-0.1"),
    ({"train": 1.5, "validation": -0.5, "test": 0}, "train=1.5"),
    ({"train": math.nan}, "train=nan"),
    ({"validation": math.inf}, "validation=inf"),
    ({"train": 10**400}, "train=.a number of 1329 bits"),
    ({"train": 0.8, "validation": 0.1, "test": 0.2}, r"add up to 1\.1; they must add up to 1"),
    ({"train": 0, "validation": 0, "test": 0}, "add up to 0;"),
    ({"train": 0.8, "validation": 0.1, "test": 0.1 + 2e-9}, "must add up to 1"),
    ({"train": True, "validation": 0, "test": 0}, "train=True"),
    ({"train": "0.8"}, "train='0.8'"),
    ({"validation": [0.1]}, r"validation=\[0.1\]"),
    ({"train": 0.9, "validation": 0.2}, r"add up to 1\.1"),
    ({"keep_together": "texts"}, "keep_together='texts'.*'group' or 'text'"),
    *(({"seed": seed}, f"seed={seed!r}") for seed in (1.5, "42", True, None)),
]


def test_wrong_settings_are_refused(filled: dp.Corpus) -> None:
    filled.split(seed=1, reassign=True)
    before = stored(filled)
    for wrong, message in WRONG:
        with pytest.raises(dp.SplitError, match=message) as caught:
            filled.split(**wrong, reassign=True)
        assert isinstance(caught.value, ValueError)
    assert stored(filled) == before
    for name in ("dev", "", "Train", None, ["train"]):
        with pytest.raises(dp.SplitError, match="train, validation, test"):
            filled.sampler(split=name)  # type: ignore[arg-type]
