"""Train a small model on a retrieval set, from a BEIR folder to nDCG before and after, on a CPU.

pip install 'duckplets[hf]'
python examples/retrieval.py FOLDER [--steps 300] [--within 20] [--out results.json]

The folder has corpus.jsonl with titles, queries.jsonl, qrels/train.tsv and qrels/test.tsv. The
model is a mean of word vectors that knows nothing at first. Its tokenizer is made from the
documents. It is trained in four ways from one start. The first has documents alone, with their
titles as queries. The second has pairs of a query and its document. The third adds a mined
negative to each. The fourth does so for consistent pairs only. Each model is measured on the
queries of qrels/test.tsv over all documents.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is loaded from the Hub

import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PrinterCallback

import duckplets as dp

BATCH, DIMENSION, VOCABULARY = 256, 256, 16_000


def main(folder: Path, steps: int, within: int) -> dict[str, Any]:
    """Read, mine, train and measure; return the figures."""
    with tempfile.TemporaryDirectory() as work, dp.Corpus(Path(work) / "set.duckdb") as corpus:
        print(corpus.ingest(folder, name="set", progress=False))
        titles = dp.Source(folder / "corpus.jsonl", anchor="title", positive="text", id="_id")
        corpus.ingest(titles, name="titles", progress=False)
        corpus.split(1, 0, 0)  # of the titles: the queries have the splits of their qrels
        mined = corpus.mine(source="set", split="train", progress=False)
        print(mined)
        tokenizer, before = tokenizer_of(corpus), Path(work) / "before.json"
        of_set: dict[str, Any] = {"mixture": {"set": 1}}
        ranked = ("bm25", within)
        arms: dict[str, dict[str, Any]] = {
            "documents only: titles as queries": {"kind": "pairs", "mixture": {"titles": 1}},
            "pairs": {"kind": "pairs", **of_set},
            "1 BM25 negative": of_set,
            f"the same, consistent pairs (rank {within})": {"consistent": ranked, **of_set},
        }
        measured(corpus, fresh(tokenizer), before)
        found: dict[str, Any] = {"documents": 0, "queries": 0, "steps": steps, "arms": {}}
        for number, (name, asked) in enumerate(arms.items()):
            model, after = fresh(tokenizer), Path(work) / f"{number}.json"
            pairs = train(model, corpus, steps, work, asked)
            measured(corpus, model, after)
            compared = dp.compare(before, after)
            found["arms"][name] = {"pairs": pairs, "metrics": compared.metrics}
            print(f"{name}\n{compared}")
        found["queries"] = compared.queries
        found["documents"] = len(corpus.sql("SELECT 1 FROM live_records WHERE split = 'every'"))
        found["mined"] = mined.pairs[0].found
    return found


def tokenizer_of(corpus: dp.Corpus) -> Tokenizer:
    """Return a tokenizer made from the documents."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    how = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=["[UNK]"], show_progress=False
    )
    texts = corpus.sql("SELECT text FROM section_texts WHERE split = 'every' ORDER BY record_id")
    made.train_from_iterator(texts["text"].to_pylist(), how)
    return made


def fresh(tokenizer: Tokenizer) -> SentenceTransformer:
    """Return a model that knows nothing, the same each time."""
    torch.manual_seed(1)
    module = StaticEmbedding(tokenizer, embedding_dim=DIMENSION)
    return SentenceTransformer(modules=[module], device="cpu")


def train(
    model: SentenceTransformer, corpus: dp.Corpus, steps: int, work: str, asked: dict[str, Any]
) -> int:
    """Train on the batches of a sampler; return how many anchors an epoch has."""
    sampler = corpus.sampler(**asked, batch_size=BATCH, seed=7, steps=steps, no_duplicates=True)
    settings = SentenceTransformerTrainingArguments(
        output_dir=work,
        max_steps=steps,  # a stream has no length
        per_device_train_batch_size=BATCH,  # as the sampler's, so that its batches stay
        learning_rate=0.2,  # word vectors from nothing
        warmup_steps=steps // 10,
        seed=7,
        use_cpu=True,
        accelerator_config={"dispatch_batches": False},  # it would cut the token ids of a batch
        logging_steps=steps,
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
    anchors = sampler.epoch_length
    sampler.close()
    return anchors


def measured(corpus: dp.Corpus, model: SentenceTransformer, results: Path) -> None:
    """Write nDCG, MRR and recall at 10 of every query of the test split."""
    corpus.evaluator("test", source="set", results=results)(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--within", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    figures = main(given.folder, given.steps, given.within)
    if given.out:
        given.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
