"""What is dropped: it ends, and Ctrl-C that comes meanwhile is not lost."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import BuiltinMethodType
from typing import Any

import pytest
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.base.dropped import LiveSet, settle, when_dropped
from duckplets.base.prefetch import ahead
from duckplets.db.sessions import Session


def _reader(corpus: dp.Corpus) -> Any:
    return corpus.sampler()._reader


def _items(corpus: dp.Corpus) -> Any:
    items = ahead(iter(range(9)))
    next(items)
    return items


MADE: dict[str, tuple[Callable[[dp.Corpus], Any], Any, str]] = {
    "a reader": (_reader, "duckplets.runs.reader", "_let_go"),
    "what is made ahead": (_items, "duckplets.base.prefetch._PrefetchQueue", "stop"),
}


@pytest.fixture
def no_callbacks() -> Iterator[None]:
    """Have garbage collections call nobody: Hypothesis' own callback would take the Ctrl-C."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


@pytest.mark.usefixtures("no_callbacks")
@pytest.mark.parametrize("made", MADE)
def test_ctrl_c_is_not_lost_where_something_is_dropped(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, place, name = MADE[made]
    ended = threading.Event()

    owner = resolve_name(place.replace("._", ":_"))
    end = getattr(owner, name)

    def interrupted(*given: Any) -> None:
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
        assert ended.wait(5)


def _drop(things: list[Any]) -> None:
    things.clear()
    gc.collect()
    time.sleep(5)


def test_no_python_runs_where_something_is_dropped(tmp_path: Path) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 60) as corpus:
        corpus.mine(["anchor_context"], progress=False)
        with corpus.sampler(batch_size=8) as sampler:
            held = [next(sampler), sampler.batch_at(3), corpus.read(dp.SequentialSampler(20))]
            found = [
                each
                for each in gc.get_objects()
                if str(type(each).__module__).startswith("duckplets")
            ]
            called = {
                f"{type(each).__qualname__}: {mark.__callback__}"
                for each in found
                for mark in weakref.getweakrefs(each)
                if not isinstance(mark.__callback__, BuiltinMethodType | None)
            }
            assert any(isinstance(each, Session) for each in found)
            assert not called
            del held


class Thing:
    pass


def test_what_is_held_is_there_until_it_is_dropped() -> None:
    held: LiveSet[Thing] = LiveSet()
    things = [Thing() for _ in range(5)]
    for each in things:
        held.add(each)
    held.add(things[0])
    assert set(held) == set(things)
    assert len(list(held)) == 5
    held.discard(things.pop())
    held.discard(Thing())
    del things[1:], each
    assert list(held) == things
    held.clear()
    assert list(held) == []


def test_what_is_dropped_is_ended_once() -> None:
    ended: list[str] = []
    things = [Thing() for _ in range(3)]
    for number, each in enumerate(things):
        when_dropped(each, [lambda: ended.append("it"), lambda: 1 / 0, lambda: None][number])
    del each
    settle()
    assert ended == []
    things.clear()
    settle()
    assert ended == ["it"]
