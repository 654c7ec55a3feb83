"""``label=`` of every kind of source: what is a label, what fails, and what stays as it was."""

import pyarrow as pa
import pytest
from commands import lines, ok
from described import sources_file
from prebuilt import empty_corpus
from source_rows import FILES, every_source, read, texts

import duckplets as dp
from duckplets.records.sources_file import load_sources

SPELLED = {
    **dict.fromkeys(["true", "YES", " Positive ", "entailment", "duplicate", "1", "1.0"], 1.0),
    **dict.fromkeys(["False", "no", "NEGATIVE", "contradiction", "not_duplicate", "0"], 0.0),
    "not equivalent": 0.0,
    "not_entailment": 0.0,
    "2.5": 2.5,
    "-1": -1.0,
    "1e-1": 0.1,
}
MAPPED = {"anchor": "a", "positive": "p", "label": "l"}
ROWS = [{"a": f"a{i}", "p": f"p{i}", "l": spelled} for i, spelled in enumerate(SPELLED)]
FIXED = "t/f3057fb0faca1bdb"
LABELS = {f"a{i}": value for i, value in enumerate(SPELLED.values())}


def labels_of(rows):
    """Return the label of each record by its anchor."""
    return {texts(row)[0][1]: row["label"] for row in rows if row["skip"] is None}


def ingested(path, source):
    """Return the label of each record by its anchor, and the report."""
    with empty_corpus(path / "c.duckdb") as corpus:
        report = corpus.ingest(source, name="s", progress=False)
        found = corpus.sql(
            "SELECT text, label FROM records JOIN sections USING (record_key) "
            "WHERE role = 'anchor' AND removed_version IS NULL"
        )
    return dict(zip(found["text"].to_pylist(), found["label"].to_pylist(), strict=True)), report


class Own:
    """A source whose records name their parts, some of them whole."""

    name = "own"

    def batches(self, cursor):
        rows = [{"anchor": r["a"], "positive": r["p"], "label": r["l"]} for r in ROWS]
        texts = [("anchor", rows[0].pop("anchor")), ("context", rows[0].pop("positive"))]
        rows[0]["sections"] = [{"role": role, "text": text} for role, text in texts]
        yield rows, None


def test_labels_of_every_kind_of_source(tmp_path, reader):
    sources = every_source(tmp_path, ROWS, (*FILES, "dataset"), **MAPPED)
    sources["own"] = dp.CustomSource(Own())
    described = {"s": {"path": str(tmp_path / "r.parquet"), **MAPPED}}
    (listed,) = load_sources(sources_file(tmp_path / "sets.yaml", described))
    sources["data set"] = listed.source()
    (tmp_path / "nested").mkdir()
    nested = [{"a": r["a"], "p": r["p"], "how": [{"l": r["l"]}]} for r in ROWS]
    how = MAPPED | {"label": "how[0].l"}
    sources |= every_source(tmp_path / "nested", nested, ("jsonl",), **how)
    for kind, source in sources.items():
        assert labels_of(read(source, reader)) == LABELS, kind
    found, report = ingested(tmp_path, sources["csv"])
    assert found == LABELS
    assert report.failed == report.skipped == 0
    assert any("18 grades from -1 to 2.5" in note for note in report.notes)


def test_labels_by_their_type(tmp_path, reader):
    datasets = pytest.importorskip("datasets")
    made = []
    for values in ([True, False], [1.0, 0.0], ["duplicate", "not_duplicate"]):
        table = pa.table({"a": ["x", "y", "z"], "p": ["1", "2", "3"], "l": [*values, None]})
        made.append(dp.sources.MemorySource(table, **MAPPED))
    kind = datasets.ClassLabel(names=values[::-1])
    numbers = datasets.Dataset(table.set_column(2, "l", pa.array([1, 0, -1])))
    made.append(dp.sources.DatasetSource(numbers.cast_column("l", kind), **MAPPED))
    for source in made:
        rows = read(source, reader)
        assert labels_of(rows) == {"x": 1.0, "y": 0.0}
        assert [row["skip"] for row in rows] == [None, None, "no label"]
    _, report = ingested(tmp_path, made[-1])
    assert report.reasons == {"no label": 1}
    assert report.notes[-1] == "labels: 1 positive, 1 negative"


def test_rows_without_a_label_or_with_an_odd_one_are_told(tmp_path):
    labels = [None, "", "neutral", "nan", "inf", [1], True]
    rows = [{"a": f"a{i}", "p": f"p{i}", "l": label} for i, label in enumerate(labels)]
    found, report = ingested(tmp_path, dp.sources.MemorySource(rows, **MAPPED))
    assert found == {"a6": 1.0}
    assert report.reasons == {"no label": 2, "unreadable label": 4}
    assert (report.skipped, report.failed) == (2, 4)
    shown = [example["value"] for example in report.examples["unreadable label"]]
    assert shown == ["neutral", "nan", "inf", "[1]"]


def test_names_of_ones_own_take_the_place_of_the_list(reader):
    rows = [{"a": v, "p": f"p {v}", "l": v} for v in ("Dup", "other", "2", "yes", "1")]
    told = [{"dup": 1, "Other": False, 2: 0.5}, "dup:1, other:0,2:0.5"]
    for labels in [*told, {"DUP": True, "other": 0, "2.0": 0.5}]:
        found = read(dp.sources.MemorySource(rows, **MAPPED, labels=labels), reader)
        assert labels_of(found) == {"Dup": 1.0, "other": 0.0, "2": 0.5}
        assert [row["skip"] for row in found[3:]] == ["unreadable label"] * 2


def test_labels_and_words_for_no_value_of_a_file_of_sources(tmp_path):
    (tmp_path / "r.csv").write_text("a,p,l\nx,1,dup\ny,2,other\nv,N/A,dup\nw,nan,dup\n")
    path = str(tmp_path / "c.duckdb")
    of_row = {"anchor": "a", "positive": "p", "label": "l", "labels": "dup:1,other:0"}
    described = {"r": {"path": "r.csv", **of_row, "null_values": ["N/A", "nan", "NULL"]}}
    sets = sources_file(tmp_path / "sources.yaml", described)
    assert "2 no positive" in ok("ingest", path, sets)
    ok("split", path, "--train", "1")
    run = ["sample", path, "--kind", "labelled_pairs", "--batch-size", "2", "--steps", "1"]
    assert sorted(row["label"] for row in lines(ok(*run))) == [0, 1]


REFUSED = {
    "no positive": ({"anchor": "a", "label": "l"}, "judges the pair"),
    "text": ({"text": "a", "label": "l"}, "judges the pair"),
    "labels alone": ({"anchor": "a", "positive": "p", "labels": {"x": 1}}, "name it with label="),
    "names nothing": (MAPPED | {"labels": {}}, "give what each value means"),
    "not a number": (MAPPED | {"labels": {"x": "good"}}, "means 'good'; give a number"),
    "infinite": (MAPPED | {"labels": {"x": float("inf")}}, "means inf; give a number"),
    "no name": (MAPPED | {"labels": {" ": 1}}, "give a number, or True and False"),
    "twice": (MAPPED | {"labels": {"x": 1, "X": 0}}, "named twice, with different meanings"),
    "text of labels": (MAPPED | {"labels": "x=1"}, "is no name and number"),
    "several": (MAPPED | {"label": ["l", "m"]}, "give the name of a column"),
}


def test_a_label_that_means_nothing_is_refused():
    for mapping, message in REFUSED.values():
        with pytest.raises(dp.SourceError, match=message):
            dp.sources.MemorySource(ROWS, **mapping)


def test_a_label_is_part_of_the_reading_and_of_the_content(tmp_path):
    rows = [{"a": f"a{i}", "p": f"p{i}", "l": i % 2} for i in range(4)]
    pair = {"anchor": "a", "positive": "p"}
    path = tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(dp.sources.MemorySource(rows, **pair), name="s", progress=False)
        before = corpus.sql("SELECT record_id FROM records ORDER BY 1")
        labelled = dp.sources.MemorySource(rows, **pair, label="l")
        with pytest.raises(dp.SourceError, match="remap=True"):
            corpus.ingest(labelled, name="s", progress=False)
        report = corpus.ingest(labelled, name="s", remap=True, progress=False)
        assert (report.added, report.removed) == (4, 4)
        live = "SELECT record_id FROM records WHERE removed_version IS NULL"
        ids = {row for (row,) in zip(corpus.sql(live)["record_id"].to_pylist())}
        assert not ids & set(before["record_id"].to_pylist())
        # Nobody's ids change for that there may be labels: this one is of an earlier version.
        plain = dp.sources.MemorySource([{"t": "one text"}], text="t")
        corpus.ingest(plain, name="t", progress=False)
        of_text = corpus.sql("SELECT record_id FROM records WHERE record_id LIKE 't/%'")
        assert of_text["record_id"].to_pylist() == [FIXED]
        assert corpus.count(source="s") == 4
        (batch,) = corpus.read(range(4), batch_size=4, source="s", columns=["label"])
        assert sorted(batch["label"]) == [0.0, 0.0, 1.0, 1.0]
