"""JSON lines beside a corpus agree with it after any interruption; other files are left alone."""

from __future__ import annotations

import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_kills
from effort import THOROUGH, often
from gated_rows import GOOD, LONG, agrees, contents, lines_of, take, texts, written
from killed_intakes import assert_kills_change_nothing, dying, nursery
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.quality import json_lines
from duckplets.quality.settings import Quality
from duckplets.sources import row_batches

ODD = [
    *(
        "a\0b",
        "line\u2028and\u2029and\x85end",
        "\u202edetrevni",
        'say "hi" \\ back',
        "\x1b[31m red",
    ),
    *(
        "tab\tand\vand\f\x1c\x1d\x1e",
        "\U0001f469\u200d\U0001f680 \ufeff \ufffe",
        "'; DROP TABLE",
        "{}",
    ),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened


def test_lines_have_the_text_that_gates_saw_and_why_it_was_kept(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    corpus.normalise(dp.Normaliser(quotes=False))
    path = tmp_path / "out.jsonl"
    rows = [{"id": f"{i}{odd}", "text": LONG + odd, "license": "mit"} for i, odd in enumerate(ODD)]
    rows += [{"id": "x", "text": "short"}, {"id": "y", "text": f"{LONG * 9} me@example.org\n" * 2}]
    source = dp.MemorySource(rows, text="text", id="id", meta=["license"])
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
    assert json.loads((tmp_path / "out.jsonl.meta.json").read_text())["record_count"] == len(found)


def test_redacted_text_is_written_and_a_corpus_without_settings_works(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    rows = [{"text": f"{LONG} bob.secret@example.org"}]
    gate = {"quality": Quality(language=None, pii="redact")}
    take(corpus, dp.MemorySource(rows, text="text"), jsonl=path, **gate)
    take(corpus, dp.MemorySource([{"text": "b"}], text="text"), "t", jsonl=path, quality=None)
    agrees(corpus, path)
    first, second = lines_of(path)
    assert "[EMAIL]" in first["text"]
    assert "secret" not in path.read_text()
    assert first["meta"]["pii_density"] > 0
    assert (second["text"], second["meta"]["domain"], second["meta"]["words"]) == ("b", None, None)


# ---- interruptions


class Torn:
    """Pages of rows; reading some of them fails."""

    def __init__(self, name: str, rows: list[str], fails: dict[int, BaseException]) -> None:
        self.name, self.rows, self.fails = name, rows, fails

    def batches(self, cursor: Any) -> Iterator[tuple[list[dict[str, str]], Any]]:
        for start in range(int(cursor or 0), len(self.rows), 5):
            if start in self.fails:
                raise self.fails.pop(start)
            part = enumerate(self.rows[start : start + 5], start)
            yield [{"id": str(i), "text": text} for i, text in part], start + 5


def test_interrupted_anywhere_it_leaves_what_the_unbroken_run_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    for seed in range(often(40, less=1)):
        draw = random.Random(seed)
        monkeypatch.setattr(json_lines, "_RECORDS", draw.randrange(1, 9))
        some = [GOOD.format(i) for i in range(30)] + ["short", LONG + draw.choice(ODD)]
        most = often(60, less=30)
        rows = {n: draw.choices(some, k=draw.randrange(most // 2, most)) for n in "ab"}
        held = []
        for broken in (False, True):
            folder = tmp_path / f"{seed}{broken}"
            folder.mkdir()
            path = folder / "out.jsonl"
            with empty_corpus(folder / "c.duckdb") as corpus:
                for name, own in rows.items():
                    points = draw.sample(range(0, most, 5), 3) if broken else []
                    errors = [OSError("gone"), KeyboardInterrupt(), OSError("again")]
                    torn = Torn(name, own, dict(zip(points, errors, strict=False)))
                    while True:
                        try:
                            take(corpus, torn, name, jsonl=path)
                        except (dp.SourceError, KeyboardInterrupt):
                            if path.exists():
                                agrees(corpus, path)
                            if path.exists() and draw.random() < 0.3:
                                damage(path, draw)
                        else:
                            break
                agrees(corpus, path)
                found = contents(corpus)
                del found["json_lines_files"]
                held.append((path.read_bytes(), found))
        assert held[0] == held[1], seed


def damage(path: Path, draw: random.Random) -> None:
    """Lose a file or its end, in ways that are made good."""
    if draw.random() < 0.5:
        path.unlink()
    else:
        os.truncate(path, draw.randrange(path.stat().st_size + 1))


def begun(corpus: dp.Corpus, path: Path) -> tuple[dp.JsonSource, bytes]:
    source = written(path.with_name("a.jsonl"), [GOOD.format(i) for i in range(20)])
    take(corpus, source, jsonl=path)
    return source, path.read_bytes()


def test_a_file_that_is_gone_or_shorter_is_written_again(corpus: dp.Corpus, tmp_path: Path) -> None:
    path, old = tmp_path / "out.jsonl", tmp_path / "old"
    source, before = begun(corpus, path)
    harms: list[tuple[Callable[[], object], bool]] = [
        (path.unlink, True),
        (lambda: os.truncate(path, len(before) // 2), True),
        (lambda: os.truncate(path, 0), True),
        (lambda: path.rename(old) and old.rename(path), False),
        (lambda: os.utime(path, (0, 0)), False),
    ]
    for lines, (harm, is_new) in enumerate(harms, 20):
        harm()
        report = take(corpus, source, jsonl=path)
        assert path.read_bytes() == before
        assert report.read == 0
        assert (f"was written again: {lines} lines" in " ".join(report.notes)) == is_new
        written(path.with_name("a.jsonl"), [GOOD.format(lines)], lines, "a")
        take(corpus, source, jsonl=path)
        assert path.read_bytes().startswith(before)
        agrees(corpus, path)
        before = path.read_bytes()
    assert not [each for each in os.listdir(tmp_path) if each.startswith(".")]


def test_a_file_that_holds_something_else_is_left_as_it_is(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    source, before = begun(corpus, path)
    for now in (
        before.replace(b"weather", b"Weather", 1),
        before + b'{"text": "mine"}\n',
        b"x" * (len(before) + 9),
        b"other and shorter",
    ):
        path.write_bytes(now)
        stored = contents(corpus)
        with pytest.raises(dp.DamagedFileError, match="another jsonl="):
            take(corpus, source, jsonl=path)
        assert path.read_bytes() == now
        assert contents(corpus) == stored
        path.unlink()
        take(corpus, source, jsonl=path)
        assert path.read_bytes() == before


def test_lines_beyond_what_is_committed_are_cut_from_the_file_itself_alone(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    source, before = begun(corpus, path)
    corpus.database.rows("UPDATE json_lines_files SET modified = NULL")  # as after a kill
    with path.open("ab") as file:
        file.write(b'{"text": "half a li')
    take(corpus, source, jsonl=path)
    assert path.read_bytes() == before
    corpus.database.rows("UPDATE json_lines_files SET modified = NULL")
    path.rename(tmp_path / "old")
    path.write_bytes(before + b"another file")
    with pytest.raises(dp.DamagedFileError, match="12 bytes more than this corpus has written"):
        take(corpus, source, jsonl=path)
    assert path.read_bytes() == before + b"another file"


def test_files_that_are_not_of_this_corpus_are_refused_by_name(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    path, source = tmp_path / "out.jsonl", dp.MemorySource([{"text": LONG}], text="text")
    path.write_text("mine\n")
    (tmp_path / "b.jsonl.meta.json").write_text("{}")
    for name, message in {
        "out.jsonl": "out.jsonl is there already",
        "b.jsonl": "b.jsonl.meta.json is there already",
        "c.duckdb": "is there already",
        "no/out.jsonl": "there is no folder",
        "": "is no plain file",
        "out.jsonl.gz": "written uncompressed",
    }.items():
        with pytest.raises(dp.SourceError, match=message):
            take(corpus, source, jsonl=tmp_path / name)
    with pytest.raises(dp.SourceError, match="jsonl='-': give the path of a file"):
        take(corpus, source, jsonl="-")
    assert path.read_text() == "mine\n"
    assert corpus.version == 0
    with empty_corpus(tmp_path / "d.duckdb") as other:
        take(other, source, jsonl=tmp_path / "d.jsonl")
    with pytest.raises(dp.SourceError, match="this corpus has not written it"):
        take(corpus, source, jsonl=tmp_path / "d.jsonl")
    take(corpus, source, size_mb=0, jsonl=tmp_path / "nothing.jsonl")
    take(corpus, source, limit=0, jsonl=tmp_path / "nothing.jsonl")
    assert not [name for name in os.listdir(tmp_path) if "nothing" in name]


def test_an_unfinished_intake_keeps_its_file_and_the_file_its_intake(
    corpus: dp.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    path = tmp_path / "out.jsonl"
    _, before = begun(corpus, path)
    torn = Torn("torn", [GOOD.format(i) for i in range(100, 120)], {10: OSError("gone")})
    with pytest.raises(dp.SourceError, match="gone"):
        take(corpus, torn, "torn", jsonl=path)
    assert len(lines_of(path)) == 30
    meta = json.loads((tmp_path / "out.jsonl.meta.json").read_text())
    assert (meta["status"], meta["record_count"]) == ("interrupted", 30)
    other = dp.MemorySource([{"text": LONG}], text="text")
    with pytest.raises(dp.SourceError, match="lines of source 'torn', whose intake is unfinished"):
        take(corpus, other, "other", jsonl=path)
    for wrong in (None, tmp_path / "b.jsonl"):
        with pytest.raises(dp.SourceError, match=r"unfinished intake that began with jsonl='out"):
            take(corpus, torn, "torn", jsonl=wrong)
    assert not (tmp_path / "b.jsonl").exists()
    # What came in meanwhile is no record of it, and then has no line.
    corpus.ingest(
        dp.MemorySource([{"text": GOOD.format(101)}], text="text"), name="m", progress=False
    )
    report = take(corpus, torn, "torn", jsonl=path)
    assert report.reasons == {"duplicates: came in meanwhile": 1}
    agrees(corpus, path)
    assert path.read_bytes().startswith(before)
    assert len(lines_of(path)) == 39
    torn.fails = {10: OSError("gone")}
    torn.name = "more"
    with pytest.raises(dp.SourceError, match="gone"):
        take(corpus, torn, "more", jsonl=path, quality=Quality(language=None, duplicates=False))
    kept = path.read_bytes()
    corpus.remove("more")  # what it had stored is discarded; the lines are cut by who writes next
    assert path.read_bytes() == kept
    take(corpus, other, "other", jsonl=path)
    agrees(corpus, path)
    assert len(lines_of(path)) == 40


def test_lines_stay_whatever_becomes_of_their_records(
    corpus: dp.Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "out.jsonl"
    source, before = begun(corpus, path)
    long = Quality(language=None, min_characters=74)
    verbs = [
        lambda: corpus.judge(long),
        lambda: corpus.deduplicate(near=0.5),
        lambda: corpus.remove("s"),
    ]
    for verb in verbs:
        caplog.clear()
        verb()
        assert "the lines in out.jsonl stay as they are" in caplog.text
        assert path.read_bytes() == before
    os.truncate(path, 100)  # and what was removed is still there to write them again
    other = dp.MemorySource([{"text": LONG}], text="text")
    take(corpus, other, "other", jsonl=path)
    assert path.read_bytes().startswith(before)
    corpus.compact()
    path.unlink()
    with pytest.raises(
        dp.DamagedFileError, match="cannot be written again: 20 lines of source 's'"
    ):
        take(corpus, other, "more", jsonl=path)
    assert not path.exists()
    take(corpus, source, jsonl=tmp_path / "new.jsonl")
    assert len(lines_of(tmp_path / "new.jsonl")) == 20


def test_a_full_disk_is_one_error_and_nothing_is_lost(
    corpus: dp.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    monkeypatch.setattr(row_batches, "MAX_ROWS", 30)
    path, size = tmp_path / "out.jsonl", often(16_000_000, less=4_000_000)
    lines = [GOOD.format(i) + "\x01" * (size * 3 // 800) for i in range(60)]
    source = written(tmp_path / "a.jsonl", lines)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(dp.SourceError, match=r"File too large\. What was committed stays"):
            take(corpus, source, jsonl=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    agrees(corpus, path)
    assert 0 < len(lines_of(path)) < 60
    assert take(corpus, source, jsonl=path).added == 60
    agrees(corpus, path)
    assert len(lines_of(path)) == 60


# ---- killed


def lines(path: Path, *death: int) -> None:
    """Take in two files, committed after every few rows."""
    from duckplets.ingest import ingest

    ingest._ROWS_A_COMMIT = 0
    ingest._TIMES_A_COMMIT = 0
    vars(row_batches)["MAX_ROWS"] = 40
    dying(*death)
    with dp.Corpus(path) as corpus:
        for name in "ab":
            source = dp.JsonSource(path.with_name(f"{name}.jsonl"), text="text", id="id")
            take(corpus, source, name, jsonl=path.with_name("out.jsonl"))


test_kills.JOBS["lines"] = lines


@pytest.mark.timeout(3600 if THOROUGH else 300)
def test_killed_anywhere_and_run_again_the_bytes_are_those_of_the_unbroken_run(
    tmp_path: Path,
) -> None:
    draw = random.Random(4)
    path, out = tmp_path / "c.duckdb", tmp_path / "out.jsonl"
    for name in "ab":
        some = [*map(GOOD.format, range(often(900, less=60))), "short", LONG + ODD[1]]
        written(tmp_path / f"{name}.jsonl", draw.choices(some, k=often(900, less=100)))

    def stored() -> tuple[bytes, Any]:
        with dp.Corpus(path) as corpus:
            agrees(corpus, out)
            found = contents(corpus)
            del found["json_lines_files"]
            return out.read_bytes(), found

    def fresh() -> None:
        for each in (path, out, tmp_path / "out.jsonl.meta.json"):
            each.unlink(missing_ok=True)
        dp.Corpus(path).close()

    assert_kills_change_nothing(__file__, "lines", path, fresh, stored)


if __name__ == "__main__":
    nursery()
