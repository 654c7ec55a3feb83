"""Mine again with the model in training, and resume after a kill with the same negatives.

pip install 'duckplets[torch]'
python examples/mining_again.py

Hard negatives of an untrained model are soft ones for a trained one. Every 20 steps all texts
are embedded again and mined by their vectors, while the run stays open. From the next step it
draws these candidates. Anchors and their order stay as they are. A save has it on record.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
import zlib
from itertools import islice
from pathlib import Path

import torch
from torch import nn

import duckplets as dp
from duckplets.cli.demo import docstrings

RECORDS, BATCH = 300, 16
STEPS, MINED_EVERY, SAVED_EVERY, KILLED_AFTER = 60, 20, 10, 47
# what scores above the positive too: the model is untrained
HARD = dp.Negatives(by="dense", range_max=8, relative_margin=-1)
SLOTS = ("anchor", "positive", "negative")


class Encoder(nn.Module):
    """A vector for each of some thousand buckets of pieces; a text has their mean."""

    BUCKETS = 4096

    def __init__(self) -> None:
        super().__init__()
        self.pieces = nn.EmbeddingBag(self.BUCKETS, 64, mode="mean")

    def forward(self, texts: list[str]) -> torch.Tensor:
        """Return a vector of length 1 for each text."""
        numbers = [
            [zlib.crc32(text[at : at + 4].casefold().encode()) % self.BUCKETS for at in range(100)]
            for text in texts
        ]
        return nn.functional.normalize(self.pieces(torch.tensor(numbers)))


def mine_again(corpus: dp.Corpus, model: Encoder, name: str) -> None:
    """Embed every text of train by the model as it is, and mine by these vectors."""
    with torch.no_grad():
        corpus.embed(lambda texts: model(texts).numpy(), name, split="train", progress=False)
        corpus.mine("anchor_context", by=dp.Dense(name), split="train", progress=False)


def train(path: Path, killed_after: int | None = None) -> dict[int, list[str]]:
    """Train up to the last step, from a checkpoint where there is one; return negatives by step."""
    torch.manual_seed(7)
    torch.set_num_threads(1)  # more of them add numbers in another order
    checkpoint, negatives = path.with_suffix(".pt"), {}
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with dp.Corpus(path) as corpus:
        if checkpoint.exists():
            saved = torch.load(checkpoint)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            sampler = corpus.resume(tag=saved["tag"])
        else:
            mine_again(corpus, model, "step-0")
            sampler = corpus.sampler(batch_size=BATCH, steps=STEPS, seed=7, negatives=HARD)
        while sampler.step < STEPS:
            if sampler.step and sampler.step % MINED_EVERY == 0:
                mine_again(corpus, model, f"step-{sampler.step}")
                sampler.take_minings()
            batch = next(sampler)
            if batch.step == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            anchors, positives, hard = (model(batch[slot]) for slot in SLOTS)
            scores = anchors @ torch.cat([positives, hard]).T / 0.05
            loss = nn.functional.cross_entropy(scores, torch.arange(len(batch)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            negatives[batch.step] = batch["negative"]
            if sampler.step % SAVED_EVERY == 0:
                tag = f"step-{sampler.step}"
                sampler.save(tag=tag)  # first: a checkpoint names the saved files
                kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(kept | {"tag": tag}, path.with_suffix(".new"))
                path.with_suffix(".new").replace(checkpoint)
        if not killed_after:
            served = sampler.served(0, sampler.position)
            for row in served.group_by("generation").aggregate([("step", "min")]).to_pylist():
                print(f"from step {row['step_min']} on: mining {row['generation']}")
    return negatives


def main() -> None:
    """Train twice, once killed and resumed, and compare the negatives."""
    with tempfile.TemporaryDirectory() as name:
        unbroken, broken = (Path(name) / f"{run}.duckdb" for run in ("unbroken", "broken"))
        with dp.Corpus(unbroken) as corpus:
            rows = {row["doc"]: row for row in islice(docstrings(), RECORDS)}
            source = dp.Source(rows.values(), anchor="name", positive="doc", id="name")
            corpus.ingest(source, name="docstrings", progress=False)
            corpus.split(train=0.8, validation=0.1, test=0.1, seed=1)
        shutil.copy(unbroken, broken)
        negatives = train(unbroken)
        child = multiprocessing.get_context("spawn").Process(
            target=train, args=(broken, KILLED_AFTER)
        )
        child.start()
        child.join()
        print(f"killed (signal {-child.exitcode}) at step {KILLED_AFTER}")
        resumed = train(broken)
        same = resumed == {step: negatives[step] for step in range(min(resumed), STEPS)}
        print(f"resumed at step {min(resumed)}, with the negatives of the unbroken run: {same}")


if __name__ == "__main__":
    main()
