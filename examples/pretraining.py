"""Train a tiny language model on token shards: two ranks are killed, and one continues.

python examples/pretraining.py

Two sources become shards of tokens. A training configuration mixes them, and changes the mix
and the learning rate on the way. Two ranks train and are killed. One rank continues from the
last save with the whole batch. It serves the same rows as an unbroken run.
"""

import os
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn

import duckplets as dp

DATA = Path(__file__).parent / "data"
BATCH, LENGTH, STEPS = 8, 64, 60  # rows of all ranks together, tokens, steps
KILLED, SAVED = 25, 20
CONFIG = """
[mixture]
weights = { faq = 0.7, manual = 0.3 }

[[mixture.phases]]
start_step = 40
weights = { faq = 0.2, manual = 0.8 }
lr_scale = 0.5
"""


class Model(nn.Module):
    """One layer that sees what comes before in the same text."""

    def __init__(self, vocabulary: int, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def losses(self, batch: dp.TokenBatch) -> torch.Tensor:
        """Return the mean loss of every row."""
        ids, positions, texts = (
            torch.from_numpy(batch[name]).long()
            for name in ("input_ids", "position_ids", "document_ids")
        )
        other = texts[:, :, None] != texts[:, None, :]
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        mask = (other | later).repeat_interleave(2, 0)  # for each head
        found = self.out(self.layer(self.tokens(ids) + self.places(positions), mask))
        wanted = torch.where(texts[:, 1:] == texts[:, :-1], ids[:, 1:], -100)
        loss = nn.functional.cross_entropy(found[:, :-1].mT, wanted, reduction="none")
        return loss.sum(1) / (wanted != -100).sum(1).clamp(min=1)


def train(rank: int, ranks: int, shards: str, folder: str) -> None:
    """Train as one of some ranks, from the last save if there is one; all are killed once."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting{ranks}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    checkpoint = Path(folder) / "model.pt"
    part = {"rank": rank, "world_size": ranks}
    with dp.TokenShards(shards) as opened:
        model = Model(opened.manifest.tokenizer.vocab_size)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if checkpoint.exists():
            sampler = opened.resume(**part)
            kept = torch.load(checkpoint)
            model.load_state_dict(kept["model"])
            optimiser.load_state_dict(kept["optimiser"])
            print(f"goes on at step {sampler.step} with {ranks} rank")
        else:
            how = {"seq_length": LENGTH, "pack": True, "steps": STEPS}
            mixture = f"{folder}/config.toml"
            sampler = opened.sampler(mixture=mixture, batch_size=BATCH // ranks, **how, **part)
        sums = defaultdict(list)
        for batch in sampler:
            losses = model.losses(batch)
            optimiser.param_groups[0]["lr"] = 1e-2 * sampler.lr_scale
            optimiser.zero_grad()
            losses.mean().backward()
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
                parameter.grad /= ranks
            optimiser.step()
            for name, loss in sampler.loss_by_source(batch, losses.detach()).items():
                sums[name].append(loss)
            if rank == 0 and sampler.step % 10 == 0:
                means = (f"{name} {sum(of) / len(of):.2f}" for name, of in sorted(sums.items()))
                print(f"step {sampler.step}, lr x {sampler.lr_scale:g}: {', '.join(means)}")
                sums.clear()
            if rank == 0 and sampler.step == SAVED:
                kept = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
                torch.save(kept, checkpoint)
                sampler.save()
            if ranks == 2 and sampler.step == KILLED:
                distributed.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0:
            sampler.save(tag="end")
    distributed.destroy_process_group()


def make(folder: Path) -> Path:
    """Write two sources as token shards, and return their folder."""
    with dp.Corpus(folder / "library.duckdb") as corpus:
        for name in ("faq", "manual"):
            source = dp.Source(DATA / f"{name}.csv", anchor="question", positive="answer")
            corpus.ingest(source, name=name, progress=False)
        corpus.split()
        dp.train_tokenizer(corpus, folder / "tokenizer", vocab_size=500, progress=False)
        corpus.shard(
            folder / "shards", tokenizer=folder / "tokenizer", buckets=(32, 64), progress=False
        )
    return folder / "shards"


def main() -> None:
    """Train with two ranks, which are killed, then with one; compare with an unbroken run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shards = make(folder)
        (folder / "config.toml").write_text(CONFIG)
        try:
            multiprocessing.spawn(train, args=(2, str(shards), temporary), nprocs=2)
        except multiprocessing.ProcessExitedException as error:
            print(f"killed at step {KILLED}: {error}")
        multiprocessing.spawn(train, args=(1, str(shards), temporary), nprocs=1)
        with dp.TokenShards(shards) as opened:
            how = {"mixture": folder / "config.toml", "seq_length": LENGTH, "pack": True}
            unbroken = opened.sampler(batch_size=BATCH, **how, steps=STEPS, run="unbroken")
            for _ in unbroken:
                pass
            counts = [
                {name: of for name, of in sampler.metrics().items() if name.startswith("data/")}
                for sampler in (opened.resume(tag="end"), unbroken)
            ]
            same = counts[0] == counts[1]
        print(f"samples and tokens of each source are those of an unbroken run: {same}")
        assert same


if __name__ == "__main__":
    main()
