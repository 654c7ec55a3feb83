"""Read spans of mapped files that are not in memory: queued, in file order.

spans ─sample asked of the kernel→ in memory? ──yes─→ the mapped bytes
                                    └──no─→ pages, advised a queue ahead ─pread→ their bytes

Touching a mapped page that is not in memory waits for the disk with one request in flight: 54
texts a second from a cold file of 2.4 GB. The reads of a run are known ahead, so one thread
advises the pages of the next 256 spans and preads them in order, and the disk always has a full
queue. Reading threads were no faster, at twice the processor time.

Where only few spans are missing, these alone are read and all are gathered from the mapped
bytes: with .3 % of a file missing, reading every span of a block took 1 s, gathering .01 s.

Without ``posix_fadvise`` (macOS, Windows) pages are touched as they are needed.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Bytes, Flags, Integers
from duckplets.base.prefetch import IsStopped, StoppedError, never
from duckplets.base.sanitize import shown

if TYPE_CHECKING:
    from duckplets.artifacts.arrays import MappedFile

log = logging.getLogger("duckplets")

DEPTH = 256  # spans advised ahead of the one being read
CAN_ADVISE = hasattr(os, "posix_fadvise") and hasattr(os, "preadv")

_PAGE = 4096
_PROBES = 256  # spans in a sample
_PROBED = 1 << 16  # bytes checked of a sampled span: its beginning stands for it
_TIMED = 32  # spans timed instead, where the kernel does not tell
_FEW = 1 / 8  # share of missing spans below which each one is looked up
_SLOW = 5e-5  # seconds of one read: from memory it takes less, from a disk more
_TOLD = 20_000  # reads before the log says so: a run that begins makes some
_LISTED = 8192  # spans converted to Python integers at a time
_AT_ONCE = getattr(os, "RWF_NOWAIT", None)  # Linux: read only what is in memory
_NO_ANSWER = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class ReadAhead:
    """Read what a run needs and memory does not hold, and count it.

    Attributes:
        reads: Spans read.
        bytes: Bytes read.
        seconds: Time spent reading.
    """

    def __init__(self) -> None:
        self.reads = self.bytes = 0
        self.seconds = 0.0
        self._is_told = False

    def spans(
        self,
        file: MappedFile,
        starts: Integers,
        lengths: Integers,
        is_stopped: IsStopped = never,
    ) -> tuple[Bytes, Integers] | None:
        """Read spans of a file if some of them are not in memory."""
        missing = self._missing(file, starts, lengths)
        if missing is None or not missing.all():
            self._touch(file, starts, lengths, missing, is_stopped)
            return None
        order = np.argsort(starts, kind="stable")
        ends = np.empty_like(lengths)
        ends[order] = np.cumsum(lengths[order])
        found, places = np.empty(int(lengths.sum()), np.uint8), ends - lengths
        self._read(file, starts[order], lengths[order], found, places[order], is_stopped)
        return found, places

    def touch(
        self,
        file: MappedFile,
        starts: Integers,
        lengths: Integers,
        is_stopped: IsStopped = never,
    ) -> None:
        """Bring spans of a file into memory."""
        self._touch(file, starts, lengths, self._missing(file, starts, lengths), is_stopped)

    def _touch(
        self,
        file: MappedFile,
        starts: Integers,
        lengths: Integers,
        missing: Flags | None,
        is_stopped: IsStopped,
    ) -> None:
        if missing is None:
            return
        starts, lengths = starts[missing], lengths[missing]
        order = np.argsort(starts, kind="stable")
        scratch, places = np.empty(int(lengths.max()), np.uint8), np.zeros_like(starts)
        self._read(file, starts[order], lengths[order], scratch, places, is_stopped)

    def _missing(self, file: MappedFile, starts: Integers, lengths: Integers) -> Flags | None:
        """Return the spans to read: all if many are missing, None if none is."""
        share = cold_share(file, starts, lengths) if CAN_ADVISE and len(starts) else 0
        if not share:
            return None
        if share < _FEW and (missing := not_in_memory(file, starts, lengths)).any():
            return missing
        return np.ones(len(starts), bool)

    def _read(self, file: MappedFile, starts: Integers, lengths: Integers, *how: Any) -> None:
        begun = time.perf_counter()
        read(file, starts, lengths, *how)
        self.reads += len(starts)
        self.bytes += int(lengths.sum())
        self.seconds += time.perf_counter() - begun
        if not self._is_told and self.reads > _TOLD:
            self._is_told = True
            log.warning(
                "%s is not all in memory: what the next batches need is read ahead of them, and as "
                "long as it does not fit they come as fast as the disk reads; see metrics()",
                *(shown(file.path),),
            )


def read(
    file: MappedFile,
    starts: Integers,
    lengths: Integers,
    into: Bytes,
    places: Integers,
    is_stopped: IsStopped = never,
) -> None:
    """Read ascending spans of a file into an array, each to its place."""
    view, coming = into.data, _listed(*_advised(starts, lengths))

    def advise(count: int) -> None:
        for start, size in islice(coming, count):
            if size:
                os.posix_fadvise(file.descriptor, start, size, os.POSIX_FADV_WILLNEED)

    try:
        advise(DEPTH)
        for number, (start, low, high) in enumerate(_listed(starts, places, places + lengths)):
            advise(1)
            if os.preadv(file.descriptor, [view[low:high]], start) < high - low:
                _whole(file, view[low:high], start)
            if number % DEPTH == 0 and is_stopped():
                raise StoppedError
    except OSError as error:
        raise file.damaged(error.strerror or str(error)) from error


def reads_per_second(file: MappedFile, begin: int, seconds: float = 1.0) -> float | None:
    """Measure the random reads per second of a disk, from an offset of a file on."""
    places = np.arange(begin, file.buffer.size - _PAGE, _PAGE)
    if not CAN_ADVISE or not len(places):
        return None
    np.random.default_rng().shuffle(places)
    count, begun, reads = 0, time.perf_counter(), ReadAhead()
    for low in range(0, len(places), 16 * DEPTH):
        some = places[low : low + 16 * DEPTH]
        reads.touch(file, some, np.full_like(some, 600))
        count = reads.reads
        if not count or time.perf_counter() - begun > seconds:
            break
    return count / reads.seconds if count else None


def _whole(file: MappedFile, view: memoryview, start: int) -> None:
    """Read one span; the kernel may return it in pieces."""
    while view:
        count = os.preadv(file.descriptor, [view], start)
        if not count:
            raise file.damaged("it is shorter than it was")
        view, start = view[count:], start + count


def _advised(starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Return what to advise with each span: the pages up to the next gap, or nothing."""
    first, after = starts // _PAGE * _PAGE, starts + lengths
    reach = np.maximum.accumulate(after)
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > reach[:-1]]))
    sizes = np.zeros_like(lengths)
    sizes[begins] = np.append(reach[begins[1:] - 1], reach[-1]) - first[begins]
    return first, sizes


def _listed(*columns: Integers) -> Iterator[tuple[Any, ...]]:
    for low in range(0, len(columns[0]), _LISTED):
        yield from zip(*(column[low : low + _LISTED].tolist() for column in columns), strict=True)


def cold_share(file: MappedFile, starts: Integers, lengths: Integers) -> float:
    """Estimate the share of spans not in memory from a sample."""
    some = np.unique(np.linspace(0, len(starts) - 1, _PROBES).astype(np.int64))
    sizes = np.minimum(lengths[some], _PROBED)
    spans = list(zip(starts[some].tolist(), sizes.tolist(), strict=True))
    scratch = memoryview(bytearray(int(sizes.max())))
    try:
        count = _count_cold(file, spans, scratch)
        return float(_is_slow(file, spans, scratch)) if count is None else count / len(spans)
    except OSError as error:
        raise file.damaged(error.strerror or str(error)) from error


def _count_cold(file: MappedFile, spans: list[tuple[int, int]], scratch: memoryview) -> int | None:
    """Count the spans that the kernel reports missing; None where it does not report."""
    if _AT_ONCE is None:
        return None
    count = 0
    for start, size in spans:
        try:
            count += os.preadv(file.descriptor, [scratch[:size]], start, _AT_ONCE) < size
        except BlockingIOError:
            count += 1
        except OSError as error:
            if error.errno not in _NO_ANSWER:
                raise
            return None
    return count


def not_in_memory(file: MappedFile, starts: Integers, lengths: Integers) -> Flags:
    """Return a flag per span: whether a page of it is missing, as far as known."""
    size, pages = file.buffer.size, np.zeros(-(-file.buffer.size // mmap.PAGESIZE), np.uint8)
    address, vector = ctypes.c_void_p(file.buffer.address), ctypes.c_void_p(pages.ctypes.data)
    if ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), vector):
        return np.zeros(len(starts), bool)
    missing = np.concatenate([[0], np.cumsum(pages & 1 == 0)])
    first, after = starts // mmap.PAGESIZE, -(-(starts + lengths) // mmap.PAGESIZE)
    found: Flags = (missing[after] > missing[first]) & (lengths > 0)
    return found


def _is_slow(file: MappedFile, spans: list[tuple[int, int]], scratch: memoryview) -> bool:
    """Return whether reading some of the spans takes as long as from a disk."""
    took = []
    for start, size in spans[:: -(-len(spans) // _TIMED)]:
        begun = time.perf_counter()
        os.preadv(file.descriptor, [scratch[:size]], start)
        took.append(time.perf_counter() - begun)
    return sorted(took)[len(took) * 3 // 4] > _SLOW  # single reads may be slow on a busy machine
