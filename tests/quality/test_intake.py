"""Intake through gates: where every planted row ends, what goes on where, and what is left."""

import json
import random
from collections import Counter

import pytest
from effort import often, some
from gated_rows import GOOD, LONG, check, contents, ends, take, texts, written
from gated_sources import Pages
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.quality import plugins
from duckplets.quality.settings import Quality

NO_GATES = {"min_sentences": None, "lorem_ipsum": True, "curly_brackets": True}
CARD = "the number 4111 1111 1111 1111 was on it"

# Rows with how they end: text, more columns, outcome, reason.
PLANTED = [
    (GOOD.format(0), {}, "accepted", ""),
    ("short", {}, "rejected", "schema: min_characters"),
    ("x" * 50, {}, "accepted", ""),
    ("x" * 49, {}, "rejected", "schema: min_characters"),
    (GOOD.format(0), {}, "rejected", "duplicates: same text"),
    ("", {}, "unreadable", "unreadable: no text"),
    (None, {}, "unreadable", "unreadable: no text"),
    (LONG + "bob@example.org", {}, "rejected", "content: max_pii_density"),
    (LONG + "call 212-555-0123 now", {}, "rejected", "content: max_pii_density"),
    (LONG + "his is 123-45-6789", {}, "rejected", "content: max_pii_density"),
    (LONG + "from 81.2.69.142 again", {}, "rejected", "content: max_pii_density"),
    (LONG + CARD, {}, "rejected", "content: max_pii_density"),
    (LONG * 9 + "bob@example.org", {}, "accepted", ""),
    (LONG + "at 192.168.1.1 inside", {}, "accepted", ""),
    (LONG + "Copyright by nobody", {}, "rejected", "content: copyright"),
    (LONG + "© 2020", {}, "rejected", "content: copyright"),
    (LONG + "All Rights Reserved", {}, "rejected", "content: copyright"),
    (GOOD.format(1), {"drop": "1"}, "filtered", "where: not met"),
    ("short one", {"drop": "1"}, "filtered", "where: not met"),
    (GOOD.format(1), {}, "accepted", ""),  # what was filtered does not hold its text
]


@pytest.fixture
def corpus(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened


MAPPINGS = [
    {"anchor": "q", "positive": "a", "null_values": "N/A"},
    {"anchor": "q", "context": "a"},
    {"text": "a"},
    {"text": "a", "null_values": ("N/A", "nan")},
    {"anchor": "q", "positive": "a", "date": "d", "on_bad_date": "fail"},
]


def test_rows_are_judged_and_counted_with_gates_as_without(tmp_path):
    values = [None, "", " \t", "N/A", "nan", "text"]
    rows = [
        {"id": f"{i}{j}", "q": q, "a": a, "d": "2024-01-01" if i else "some day"}
        for i, q in enumerate(values)
        for j, a in enumerate(values)
    ]
    rows += [{"id": None, "q": "q", "a": "a", "d": None}, {"id": "n", "q": 7, "a": 8, "d": None}]
    written(tmp_path / "rows.jsonl", rows)
    no_gates = Quality("c4", duplicates=False, **NO_GATES)
    with (
        empty_corpus(tmp_path / "plain.duckdb") as plain,
        empty_corpus(tmp_path / "gated.duckdb") as gated,
    ):
        for number, mapping in enumerate(some(MAPPINGS, less=3)):
            source = dp.sources.JsonSource(tmp_path / "rows.jsonl", id="id", **mapping)
            given = {"name": f"s{number}", "progress": False}
            one = plain.ingest(source, **given)
            other = gated.ingest(source, quality=no_gates, **given)
            for name in ("read", "added", "skipped", "failed", "reasons"):
                assert getattr(one, name) == getattr(other, name), mapping
            ended = gated.sql("FROM acquisitions ORDER BY acquisition_id").to_pylist()[-1]
            assert (ended["unreadable"], ended["filtered"]) == (other.failed, other.skipped)
            assert one.read == len(rows)
            reasons = ("no text", "not text: number", "unreadable date")
            assert one.failed == sum(one.reasons.get(reason, 0) for reason in reasons)
            assert one.added
            assert one.failed if "text" in mapping else one.skipped


def test_every_planted_row_ends_where_it_should(corpus, tmp_path):
    path = tmp_path / "planted.jsonl"
    written(path, [{"text": text, **more} for text, more, _, _ in PLANTED])
    with path.open("ab") as file:
        file.write(b'{bad\n[1]\n{"text": "\xff\xfe", "id": "z"}\n')
    written(path, [GOOD.format(0)], mode="a")
    source = dp.sources.JsonSource(path, text="text", id="id", meta=["drop"])
    report = take(corpus, source, where="coalesce(meta['drop'], '') <> '1'")
    found = ends(corpus)
    expected = [(outcome, reason) for _, _, outcome, reason in PLANTED]
    expected += [
        ("unreadable", f"unreadable: {r}")
        for r in ("invalid JSON", "not an object", "invalid UTF-8")
    ]
    expected += [("rejected", "duplicates: same id")]
    assert [(o, "" if o == "accepted" else reason) for _, _, o, reason in found] == expected
    ended = Counter(outcome for outcome, _ in expected)
    assert (report.read, report.added) == (len(expected), ended["accepted"])
    assert report.skipped == ended["filtered"] + ended["rejected"]
    assert report.failed == ended["unreadable"] == 5
    assert report.read == report.added + report.skipped + report.failed
    reasons = Counter(reason for outcome, reason in expected if outcome in ("rejected", "filtered"))
    assert {reason: report.reasons[reason] for reason in reasons} == reasons
    assert len(texts(corpus)) == report.added
    check(corpus)
    rows = corpus.sql(
        "SELECT outcome, metrics.characters AS c, length(text) AS n FROM judgements "
        "LEFT JOIN rejected_texts USING (source, row)"
    ).to_pylist()
    assert all((row["c"] is None) == (row["outcome"] == "unreadable") for row in rows)
    assert sum(row["n"] is not None for row in rows) == ended["rejected"]
    assert corpus.quality("s/1")[0]["rule"] == "min_characters"
    assert corpus.quality("s:2")[0]["text"] == "short"
    with pytest.raises(dp.errors.QualityError, match="no row 's/99'"):
        corpus.quality("s/99")


ENGLISH = (
    "the river runs slowly through the green valley and people walk along it every morning because "
    "they like to see how the light falls upon the old stone bridge near the village, number "
)
OK, PROFANE = ("accepted", None), ("rejected", "max_profanity_density")
SAME, LANGUAGE = ("rejected", "same text"), ("rejected", "language")
DIRTY = [
    ({"text": ENGLISH + "one"}, OK),
    ({"text": ENGLISH + "one", "title": "another"}, SAME),
    ({"text": (ENGLISH + "one").replace(" ", "  \u00a0")}, SAME),  # after cleaning
    ({"text": ENGLISH + "cafe\u0301"}, OK),
    ({"text": ENGLISH + "café"}, SAME),
    ({"text": ENGLISH + "two", "title": " "}, ("rejected", "required")),
    ({"text": ENGLISH + "two", "license": None}, ("rejected", "licenses")),
    ({"text": ENGLISH + "two", "license": "proprietary"}, ("rejected", "licenses")),
    ({"text": ENGLISH + "two", "license": " CC-BY "}, OK),  # what was rejected held nothing
    ({"text": 17}, ("unreadable", "not text: number")),
    ({"text": {"a": "b"}}, ("unreadable", "not text: map")),
    *(({"text": ENGLISH + w}, PROFANE) for w in ("damn", "DAMN's", "(damn)!", "son of a gun")),
    *(({"text": ENGLISH + word}, OK) for word in ("damnation", "goddamned", "amn")),
    ({"text": ENGLISH * 4 + "damn"}, OK),  # less than one of a hundred words
    ({"text": ENGLISH + "zzz"}, ("rejected", "NOT contains(text, 'zzz')")),
    ({"text": ENGLISH + "SHOUT"}, ("rejected", "quiet")),
    ({"text": "damn"}, ("rejected", "min_characters")),  # of two faults the first gate is told
    ({"text": "Der Fluss fließt langsam durch das grüne Tal, und die Leute gehen"}, LANGUAGE),
    ({"text": "Река медленно течёт по зелёной долине, и люди гуляют вдоль неё"}, LANGUAGE),
    ({"text": "河水缓缓流过绿色的山谷，" * 5}, LANGUAGE),
    ({"text": "1234 5678 90 :: 12 / 77 -- 90 41 :: 66 / 13 -- 35 71 82 93 40"}, OK),  # of none
    ({"text": ENGLISH + "a\0b \x07 \u2028 \x1b"}, OK),
    ({"text": "x" + ENGLISH * 400}, OK),
    (b'{"text": "' + b"\\ud800 x" * 20 + b'"}', ("unreadable", "invalid JSON")),
    (json.dumps({"title": "t", "license": "mit", "text": ENGLISH + "cr"}).encode() + b"\r", OK),
    (b'{"text": "The last line is cut o', ("unreadable", "invalid JSON")),
]


def test_dirt_of_every_kind_ends_where_it_should(corpus, tmp_path):
    pytest.importorskip("py3langid")
    (tmp_path / "words.txt").write_text("# mild\ndamn\nson of a gun\n", encoding="utf-8")
    dp.plugins.register_gate("quiet", lambda texts: ["SHOUT" not in text for text in texts])
    quality = Quality(
        required=("title",),
        licenses=("mit", "cc-by"),
        profanity=tmp_path / "words.txt",
        gates=("NOT contains(text, 'zzz')", "quiet"),
    )
    common = {"title": "a title", "license": "MIT"}
    lines = [
        row if isinstance(row, bytes) else json.dumps(common | row).encode() for row, _ in DIRTY
    ]
    (tmp_path / "dirty.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    source = dp.sources.JsonSource(tmp_path / "dirty.jsonl", text="text", meta=["title", "license"])
    corpus.chunk(normalise=True)
    report = take(corpus, source, quality=quality)
    plugins.GATES.clear()
    rows = corpus.sql("SELECT outcome, rule FROM judgements ORDER BY row").to_pylist()
    assert [tuple(row.values()) for row in rows] == [end for _, end in DIRTY]
    assert report.added == sum(end == OK for _, end in DIRTY)
    counted = {(r["outcome"], r["rule"]): r["rows"] for r in corpus.quality().to_pylist()}
    assert counted == Counter(end for _, end in DIRTY)
    check(corpus)


@pytest.mark.parametrize("gate", some([{}, {"quality": None, "where": "true"}], less=1))
def test_the_same_command_reads_only_what_was_appended(corpus, tmp_path, gate):
    path = tmp_path / "a.jsonl"
    source = written(path, [GOOD.format(i) for i in range(5)])
    assert take(corpus, source, **gate).added == 5
    before = contents(corpus)
    assert take(corpus, source, **gate).read == 0
    assert contents(corpus) == before
    written(path, [GOOD.format(i) for i in range(5, 8)], 5, "a")
    report = take(corpus, source, **gate)
    assert (report.read, report.added) == (3, 3)
    check(corpus)
    written(path, [GOOD.format(i) for i in range(1, 12)])
    with pytest.raises(dp.SourceError, match="its first 8 rows, read before, have changed"):
        take(corpus, source, **gate)
    written(path, ["another"])
    with pytest.raises(dp.SourceError, match="read before, have changed"):
        take(corpus, source, **gate)
    assert len(texts(corpus)) == 8
    if not gate:
        with pytest.raises(
            dp.SourceError, match=r"another quality \(copyright\): quality\(apply=...\) applies"
        ):
            take(corpus, source, quality=Quality(language=None, copyright=()))
    corpus.remove("s")
    assert take(corpus, written(path, [GOOD.format(1)]), **gate).added == 1
    assert len(ends(corpus)) == 1


def source_of(kind, path, rows):
    if kind == "file":
        return written(path, rows)
    if kind == "memory":
        return dp.sources.MemorySource(rows, text="text", id="id")
    return Pages("pages", rows)


@pytest.mark.parametrize("kind", some(["pages", "file", "memory"], less=1))
def test_a_cap_is_passed_by_one_record_at_most_and_a_larger_one_goes_on(tmp_path, kind):
    draw = random.Random(kind)

    def text(i):
        return draw.choice(["short", "ü" * draw.randrange(50, 400), GOOD.format(i % 9)])

    rows = [{"id": str(i), "text": text(i)} for i in range(40)]
    source = source_of(kind, tmp_path / "a.jsonl", rows)
    with empty_corpus(tmp_path / "whole.duckdb") as whole:
        take(whole, source)
        every, told = texts(whole), ends(whole)
    sizes = [len(text.encode()) for text in every]
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        assert take(corpus, source, size_mb=0).read == 0
        assert corpus.version == 0
        assert corpus.sources().num_rows == 0
        for cap in sorted(draw.randrange(1, sum(sizes)) for _ in range(often(5, less=1))):
            take(corpus, source, size_mb=cap / 1e6)
            found = texts(corpus)
            size = sum(sizes[: len(found)])
            assert found == every[: len(found)]
            assert size - sizes[len(found) - 1] < cap <= size
            before = contents(corpus)
            assert take(corpus, source, size_mb=cap / 1e6).read == 0
            assert contents(corpus) == before
        limit = min(len(every), len(texts(corpus)) + 2)
        take(corpus, source, limit=limit)
        assert texts(corpus) == every[:limit]
        assert ends(corpus)[-1][2] == "accepted"  # nothing after it was read
        take(corpus, source, size_mb=1)
        assert texts(corpus) == every
        assert ends(corpus) == told
        check(corpus)


WRONG = [
    ({"where": "role = 'x'"}, "role is no column of a row; the columns are record_id, source"),
    ({"where": "trust >"}, "not a condition"),
    ({"where": "read_text('x') = ''"}, "read_text"),
    ({"where": 5}, "give a condition in SQL"),
    ({"size_mb": -1}, "size_mb=-1: give a number of 10^6 bytes"),
    ({"limit": 1.5}, "limit=1.5: give a whole number"),
    ({"quality": "generel"}, "general"),
    ({"on_conflict": "replace"}, "do not go with on_conflict='replace'"),
    ({"remap": True}, "do not go with on_conflict='replace' or remap=True"),
]


def test_wrong_arguments_are_refused_before_anything_is_read(corpus):
    for arguments, message in WRONG:
        with pytest.raises(dp.DuckpletsError) as caught:
            take(corpus, dp.sources.MemorySource([{"text": GOOD}], text="text"), **arguments)
        assert message in str(caught.value)
    assert corpus.version == 0


def test_what_is_in_the_corpus_comes_first_and_what_is_rejected_holds_nothing(corpus):
    def source(*rows):
        made = [{"id": i, "text": text, "license": of} for i, text, of in rows]
        return dp.sources.MemorySource(made, text="text", id="id", meta=["license"])

    one, two, three = (GOOD.format(n) for n in ("one", "two", "three"))
    corpus.ingest(source(("a", one, "mit")), name="plain")
    gate = {"quality": Quality(language=None, licenses=("mit",))}
    take(
        corpus,
        source(("a", one, "mit"), ("b", two, "gpl"), ("c", two, "MIT"), ("d", two, "mit")),
        "x",
        **gate,
    )
    take(corpus, source(("e", two, "gpl"), ("f", three, "mit")), "y", **gate)
    take(corpus, source(("a", one, "mit")), "plain", **gate)
    assert [
        (s, r, o, w.replace("accepted: None", "")) for s, r, o, w in ends(corpus) if o == "rejected"
    ] == [
        ("x", 1, "rejected", "duplicates: same text"),
        ("x", 2, "rejected", "schema: licenses"),
        ("x", 4, "rejected", "duplicates: same text"),
        ("y", 1, "rejected", "duplicates: same text"),
        ("plain", 1, "rejected", "duplicates: same id"),
    ]
    assert texts(corpus) == [one, two, three]


def test_what_comes_in_while_an_intake_is_unfinished_comes_first(corpus, monkeypatch):
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)

    rows = [{"id": str(page), "text": GOOD.format(page)} for page in range(3)]
    torn = Pages("torn", rows, page=1, fails=(2,), error=KeyError("gone"))
    with pytest.raises(dp.SourceError, match="gone"):
        take(corpus, torn, "torn")
    with pytest.raises(dp.SourceError, match=r"with another quality \(min_characters\), stopped"):
        take(corpus, torn, "torn", quality=Quality(language=None, min_characters=9))
    with pytest.raises(dp.SourceError, match="with another where, stopped"):
        take(corpus, torn, "torn", where="true")
    with pytest.raises(dp.SourceError, match="with another quality, stopped"):
        corpus.ingest(torn, name="torn")
    corpus.ingest([{"text": GOOD.format(1)}], name="m", text="text")
    report = take(corpus, torn, "torn", size_mb=1)  # a cap is no part of what must agree
    assert (report.added, report.reasons) == (2, {"duplicates: came in meanwhile": 1})
    assert sorted(texts(corpus)) == [GOOD.format(i) for i in range(3)]
    check(corpus)


def test_redacted_texts_leave_no_original_anywhere(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(denoise=dp.plugins.Denoiser())
        secret = ["bob.secret@example.org", "212-555-0199", "4111 1111 1111 1111"]
        rows = [
            {"id": "1", "text": f"{LONG} {secret[0]}\n\n| a | {secret[1]} |\n\nmore of it"},
            {"id": "2", "text": f"{LONG} {secret[2]}"},
            {"id": "3", "text": secret[0]},
            {"id": "4", "text": f"{LONG} carol.secret@example.org\n\nmore of it"},
        ]
        source, redact = dp.sources.MemorySource(rows, text="text", id="id"), {"pii": "redact"}
        report = take(corpus, source, quality=Quality(language=None, **redact))
        assert (report.added, report.reasons["schema: min_characters"]) == (3, 1)
        assert sum("[EMAIL]" in text for text in texts(corpus)) == 2
        assert str(contents(corpus)).count("secret") == 0
        assert "0199" not in str(contents(corpus))
        assert "4111" not in str(contents(corpus))
        more = [{"text": f"{secret[0]} {LONG}"}, {"text": "bob.secret@example.org"}]
        take(corpus, dp.sources.MemorySource(more, text="text"), "rejecting")
        assert "secret" not in str(contents(corpus))  # where that gate failed
        no_texts = Quality(language=None, keep_rejected=False)
        take(
            corpus,
            dp.sources.MemorySource([{"text": "tiny"}], text="text"),
            "none",
            quality=no_texts,
        )
        assert "tiny" not in str(contents(corpus))
        told = corpus.sql("SELECT metrics.characters AS n FROM judgements WHERE source = 'none'")
        assert told["n"].to_pylist() == [4]
