"""The promises about samples, against a plain-Python reading of the rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import Window, all_windows, by_record, odd_corpus, samples
from effort import THOROUGH, often

import duckplets as dp
from duckplets.mining.store import named_pool
from duckplets.pools.read import PoolReader

Matches = Callable[[Window], bool]
Legal = Callable[[Window, Window], bool]

pytestmark = pytest.mark.usefixtures("pools_once")

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()


def of_role(role: str) -> Matches:
    return lambda w: w.role == role


def anything(*_: Window) -> bool:
    return True


ROLES = dict(anchor=ANCHOR, positive=CONTEXT, negative=CONTEXT)
THREE = (of_role("anchor"), of_role("context"), of_role("context"))


# A recipe, and what its anchors, positives and negatives are, and which go together.
NORTH = "negative.date > anchor.date and negative.taxonomy[1] = 'north'"
CASES: list[tuple[dict[str, Any], Matches, Matches, Matches, Legal]] = [
    (ROLES, *THREE, anything),
    (
        dict(anchor=CONTEXT, positive=CONTEXT, negative=ANY),
        *(of_role("context"), of_role("context"), anything, anything),
    ),
    (ROLES | {"strategy": "other_date"}, *THREE, lambda a, n: a.date != n.date),
    (
        dict(
            anchor=ANCHOR,
            positive=dp.position(1),
            negative=dp.position(1),
            strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
        ),
        of_role("anchor"),
        lambda w: w.position == 1,
        lambda w: w.position == 1,
        lambda a, n: a.topic == n.topic,
    ),
    (
        ROLES | {"strategy": dp.sql("negative.meta['topic'] <> anchor.meta['topic']")},
        *THREE,
        lambda a, n: a.topic != n.topic,
    ),
    (
        ROLES | {"strategy": dp.sql(NORTH)},
        *THREE,
        lambda a, n: bool(a.date and n.date and n.date > a.date and n.area == "north"),
    ),
    (
        dict(
            anchor=dp.role("anchor", where="meta['topic'] in ('news', 'law')"),
            positive=dp.role("context", where="kind = 'window'"),
            negative=dp.any_section(where="taxonomy[1] = 'south'"),
        ),
        lambda w: w.role == "anchor" and w.topic in ("news", "law"),
        lambda w: w.role == "context" and w.kind == "window",
        lambda w: w.area == "south",
        anything,
    ),
    (ROLES | {"anchor": CONTEXT, "per": "chunk"}, *[of_role("context")] * 3, anything),
]  # fmt: skip


def expected_pool(
    windows: list[Window], case: tuple[Any, ...], negatives: int = 1
) -> tuple[dict[Any, list[Window]], Counter[str], Callable[[Window, Window], bool]]:
    """Return the anchors with their usable windows, reasons, and what is a legal negative."""
    arguments, is_a, is_p, is_n, legal = case
    pool: dict[Any, list[Window]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    groups = by_record(windows)

    def forbidden(record: int) -> set[str]:
        return {w.text for w in groups[record] if is_a(w) or is_p(w)}

    def may(a: Window, n: Window) -> bool:
        own = n.record == a.record or n.text in forbidden(a.record)
        return not own and is_n(n) and legal(a, n)

    for members in groups.values():
        units: dict[Any, list[Window]] = defaultdict(list)
        for w in members:
            if is_a(w):
                units[w.key if arguments.get("per") == "chunk" else w.record].append(w)
        if not units:
            reasons["no anchor"] += 1
        for unit, anchors in units.items():
            found: list[str] = []
            for a in anchors:
                positives = [w for w in members if is_p(w)]
                texts = {n.text for n in windows if may(a, n)}
                if not positives:
                    found.append("no positive")
                elif all(w.text == a.text for w in positives):
                    found.append("same text")
                elif len(texts) < negatives:
                    found.append("no negative")
                else:
                    pool[unit].append(a)
            if unit not in pool:
                reasons[found[0]] += 1
    return pool, reasons, may


SIZES = [(60, 0.2, 1), (9, 0.6, 1), (40, 0.4, 3)]


@pytest.mark.parametrize(
    ("case", "count", "repeats", "negatives"),
    [
        (case, *size)
        for i, case in enumerate(CASES)
        for size in (SIZES if THOROUGH else SIZES[i % 3 : i % 3 + 1])
    ],
    ids=lambda c: str(c[0].get("strategy", c[0]))[:40] if isinstance(c, tuple) else str(c),
)
def test_triplets_follow_the_rules(
    tmp_path: Path, case: tuple[Any, ...], count: int, repeats: float, negatives: int
) -> None:
    for seed in range(often(3, less=1)):
        path = tmp_path / f"c{seed}.duckdb"
        with odd_corpus(path, count, seed, repeats=repeats) as corpus:
            windows = [w for w in all_windows(corpus) if w.split == "train"]
            recipe = dp.TripletRecipe("r", **case[0])
            pool, reasons, may = expected_pool(windows, case, negatives)
            if not pool:
                with pytest.raises(dp.EmptyPoolError):
                    corpus.sampler(recipes=[recipe], negatives=negatives)
                continue
            columns = ["anchor", "positive", "swapped", "anchor_record_id", "positive_record_id"]
            slots = (
                [f"negative_{i + 1}" for i in range(negatives)] if negatives > 1 else ["negative"]
            )
            columns += [*slots, *(f"{s}_record_id" for s in slots)]
            sampler = corpus.sampler(
                recipes=[recipe], negatives=negatives, seed=seed, batch_size=7, columns=columns
            )
            assert sampler.epoch_length == len(pool)
            check_epochs(sampler, windows, case, pool, may, slots)
            if negatives == 1:
                corpus.add_recipe(recipe)
                compiled = named_pool(corpus.database, "r", None, "train")
                with PoolReader(corpus.database, [compiled]) as reader:
                    counts = reader.count(compiled)
                assert counts.pop(None) == len(pool)
                assert counts == dict(reasons)
                listed = corpus.pool("r")
                assert listed.num_rows == len(pool)
                assert sorted(k for ks in listed["anchors"].to_pylist() for k in ks) == sorted(
                    w.key for ws in pool.values() for w in ws
                )


def check_epochs(
    sampler: dp.Sampler,
    windows: list[Window],
    case: tuple[Any, ...],
    pool: dict[Any, list[Window]],
    may: Callable[[Window, Window], bool],
    slots: list[str],
) -> None:
    """Draw a few epochs: every sample legal, every anchor once an epoch, rotation complete."""
    per_chunk = case[0].get("per") == "chunk"
    texts: dict[tuple[str, str], list[Window]] = defaultdict(list)
    for w in windows:
        texts[w.record_id, w.text].append(w)
    epochs = 5
    visits: dict[Any, list[str]] = defaultdict(list)
    for i, row in enumerate(samples(sampler, epochs * len(pool))):
        first, second = ("positive", "anchor") if row["swapped"] else ("anchor", "positive")
        a = texts[row[f"{first}_record_id"], row[first]]
        p = texts[row[f"{second}_record_id"], row[second]]
        a = [w for w in a if case[1](w)]
        assert a, row
        assert any(case[2](w) for w in p)
        assert row["anchor"] != row["positive"]
        assert a[0].record == p[0].record
        drawn = [row[slot] for slot in slots]
        assert len(set(drawn)) == len(drawn)
        for slot in slots:
            candidates = texts[row[f"{slot}_record_id"], row[slot]]
            assert any(may(x, n) for x in a for n in candidates), (row, slot)
        unit = row[first] if per_chunk else a[0].record
        visits[(a[0].record, unit) if per_chunk else unit].append(row[first])
        if (i + 1) % len(pool) == 0 and not per_chunk:
            e = (i + 1) // len(pool)
            assert {len(v) for v in visits.values()} == {e}
            assert visits.keys() == pool.keys()
    if not per_chunk:
        for unit, seen in visits.items():
            have = Counter(w.text for w in pool[unit])
            n = len(pool[unit])
            for start in range(epochs - n + 1):
                assert Counter(seen[start : start + n]) == have


@pytest.mark.parametrize(
    "arguments", [{}, {"negatives": 2, "kind": "pairs"}, {"kind": "texts"}], ids=str
)
def test_every_column_that_there_is_can_be_asked_for(
    odd: dp.Corpus, arguments: dict[str, Any]
) -> None:
    with pytest.raises(dp.SamplerError, match="have no 'nothing'") as refusal:
        odd.sampler(**arguments, columns=["nothing"])
    names = str(refusal.value).split("there are ")[1].split(", ")
    columns = [name for name in names if not name.endswith("_vector")]
    plain = next(odd.sampler(**arguments, batch_size=8))
    batch = next(odd.sampler(**arguments, batch_size=8, columns=columns))
    assert batch.keys() == columns
    assert {len(values) for values in batch.values()} == {8}
    assert plain.to_pydict() == {name: batch[name] for name in plain.keys()}  # noqa: SIM118


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[dp.Corpus]:
    with odd_corpus(tmp_path / "c.duckdb", 40, 3) as corpus:
        yield corpus


@pytest.mark.parametrize("arguments", [{}, {"kind": "texts"}], ids=str)
def test_columns_tell_which_chunk_a_text_is(odd: dp.Corpus, arguments: dict[str, Any]) -> None:
    slots = odd.sampler(**arguments).text_columns
    whats = ("kind", "overlap", "start", "length", "start_ratio", "record_id", "section")
    columns = [*slots, *(f"{slot}_{what}" for slot in slots for what in whats)]
    rows = odd.sql(
        """
        SELECT r.record_id, s.position, c.kind, c.overlap, c.start, c.length, c.start_token,
            s.token_count, s.text
        FROM chunks c JOIN sections s USING (section_key)
        JOIN live_records r ON r.record_key = c.record_key
        """
    ).to_pylist()
    chunks = {tuple(row.values())[:6]: row for row in rows}
    seen = set()
    for row in samples(odd.sampler(**arguments, columns=columns), 300):
        for slot in slots:
            kind, overlap, start, length, ratio, *place = (row[f"{slot}_{w}"] for w in whats)
            chunk = chunks[(*place, kind, overlap, start, length)]
            assert row[slot] == chunk["text"][start : start + length]
            assert ratio == chunk["start_token"] / chunk["token_count"]
            seen.add((kind, overlap, ratio > 0))
    assert {("summary", 0, False), ("window", 3, True), ("window", 0, False)} <= seen
