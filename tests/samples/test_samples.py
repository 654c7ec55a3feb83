"""The promises about samples, against a plain-Python reading of the rules."""

from collections import Counter, defaultdict
from contextlib import ExitStack
from datetime import timedelta
from functools import cache

import plain_law as law
import pytest
from corpora import all_windows, by_record, negative_slots, odd_corpus, samples
from effort import THOROUGH, often, some
from prebuilt import reading

import duckplets as dp
from duckplets.corpus.recipes import compiled_pool
from duckplets.pools.read import PoolReader
from duckplets.samples.columns import known_columns

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()


def of_role(role):
    return lambda w: w.role == role


def anything(*_):
    return True


ROLES = dict(anchor=ANCHOR, positive=CONTEXT, negative=CONTEXT)
THREE = (of_role("anchor"), of_role("context"), of_role("context"))


# A recipe, and what its anchors, positives and negatives are, and which go together.
NORTH = "negative.date > anchor.date and negative.taxonomy[1] = 'north'"
CASES = [
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


def expected_pool(windows, case, negatives=1):
    """Return the anchors with their usable windows, reasons, and what is a legal negative."""
    arguments, is_a, is_p, is_n, legal = case
    pool = defaultdict(list)
    reasons = Counter()
    groups = by_record(windows)

    def takes(selector):
        if selector.role is not None:
            return of_role(selector.role)
        return (lambda c: c.position == selector.position) if selector.position else anything

    of = [arguments[side] for side in ("anchor", "positive", "negative")]
    told = law.Recipe(*map(takes, of), same_selectors=of[0] == of[1])
    records = {w.record: law.Record(w.record, "a", *[None] * 5, True) for w in windows}
    told = law.Law(
        law.Corpus(
            [law.Chunk(w.key, records[w.record], w.position, w.role, w.section, w.text)
             for w in windows]
        ),
        told, "a",
    )  # fmt: skip
    texts_of = {c.key: told.legal(c) for c in told.chunks if told.recipe.anchor(c)}

    def may(a, n):
        taken = n.record != a.record and is_n(n) and legal(a, n)
        return taken and n.text in texts_of[a.key]

    for members in groups.values():
        units = defaultdict(list)
        for w in members:
            if is_a(w):
                units[w.key if arguments.get("per") == "chunk" else w.record].append(w)
        if not units:
            reasons["no anchor"] += 1
        for unit, anchors in units.items():
            found = []
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


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """What opens a corpus of odd records of a size, once."""
    folder = tmp_path_factory.mktemp("odd")
    with ExitStack() as stack:

        @cache
        def opened(count, seed, repeats=0.2):
            path = folder / f"{count} {seed} {repeats}.duckdb"
            return stack.enter_context(odd_corpus(path, count, seed, repeats=repeats))

        yield opened


@pytest.mark.parametrize(
    ("number", "count", "repeats", "negatives"),
    [
        (number, *size)
        for number in range(len(CASES))
        for size in (SIZES if THOROUGH else SIZES[number % 3 : number % 3 + 1])
    ],
)
def test_triplets_follow_the_rules(corpora, number, count, repeats, negatives):
    case = CASES[number]
    for seed in range(often(3, less=1)):
        corpus = corpora(count, seed, repeats)
        windows = [w for w in all_windows(corpus) if w.split == "train"]
        recipe = dp.TripletRecipe(f"r{number}", **case[0])
        pool, reasons, may = expected_pool(windows, case, negatives)
        if not pool:
            with pytest.raises(dp.EmptyPoolError):
                corpus.sampler(recipes=[recipe], negatives=negatives)
            continue
        columns = ["anchor", "positive", "swapped", "anchor_record_id", "positive_record_id"]
        slots = negative_slots(negatives)
        columns += [*slots, *(f"{s}_record_id" for s in slots)]
        sampler = corpus.sampler(
            recipes=[recipe], negatives=negatives, seed=seed, batch_size=7, columns=columns
        )
        assert sampler.epoch_length == len(pool)
        check_epochs(sampler, windows, case, pool, may, slots)
        if negatives == 1:
            corpus.add_recipe(recipe)
            compiled = compiled_pool(corpus, recipe.name, None, "train")
            with PoolReader(corpus.database, [compiled]) as reader:
                counts = reader.count(compiled)
            assert counts.pop(None) == len(pool)
            assert counts == dict(reasons)
            listed = corpus.pool(recipe.name)
            assert listed.num_rows == len(pool)
            assert sorted(k for ks in listed["anchors"].to_pylist() for k in ks) == sorted(
                w.key for ws in pool.values() for w in ws
            )


def check_epochs(sampler, windows, case, pool, may, slots):
    """Draw a few epochs: every sample legal, every anchor once an epoch, rotation complete."""
    per_chunk = case[0].get("per") == "chunk"
    texts = defaultdict(list)
    for w in windows:
        texts[w.record_id, w.text].append(w)
    epochs = 5
    visits = defaultdict(list)
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


# ---- columns


odd = reading(odd_corpus, 40, 3)


def test_every_column_that_there_is_can_be_asked_for(odd):
    for arguments in ({}, {"kind": "labelled_pairs", "negatives": 2}, {"kind": "texts"}):
        known = known_columns(arguments.get("kind", "triplets"), arguments.get("negatives", 1))
        columns = [name for name in known if not name.endswith("_vector")]
        plain = next(odd.sampler(**arguments, batch_size=8))
        batch = next(odd.sampler(**arguments, batch_size=8, columns=columns))
        assert batch.keys() == columns
        assert {len(values) for values in batch.values()} == {8}
        assert plain.to_pydict() == {name: batch[name] for name in plain.keys()}  # noqa: SIM118


def test_a_column_that_there_is_not_is_refused_in_few_words(odd):
    for asked, meant in (
        ("negative", "negative_1"),
        ("negative_score", "negative_1_score"),
        ("ancor", "anchor"),
        ("x" * 500, None),
    ):
        with pytest.raises(dp.SamplerError, match="triplets have no") as refusal:
            odd.sampler(negatives=4, columns=[asked])
        assert len(str(refusal.value)) <= 240
        assert meant is None or f"did you mean {meant!r}?" in str(refusal.value)


@pytest.mark.parametrize("arguments", some([{}, {"kind": "texts"}], less=1), ids=str)
def test_columns_tell_which_chunk_a_text_is(odd, arguments):
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


# ---- selectors, strategies and weights that need more than a table of cases


def train(corpus):
    return [w for w in all_windows(corpus) if w.split == "train"]


def draw(corpus, recipe, epochs=4, **more):
    columns = ["anchor", "positive", "negative", "weight", "swapped"]
    columns += [f"{slot}_record_id" for slot in columns[:3]]
    sampler = corpus.sampler(
        recipes=[recipe],
        batch_size=5,
        columns=columns,
        epochs=epochs,
        **more,
        options=dp.Options(swap=False),
    )
    return list(samples(sampler, epochs * sampler.epoch_length))


def nearest(windows, days, *, other_sources):
    """The record each dated record's near_date selector means, by the words of the rule."""
    records = {w.record_id: w for w in windows if w.role == "context"}
    found = {}
    for record_id, w in {w.record_id: w for w in windows}.items():
        if w.date is None:
            continue
        target = w.date + timedelta(days=days)
        candidates = [
            o
            for o in records.values()
            if o.date is not None
            and o.record_id != record_id
            and (o.source == w.source or (other_sources and o.area == w.area))
        ]
        if candidates:
            best = min(candidates, key=lambda o: (abs(o.date - target), o.record_id))
            found[record_id] = best.record_id
    return found


@pytest.mark.parametrize("days", some([3, 0, 400, -5], less=1))
def test_near_date_takes_the_nearest_other_record(tmp_path, days):
    with odd_corpus(tmp_path / "c.duckdb", 40, 1, sources=2) as corpus:
        recipe = dp.TripletRecipe("near", ANCHOR, dp.near_date(days), CONTEXT)
        expected = nearest(train(corpus), days, other_sources=True)
        rows = draw(corpus, recipe)
        assert rows
        for row in rows:
            assert row["positive_record_id"] == expected[row["anchor_record_id"]]
            assert row["negative_record_id"] != row["anchor_record_id"]
        recipe = dp.TripletRecipe("near", ANCHOR, CONTEXT, dp.near_date(days))
        expected = nearest(train(corpus), days, other_sources=False)
        for row in draw(corpus, recipe):
            assert row["negative_record_id"] == expected[row["anchor_record_id"]]


def test_question_answer_mismatch_never_answers_the_same_question(tmp_path):
    records = [{"q": f"question {i % 12}", "a": f"answer {i}", "id": f"r{i}"} for i in range(100)]
    with dp.Corpus(tmp_path / "qa.duckdb") as corpus:
        corpus.ingest(records, name="qa", anchor="q", positive="a", id="id")
        corpus.split(1, 0, 0)
        recipe = dp.TripletRecipe(
            "qa", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"
        )
        question = {f"answer {i}": f"question {i % 12}" for i in range(100)}
        rows = draw(corpus, recipe)
        assert all(question[row["negative"]] != row["anchor"] for row in rows)
        plain = draw(corpus, dp.TripletRecipe("any", ANCHOR, CONTEXT, CONTEXT))
        assert all(question[row["negative"]] != row["anchor"] for row in plain)


def test_positives_rotate_and_meet_every_anchor_window(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 12, 4, repeats=0.0) as corpus:
        recipe = dp.TripletRecipe("pairs", ANY, CONTEXT, ANY)
        groups = by_record(train(corpus))
        seen = defaultdict(list)
        for row in draw(corpus, recipe, epochs=60):
            seen[row["anchor_record_id"]].append((row["anchor"], row["positive"]))
        for windows in groups.values():
            anchors = {w.text for w in windows}
            positives = {w.text for w in windows if w.role == "context"}
            pairs = {(a, p) for a in anchors for p in positives if a != p}
            drawn = seen[windows[0].record_id]
            assert set(drawn) <= pairs
            if len(pairs) <= 12:
                assert set(drawn) == pairs
            single = [p for a, p in drawn if a == drawn[0][0]]
            count = len(positives - {drawn[0][0]})
            assert len(set(single[:count])) == min(count, len(single))


@pytest.mark.parametrize("negatives", some([2, 1], less=1))
def test_pairs_are_split_triplets(odd, negatives):
    columns = ["anchor", "positive", *negative_slots(negatives)]
    triplets = odd.sampler(negatives=negatives, columns=columns)
    pairs = odd.sampler("labelled_pairs", batch_size=7, negatives=negatives)
    drawn = samples(pairs, 60 * (1 + negatives))
    for triplet in samples(triplets, 60):
        for column in columns[1:]:
            pair, is_positive = next(drawn), column == "positive"
            assert (pair["anchor"], pair["other"]) == (triplet["anchor"], triplet[column])
            told = (1, None) if is_positive else (0, "other_record")
            assert (pair["label"], pair["reason"]) == told
    assert pairs.epoch_length == triplets.epoch_length * (1 + negatives)


def test_weights_of_samples(tmp_path):
    long = " ".join(f"w{i}" for i in range(40))
    records = [
        {"t": f"title {i}", "b": f"{i} {long}", "trust": 0.2 + 0.6 * (i % 2)} for i in range(8)
    ]
    slots = ("anchor", "positive", "negative")
    with dp.Corpus(tmp_path / "w.duckdb") as corpus:
        corpus.ingest(records, name="w", anchor="t", positive="b", trust="trust")
        corpus.split(1, 0, 0)
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(0,), summary_tokens=5, weight_floor=0.1))
        columns = ["recipe", "weight", *(f"{s}_{d}" for s in slots for d in ("trust", "window"))]
        recipes = [
            dp.TripletRecipe("titles", ANCHOR, CONTEXT, CONTEXT, weight=0.5),
            dp.TripletRecipe("windows", CONTEXT, CONTEXT, CONTEXT, weight=2.0),
        ]
        for row in samples(corpus.sampler(recipes=recipes, columns=columns), 400):
            found = []
            for slot in slots:
                window = row[f"{slot}_window"]
                base = 0.35 if window is None else 1 / (window + 1)
                found.append(min(1, max(0.1, row[f"{slot}_trust"] * base)))
            first, second = row["anchor_window"], row["positive_window"]
            if row["recipe"] == "windows" and None not in (first, second) and first != second:
                found[0] /= abs(first - second)
                found[1] /= abs(first - second)
            expected = {"titles": 0.5, "windows": 2.0}[row["recipe"]] * sum(found) / 3
            assert row["weight"] == pytest.approx(expected)
        corpus.chunk(dp.Chunking(max_tokens=10, overlap=(0,), position_weight="start_ratio"))
        recipe = dp.TextRecipe("windows", dp.role("context", where="kind = 'window'"))
        columns = ["weight", "text_window", "text_start_ratio", "text_trust"]
        seen = set()
        for row in samples(corpus.sampler("texts", recipes=[recipe], columns=columns), 200):
            ratio, trust = row["text_start_ratio"], row["text_trust"]
            assert row["weight"] == pytest.approx(max(0.1, trust * (1 - ratio)))
            seen.add((row["text_window"], round(ratio, 2)))
        assert len(seen) == 5
