"""The trainer of sentence-transformers takes our datasets, and its batches are ours."""

from itertools import islice

import pytest
from adapters.models import arguments, embedder, st
from effort import some
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import duckplets as dp

BATCH = 8


@pytest.fixture(scope="module")
def model():
    return embedder()


@pytest.fixture
def corpus(corpus_path):
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        yield corpus


class Seen(MultipleNegativesRankingLoss):
    """The loss, with the texts of every batch it was asked for."""

    def __init__(self, model):
        super().__init__(model)
        self.batches = []

    def forward(self, features, labels=None):
        decode = self.model.tokenizer.batch_decode
        self.batches.append([decode(f["input_ids"], skip_special_tokens=True) for f in features])
        return super().forward(features, labels)


def trained(model, dataset, folder, steps, *, callback=None, resume=False, **options):
    """Train for some steps; returns the texts of each batch, and the trainer."""
    loss = Seen(model)
    trainer = st.SentenceTransformerTrainer(
        model=model,
        args=arguments(folder, steps, BATCH, **options),
        train_dataset=dataset,
        loss=loss,
        callbacks=[callback] if callback else [],
    )
    trainer.train(resume_from_checkpoint=resume)
    return loss.batches, trainer


def texts_of(sampler, count):
    columns = ("anchor", "positive", "negative")
    return [[batch[column] for column in columns] for batch in islice(sampler, count)]


@pytest.mark.parametrize(
    ("name", "high"),  # of grades; 0 for classes
    [
        *(("CoSENTLoss", 5), ("CosineSimilarityLoss", 1)),
        *(("OnlineContrastiveLoss", 0), ("SoftmaxLoss", 0)),
    ],
)
def test_losses_take_labelled_pairs_as_they_come(model, tmp_path, name, high):
    from sentence_transformers.sentence_transformer import losses

    labels = [high * (i % 4) / 3 if high else i % 2 for i in range(2 * BATCH)]
    rows = [
        {"a": f"red fox {i}", "p": f"a red fox {i}", "l": label} for i, label in enumerate(labels)
    ]
    of_classes = {"sentence_embedding_dimension": 384, "num_labels": 2}
    loss = getattr(losses, name)(model, **(of_classes if name == "SoftmaxLoss" else {}))
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(1, 0, 0)
        corpus.ingest(rows, name="s", anchor="a", positive="p", label="l")
        stream = corpus.sampler("labelled_pairs", batch_size=BATCH).to_hf()
        assert list(stream.features) == ["anchor", "other", "label"]
        assert stream.features["label"].dtype == ("float64" if high else "int64")
        settings = arguments(tmp_path, 1, BATCH, logging_steps=1)
        trainer = st.SentenceTransformerTrainer(
            model=model, args=settings, train_dataset=stream, loss=loss
        )
        trainer.train()
    (seen,) = (entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    assert 0 < seen < 100


@pytest.mark.parametrize("accumulated", some([2, 1], less=1))
def test_a_checkpoint_knows_what_was_used(corpus, corpus_path, model, tmp_path, accumulated):
    saving = {"save_strategy": "steps", "save_steps": 2}
    saving["gradient_accumulation_steps"] = accumulated
    first = corpus.sampler(batch_size=BATCH)
    callback = first.hf_callback()
    used, _ = trained(model, first.to_hf(), tmp_path, 3, callback=callback, **saving)
    assert first.step > 3 * accumulated, "the trainer reads ahead of what it uses"
    checkpoint = tmp_path / "out" / "checkpoint-2"
    saved = corpus.sampler(batch_size=BATCH)
    for _ in range(2 * accumulated):
        next(saved)
    saving["ignore_data_skip"] = True
    with dp.resume(corpus_path, state=checkpoint / "sampler.state.duckdb") as sampler:
        assert sampler.state_dict() == saved.state_dict(), "position and counts"
        rest, callback = sampler.to_hf(), sampler.hf_callback()
        with pytest.raises(dp.SamplerError, match="the state file in the checkpoint that"):
            trained(model, rest, tmp_path, 5, callback=callback, resume=True, **saving)  # of step 3
        more, _ = trained(
            model, rest, tmp_path, 4, callback=callback, resume=str(checkpoint), **saving
        )
    expected = texts_of(corpus.sampler(batch_size=BATCH), 4 * accumulated)
    assert used == expected[: 3 * accumulated]
    assert more == expected[2 * accumulated :]


def test_a_callback_refuses_before_the_first_step(corpus, model, tmp_path):
    other = corpus.sampler(batch_size=BATCH // 2)
    with pytest.raises(dp.SamplerError, match="open the sampler with batch_size=8"):
        trained(model, other.to_hf(), tmp_path, 2, callback=other.hf_callback())
    bounded = corpus.sampler(batch_size=BATCH, steps=3)
    with pytest.raises(dp.SamplerError, match="would use 4 batches, and this run has 3"):
        trained(model, bounded.to_hf(), tmp_path, 4, callback=bounded.hf_callback())
    with pytest.raises(dp.SamplerError, match="rank 0 of 2"):
        corpus.sampler(batch_size=BATCH, world_size=2).hf_callback()


def test_a_stored_stretch_keeps_its_batches(corpus, model, tmp_path):
    sampler = corpus.sampler(batch_size=BATCH)
    dataset, kept = sampler.to_hf_dataset(3), sampler.hf_batch_sampler()
    batches, trainer = trained(model, dataset, tmp_path, -1, batch_sampler=kept, num_train_epochs=2)
    assert len(trainer.get_train_dataloader()) == 3
    assert batches == texts_of(corpus.sampler(batch_size=BATCH), 3) * 2


@pytest.mark.parametrize("documents", ["split", "all"])
@pytest.mark.parametrize("source", ["one", None])
def test_an_evaluator_has_the_anchors_of_a_split(corpus, model, documents, source):
    evaluator = corpus.evaluator("test", corpus=documents, source=source, mrr_at_k=[10])
    rows = corpus.sql(
        "SELECT split, role, record_id, text FROM section_texts "
        "WHERE source = coalesce($s, source)",
        {"s": source},
    ).to_pylist()
    asked = {row["text"] for row in rows if (row["split"], row["role"]) == ("test", "anchor")}
    there = {
        row["record_id"]: row["text"]
        for row in rows
        if row["role"] == "context" and (documents == "all" or row["split"] == "test")
    }
    assert set(evaluator.queries) == asked
    assert set(evaluator.corpus) == set(there.values())
    for query, relevant in zip(
        evaluator.queries_ids, evaluator.relevant_docs.values(), strict=True
    ):
        assert len(relevant) == 1
        [document] = relevant
        assert query.split("#")[0] in document
    found = evaluator(model)
    assert 0 <= found["test_cosine_mrr@10"] <= 1


def test_equal_texts_are_one_document(tmp_path):
    rows = [{"a": f"question {i}", "b": f"answer {i // 3}"} for i in range(30)]
    with dp.Corpus(tmp_path / "e.duckdb") as corpus:
        corpus.ingest(rows, anchor="a", positive="b")
        corpus.split(0.5, 0.2, 0.3)
        evaluator = corpus.evaluator("test")
    assert sorted(evaluator.corpus) == sorted({row["b"] for row in rows})
    answers = dict(zip(evaluator.corpus_ids, evaluator.corpus, strict=True))
    found = dict(zip(evaluator.queries, evaluator.relevant_docs.values(), strict=True))
    assert found
    for row in rows:
        if row["a"] in found:
            assert {answers[document] for document in found[row["a"]]} == {row["b"]}


# ---- the batch sampler by itself


def kept(sampler, rows, *, drop_last=False, size=BATCH):
    return sampler.hf_batch_sampler()(range(rows), batch_size=size, drop_last=drop_last)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 40, 47])
def test_its_length_is_exact(corpus, rows, drop_last):
    batches = kept(corpus.sampler(batch_size=BATCH), rows, drop_last=drop_last)
    found = list(batches)
    assert len(found) == len(batches) == (rows // BATCH if drop_last else -(-rows // BATCH))
    taken = [row for batch in found for row in batch]
    assert taken == list(range(len(taken)))
    assert all(len(batch) == BATCH for batch in found[:-1])


def test_it_seeks_within_an_epoch_of_the_samplers_batch_size(corpus):
    batches = kept(corpus.sampler(batch_size=BATCH), 40)
    batches.set_epoch(0)
    batches.seek(3)
    assert list(batches) == [list(range(24, 32)), list(range(32, 40))]
    batches.set_epoch(1)
    assert len(list(batches)) == len(batches) == 5
    with pytest.raises(dp.SamplerError, match="step=-1"):
        batches.seek(-1)
    with pytest.raises(dp.SamplerError, match=r"step=6: .* 0 to 5"):
        batches.seek(6)
    with pytest.raises(dp.SamplerError, match="per_device_train_batch_size=8"):
        kept(corpus.sampler(batch_size=BATCH), 40, size=16)
    with pytest.raises(dp.SamplerError, match="rank 0 of 2"):
        corpus.sampler(batch_size=BATCH, world_size=2).hf_batch_sampler()
