"""Fine-tune a model on a folder of documents, with an instruction for each source.

pip install 'duckplets[hf,tokenizers]'
python examples/instructions.py [STEPS [FOLDER]]

Embedding models such as Qwen3-Embedding, E5 and BGE are trained in this way. A query begins
with an instruction. Each batch has one source, so its other texts are hard to tell from the
right one. Each sample has hard negatives. One source is a folder of Markdown, here the pages of
this project: each section is found by its headings. The other comes with Python: names and
their docstrings. The model here has one vector a token and begins at random. So it takes a
minute, without a GPU or a download. Yours is SentenceTransformer("Qwen/Qwen3-Embedding-0.6B"),
with a smaller learning rate.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from transformers import PrinterCallback

import duckplets as dp
from duckplets.cli.demo import docstrings

PAGES = Path(__file__).parent.parent / "docs"
BATCH, STEPS = 32, 400
INSTRUCTIONS = {
    "docstrings": "Instruct: find what this name does\nQuery: ",
    "pages": "Instruct: find the section of the guide with these headings\nQuery: ",
}


def ingest(corpus: dp.Corpus, documents: Path) -> None:
    """Read both sources, hold a fifth of each out, and mine hard negatives."""
    pages = dp.TextFileSource(documents, pattern="*.md", by_heading=True)
    names = dp.Source(docstrings(), anchor="name", positive="doc", id="name")
    for name, source in (("pages", pages), ("docstrings", names)):
        print(name, corpus.ingest(source, name=name, progress=False))
    corpus.split(train=0.8, validation=0, test=0.2, seed=3)
    corpus.mine(progress=False)


def new_model(corpus: dp.Corpus, folder: str) -> SentenceTransformer:
    """Return a model with a tokenizer of the corpus, and a vector at random for each token."""
    dp.train_tokenizer(corpus, f"{folder}/tokenizer", vocab_size=8000, progress=False)
    torch.manual_seed(7)
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer/tokenizer.json")
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=128)])


def found(corpus: dp.Corpus, model: SentenceTransformer) -> dict[str, float]:
    """Return nDCG@10 of the queries of each source that were held out, among all documents."""
    scores = {}
    for name, instruction in INSTRUCTIONS.items():
        evaluator = corpus.evaluator("test", source=name, name=name, query_prompt=instruction)
        scores[name] = evaluator(model)[f"{name}_cosine_ndcg@10"]
    return scores


def train(model: SentenceTransformer, corpus: dp.Corpus, steps: int, folder: str) -> Any:
    """Train on batches of one source each, and return the trainer."""
    sampler = corpus.sampler(
        mixture={"docstrings": 0.75, "pages": 0.25},  # of the batches
        batch_by="source",
        batch_size=BATCH,
        negatives=2,
        no_duplicates=True,
        steps=steps,
    )
    print(sampler.describe())
    batches = Counter(batch["source"][0] for batch in sampler.peek(steps))
    for name, count in sorted(batches.items()):
        print(f"{name}: {count} batches, each query after {INSTRUCTIONS[name].splitlines()[0]!r}")
    settings = SentenceTransformerTrainingArguments(
        output_dir=f"{folder}/checkpoints",
        max_steps=steps,
        per_device_train_batch_size=BATCH,  # as the sampler's, so that its batches stay
        prompts={name: {"anchor": text} for name, text in INSTRUCTIONS.items()},
        accelerator_config={"dispatch_batches": False},  # names are texts
        learning_rate=0.05,
        warmup_steps=steps // 10,
        seed=7,
        use_cpu=True,
        logging_steps=max(1, steps // 8),
        save_steps=max(1, steps // 2),
        report_to="none",  # or "tensorboard", "mlflow", "wandb": the run's metrics go there too
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=settings,
        train_dataset=sampler.to_hf(dataset_name=True),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[sampler.hf_callback()],  # the place in the run, in every checkpoint
    )
    trainer.add_callback(sampler.hf_logger(trainer, every=max(1, steps // 4)))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def main(steps: int = STEPS, documents: Path = PAGES) -> None:
    """Ingest both sources, train, and measure before and after."""
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "docs.duckdb") as corpus:
        ingest(corpus, documents)
        model = new_model(corpus, folder)
        before = found(corpus, model)
        logged = train(model, corpus, steps, folder).state.log_history
        after = found(corpus, model)
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} at last")
    used = [entry for entry in logged if "data/pages/epochs" in entry][-1]
    for name in INSTRUCTIONS:
        print(
            f"{name}: {used[f'data/{name}/epochs']:.1f} epochs; "
            f"nDCG@10 of what was held out {before[name]:.2f} before, {after[name]:.2f} after"
        )


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else STEPS,
        Path(sys.argv[2] if sys.argv[2:] else PAGES),
    )
