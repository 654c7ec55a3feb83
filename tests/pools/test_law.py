"""The one law of pools in SQL: equal to plain Python, as anchors and as the lists of a sampler."""

from collections import defaultdict

import law_corpora
import plain_law as law
import pytest
from effort import THOROUGH, often, some

FIRST, MANY = 40, often(300, less=25)


@pytest.fixture(scope="module")
def corpora():
    return law_corpora.drawn(MANY, FIRST)


@pytest.fixture(scope="module")
def corpus(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("law")
    with law_corpora.filled(folder / "c.duckdb", folder / "empty.duckdb", corpora) as corpus:
        yield corpus


def tried(kind):
    """Return numbers of negatives of a sample."""
    return (1, 2, 3) if THOROUGH else (1 if "relabelled" in kind else 1 + len(kind) % 2,)


def laws_of(corpora, told):
    return {
        (f"r{n}", source): law.Law(corpus, told, source)
        for n, corpus in enumerate(corpora)
        for source in "ab"
    }


def lists_of(corpus, pool, part):
    """Return the rows of a part for every split and source."""
    text = law_corpora.of_splits(pool.sql(part))
    given = {"negatives": pool.negatives} if "$negatives" in text else {}
    found = defaultdict(list)
    for row in corpus.database.arrow(text, given).to_pylist():
        found[row.pop("split"), row.pop("source")].append(row)
    return found


@pytest.mark.parametrize("kind", law_corpora.KINDS)
def test_pools_are_those_of_plain_python(kind, corpus, corpora):
    recipe, options, told = law_corpora.KINDS[kind]
    laws, rows = laws_of(corpora, told), 0
    for negatives in tried(kind):
        pool = law_corpora.asked(recipe, negatives, **options)
        found = lists_of(corpus, pool, "pool")
        for place, of in laws.items():
            expected = of.pool(negatives)
            rows += len(expected)
            assert sorted((r["record_key"], r["anchors"]) for r in found[place]) == expected, place
    assert rows


def legal_by_lists(corpus, pool):
    """Return the legal texts of each anchor chunk by place, from the lists of a sampler."""
    parts = ("anchors", "negatives", "pairs", "illegal")
    lists = {part: lists_of(corpus, pool, part) for part in parts}
    found = {}
    for place, anchors in lists["anchors"].items():
        pairs = {(row["class"], row["bin"]) for row in lists["pairs"][place]}
        illegal = lists["illegal"][place]
        excluded = {(row["family"], row["text_hash"]) for row in illegal if not row["is_answer"]}
        known = {(row["question"], row["text_hash"]) for row in illegal if row["is_answer"]}
        for a in anchors:
            legal = set()
            for n in lists["negatives"][place]:
                own = pool.own_negatives and n["record_key"] == a["record_key"]
                other = n["family"] != a["family"] and (pool.fills_up or not pool.own_negatives)
                paired = (a.get("class"), n.get("bin")) in pairs
                if (own or other) and (pool.own_negatives or paired is not pool.forbids):
                    legal.add(n["text_hash"])
            legal -= {text for owner, text in excluded if owner == a["family"]}
            legal -= {text for owner, text in known if owner == a["question"]}
            found[place, a["chunk_key"]] = legal
    return found


def as_pairs(rows):
    return {tuple(row.values()) for row in rows}


@pytest.fixture(scope="module")
def hashed(corpus, corpora):
    """Return the hash of every text."""
    texts = {"texts": sorted({c.text for of in corpora for c in of.chunks})}
    rows = corpus.database.rows("SELECT t, md5_number_lower(t) FROM unnest($texts) AS _(t)", texts)
    return dict(rows)


@pytest.mark.parametrize("kind", some(law_corpora.KINDS, less=9))
def test_the_lists_of_a_sampler_hold_the_same_law(kind, corpus, corpora, hashed):
    recipe, options, told = law_corpora.KINDS[kind]
    pool = law_corpora.asked(recipe, **options)
    expected, of_source = {}, {}
    for place, of in laws_of(corpora, told).items():
        for a in of.anchors():
            legal, own = (
                of.legal(a),
                {n.text for n in of.negatives(a) if n.record.source == place[1]},
            )
            expected[place, a.key] = {hashed[text] for text in legal}
            of_source[place, a.key] = {hashed[text] for text in legal & own}
    found = legal_by_lists(corpus, pool)
    assert found
    assert {name: expected[name] for name in found} == found
    if pool.of_split:  # an anchor that draws in its own source obeys the law of the split
        found = legal_by_lists(corpus, pool.of_source())
        assert {name: of_source[name] for name in found} == found
        assert {name for name, legal in of_source.items() if not legal}.isdisjoint(found)


SWAPPED = ["plain", "conditions", "split-wide", "equality", "inequality", "same_record"]
SWAPPED += ["same_record, filled", "near_date positive", "per chunk"]


@pytest.mark.parametrize("kind", some(SWAPPED, less=4))
def test_swapped_samples_obey_the_law_too(kind, corpus, corpora, hashed):
    recipe, options, told = law_corpora.KINDS[kind]
    for negatives in tried(kind):
        pool = law_corpora.asked(recipe, negatives, swaps=True, **options)
        legal = legal_by_lists(corpus, pool)
        anchors, positives, swapped = (
            lists_of(corpus, pool, part) for part in ("anchors", "positives", "known_swapped")
        )
        plain = law_corpora.asked(recipe, negatives, **options)
        unswapped = lists_of(corpus, plain, "anchors")
        for place, of in laws_of(corpora, told).items():
            chunks = {c.key: c for c in of.chunks}
            known = as_pairs(swapped[place])
            more = {row["chunk_key"] for row in unswapped[place]}
            for row in anchors[place]:
                assert row["chunk_key"] in more
                anchor = chunks[row["chunk_key"]]
                for other in positives[place]:
                    if other["record_key"] != row["record_key"]:
                        continue
                    asked = of.swapped(chunks[other["chunk_key"]].question)
                    left = {hashed[text] for text in of.legal(anchor) - asked}
                    out = {text for owner, text in known if owner == other["question"]}
                    assert legal[place, anchor.key] - out == left
                    assert len(left) >= negatives


RELABELLED = [
    kind for kind, (_, options, _) in law_corpora.KINDS.items() if "relabelled" in options
]


@pytest.mark.parametrize("kind", some(RELABELLED, less=3))
def test_positives_depend_on_the_exact_text_of_an_anchor(kind, corpus, corpora, hashed):
    recipe, options, told = law_corpora.KINDS[kind]
    pool = law_corpora.asked(recipe, **options)
    anchors, positives, unpaired = (
        lists_of(corpus, pool, part) for part in ("anchors", "positives", "unpaired")
    )
    for place, of in laws_of(corpora, told).items():
        chunks = {c.key: c for c in of.chunks}
        banned = as_pairs(unpaired[place])
        for a in anchors[place]:
            expected = {hashed[p.text] for p in of.positives(chunks[a["chunk_key"]])}
            record, text = a["record_key"], a["text_hash"]
            found = {p["text_hash"] for p in positives[place] if p["record_key"] == record}
            assert {p for p in found if (record, text, p) not in banned} == expected


@pytest.mark.parametrize("kind", some(law_corpora.KINDS, less=6))
def test_excluded_anchors_have_a_reason(kind, corpus, corpora):
    recipe, options, told = law_corpora.KINDS[kind]
    pool = law_corpora.asked(recipe, 2, **options)
    anchors, left_out = (lists_of(corpus, pool, part) for part in ("anchors", "left_out"))
    for place, of in laws_of(corpora, told).items():
        found = {row["chunk_key"]: row["reason"] for row in left_out[place]}
        eligible = {row["chunk_key"] for row in anchors[place]}
        assert {a.key for a in of.anchors()} == eligible | found.keys()
        assert eligible.isdisjoint(found)
        drawable = [c for c in of.reach if told.negative(c) and told.where[2](c)]
        if kind == "unequal":  # nothing differs from no value
            drawable = [c for c in drawable if c.record.topic]
        families = {c.record.family for c in drawable}
        for a in of.anchors():
            texts, label = {p.text for p in of.positives(a)}, a.record.label
            expected = "no negative"
            if not texts and told.labels == "binary" and label == 0:
                expected = "labelled negative"
            elif (not texts and told.labels == "graded" and label is not None) or (
                not texts
                and told.documents
                and not told.asks_label
                and any(
                    0 < label < 1
                    for other in of.asks(a.record.key)
                    for label in of.said(other).values()
                )
            ):
                expected = "grade without a condition"
            elif not texts:
                expected = "no positive"
            elif texts == {a.text}:
                expected = "with a single window" if told.same_selectors else "same text"
            elif told.own_negatives and any(c.record is a.record for c in drawable):
                expected = "known answer"
            elif families == {a.record.family} and a.record.group:
                expected = "one family"
            assert a.key in eligible or found[a.key] == expected, (place, a)
