"""A corpus serves its texts as rows of tokens, through shards of its own making."""

from itertools import islice

import pytest
from prebuilt import toy_corpus
from tokenizer_files import byte_level

import duckplets as dp

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "toy.duckdb"
    toy_corpus(path, 118, sources=("one", "two")).close()
    with dp.Corpus(path, read_only=True) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_level(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


def test_rows_are_those_of_the_folder_it_makes(corpus, tokenizer):
    how = {"seq_length": 20, "pack": True, "batch_size": 5, "seed": 3}
    with pytest.raises(dp.SamplerError, match="eos"):  # this tokenizer has no end of text
        corpus.token_sampler(tokenizer, **how)
    run = corpus.token_sampler(tokenizer, **how, eos=None)
    found = [batch["input_ids"].tolist() for batch in islice(run, 9)]
    (folder,) = corpus.path.parent.glob("toy.shards-v*-train-????????")
    before = (folder / "manifest.json").stat().st_mtime_ns
    with dp.TokenShards(folder) as shards:
        other = shards.sampler(**how, eos=None)
        assert [batch["input_ids"].tolist() for batch in islice(other, 9)] == found
    run.save()
    assert dp.resume(folder).step == 9
    rows = corpus.token_sampler(tokenizer, seq_length=20)
    assert next(rows)["input_ids"].shape == (8, 20)
    assert (folder / "manifest.json").stat().st_mtime_ns == before


def test_a_tokenizer_that_is_not_there_is_refused(corpus):
    with pytest.raises(dp.errors.ChunkingError, match="No such file"):
        corpus.token_sampler("nowhere.json")
