"""Text comes in by an engine: the same tables, errors and notes as one process makes."""

import gzip
import json
import random
import re
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import WORDS
from described import ingested as taken_in
from effort import THOROUGH, often, some, thorough
from gated_rows import QUALITY, check, contents, lines_of
from gated_sources import Pages, assert_nothing_is_left
from local_engine import Shuffled
from programs import python
from worker_processes import kill_one, workers_of

import duckplets as dp
from duckplets import sources
from duckplets.engine.local import local
from duckplets.sources import paths, row_batches
from duckplets.sources.partitions import cuts_of

COLUMNS = {"id": "id", "anchor": "title", "positive": "body"}
COUNT = often(120, less=30)  # rows of a source


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Parts of two files or two row groups, and rows that wait in files."""
    monkeypatch.setattr(paths, "AT_ONCE", 6_000)
    monkeypatch.setattr(row_batches, "MAX_ROWS", 50)
    monkeypatch.setattr("duckplets.sources.partitions._GROUPS", 4_000)
    monkeypatch.setattr("duckplets.ingest.parts._SMALL", 3_000)
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)


def rows_of(draw, count, first=0):
    """Return rows, some without an anchor, with a text twice, or a date that is none."""
    found = []
    for number in range(first, first + count):
        body = " ".join(draw.choices(WORDS, k=draw.randrange(8, 60))).capitalize() + "."
        if found and draw.random() < 0.1:
            body = draw.choice(found)["body"]
        found.append(
            {
                "id": f"r{number}",
                "title": draw.choice(["", *[" ".join(body.split()[:3])] * 9]),
                "body": draw.choice([" ", *[body] * 19]),
                "other": " ".join(draw.choices(WORDS, k=3)),
                "day": draw.choice(["2024-02-30", "soon", *["2024-02-29"] * 18]),
                "group": draw.choice(["a", "b", None]),
                "trust": draw.choice([0.1, 0.9]),
                "same": draw.choice(["1", "0", "1", "yes"]),
                "set": {"pos": [body[:20]], "kind": draw.choice(["x", None])},
            }
        )
    return found


def files_of(folder, form, seed, count=COUNT, several=5, first=0):
    """Write rows to several files of very different sizes; return a glob for them."""
    draw = random.Random(seed)
    rows = rows_of(draw, count, first)
    bounds = [0, *sorted(draw.choices(range(count), k=several - 1)), count]
    folder.mkdir(parents=True, exist_ok=True)
    for number, (start, end) in enumerate(pairwise(bounds)):
        part = rows[start:end] or rows[:1]
        path = folder / f"{number:02}.{form}"
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(part), path, row_group_size=11)
        elif form == "arrow":
            table = pa.Table.from_pylist(part)
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
                file.write_table(table, max_chunksize=17)
        elif form == "csv":
            names = [name for name in part[0] if name != "set"]
            lines = [",".join(json.dumps(row[n] or "") for n in names) for row in part]
            path.write_text("\n".join([",".join(names), *lines]) + "\n")
        elif form == "txt":
            path.write_text("\n".join(row["body"] for row in part) + "\n")
        else:
            lines = [json.dumps(row) + "\n" for row in part]
            lines.insert(1, "\n")  # a line without a row
            data = "".join(lines).encode()
            path.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    return str(folder / f"*.{form}")


def texts_of(folder, seed):
    """Write a folder of texts, with files in it that are none."""
    draw = random.Random(seed)
    for row in rows_of(draw, COUNT // 2):
        place = folder / draw.choice(["a", "b/c", "2024-03-04", "."])
        place.mkdir(parents=True, exist_ok=True)
        heading = draw.choice(["# A heading\n\n", ""])
        more = "\n\n## More\n\nof it" if heading else ""
        (place / f"{row['id']}.md").write_text(heading + row["body"] + more)
    (folder / "broken.md").write_bytes(b"\xff\xfe\x00" * 400)
    (folder / "page.html").write_text("<p>one</p>")
    (folder / "other.bin").write_text("none")
    return folder


GATED = {"quality": QUALITY}
CASES = {
    "jsonl": (lambda at: sources.JsonSource(files_of(at, "jsonl", 1), **COLUMNS, date="day"), {}),
    "gz": (lambda at: sources.JsonSource(files_of(at, "jsonl.gz", 2), **COLUMNS), GATED),
    "csv": (
        lambda at: sources.CsvSource(
            files_of(at, "csv", 3), **COLUMNS, date="day", group="group", trust="trust"
        ),
        {},
    ),
    "parquet": (
        lambda at: sources.ParquetSource(
            files_of(at, "parquet", 5), id="id", anchor="set.pos[0]", positive="body",
            meta=["set.kind", "other"],
        ),
        {},
    ),
    "arrow": (
        lambda at: sources.ArrowSource(
            files_of(at, "arrow", 7), **COLUMNS, label="same", negative="other"
        ),
        {"on_error": "quarantine"},
    ),
    "lines": (
        lambda at: sources.TextLinesSource(files_of(at, "txt", 8)),
        {**GATED, "size_mb": 0.01},
    ),
    "texts": (
        lambda at: dp.TextFileSource(texts_of(at, 9), pattern=["*.md", "*.html"], date="path"),
        {"on_error": "quarantine"},
    ),
    "resumable": (
        lambda at: sources.JsonSource(files_of(at, "jsonl", 10), text="body", in_pieces=True),
        {},
    ),
    "late key": (lambda at: sources.JsonSource(late(at), text="body", meta="rare"), GATED),
    "memory": (
        lambda at: sources.MemorySource(rows_of(random.Random(11), COUNT), text="body", id="id"),
        GATED,
    ),
    "pages": (
        lambda at: Pages(
            "own", [{"id": r["id"], "text": r["body"]} for r in rows_of(random.Random(12), COUNT)]
        ),
        {**GATED, "on_conflict": "skip"},
    ),
    "in place": (
        lambda at: sources.ParquetSource(files_of(at, "parquet", 14), text="body"),
        {"in_place": True},
    ),
}  # fmt: skip


def late(folder):
    """Write files of which only the last has a key that is mapped."""
    found = files_of(folder, "jsonl", 13)
    (folder / "99.jsonl").write_text(json.dumps({"body": "The last of all.", "rare": "x"}) + "\n")
    return found


def cleaned(corpus):
    """Have texts of a corpus cleaned, some of them dropped, by what is built in and by a user's."""
    dp.plugins.register_preprocessor("no ants", without_ants)
    corpus.chunk(dp.Chunking(max_tokens=12, preprocessors=(dp.plugins.Denoiser(), without_ants)))


def without_ants(text):
    """Drop texts that begin so, and change the others."""
    return None if text.lower().startswith("a") else text.replace("e", "3")


def told(corpus, report):
    """Return all that is stored and said of an ingest, but times."""
    names = [name for name in report.__dataclass_fields__ if name != "seconds"]
    said = {name: getattr(report, name) for name in names}
    said["notes"] = [n for n in said["notes"] if "this process" not in n]
    check(corpus)
    texts = corpus.sql("SELECT record_id, text FROM section_texts ORDER BY ALL").to_pylist()
    return contents(corpus) | {"report": said, "texts": texts}


def ingested(path, source, engine, *, clean=False, **asked):
    """Return what an ingest into a new corpus leaves and says, or its error."""
    with dp.Corpus(path) as corpus:
        if clean:
            cleaned(corpus)
        try:
            report = taken_in(
                corpus,
                source,
                name="s",
                **{"progress": False} | asked,
                options=dp.IngestOptions(engine=engine),
            )
        except dp.DuckpletsError as error:
            return contents(corpus) | {"error": (type(error), str(error))}
        return told(corpus, report)


# Text that stays in its files cannot be cleaned.
HOW = [
    (case, clean, "parts")
    for clean in (False, True)
    for case in list(CASES)[: -1 if clean else None]
]
BY_WORKERS = [(case, case != "in place", by) for case in CASES for by in ("processes", "cluster")]


@pytest.mark.parametrize(
    ("case", "clean", "by"), [*some(HOW, less=3), *(BY_WORKERS if THOROUGH else [])]
)
def test_tables_are_the_same(case, clean, by, request, tmp_path):
    make, asked = CASES[case]
    source = make(tmp_path / "in")
    alone = ingested(tmp_path / "a.duckdb", source, None, clean=clean, **asked)
    assert len(alone["texts"]) > 10
    for seed in range(often(6, less=1) if by == "parts" else 1):
        engine = Shuffled(seed) if by == "parts" else request.getfixturevalue(by)
        path = tmp_path / f"{seed}.duckdb"
        found = ingested(path, source, engine, clean=clean, **asked)
        for table in alone:
            assert found[table] == alone[table], (table, seed)
        assert by != "parts" or engine.labels
    assert_nothing_is_left(tmp_path)
    assert not list(tmp_path.glob(".*.parts"))


WRONG = {
    "row": (
        lambda at: sources.JsonSource(files_of(at, "jsonl", 20), **COLUMNS), {"on_error": "raise"}
    ),
    "path": (
        lambda at: sources.ParquetSource(
            files_of(at, "parquet", 23), text="body", meta="set.pos[7]"
        ),
        {},
    ),
    "key": (lambda at: sources.JsonSource(files_of(at, "jsonl", 26), text="gone"), {}),
    "cut": (lambda at: sources.JsonSource(cut_short(at), text="body"), {}),
    "limit": (
        lambda at: sources.CsvSource(files_of(at, "csv", 27), text="body"),
        {"limits": sources.Limits(field=200)},
    ),
    "conflict": (
        lambda at: sources.CsvSource(files_of(at, "csv", 28), text="body", id="group"),
        {},
    ),
    "no rows": (lambda at: sources.JsonSource(blank(at), text="body"), {}),
}  # fmt: skip


def cut_short(folder):
    found = files_of(folder, "jsonl.gz", 29)
    last = sorted(folder.glob("*.gz"))[-1]
    last.write_bytes(last.read_bytes()[:-20])
    return found


def blank(folder):
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text("\n\n\n")
    return folder / "a.jsonl"


@thorough
@pytest.mark.parametrize("case", WRONG)
def test_errors_are_the_same(case, tmp_path, monkeypatch):
    make, asked = WRONG[case]
    make(tmp_path / "in")
    monkeypatch.chdir(tmp_path)  # paths are told as they were given
    source = make(Path("in"))
    alone = ingested(tmp_path / "a.duckdb", source, None, **asked)
    assert "error" in alone
    assert ingested(tmp_path / "b.duckdb", source, Shuffled(1), **asked) == alone
    assert not list(tmp_path.glob(".*.parts"))


@thorough
@pytest.mark.parametrize("form", some(["parquet", "jsonl", "csv"], less=1))
def test_what_stopped_goes_on_where_it_was(form, tmp_path):
    given = {"name": "s", "quality": QUALITY, "where": "text <> ''"}
    kinds = {
        "jsonl": sources.JsonSource,
        "parquet": sources.ParquetSource,
        "csv": sources.CsvSource,
    }
    source = kinds[form](files_of(tmp_path / "in", form, 31, 120), text="body", id="id")
    for seed in range(often(8, less=1)):
        draw = random.Random(seed)
        found = []
        for engine in (None, Shuffled(seed)):
            (tmp_path / "in" / f"99.{form}").unlink(missing_ok=True)
            with dp.Corpus(tmp_path / f"{seed}-{engine is None}.duckdb") as corpus:
                corpus.chunk(denoise=True)
                stops = sorted(draw.choices(range(60, 110), k=2)) if engine else []
                for stop in stops:
                    with pytest.raises(Stopped):
                        taken_in(
                            corpus,
                            source,
                            progress=_stop_at(stop),
                            **given,
                            options=dp.IngestOptions(engine=engine),
                        )
                if engine:
                    engine.labels.clear()
                taken_in(
                    corpus, source, progress=False, **given, options=dp.IngestOptions(engine=engine)
                )
                if form == "parquet" and stops and stops[-1] > 60:
                    every = list(cuts_of(source, numbered=True))
                    read = [label for label in engine.labels if ".parquet" in label]
                    assert 0 < len(read) < len(every)
                files_of(tmp_path / "more", form, 32, count=20, several=1, first=1000)
                (tmp_path / "more" / f"00.{form}").replace(tmp_path / "in" / f"99.{form}")
                taken_in(
                    corpus, source, progress=False, **given, options=dp.IngestOptions(engine=engine)
                )
                check(corpus)
                found.append(contents(corpus))
        assert found[0] == found[1], seed


class Stopped(Exception):  # noqa: N818
    """Stands for Ctrl-C."""


def _stop_at(row):
    def progress(done, total):
        if done >= row:
            raise Stopped

    return progress


@thorough
def test_several_sources_are_as_by_one_process(tmp_path):
    refused = r"1 source of 5 failed\n.*no column 'gone'"
    for seed in range(often(10, less=1)):
        found = []
        for engine in (None, Shuffled(seed)):
            draw, place = random.Random(seed), tmp_path / f"in-{seed}"
            pages = [{"id": r["id"], "text": r["body"]} for r in rows_of(draw, COUNT // 2)]
            wanted = {
                "a": sources.CsvSource(files_of(place / "a", "csv", seed), text="body"),
                "b": Pages("b", pages),
                "c": sources.JsonSource(files_of(place / "c", "jsonl", seed + 1), text="gone"),
                "d": sources.ParquetSource(files_of(place / "d", "parquet", seed + 1), text="body"),
                "e": dp.TextFileSource(texts_of(place / "e", seed), pattern="*.md"),
            }
            cap = draw.choice([{}, {"limit": 9}, {"size_mb": 0.002}])
            path = tmp_path / f"{seed}-{engine is None}.duckdb"
            how = {"quality": QUALITY, "jsonl": path.with_suffix(".jsonl"), "keep_going": True}
            with dp.Corpus(path) as corpus:
                with pytest.raises(dp.SourceError, match=refused):
                    taken_in(
                        corpus,
                        wanted,
                        progress=False,
                        **how,
                        **cap,
                        options=dp.IngestOptions(engine=engine),
                    )
                check(corpus)
                found.append(contents(corpus) | {"lines": lines_of(path.with_suffix(".jsonl"))})
        for table in found[0]:
            assert found[0][table] == found[1][table], (seed, table)
    assert_nothing_is_left(tmp_path)
    assert not list(tmp_path.glob(".*.parts"))


def test_what_an_engine_did_not_do_is_said(tmp_path, monkeypatch):
    def changed(given):
        for file in given.cut.files:
            file.write_text(file.read_text().rstrip() + "\n\n")

    memory = sources.MemorySource(rows_of(random.Random(1), 5), text="body")
    keys = sources.JsonSource(late(tmp_path / "in"), text="body", meta="rare")
    csv = sources.CsvSource(files_of(tmp_path / "csv", "csv", 2, several=1), text="body")
    cases = [
        (memory, Shuffled(), "the engine had nothing to do: only this process can read"),
        (keys, Shuffled(), "read by this process, not by the engine's workers: not all keys"),
        (csv, Shuffled(before=changed), r"as a worker could not: .*00\.csv changes while it is"),
    ]
    for number, (source, engine, said) in enumerate(cases):
        with dp.Corpus(tmp_path / "n.duckdb") as corpus:
            notes = taken_in(
                corpus,
                source,
                name=f"{number}",
                progress=False,
                options=dp.IngestOptions(engine=engine),
            ).notes
        assert re.search(said, "\n".join(notes), re.DOTALL), notes
        assert number == 2 or not engine.labels
    monkeypatch.setattr("duckplets.sources.partitions._WHOLE", 1_000)
    alone = ingested(tmp_path / "a.duckdb", csv, None, **GATED)
    engine = Shuffled()
    with dp.Corpus(tmp_path / "l.duckdb") as corpus:
        report = taken_in(
            corpus, csv, name="s", progress=False, **GATED, options=dp.IngestOptions(engine=engine)
        )
        assert told(corpus, report) == alone
    assert any("large and cannot be cut" in note for note in report.notes)
    assert engine.labels, "workers have its rows"


DRIVER = """
import sys
sys.path[:0] = {path!r}
import duckplets as dp
from duckplets.ingest import ingest
from duckplets.sources import row_batches
from gated_rows import QUALITY
from local_engine import Shuffled
ingest._ROWS_A_COMMIT = 0
ingest._TIMES_A_COMMIT = 0
row_batches.MAX_ROWS = 30
with dp.Corpus({corpus!r}) as corpus:
    source = dp.sources.JsonSource({files!r}, id="id", anchor="title", positive="body")
    engine = "local:2" if {workers!r} else Shuffled()
    def progress(done, total):
        print(done, flush=True)
    options = dp.IngestOptions(engine=engine)
    corpus.ingest(source, name="s", quality=QUALITY, options=options, progress=progress)
"""


def test_a_killed_driver_goes_on(tmp_path):
    count, several = often(20_000, less=80), often(12, less=4)  # workers give 16,384 at a time
    files = files_of(tmp_path / "in", "jsonl", 7, count, several)
    source = sources.JsonSource(files, **COLUMNS)
    alone = ingested(tmp_path / "a.duckdb", source, None, **GATED)
    there = tmp_path / "b.duckdb"
    given = {"path": sys.path, "corpus": str(there), "files": files, "workers": THOROUGH}
    for kill in range(often(2, less=1)):
        with python("-c", DRIVER.format(**given)) as child:
            for _ in range(1 + (kill > 0)):  # where it goes on, and what it did
                assert child.stdout.readline()
            child.kill()
    found = ingested(there, source, Shuffled(), **GATED)
    del found["report"], alone["report"]
    assert found == alone
    assert not list(tmp_path.glob(".*.parts"))


@thorough
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_killed_while_parts_are_made_changes_nothing(workers, tmp_path):
    source = sources.JsonSource(files_of(tmp_path / "in", "jsonl", 6, 1_000, 10), **COLUMNS)
    alone = ingested(tmp_path / "a.duckdb", source, None, **GATED)
    gone = []
    before = workers_of()

    def kill_at_first(done, total):
        gone.extend([] if gone else kill_one(before))  # while others of its parts are made

    with local(workers) as engine:
        found = ingested(tmp_path / "b.duckdb", source, engine, progress=kill_at_first, **GATED)
    assert gone
    assert found == alone
