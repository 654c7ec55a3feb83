"""What becomes of every row: rows that cannot be used are found again, from any kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from effort import often
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.ingest.outcome_counts import EXAMPLES
from duckplets.sources.mapping import changed

_each = pytest.mark.parametrize


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus


def some(cases: list[Any], step: int) -> list[Any]:
    """All cases of a thorough suite, else one of so many."""
    return cases[:: often(1, less=step)]


def set_aside(corpus: dp.Corpus) -> list[tuple[Any, ...]]:
    found = corpus.sql('SELECT "row", reason, file, line, document FROM quarantine ORDER BY "row"')
    return [tuple(row.values()) for row in found.to_pylist()]


# The bytes of a file, and of each bad row: number, reason, line, value, what is set aside.
CSV = b"""q,a
q1,a1
q2
"x"y,b

"over
two",c
,d
q7,\xff\xfe
"a
b"c,d
q9,a9
"""
BAD_CSV = [
    (2, "ragged row", 3, '["q2"]', ["q2"]),
    (3, "bad quoting", 4, '"x"y,b', '"x"y,b'),
    (5, "no anchor", 8, None, {"q": "", "a": "d"}),
    (6, "invalid UTF-8", 9, "\\xff\\xfe", {"q": "q7", "a": "\\xff\\xfe"}),
    (7, "bad quoting", 10, '"a\nb"c,d', '"a\nb"c,d'),
]
JSON = b"""{"q": "q1", "a": "a1"}

{"q": 2
[1, 2]
{"q": "", "a": "b"}
{"q": "\xff"}
{"q": "q7", "a": "a7"}
"""
BAD_JSON = [
    (3, "invalid JSON", 3, '{"q": 2', '{"q": 2'),
    (4, "not an object", 4, "[1, 2]", "[1, 2]"),
    (5, "no anchor", 5, None, {"q": "", "a": "b"}),
    (6, "invalid UTF-8", 6, '{"q": "\\xff"}', '{"q": "\\xff"}'),
]
FILES: list[tuple[str, bytes, Callable[..., Any], list[tuple[Any, ...]]]] = [
    ("bad.csv", CSV, dp.CsvSource, BAD_CSV),
    ("bad.jsonl", JSON, dp.JsonSource, BAD_JSON),
]
FILES += [(f"resumed {name}", d, s, bad) for name, d, s, bad in FILES[:1]]


def opened(tmp_path: Path, name: str, data: bytes, source: Callable[..., Any]) -> tuple[Path, Any]:
    path = tmp_path / name.split()[-1]
    path.write_bytes(data)
    made = source(path, anchor="q", positive="a")
    return path, changed(made, in_pieces=True) if name.startswith("resumed") else made


@_each(("name", "data", "kind", "bad"), FILES, ids=[name for name, *_ in FILES])
def test_bad_rows_are_told_and_set_aside(corpus, tmp_path, name, data, kind, bad):
    path, source = opened(tmp_path, name, data, kind)
    report = corpus.ingest(source)
    told: dict[str, list[dict[str, Any]]] = {}
    for row, reason, line, value, _ in bad:
        shown = value and value.replace("\n", "\\n")
        said = {"row": row, "file": str(path), "line": line, "value": shown}
        told.setdefault(reason, []).append(said)
    assert report.examples == told
    assert report.read == report.added + report.skipped + report.failed
    assert set_aside(corpus) == []
    kept = corpus.ingest(source, name="other", on_error="quarantine")
    assert kept.examples == report.examples
    assert [(*row[:4], json.loads(row[4])) for row in set_aside(corpus)] == [
        (row, reason, str(path), line, document) for row, reason, line, _, document in bad
    ]
    stored = corpus.sql("SELECT report FROM corpus_versions ORDER BY version")["report"][0]
    assert json.loads(stored.as_py())["examples"] == report.examples
    row, reason, line, value, _ = bad[0]
    with pytest.raises(dp.SourceError) as raised:
        corpus.ingest(source, name="third", on_error="raise")
    assert f"row {row} ({path}, line {line}): {reason}: {value!r}" in str(raised.value)
    assert corpus.version == 2


@_each("kind", some(["parquet", "arrow", "memory", "dicts", "custom", "indexed"], 2))
def test_all_kinds_of_sources_set_rows_aside(corpus, tmp_path, kind):
    rows = [{"q": "q1", "a": "a1"}, {"q": None, "a": "b"}, {"q": " ", "a": "c"}]
    table, named = pa.Table.from_pylist(rows), {"anchor": "q", "positive": "a"}
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)

    class Own:
        name = "own"

        def batches(self, cursor: Any) -> Iterator[Any]:
            yield rows, None

    source: Any = {
        "parquet": lambda: dp.ParquetSource(path, **named),
        "arrow": lambda: dp.ArrowSource(path, **named),
        "memory": lambda: dp.MemorySource(table, **named),
        "dicts": lambda: dp.MemorySource(rows, **named),
        "custom": lambda: dp.CustomSource(Own(), **named),
        "indexed": lambda: dp.IndexedSource(rows, name="i", shuffle=False, **named),
    }[kind]()
    with pytest.raises(dp.SourceError, match=r"row 2.*no anchor; on_error='skip'"):
        corpus.ingest(source, on_error="raise")
    report = corpus.ingest(source, on_error="quarantine")
    assert (report.added, report.reasons) == (1, {"no anchor": 2})
    file = str(path) if kind in ("parquet", "arrow") else None
    found = [(*row[:4], json.loads(row[4])) for row in set_aside(corpus)]
    assert found == [(i + 1, "no anchor", file, None, rows[i]) for i in (1, 2)]
    assert "in the table quarantine: 2 rows" in report.notes


@_each("resumable", [False, True])
def test_where_no_row_is_good_they_are_set_aside_all_the_same(corpus, tmp_path, resumable):
    (tmp_path / "b.jsonl").write_text("[]\n{\n")
    source: Any = dp.JsonSource(tmp_path / "b.jsonl", anchor="q", on_error="quarantine")
    source = changed(source, in_pieces=True) if resumable else source
    with pytest.raises(dp.SourceError, match=r"but what is in the table quarantine: 2 rows$"):
        corpus.ingest(source)
    assert [row[:2] for row in set_aside(corpus)] == [(1, "not an object"), (2, "invalid JSON")]
    versions = corpus.sql("SELECT version, what FROM corpus_versions").to_pylist()
    assert versions == [{"version": 1, "what": "quarantine"}]
    assert corpus.sources().num_rows == 0
    assert corpus.unfinished() == []
    (tmp_path / "b.jsonl").write_text('{"q": "good"}\n')
    assert corpus.ingest(source).version == 2
    # And a source that is known stays as it was.
    (tmp_path / "b.jsonl").write_text("[]\n")
    with pytest.raises(dp.SourceError, match=r"in the table quarantine: 1 row$"):
        corpus.ingest(source)
    assert corpus.sources()["records"].to_pylist() == [1]


def test_only_the_first_rows_of_a_reason_are_kept(corpus):
    rows = [{"q": "x"}, *({"q": ""} for _ in range(100))]
    report = corpus.ingest(dp.MemorySource(rows, anchor="q"))
    kept = report.examples["no anchor"]
    assert [row["row"] for row in kept] == list(range(2, 2 + EXAMPLES))
    assert "  skipped: 100 no anchor (first row 2; row 3; " in str(report)
    again = corpus.ingest(dp.MemorySource(rows, anchor="q"))
    assert again.examples["duplicate id, same content"][0]["value"].startswith("memory/")
    assert "1 duplicate id, same content (row 1: 'memory/" in str(again)


FORMS = [
    (None, "2024-02-03", "2024-02-03"),
    ("%d.%m.%Y", "03.02.2024", "2024-02-03"),
    ("%d.%m.%Y", "3.2.2024", "2024-02-03"),
    ("%d.%m.%Y", "2024-02-03", "2024-02-03"),
    (["%d.%m.%Y", "%Y%m%d"], "20240203", "2024-02-03"),
    ("%Y-%d-%m", "2024-03-02", "2024-02-03"),
    ("%a, %d %b %Y %H:%M:%S %z", "Sat, 03 Feb 2024 23:59:59 -1200", "2024-02-03"),
    ("%d %B %Y", "3 February 2024", "2024-02-03"),
    ("%d.%m.%Y", "31.02.2024", None),
    (None, "03.02.2024", None),
    ("%d.%m.%Y", "x", None),
]


def test_dates(corpus):
    for number, (form, text, expected) in enumerate(FORMS):
        rows = [{"q": "a", "d": text}, {"q": "b", "d": None}]
        how: dict[str, Any] = {"anchor": "q", "date": "d", "date_format": form}
        report = corpus.ingest(dp.MemorySource(rows, **how), name=f"s{number}")
        days = corpus.sql(
            "SELECT date::VARCHAR AS d FROM live_records WHERE source = $s ORDER BY record_key",
            {"s": f"s{number}"},
        )
        assert days["d"].to_pylist() == [expected, None], (form, text)
        assert (report.added, report.reasons) == (2, {})
        assert report.incomplete == ({} if expected else {"unreadable date": 1})
    first = {"row": 1, "file": None, "line": None, "value": text}
    assert report.examples == {"unreadable date": [first]}
    assert "taken without it: 1 unreadable date (row 1: " in str(report)
    strict = dp.MemorySource(rows, **how, on_bad_date="fail", on_error="quarantine")
    failed = corpus.ingest(strict, name="strict")
    assert (failed.added, failed.failed, failed.incomplete) == (1, 1, {})
    assert [row[1] for row in set_aside(corpus)] == ["unreadable date"]


@_each("encoding", some(["utf-16", "latin-1", "utf-8", "cp1252", "iso8859-15", "utf-16-le"], 3))
def test_text_of_any_encoding(corpus, tmp_path, encoding):
    words = [("né", "ü"), ("ß", "z")]
    csv = "".join(f"{q},{a}\n" for q, a in [("q", "a"), *words])
    objects = [{"q": q, "a": a} for q, a in words]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects)
    array = json.dumps(objects, ensure_ascii=False)
    how: dict[str, Any] = {"anchor": "q", "positive": "a", "encoding": encoding}
    sources: list[Any] = []
    for name, text in (("c.csv", csv), ("l.jsonl", lines), ("a.json", array), ("t.txt", "né ü")):
        (tmp_path / name).write_bytes(text.encode(encoding))
    sources += [dp.CsvSource(tmp_path / "c.csv", **how)]
    sources += [dp.JsonSource(tmp_path / name, **how) for name in ("l.jsonl", "a.json")]
    for number, source in enumerate(sources):
        corpus.ingest(source, name=f"s{number}")
    found = corpus.sql(
        "SELECT source, text FROM section_texts ORDER BY source, record_id, position"
    )
    for number in range(len(sources)):
        texts = {row["text"] for row in found.to_pylist() if row["source"] == f"s{number}"}
        assert texts == {"né", "ü", "ß", "z"}
    corpus.ingest(dp.TextFileSource(tmp_path / "t.txt", encoding=encoding), name="text")
    corpus.ingest(dp.TextLinesSource(tmp_path / "t.txt", encoding=encoding), name="lines")
    found = corpus.sql("SELECT text FROM section_texts WHERE source IN ('text', 'lines')")
    assert sorted(found["text"].to_pylist()) == ["né ü", "né ü", "t"]


def test_what_is_no_text_of_its_encoding_is_a_bad_row(corpus, tmp_path):
    (tmp_path / "c.csv").write_bytes(b"q\n\x82\xa0\n\x82\nok\n")  # half of a character
    report = corpus.ingest(dp.CsvSource(tmp_path / "c.csv", anchor="q", encoding="shift_jis"))
    assert (report.failed, report.failed + report.added) == (1, report.read)
    assert corpus.sql("SELECT text FROM sections")["text"].to_pylist()[0] == "あ"


WRONG: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
    "date_format=": (
        ["x", "", "%Q", "%z %Y", 5, ["%d", None]],
        lambda form: dp.MemorySource([], anchor="q", date="d", date_format=form),
    ),
    "encoding=": (
        ["nope", "base64", "", 5, "hex", "rot13"],
        lambda name: dp.CsvSource("x.csv", anchor="q", encoding=name),
    ),
    "n=": (
        [0, -1, True, 1.5, 1_001],
        lambda n: dp.preview(dp.MemorySource([{"q": "a"}], anchor="q"), n),
    ),
}


@_each("setting", WRONG)
def test_wrong_settings_are_refused(setting):
    values, call = WRONG[setting]
    for value in values:
        with pytest.raises(dp.SourceError, match=setting):
            call(value)


def test_a_preview_flags_what_looks_wrong():
    rows = [
        {"q": f"question {i}", "json": "[]", "same": "constant", "label": "yes" if i % 2 else "no"}
        for i in range(40)
    ]
    source = dp.MemorySource([*rows, {"q": ""}], anchor="q", context=["json", "same", "label"])
    seen = dp.preview(source, 2)
    assert [row["row"] for row in seen.rows] == [1, 2]
    assert seen.rows[0]["sections"][0] == {
        "role": "anchor",
        "heading": "q",
        "text": "question 0",
    }
    assert seen.looked_at == 41
    wanted = (
        "context (json): 40 of 40 texts are JSON",
        "context (same): all 40 texts are the same",
    )
    wanted += (
        "context (label): only 2 different texts",
        "1 of the first 41 rows cannot become records",
    )
    assert all(any(flag.startswith(want) for flag in seen.flags) for want in wanted)
    assert not any("(q)" in flag for flag in seen.flags)
    assert "anchor (q): question 0" in str(seen)


def test_a_preview_ends_the_source_it_begins():
    ended = []

    class Own:
        name = "own"

        def batches(self, cursor: Any) -> Iterator[Any]:
            try:
                for i in range(10**9):
                    yield [{"text": f"text {i} {j}"} for j in range(100)], i
            finally:
                ended.append(True)

    assert len(dp.preview(Own(), 3).rows) == 3
    assert ended == [True]
