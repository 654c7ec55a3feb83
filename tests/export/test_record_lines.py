"""Records as JSON lines: all of them, whole or absent, in place of nothing but such an export."""

import resource

import pytest
from effort import some
from gated_rows import GOOD, LONG, QUALITY, agrees, lines_of, take, texts, written
from gated_sources import Pages
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.export import record_lines
from duckplets.quality.settings import Quality
from duckplets.sources import retry, row_batches

ODD = [
    *("a\0b", "line\u2028and\u2029and\x85end", "\u202edetrevni", 'say "hi" \\ back'),
    *("tab\tand\vand\f\x1c\x1d\x1e", "\U0001f469\u200d\U0001f680 \ufeff \ufffe", "'; DROP TABLE"),
    *("{}", "\x1b[31m red"),
]
EXPORT = b'{"text":"","meta":{"source":"s","record_id":"s/1","sha256":null}}\n'


@pytest.fixture
def corpus(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened


@pytest.fixture
def in_pieces(monkeypatch):
    """Commit after every few rows, and write after every few records."""
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    monkeypatch.setattr(record_lines, "_BLOCK", {"bytes": 500, "records": 3})
    monkeypatch.setattr(row_batches, "MAX_ROWS", 10)
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)


def test_lines_have_the_text_that_gates_saw_and_why_it_was_kept(corpus, tmp_path):
    corpus.chunk(normalise=dp.plugins.Normaliser())
    path = tmp_path / "out.jsonl"
    rows = [{"id": f"{i}{odd}", "text": LONG + odd, "license": "mit"} for i, odd in enumerate(ODD)]
    rows += [{"id": "x", "text": "short"}, {"id": "y", "text": f"{LONG * 9} me@example.org\n" * 2}]
    source = dp.sources.MemorySource(rows, text="text", id="id", meta=["license"])
    report = take(corpus, source, "odd", jsonl=path)
    agrees(corpus, path)
    found = lines_of(path)
    assert [line["text"] for line in found] == texts(corpus)
    assert len(found) == report.added == len(rows) - 1
    for line in found:
        meta = line["meta"]
        assert (meta["source"], meta["domain"]) == ("odd", "general")
        assert meta["characters"] == len(line["text"])
        assert meta["bytes"] == len(line["text"].encode())
        assert meta["record_id"] == f"odd/{rows[meta['row'] - 1]['id']}"
    last = found[-1]["meta"]
    assert last["pii_density"] == round(2 / last["words"], 6)
    assert last["code_score"] == 0
    assert set(last) >= {"language", "language_probability", "license", "domain_terms", "own"}


def test_every_record_is_in_it_and_none_that_was_removed(corpus, tmp_path):
    path = tmp_path / "out.jsonl"
    rows = [{"text": f"{LONG} bob.secret@example.org"}, {"text": "a\nb"}]
    gate = {"quality": Quality(language=None, pii="redact")}
    take(corpus, dp.sources.MemorySource([{"text": "b"}], text="text"), "t", quality=None)
    take(corpus, dp.sources.MemorySource(rows, text="text"), jsonl=path, **gate)
    agrees(corpus, path)
    first, second = lines_of(path)
    assert (first["text"], first["meta"]["source"], first["meta"]["words"]) == ("b", "t", None)
    assert "[EMAIL]" in second["text"]
    assert "secret" not in path.read_text()
    assert second["meta"]["pii_density"] > 0
    corpus.remove("s")
    assert corpus.export(path, "jsonl", overwrite=True).rows == 1
    corpus.quality(apply=Quality(language=None, min_characters=1, min_words=None))
    assert corpus.export(path, "jsonl", overwrite=True).rows == 1
    line = lines_of(path)[0]["meta"]
    assert (line["words"], line["row"]) == (1, None)  # a row of no source
    corpus.remove("t")
    corpus.close()
    with dp.Corpus(corpus.path, read_only=True) as reading:
        assert reading.export(path, "jsonl", overwrite=True).rows == 0
    assert path.read_bytes() == b""


def test_a_file_is_replaced_only_when_that_is_asked_for(corpus, tmp_path):
    path, link = tmp_path / "out.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(path)
    take(corpus, dp.sources.MemorySource([{"text": "b"}], text="text"), quality=None)
    assert corpus.export(link, "jsonl").rows == 1
    with pytest.raises(dp.SourceError, match="exists; give another, or overwrite=True"):
        corpus.export(path, "jsonl")
    for before in (b"", EXPORT, path.read_bytes()):
        path.write_bytes(before)
        assert corpus.export(link, "jsonl", overwrite=True).rows == 1
        assert link.is_symlink()
        agrees(corpus, path)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize(
    "error", some([KeyboardInterrupt(), OSError("gone"), KeyError("no")], less=1)
)
def test_interrupted_it_has_what_was_accepted_and_the_same_call_completes_it(
    corpus, tmp_path, error
):
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(40)]
    path, given = tmp_path / "out.jsonl", {"quality": QUALITY, "progress": False}
    options = dp.IngestOptions(jsonl=path, retries=0)
    named = {"a": Pages("a", rows[:8]), "b": Pages("b", rows[8:], page=10, fails=(22,))}
    named["b"].error = error
    with pytest.raises((dp.SourceError, KeyboardInterrupt)):
        corpus.ingest(named, **given, options=options)
    agrees(corpus, path)
    found = len(lines_of(path))  # Ctrl-C does not wait for rows that were read
    assert 8 <= found <= 28 if isinstance(error, KeyboardInterrupt) else found == 28
    path.unlink()
    corpus.ingest(named, **given, options=options)
    agrees(corpus, path)
    assert len(lines_of(path)) == 40


def test_a_full_disk_leaves_the_file_as_it_was(corpus, tmp_path):
    path, room = tmp_path / "out.jsonl", 6_000_000
    path.write_bytes(EXPORT)
    source = written(tmp_path / "a.jsonl", [GOOD.format(i) + "\x01" * 20_000 for i in range(60)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(
            dp.SourceError, match=r"jsonl='.*File too large; the file was not written"
        ):
            take(corpus, source, jsonl=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == EXPORT
    assert {each.name for each in tmp_path.iterdir()} >= {"out.jsonl", "a.jsonl"}
    assert not list(tmp_path.glob(".out*"))
    assert take(corpus, source, jsonl=path).read == 0
    agrees(corpus, path)
    assert len(lines_of(path)) == 60
