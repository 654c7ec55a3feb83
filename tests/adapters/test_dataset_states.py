"""States of a SamplerDataset: told by a step, loaded once, and exact with torchdata."""

from itertools import islice

import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import anchors, assert_refused, loader, steps  # noqa: E402
from effort import often, some  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.torch import SamplerDataset  # noqa: E402

COMMON = {"batch_size": 16, "seed": 7}


def fresh(path, **arguments):
    return SamplerDataset(path, **COMMON, **{"epochs": 4, **arguments})


# ---- by step


def test_every_step_has_a_state_the_last_included(corpus_path, alone):
    dataset = fresh(corpus_path)
    for step in (0, 17, len(alone)):
        dataset.load_state_dict(dataset.state_dict(step=step))
        assert steps(islice(dataset, 2)) == steps(alone[step : step + 2])
    for wrong in (-1, len(alone) + 1, True):
        with pytest.raises(dp.SamplerError, match=f"step={wrong}"):
            dataset.state_dict(step=wrong)


def test_without_a_step_workers_make_it_an_error(corpus_path, alone):
    dataset = fresh(corpus_path)
    assert dataset.state_dict()["position"] == 0  # nobody has begun
    batches = iter(loader(dataset, 2))
    next(batches)
    with pytest.raises(dp.SamplerError, match=r"state_dict\(step=batch\[\"step\"\] \+ 1\)"):
        dataset.state_dict()
    dataset.load_state_dict(dataset.state_dict(step=3))
    assert dataset.state_dict()["position"] == 48
    here = iter(dataset)
    assert anchors(islice(here, 2)) == anchors(alone[3:5])
    assert dataset.state_dict()["position"] == 80


@pytest.mark.parametrize("workers", [0, often(2, less=1)])
def test_a_loaded_state_is_for_one_iteration(corpus_path, alone, workers):
    dataset = fresh(corpus_path)
    dataset.load_state_dict(dataset.state_dict(step=40))
    batches = loader(dataset, workers)
    assert steps(batches) == steps(alone[40:])
    last = steps(alone)[-1]
    assert steps(batches)[0] in (last, last + 1), "the next pass"
    dataset.set_epoch(0)
    assert steps(dataset) == steps(alone)


def test_workers_that_cannot_know_of_a_loaded_state_say_so(corpus_path):
    dataset = fresh(corpus_path)
    batches = loader(dataset, 2, persistent_workers=True)
    assert steps(batches)
    dataset.load_state_dict(dataset.state_dict(step=40))
    assert_refused(batches, dp.SamplerError, "make a new DataLoader")
    assert steps(loader(dataset, 2))[0] == 40


# ---- with samplers and saved runs


def test_another_world_size_goes_on(corpus_path, alone):
    two = [
        SamplerDataset(corpus_path, batch_size=8, seed=7, epochs=4, rank=rank, world_size=2)
        for rank in (0, 1)
    ]
    states = [dataset.state_dict(step=9) for dataset in two]
    assert states[0] == states[1]
    one = fresh(corpus_path)
    one.load_state_dict(states[0])
    assert anchors(loader(one, 2)) == anchors(alone[9:])
    three = SamplerDataset(corpus_path, batch_size=8, seed=7, epochs=4, rank=0, world_size=3)
    three.load_state_dict(states[0])
    with pytest.raises(dp.StateMismatchError, match=r"batch_size \(saved: 16, now: 24\)"):
        next(iter(three))


def test_a_state_of_another_run_is_refused_in_workers(corpus_path):
    state = fresh(corpus_path).state_dict(step=4)
    other = SamplerDataset(corpus_path, batch_size=16, seed=8)
    other.load_state_dict(state)
    assert_refused(loader(other, 1), dp.StateMismatchError, r"seed \(saved: 7, now: 8\)")
    other.load_state_dict(state, allow_drift=("seed",))
    assert next(iter(loader(other, 1)))["step"] == 4
    other.load_state_dict({"epoch": 3})
    with pytest.raises(dp.StateMismatchError, match="not a sampler's state"):
        next(iter(other))


def test_saved_runs_are_resumed_and_saved_again(corpus_path, alone, tmp_path):
    state = tmp_path / "runs.duckdb"
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(**COMMON, epochs=4, run="mine", options=dp.Options(state=state))
        next(sampler)
        sampler.save()
    dataset = SamplerDataset.resume(corpus_path, "mine", state=state)
    assert anchors(loader(dataset, 2)) == anchors(alone[1:])
    assert len(dataset) == len(alone)
    dataset.save(step=20)
    dataset.save("tagged", step=30)
    half = SamplerDataset.resume(corpus_path, "mine", state=state, rank=1, world_size=2)
    assert next(iter(half))["anchor"] == alone[20]["anchor"][8:]
    tagged = SamplerDataset.resume(corpus_path, "mine", "tagged", state)
    assert steps(tagged) == steps(alone[30:])
    with dp.resume(corpus_path, "mine", state=state) as sampler:
        assert sampler.step == 20


# ---- checkpoints of others


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_distributed_checkpoint_has_the_state_whole(corpus_path, alone, tmp_path):
    """It restores what it finds in the new process as well: weights set on the way, and more."""
    from torch.distributed import checkpoint

    def stored(dataset, name):
        checkpoint.save({"data": dataset}, checkpoint_id=tmp_path / name, no_dist=True)
        return lambda other: checkpoint.load(
            {"data": other}, checkpoint_id=tmp_path / name, no_dist=True
        )

    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(**COMMON)
        next(sampler)
        sampler.set_weights({"one": 9})
        next(sampler)
        weighted, other = (
            SamplerDataset(corpus_path, **COMMON),
            SamplerDataset(corpus_path, **COMMON),
        )
        weighted.load_state_dict(sampler.state_dict())
        stored(weighted, "weights")(other)
        assert next(iter(other))["anchor"] == next(sampler)["anchor"]
        sampler.load_state_dict(weighted.state_dict(step=2))
        assert sampler.step == 2
    batched = SamplerDataset(corpus_path, **COMMON, batch_by="source")
    plain = SamplerDataset(corpus_path, **COMMON)
    stored(batched, "keys")(plain)
    with pytest.raises(dp.StateMismatchError, match="batch_by"):
        next(iter(plain))
    with pytest.raises(dp.StateMismatchError, match="damaged"):
        plain.load_state_dict({"position": 0, "run": "{"})


# ---- torchdata


@pytest.mark.parametrize("workers", some([0, 1, 3, 2], less=2))
def test_a_stateful_loader_resumes_in_the_middle(corpus_path, alone, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    for taken in some((7, 47, len(alone)), less=2):
        batches = stateful(fresh(corpus_path), batch_size=None, num_workers=workers)
        first = anchors(islice(batches, taken))
        state = batches.state_dict()
        resumed = stateful(fresh(corpus_path), batch_size=None, num_workers=workers)
        resumed.load_state_dict(state)
        assert first + anchors(resumed) == anchors(alone), taken
    seen = anchors(resumed)  # the next pass is whole, and has other samples
    assert len(seen) == len(alone)
    assert seen != anchors(alone)
