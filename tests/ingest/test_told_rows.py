"""What becomes of every row: what cannot be used of it is told, and found again, in any format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import lines, ok
from described import sources_file
from effort import some
from source_rows import every_source, read, texts

import duckplets as dp
from duckplets.ingest.outcome_counts import EXAMPLES
from duckplets.sources.converters import registry
from duckplets.sources.mapping import changed

_each = pytest.mark.parametrize


def set_aside(corpus, source="%"):
    found = corpus.sql(
        'SELECT "row", reason, file, line, document FROM quarantine WHERE source LIKE $s '
        'ORDER BY "row"',
        {"s": source},
    )
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
    (7, "bad quoting", 10, '2 lines: "a\nb"c,d', '"a\nb"c,d'),
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
FILES = [
    ("bad.csv", CSV, dp.sources.CsvSource, BAD_CSV),
    ("bad.jsonl", JSON, dp.sources.JsonSource, BAD_JSON),
    ("in pieces.csv", CSV, dp.sources.CsvSource, BAD_CSV),
]


def test_bad_rows_are_told_and_set_aside(corpus, tmp_path):
    for name, data, kind, bad in FILES:
        path = tmp_path / name
        path.write_bytes(data)
        source = changed(kind(path, anchor="q", positive="a"), in_pieces="pieces" in name)
        report = corpus.ingest(source, name=name)
        told = {}
        for row, reason, line, value, _ in bad:
            shown = value and value.replace("\n", "\\n")
            said = {"row": row, "file": str(path), "line": line, "value": shown}
            told.setdefault(reason, []).append(said)
        assert report.examples == told
        assert any("encoding=" in note for note in report.notes)
        assert report.read == report.added + report.skipped + report.failed
        assert set_aside(corpus, name) == []
        other = f"other {name}"
        kept = corpus.ingest(source, name=other, on_error="quarantine")
        assert kept.examples == report.examples
        assert [(*row[:4], json.loads(row[4])) for row in set_aside(corpus, other)] == [
            (row, reason, str(path), line, document) for row, reason, line, _, document in bad
        ]
        query = "SELECT report FROM corpus_versions WHERE version = $v"
        stored = corpus.sql(query, {"v": report.version})["report"][0]
        assert json.loads(stored.as_py())["examples"] == report.examples
        row, reason, line, value, _ = bad[0]
        with pytest.raises(dp.SourceError) as raised:
            corpus.ingest(source, name="third", on_error="raise")
        assert f"row {row} ({path}, line {line}): {reason}: {value!r}" in str(raised.value)
        assert corpus.version == kept.version


KINDS = ("parquet", "feather", "table", "records", "custom", "indexed")


def test_all_kinds_of_sources_set_rows_aside(corpus, tmp_path):
    rows = [{"q": "q1", "a": "a1"}, {"q": None, "a": "b"}, {"q": " ", "a": "c"}]
    kinds = tuple(some(KINDS, less=3))
    for kind, source in every_source(tmp_path, rows, kinds, anchor="q", positive="a").items():
        with pytest.raises(dp.SourceError, match=r"row 2.*no anchor; on_error='skip'"):
            corpus.ingest(source, name=kind, on_error="raise")
        report = corpus.ingest(source, name=kind, on_error="quarantine")
        assert (report.added, report.reasons) == (1, {"no anchor": 2})
        file = str(tmp_path / f"r.{kind}") if kind in ("parquet", "feather") else None
        found = [(*row[:4], json.loads(row[4])) for row in set_aside(corpus, kind)]
        assert found == [(i + 1, "no anchor", file, None, rows[i]) for i in (1, 2)]
        assert "in the table quarantine: 2 rows" in report.notes


@_each("resumable", [False, True])
def test_where_no_row_is_good_they_are_set_aside_all_the_same(corpus, tmp_path, resumable):
    (tmp_path / "b.jsonl").write_text("[]\n{\n")
    source = dp.sources.JsonSource(tmp_path / "b.jsonl", anchor="q", on_error="quarantine")
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
    report = corpus.ingest(dp.sources.MemorySource(rows, anchor="q"))
    kept = report.examples["no anchor"]
    assert [row["row"] for row in kept] == list(range(2, 2 + EXAMPLES))
    assert "  skipped: 100 no anchor (first row 2; row 3; " in str(report)
    again = corpus.ingest(dp.sources.MemorySource(rows, anchor="q"))
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


def test_dates(corpus, reader):
    for form, text, expected in FORMS:
        rows = [{"q": "a", "d": text}, {"q": "b", "d": None}]
        how = {"anchor": "q", "date": "d", "date_format": form}
        days = [row["date"] for row in read(dp.sources.MemorySource(rows, **how), reader)]
        assert [day and str(day) for day in days] == [expected, None], (form, text)
    report = corpus.ingest(dp.sources.MemorySource(rows, **how))
    assert (report.added, report.reasons) == (2, {})
    assert report.incomplete == {"unreadable date": 1}
    first = {"row": 1, "file": None, "line": None, "value": text}
    assert report.examples == {"unreadable date": [first]}
    assert "taken without it: 1 unreadable date (row 1: " in str(report)
    strict = dp.sources.MemorySource(rows, **how, on_bad_date="fail", on_error="quarantine")
    failed = corpus.ingest(strict, name="strict")
    assert (failed.added, failed.failed, failed.incomplete) == (1, 1, {})
    assert [row[1] for row in set_aside(corpus)] == ["unreadable date"]


ENCODINGS = ["utf-16", "latin-1", "utf-8", "cp1252", "iso8859-15", "utf-16-le"]


def test_text_of_any_encoding(corpus, reader, tmp_path):
    objects = [{"q": "né", "a": "ü"}, {"q": "ß", "a": "z"}]
    files = {
        "c.csv": "q,a\nné,ü\nß,z\n",
        "l.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects),
        "a.json": json.dumps(objects, ensure_ascii=False),
        "t.txt": "né ü",
    }
    for encoding in some(ENCODINGS, less=3):
        for name, text in files.items():
            (tmp_path / name).write_bytes(text.encode(encoding))
        how = {"anchor": "q", "positive": "a", "encoding": encoding}
        sources = {
            "csv": dp.sources.CsvSource(tmp_path / "c.csv", **how),
            "lines of JSON": dp.sources.JsonSource(tmp_path / "l.jsonl", **how),
            "JSON": dp.sources.JsonSource(tmp_path / "a.json", **how),
            "text": dp.TextFileSource(tmp_path / "t.txt", encoding=encoding),
            "lines": dp.sources.TextLinesSource(tmp_path / "t.txt", encoding=encoding),
        }
        found = {
            name: sorted(text for row in read(source, reader) for _, text in texts(row))
            for name, source in sources.items()
        }
        assert found.pop("text") == ["né ü", "t"]
        assert found.pop("lines") == ["né ü"]
        assert found == {name: ["né", "z", "ß", "ü"] for name in found}
    (tmp_path / "c.csv").write_bytes(b"q\n\x82\xa0\n\x82\nok\n")  # half of a character
    report = corpus.ingest(
        dp.sources.CsvSource(tmp_path / "c.csv", anchor="q", encoding="shift_jis")
    )
    assert (report.failed, report.failed + report.added) == (1, report.read)
    found = corpus.sql("SELECT text FROM sections ORDER BY section_key")["text"]
    assert found[0].as_py() == "あ"


WRONG = {
    "date_format=": (
        ["x", "", "%Q", "%z %Y", 5, ["%d", None]],
        lambda form: dp.sources.MemorySource([], anchor="q", date="d", date_format=form),
    ),
    "encoding=": (
        ["nope", "base64", "", 5, "hex", "rot13"],
        lambda name: dp.sources.CsvSource("x.csv", anchor="q", encoding=name),
    ),
    "n=": (
        [0, -1, True, 1.5, 1_001],
        lambda n: dp.preview(dp.sources.MemorySource([{"q": "a"}], anchor="q"), n),
    ),
}


def test_wrong_settings_are_refused():
    for setting, (values, call) in WRONG.items():
        for value in values:
            with pytest.raises(dp.SourceError, match=setting):
                call(value)


def test_texts_without_spaces_are_flagged_unless_their_script_has_none(tmp_path):
    texts = ["a1b/" * 800, "漢字" * 3000, "-" * 4000, "one " * 3000, "x" * 2048, "é" * 2049]
    rows = [{"id": f"{n}", "q": f"q{n}", "a": text} for n, text in enumerate(texts)]
    source = dp.sources.MemorySource(rows, id="id", anchor="q", positive="a")
    flag = "2 of 12 texts have more than 1,024 tokens without a space, as base64 and minified "
    assert [each[:80] for each in dp.preview(source).flags] == [flag.strip()[:80]]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        (note,) = [note for note in corpus.ingest(source).notes if note.startswith("look: ")]
        assert len(note) <= 240
        where = note[note.index("where=") + 7 : note.index('" (--where)')]
        assert corpus.ingest(source, name="again", where=where).added == 3


def test_a_preview_flags_what_looks_wrong_and_ends_the_source_it_begins():
    rows = [
        {"q": f"question {i}", "json": "[]", "same": "constant", "label": "yes" if i % 2 else "no"}
        for i in range(40)
    ]
    source = dp.sources.MemorySource(
        [*rows, {"q": ""}], anchor="q", context=["json", "same", "label"]
    )
    seen = dp.preview(source, 2)
    assert [row["row"] for row in seen.rows] == [1, 2]
    assert seen.rows[0]["sections"][0] == {"role": "anchor", "heading": "q", "text": "question 0"}
    assert seen.looked_at == 41
    wanted = (
        "context (json): 40 of 40 texts are JSON",
        "context (same): all 40 texts are the same",
        "context (label): only 2 different texts",
        "1 of the first 41 rows cannot become records",
    )
    assert all(any(flag.startswith(want) for flag in seen.flags) for want in wanted)
    assert not any("(q)" in flag for flag in seen.flags)
    assert "anchor (q): question 0" in str(seen)
    ended = []

    class Endless:
        name = "endless"

        def batches(self, cursor):
            try:
                for i in range(10**9):
                    yield [{"text": f"text {i} {j}"} for j in range(100)], i
            finally:
                ended.append(True)

    assert len(dp.preview(Endless(), 3).rows) == 3
    assert ended == [True]


# ---- fields that a converter does not read

ROWS = [
    {
        "instruction": f"Do {i}.",
        "output": f"Done {i}.",
        "history": [["Before?", "Yes."]] if i % 3 == 0 else None,
        "Tools/~'s": "[]" if i < 4 else None,
        "page": i,
        "nothing": None,
    }
    for i in range(12)
]
EVERY = {"Tools/~'s": 12, "history": 12, "nothing": 12}
WITH_VALUES = {"Tools/~'s": 4, "history": 4}
FIELD_KINDS = ("records", "parquet", "jsonl", "csv", "feather", "table", "json", "sql")


def test_fields_that_no_converter_reads_are_counted_in_every_format(tmp_path, monkeypatch):
    def mine(row):
        said = [("user", row["instruction"]), ("assistant", row["output"])]
        return {"messages": [{"role": role, "content": text} for role, text in said]}

    monkeypatch.setattr(registry, "_OWN", {})
    dp.plugins.register_converter("mine", mine)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        kinds = tuple(some(FIELD_KINDS, less=4))
        for kind, source in every_source(
            tmp_path, ROWS, kinds, converter="alpaca", meta=["page"]
        ).items():
            report = corpus.ingest(source, name=kind)
            assert report.added == 12, kind
            expected = WITH_VALUES if kind in ("records", "jsonl", "json") else EVERY
            assert report.left_out == expected, kind
        told = "  left out, as the converter does not read them: Tools/~'s (12 rows), history (12"
        assert told in str(report)
        # Rows that are no records are not counted.
        rows = [*ROWS, {"instruction": "no reply", "history": [["a", "b"]]}, {"tools": "x"}]
        source = dp.sources.MemorySource(rows, converter="alpaca", meta="page", on_error="skip")
        report = corpus.ingest(source, name="some")
        assert (report.read, report.added, report.left_out) == (14, 12, WITH_VALUES)
        wholes = {
            "all are read": dp.sources.MemorySource([ROWS[5] | {"page": None}], converter="alpaca"),
            "mapped": dp.sources.MemorySource(ROWS, anchor="instruction", positive="output"),
            "by a function": dp.sources.MemorySource(ROWS, converter="mine"),
        }
        for name, whole in wholes.items():
            report = corpus.ingest(whole, name=name)
            assert report.left_out == {}, name
            assert "left out" not in str(report)


def test_an_ingest_in_pieces_counts_over_all_of_them(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS * 4), tmp_path / "r.parquet", row_group_size=5)
    faq = {"path": "r.parquet", "converter": "alpaca", "streaming": True}
    sources_file(tmp_path / "sets.yaml", {"faq": faq})
    out = ok("ingest", tmp_path / "c.duckdb", tmp_path / "sets.yaml", "--json")
    (report,) = lines(out)
    assert report["left_out"] == {"Tools/~'s": 48, "history": 48, "nothing": 48, "page": 48}
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        (stored,) = corpus.sql("SELECT report FROM corpus_versions WHERE what = 'ingest'")["report"]
        assert json.loads(str(stored))["left_out"] == report["left_out"]
