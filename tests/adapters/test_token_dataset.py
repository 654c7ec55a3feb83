"""TokenDataset under a plain DataLoader: one order for any number of workers and ranks."""

from itertools import islice

import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import assert_refused, loader, plain  # noqa: E402
from effort import often, some  # noqa: E402
from token_shards import lengths_of, numbered, write_shards  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.torch import TokenDataset  # noqa: E402

COMMON = {"batch_size": 6, "seq_length": 24, "pack": True, "seed": 7, "epochs": 2}
WORKERS = pytest.mark.parametrize("workers", some([0, 1, 3, 2], less=2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    texts = {name: numbered(lengths_of(90, seed)) for seed, name in enumerate(["one", "two"])}
    return write_shards(tmp_path_factory.mktemp("tokens") / "shards", {"train": texts})


@pytest.fixture(scope="module")
def alone(folder):
    """The batches of one process; the last is short."""
    with dp.TokenShards(folder) as shards:
        found = [
            {**{k: list(map(_plain, v)) for k, v in batch.to_pydict().items()}, "step": batch.step}
            for batch in shards.sampler(**COMMON)
        ]
    assert len(found[-1]["row"]) < 6
    return found


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


@WORKERS
def test_any_number_of_workers_gives_the_order_of_one_process(folder, alone, workers):
    dataset = TokenDataset(folder, **COMMON)
    found = list(loader(dataset, workers))
    assert plain(found) == alone
    assert {found[0][name].dtype for name in ("input_ids", "document_ids")} == {torch.int32}
    assert len(dataset) == len(alone)


@WORKERS
def test_a_state_by_step_goes_on_with_other_workers(folder, alone, workers):
    dataset = TokenDataset(folder, **COMMON)
    taken = plain(islice(loader(dataset, workers), 4))
    state = dataset.state_dict(step=taken[-1]["step"] + 1)
    other = TokenDataset(folder, **COMMON)
    other.load_state_dict(state)
    assert plain(loader(other, 2 - workers % 2)) == alone[4:]


def test_ranks_share_batches_and_a_saved_run_goes_on(folder, alone, tmp_path):
    path = tmp_path / "s.duckdb"
    ranks = [
        TokenDataset(folder, **{**COMMON, "batch_size": 3}, rank=rank, world_size=2, state=path)
        for rank in range(2)
    ]
    batches = [plain(loader(dataset, often(1, less=rank))) for rank, dataset in enumerate(ranks)]
    both = [
        {k: v if k == "step" else v + two[k] for k, v in one.items()}
        for one, two in zip(*batches, strict=True)
    ]
    assert both == alone
    ranks[0].save(step=5)
    resumed = TokenDataset.resume(folder, state=path, world_size=1)
    assert plain(loader(resumed, 2)) == alone[5:]
    assert repr(resumed) == f"TokenDataset({str(folder)!r})"


def test_mistakes_are_named(folder, tmp_path):
    with pytest.raises(dp.SamplerError, match="did you mean 'seq_length'"):
        TokenDataset(folder, seq_lenght=4)
    assert_refused(loader(TokenDataset(tmp_path / "none"), 1), dp.errors.ShardError, "manifest")
