"""Prefixes of samples: their frequencies, purity, the length of what is served, whose they are.

Prefix and text are no longer than a window: the text gives way.
"""

import itertools
import json
import math
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from corpora import counts_of, odd_corpus
from effort import often, some
from prebuilt import copying, toy_corpus
from tokenizer_files import byte_level, encoder, lossy, word_level

import duckplets as dp
from duckplets.ingest import prefixes as prefix_store
from duckplets.text.prefix import Field, Prefix

NAMES = Prefix.from_columns("source, date, topic")


corpus = copying(toy_corpus, 120, sources=("a", "b"))


def set_source(corpus, prefix, source=1, version=None):
    version = corpus.version if version is None else version
    with corpus.database.transaction():
        prefix_store.set_source(corpus.database, source, version, prefix)


def give(corpus, own):
    """Give records prefixes of their own."""
    keys = corpus.sql("SELECT record_id, record_key FROM live_records").to_pylist()
    by_id = {row["record_id"]: row["record_key"] for row in keys}
    definitions = [json.dumps(prefix.to_dict()) for prefix in own.values()]
    with corpus.database.transaction():
        record_keys = np.array([by_id[name] for name in own])
        prefix_store.append(corpus.database, record_keys, pa.array(definitions))


def bare(text, line):
    """Take a line off a text again."""
    return text if line is None else text.removeprefix(line + "\n")


def agree(found, expected):
    """Whether counts fit probabilities: chi-square below its 99.99 % quantile (Wilson-Hilferty)."""
    assert set(found) <= set(expected), set(found) - set(expected)
    total = found.total()
    assert all(share * total > 5 for share in expected.values())
    square = sum((found[x] - share * total) ** 2 / (share * total) for x, share in expected.items())
    free = len(expected) - 1
    quantile = free * (1 - 2 / (9 * free) + 3.719 * math.sqrt(2 / (9 * free))) ** 3
    return square < quantile


ABC = [Field("a", ["1", "2", "3"], 0.5), Field("b", ["x", "y"], 0.25), Field("c", "only")]
VARIED = Prefix(0.7, [ABC, [Field("d", ["p", "q"], 0.75)]])


@pytest.mark.parametrize("seed", some([3, 20], less=1))
def test_frequencies_agree_with_the_probabilities(corpus, seed):
    set_source(corpus, VARIED)
    slots = ("anchor", "positive", "negative")
    columns = [f"{slot}_prefix" for slot in slots]
    sampler = corpus.sampler(
        batch_size=4096,
        columns=columns,
        seed=seed,
        mixture={"a": 1},
        options=dp.Options(prefetch=0),
    )
    tables = [batch.table for batch in itertools.islice(sampler, often(9, less=2))]
    drawn = [
        (slot, line)
        for slot in slots
        for table in tables
        for line in table[f"{slot}_prefix"].to_pylist()
    ]
    assert len(drawn) == often(9, less=2) * 3 * 4096
    # Of the second variant a quarter is without its only field: those are no prefix at all.
    expected = {None: 0.3 + 0.35 * 0.25, "abc": 0.35, "d": 0.35 * 0.75}
    for slot in slots:
        kinds = Counter(
            "d" if line and " d=" in line else line and "abc" for s, line in drawn if s == slot
        )
        assert agree(kinds, expected)
    lines = [line.removeprefix("meta: ").split(" | ") for _, line in drawn if line is not None]
    first = [
        dict(f.split("=") for f in fields) for fields in lines if not fields[0].startswith("d=")
    ]
    presence = Counter("".join(sorted(fields)) for fields in first)
    assert agree(presence, {"abc": 0.125, "ac": 0.375, "bc": 0.125, "c": 0.375})
    for key, values in {"a": "123", "b": "xy"}.items():
        found = Counter(fields[key] for fields in first if key in fields)
        assert agree(found, dict.fromkeys(values, 1 / len(values)))
    assert agree(Counter(f[0] for f in lines if f[0].startswith("d=")), {"d=p": 0.5, "d=q": 0.5})
    orders = Counter("".join(fields) for fields in first if len(fields) == 3)
    assert agree(orders, {"".join(order): 1 / 6 for order in itertools.permutations("abc")})
    pairs = Counter("".join(fields) for fields in first if set(fields) == {"a", "c"})
    assert agree(pairs, {"ac": 0.5, "ca": 0.5})


SHOWN = often(30, less=9)  # batches
RUNS = [
    {},
    {"kind": "labelled_pairs", "batch_size": 9},
    {"kind": "texts", "batch_size": 31},
    {"batch_size": 13, "no_duplicates": True},
    {"batch_size": 5, "negatives": 3},
]


@pytest.mark.parametrize("run", some(RUNS, less=2), ids=str)
def test_a_prefix_changes_nothing_else(corpus, run):
    kind = run.get("kind", "triplets")
    slots = {"pairs": ["anchor", "other"], "texts": ["text"]}.get(kind, ["anchor", "positive"])
    ids = [*slots, *(f"{s}_{d}" for s in slots for d in ("prefix", "record_id", "tokens"))]
    before = [b.table for b in itertools.islice(corpus.sampler(**run, columns=ids), SHOWN)]
    set_source(corpus, NAMES)
    after = [b.table for b in itertools.islice(corpus.sampler(**run, columns=ids), SHOWN)]
    several = 0
    for one, other in zip(before, after, strict=True):
        for slot in slots:
            for detail in ("record_id", "tokens"):
                assert one[f"{slot}_{detail}"].equals(other[f"{slot}_{detail}"])
            lines = other[f"{slot}_prefix"].to_pylist()
            texts = other[slot].to_pylist()
            several += sum(line is not None for line in lines)
            assert [bare(t, n) for t, n in zip(texts, lines, strict=True)] == one[slot].to_pylist()
            assert all(t.startswith(n + "\n") for t, n in zip(texts, lines, strict=True) if n)
    assert several > 20
    off = corpus.sampler(**run, columns=ids)
    assert counts_of(off) == counts_of(corpus.sampler(**run))


def test_a_records_own_prefix_beats_that_of_its_source(corpus):
    set_source(corpus, Prefix(1.0, [[Field("of", "source")]]))
    give(
        corpus,
        {f"{s}/r{i}": Prefix(1.0, [[Field("own", f"{s}{i}")]]) for s in "ab" for i in range(50)},
    )
    sampler = corpus.sampler("texts", columns=["text_record_id", "text_prefix", "text"])
    met = Counter[str]()
    for batch in itertools.islice(sampler, 20):
        for row in batch.to_pylist():
            source, number = row["text_record_id"].split("/r")
            if int(number) < 50:
                expected = f"meta: own={source}{number}"
            else:
                expected = "meta: of=source" if source == "a" else None
            assert row["text_prefix"] == expected
            assert row["text"].startswith(f"{expected}\n" if expected else "")
            met[str(expected)[:9]] += 1
    assert min(met.values()) > 100


def test_a_damaged_definition_of_a_record_is_reported(corpus):
    give(corpus, {"a/r0": VARIED})
    for damage in ('{"probability": 1, "variants": []}', '{"variants": [[]]}'):
        corpus.database.rows("UPDATE record_prefixes SET definition = $new", {"new": damage})
        with pytest.raises(
            dp.errors.DamagedFileError, match="table record_prefixes: a definition is da"
        ):
            list(itertools.islice(corpus.sampler("texts"), 20))


def test_columns_are_those_of_the_record(tmp_path):
    names = ("id", "text", "day", "fam", "lang", "tags")
    rows = [
        (1, "one", "2024-05-07", " x  y ", "en", ["p", "q"]),
        (2, "two", None, None, " ", []),
        (3, "three", "1999-12-31", "z", "a\nb", ["q"]),
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.sources.MemorySource(
            [dict(zip(names, row, strict=True)) for row in rows],
            text="text", id="id", date="day", group="fam", taxonomy="tags", meta=["lang"],
        )  # fmt: skip
        corpus.ingest(source, name="s", trust=0.25)
        corpus.split(train=1.0, validation=0.0, test=0.0)
        declared_names = "source, date, group, taxonomy, trust, lang, none"
        set_source(corpus, Prefix.from_columns(declared_names, 1.0))
        columns = ["text", "text_prefix", "text_prefix_meta"]
        recipes = [dp.TextRecipe("all", dp.any_section())]
        found = next(corpus.sampler("texts", columns=columns, recipes=recipes, batch_size=3000))
    shown = {}
    declared = {}
    for row in found.to_pylist():
        line, text = row["text"].split("\n")
        assert line == row["text_prefix"]
        shown.setdefault(text, set()).update(line.removeprefix("meta: ").split(" | "))
        declared[text] = dict(row["text_prefix_meta"])
    assert declared["one"] == {
        "source": ["s"],
        "date": ["2024-05-07", "May. 7, 2024", "May 7, 2024", "07.05.2024", "05/07/2024"],
        "group": ["x y"],
        "taxonomy": ["p", "q"],
        "trust": ["0.25"],
        "lang": ["en"],
    }
    assert declared["two"] == {"source": ["s"], "trust": ["0.25"]}
    assert declared["three"]["date"][1] == "Dec. 31, 1999"
    assert declared["three"]["lang"] == ["a b"]
    for text, values in shown.items():
        assert values == {f"{k}={v}" for k, every in declared[text].items() for v in every}


def test_prefixes_can_be_turned_off(corpus):
    before = corpus.sampler(options=dp.Options(prefixes=False))
    bare = [b.table for b in itertools.islice(before, 5)]
    assert "prefixes" not in before.state_dict()["fingerprint"]
    set_source(corpus, NAMES)
    on, off = corpus.sampler(), corpus.sampler(options=dp.Options(prefixes=False))
    assert [b.table for b in itertools.islice(off, 5)] == bare
    assert [b.table for b in itertools.islice(on, 5)] != bare
    off.load_state_dict(before.state_dict())
    with pytest.raises(dp.StateMismatchError, match="prefixes"):
        on.load_state_dict(before.state_dict())
    on.load_state_dict(before.state_dict() | {"fingerprint": on.state_dict()["fingerprint"]})


def test_no_duplicates_looks_at_the_bare_text(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 200, 1, repeats=0.05) as corpus:
        set_source(corpus, Prefix(0.9, [[Field("n", [str(i) for i in range(99)])]]))
        slots = ("anchor", "positive", "negative")
        columns = [*slots, *(f"{slot}_prefix" for slot in slots)]
        recipe = dp.TripletRecipe("r", dp.role("anchor"), dp.role("context"), dp.role("anchor"))
        sampler = corpus.sampler(
            no_duplicates=True, batch_size=16, columns=columns, recipes=[recipe]
        )
        for batch in itertools.islice(sampler, often(40, less=10)):
            texts = [
                {bare(row[slot], row[f"{slot}_prefix"]) for slot in slots}
                for row in batch.to_pylist()
            ]
            assert len(set().union(*texts)) == sum(map(len, texts))


# ---- what fits

LONG = Prefix(
    0.8,
    [
        [Field("key", ["one two three", "four", "five six"], 0.7), Field("naïve", "the fox!")],
        [Field("w", [" ".join(["word"] * n) for n in (1, 7, 8, 9, 15)])],
    ],
)
WORDS = ["the", "fox", "café", "ab", "b!", "quick brown", "!", "ñé😀", "over", "abab"]


def worded(path):
    draw = random.Random(1)
    spaces = [" ", "  ", "\n", "\t", " \u3000"]
    texts = [
        "".join(draw.choice(WORDS) + draw.choice(spaces) for _ in range(draw.randint(1, 60)))
        for _ in range(60)
    ]
    corpus = dp.Corpus(path)
    rows = [{"id": i, "text": f"{text}{i}"} for i, text in enumerate(texts)]
    corpus.ingest(rows, name="s", text="text", id="id")
    corpus.split(train=1.0, validation=0.0, test=0.0)
    return corpus


words = copying(worded)


def served(corpus, prefix):
    set_source(corpus, prefix)
    recipes = [dp.TextRecipe("all", dp.any_section(), per="chunk")]
    columns = ["text", "text_prefix", "text_tokens"]
    sampler = corpus.sampler("texts", recipes=recipes, batch_size=1600, columns=columns)
    return next(sampler).to_pylist()


@pytest.mark.parametrize("most", some([8, 2, 9, 20, 60, 1], less=2))
def test_prefix_and_text_are_no_longer_than_a_window(words, most):
    words.chunk(dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0))
    cut = alone = 0
    for plain, row in zip(served(words, None), served(words, LONG), strict=True):
        line, text = row["text_prefix"], plain["text"]
        assert row["text_tokens"] == len(text.split())
        if line is None:
            assert row["text"] == text
            continue
        # Exactly as many words as fit, and not a character changed up to there.
        whole = f"{line}\n{text}"
        assert row["text"].split() == whole.split()[:most]
        assert whole.startswith(row["text"])
        if len(line.split()) >= most:
            assert row["text"] == line
            alone += 1
        cut += row["text"] != whole
    assert cut > 40 or most == 60
    assert alone > 40 or most >= 20


@pytest.mark.parametrize(
    ("make", "most"), some(itertools.product([word_level, lossy, byte_level], [3, 12, 40]), less=2)
)
def test_with_a_tokenizer_file_too(words, tmp_path, make, most):
    path = make(tmp_path / "tokenizer.json")
    words.chunk(dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0, tokenizer=str(path)))
    encode = encoder(path).encode
    longest = 0
    for row in served(words, LONG):
        if row["text_prefix"] is not None:
            assert row["text"].startswith(row["text_prefix"])
            longest = max(longest, len(encode(row["text"], add_special_tokens=False).ids))
    assert most * 3 // 4 <= longest <= most
