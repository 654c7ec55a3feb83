"""What docs/training.md says of each trainer: its table, row by row, as users run them."""

import json
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice

import pytest
from adapters.loaders import loader, torch
from adapters.models import embedder, ranker, st
from adapters.ranks import BATCH as OF_RANK
from adapters.ranks import PASSES, STEPS
from prebuilt import kept, prebuilt, toy_corpus
from programs import PATIENCE, started
from sentence_transformers.cross_encoder import losses as of_rankers
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sparse_encoder import losses as of_sparse
from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder
from token_shards import lengths_of, numbered, write_shards
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import duckplets as dp
from duckplets.torch import SamplerDataset

BATCH = 8


@prebuilt
def mined_toy(path):
    """A toy corpus with negatives ranked by BM25, in place of a teacher."""
    corpus = toy_corpus(path, 118, sources=("one", "two"))
    corpus.mine()
    return corpus


@pytest.fixture(scope="module")
def corpus():
    with dp.Corpus(kept(mined_toy.__wrapped__), read_only=True) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def encoder():
    return embedder()


def sparse(encoder):
    autoencoder = SparseAutoEncoder(input_dim=384, hidden_dim=64, k=8, k_aux=16)
    return st.SparseEncoder(modules=[encoder[0], encoder[1], autoencoder], device="cpu")


def splade_of_margins(model):
    margins = of_sparse.SparseMarginMSELoss(model)
    return of_sparse.CSRLoss(model, loss=margins)


def trained(kind, model, rows, loss, folder, steps=2, *, resume=None, callbacks=(), **options):
    """Train for some steps; return the losses that were logged, and the trainer."""
    of = st.sparse_encoder if kind == "SparseEncoder" else st
    given = {"max_steps": steps, "per_device_train_batch_size": BATCH, "use_cpu": True}
    given |= {"report_to": "none", "disable_tqdm": True, "logging_steps": 1, "learning_rate": 1e-6}
    given |= {"save_strategy": "no", "output_dir": str(folder / "out"), **options}
    evaluated = given.pop("eval_dataset", None)
    trainer = getattr(of, f"{kind}Trainer")(
        model=model,
        args=getattr(of, f"{kind}TrainingArguments")(**given),
        train_dataset=rows,
        eval_dataset=evaluated,
        loss=loss,
        callbacks=[*callbacks],
    )
    trainer.train(resume_from_checkpoint=resume)
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer


def scored(corpus, negatives=1, **given):
    names = ["negative"] if negatives == 1 else [f"negative_{i + 1}" for i in range(negatives)]
    columns = ["anchor", "positive", *names, *(f"{n}_score" for n in ("positive", *names))]
    by = dp.Negatives(by="bm25", when_short="drop")
    return corpus.sampler(
        batch_size=BATCH, columns=columns, seed=7, **given, negatives=replace(by, num=negatives)
    )


@pytest.mark.parametrize(
    ("kind", "label", "negatives", "make"),
    [
        ("SentenceTransformer", None, 1, losses.MultipleNegativesRankingLoss),
        ("SentenceTransformer", "margin", 1, losses.MarginMSELoss),
        ("SentenceTransformer", "margin", 2, losses.MarginMSELoss),
        ("SentenceTransformer", "scores", 2, losses.DistillKLDivLoss),
        ("CrossEncoder", "margin", 1, of_rankers.MarginMSELoss),
        ("CrossEncoder", None, 1, of_rankers.MultipleNegativesRankingLoss),
        ("SparseEncoder", None, 1, of_sparse.CSRLoss),
        ("SparseEncoder", "margin", 1, splade_of_margins),
    ],
)
def test_each_model_takes_its_rows_and_their_labels(
    corpus, encoder, tmp_path, kind, label, negatives, make
):
    model = {"CrossEncoder": lambda _: ranker(), "SparseEncoder": sparse}.get(kind, lambda e: e)(
        encoder
    )
    sampler = scored(corpus, negatives) if label else corpus.sampler(batch_size=BATCH)
    rows, how = sampler.to_hf(label=label), {}
    if kind == "CrossEncoder":  # whose trainer takes no stream
        rows = sampler.to_hf_dataset(2, label=label)
        how["batch_sampler"] = sampler.hf_batch_sampler()
    seen, _ = trained(kind, model, rows, make(model), tmp_path, **how)
    assert len(seen) == 2
    assert all(0 < loss < 1000 for loss in seen)


@pytest.mark.parametrize("negatives", [1, 2])
def test_labels_are_what_the_scores_say(corpus, negatives):
    sampler = scored(corpus, negatives)
    batch = sampler.batch_at(0)
    names = ["negative"] if negatives == 1 else ["negative_1", "negative_2"]
    for row, (margin, scores) in enumerate(
        zip(
            sampler.to_hf_dataset(1, label="margin")["label"],
            islice(sampler.to_hf(label="scores"), BATCH),
            strict=True,
        )
    ):
        expected = [batch[f"{name}_score"][row] for name in ("positive", *names)]
        assert scores["label"] == expected
        margins = [expected[0] - of for of in expected[1:]]
        assert margin == pytest.approx(margins[0] if negatives == 1 else margins)


@pytest.mark.parametrize(
    ("kind", "given", "label", "says"),
    [
        ("triplets", {"columns": ["anchor", "positive", "negative_score"]}, None, "negative_score"),
        ("triplets", {"columns": ["anchor", "anchor_record_id"]}, None, "has anchor_record_id: re"),
        ("triplets", {}, "margin", r"columns=\['anchor', .*, 'negative_score'\]"),
        ("pairs", {}, "scores", "remove it for pairs"),
        ("triplets", {}, "teacher", "give 'margin', 'scores' or None"),
    ],
)
def test_columns_that_a_trainer_would_lose_are_refused(corpus, kind, given, label, says):
    with pytest.raises(dp.SamplerError, match=says) as refused:
        corpus.sampler(kind, batch_size=BATCH, **given).to_hf(label=label)
    assert len(str(refused.value)) <= 240


def test_a_negative_without_a_score_is_no_label(corpus):
    columns = ["anchor", "positive", "negative", "positive_score", "negative_score"]
    rows = corpus.sampler(
        batch_size=BATCH, columns=columns, negatives=dp.Negatives(by="random")
    ).to_hf(label="margin")
    with pytest.raises(dp.SamplerError, match="a negative at position 0 has no score"):
        next(iter(rows))


def test_every_evaluation_has_the_same_rows_and_ends(corpus, encoder, tmp_path):
    seen = []

    class Seen(losses.MultipleNegativesRankingLoss):
        def forward(self, features, labels=None):
            if not self.training:
                seen.append(features[0]["input_ids"].tolist())
            return super().forward(features, labels)

    def evaluation(**bounds):
        return corpus.sampler(split="validation", batch_size=BATCH, **bounds).to_hf()

    sampler = corpus.sampler(batch_size=BATCH)
    given = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": BATCH}
    given["callbacks"] = [sampler.hf_callback()]
    kind, rows = "SentenceTransformer", sampler.to_hf()
    trained(
        kind, encoder, rows, Seen(encoder), tmp_path, eval_dataset=evaluation(epochs=1), **given
    )
    assert len(seen) % 2 == 0
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    with pytest.raises(dp.SamplerError, match="cannot end: set epochs=1"):
        trained(kind, encoder, rows, Seen(encoder), tmp_path, eval_dataset=evaluation(), **given)


def test_a_resumed_sampler_is_not_passed_over_again(corpus, encoder, tmp_path):
    loss = losses.MultipleNegativesRankingLoss(encoder)
    saving = {"save_strategy": "steps", "save_steps": 2}
    first = corpus.sampler(batch_size=BATCH)
    kind, checkpoint = "SentenceTransformer", str(tmp_path / "out" / "checkpoint-2")
    saving["callbacks"] = [first.hf_callback()]
    rows = first.to_hf()
    unbroken, _ = trained(kind, encoder, rows, loss, tmp_path, 3, **saving)
    assert len(unbroken) == 3
    # It reads again from where it began: the trainer passes over what it used.
    trained(kind, encoder, rows, loss, tmp_path, 3, resume=checkpoint, **saving)
    with dp.resume(corpus.path, state=f"{checkpoint}/sampler.state.duckdb") as sampler:
        assert sampler.step == 2
        saving["callbacks"] = [sampler.hf_callback()]
        rows = sampler.to_hf()
        with pytest.raises(dp.SamplerError, match="already at step 2: set ignore_data_skip=True"):
            trained(kind, encoder, rows, loss, tmp_path, 4, resume=checkpoint, **saving)


def test_a_language_model_takes_rows_of_tokens_over_epochs(tmp_path):
    texts = {"one": numbered(lengths_of(60, 1))}
    seen = []

    class Seen(GPT2LMHeadModel):
        def forward(self, input_ids, **others):
            seen.append(input_ids.tolist())
            return super().forward(input_ids=input_ids, labels=input_ids)

    model = Seen(GPT2Config(vocab_size=5000, n_positions=24, n_embd=8, n_layer=1, n_head=1))
    with dp.TokenShards(write_shards(tmp_path / "shards", {"train": texts})) as shards:
        options = {"seq_length": 24, "pack": True, "batch_size": 4, "seed": 7}
        whole = [batch["input_ids"].tolist() for batch in shards.sampler(**options, steps=6)]
        rows = shards.sampler(**options, steps=3).to_hf()
        settings = TrainingArguments(
            output_dir=str(tmp_path / "out"),
            max_steps=6,
            per_device_train_batch_size=4,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            remove_unused_columns=False,
        )
        Trainer(model=model, args=settings, train_dataset=rows).train()
    assert seen == whole, "two passes of three steps"


@pytest.mark.filterwarnings("ignore")  # Lightning's, of a loader that does not resume by itself
def test_lightning_goes_on_with_its_epochs_from_every_checkpoint(corpus, tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    def steps(folder, checkpoint=None):
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.seen = torch.nn.Linear(1, 1), []

            def training_step(self, batch, _):
                self.seen.append((self.current_epoch, batch["step"]))
                return self.layer(batch["weight"][:, None].float()).mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        dataset, model = SamplerDataset(corpus.path, batch_size=BATCH, steps=2), Model()
        saving = lightning.callbacks.ModelCheckpoint(
            folder, filename="{step}", every_n_train_steps=1, save_top_k=-1
        )
        shown = ("logger", "enable_progress_bar", "enable_model_summary")
        lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            use_distributed_sampler=False,
            callbacks=[dataset.lightning_callback(), saving],
            **dict.fromkeys(shown, False),
        ).fit(model, loader(dataset), ckpt_path=checkpoint)
        return model.seen

    whole = steps(tmp_path / "whole")
    assert whole == [(step // 2, step) for step in range(6)]
    for step in (1, 2, 4):
        rest = steps(tmp_path / f"rest-{step}", tmp_path / "whole" / f"step={step}.ckpt")
        assert rest == whole[step:], step


def test_two_ranks_of_each_trainer_have_the_batches_of_one(corpus, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    of_all = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    program = (sys.executable, "-m", "adapters.ranks", corpus.path, tmp_path)
    with ExitStack() as ending:
        ranks = [
            ending.enter_context(
                started(*program, env={**of_all, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            )
            for rank in (0, 1)
        ]
        for rank in ranks:
            _, errors = rank.communicate(timeout=PATIENCE)
            assert rank.returncode == 0, errors[-2000:]
    took = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    steps = PASSES * STEPS
    expected = [batch["anchor"] for batch in corpus.sampler(batch_size=2 * OF_RANK, steps=steps)]
    for name in took[0]:
        if name == "refused":
            assert 'accelerator_config={"dispatch_batches": False}' in took[0][name]
            continue
        both = [list(chain(*slices)) for slices in zip(*(of[name] for of in took), strict=True)]
        assert both == expected[: len(both)], name
        assert len(both) == (STEPS if name == "sentence-transformers" else steps), name
