"""Intake through gates: where every planted row ends, what goes on where, and what is left."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_kills
from effort import often, some
from gated_rows import GOOD, LONG, check, contents, ends, oracle, take, texts, written
from killed_intakes import dying, nursery
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.quality.settings import Quality
from duckplets.sources import row_batches

NO_GATES: dict[str, Any] = {"min_sentences": None, "lorem_ipsum": True, "curly_brackets": True}
CARD = "the number 4111 1111 1111 1111 was on it"

# Rows with how they end: text, more columns, outcome, reason.
PLANTED: list[tuple[str | None, dict[str, Any], str, str]] = [
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
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened


@pytest.mark.parametrize(
    "mapping",
    [
        {"anchor": "q", "positive": "a"},
        {"anchor": "q", "context": "a"},
        {"text": "a"},
        {"text": "a", "null_values": ("N/A", "nan")},
        {"anchor": "q", "positive": "a", "null_values": "N/A"},
        {"anchor": "q", "positive": "a", "date": "d", "on_bad_date": "fail"},
    ],
)
def test_rows_are_judged_and_counted_with_gates_as_without(
    tmp_path: Path, mapping: dict[str, Any]
) -> None:
    values = [None, "", " \t", "N/A", "nan", "text"]
    rows: list[Any] = [
        {"id": f"{i}{j}", "q": q, "a": a, "d": "2024-01-01" if i else "some day"}
        for i, q in enumerate(values)
        for j, a in enumerate(values)
    ]
    rows += [{"id": None, "q": "q", "a": "a", "d": None}, {"id": "n", "q": 7, "a": 8, "d": None}]
    path = tmp_path / "rows.jsonl"
    written(path, rows)
    source = dp.JsonSource(path, id="id", **mapping)
    told = []
    for quality in (None, Quality("c4", duplicates=False, **NO_GATES)):
        with empty_corpus(tmp_path / f"{quality is None}.duckdb") as corpus:
            report = corpus.ingest(source, name="s", quality=quality, progress=False)
            told.append((report.added, report.skipped, report.failed, report.reasons))
            if quality is not None:
                ended = corpus.acquisitions().to_pylist()[0]
                assert ended["unreadable"] == report.failed
                assert ended["filtered"] == report.skipped
    assert told[0] == told[1]
    added, skipped, failed, reasons = told[0]
    assert added + skipped + failed == len(rows)
    texts = sum(reasons.get(reason, 0) for reason in ("no text", "not text: number"))
    assert failed == texts + reasons.get("unreadable date", 0)
    assert added
    assert failed if "text" in mapping else skipped


def test_every_planted_row_ends_where_it_should(corpus: dp.Corpus, tmp_path: Path) -> None:
    path = tmp_path / "planted.jsonl"
    written(path, [{"text": text, **more} for text, more, _, _ in PLANTED])
    with path.open("ab") as file:
        file.write(
            b'{bad\n[1]\n{"text": "\xff\xfe", "id": "z"}\n'
            + json.dumps({"id": "0", "text": GOOD.format(0)}).encode()
            + b"\n"
        )
    source = dp.JsonSource(path, text="text", id="id", meta=["drop"])
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
    assert corpus.why("s/1")[0]["rule"] == "min_characters"
    assert corpus.why("s:2")[0]["text"] == "short"
    with pytest.raises(dp.QualityError, match="no row 's/99'"):
        corpus.why("s/99")


@pytest.mark.parametrize("gate", [{}, {"quality": None, "where": "true"}])
def test_the_same_command_reads_only_what_was_appended(
    corpus: dp.Corpus, tmp_path: Path, gate: dict[str, Any]
) -> None:
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
    with pytest.raises(dp.SourceError, match="its first 8 rows, read before, are not what they"):
        take(corpus, source, **gate)
    written(path, ["another"])
    with pytest.raises(dp.SourceError, match="are not what they were"):
        take(corpus, source, **gate)
    assert len(texts(corpus)) == 8
    corpus.remove("s")
    assert take(corpus, written(path, [GOOD.format(1)]), **gate).added == 1
    assert len(ends(corpus)) == 1


SOURCES = ["file", "memory", "pages"]


def source_of(kind: str, path: Path, rows: list[dict[str, Any]]) -> Any:
    if kind == "file":
        return written(path, rows)
    if kind == "memory":
        return dp.MemorySource(rows, text="text", id="id")

    class Pages:
        name = "pages"

        def batches(self, cursor: Any) -> Iterator[tuple[list[dict[str, Any]], Any]]:
            for start in range(int(cursor or 0), len(rows), 4):
                yield (
                    [{"id": r["id"], "text": r["text"]} for r in rows[start : start + 4]],
                    start + 4,
                )

    return Pages()


@pytest.mark.parametrize("kind", some(SOURCES, less=2))
def test_a_cap_is_passed_by_one_record_at_most_and_a_larger_one_goes_on(
    tmp_path: Path, kind: str
) -> None:
    draw = random.Random(kind)
    rows = [
        {
            "id": str(i),
            "text": draw.choice(["short", "ü" * draw.randrange(50, 400), GOOD.format(i % 9)]),
        }
        for i in range(40)
    ]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"where": "role = 'x'"}, "role is no column of a row; these are record_id, source"),
        ({"where": "trust >"}, "not a condition"),
        ({"where": "read_text('x') = ''"}, "read_text"),
        ({"where": 5}, "give a condition in SQL"),
        ({"size_mb": -1}, "size_mb=-1: give a number of 10^6 bytes"),
        ({"size_mb": True}, "size_mb=True: give a number"),
        ({"limit": 1.5}, "limit=1.5: give a whole number"),
        ({"quality": "generel"}, "general"),
        ({"on_conflict": "replace"}, "do not go with on_conflict='replace'"),
        ({"remap": True}, "do not go with on_conflict='replace' or remap=True"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(
    corpus: dp.Corpus, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(dp.DuckpletsError) as caught:
        take(corpus, dp.MemorySource([{"text": GOOD}], text="text"), **arguments)
    assert message in str(caught.value)
    assert corpus.version == 0


def test_what_is_in_the_corpus_comes_first_and_what_is_rejected_holds_nothing(
    corpus: dp.Corpus,
) -> None:
    def source(*rows: tuple[str, str, str]) -> dp.MemorySource:
        made = [{"id": i, "text": text, "license": of} for i, text, of in rows]
        return dp.MemorySource(made, text="text", id="id", meta=["license"])

    one, two, three = (GOOD.format(n) for n in ("one", "two", "three"))
    corpus.ingest(source(("a", one, "mit")), name="plain", progress=False)
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


def test_what_comes_in_while_an_intake_is_unfinished_comes_first(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)

    class Torn:
        name = "torn"
        whole = False

        def batches(self, cursor: Any) -> Iterator[tuple[list[dict[str, Any]], Any]]:
            for page in range(int(cursor or 0), 3):
                if page == 2 and not self.whole:
                    raise OSError("gone")
                yield [{"id": str(page), "text": GOOD.format(page)}], page + 1

    torn = Torn()
    with pytest.raises(dp.SourceError, match="gone"):
        take(corpus, torn, "torn")
    with pytest.raises(dp.SourceError, match=r"with another quality \(min_characters\), stopped"):
        take(corpus, torn, "torn", quality=Quality(language=None, min_characters=9))
    with pytest.raises(dp.SourceError, match="with another where, stopped"):
        take(corpus, torn, "torn", where="true")
    with pytest.raises(dp.SourceError, match="with another quality, stopped"):
        corpus.ingest(torn, name="torn", progress=False)
    corpus.ingest(
        dp.MemorySource([{"text": GOOD.format(1)}], text="text"), name="m", progress=False
    )
    torn.whole = True
    report = take(corpus, torn, "torn", size_mb=1)  # a cap is no part of what must agree
    assert (report.added, report.reasons) == (2, {"duplicates: came in meanwhile": 1})
    assert sorted(texts(corpus)) == [GOOD.format(i) for i in range(3)]
    check(corpus)


def test_an_intake_that_was_read_otherwise_is_refused(corpus: dp.Corpus) -> None:
    source = dp.MemorySource([{"text": GOOD}], text="text")
    take(corpus, source)
    with pytest.raises(dp.SourceError, match=r"another quality \(copyright\): judge\(\) applies"):
        take(corpus, source, quality=Quality(language=None, copyright=()))


def test_redacted_texts_leave_no_original_anywhere(tmp_path: Path) -> None:
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.denoise(dp.Denoiser())
        secret = ["bob.secret@example.org", "212-555-0199", "4111 1111 1111 1111"]
        rows = [
            {"id": "1", "text": f"{LONG} {secret[0]}\n\n| a | {secret[1]} |\n\nmore of it"},
            {"id": "2", "text": f"{LONG} {secret[2]}"},
            {"id": "3", "text": secret[0]},
            {"id": "4", "text": f"{LONG} carol.secret@example.org\n\nmore of it"},
        ]
        report = take(
            corpus,
            dp.MemorySource(rows, text="text", id="id"),
            quality=Quality(language=None, pii="redact"),
        )
        assert (report.added, report.reasons["schema: min_characters"]) == (3, 1)
        assert sum("[EMAIL]" in text for text in texts(corpus)) == 2
        assert str(contents(corpus)).count("secret") == 0
        assert "0199" not in str(contents(corpus))
        assert "4111" not in str(contents(corpus))
        take(
            corpus,
            dp.MemorySource(
                [{"text": f"{secret[0]} {LONG}"}, {"text": "bob.secret@example.org"}], text="text"
            ),
            "rejecting",
        )
        assert "secret" not in str(contents(corpus))  # where that gate failed


def test_rejected_texts_are_kept_only_where_they_may_be(corpus: dp.Corpus) -> None:
    source = dp.MemorySource([{"text": "short"}, {"text": GOOD}], text="text")
    take(corpus, source, quality=Quality(language=None, keep_rejected=False))
    assert corpus.sql("SELECT * FROM rejected_rows").num_rows == 0
    assert (
        corpus.sql("SELECT metrics.characters FROM judgements WHERE gate = 'schema'").num_rows == 1
    )


def test_copies_are_told_as_by_reading_one_row_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    for seed in range(often(40, less=1)):
        draw = random.Random(seed)
        monkeypatch.setattr(row_batches, "MAX_ROWS", draw.randrange(often(1, less=9), 30))
        words = [GOOD.format(i) for i in range(9)] + ["short", "other"]
        rows = [
            {"id": str(draw.randrange(25)), "text": draw.choice(words)}
            for _ in range(often(60, less=40))
        ]
        with empty_corpus(tmp_path / f"{seed}.duckdb") as corpus:
            source = written(tmp_path / f"{seed}.jsonl", rows)
            report = take(corpus, source, on_conflict="skip")
            found = corpus.sql("SELECT coalesce(rule, outcome) AS r FROM judgements ORDER BY row")
            assert found["r"].to_pylist() == oracle(rows), seed
            assert report.added == oracle(rows).count("accepted")
            check(corpus)


# ---- killed

ROWS = often(900, less=150)


def killed_rows() -> list[dict[str, Any]]:
    draw = random.Random(5)
    some = [text for text, _, _, _ in PLANTED if text]
    return [
        {
            "text": draw.choice(
                [GOOD.format(i), GOOD.format(draw.randrange(ROWS)), draw.choice(some)]
            )
        }
        for i in range(ROWS)
    ]


def gates(path: Path, *death: int) -> None:
    """Take in a file, committed after every few rows."""
    from duckplets.ingest import ingest

    ingest._ROWS_A_COMMIT = 0
    ingest._TIMES_A_COMMIT = 0
    vars(row_batches)["MAX_ROWS"] = often(60, less=30)
    dying(*death)
    with dp.Corpus(path) as corpus:
        source = dp.JsonSource(path.with_name("a.jsonl"), text="text", id="id")
        take(corpus, source, on_conflict="skip", size_mb=0.05)


test_kills.JOBS["gates"] = gates


if __name__ == "__main__":
    nursery()
