"""Texts left in their Parquet files: as if they were inside, and refused where files change."""

import os
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from described import ingested
from effort import often, some, thorough
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.db import external_files
from duckplets.ingest import text_files
from duckplets.ingest.external_text import Placing

WORDS = ["river", "stone", "lamp", "garden", "bridge", "letter", "window", "élan", "水", "x\u0301"]
TABLES = {
    "records": "* EXCLUDE (created_at, updated_at)",
    "sections": "*",
    "chunks": "*",
    "splits": "*",
}


def sentence(rng, most=14):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def row(rng, number):
    """A row with what rows have: blank texts, lists with holes, nulls, equal texts."""
    body = rng.choice([sentence(rng, 60), sentence(rng, 60), sentence(rng, 60), " ", None])
    items = [rng.choice([sentence(rng), sentence(rng), "", None]) for _ in range(rng.randint(0, 4))]
    return {
        "id": f"k{number}",
        "title": rng.choice([sentence(rng), sentence(rng), "the same\nfor many"]),
        "body": body,
        "items": rng.choice([items, items, None]),
        "other": rng.choice([sentence(rng), None]),
    }


SCHEMA = pa.schema(
    [
        *(("id", pa.string()), ("title", pa.string()), ("body", pa.large_string())),
        *(("items", pa.list_(pa.string())), ("other", pa.dictionary(pa.int32(), pa.string()))),
    ]
)


def write(path, rows, group=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=group)
    return path


def rows_of(seed, count, first=0):
    rng = random.Random(seed)
    return [row(rng, first + i) for i in range(count)]


MAPPING = {"anchor": "title", "positive": ["items", "body"], "id": "id"}


def taken_in(path, files, *, in_place, mapping=MAPPING, **asked):
    corpus = dp.Corpus(path)
    source = dp.sources.ParquetSource(files, **mapping)
    corpus.ingest(
        source, name="notes", progress=False, **asked, options=dp.IngestOptions(in_place=in_place)
    )
    corpus.split(seed=3)
    return corpus


def table(corpus, name):
    return corpus.sql(f"SELECT {TABLES[name]} FROM {name} ORDER BY ALL").to_pylist()


MAPPINGS = [
    MAPPING,
    {"text": ["body", "other"]},
    {"anchor": ["other", "items"], "context": "title", "id": "id", "meta": "body"},
    {"anchor": "title", "positive": "body", "negative": ["items", "other"], "id": "id"},
]


@settings(max_examples=often(60, less=2), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    mapping=st.sampled_from(MAPPINGS),
    chunking=st.sampled_from([None, dp.Chunking(max_tokens=12, overlap=(3,))]),
)
def test_everything_is_as_with_the_texts_inside(tmp_path_factory, seed, counts, mapping, chunking):
    folder = tmp_path_factory.mktemp("both")
    usable = {"id": "last", "title": "the last", "body": "whole", "other": "for any mapping"}
    rows = [*rows_of(seed, sum(counts)), {**rows_of(seed, 1)[0], **usable}]
    parts = [rows[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))]
    parts[-1].append(rows[-1])
    files = [write(folder / f"{i}.parquet", part) for i, part in enumerate(parts)]
    found = []
    for in_place in (False, True):
        path = folder / f"{in_place}.duckdb"
        with taken_in(path, files, in_place=in_place, mapping=mapping) as corpus:
            if chunking is not None:
                corpus.chunk(chunking)
            found.append({name: table(corpus, name) for name in TABLES})
            inside = corpus.sql("SELECT count(text) FROM stored_sections")[0][0].as_py()
            assert (inside == 0) is in_place
    assert found[0] == found[1]


def told_of_splits(path, files, *, in_place, keep_together):
    """Split what one file has, take in another, and return all that is told and stored of it."""
    with taken_in(path, files[:1], in_place=in_place) as corpus:
        told = [corpus.split(seed=3, keep_together=keep_together, reassign=True)]
        source = dp.sources.ParquetSource(files[1], **MAPPING)
        corpus.ingest(
            source, name="more", progress=False, options=dp.IngestOptions(in_place=in_place)
        )
        shared = corpus.status()["shared_anchors"]
        told.append(corpus.split(seed=3, keep_together=keep_together))
        assert shared == {
            name: {"anchors": told[1].anchors[name], "shared": told[1].shared_anchors[name]}
            for name in told[1].anchors
        }
        hashes = corpus.database.rows(
            "SELECT section_key, normalised_hash FROM sections ORDER BY ALL"
        )
        return [repr(of) for of in told], table(corpus, "splits"), hashes


@settings(max_examples=often(20, less=2), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    keep_together=st.sampled_from(["group", "text"]),
)
def test_splits_are_those_of_texts_inside(tmp_path_factory, seed, keep_together):
    folder = tmp_path_factory.mktemp("split")
    files = [write(folder / f"{i}.parquet", rows_of(seed + i, 60, 60 * i)) for i in range(2)]
    inside, in_place = (
        told_of_splits(
            folder / f"{in_place}.duckdb", files, in_place=in_place, keep_together=keep_together
        )
        for in_place in (False, True)
    )
    assert inside == in_place


def drawn(corpus, kind="triplets", **asked):
    with corpus.sampler(kind, batch_size=16, seed=5, steps=4, **asked) as sampler:
        return [row for batch in sampler for row in batch.to_pylist()]


@thorough
def test_verbs_give_what_they_give_with_the_texts_inside(tmp_path):
    most = often(70, less=40)
    files = [write(tmp_path / f"{i}.parquet", rows_of(i, most, i * most)) for i in range(2)]
    how = {"on_conflict": "skip"}
    inside = taken_in(tmp_path / "in.duckdb", files, in_place=False, **how)
    outside = taken_in(tmp_path / "out.duckdb", files, in_place=True, **how)

    def same(ask):
        assert ask(outside) == ask(inside)

    same(drawn)
    same(lambda corpus: drawn(corpus, "texts"))
    anchor = dp.role("anchor", where="length(text) > 30")
    long = dp.TripletRecipe(
        "long", anchor=anchor, positive=dp.role("context"), negative=dp.role("context")
    )
    same(lambda corpus: drawn(corpus, recipes=[long]))
    same(lambda corpus: corpus.search("river stone", k=20).to_pylist())
    same(lambda corpus: corpus.mine("anchor_context", depth=4, progress=False).anchors)
    order = "SELECT * EXCLUDE (generation) FROM candidates ORDER BY ALL"
    same(lambda corpus: corpus.sql(order).to_pylist())
    same(lambda corpus: drawn(corpus, by="bm25"))
    same(lambda corpus: [batch["text"] for batch in corpus.read(range(40), batch_size=9)])
    same(lambda corpus: corpus.deduplicate(0.6, dry_run=True).pairs)
    same(lambda corpus: corpus.prepare(progress=False).bytes)
    same(drawn)
    outside.split(seed=3, keep_together="text", reassign=True)
    inside.split(seed=3, keep_together="text", reassign=True)
    same(lambda corpus: table(corpus, "splits"))
    assert {row["text"] for row in table(outside, "sections")} <= {
        cell
        for of in files
        for row in pq.read_table(of).to_pylist()
        for cell in (row["title"], row["body"], *(row["items"] or []))
    }
    inside.close()
    outside.close()


def touch(path):
    os.utime(path, ns=(1, 1))


def cut(path):
    write(path, rows_of(0, 5))


def another_footer(path):
    """Change a byte that stands in the footer, and no more than that."""
    stat, data = path.stat(), bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    at = data.index(b"parquet-cpp", len(data) - length - 8)
    data[at : at + 1] = b"P"
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


CHANGES = [
    (touch, "has changed"),
    (cut, "has changed"),
    (another_footer, "has changed"),
    (os.unlink, "not there any more"),
]


READ_ONLY = [
    drawn,
    lambda corpus: corpus.sql("SELECT text FROM sections"),
    lambda corpus: corpus.sql("SELECT text FROM chunk_texts"),
]
WRITING = [
    drawn,
    lambda corpus: corpus.prepare(progress=False),
    lambda corpus: corpus.search("river"),
    lambda corpus: corpus.mine("anchor_context", progress=False),
]


def test_a_file_that_changed_is_named_and_status_still_tells(tmp_path, monkeypatch):
    made = write(tmp_path / "made" / "a.parquet", rows_of(1, 60)).parent
    monkeypatch.chdir(made)
    taken_in(made / "notes.duckdb", "a.parquet", in_place=True).close()
    cases = [(change, says, read_only) for change, says in CHANGES for read_only in (False, True)]
    for n, (change, says, read_only) in enumerate(some(cases, less=5)):
        folder = shutil.copytree(made, tmp_path / str(n))  # with their times
        file, corpus = folder / "a.parquet", dp.Corpus(folder / "notes.duckdb")
        if read_only:  # it changes while nobody has the corpus open
            corpus.close()
        change(file)
        if read_only:
            corpus = dp.Corpus(corpus.path, read_only=True)
        with corpus:
            for verb in READ_ONLY if read_only else WRITING:
                with pytest.raises(dp.errors.ChangedFileError, match=f"{says}.*--in-place"):
                    verb(corpus)
            found = corpus.status()
            assert says in found["in_place"]["changed"][0]
            assert str(file) in found["in_place"]["changed"][0]
            assert sum(of["records"] for of in found["records"]) == corpus.count()
            assert corpus.count() == len(corpus.sql("FROM records"))


def test_remap_reads_all_anew_from_files_that_changed_or_into_files(tmp_path):
    rows = [{**row, "body": f"body {i}"} for i, row in enumerate(rows_of(2, 40))]
    file = write(tmp_path / "a.parquet", rows)
    source = dp.sources.ParquetSource(file, **MAPPING)
    how = {"name": "notes", "in_place": True, "progress": False}
    with taken_in(tmp_path / "notes.duckdb", file, in_place=False) as corpus:
        with pytest.raises(dp.SourceError, match=r"are in the corpus: give remap=True"):
            ingested(corpus, source, **how)
        assert ingested(corpus, source, remap=True, **how).removed == 0
        with corpus.sampler(batch_size=4, steps=2, run="kept") as sampler:
            next(iter(sampler))
            sampler.save()
        live, before = corpus.count(), table(corpus, "chunks")
        write(file, [*rows[5:-2], {**rows[-2], "title": "other"}, *rows[:5]], group=11)
        with pytest.raises(
            dp.errors.ChangedFileError,
            match=r"has changed.*put it back, or read all of it again with remap=Tr",
        ):
            ingested(corpus, source, **how)
        write(file, [{**rows[0], "title": None}], group=11)
        with pytest.raises(dp.SourceError, match="none of the 1 row"):
            ingested(corpus, source, remap=True, **how)
        assert len(corpus.database.rows("FROM stored_sections")) >= len(before)  # all is there
        write(file, [*rows[5:-2], {**rows[-2], "title": "other"}, *rows[:5]], group=11)
        report = ingested(corpus, source, remap=True, **how)
        assert (report.added, report.removed, corpus.count()) == (live - 1, 1, live - 1)
        texts = corpus.sql("SELECT role, text FROM section_texts ORDER BY ALL").to_pylist()
        drawn(corpus)
        # What an earlier version had is gone with the file, so its run is refused.
        with pytest.raises(dp.StateMismatchError):
            corpus.resume("kept")
        assert len(corpus.sql("FROM placed_files")) == 1
    with taken_in(tmp_path / "inside.duckdb", file, in_place=False) as inside:
        told = inside.sql("SELECT role, text FROM section_texts ORDER BY ALL").to_pylist()
        assert texts == told
    checks = [(check.ok, check.what) for check in doctor.corpus(tmp_path / "notes.duckdb")]
    assert [what for ok, what in checks if not ok] == []


@thorough
def test_folders_grow_move_and_are_compacted(tmp_path, monkeypatch):
    home = tmp_path / "home"
    for i in range(3):
        write(home / "data" / f"{i}.parquet", rows_of(i, 30, 30 * i))
    monkeypatch.chdir(home)
    path = home / "notes.duckdb"
    with taken_in(path, "data/[0-1].parquet", in_place=True) as corpus:
        source = dp.sources.ParquetSource("data/*.parquet", **MAPPING)
        report = corpus.ingest(
            source, name="notes", progress=False, options=dp.IngestOptions(in_place=True)
        )
        assert 20 < report.added <= 30
        own = dp.sources.MemorySource([{"id": "m", "text": "from memory"}], text="text", id="id")
        corpus.ingest(own, name="own", progress=False)
        paths = corpus.sql("SELECT path FROM placed_files ORDER BY file_key").to_pylist()
        assert [row["path"] for row in paths] == [f"data/{i}.parquet" for i in range(3)]
        before = table(corpus, "sections")
        first = drawn(corpus, empty="skip")
        corpus.compact()
        assert table(corpus, "sections") == before
        with pytest.raises(dp.SourceError, match="in_place=True"):
            corpus.ingest(source, name="notes", progress=False)
        with pytest.raises(dp.errors.ChunkingError, match="--in-place"):
            corpus.chunk(denoise=True)
        assert corpus.chunk(dp.Chunking(max_tokens=9)) == len(before)
        corpus.chunk()
    away = tmp_path / "away"
    shutil.move(home, away)
    # A file of that name where the process happens to be is not the one.
    write(tmp_path / "data" / "0.parquet", rows_of(77, 30))
    monkeypatch.chdir(tmp_path)
    with dp.Corpus(away / "notes.duckdb", read_only=True) as corpus:
        assert table(corpus, "sections") == before
        assert drawn(corpus, empty="skip") == first
        with pytest.raises(dp.errors.QueryError, match="disabled"):
            corpus.sql("FROM read_parquet($path)", {"path": str(tmp_path / "data/0.parquet")})
    with dp.Corpus(away / "notes.duckdb") as corpus:
        corpus.remove("notes")
        (away / "data" / "0.parquet").unlink()
        corpus.compact()
        assert [row["text"] for row in table(corpus, "sections")] == ["from memory"]
        assert len(corpus.sql("FROM placed_files")) == 0


def not_utf8(beside):
    of_bytes = pa.array([b"fine", b"\xff\xfe", b"too"], pa.binary())
    texts = pa.StringArray.from_buffers(3, *of_bytes.buffers()[1:])
    path = Path(beside).with_name("bytes.parquet")
    pq.write_table(pa.table({"text": texts}), path)
    return path


REFUSED = [
    (lambda f: dp.sources.MemorySource([{"text": "x"}], text="text"), "kind memory"),
    (lambda f: dp.sources.ParquetSource(f, text="id", text_of="json"), "text_of="),
    (lambda f: dp.sources.ParquetSource(f, converter="alpaca"), "converter="),
    (lambda f: dp.sources.ParquetSource(f, text="number"), "number.*no column of strings"),
    (
        lambda f: dp.sources.ParquetSource(f, text="nested.text"),
        "nested.text.*no column of strings",
    ),
    (lambda f: dp.sources.ParquetSource(f, anchor="id", positive="l", context="l"), "two parts"),
    (lambda f: dp.sources.ParquetSource([f, f], text="id"), "twice"),
    (lambda f: dp.sources.ParquetSource(not_utf8(f), text="text"), "left in place"),
]


def test_what_cannot_stay_is_refused(tmp_path):
    file = str(tmp_path / "a.parquet")
    columns = {"id": ["a"], "number": [1], "nested": [{"text": "x"}], "l": [["y"]]}
    pq.write_table(pa.table(columns), file)
    with dp.Corpus(tmp_path / "notes.duckdb") as corpus:
        for given_source, says in REFUSED:
            with pytest.raises(dp.SourceError, match=says):
                corpus.ingest(
                    given_source(file),
                    name="n",
                    progress=False,
                    options=dp.IngestOptions(in_place=True),
                )
            assert corpus.version == 0
        corpus.ingest(
            dp.sources.ParquetSource(file, text="id"),
            progress=False,
            options=dp.IngestOptions(in_place=True),
        )


def test_what_the_corpus_takes_besides_is_measured_and_said(tmp_path):
    grown = []
    for length in (1, 40):  # words of a text
        rows = [{"q": f"q {i}", "a": f"{i} word" * length} for i in range(2_000)]
        how = {"compression": "none", "use_dictionary": False} if length == 1 else {}
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{length}.parquet", **how)
        with dp.Corpus(tmp_path / f"{length}.duckdb") as corpus:
            source = dp.sources.ParquetSource(
                tmp_path / f"{length}.parquet", anchor="q", positive="a"
            )
            told = corpus.ingest(source, options=dp.IngestOptions(in_place=True)).notes[-1]
        said = re.fullmatch(
            r"texts stay in 1 file of [\d.]+ kB; the corpus grew by [\d.]+ [kM]B, (\d+) bytes a "
            r"record, whatever the length of its texts; a snapshot copies (none|[\d.]+ [kM]B) of "
            r"them(, and runs read them there)?"
            r"(, unless duckplets prepare 40\.duckdb --rewrite stores them for runs)?",
            told,
        )
        assert said, told
        assert (said[2] == "none") is (said[3] is not None) is (length == 1)
        grown.append(int(said[1]))
    assert grown[0] == pytest.approx(grown[1], rel=0.3)


@pytest.mark.parametrize("at_once", [1 << 28, 200], ids=["whole", "few bytes at a time"])
def test_compressed_files_are_rewritten_once(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(text_files, "_READ_BYTES", at_once)
    files = [write(tmp_path / f"{i}.parquet", rows_of(i, 40, 40 * i)) for i in range(2)]
    plain = tmp_path / "plain.parquet"
    table_of_it = pa.Table.from_pylist(rows_of(2, 40, 80), SCHEMA).drop(["items", "other"])
    table_of_it = table_of_it.append_column("items", table_of_it["title"])
    pq.write_table(table_of_it, plain, compression="none", use_dictionary=False)
    with taken_in(tmp_path / "c.duckdb", files, in_place=True, on_conflict="skip") as corpus:
        options = dp.IngestOptions(in_place=True)
        source = dp.sources.ParquetSource(plain, **MAPPING)
        corpus.ingest(source, name="plain", progress=False, options=options)
        copied = corpus.prepare(progress=False)
        assert copied.rewritten == 0
        before = [table(corpus, name) for name in TABLES], drawn(corpus)
        report = corpus.prepare(rewrite=True, progress=False)
        texts = corpus.sql("SELECT strlen(text) AS n FROM section_texts WHERE source <> 'plain'")
        assert min(report.rewritten, copied.bytes - report.bytes) >= pc.sum(texts["n"]).as_py()
        assert corpus.prepare(rewrite=True, progress=False).rewritten == 0
        for file in files:
            file.unlink()
        assert ([table(corpus, name) for name in TABLES], drawn(corpus)) == before
        paths = [row["path"] for row in corpus.sql("FROM placed_files ORDER BY 1").to_pylist()]
        assert paths[0] == str(plain)
        assert [path.startswith("*.texts/") for path in paths[1:]] == [True]
        # The source is one of texts inside now.
        write(files[0], rows_of(0, 40))
        source = dp.sources.ParquetSource(files[:1], **MAPPING)
        assert corpus.ingest(source, name="notes", on_conflict="skip", progress=False).added == 0
        with pytest.raises(dp.SourceError, match="give remap=True"):
            corpus.ingest(source, name="notes", progress=False, options=options)
    checks = [(check.ok, check.what) for check in doctor.corpus(tmp_path / "c.duckdb")]
    assert [what for ok, what in checks if not ok] == []
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        assert table(corpus, "sections") == before[0][1]
        with pytest.raises(dp.errors.ReadOnlyError, match="cannot rewrite texts of"):
            corpus.prepare(rewrite=True)
        plain.unlink()
    with (
        dp.Corpus(tmp_path / "c.duckdb") as corpus,
        pytest.raises(dp.errors.ChangedFileError, match="not there any more"),
    ):
        corpus.prepare(rewrite=True)


def plain_rows(count):
    return [
        {"id": f"k{i}", "title": f"title {i}", "body": f"text of {i}" if i % 3 else None}
        for i in range(count)
    ]


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("change", ["none", "text", "rows", "heading"])
def test_texts_that_the_file_has_otherwise_are_refused(tmp_path, monkeypatch, change, blank):
    rows = plain_rows(40)
    rows[7]["other"] = " " if blank else "not blank"
    files = [write(tmp_path / f"{i}.parquet", part) for i, part in enumerate((rows, rows[:0]))]
    finish = Placing.finish

    def changed(placing):
        one, other = rows[10], rows[11]
        if change == "text":
            one["body"] = one["body"].replace("text", "Text")
        elif change == "rows":
            one["title"], other["title"] = other["title"], one["title"]
        elif change == "heading":
            one["title"], one["body"] = one["body"], one["title"]
        write(files[0], rows)
        finish(placing)

    monkeypatch.setattr(Placing, "finish", changed)
    monkeypatch.setattr(external_files, "check", lambda database: None)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        options = dp.IngestOptions(in_place=True)
        given = {"anchor": "title", "positive": "body", "context": "other?", "id": "id"}
        source = dp.sources.ParquetSource(files, **given)
        if change == "none":
            report = corpus.ingest(source, name="n", progress=False, options=options)
            assert report.added == 26
        else:
            with pytest.raises(
                dp.errors.SourceError, match=r"record 'n/k10' differ when they are read"
            ):
                corpus.ingest(source, name="n", progress=False, options=options)
            assert corpus.version == 0
