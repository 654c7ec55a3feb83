"""Splits: the stored formula, against hashlib; assigned once; families are kept together."""

import hashlib
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from commands import cli
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.ingest import store
from duckplets.ingest.splits import connected

GROUPS = [None, "family", "Ünïcode 漢", "x\0y", "two words", "s/r1"]


def fraction(seed, key):
    """Where a key lies between 0 and 1."""
    digest = hashlib.md5(str(seed).encode() + b"\x1f" + key.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(seed, key, ratios):
    train, validation, test = ratios
    u = fraction(seed, key)
    if u < train:
        return "train"
    # 1 is not always the sum of two ratios: without a share, test gets nothing.
    return "validation" if u < train + validation or test == 0 else "test"


def records(count, start=0):
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


def source(given):
    return dp.sources.MemorySource(given, id="id", text="text", group="group")


def stored(corpus):
    return corpus.sql(
        "SELECT record_key, record_id, group_key, split "
        "FROM records LEFT JOIN splits USING (record_key) ORDER BY record_key"
    ).to_pylist()


def assignment(corpus):
    """Split by id, of the newest version."""
    rows = corpus.sql("SELECT record_id, split FROM live_records").to_pylist()
    return {row["record_id"]: row["split"] for row in rows}


def check(corpus, seed, ratios):
    """Check that every record has the split of the formula, once."""
    rows = stored(corpus)
    assert len({row["record_key"] for row in rows}) == len(rows)
    for row in rows:
        key = row["record_id"] if row["group_key"] is None else row["group_key"]
        assert row["split"] == split_of(seed, key, ratios), row


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A corpus to split again and again."""
    with dp.Corpus(tmp_path_factory.mktemp("filled") / "c.duckdb") as corpus:
        corpus.ingest(source(records(120)), name="s")
        corpus.ingest(source(records(60)), name="other")
        yield corpus


twentieths = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
any_ratios = st.one_of(
    st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0.7, 0.2, 0.1)]),
    twentieths.map(lambda cuts: (cuts[0] / 20, (cuts[1] - cuts[0]) / 20, (20 - cuts[1]) / 20)),
    st.tuples(st.floats(0, 1), st.floats(0, 1))
    .map(sorted)
    .map(lambda cuts: (cuts[0], cuts[1] - cuts[0], 1 - cuts[1])),
)


@settings(max_examples=often(80, less=8), deadline=None)
@given(ratios=any_ratios, seed=st.integers(-(2**70), 2**70))
def test_splits_are_those_of_the_formula(filled, ratios, seed):
    counts = filled.split(*ratios, seed=seed, reassign=True)
    check(filled, seed, ratios)
    assert counts == Counter(assignment(filled).values())
    assert filled.split(*ratios, seed=seed) == counts  # again alike
    for name, ratio in zip(("train", "validation", "test"), ratios, strict=True):
        assert ratio > 0 or not counts.get(name)


def test_the_limits_are_exact(filled):
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


def test_later_ingests_move_nothing(corpus):
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


def test_other_settings_need_a_word(corpus):
    corpus.ingest(source(records(80)), name="s")
    corpus.split(0.8, 0.1, 0.1, seed=42)
    before = stored(corpus)
    for settings_now, told in [
        ({"seed": 43}, r"seed=42, not with .*seed=43.*reassign=True"),
        ({"train": 0.5, "validation": 0.4}, r"train=0.8.*not with train=0.5, validation=0.4"),
        ({"train": 1, "validation": 0, "test": 0}, r"train=1\.0,"),
    ]:
        with pytest.raises(dp.errors.SplitError, match=told):
            corpus.split(**settings_now)
        assert stored(corpus) == before
    with pytest.raises(dp.errors.SplitError):  # nor is a corpus split that has no record yet
        corpus.split(0.5, 0.25, 0.25)
    corpus.split(0.5, 0.25, 0.25, seed=43, reassign=True)
    check(corpus, 43, (0.5, 0.25, 0.25))
    corpus.ingest(source(records(20, 80)), name="s")
    check(corpus, 43, (0.5, 0.25, 0.25))
    assert len(corpus.sql("FROM settings WHERE name = 'splits'")) == 1


WRONG = [
    ({"train": -0.1, "validation": 0.6, "test": 0.5}, "train=-0.1"),
    ({"train": 1.5, "validation": -0.5, "test": 0}, "train=1.5"),
    ({"train": math.nan}, "train=nan"),
    ({"train": 10**400}, "train=.a number of 1329 bits"),
    ({"train": 0.8, "validation": 0.1, "test": 0.2}, r"add up to 1\.1; they must add up to 1"),
    ({"train": 0, "validation": 0, "test": 0}, "add up to 0;"),
    ({"train": 0.8, "validation": 0.1, "test": 0.1 + 2e-9}, "must add up to 1"),
    ({"validation": [0.1]}, r"validation=\[0.1\]"),
    ({"train": 0.9, "validation": 0.2}, r"add up to 1\.1"),
    ({"keep_together": "texts"}, "keep_together='texts'.*'group' or 'text'"),
    *(({"seed": seed}, f"seed={seed!r}") for seed in (1.5, "42", True, None)),
]


def test_wrong_settings_are_refused(filled):
    filled.split(seed=1, reassign=True)
    before = stored(filled)
    for wrong, message in WRONG:
        with pytest.raises(dp.errors.SplitError, match=message) as caught:
            filled.split(**wrong, reassign=True)
        assert isinstance(caught.value, ValueError)
    assert stored(filled) == before
    for name in ("dev", "", "Train", None, ["train"]):
        with pytest.raises(dp.errors.SplitError, match="train, validation, test"):
            filled.sampler(split=name)


# ---- families: what groups and equal anchors connect

RATIOS = (0.5, 0.25, 0.25)


def least(edges):
    """The least record that each is connected with, by following one edge after the other."""
    of_tie, of_record = defaultdict(set), defaultdict(set)
    for record, tie in edges:
        of_tie[tie].add(record)
        of_record[record].add(tie)
    found = {}
    for start in sorted(of_record):
        waiting = [start]
        while waiting:
            record = waiting.pop()
            if record not in found:
                found[record] = start
                waiting += [r for tie in of_record[record] for r in of_tie[tie]]
    return found


def test_families_are_what_is_connected():
    def families(edges):
        table = np.array(edges, dtype=np.int64).reshape(-1, 2)
        records, found = connected(table[:, 0], table[:, 1].astype(np.uint64))
        return dict(zip(records.tolist(), found.tolist(), strict=True))

    draw = random.Random(5)
    for size in range(often(400, less=40)):
        records, ties = draw.randint(1, 40), draw.randint(1, 30)
        edges = [(draw.randrange(records), draw.randrange(ties)) for _ in range(size)]
        assert families(edges) == least(edges)
    keys = list(range(10_000))
    orders = [keys, keys[::-1], keys[::2] + keys[1::2][::-1], draw.sample(keys, len(keys))]
    for order in orders:  # of a long chain
        edges = [(key, tie) for at, key in enumerate(order) for tie in (at, at + 1)]
        assert set(families(edges).values()) == {0}


def pair_rows(count, seed):
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


def pairs(given):
    return dp.sources.MemorySource(given, id="id", anchor="q", positive="a", group="group")


def text_of(row):
    return str(row["q"].strip().lower().replace("é", "e").replace("\t", " ").replace("\n", " "))


def family_of(given):
    """The rows of the family of every id."""
    ties = {}
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


@pytest.mark.parametrize("seed", range(often(12, less=1)))
def test_a_family_has_the_split_of_its_least_group_or_of_its_text(tmp_path, seed):
    given = pair_rows(60, seed)
    members = family_of(given)
    found = []
    for n in range(2):
        with empty_corpus(tmp_path / f"{n}.duckdb") as corpus:
            corpus.ingest(pairs(given), name="s")
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
            assert splits[f"s/{id_}"] == split_of(7, key, RATIOS), id_
        found.append(splits)
        random.Random(seed).shuffle(given)
    assert found[0] == found[1]


def test_later_records_take_the_split_of_their_family(corpus):
    corpus.split(*RATIOS, keep_together="text")
    first = [{"id": f"r{i}", "q": f"text {i}", "a": "a", "group": None} for i in range(40)]
    corpus.ingest(pairs(first), name="s")
    before = assignment(corpus)
    other = next(i for i in range(40) if before[f"s/r{i}"] != before["s/r0"])
    again = [{"id": "n0", "q": " TEXT  0", "a": "b", "group": "x"}]
    report = corpus.ingest(pairs(again), name="s")
    assert (assignment(corpus)["s/n0"], report.spanning) == (before["s/r0"], 0)
    # A group that joins two families of different splits: the least key decides, counted.
    bridge = [{"id": "n1", "q": f"text {other}", "a": "c", "group": "x"}]
    report = corpus.ingest(pairs(bridge), name="s")
    assert (assignment(corpus)["s/n1"], report.spanning) == (before["s/r0"], 1)
    assert {id_: assignment(corpus)[id_] for id_ in before} == before
    assert corpus.split(*RATIOS, keep_together="text").spanning == 1
    assert corpus.split(*RATIOS, keep_together="text", reassign=True).spanning == 0
    splits = assignment(corpus)
    assert len({splits[f"s/{id_}"] for id_ in ("r0", f"r{other}", "n0", "n1")}) == 1


def test_records_without_anchor_are_told_by_their_first_section(corpus):
    texts = [{"text": f"only {i % 30}"} for i in range(60)] + [
        {"text": f"ONLY {i}"} for i in range(30)
    ]
    corpus.ingest(dp.sources.MemorySource(texts, text="text"), name="s")
    report = corpus.split(*RATIOS, keep_together="text")
    assert report.shared_anchors == {"validation": 0, "test": 0}
    with pytest.raises(dp.errors.SplitError, match=r"keep_together=text, not with .*reassign=True"):
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
        dp.Chunking(preprocessors=(dp.plugins.register_preprocessor("same", lambda text: "only"),))
    )
    of = corpus.status()["shared_anchors"]
    assert all(of[name]["anchors"] == of[name]["shared"] > 0 for name in ("validation", "test"))
    corpus.split(*RATIOS, keep_together="text", reassign=True)
    assert len(set(assignment(corpus).values())) == 1


SHARES = [
    ({}, (0.8, 0.1, 0.1)),
    ({"train": 0.9}, (0.9, 0.05, 0.05)),
    ({"train": 1}, (1, 0, 0)),
    ({"validation": 0.1}, (0.8, 0.1, 0.1)),
    ({"test": 0}, (0.888888888889, 0.111111111111, 0)),
    ({"train": 0.7, "test": 0.1}, (0.7, 0.2, 0.1)),
]


def test_a_split_says_which_shares_were_asked_for_and_which_came_out(corpus):
    rows = [
        {"id": f"r{i}", "q": f"q {i % 50}", "a": f"a {i}", "group": "large" if i < 40 else None}
        for i in range(60)
    ]
    assert str(corpus.split(*RATIOS)).endswith("; no records yet")
    for named, shares in SHARES:  # those that are not named divide the rest
        used = corpus.split(**named, reassign=True).settings
        assert (used.train, used.validation, used.test) == pytest.approx(shares, abs=0)
        assert corpus.split(*shares) == {}  # the very settings, written out
    corpus.ingest(pairs(rows), name="s")
    corpus.ingest(pairs(rows), name="s", on_conflict="replace")
    for keep_together, largest in {"group": 40, "text": 50}.items():
        report = corpus.split(0.8, 0.1, 0.1, keep_together=keep_together, reassign=True)
        assert report.asked == {"train": 0.8, "validation": 0.1, "test": 0.1}
        assert report.got == {name: report.get(name, 0) / 60 for name in report.asked}
        assert report.largest_family == largest
        got = "/".join(f"{round(100 * share, 1):g}" for share in report.got.values())
        said = f"asked 80/10/10, got {got}; the largest family holds {largest} records"
        assert said in str(report)
    corpus.close()
    assert cli("split", corpus.path, "--reassign").stderr.startswith("asked 80/10/10, got")


def test_splits_of_an_ingest_are_given_with_the_usual_memory(tmp_path, monkeypatch):
    limits = []
    given = store.assign_missing

    def noting(database, first):
        limits.append(database.rows("SELECT current_setting('memory_limit')")[0][0])
        return given(database, first)

    monkeypatch.setattr(store, "assign_missing", noting)
    asked = "SELECT current_setting('memory_limit')"
    for limit in (None, "700MB"):
        with dp.Corpus(tmp_path / f"{limit}.duckdb", memory_limit=limit) as corpus:
            before = corpus.database.rows(asked)[0][0]
            corpus.split()
            corpus.ingest([{"id": "a", "text": "one"}], name="s", id="id", text="text")
            assert corpus.database.rows(asked)[0][0] == before == limits.pop()
