"""SamplerDataset under a plain DataLoader: one order for any number of workers and ranks."""

import multiprocessing
import pickle
import threading
from itertools import chain, islice, product

import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import assert_refused, loader, plain  # noqa: E402
from corpora import counts_of  # noqa: E402
from effort import THOROUGH, often, some  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.adapters.torch import opening  # noqa: E402
from duckplets.adapters.torch.opening import RunOpening  # noqa: E402
from duckplets.torch import SamplerDataset  # noqa: E402

# A worker takes half a processor second, one that is spawned five: what starts workers starts few.
WORKERS = pytest.mark.parametrize("workers", some([0, 1, 3, 2], less=2))
COMMON = {"batch_size": 16, "seed": 7}

# ---- order


@WORKERS
def test_any_number_of_workers_gives_the_order_of_one_process(corpus_path, alone, workers):
    dataset = SamplerDataset(corpus_path, **COMMON, epochs=4)
    assert plain(loader(dataset, workers)) == alone


@pytest.mark.parametrize("workers", [0, often(2, less=1)])
def test_a_pass_begins_where_it_is_asked_to_and_an_endless_run_does_not_end(
    corpus_path, alone, workers
):
    dataset = SamplerDataset(corpus_path, **COMMON, epochs=4)
    batches = loader(dataset, workers)
    assert plain(islice(batches, 5)) == alone[:5]
    dataset.set_epoch(0)
    assert plain(batches) == alone
    endless = plain(islice(loader(SamplerDataset(corpus_path, **COMMON), workers), len(alone) + 3))
    assert endless[: len(alone) - 1] == alone[:-1]
    assert [batch["step"] for batch in endless] == list(range(len(alone) + 3))


def test_workers_open_what_is_open_in_their_parent(corpus_path, alone):
    dataset = SamplerDataset(corpus_path, **COMMON, epochs=4)
    here = iter(dataset)
    assert plain(islice(here, 3)) == alone[:3]
    for workers in some((2, 1), less=1):
        dataset.set_epoch(0)
        assert plain(loader(dataset, workers)) == alone
    assert plain(here) == alone[3:]


def test_workers_refuse_what_their_parent_writes(corpus_path, tmp_path):
    path = tmp_path / "c.duckdb"
    path.write_bytes(corpus_path.read_bytes())
    with dp.Corpus(path):
        dataset = SamplerDataset(path, **COMMON)
        assert_refused(
            loader(dataset, 1), dp.errors.CorpusLockedError, "close it there before forking"
        )
        if THOROUGH:
            spawned = loader(dataset, 1, multiprocessing_context="spawn")
            assert_refused(spawned, dp.errors.CorpusLockedError, "is open in process")


# ---- batches


class Inherited(torch.utils.data.IterableDataset):
    """What comes to mind first: iterate what was opened in the main process."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


@pytest.mark.parametrize("read_only", [True, False])
def test_workers_that_inherit_a_sampler_say_so_at_once(corpus_path, tmp_path, read_only):
    path = tmp_path / "c.duckdb"
    path.write_bytes(corpus_path.read_bytes())
    with dp.Corpus(path, read_only=read_only) as corpus, corpus.sampler(**COMMON) as sampler:
        first = next(sampler)
        batches = torch.utils.data.DataLoader(Inherited(sampler), batch_size=None, num_workers=2)
        with pytest.raises(Exception, match=r"let duckplets\.torch\.SamplerDataset do so"):
            list(batches)
        assert sampler.batch_at(0).table.equals(first.table)


def test_numbers_are_tensors_and_all_else_lists(corpus_path):
    kinds = {"weight": torch.float64, "swapped": torch.bool, "anchor_tokens": torch.int32}
    kinds["anchor_trust"] = torch.float64
    columns = ["anchor", *kinds, "anchor_meta", "source"]
    batch = next(iter(SamplerDataset(corpus_path, **COMMON, columns=columns)))
    found = {name: batch[name].dtype for name in columns if isinstance(batch[name], torch.Tensor)}
    assert found == kinds
    assert all(len(batch[name]) == 16 for name in columns)
    assert all(isinstance(text, str) for text in batch["anchor"] + batch["source"])
    assert batch["step"] == 0
    batch["weight"].mul_(2)  # its memory is its own


# ---- ranks


@pytest.mark.parametrize(("world_size", "workers"), some([(2, 2), (2, 0), (4, 2), (4, 0)], less=2))
def test_slices_of_all_ranks_are_the_batches(corpus_path, alone, world_size, workers):
    slices = []
    for rank in range(world_size):
        how = {"batch_size": 16 // world_size, "rank": rank, "world_size": world_size}
        dataset = SamplerDataset(corpus_path, **how, seed=7, epochs=4)
        slices.append(plain(loader(dataset, workers)))
    for parts, whole in zip(zip(*slices, strict=True), alone, strict=True):
        assert [part["step"] for part in parts] == [whole["step"]] * world_size
        for column in ("anchor", "negative", "weight"):
            assert list(chain(*(part[column] for part in parts))) == whole[column]


def test_ranks_are_those_of_torch_distributed(corpus_path, alone, monkeypatch):
    dataset = SamplerDataset(corpus_path, batch_size=8, seed=7)
    given = SamplerDataset(corpus_path, batch_size=8, seed=7, rank=0, world_size=2)
    monkeypatch.setattr(opening.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(opening.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(opening.distributed, "get_world_size", lambda: 2)
    assert next(iter(dataset))["anchor"] == alone[0]["anchor"][8:]
    assert next(iter(given))["anchor"] == alone[0]["anchor"][:8]
    # A process that is spawned has to be told.
    pickled = pickle.dumps(dataset)
    monkeypatch.undo()
    dataset.set_epoch(0)
    spawned = pickle.loads(pickled)
    spawned.set_epoch(0)
    assert next(iter(spawned))["anchor"] == alone[0]["anchor"][8:]
    assert next(iter(dataset))["anchor"] == alone[0]["anchor"][:8]


# ---- errors


def test_arguments_are_checked_where_they_are_given(corpus_path):
    with pytest.raises(dp.SamplerError, match=r"'bach_size' \(did you mean 'batch_size'\?"):
        SamplerDataset(corpus_path, bach_size=4)
    with pytest.raises(dp.SamplerError, match=r"'optons' \(did you mean 'options'\?"):
        SamplerDataset.resume(corpus_path, optons=dp.Options(prefetch=4))


@pytest.mark.parametrize(
    ("workers", "columns"), some(product([0, 1], [None, ["anchor"], ["weight"]]), less=4)
)
def test_batches_of_batches_are_refused(corpus_path, workers, columns):
    dataset = SamplerDataset(corpus_path, **COMMON, columns=columns)
    batches = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=workers)
    assert_refused(batches, dp.SamplerError, r"use DataLoader\(dataset, batch_size=None")
    dataset.set_epoch(0)
    own = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=list)
    assert [batch["step"] for batch in next(iter(own))] == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, often(2, less=1)])
def test_errors_come_with_their_message(corpus_path, workers):
    nowhere = SamplerDataset(corpus_path.with_name("nowhere.duckdb"))
    assert_refused(loader(nowhere, workers), dp.errors.MigrationError, r"nowhere\.duckdb")
    wrong = SamplerDataset(corpus_path, mixture={"onne": 1.0})
    assert_refused(loader(wrong, workers), dp.errors.MixtureError, "did you mean 'one'")
    other = SamplerDataset(corpus_path, rank=2, world_size=2)
    assert_refused(loader(other, workers), dp.SamplerError, r"rank=2.*0 to 1")


# ---- what it takes and leaves


def test_breaking_out_leaves_nothing_behind(corpus_path):
    for workers in (0, 2):
        for batch in loader(
            SamplerDataset(corpus_path, **COMMON, options=dp.Options(prefetch=2)), workers
        ):
            if batch["step"] == 2:
                break
        with dp.Corpus(corpus_path):  # nobody has it open; at once, threads look once a second
            assert not [t for t in threading.enumerate() if t.name.startswith("duckplets")]
        assert not multiprocessing.active_children()


def test_workers_share_memory_and_threads(corpus_path, monkeypatch):
    opened = []

    class Recorded(dp.Corpus):
        def __init__(self, path, **options):
            opened.append((options.get("memory_limit"), options.get("threads")))
            super().__init__(path, **options)

    monkeypatch.setattr(opening, "Corpus", Recorded)
    monkeypatch.setattr(opening.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    by_itself = RunOpening(dp.Corpus, corpus_path, {}, None, None, {})
    for workers in (None, 1, 2, 4, 16):
        by_itself.open(workers).close()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    by_itself.open(1).close()
    how = {"memory_limit": "300MB", "threads": 3}
    RunOpening(dp.Corpus, corpus_path, {}, None, None, how).open(4).close()
    assert opened == [
        *((None, None), ("1024MB", 8), ("512MB", 4), ("256MB", 2), ("256MB", 1)),
        *(("512MB", 4), ("300MB", 3)),
    ]


# ---- metrics

MIXED = dp.Mixture({"one": 3}, phases=[dp.Phase(4, {"one": 0}, 0.5)], omitted=1)


@pytest.mark.parametrize("workers", [0, often(2, less=1)])
def test_metrics_are_those_of_one_process(corpus_path, workers):
    given = {**COMMON, "mixture": MIXED, "steps": 9}
    dataset = SamplerDataset(corpus_path, **given)
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(**given)
        for batch in loader(dataset, workers):
            assert next(sampler).step == batch["step"]
            assert dataset.metrics(batch["step"] + 1) == counts_of(sampler)
            assert dataset.lr_scale(batch["step"]) == sampler.lr_scale
            if not workers:
                assert counts_of(dataset) == counts_of(sampler)
        assert dataset.metrics(9)["data/two/samples"] > 80
        again = corpus.sampler(**given)
        next(again)
        assert dataset.metrics(1) == counts_of(again)  # from the start
    if workers:
        with pytest.raises(dp.SamplerError, match="workers are ahead"):
            dataset.metrics()
    pickle.loads(pickle.dumps(dataset))


@pytest.mark.parametrize("workers", some([2, 0], less=1))
def test_losses_are_saved_by_the_process_that_trains(corpus_path, tmp_path, workers):
    state = tmp_path / "run.state.duckdb"
    dataset = SamplerDataset(corpus_path, batch_size=16, seed=7, options=dp.Options(state=state))
    told = []
    for batch in islice(loader(dataset, workers), 8):
        step, source = batch["step"], batch["source"][0]
        losses = dataset.loss_by_source(batch, torch.full((16,), 2.0 / (step + 1)))
        dataset.report_loss(losses, step=step)
        told += [(step, name.removeprefix("loss/"), loss) for name, loss in losses.items()]
        assert f"loss/{source}" in losses
        if step in (3, 7):
            dataset.save(step=step + 1)
    with dp.resume(corpus_path, state=state) as sampler:
        assert sampler.step == 8
        assert [tuple(row.values()) for row in sampler.losses().to_pylist()] == sorted(told)
    resumed = SamplerDataset.resume(corpus_path, state=state)
    (name,) = {name for _, name, _ in told if name == told[-1][1]}
    resumed.report_loss({name: 9.0}, step=8)
    resumed.save(step=9)
    with dp.resume(corpus_path, state=state) as sampler:
        rows = [tuple(row.values()) for row in sampler.losses().to_pylist()]
        assert rows == [*sorted(told), (8, name, 9.0)]


def test_losses_of_samples_are_saved_with_those_of_their_rank(corpus_path, tmp_path):
    given = {"batch_size": 8, "seed": 7, "steps": 6, "world_size": 2}
    dataset = SamplerDataset(
        corpus_path, **given, rank=1, options=dp.Options(state=tmp_path / "run.state.duckdb")
    )
    for batch in loader(dataset):
        losses = torch.arange(8.0) + 10 * batch["step"]
        dataset.report_loss(step=batch["step"], per_sample=losses)
        if batch["step"] in (2, 5):
            dataset.save(step=batch["step"] + 1)
    for wrong in ([1.0] * 16, [float("nan")] * 8, ["a"] * 8):
        with pytest.raises(dp.SamplerError, match="per_sample"):
            dataset.report_loss(step=1, per_sample=wrong)
    with pytest.raises(dp.SamplerError, match="a batch of 0 samples"):
        dataset.report_loss(step=6, per_sample=[1.0] * 8)
    with pytest.raises(dp.SamplerError, match="give the losses of sources, or per_sample="):
        dataset.report_loss(step=1)
    with dp.resume(corpus_path, state=tmp_path / "run.state.duckdb") as sampler:
        worst = sampler.worst(48)
    assert worst["loss"].to_pylist() == sorted(
        (float(i + 10 * step) for i in range(8) for step in range(6)), reverse=True
    )
    assert worst["position"][0].as_py() == 5 * 16 + 15, "the last sample of rank 1"
