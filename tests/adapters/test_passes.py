"""A trainer that iterates a bounded run again gets its next epoch, in every process."""

import json
import logging
import pickle
from itertools import chain, islice, product

import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import loader, plain  # noqa: E402
from effort import some  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.torch import SamplerDataset  # noqa: E402

COMMON = {"batch_size": 16, "seed": 7}
EPOCH = 194  # anchors: 12 batches, and two samples
PASSES = 3


@pytest.fixture(scope="module")
def epochs(alone):
    """The anchors of each of three epochs, as one run of several has them."""
    taken = list(chain(*(batch["anchor"] for batch in alone)))
    return [taken[EPOCH * e : EPOCH * (e + 1)] for e in range(PASSES)]


def fresh(path, **arguments):
    return SamplerDataset(path, **COMMON, **{"epochs": 1, **arguments})


def taken(batches):
    return list(chain(*(batch["anchor"] for batch in batches)))


# ---- one after the other


@pytest.mark.parametrize(
    ("workers", "options"),
    [
        (0, {}),
        (2, {}),
        (2, {"persistent_workers": True}),
        *some([(1, {"multiprocessing_context": how}) for how in ("spawn", "forkserver")], less=0),
    ],
)
def test_each_pass_is_the_next_epoch(corpus_path, epochs, workers, options):
    dataset = fresh(corpus_path)
    batches = loader(dataset, workers, **options)
    for epoch in epochs:
        torch.manual_seed(1)  # workers of all passes are seeded alike
        found = list(batches)
        assert len(found) == len(dataset) == 13
        assert taken(found) == epoch
    dataset.set_epoch(1)
    assert taken(batches) == epochs[1], "set_epoch wins"
    assert taken(batches) == epochs[2]


def test_the_number_of_workers_may_change_between_passes(corpus_path, epochs):
    dataset = fresh(corpus_path)
    assert [taken(loader(dataset, workers)) for workers in (2, 0, 3)] == epochs


def test_passes_of_steps_and_of_an_endless_run(corpus_path, alone, epochs):
    dataset = fresh(corpus_path, epochs=None, steps=6)
    assert [batch["step"] for _ in range(3) for batch in dataset] == list(range(18))
    assert taken(dataset) == taken(alone[18:24])
    dataset.set_epoch(0)
    same = loader(list(dataset))  # for evaluation
    assert taken(same) == taken(same) == taken(alone[:6])
    endless = fresh(corpus_path, epochs=None)
    for epoch in epochs:  # as a trainer that stops each of its epochs early
        assert taken(islice(endless, 3)) == epoch[:48]


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({"options": dp.Options(remainder="drop")}, [192] * 3),
        ({"options": dp.Options(remainder="pad")}, [208] * 3),
        ({"epochs": 2}, [388] * 3),
        ({"epochs": 2, "steps": 3}, [48] * 3),
        ({"no_duplicates": True}, [194, 196, 198]),
        ({"batch_by": "source"}, [194, 196, 198]),
    ],
    ids=str,
)
def test_every_pass_is_bounded_as_the_first(corpus_path, given, counts):
    dataset = fresh(corpus_path, **given)
    passes = [plain(dataset) for _ in range(3)]
    assert [len(taken(each)) for each in passes] == counts
    assert len({len(each) for each in passes}) == 1
    for batch in chain(*passes):
        if "no_duplicates" in given:
            texts = [*batch["anchor"], *batch["positive"], *batch["negative"]]
            assert len({*texts}) == len(texts)
    if "batch_by" in given:  # the rests of both sources fill a batch, which two passes may have
        mixed = [sum(len({*batch["source"]}) > 1 for batch in each) for each in passes]
        assert max(mixed) <= 2
    if "padded" in passes[2][0]:
        assert [sum(batch["padded"]) for batch in passes[2]] == [0] * 12 + [14]
    assert taken(passes[0]) != taken(passes[1])[: counts[0]]


def test_ranks_have_the_same_passes(corpus_path, epochs):
    ranks = [
        SamplerDataset(corpus_path, batch_size=8, seed=7, epochs=1, rank=rank, world_size=2)
        for rank in (0, 1)
    ]
    for epoch in epochs[:2]:
        slices = [plain(dataset) for dataset in ranks]
        both = chain(*(one["anchor"] + two["anchor"] for one, two in zip(*slices, strict=True)))
        assert list(both) == epoch


# ---- states


@pytest.mark.parametrize(("workers", "whole"), some(product((0, 2), (True, False)), less=4))
def test_a_state_goes_on_within_its_pass(corpus_path, epochs, workers, whole):
    dataset = fresh(corpus_path)
    taken(loader(dataset, workers))
    batches = loader(dataset, workers)
    first = taken(batches if whole else islice(batches, 5))
    step = 12 + (13 if whole else 5)
    state = json.loads(json.dumps(dataset.state_dict(step=step)))
    for asked in (None, 1):
        other = fresh(corpus_path)
        other.load_state_dict(state)
        if asked is not None:  # as a loop over epochs does
            other.set_epoch(asked)
        assert first + taken(loader(other, workers)) == epochs[1]
        assert taken(loader(other, workers)) == epochs[2]
        other.set_epoch(1)
        assert taken(other) == epochs[1], "whole, once it was begun"
    with pytest.raises(dp.SamplerError, match=r"step=3: give an integer from 12 to 25"):
        dataset.state_dict(step=3)


def test_states_without_workers_and_metrics_count_over_passes(corpus_path, tmp_path):
    dataset = fresh(corpus_path, options=dp.Options(state=tmp_path / "s.duckdb"))
    list(dataset)
    batches = iter(dataset)
    for batch in islice(batches, 4):
        dataset.report_loss({"one": 1.0}, step=batch["step"])
    assert dataset.state_dict()["position"] == EPOCH + 64
    counted = dataset.metrics(step=batch["step"] + 1)
    assert sum(of for name, of in counted.items() if name.endswith("samples")) == EPOCH + 64
    dataset.save(step=batch["step"] + 1)
    rest = taken(batches)
    resumed = SamplerDataset.resume(corpus_path, state=tmp_path / "s.duckdb")
    assert taken(resumed) == rest
    assert taken(resumed) == taken(dataset)
    with dp.resume(corpus_path, state=tmp_path / "s.duckdb") as sampler:
        assert taken(sampler) == rest
    with pytest.raises(dp.SamplerError, match="beyond the end of this run"):
        dp.resume(corpus_path, state=tmp_path / "s.duckdb", steps=3)


@pytest.mark.parametrize("workers", some([2, 0], less=2))
def test_a_stateful_loader_resumes_in_a_later_pass(corpus_path, epochs, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def made():
        dataset = fresh(corpus_path)
        return dataset, stateful(dataset, batch_size=None, num_workers=workers)

    _, batches = made()
    assert taken(batches) == epochs[0]
    first = taken(islice(batches, 5))
    state = batches.state_dict()
    _, resumed = made()
    resumed.load_state_dict(state)
    assert first + taken(resumed) == epochs[1]
    assert taken(resumed) == epochs[2]
    dataset, _ = made()
    dataset.load_state_dict(dataset.state_dict(step=5))  # the way on with other workers
    assert taken(loader(dataset, 1)) == epochs[0][80:]


def test_a_process_without_shared_memory_says_so_once(corpus_path, monkeypatch, caplog, epochs):
    def refuse(self):
        raise RuntimeError("unable to open shared memory object")

    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse)
    with caplog.at_level(logging.WARNING, "duckplets"):
        dataset = fresh(corpus_path)
        for epoch in (0, 1):
            dataset.set_epoch(epoch)
            assert taken(loader(dataset, 1)) == epochs[epoch]
    assert [record.getMessage() for record in caplog.records] == [
        "this process cannot share memory with workers of a DataLoader, so they do not count "
        "passes: call set_epoch(epoch) before each pass"
    ]


def test_a_pickled_dataset_counts_passes_of_its_own(corpus_path, epochs):
    dataset = fresh(corpus_path)
    taken(dataset)
    other = pickle.loads(pickle.dumps(dataset))
    assert [taken(loader(other, 1)), taken(dataset)] == [epochs[1], epochs[1]]
    assert taken(loader(other, 1)) == epochs[2]


# ---- rows of a trainer


def test_rows_go_on_with_the_next_epoch(corpus_path, epochs):
    pytest.importorskip("datasets")
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(**COMMON, epochs=1)
        rows = sampler.to_hf()
        assert [[row["anchor"] for row in rows] for _ in epochs] == epochs
        rows.set_epoch(1)
        assert [row["anchor"] for row in rows] == epochs[1]
        rows.set_epoch(0)
        assert [row["anchor"] for row in rows] == epochs[0]
        sampler.set_epoch(1)  # at the end of the run
        with pytest.raises(
            dp.SamplerError, match=r"is at its end, position .*open it with more steps="
        ):
            sampler.to_hf()
