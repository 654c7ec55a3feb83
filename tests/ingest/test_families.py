"""Families of records: what groups and equal anchors connect shares a split, at ingest as well."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import cli
from effort import often
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.ingest.splits import connected

RATIOS = (0.5, 0.25, 0.25)


def assignment(corpus: dp.Corpus) -> dict[str, str]:
    """Split by id, of the newest version."""
    rows = corpus.sql("SELECT record_id, split FROM live_records").to_pylist()
    return {row["record_id"]: row["split"] for row in rows}


def split_of(seed: int, key: str) -> str:
    """The split of a key, by RATIOS."""
    digest = hashlib.md5(str(seed).encode() + b"\x1f" + key.encode()).digest()
    u = int.from_bytes(digest[:8], "big") / 2**64
    return "train" if u < 0.5 else "validation" if u < 0.75 else "test"


def least(edges: list[tuple[int, int]]) -> dict[int, int]:
    """The least record that each is connected with, by following one edge after the other."""
    of_tie, of_record = defaultdict(set), defaultdict(set)
    for record, tie in edges:
        of_tie[tie].add(record)
        of_record[record].add(tie)
    found: dict[int, int] = {}
    for start in sorted(of_record):
        waiting = [start]
        while waiting:
            record = waiting.pop()
            if record not in found:
                found[record] = start
                waiting += [r for tie in of_record[record] for r in of_tie[tie]]
    return found


def families(edges: list[tuple[int, int]]) -> dict[int, int]:
    table = np.array(edges, dtype=np.int64).reshape(-1, 2)
    records, found = connected(table[:, 0], table[:, 1].astype(np.uint64))
    return dict(zip(records.tolist(), found.tolist(), strict=True))


def test_families_are_what_is_connected() -> None:
    draw = random.Random(5)
    for size in range(often(400, less=60)):
        records, ties = draw.randint(1, 40), draw.randint(1, 30)
        edges = [(draw.randrange(records), draw.randrange(ties)) for _ in range(size)]
        assert families(edges) == least(edges)
    keys = list(range(10_000))
    orders = [keys, keys[::-1], keys[::2] + keys[1::2][::-1], draw.sample(keys, len(keys))]
    for order in orders:  # of a long chain
        edges = [(key, tie) for at, key in enumerate(order) for tie in (at, at + 1)]
        assert set(families(edges).values()) == {0}


Row = dict[str, Any]


def rows(count: int, seed: int) -> list[Row]:
    """Records with few groups and few texts, written in several ways."""
    draw = random.Random(seed)
    forms = ["text {}", "  TEXT\n{} ", "téxt {}", "text\t{}"]
    return [
        {
            "id": f"r{i}",
            "q": draw.choice(forms).format(draw.randrange(count)),
            "a": f"answer {i}",
            "group": f"g{draw.randrange(count)}" if draw.random() < 0.4 else None,
        }
        for i in range(count)
    ]


def source(given: list[Row]) -> dp.MemorySource:
    return dp.MemorySource(given, id="id", anchor="q", positive="a", group="group")


def text_of(row: Row) -> str:
    return str(row["q"].strip().lower().replace("é", "e").replace("\t", " ").replace("\n", " "))


def family_of(given: list[Row]) -> dict[str, list[Row]]:
    """The rows of the family of every id."""
    ties: dict[str, int] = {}
    edges = []
    for at, row in enumerate(given):
        for tie in (text_of(row), row["group"] and f"group {row['group']}"):
            if tie:
                edges.append((at, ties.setdefault(tie, len(ties))))
    members = defaultdict(list)
    found = least(edges)
    for at, row in enumerate(given):
        members[found[at]].append(row)
    return {given[at]["id"]: members[found[at]] for at in found}


@pytest.mark.parametrize("seed", range(often(12, less=3)))
def test_a_family_has_the_split_of_its_least_group_or_of_its_text(
    tmp_path: Path, seed: int
) -> None:
    given = rows(60, seed)
    members = family_of(given)
    found = []
    for n in range(2):
        with empty_corpus(tmp_path / f"{n}.duckdb") as corpus:
            corpus.ingest(source(given), name="s")
            corpus.split(*RATIOS, seed=7, keep_together="text")
            splits = assignment(corpus)
            hashes = corpus.sql(
                "SELECT record_id, normalised_hash(text) AS h FROM section_texts "
                "WHERE role = 'anchor'"
            ).to_pydict()
        by_id = dict(zip(hashes["record_id"], hashes["h"], strict=True))
        for id_, family in members.items():
            groups = [row["group"] for row in family if row["group"]]
            texts = [by_id["s/" + row["id"]] for row in family]
            key = min(groups) if groups else f"{min(texts):016x}"
            assert splits[f"s/{id_}"] == split_of(7, key), id_
        found.append(splits)
        random.Random(seed).shuffle(given)
    assert found[0] == found[1]


def test_later_records_take_the_split_of_their_family(tmp_path: Path) -> None:
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(*RATIOS, keep_together="text")
        first = [{"id": f"r{i}", "q": f"text {i}", "a": "a", "group": None} for i in range(40)]
        corpus.ingest(source(first), name="s")
        before = assignment(corpus)
        other = next(i for i in range(40) if before[f"s/r{i}"] != before["s/r0"])
        again = [{"id": "n0", "q": " TEXT  0", "a": "b", "group": "x"}]
        report = corpus.ingest(source(again), name="s")
        assert (assignment(corpus)["s/n0"], report.spanning) == (before["s/r0"], 0)
        # A group that joins two families of different splits: the least key decides, counted.
        bridge = [{"id": "n1", "q": f"text {other}", "a": "c", "group": "x"}]
        report = corpus.ingest(source(bridge), name="s")
        assert (assignment(corpus)["s/n1"], report.spanning) == (before["s/r0"], 1)
        assert {id_: assignment(corpus)[id_] for id_ in before} == before
        assert corpus.split(*RATIOS, keep_together="text").spanning == 1
        assert corpus.split(*RATIOS, keep_together="text", reassign=True).spanning == 0
        splits = assignment(corpus)
        assert len({splits[f"s/{id_}"] for id_ in ("r0", f"r{other}", "n0", "n1")}) == 1


def test_records_without_anchor_are_told_by_their_first_section(tmp_path: Path) -> None:
    texts = [{"text": f"only {i % 30}"} for i in range(60)] + [
        {"text": f"ONLY {i}"} for i in range(30)
    ]
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(texts, text="text"), name="s")
        report = corpus.split(*RATIOS, keep_together="text")
        assert report.shared_anchors == {"validation": 0, "test": 0}
        with pytest.raises(dp.SplitError, match=r"keep_together=text, not with .*reassign=True"):
            corpus.split(*RATIOS)
        report = corpus.split(*RATIOS, reassign=True)
        splits = corpus.sql("SELECT lower(text) AS text, split FROM section_texts").to_pylist()
        train = {row["text"] for row in splits if row["split"] == "train"}
        for name in ("validation", "test"):
            shared = [row["text"] in train for row in splits if row["split"] == name]
            assert (report.anchors[name], report.shared_anchors[name]) == (len(shared), sum(shared))
        assert sum(report.shared_anchors.values()) > 0
        # Texts that are cleaned otherwise are told anew.
        corpus.chunk(
            dp.Chunking(preprocessors=(dp.register_preprocessor("same", lambda text: "only"),))
        )
        corpus.split(*RATIOS, keep_together="text", reassign=True)
        assert len(set(assignment(corpus).values())) == 1


def test_a_split_says_which_shares_were_asked_for_and_which_came_out(tmp_path: Path) -> None:
    rows = [
        {"id": f"r{i}", "q": f"q {i % 50}", "a": f"a {i}", "group": "large" if i < 40 else None}
        for i in range(60)
    ]
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        assert str(corpus.split(*RATIOS)).endswith("; no records yet")
        corpus.ingest(source(rows), name="s")
        corpus.ingest(source(rows), name="s", on_conflict="replace")
        for keep_together, largest in {"group": 40, "text": 50}.items():
            report = corpus.split(0.8, 0.1, 0.1, keep_together=keep_together, reassign=True)
            assert report.asked == {"train": 0.8, "validation": 0.1, "test": 0.1}
            assert report.got == {name: report.get(name, 0) / 60 for name in report.asked}
            assert report.largest_family == largest
            got = "/".join(f"{round(100 * share, 1):g}" for share in report.got.values())
            said = f"asked 80/10/10, got {got}; the largest family holds {largest} records"
            assert said in str(report)
    assert cli("split", tmp_path / "c.duckdb", "--reassign").stderr.startswith(
        "asked 80/10/10, got"
    )


def test_shares_that_are_not_named_divide_the_rest(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, float], tuple[float, float, float]]] = [
        ({}, (0.8, 0.1, 0.1)),
        ({"train": 0.9}, (0.9, 0.05, 0.05)),
        ({"train": 1}, (1, 0, 0)),
        ({"validation": 0.1}, (0.8, 0.1, 0.1)),
        ({"test": 0}, (0.888888888889, 0.111111111111, 0)),
        ({"train": 0.7, "test": 0.1}, (0.7, 0.2, 0.1)),
    ]
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        for named, shares in cases:
            used = corpus.split(**named, reassign=True).settings
            assert (used.train, used.validation, used.test) == pytest.approx(shares, abs=0)
            assert corpus.split(*shares) == {}  # the very settings, written out
