"""Data sets on a hub: the rows of their shards, labels, and going on from every mark."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from effort import THOROUGH
from hub_data import MOODS, flat, items, jsonl, opened, parquet, read, rows

from duckplets.errors import SourceError
from duckplets.sources import ArrowSource, CsvSource, JsonSource, Mark, ParquetSource, row_batches
from duckplets.sources.formats import json_file
from duckplets.sources.remote.hub import HubSource

KEYS = "anchor=question positive=answer meta=key,tags"
LABELS = {"mood": MOODS}


@pytest.fixture
def small_tables(monkeypatch):
    """Marks every few rows, instead of every 40,000."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", 17)
    monkeypatch.setattr(json_file, "_ROWS", 17)
    monkeypatch.setattr("duckplets.sources.row_batches._CHUNK_ROWS", 16)


def sharded(form, end):
    shards = [rows(60, 1), rows(7, 2), rows(81, 3)]
    return {f"data/train-{i:05d}-of-00003{end}": form(shard) for i, shard in enumerate(shards)}


def written(files, folder):
    paths = []
    for name, content in sorted(files.items()):
        path = folder / name.replace("/", "_")
        path.write_bytes(content)
        paths.append(path)
    return paths


# ---- the same rows as of files on disk


def lines(data):
    return jsonl(data[:5]) + b"\nnot json\n\n" + jsonl(data[5:])


FORMS = {
    ".parquet": (ParquetSource, parquet),
    ".jsonl": (JsonSource, lines),
    ".ndjson": (JsonSource, lines),
    ".jsonl.gz": (JsonSource, lambda data: gzip.compress(lines(data))),
    ".json": (JsonSource, lambda data: json.dumps(data).encode()),
}


def test_shards_give_the_rows_of_the_same_files(hub, tmp_path):
    mapping = {"anchor": "question", "positive": "answer", "meta": ["key", "tags"]}
    for end, (kind, form) in FORMS.items():
        files = sharded(form, end)
        hub.add(f"org/data{end}", files)
        expected = read(kind(written(files, tmp_path), **mapping))
        assert read(HubSource(f"hf://org/data{end} {KEYS}")) == expected, end
        assert len(expected) == 148 + 3 * (form is not parquet and end != ".json")
        assert {None, "no anchor", "no positive"} <= {row["skip"] for row in expected}
    data = [{"instruction": f"do {i}", "input": "", "output": f"did {i}"} for i in range(9)]
    data.append(data[0] | {"output": None})
    how = {"converter": "alpaca", "on_error": "quarantine"}
    for end in (".parquet", ".jsonl"):
        files = {f"a{end}": FORMS[end][1](data[:5]), f"b{end}": FORMS[end][1](data[5:])}
        hub.add("org/instructions", files)
        expected = read(FORMS[end][0](written(files, tmp_path), **how))
        line = "hf://org/instructions converter=alpaca on_error=quarantine"
        assert read(HubSource(line)) == expected
        assert expected[-1]["quarantined"]
    csv = {"a.csv": b"q,a\n1,2\n\n3,4,5\n6,7\n", "b.csv": b'a,q\n8,"9\n"\n'}
    hub.add("org/csv", csv)
    expected = read(CsvSource(written(csv, tmp_path), anchor="q", positive="a"))
    assert read(HubSource("hf://org/csv anchor=q positive=a")) == expected
    assert [row["skip"] for row in expected] == [None, "ragged row", None, None]
    pa.feather.write_feather(pa.table({"t": ["one", "two"]}), str(tmp_path / "x.arrow"))
    hub.add("org/arrow", {"train/x.arrow": (tmp_path / "x.arrow").read_bytes()})
    expected = read(ArrowSource(tmp_path / "x.arrow", text="t"))
    assert read(HubSource("hf://org/arrow/default/train text=t")) == expected


# ---- going on


def resumed_everywhere(source):
    """Check that from every mark (or the middle one) exactly the rest comes; returns how many."""
    found = list(items(source))
    whole = rows_in(found)
    marks = [place for place, item in enumerate(found) if isinstance(item, Mark)]
    for place in marks if THOROUGH else [marks[len(marks) // 2]]:
        before = rows_in(found[:place])
        rest = list(items(source, json.loads(json.dumps(found[place].cursor))))
        assert before + rows_in(rest) == whole, f"after item {place}"
        again = next((part for part in rest if isinstance(part, Mark)), None)
        if again:  # a second interruption
            between = rows_in(rest[: rest.index(again)])
            assert before + between + read(source, again.cursor) == whole
    return len(marks)


def rows_in(found):
    return [row for item in found if not isinstance(item, Mark) for row in flat(item)]


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize(
    ("form", "end"),
    [
        (lambda data: parquet(data, group=20), ".parquet"),
        (lambda data: jsonl(data[:3]) + b"\n\n" + jsonl(data[3:]), ".jsonl"),
    ],
)
def test_from_every_mark_exactly_the_rest_is_read(hub, form, end):
    hub.add("org/data", sharded(form, end))
    assert resumed_everywhere(HubSource(f"hf://org/data {KEYS}")) >= 8


@pytest.mark.usefixtures("small_tables")
def test_going_on_reads_the_revision_it_began_with(hub):
    repo = hub.add("org/data", sharded(parquet, ".parquet"))
    source = HubSource(f"hf://org/data {KEYS}")
    whole = read(source)
    found = list(items(source))
    cut = next(i for i, item in enumerate(found) if isinstance(item, Mark))
    repo.change({"data/train-00000-of-00001.parquet": parquet(rows(10, 9))})
    rest = read(source, found[cut].cursor)
    assert [row for part in found[:cut] for row in flat(part)] + rest == whole
    hub.requests.clear()
    assert len(read(source)) == 10
    marks = [item for item in found if isinstance(item, Mark)]
    last = next(mark for mark in marks if "00002" in mark.cursor["at"]["file"])
    hub.requests.clear()
    read(source, last.cursor)
    assert not hub.asked("train-0000[01]"), "only the shards that are left"


@pytest.mark.usefixtures("small_tables")
def test_keys_met_before_a_mark_are_known_after_it(hub):
    first = [{"Q": f"q{i}", "rare": "x"} for i in range(40)]
    later = [{"Q": f"q{i}", "q": "another"} for i in range(40, 100)]
    hub.add("org/data", {"train.jsonl": jsonl(first + later)})
    source = HubSource("hf://org/data anchor=q meta=rare")
    assert read(source)[60]["sections"][0]["text"] == "q60"
    assert resumed_everywhere(source) == 6


def test_a_cursor_of_something_else_is_refused(hub):
    repo = hub.add("org/data", sharded(parquet, ".parquet"))
    source = HubSource(f"hf://org/data {KEYS}")
    with pytest.raises(SourceError, match="made by another version; discard it with restart=True"):
        read(source, {"place": 3})
    cursor = {"rows": 1, "at": {"file": "data/gone.parquet", "row": 1}}
    cursor["of"] = {"revision": repo.head}
    with pytest.raises(SourceError, match=r"stopped in data/gone.parquet, which is not one of its"):
        read(source, cursor)


# ---- columns and labels


def test_classes_go_by_their_names(hub):
    data = [{"t": f"text {i}", "mood": mood} for i, mood in enumerate([0, 2, -1, None, 3, 1])]
    hub.add("org/data", {"train.parquet": parquet(data, labels=LABELS)})
    found = read(HubSource("hf://org/data text=t meta=mood"))
    assert [dict(row["meta"]).get("mood") for row in found] == [
        *("neutral", "bearish", None, None, None, "bullish")
    ]
    assert [row["skip"] for row in found] == [None] * 4 + ["unknown label: mood", None]
    texts = read(HubSource("hf://org/data anchor=t positive=mood"))
    assert [s["text"] for s in texts[0]["sections"]] == ["text 0", "neutral"]
    assert [row["skip"] for row in texts].count("no positive") == 2


CARD = """---
dataset_info:
  features:
  - name: t
    dtype: string
  - name: mood
    dtype:
      class_label:
        names:
          '0': neutral
          '1': bullish
          '2': bearish
  - name: moods
    sequence:
      class_label:
        names: {'0': neutral, '1': bullish, '2': bearish}
  splits:
  - name: train
    num_examples: 6
---
# A data set
"""


def test_classes_go_by_the_names_in_the_card(hub):
    values = [0, "1", "bearish", 9, -1, None, "furious", 2.0]
    data = [{"t": f"text {i}", "mood": mood} for i, mood in enumerate(values)]
    hub.add("org/data", {"README.md": CARD.encode(), "train.jsonl": jsonl(data)})
    found = read(HubSource("hf://org/data text=t meta=mood"))
    names = ["neutral", "bullish", "bearish", None, None, None, None, "bearish"]
    assert [dict(row["meta"]).get("mood") for row in found] == names
    wrong = "unknown label: mood"
    assert [row["skip"] for row in found] == [None] * 3 + [wrong, None, None, wrong, None]
    values = [[0, 1], [], None, [2, 7], [2]]
    listed = [{"t": f"text {i}", "moods": moods} for i, moods in enumerate(values)]
    for name, content in (("train.parquet", parquet(listed)), ("train.jsonl", jsonl(listed))):
        hub.add("org/lists", {"README.md": CARD.encode(), name: content})
        found = read(HubSource("hf://org/lists text=t taxonomy=moods"))
        assert [row["taxonomy"] for row in found] == [
            *(["neutral", "bullish"], [], [], ["bearish"], ["bearish"])
        ]
        assert [row["skip"] for row in found] == [None] * 3 + ["unknown label: moods", None]
    for line in ("hf://org/data/default/train text=t", "hf://org/data text=t"):
        assert opened(HubSource(line)).total == 6, "as the card says"


WRONG = [
    (("a.parquet", "b.parquet"), "answer", "b.parquet: no column 'answer'; its columns are: "),
    (("a.parquet",), "queston", "a.parquet: no column 'queston' (did you mean 'question"),
    (("a.jsonl",), "queston", "hf://org/data: no column 'queston' (did you mean"),
]


def test_a_wrong_column_is_told_when_it_is_opened(hub):
    made = {"a.parquet": parquet(rows(3)), "a.jsonl": jsonl(rows(3))}
    made["b.parquet"] = parquet([{"question": "q"}])
    for files, column, said in WRONG:
        hub.add("org/data", {name: made[name] for name in files})
        with pytest.raises(SourceError) as error:
            read(HubSource(f"hf://org/data text={column}"))
        assert said in str(error.value)


def test_shards_without_rows_are_passed_by(hub):
    out = io.BytesIO()
    pa.parquet.write_table(pa.schema([("question", pa.string())]).empty_table(), out)
    for end, some, none in (
        ("parquet", parquet(rows(3)), out.getvalue()),
        ("jsonl", jsonl(rows(3)), b""),
    ):
        hub.add("org/data", {f"a.{end}": none, f"b.{end}": some, f"c.{end}": none})
        assert len(read(HubSource("hf://org/data text=question"))) == 3
        hub.add("org/none", {f"a.{end}": none})
        assert read(HubSource("hf://org/none text=question")) == []
