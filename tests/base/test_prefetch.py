"""Items made ahead of their use: order, errors, and the end of the threads."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from duckplets.base.prefetch import Lookahead, StoppedError, ahead


def until(true):
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name == "of this test"]


def squares(begun, *, fail_at=-1, seconds=0.0):
    def square(i):
        begun.append(i)
        time.sleep(seconds * (i % 3))
        if i == fail_at:
            raise ValueError(f"no square of {i}")
        return i * i

    return (partial(square, i) for i in range(50))


@pytest.mark.parametrize(("most", "workers"), [(0, 1), (4, 1), (1, 3), (100, 3)])
def test_items_come_in_order_and_an_error_at_its_place_ends_them(most, workers):
    begun = []
    items = Lookahead(squares(begun, seconds=0.001), "of this test", most=most, threads=workers)
    assert list(items) == [i * i for i in range(50)]
    assert list(items) == []
    assert sorted(begun) == list(range(50))
    begun.clear()
    items = Lookahead(squares(begun, fail_at=7), "of this test", most=most, threads=workers)
    assert [next(items) for _ in range(7)] == [i * i for i in range(7)]
    with pytest.raises(ValueError, match="no square of 7"):
        next(items)
    assert list(items) == []
    if workers == 1:
        assert max(begun) == 7, "nothing is begun behind an error"
    assert not threads()


def test_closing_ends_an_iterator_that_waits_and_whoever_waits_for_it():
    class Waiting(Iterator[int]):
        def __init__(self):
            self.stopped = threading.Event()
            self.stop = self.stopped.set

        def __next__(self):
            assert self.stopped.wait(20)
            raise StopIteration

    items = ahead(Waiting(), "of this test")
    told = []

    def take():
        try:
            next(items)
        except StoppedError as error:
            told.append(type(error))

    taker = threading.Thread(target=take)
    taker.start()
    until(lambda: bool(threads()))
    items.close()
    taker.join(20)
    assert told == [StoppedError]
    assert not threads()


def test_ctrl_c_loses_no_item():
    slow = threading.Event()

    def numbers():
        yield 0
        slow.wait(20)
        yield from range(1, 5)

    def next_interrupted(items):
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        return next(items)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        items = ahead(numbers(), "of this test")
        assert next(items) == 0
        with pytest.raises(KeyboardInterrupt):
            next_interrupted(items)
    finally:
        signal.signal(signal.SIGINT, before)
    slow.set()
    assert list(items) == [1, 2, 3, 4]
