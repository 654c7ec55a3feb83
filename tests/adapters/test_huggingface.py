"""Hugging Face datasets of a run: the text columns and no other, at any step."""

from itertools import islice

import pytest
from adapters.loaders import assert_refused, torch
from effort import some
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.tokens.batches import ARRAYS

datasets = pytest.importorskip("datasets")

COMMON = {"batch_size": 16, "seed": 7}


@pytest.fixture
def corpus(corpus_path):
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def rows(alone):
    """The texts of all samples in order."""
    columns = ("anchor", "positive", "negative")
    return [
        dict(zip(columns, texts, strict=True))
        for batch in alone
        for texts in zip(*(batch[column] for column in columns), strict=True)
    ]


def kinds(dataset):
    return {name: feature.dtype for name, feature in dataset.features.items()}


# ---- both


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("triplets", {}, ["anchor", "positive", "negative"]),
        ("triplets", {"negatives": 2}, ["anchor", "positive", "negative_1", "negative_2"]),
        ("triplets", {"columns": ["weight", "positive", "anchor"]}, ["anchor", "positive"]),
        ("pairs", {}, ["anchor", "positive"]),
        ("labelled_pairs", {}, ["anchor", "other", "label"]),
        ("labelled_pairs", {"columns": ["other", "anchor"]}, ["anchor", "other"]),
        ("texts", {}, ["text"]),
    ],
)
def test_features_are_what_a_trainer_takes_in_its_order(corpus, kind, options, expected):
    sampler = corpus.sampler(kind, **COMMON, **options)
    stream, stored = sampler.to_hf(), sampler.to_hf_dataset(3)
    types = {name: "int64" if name == "label" else "string" for name in expected}
    assert list(stream.features) == stored.column_names == expected
    assert kinds(stream) == kinds(stored) == types
    assert list(islice(stream, 48)) == stored.to_list()


# ---- streams


def test_a_stream_is_the_run(corpus, rows):
    assert list(corpus.sampler(**COMMON, epochs=4).to_hf()) == rows
    assert list(islice(corpus.sampler(**COMMON).to_hf(), 500)) == rows[:500]  # endless


def test_a_stream_begins_where_it_is_told(corpus, rows):
    sampler = corpus.sampler(**COMMON, epochs=4)
    next(sampler)
    assert list(sampler.to_hf()) == rows[16:]
    assert list(sampler.to_hf(start_step=30)) == rows[480:]
    for wrong in (-1, 1.0):
        with pytest.raises(dp.SamplerError, match=f"start_step={wrong}"):
            sampler.to_hf(start_step=wrong)
    with pytest.raises(dp.SamplerError, match="beyond the end of this run"):
        sampler.to_hf(start_step=50)


def test_a_stream_notices_that_its_sampler_was_moved(corpus):
    sampler = corpus.sampler(**COMMON)
    stream = iter(sampler.to_hf())
    assert len(list(islice(stream, 16))) == 16
    next(sampler)
    with pytest.raises(dp.SamplerError, match="moved from position 16 to 32"):
        next(stream)


@pytest.mark.parametrize("start", some(["fork", "spawn"], less=1))
def test_a_stream_stays_in_its_process(corpus, start):
    loader = torch.utils.data.DataLoader(
        corpus.sampler(**COMMON).to_hf(), 16, num_workers=1, multiprocessing_context=start
    )
    assert_refused(loader, dp.SamplerError, "dataloader_num_workers=0")


# ---- stored


def test_a_stored_stretch_leaves_the_sampler_as_it_was(corpus, rows):
    sampler = corpus.sampler(**COMMON, epochs=4)
    next(sampler)
    before = sampler.state_dict()
    assert sampler.to_hf_dataset(3).to_list() == rows[16:64]
    assert sampler.to_hf_dataset(1000).to_list() == rows[16:]
    assert sampler.state_dict() == before
    assert next(sampler).step == 1


# ---- rows of tokens


@pytest.mark.parametrize("how", [{"pack": True}, {"by_bucket": True}], ids=str)
def test_rows_of_tokens_are_lists_of_integers_from_any_step(how, tmp_path):
    texts = {name: numbered(lengths_of(90, seed)) for seed, name in enumerate(["one", "two"])}
    folder = write_shards(tmp_path / "shards", {"train": texts})
    options = {"seq_length": 24, "batch_size": 6, "steps": 20, "seed": 7, **how}
    with dp.TokenShards(folder) as shards:
        rows = [
            {name: batch[name][row].tolist() for name in ARRAYS}
            for batch in shards.sampler(**options)
            for row in range(6)
        ]
        sampler = shards.sampler(**options)
        stream = sampler.to_hf()
        assert {name: feature.feature.dtype for name, feature in stream.features.items()} == (
            dict.fromkeys(ARRAYS, "int32")
        )
        assert list(stream) == rows
        assert list(stream) != rows, "the next steps"
        stream.set_epoch(0)
        assert list(stream) == rows
        stored = shards.sampler(**options).to_hf_dataset(8)
        assert stored.features == stream.features
        assert list(stored) == rows[:48]
        sampler.save(step=11)
        assert list(shards.resume().to_hf()) == list(sampler.to_hf(start_step=11)) == rows[66:]
