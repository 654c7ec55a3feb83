"""Read spans of mapped files that are not in memory, queued and in file order.

spans ─sample, by the kernel→ in memory? ──yes─→ the mapped bytes
                                └──no─→ pages, advised a queue ahead ─pread→ their bytes

Access to a mapped page that is not in memory waits for the disk, with one request at a time. This
gave 54 texts a second from a cold file of 2.4 GB. The reads of a run are known in advance. So one
thread advises the pages of the next 256 spans and preads them in order, and the disk always has a
full queue. Several reading threads were no faster, and took twice the processor time.

If few spans are missing, only these are read, and all are gathered from the mapped bytes. With .3 %
of a file missing, reading every span of a block took 1 s, and gathering took .01 s.

Without ``posix_fadvise`` (macOS, Windows) the system reads pages on access.
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
_PROBED = 1 << 16  # bytes at the beginning of a sampled span that are checked
_TIMED = 32  # spans timed instead, if the kernel does not report missing pages
_FEW = 1 / 8  # share of missing spans below which each one is looked up
_SLOW = 5e-5  # seconds of one read: from memory it takes less, from a disk more
_WARNED = 20_000  # reads before the log warns: each run makes some at its start
_LISTED = 8192  # spans converted to Python integers at a time
_AT_ONCE = getattr(os, "RWF_NOWAIT", None)  # Linux: read only what is in memory
_NO_ANSWER = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class ReadAhead:
    """Reads the spans that a run needs and that are not in memory, and counts them."""

    def __init__(self) -> None:
        self.reads = self.bytes = 0  # spans and bytes read
        self.seconds = 0.0  # spent reading
        self._has_warned = False

    def spans(
        self,
        file: MappedFile,
        starts: Integers,
        lengths: Integers,
        is_stopped: IsStopped = never,
    ) -> tuple[Bytes, Integers] | None:
        """Return the bytes of spans and their places if all must be read, or None after reading."""
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
        """Read spans of a file into memory."""
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
        """Return the spans to read: all if many are missing, None if none are."""
        share = cold_share(file, starts, lengths) if CAN_ADVISE and len(starts) else 0
        if not share:
            return None
        if share < _FEW and (missing := not_in_memory(file, starts, lengths)).any():
            return missing
        return np.ones(len(starts), bool)

    def _read(self, file: MappedFile, starts: Integers, lengths: Integers, *target: Any) -> None:
        begun = time.perf_counter()
        read(file, starts, lengths, *target)
        self.reads += len(starts)
        self.bytes += int(lengths.sum())
        self.seconds += time.perf_counter() - begun
        if not self._has_warned and self.reads > _WARNED:
            self._has_warned = True
            log.warning(
                "%s is larger than the free memory: texts of the next batches are read ahead, and "
                "the disk limits the speed of batches; see metrics()",
                shown(file.path),
            )


def read(
    file: MappedFile,
    starts: Integers,
    lengths: Integers,
    into: Bytes,
    places: Integers,
    is_stopped: IsStopped = never,
) -> None:
    """Read ascending spans of a file into places of an array."""
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
    """Measure the random reads per second of a disk, in a file from an offset on."""
    places = np.arange(begin, file.buffer.size - _PAGE, _PAGE)
    if not CAN_ADVISE or not len(places):
        return None
    np.random.default_rng().shuffle(places)
    count, begun, reads = 0, time.perf_counter(), ReadAhead()
    for low in range(0, len(places), 16 * DEPTH):
        starts = places[low : low + 16 * DEPTH]
        reads.touch(file, starts, np.full_like(starts, 600))
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
    """Return the region to advise with each span: the pages up to the next gap, or size 0."""
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
    sample = np.unique(np.linspace(0, len(starts) - 1, _PROBES).astype(np.int64))
    sizes = np.minimum(lengths[sample], _PROBED)
    spans = list(zip(starts[sample].tolist(), sizes.tolist(), strict=True))
    scratch = memoryview(bytearray(int(sizes.max())))
    try:
        count = _count_cold(file, spans, scratch)
        return float(_is_slow(file, spans, scratch)) if count is None else count / len(spans)
    except OSError as error:
        raise file.damaged(error.strerror or str(error)) from error


def _count_cold(file: MappedFile, spans: list[tuple[int, int]], scratch: memoryview) -> int | None:
    """Count the spans that the kernel reports missing; None if it does not report."""
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
    """Return which spans have a missing page, as far as known."""
    size, pages = file.buffer.size, np.zeros(-(-file.buffer.size // mmap.PAGESIZE), np.uint8)
    address, vector = ctypes.c_void_p(file.buffer.address), ctypes.c_void_p(pages.ctypes.data)
    if ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), vector):
        return np.zeros(len(starts), bool)
    missing = np.concatenate([[0], np.cumsum(pages & 1 == 0)])
    first, after = starts // mmap.PAGESIZE, -(-(starts + lengths) // mmap.PAGESIZE)
    found: Flags = (missing[after] > missing[first]) & (lengths > 0)
    return found


def _is_slow(file: MappedFile, spans: list[tuple[int, int]], scratch: memoryview) -> bool:
    """Return whether reading a sample of the spans takes as long as from a disk."""
    times = []
    for start, size in spans[:: -(-len(spans) // _TIMED)]:
        begun = time.perf_counter()
        os.preadv(file.descriptor, [scratch[:size]], start)
        times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) * 3 // 4] > _SLOW  # single reads may be slow on a busy machine
