"""One of two processes that train: python -m adapters.ranks CORPUS FOLDER, with torchrun's names.

Writes down what it took and what was refused, as JSON, for ``test_trainers``.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from adapters.loaders import loader
from adapters.models import arguments, embedder, st
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import duckplets as dp
from duckplets.torch import SamplerDataset

BATCH, STEPS, PASSES = 4, 3, 2


def of_sentence_transformers(corpus: dp.Corpus, folder: Path, **how: Any) -> list[list[str]]:
    """Return the anchors that this rank trains on."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model, seen = embedder(), []

    class Seen(MultipleNegativesRankingLoss):
        def forward(self, features: Any, labels: Any = None) -> Any:
            ids = features[0]["input_ids"]
            seen.append(model.tokenizer.batch_decode(ids, skip_special_tokens=True))
            return super().forward(features, labels)

    sampler = corpus.sampler(batch_size=2 * BATCH, steps=STEPS if "passes" in how else None)
    steps = how.pop("passes", 1) * STEPS
    callbacks = [sampler.hf_callback()] if steps == STEPS else []
    trainer = st.SentenceTransformerTrainer(
        model=model,
        args=arguments(folder, steps, BATCH, ddp_backend="gloo", **how),
        train_dataset=sampler.to_hf(),
        loss=Seen(model),
        callbacks=callbacks,
    )
    trainer.train()
    return seen


def of_a_language_model(folder: Path) -> None:
    """Train on rows of tokens, which accelerate deals out, and compare them with the run."""
    from token_shards import lengths_of, numbered, write_shards
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    seen: list[list[list[int]]] = []

    class Seen(GPT2LMHeadModel):
        def forward(self, input_ids: Any, **others: Any) -> Any:
            seen.append(input_ids.tolist())
            return super().forward(input_ids=input_ids, labels=input_ids)

    model = Seen(GPT2Config(vocab_size=5000, n_positions=24, n_embd=8, n_layer=1, n_head=1))
    own = folder / f"tokens-{os.environ['RANK']}"
    texts = {"train": {"one": numbered(lengths_of(200, 1))}}
    with dp.TokenShards(write_shards(own / "shards", texts)) as shards:
        sampler = shards.sampler(seq_length=24, pack=True, batch_size=2 * BATCH, steps=STEPS)
        settings = TrainingArguments(
            output_dir=str(own / "out"),
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            use_cpu=True,
            ddp_backend="gloo",
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            remove_unused_columns=False,
        )
        rows, callbacks = sampler.to_hf(), [sampler.hf_callback()]
        Trainer(model=model, args=settings, train_dataset=rows, callbacks=callbacks).train()
        whole = shards.sampler(seq_length=24, pack=True, batch_size=2 * BATCH, steps=STEPS)
        low = BATCH * int(os.environ["RANK"])
        assert seen == [batch["input_ids"][low : low + BATCH].tolist() for batch in whole]


def of_a_loop(dataset: SamplerDataset) -> list[list[str]]:
    """Return the anchors of two epochs of plain PyTorch, whose workers are ahead."""
    model, seen = DistributedDataParallel(torch.nn.Linear(1, 1)), []
    for _ in range(PASSES):
        for batch in loader(dataset, 1):
            model(batch["weight"][:, None].float()).mean().backward()
            seen.append(batch["anchor"])
    return seen


def of_accelerate(dataset: SamplerDataset) -> list[list[str]]:
    """Return the anchors of two epochs; the loader is not prepared."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, seen = accelerator.prepare(torch.nn.Linear(1, 1)), []
    for _ in range(PASSES):
        for batch in loader(dataset):
            accelerator.backward(model(batch["weight"][:, None].float()).mean())
            seen.append(batch["anchor"])
    return seen


def of_lightning(dataset: SamplerDataset) -> list[list[str]]:
    """Return the anchors of two epochs of Lightning."""
    import pytorch_lightning as lightning

    seen: list[list[str]] = []

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            seen.append(batch["anchor"])
            return self.layer(batch["weight"][:, None].float()).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    shown = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=PASSES,
        callbacks=[dataset.lightning_callback()],
        use_distributed_sampler=False,
        **dict.fromkeys(shown, False),
    )
    trainer.fit(Model(), loader(dataset))
    return seen


def main(path: Path, folder: Path) -> None:
    """Train with each, in the two ranks of one process group."""
    warnings.simplefilter("ignore")  # of the trainers' own
    found: dict[str, Any] = {}
    with dp.Corpus(path, read_only=True) as corpus:
        try:
            of_sentence_transformers(corpus, folder)
        except dp.SamplerError as error:
            found["refused"] = str(error)
        apart = {"accelerator_config": {"dispatch_batches": False}}
        found["sentence-transformers"] = of_sentence_transformers(corpus, folder, **apart)
        found["passes"] = of_sentence_transformers(corpus, folder, passes=PASSES, **apart)
    of_a_language_model(folder)
    for run in (of_a_loop, of_accelerate, of_lightning):
        found[run.__name__] = run(SamplerDataset(path, batch_size=BATCH, steps=STEPS))
    result = folder / f"rank-{os.environ['RANK']}.json"
    result.write_text(json.dumps(found), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
