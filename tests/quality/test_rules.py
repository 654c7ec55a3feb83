"""Every rule at its limit: one text that just keeps it, and one that just does not."""

import re
from functools import cache
from itertools import product

import pyarrow as pa
import pytest

import duckplets as dp
from duckplets.db.database import Database
from duckplets.quality.decide import decide, needed
from duckplets.quality.measure import measure, measured
from duckplets.quality.metrics import METRICS
from duckplets.quality.settings import PII, RULES, SETTINGS, Quality

THRESHOLDS = [r for r in RULES if r.startswith(("min_", "max_")) or r == "code_score"]

OFF = dict.fromkeys(THRESHOLDS) | {
    "pii": None,
    "copyright": (),
    "language": None,
    "lorem_ipsum": True,
    "curly_brackets": True,
}


def words(count, size=5, start=0):
    letters = product("bcdfghjklmnpqrstvwxz", repeat=3)
    found = ["".join(each) for each in letters][start : start + count]
    return " ".join((each + "u" * size)[:size] for each in found)


def padded(text, size):
    """Return a text of so many characters, the last ones one word."""
    return f"{text} {'y' * (size - len(text) - 1)}"


def twice(n):
    """Return n tokens of 20 - n characters, a word, and the same tokens again."""
    extra = 20 - 2 * n
    sizes = [1 + extra // n + (i < extra % n) for i in range(n)]
    gram = " ".join(chr(ord("a") + i) * size for i, size in enumerate(sizes))
    return f"{gram} q {gram}"


def lines(*counted, joint="\n"):
    found = []
    for count, line in counted:
        found += [line.replace("@", words(1, start=len(found) + i)) for i in range(count)]
    return joint.join(found)


PRIVACY = "max_pii_density"
LONG, SHORT = "x" * 31, "@" + "x" * 25
GRAMS = [(2, "ab cd", 4, 100), (3, "ab cd ef", 9, 400), (4, "ab cd ef gh", 4, 275)]
PARTS = "p" * 100


def cases():
    """Yield a rule, the value of its setting (None for that of its preset), and both texts."""
    yield "min_characters", 20, "x" * 20, "x" * 19
    yield "max_characters", 20, "é" * 20, "é" * 21
    yield "min_words", None, words(50) + " , . !", words(49) + " , . !"
    yield "max_words", 60, words(60) + " , .", words(61)
    yield "min_word_length", None, words(60, 3), words(60, 3) + " of"
    yield "max_word_length", None, words(60, 10), words(60, 10) + " " + "z" * 11
    yield "max_hashes", None, words(90) + " #" * 10, words(89) + " #" * 11
    yield "max_ellipses", None, words(90) + " ..." * 10, words(89) + " …" * 11
    yield "max_bullet_lines", None, lines((9, "- @"), (1, "@")), lines((9, "• @"), (1, "  -@"))
    yield "max_ellipsis_lines", None, lines((3, "@..."), (7, "@")), lines((4, "@… "), (6, "@"))
    yield "min_alphabetic_words", None, words(80) + " 1" * 20, words(79) + " 1" * 21
    yield "min_stop_words", None, "the cat of the", "the The OF the"
    blank = "\n\n"
    yield (
        "max_duplicate_paragraphs",
        None,
        lines((6, "@"), (4, "x"), joint=blank),
        lines((5, "@"), (5, "x"), joint="\n\n\n"),
    )
    yield "max_duplicate_lines", None, lines((6, "@"), (4, "x")), lines((5, "@"), (5, "x"))
    both = {"paragraph": blank, "line": "\n"}
    for name, joint in both.items():
        text = f"{PARTS}{joint}{PARTS}{joint}q"
        limits = padded(text, 500), padded(text, 499)
        yield f"max_duplicate_{name}_characters", None, *limits
    for n, gram, times, size in GRAMS:
        text = " ".join(f"{gram} {words(1, 3, i)}" for i in range(times))
        yield f"max_top_{n}gram", None, padded(text, size), padded(text, size - 1)
    for n in range(5, 11):
        yield f"max_duplicate_{n}grams", None, padded(twice(n), 100), padded(twice(n), 99)
    yield "min_sentences", None, lines((5, "One two @.")), lines((4, "One two @."), (1, "No @."))
    yield "lorem_ipsum", False, "Lorem ipsa, she said.", "LOREM IPSUM, she said."
    yield "curly_brackets", False, "Now ( it ends.", "Now { it ends."
    yield "min_punctuated_lines", None, lines((3, "@."), (22, "@")), lines((2, "@."), (23, "@"))
    yield "max_short_lines", None, lines((67, SHORT), (33, LONG)), lines((68, SHORT), (32, LONG))
    text = f"{'s' * 5}\n{'s' * 5}\nq"
    limits = padded(text, 502), padded(text, 501)
    yield "max_duplicate_filled_characters", None, *limits
    yield "max_newlines", None, "a b c d e f g\nh\ni\nj", "a b c d e f\ng\nh\ni\nj"
    mail = "ann@example.com "
    yield "max_pii_density", 0.01, mail + words(99), mail + words(98)
    yield "copyright", ("all rights",), "All right", "ALL RIGHTS"
    yield "min_domain_terms", 3, "heart lung pain", "heart lung"
    yield "min_domain_density", 0.05, "heart " + words(19), "heart " + words(20)
    yield "min_domain_categories", 2, "heart pain", "heart lung"
    code = "    a\n    b\nc\nd"
    yield "code_score", 0.225, code, code + "\ne"
    yield "code_score", 0.15, "    a\n    b\n    c", "    a\n    b"


CASES = list(cases())


def only(rule, value):
    """Return settings in which one rule is on."""
    if value is None:
        (value,) = SETTINGS[rule]["presets"].values()
    pii = {"pii": "reject"} if rule == "max_pii_density" else {}
    return Quality(**{**OFF, rule: value, **pii})


@cache
def measured_cases():
    texts = [text for *_, inside, outside in CASES for text in (inside, outside)]
    table = pa.table({"row": pa.array(range(len(texts))), "text": texts})
    return measure(Database.reader(), table, Quality(language=None, copyright=("all rights",)))


@pytest.mark.parametrize("at", range(len(CASES)), ids=[case[0] for case in CASES])
def test_a_rule_at_its_limit(at):
    """It decides by the metrics that ``needed`` names, and by no other."""
    rule, value, *_ = CASES[at]
    quality, table = only(rule, value), measured_cases().slice(2 * at, 2)
    found = decide(Database.reader(), table, quality)
    assert found["rule"].to_pylist() == [None, rule]
    assert found["outcome"].to_pylist() == ["accepted", "rejected"]
    if rule in RULES:
        more = {*PII.values()} if rule == PRIVACY else set()
        assert needed(quality) == {*RULES[rule], "sha256"} | more
        kept = table.select(["row", *needed(quality)])
        assert decide(Database.reader(), kept, quality)["rule"].to_pylist() == [None, rule]


def test_every_rule_of_the_presets_has_its_case():
    presets = {"gopher", "c4", "fineweb"}
    rules = {rule for rule, facts in SETTINGS.items() if presets & {*facts["presets"]}}
    assert rules <= {case[0] for case in CASES}
    # Those that are no thresholds of text alone have tests of their own.
    assert set(THRESHOLDS) - {case[0] for case in CASES} == {
        "max_profanity_density",
        "min_language_probability",
    }


def row(**values):
    columns = {"row": pa.array([7])}
    columns |= {name: pa.array([v], METRICS.field(name).type) for name, v in values.items()}
    return pa.table(columns)


BAD = {
    "present": [],
    "characters": 5,
    "words": 1,
    "emails": 1,
    "copyright": 1,
    "language": "de",
    "language_probability": 1.0,
}


def test_the_first_gate_that_fails_is_the_reason():
    """Undone one after the other, from the first gate to the last."""
    undone = [
        ("schema", "required", {"present": ["title"]}),
        ("schema", "min_characters", {"characters": 50}),
        ("content", "max_pii_density", {"words": 100}),
        ("content", "copyright", {"copyright": 0}),
        ("language_domain", "language", {"language": "en", "language_probability": 0.8999}),
        ("language_domain", "min_language_probability", {"language_probability": 0.9}),
    ]
    quality, database, values = Quality(required=("title",)), Database.reader(), dict(BAD)
    for gate, rule, change in undone:
        (reason,) = decide(database, row(**values), quality).to_pylist()
        assert (reason["gate"], reason["rule"]) == (gate, rule)
        values |= change
    (reason,) = decide(database, row(**values), quality).to_pylist()
    assert reason == {"row": 7, "outcome": "accepted", "gate": None, "rule": None}


LICENSES = {"licenses": ("MIT", "apache-2.0")}
PRIVATE = {"words": 2, "emails": 1}
CHOICES = [
    ({"license": "mit"}, LICENSES, None),
    ({"license": " MIT "}, LICENSES, None),
    ({"license": "gpl"}, LICENSES, "licenses"),
    ({"license": ""}, LICENSES, "licenses"),
    ({"license": None}, LICENSES, "licenses"),
    ({"language": "undetermined"}, {"undetermined": "accept"}, None),
    ({"language": "undetermined"}, {"undetermined": "reject"}, "undetermined"),
    (PRIVATE, {}, "max_pii_density"),
    (PRIVATE, {"pii_kinds": ("phone", "card")}, None),
    (PRIVATE, {"pii": "redact"}, None),
    (PRIVATE, {"pii": None}, None),
    (PRIVATE, {"max_pii_density": 0.5}, None),
]


def test_choices_that_are_no_limits():
    database = Database.reader()
    for values, settings, rule in CHOICES:
        found = decide(database, row(characters=100, **values), Quality(**settings))
        assert found["rule"].to_pylist() == [rule], (values, settings)


FIELDS = {"anchor": ["title", "note"], "context": "body", "id": "key", "date": "day"}
KEPT = [
    ({}, ("title", "body", "id", "date"), None, ["2"]),
    ({}, ("body",), None, []),
    ({"meta": ["note", "License"]}, ("note",), ("MIT",), ["1", "2", "3"]),
    ({"meta": ["note"]}, ("note",), None, ["1"]),
    ({}, ("note",), None, "'note' for required=: give meta=['note']"),
    ({}, ("day",), None, "it stores title, body, id, date"),
    ({}, (), ("mit",), "'license' for licenses=: give meta=['license']"),
    (None, ("title", "body"), None, []),
    (None, ("author",), None, "'author' for required=: omit required="),
]


@pytest.mark.parametrize("at", range(len(KEPT)))
@pytest.mark.parametrize("later", [False, True])
def test_fields_that_records_keep_may_be_required(tmp_path, at, later):
    """By an ingest as by a judgement of what is stored; others are refused."""
    more, required, licenses, expected = KEPT[at]
    rows = [
        {"key": "1", "title": "A", "note": " ", "body": "a" * 60, "License": "mit"},
        {"key": "2", "title": "", "note": "n", "body": "b" * 60, "License": "gpl"},
        {"key": "3", "title": "C", "note": "n", "body": "c" * 60},
    ]
    (tmp_path / "x.txt").write_text("# Title\n\n" + "x" * 60)
    if more is None:
        source = dp.TextFileSource(tmp_path)
    else:
        rows = [row | {"day": "2024-01-01"} for row in rows]
        source = dp.sources.MemorySource(rows, **FIELDS, **more)
    quality = Quality(required=required, licenses=licenses, language=None)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:

        def gated():
            corpus.ingest(source, name="s", quality=None if later else quality, limit=9)
            if later:
                corpus.quality(apply=quality)

        if isinstance(expected, str):
            with pytest.raises(dp.errors.QualityError, match=re.escape(expected)) as refused:
                gated()
            assert len(str(refused.value)) <= 240
            return
        gated()
        found = corpus.sql("SELECT record_id, gate FROM judgements WHERE outcome = 'rejected'")
    assert {row["record_id"] for row in found.to_pylist()} == {f"s/{key}" for key in expected}


def test_fields_that_are_there_are_metrics(tmp_path):
    class Feed:
        name = "feed"

        def batches(self, cursor):
            meta = {"title": "x", "note": " ", "LICENSE": "mit"}
            yield [{"text": "a" * 60, "meta": meta, "group": "g"}], None
            yield [{"anchor": "b" * 60, "positive": "c", "date": "2024-01-01"}], None

    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        quality = Quality(required=("title",), language=None)
        corpus.ingest(Feed(), quality=quality)
        found = corpus.sql(
            "SELECT metrics.present AS there, metrics.license, rule FROM judgements ORDER BY row"
        )
    there = ["LICENSE", "group_key", "id", "text", "title"]
    assert found.to_pylist() == [
        {"there": there, "license": "mit", "rule": None},
        {"there": ["anchor", "date", "id", "positive"], "license": None, "rule": "required"},
    ]


def test_keys_tell_which_stored_metrics_other_settings_can_use():
    before = measured(Quality())
    after = measured(Quality(min_characters=3, copyright=("mine",), language_prefix=200))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"copyright", "language", "language_probability"}
    assert "language" not in measured(Quality(language=None))
    assert needed(Quality()) <= set(before)


def test_the_report_takes_less_for_code_than_we_do():
    header = "# Copyright\n# by\n# somebody\n" + "# and more of it\n" * 20
    text = header + "def f(x):\n    y = [x]\n    return {y: 1}\n\n" * 9
    table = pa.table({"row": [1], "text": [text]})
    database = Database.reader()
    found = measure(database, table, Quality(preset="code"))
    assert decide(database, found, Quality(preset="code"))["rule"].to_pylist() == [None]
    assert decide(database, found, Quality(preset="report"))["rule"].to_pylist() == [
        "code_early_gate"
    ]
