"""What a run serves: ids of any stretch, and the log of what was taken."""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import counts_of
from effort import often, some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.runs.served import ServedLog

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with toy_corpus(tmp_path / "c.duckdb", 120, sources=("a", "b")) as corpus:
        yield corpus


CONFIGURATIONS: list[dict[str, Any]] = [
    {"batch_size": 16},
    {"batch_size": 9, "kind": "pairs", "negatives": 2},
    {"batch_size": 16, "kind": "texts", "epochs": 1},
    {"batch_size": 13, "no_duplicates": True},
    {
        "batch_size": 8,
        "negatives": 3,
        "mixture": dp.Mixture({}, omitted=1, phases=[dp.Phase(5, {"a": 0.1})]),
    },
]


def ids(batch: dp.Batch) -> list[dict[str, Any]]:
    rows = batch.to_pylist()
    return [{"step": batch.step, **row} for row in rows]


@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, less=2), ids=str)
def test_served_and_plan_are_what_was_yielded(
    corpus: dp.Corpus, configuration: dict[str, Any]
) -> None:
    slots = corpus.sampler(**configuration).text_columns
    columns = ["position", "source", "recipe", *(["label"] if "other" in slots else [])]
    columns += [f"{slot}_{d}" for slot in slots for d in ("record_id", "section", "window")]
    if configuration.get("kind") != "texts":
        columns.append("swapped")
    sampler = corpus.sampler(**configuration, columns=columns)
    planned = sampler.plan(12)
    batches = list(itertools.islice(sampler, 12))
    rows = [row for batch in batches for row in ids(batch)]
    assert planned.select(list(rows[0])).to_pylist() == rows
    served = sampler.served(0, sampler.position)
    assert served.equals(planned)
    draw = random.Random(1)
    for _ in range(often(20, less=6)):
        low, high = sorted(draw.choices(range(sampler.position + 1), k=2))
        assert sampler.served(low, high).equals(served.slice(low, high - low))
    for batch in batches:
        assert sampler.batch_at(batch.step).table.equals(batch.table)
    assert sampler.served(5, 5).num_rows == 0


def test_served_does_not_move_the_run(corpus: dp.Corpus) -> None:
    sampler, other = corpus.sampler(batch_size=8), corpus.sampler(batch_size=8)
    for _ in range(5):
        assert next(sampler).table.equals(next(other).table)
        sampler.served(3, 1000)
        sampler.plan(20)
    assert counts_of(sampler) == counts_of(other)


def test_positions_that_are_none_are_refused(corpus: dp.Corpus) -> None:
    sampler = corpus.sampler(epochs=1, batch_size=7)
    end = sampler.epoch_length
    assert sampler.plan(10**6).num_rows == end
    for start, stop in [(-1, 5), (5, 4), (0, end + 1)]:
        with pytest.raises(dp.SamplerError, match="from 0 to"):
            sampler.served(start, stop)
    for steps in (-1, 1.5, True):
        with pytest.raises(dp.SamplerError, match="steps="):
            sampler.plan(steps)  # type: ignore[arg-type]


# ---- the log


def logged(folder: Path) -> pa.Table:
    files = sorted(folder.glob("*.parquet"))
    tables = [pq.read_table(file) for file in files]
    for file, table in zip(files, tables, strict=True):
        low, high = (int(part) for part in file.stem.rsplit("-", 2)[1:])
        assert table["position"].to_pylist() == list(range(low, high))
    return pa.concat_tables(tables).combine_chunks()


def test_the_log_has_every_position_taken_once(tmp_path: Path) -> None:
    path, folder = tmp_path / "c.duckdb", tmp_path / "log"
    with toy_corpus(path, 120, sources=("a", "b")) as corpus:
        sampler = corpus.sampler(batch_size=8, log=folder)
        sampler.save()
        assert not folder.exists()
    draw = random.Random(2)
    last = 0
    for _ in range(often(12, less=5)):
        with dp.resume(path, log=folder) as sampler:
            saved = draw.randint(0, 4)
            for _ in range(saved):
                next(sampler)
            sampler.save()
            last = sampler.position
            for _ in range(draw.randint(0, 3)):
                next(sampler)  # taken, and lost with the process
    with dp.resume(path) as sampler:
        assert logged(folder).equals(sampler.served(0, last))


def test_what_was_logged_but_not_saved_is_not_logged_again(
    corpus: dp.Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    first = corpus.sampler(batch_size=8, log=folder)
    for _ in range(3):
        next(first)
    first.save(path=tmp_path / "elsewhere.duckdb")
    # As after a kill between writing the log and saving.
    second = corpus.sampler(batch_size=8, log=folder)
    for _ in range(5):
        next(second)
    second.save()
    assert logged(folder).equals(second.served(0, 40))
    assert len(list(folder.iterdir())) == 2


def test_jumps_leave_gaps(corpus: dp.Corpus, tmp_path: Path) -> None:
    sampler = corpus.sampler(batch_size=8, log=tmp_path / "log")
    next(sampler)
    sampler.move(80)
    next(sampler)
    sampler.move(40)
    next(sampler)
    sampler.save()
    assert logged(tmp_path / "log")["step"].to_pylist() == [0] * 8 + [5] * 8 + [10] * 8


def test_other_weights_draw_and_log_anew(corpus: dp.Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    sampler = corpus.sampler(batch_size=8, log=folder)
    for _ in range(6):
        next(sampler)
    state = sampler.state_dict()
    for _ in range(6):
        next(sampler)
    sampler.save()
    sampler.load_state_dict(state)
    sampler.set_weights({"a": 0})
    for _ in range(6):
        next(sampler)
    sampler.save()
    rows = logged(folder)
    assert rows.equals(sampler.served(0, 96))
    assert set(rows["source"].to_pylist()[48:]) == {"b"}


def test_one_rank_logs_for_all(corpus: dp.Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    ranks = [
        corpus.sampler(batch_size=4, rank=rank, world_size=2, log=folder, run=f"r {rank}/2")
        for rank in range(2)
    ]
    for sampler in ranks:
        for _ in range(3):
            next(sampler)
        sampler.save()
    assert logged(folder).equals(corpus.sampler(batch_size=8).served(0, 24))
    assert [file.name[:7] for file in folder.iterdir()] == ["r%200%2"]


def test_files_of_others_stay(tmp_path: Path) -> None:
    for name in (
        "notes.parquet",
        "run-1-2.parquet",
        "other-000000000000000-000000000000008.parquet",
    ):
        (tmp_path / name).write_text("x")
    log = ServedLog(tmp_path, "run", "abc")
    log.take(0, 4)
    log.forget_from(0)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_log_that_cannot_be_written_says_so(corpus: dp.Corpus, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    sampler = corpus.sampler(log=tmp_path / "log")
    next(sampler)
    with pytest.raises(dp.SamplerError, match=r"log=.*cannot write there"):
        sampler.save()


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    def rows(start: int, stop: int) -> Iterator[pa.Table]:
        yield pa.table({"position": list(range(start, stop))})
        raise OSError(errno.ENOSPC, "No space left on device")

    log = ServedLog(tmp_path / "log", "run", "abc")
    log.take(0, 8)
    with pytest.raises(dp.SamplerError, match="No space left"):
        log.bring_up_to_date(rows)
    assert not list((tmp_path / "log").iterdir())
    log.bring_up_to_date(lambda *span: iter([next(rows(*span))]))
    assert len(list((tmp_path / "log").iterdir())) == 1


def test_another_run_of_the_name_has_files_of_its_own(corpus: dp.Corpus, tmp_path: Path) -> None:
    for seed in (1, 2):
        sampler = corpus.sampler(batch_size=8, log=tmp_path / "log", seed=seed)
        next(sampler)
        sampler.save(path=tmp_path / f"{seed}.duckdb")
    assert len(list((tmp_path / "log").iterdir())) == 2


@pytest.mark.parametrize("log", [5, "", True])
def test_a_log_is_a_folder(corpus: dp.Corpus, log: Any) -> None:
    with pytest.raises(dp.SamplerError, match="log="):
        corpus.sampler(log=log)


def test_a_log_can_be_begun_on_resuming(corpus: dp.Corpus, tmp_path: Path) -> None:
    corpus.sampler(batch_size=8).save()
    sampler = corpus.resume(log=tmp_path / "log")
    next(sampler)
    sampler.save()
    assert logged(tmp_path / "log").equals(sampler.served(0, 8))
