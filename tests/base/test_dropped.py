"""What is dropped ends, and lets go of what it holds; no code of ours runs at that moment."""

import gc
import threading
import time
from functools import partial

import pytest
from prebuilt import toy_corpus
from programs import PATIENCE

import duckplets as dp
from duckplets.base.prefetch import Lookahead


def test_the_threads_of_what_is_dropped_end_and_its_file_may_be_written(tmp_path):
    path = tmp_path / "c.duckdb"
    toy_corpus(path, 200).close()
    before = set(threading.enumerate())
    with dp.Corpus(path) as corpus:
        sampler = corpus.sampler(batch_size=4, options=dp.Options(prefetch=2))
        next(sampler)
        with pytest.raises(dp.errors.CorpusLockedError, match="close them first"):
            corpus.compact()
        del sampler
        gc.collect()
        corpus.compact()  # which ends them at once; else they look once a second
    items = Lookahead((partial(int, i) for i in range(9)), "of this test")
    assert next(items) == 0
    del items
    deadline = time.monotonic() + PATIENCE
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
