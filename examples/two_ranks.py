"""Let two ranks read one run under torch.distributed; then one rank continues.

python examples/two_ranks.py

Each rank takes its slice of every batch. The sum over the ranks must equal the sum over the
batches of one process, also after the number of ranks changes.
"""

import tempfile
from pathlib import Path

import torch
from torch import distributed, multiprocessing
from torch.utils.data import DataLoader

import duckplets as dp
from duckplets.torch import SamplerDataset

FAQ = Path(__file__).parent / "data" / "faq.csv"
BATCH = 8  # of all ranks together
STEPS = 12
STOP = 7  # where the two ranks stop


def main() -> None:
    """Let two ranks take some steps, one rank the rest, and compare with one that took all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faq.duckdb"
        with dp.Corpus(path) as corpus:
            corpus.ingest(dp.Source(FAQ, anchor="question", positive="answer"), name="faq")
            corpus.split()
        multiprocessing.spawn(two_ranks, args=(path, folder), nprocs=2)
        slices = [torch.load(Path(folder) / f"rank{rank}.pt") for rank in (0, 1)]

        rest = SamplerDataset(path, batch_size=BATCH, seed=7, steps=STEPS)
        rest.load_state_dict(torch.load(Path(folder) / "checkpoint.pt"))
        taken = [first + second for first, second in zip(*slices, strict=True)]
        taken += [batch["anchor"] for batch in DataLoader(rest, batch_size=None, num_workers=2)]

        with dp.Corpus(path, read_only=True) as corpus:
            alone = [b["anchor"] for b in corpus.sampler(batch_size=BATCH, seed=7, steps=STEPS)]
        same = taken == alone
        print(f"{STOP} steps by two ranks, {STEPS - STOP} by one: the batches of one: {same}")
        assert same


def two_ranks(rank: int, path: Path, folder: str) -> None:
    """Take a rank's slices of the first steps; rank 0 keeps a checkpoint."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    dataset = SamplerDataset(path, batch_size=BATCH // 2, seed=7, steps=STEPS)
    slices = []
    for batch in DataLoader(dataset, batch_size=None, num_workers=1):
        slices.append(batch["anchor"])
        # Like gradients: every rank gets the sum over the batch of all ranks.
        total = torch.tensor([sum(map(len, batch["anchor"])), len(batch["anchor"])])
        distributed.all_reduce(total)
        if rank == 0:
            print(f"step {batch['step']}: {total[0]} characters in {total[1]} anchors of 2 ranks")
        if batch["step"] + 1 == STOP:
            break
    if rank == 0:
        torch.save(dataset.state_dict(step=STOP), Path(folder) / "checkpoint.pt")
    torch.save(slices, Path(folder) / f"rank{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
