"""CSV and TSV as other programs write them: every line of a file is accounted for."""

import gzip
import re

import pytest
from described import sources_file
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.sources.limits import FileReader, Limits

COUNTED = re.compile(
    r"([\d,]+) lines?: (\d+) of headers, (\d+) of rows(?:, (\d+) further of \d+ rows?[^,]*)?"
    r"(?:, (\d+) blank)?"
)


def read(path, **given):
    """Return the rows of a file, and the notes on it."""
    source = dp.sources.CsvSource(path, **({"anchor": "q", "positive": "a"} | given))
    reader = FileReader.within(Limits())
    try:
        opened = source.open(reader)
        rows = [row for batch in opened.batches for row in batch.to_pylist()]
        return rows, opened.notes()
    finally:
        reader.close()


def said(rows):
    return [row["skip"] or tuple(section["text"] for section in row["sections"]) for row in rows]


PARTS = st.sampled_from(['"', '""', "a", " ", "\n", "\r\n", ",", "\t", "\\"])
CELLS = st.lists(PARTS, max_size=6).map("".join)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=12),
    form=st.sampled_from([".csv", ".tsv"]),
    how=st.sampled_from([{}, {"quote": None}, {"escape": "\\"}, {"quote": '"'}]),
)
def test_every_line_is_accounted_for(tmp_path_factory, lines, form, how):
    path = tmp_path_factory.mktemp("lines") / f"f{form}"
    by = {".csv": ",", ".tsv": "\t"}[form]
    whole = "".join(by.join(line) + "\n" for line in [["q", "a"], *lines])
    path.write_text(whole, newline="")
    try:
        rows, notes = read(path, **how)
    except dp.SourceError as error:
        if "never closed" not in str(error) or how.get("quote", "") is None:
            raise
        return
    there = len(re.findall(r"\r\n|\r|\n", whole))
    counted = next(filter(None, map(COUNTED.match, notes)), None)
    if counted is None:
        assert len(rows) + 1 == there
        return
    total, header, of_rows, *others = (int(n or 0) for n in counted.groups())
    assert (total, of_rows) == (there, len(rows))
    assert header + of_rows + sum(others) == total


def literal(name, first, last):
    """Write a file of 25 lines with a quote that opens in one row and closes in a later one."""
    by = "\t" if name.endswith("tsv") else ","
    rows = [["q", "a"], *([f"q{i}", f"a{i}"] for i in range(24))]
    rows[4], rows[19] = first, last
    return "".join(by.join(row) + "\n" for row in rows)


# The row that opens, the row that closes; what a CSV says, and whether the closing one fails.
LITERAL = {
    "first, closed in first": (['"Yes', "a3"], ['no"', "a18"], "may have swallowed others"),
    "last, closed in last": (["q3", '"Yes'], ["q18", 'no"'], "may have swallowed others"),
    "closed in a later column": (['"Yes', "a3"], ["q18", 'no"'], "ragged row of several lines"),
    "closed within a cell": (["q3", '"Yes'], ["q18", 'said "no"'], "bad quoting"),
}


@pytest.mark.parametrize("case", LITERAL)
def test_a_literal_quote_hides_no_rows(tmp_path, case):
    first, last, word = LITERAL[case]
    (tmp_path / "f.tsv").write_text(literal("f.tsv", first, last))
    rows, notes = read(tmp_path / "f.tsv")
    assert said(rows) == [
        (tuple(first) if i == 3 else tuple(last) if i == 18 else (f"q{i}", f"a{i}"))
        for i in range(24)
    ]
    assert "quotes are text in 1 file with tabs, as a quoted field is not whole" in notes
    (tmp_path / "f.csv").write_text(literal("f.csv", first, last))
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(tmp_path / "f.csv", anchor="q", positive="a", progress=False)
        plain = corpus.ingest(
            tmp_path / "f.csv", name="p", anchor="q", positive="a", quote=None, progress=False
        )
    assert plain.added == 24
    assert "25 lines: 1 of headers, 9 of rows, 15 further of 1 row with line breaks" in report.notes
    assert word in str(report)
    assert "quote=None" in str(report)
    seen = dp.preview(dp.sources.CsvSource(tmp_path / "f.csv", anchor="q", positive="a"))
    assert any("swallowed" in flag for flag in seen.flags) == ("swallowed" in word)
    if report.failed:
        assert report.examples[word][0]["line"] == 5
        assert report.examples[word][0]["value"].startswith("16 lines: ")
        with pytest.raises(dp.SourceError, match="quote=None"):
            dp.Corpus(tmp_path / "r.duckdb").ingest(
                tmp_path / "f.csv", anchor="q", positive="a", on_error="raise", progress=False
            )


TSV = {
    "whole": ('q\ta\n"x\ty"\t"two\nlines"\nb\tc\n', [("x\ty", "two\nlines"), ("b", "c")]),
    "whole, with doubled ones": ('q\ta\n"say ""x"""\ty\n', [('say "x"', "y")]),
    "within": ('q\ta\nsay "x"\ty\n', [('say "x"', "y")]),
    "not whole": ('q\ta\n"x" is\ty\n"b"\tc\n', [('"x" is', "y"), ('"b"', "c")]),
    "never closed": ('q\ta\n"x\ty\nb\tc\n', [('"x', "y"), ("b", "c")]),
    "in the header": ('"q\ta\nb\tc\n', [("b", "c")]),
}


def test_quotes_of_a_file_with_tabs_are_text_unless_all_are_whole(tmp_path):
    for number, (name, (text, expected)) in enumerate(TSV.items()):
        path = tmp_path / f"{number}.tsv.gz"
        path.write_bytes(gzip.compress(text.encode()))
        given = {"anchor": '"q'} if name == "in the header" else {}
        assert said(read(path, **given)[0]) == expected, name
    (tmp_path / "n.tsv").write_text(TSV["not whole"][0])
    rows, _ = read(tmp_path / "n.tsv", quote='"')
    assert said(rows) == ["bad quoting", ("b", "c")]


# Text of a file; what becomes of its rows; a word of a note; arguments.
HABITS = {
    "blank before a quote": ('id, q, a\n1, "x, y", z\n', [("x, y", "z")], "", {}),
    "no such blank": ('id,q,a\n1," ""x"" y", z\n', [(' "x" y', " z")], "", {}),
    "two files in one": (
        "q,a\nb,c\n\ufeffq,a\n\ufeffd,e\n",
        [("b", "c"), "the header again", ("d", "e")],
        "2 byte order marks left out",
        {"id": None},
    ),
    "Excel": ("sep=;\r\nq;a\r\nx, y;z\r\n", [("x, y", "z")], "", {}),
    "Excel, quoted": ('"sep=|"\nq|a\nx, y|z\n', [("x, y", "z")], "", {}),
    "Spark": ('q,a\n"say \\"x\\", so",z\n', [('say "x", so', "z")], "", {"escape": "\\"}),
    "pandas": (",q,a\n0,x,y\n", [("x", "y")], "", {}),
    "a last comma": ("q,a,\nx,y,\n", [("x", "y")], "", {}),
}


def test_files_as_other_programs_write_them(tmp_path):
    for number, (name, (text, expected, note, how)) in enumerate(HABITS.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(text, encoding="utf-8", newline="")
        rows, notes = read(path, **how)
        assert said(rows) == expected, name
        assert note in " ".join(notes), name
    rows, _ = read(tmp_path / "6.csv", id="Unnamed: 0")
    assert [row["key"] for row in rows] == ["0"]


def test_an_escape_is_given_anywhere(tmp_path):
    path = tmp_path / "spark.csv"
    path.write_text('q,a\n"say \\"x\\", so",z\n')
    places = {"path": str(path), "anchor": "q", "positive": "a", "escape": "\\"}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        assert (
            corpus.ingest(sources_file(tmp_path / "s.yaml", {"set": places}), progress=False)[
                "set"
            ].added
            == 1
        )
        given = {"anchor": "q", "positive": "a", "progress": False}
        assert corpus.ingest(path, name="own", escape="\\", **given).added == 1
        (tmp_path / "x.json").write_text("[]")
        with pytest.raises(dp.SourceError, match="is json: escape= is for CSV files"):
            corpus.ingest(tmp_path / "x.json", format="json", escape="\\", text="t")
    with pytest.raises(dp.SourceError, match="escape='ab': give one character"):
        dp.sources.CsvSource(path, text="q", escape="ab")
