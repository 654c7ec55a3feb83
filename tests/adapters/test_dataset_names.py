"""Prompts and losses by source: batches that are of one source name it to the trainer."""

import importlib
import re
from pathlib import Path

import pytest
from adapters.models import arguments, embedder, st
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import duckplets as dp

BATCH = 8
PROMPTS = {"one": "first ask : ", "two": "second ask : "}


class Counting(MultipleNegativesRankingLoss):
    """The loss, with the anchors it was given."""

    def __init__(self, model):
        super().__init__(model)
        self.anchors = []

    def forward(self, features, labels=None):
        decode = self.model.tokenizer.batch_decode
        self.anchors += decode(features[0]["input_ids"], skip_special_tokens=True)
        return super().forward(features, labels)


def test_each_source_has_its_prompt_and_its_loss(corpus_path, tmp_path):
    model = embedder()
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(
            mixture={"one": 1, "two": 1},
            batch_size=BATCH,
            batch_by="source",
            options=dp.Options(state=tmp_path / "s.duckdb"),
        )
        expected = [[*batch["source"]] for batch in sampler.peek(6)]
        assert all(len({*names}) == 1 for names in expected)
        trainer = st.SentenceTransformerTrainer(
            model=model,
            args=arguments(
                *(tmp_path, 6, BATCH),
                prompts=PROMPTS,
                accelerator_config={"dispatch_batches": False},
            ),
            train_dataset=sampler.to_hf(dataset_name=True),
            loss=Counting(model),
        )
        trainer.loss = losses = {name: Counting(model) for name in PROMPTS}
        trainer.train()
    for name, prompt in PROMPTS.items():
        due = BATCH * sum(names[0] == name for names in expected)
        assert len(losses[name].anchors) == due > 0
        words = prompt.split()[0]
        assert all(text.startswith(words) for text in losses[name].anchors)


def test_batches_of_several_sources_have_no_name(corpus_path):
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        with pytest.raises(dp.SamplerError, match=r"'one', 'two'; open .* batch_by='source'"):
            corpus.sampler().to_hf(dataset_name=True)
        with pytest.raises(dp.SamplerError, match="needs the column source"):
            corpus.sampler(columns=["anchor"], batch_by="source").to_hf(dataset_name=True)
        with pytest.raises(dp.SamplerError, match="use weights instead"):
            corpus.sampler(batch_size=BATCH, batch_by="source").to_hf(dataset_name=True)
        rows = corpus.sampler(mixture={"one": 1}).to_hf(dataset_name=True)
        assert next(iter(rows))["dataset_name"] == "one"


def test_the_example_trains_each_source_with_its_instruction(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    example = importlib.import_module("instructions")
    example.main(8)
    printed = capsys.readouterr().out
    assert "each batch of all ranks is of one source; shares hold for batches" in printed
    assert "docstrings: 6 batches, each query after 'Instruct: find what this name" in printed
    assert "pages: 2 batches" in printed
    for name in ("docstrings", "pages"):
        assert re.search(rf"{name}: .* epochs; nDCG@10 .* \S+ before, \S+ after", printed)
