"""Stop three trainers at three random steps and resume them: their losses differ by 0.

pip install 'duckplets[hf,torch]' lightning
python examples/zero_difference.py [TRAINER…]

TRAINER: sentence_transformers, transformers, lightning. The model is small and its weights are
random. A stop is an exception in a step, and all unsaved work is lost. Dropout is seeded by
step, for Hugging Face's trainers draw a number when they begin to read. On two ranks the
batches are the same as well. Losses are not: each rank compares its half of a batch with
itself.
"""

import contextlib
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning
import tokenizers
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

import duckplets as dp
from duckplets.torch import SamplerDataset

FAQ = Path(__file__).parent / "data" / "faq.csv"
BATCH, STEPS, SAVED = 8, 12, 2  # samples; steps, of which every second is saved
ARGUMENTS: dict[str, Any] = {
    "max_steps": STEPS,
    "save_steps": SAVED,
    "per_device_train_batch_size": BATCH,
    "ignore_data_skip": True,
    "use_cpu": True,
    "report_to": "none",
    "disable_tqdm": True,
    "seed": 7,
}


class Stopped(Exception):  # noqa: N818 - it is no error
    """The training ends here, as by a kill."""


class Losses:
    """The loss of each step, and where to stop."""

    def __init__(self, stop: int) -> None:
        self.stop = stop
        self.of: dict[int, float] = {}

    def note(self, step: int, loss: torch.Tensor) -> None:
        """Note the loss of a step, or stop before it."""
        if step == self.stop:
            raise Stopped
        self.of[step] = float(loss.detach())


def tokenizer_of(words: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that numbers words."""
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(known)}, "[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")


def sentence_transformers(sampler: dp.Sampler, folder: Path, losses: Losses) -> None:
    """Train an encoder of pairs."""
    torch.manual_seed(7)
    tokenizer = tokenizer_of(FAQ.read_text().split())
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, **shape)
    BertModel(bert).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    word = modules.Transformer(str(folder / "bert"), max_seq_length=32)
    model = SentenceTransformer(modules=[word, modules.Pooling(32)], device="cpu")

    class Noted(MultipleNegativesRankingLoss):
        def forward(self, features: Any, labels: Any = None) -> Any:
            torch.manual_seed(trainer.state.global_step)
            loss = super().forward(features, labels)
            losses.note(trainer.state.global_step, loss)
            return loss

    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(output_dir=str(folder), **ARGUMENTS),
        train_dataset=sampler.to_hf(),
        loss=Noted(model),
        callbacks=[sampler.hf_callback()],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))


def transformers(sampler: dp.Sampler, folder: Path, losses: Losses) -> None:
    """Train a language model on questions."""
    torch.manual_seed(7)
    tokenizer = tokenizer_of(FAQ.read_text().split())
    shape = GPT2Config(vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=32)

    class Model(GPT2LMHeadModel):
        def forward(self, **given: Any) -> Any:
            torch.manual_seed(trainer.state.global_step)
            found = super().forward(**given)
            losses.note(trainer.state.global_step, found.loss)
            return found

    def collate(rows: list[dict[str, str]]) -> dict[str, torch.Tensor]:
        found = tokenizer([row["anchor"] for row in rows], padding=True, return_tensors="pt")
        return {"input_ids": found["input_ids"], "labels": found["input_ids"].clone()}

    trainer = Trainer(
        model=Model(shape),
        args=TrainingArguments(output_dir=str(folder), remove_unused_columns=False, **ARGUMENTS),
        train_dataset=sampler.to_hf(),
        data_collator=collate,
        callbacks=[sampler.hf_callback()],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))


def word_loss(words: torch.nn.Module, tokenizer: Any, batch: Any) -> torch.Tensor:
    """Return the loss of word vectors: each anchor finds its positive in the batch."""
    texts = [*batch["anchor"], *batch["positive"]]
    ids = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    one, other = words(ids).chunk(2)
    return torch.nn.functional.cross_entropy(one @ other.T, torch.arange(len(one)))


def lightning(corpus: Path, folder: Path, losses: Losses) -> None:
    """Train word vectors; the place in the run is in Lightning's own checkpoint."""
    torch.manual_seed(7)
    tokenizer, last = tokenizer_of(FAQ.read_text().split()), folder / "last.ckpt"
    dataset = SamplerDataset(corpus, batch_size=BATCH, seed=7, steps=STEPS)

    class Data(pytorch_lightning.LightningDataModule):
        def train_dataloader(self) -> Any:
            return DataLoader(dataset, batch_size=None)

    class Model(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.EmbeddingBag(len(tokenizer), 16)

        def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
            loss = word_loss(self.words, tokenizer, batch)
            losses.note(self.global_step, loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    saving = pytorch_lightning.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=SAVED, save_last=True, save_top_k=0
    )
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        callbacks=[saving, dataset.lightning_callback()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), Data(), ckpt_path=last if last.exists() else None)


def resumed(train: Callable[..., None]) -> Callable[[Path, Path, Losses], None]:
    """Return a training over the run that is saved with the last checkpoint, or a new one."""

    def from_checkpoint(corpus: Path, folder: Path, losses: Losses) -> None:
        checkpoint = get_last_checkpoint(str(folder))
        with contextlib.ExitStack() as stack:
            if checkpoint is None:
                opened = stack.enter_context(dp.Corpus(corpus, read_only=True))
                sampler = opened.sampler(batch_size=BATCH, seed=7)
            else:
                state = f"{checkpoint}/sampler.state.duckdb"
                sampler = stack.enter_context(dp.resume(corpus, state=state))
            train(sampler, folder, losses)

    return from_checkpoint


TRAINERS = {
    "sentence_transformers": resumed(sentence_transformers),
    "transformers": resumed(transformers),
    "lightning": lightning,
}


def trained(trainer: str, corpus: Path, folder: Path, stops: list[int]) -> dict[int, float]:
    """Train up to the last step, stopped on the way; return the loss of each step."""
    folder.mkdir()
    found: dict[int, float] = {}
    for stop in [*stops, STEPS]:
        losses = Losses(stop)
        with contextlib.suppress(Stopped):
            TRAINERS[trainer](corpus, folder, losses)
        found |= losses.of
    return found


def of_ranks(corpus: Path, count: int) -> tuple[list[list[str]], list[float]]:
    """Train word vectors on ranks in one process; return texts and mean loss of each step."""
    torch.manual_seed(7)
    tokenizer = tokenizer_of(FAQ.read_text().split())
    words = torch.nn.EmbeddingBag(len(tokenizer), 16)
    optimizer, texts, found = torch.optim.Adam(words.parameters(), lr=0.01), [], []
    with dp.Corpus(corpus, read_only=True) as opened:
        how = {"batch_size": BATCH // count, "seed": 7, "world_size": count}
        ranks = [opened.sampler(rank=rank, **how) for rank in range(count)]
        for _ in range(STEPS):
            batches = [next(sampler) for sampler in ranks]
            names = ("anchor", "positive", "negative")
            texts.append([text for name in names for batch in batches for text in batch[name]])
            losses = [word_loss(words, tokenizer, batch) for batch in batches]
            loss = torch.stack(losses).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
    return texts, found


def on_two_ranks(corpus: Path) -> None:
    """Compare the texts of batches, and losses, on one rank and on two."""
    (texts, losses), (others, halves) = (of_ranks(corpus, count) for count in (1, 2))
    assert texts == others
    most = max(abs(one - two) for one, two in zip(losses, halves, strict=True))
    print(
        f"on two ranks the texts of all {STEPS} batches are those of one rank; loss difference "
        f"{most:.8f}"
    )


def main(trainers: list[str]) -> None:
    """Train each unbroken and stopped, and print the difference of losses."""
    stops = sorted(random.Random(7).sample(range(SAVED + 1, STEPS), 3))
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "faq.duckdb"
        with dp.Corpus(corpus) as opened:
            opened.ingest(FAQ, anchor="question", positive="answer", progress=False)
            opened.split()
        for trainer in trainers:
            unbroken = trained(trainer, corpus, Path(folder) / f"{trainer}-unbroken", [])
            broken = trained(trainer, corpus, Path(folder) / f"{trainer}-broken", stops)
            assert [*unbroken] == [*range(STEPS)]
            most = max(abs(broken[step] - loss) for step, loss in unbroken.items())
            print(
                f"{trainer}: {STEPS} steps, stopped before {stops}: resumed loss difference "
                f"{most:.8f}"
            )
            assert broken == unbroken
        on_two_ranks(corpus)


if __name__ == "__main__":
    main(sys.argv[1:] or list(TRAINERS))
