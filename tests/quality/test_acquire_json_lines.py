"""One file of JSON lines that several sources share: as by one after another, whatever ends it."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import test_kills
from effort import THOROUGH, often, some
from gated_rows import GOOD, QUALITY, agrees, contents, take, written
from gated_sources import Pages, assert_nothing_is_left, some_rows, sources_of
from killed_intakes import assert_kills_change_nothing, dying, nursery
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.sources import retry, row_batches

SHORT = [{"id": f"x{i}", "text": "short"} for i in range(10)]  # none of which is accepted


def of_file(corpus: dp.Corpus) -> dict[str, Any]:
    """Return all that is stored but for what is of a file's own: its number, its time."""
    found = contents(corpus)
    for row in found["json_lines_files"]:
        del row["inode"], row["modified"]
    return found


@pytest.mark.timeout(3600 if THOROUGH else 300)  # a machine under load took five minutes
def test_side_by_side_with_one_file_leaves_what_one_after_the_other_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)
    for seed in range(often(20, less=1)):
        draw = random.Random(seed)
        monkeypatch.setattr(row_batches, "MAX_ROWS", draw.randrange(2, 30))
        cap: dict[str, Any] = draw.choice([{}, {"limit": 7}, {"size_mb": 0.0005}, {"limit": 0}])
        given = {"quality": QUALITY, "progress": False, **cap}
        is_first_empty = seed % 2 == 0
        found = []
        for how in ("one", "two"):
            folder = tmp_path / f"{seed}-{how}"
            folder.mkdir()
            named = {f"s{n}": s for n, s in enumerate(sources_of(seed, tmp_path))}
            if is_first_empty:
                named = {"bad": Pages("bad", SHORT), **named}
            out = folder / "out.jsonl"
            with empty_corpus(folder / "c.duckdb") as corpus:
                if how == "one":
                    for name, source in named.items():
                        setattr(source, "fails", []) if isinstance(source, Pages) else None
                        corpus.ingest(source, name=name, jsonl=out, **given)
                else:
                    corpus.acquire(named, jsonl=out, readers=draw.randrange(1, 5), **given)
                agrees(corpus, out) if out.exists() else None
                found.append((of_file(corpus), out.exists() and out.read_bytes()))
        assert found[0] == found[1], (seed, cap)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    some([(12, 22), (22, 12), (12, 12), (12, None), (22, 22), (None, 12)], less=2),
)
def test_with_keep_going_every_source_comes_to_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int | None, second: int | None
) -> None:
    """Sources fail before their first line (12) or after it (22), and the same call goes on."""
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    monkeypatch.setattr(row_batches, "MAX_ROWS", 10)
    named = {}
    for number, fails in enumerate((first, second, None)):
        rows = [{"id": str(i), "text": GOOD.format(100 * number + i)} for i in range(20)]
        at = () if fails is None else (fails,)
        named["abc"[number]] = Pages("", SHORT + rows, page=10, fails=at, error=KeyError("no"))
    out = tmp_path / "out.jsonl"
    given: dict[str, Any] = {"quality": QUALITY, "progress": False, "jsonl": out}
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.SourceError, match="of 3 failed"):
            corpus.acquire(named, keep_going=True, **given)
        agrees(corpus, out)
        before = out.read_bytes()
        for _ in named:  # an unfinished one with lines goes first
            told: dict[str, Any] = {}
            with suppress(dp.SourceError):
                corpus.acquire(named, keep_going=True, each=told.__setitem__, **given)
            failed = [str(report) for report in told.values() if isinstance(report, Exception)]
            assert all("whose intake is unfinished" in said for said in failed)
            agrees(corpus, out)
            if not failed:
                break
        reports = corpus.acquire(named, **given)
        assert sum(report.read for report in reports.values()) == 0
        assert out.read_bytes().startswith(before)
        assert len(out.read_bytes().splitlines()) == 60
        take(corpus, Pages("", [{"text": GOOD.format("last")}]), "d", jsonl=out)
        agrees(corpus, out)
        out.rename(tmp_path / "old")
        take(corpus, Pages("", [{"text": GOOD.format("other")}]), "e", jsonl=out)
        assert out.read_bytes().startswith((tmp_path / "old").read_bytes())


# ---- killed


def shared_lines(path: Path, *death: int) -> None:
    """Take in three sources side by side with one file, committed after every few rows."""
    from duckplets.ingest import ingest

    ingest._ROWS_A_COMMIT = 0
    ingest._TIMES_A_COMMIT = 0
    vars(row_batches)["MAX_ROWS"] = 30
    dying(*death)
    draw = random.Random(9)
    with dp.Corpus(path) as corpus:
        pages = Pages(
            "b", [row for row in some_rows(draw, often(120, less=40)) if row["text"]], sleep=0.001
        )
        named: dict[str, Any] = {
            "none": Pages("none", SHORT),
            "a": dp.JsonSource(path.with_name("a.jsonl"), text="text", id="id"),
            "b": pages,
            "c": dp.JsonSource(path.with_name("c.jsonl"), text="text", id="id"),
        }
        given: dict[str, Any] = {"quality": QUALITY, "progress": False, "on_conflict": "skip"}
        corpus.acquire(named, readers=3, limit=30, jsonl=path.with_name("out.jsonl"), **given)


test_kills.JOBS["shared_lines"] = shared_lines


@pytest.mark.timeout(3600 if THOROUGH else 300)
def test_killed_and_run_again_the_bytes_are_those_of_the_unbroken_run(tmp_path: Path) -> None:
    draw = random.Random(5)
    path, out = tmp_path / "c.duckdb", tmp_path / "out.jsonl"
    for name in "ac":
        written(tmp_path / f"{name}.jsonl", some_rows(draw, often(150, less=40)))

    def stored() -> tuple[bytes, Any]:
        with dp.Corpus(path) as corpus:
            agrees(corpus, out)
            return out.read_bytes(), of_file(corpus)

    def fresh() -> None:
        for each in (path, out, tmp_path / "out.jsonl.meta.json"):
            each.unlink(missing_ok=True)
        dp.Corpus(path).close()

    assert_kills_change_nothing(__file__, "shared_lines", path, fresh, stored)
    assert_nothing_is_left(tmp_path)


if __name__ == "__main__":
    nursery()
