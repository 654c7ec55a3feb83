"""What is dropped: it ends, and Ctrl-C that comes meanwhile is not lost."""

import gc
import signal
import threading
import time
from pkgutil import resolve_name

import pytest
from prebuilt import toy_corpus
from programs import PATIENCE

from duckplets.base.prefetch import ahead


def _reader(corpus):
    return corpus.sampler()._reader


def _items(corpus):
    items = ahead(iter(range(9)))
    next(items)
    return items


MADE = {
    "a reader": (_reader, "duckplets.runs.reader", "_let_go"),
    "what is made ahead": (_items, "duckplets.base.prefetch._PrefetchQueue", "stop"),
}


@pytest.fixture
def no_callbacks():
    """Have garbage collections call nobody: Hypothesis' own callback would take the Ctrl-C."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


@pytest.mark.usefixtures("no_callbacks")
@pytest.mark.parametrize("made", MADE)
def test_ctrl_c_is_not_lost_where_something_is_dropped(made, tmp_path, monkeypatch):
    make, place, name = MADE[made]
    ended = threading.Event()

    owner = resolve_name(place.replace("._", ":_"))
    end = getattr(owner, name)

    def interrupted(*given):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        end(*given)  # else its thread would wait through all the tests that come after
        ended.set()

    with toy_corpus(tmp_path / "c.duckdb", 20) as corpus:
        monkeypatch.setattr(owner, name, interrupted)
        things = [make(corpus)]
        assert not ended.is_set()
        with pytest.raises(KeyboardInterrupt):
            _drop(things)
        assert ended.wait(PATIENCE)


def _drop(things):
    things.clear()
    gc.collect()
    for _ in range(100 * PATIENCE):  # the signal came to another thread, and ends no sleep
        time.sleep(0.01)
