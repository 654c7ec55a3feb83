"""Read spans of mapped files that are not in memory: many at a time, in the order of the file.

    spans ─some asked of the kernel→ in memory? ──yes─→ the mapped bytes
                                        └──no─→ pages, advised a queue ahead ─pread→ their bytes

A touch of a mapped page that is not there waits for the disk, and nothing else is asked of it
meanwhile: 54 texts a second came from a cold file of 2.4 GB that way. What a run reads is known
ahead, so one thread advises the pages of the next 256 spans and then reads them one after the
other, and the disk has a full queue. Threads that read were no faster, at twice the processor time.

Where few spans are missing only these are read, and all are gathered from the mapped bytes: of a
file that was in memory but for .3 % all of a block took a second to read, and .01 s to gather.

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

from duckplets.artifacts.folder import damaged
from duckplets.base.arrays import Bytes, Flags, Integers
from duckplets.base.prefetch import IsStopped, StoppedError, never
from duckplets.base.sanitize import shown

if TYPE_CHECKING:
    from duckplets.artifacts.arrays import ArrayFile

log = logging.getLogger("duckplets")

DEPTH = 256  # spans that are asked for ahead of the one that is read
CAN_ADVISE = hasattr(os, "posix_fadvise") and hasattr(os, "preadv")

_PAGE = 4096
_PROBES = 256  # spans of which the kernel is asked whether they are in memory
_PROBED = 1 << 16  # bytes of each, at most: of long texts the beginning tells
_TIMED = 32  # that are read instead where it does not say
_FEW = 1 / 8  # of the spans: where fewer are missing, it is looked up which
_SLOW = 5e-5  # seconds for one of them: a read from memory takes less, one from a disk more
_TOLD = 20_000  # reads after which it is said: a run that begins reads fewer before all is there
_LISTED = 8192  # spans that are Python numbers at once
_AT_ONCE = getattr(os, "RWF_NOWAIT", None)  # Linux: only what is in memory is given
_NO_ANSWER = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class ReadAhead:
    """Reads for one run what is not in memory, and counts it.

    Attributes:
        reads: Spans that were read.
        bytes: Of these.
        seconds: For these.
    """

    def __init__(self) -> None:
        self.reads = self.bytes = 0
        self.seconds = 0.0
        self._is_told = False

    def spans(
        self,
        file: ArrayFile,
        starts: Integers,
        lengths: Integers,
        is_stopped: IsStopped = never,
    ) -> tuple[Bytes, Integers] | None:
        """Read spans of a file, which lie within it, if some are not in memory.

        Returns:
            Their bytes and where each begins among them; None where all are in memory.

        Raises:
            DamagedFileError: The file is shorter than it was, or cannot be read.
            StoppedError: Nobody wants them any more.
        """
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
        file: ArrayFile,
        starts: Integers,
        lengths: Integers,
        is_stopped: IsStopped = never,
    ) -> None:
        """Have spans of a file in memory, to be gathered from its mapped bytes soon."""
        self._touch(file, starts, lengths, self._missing(file, starts, lengths), is_stopped)

    def _touch(
        self,
        file: ArrayFile,
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

    def _missing(self, file: ArrayFile, starts: Integers, lengths: Integers) -> Flags | None:
        """Return which spans to read: all where many are not in memory; None where none is."""
        share = cold_share(file, starts, lengths) if CAN_ADVISE and len(starts) else 0
        if not share:
            return None
        if share < _FEW and (missing := not_in_memory(file, starts, lengths)).any():
            return missing
        return np.ones(len(starts), bool)

    def _read(self, file: ArrayFile, starts: Integers, lengths: Integers, *how: Any) -> None:
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
    file: ArrayFile,
    starts: Integers,
    lengths: Integers,
    into: Bytes,
    places: Integers,
    is_stopped: IsStopped = never,
) -> None:
    """Read ascending spans of a file to places of an array."""
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
        raise damaged(file.path, error.strerror or str(error)) from error


def reads_per_second(file: ArrayFile, begin: int, seconds: float = 1.0) -> float | None:
    """Measure how many texts a disk gives a second, over the part of a file from a place on.

    None where nothing can be asked for ahead, or all that was tried is in memory.
    """
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


def _whole(file: ArrayFile, view: memoryview, start: int) -> None:
    """Read one span, of which the kernel gives a part at a time."""
    while view:
        count = os.preadv(file.descriptor, [view], start)
        if not count:
            raise damaged(file.path, "it is shorter than it was")
        view, start = view[count:], start + count


def _advised(starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Return what to ask for with each span: the pages up to the next gap, or nothing."""
    first, after = starts // _PAGE * _PAGE, starts + lengths
    reach = np.maximum.accumulate(after)
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > reach[:-1]]))
    sizes = np.zeros_like(lengths)
    sizes[begins] = np.append(reach[begins[1:] - 1], reach[-1]) - first[begins]
    return first, sizes


def _listed(*columns: Integers) -> Iterator[tuple[Any, ...]]:
    for low in range(0, len(columns[0]), _LISTED):
        yield from zip(*(column[low : low + _LISTED].tolist() for column in columns), strict=True)


def cold_share(file: ArrayFile, starts: Integers, lengths: Integers) -> float:
    """Return which part of the spans is not in memory, as far as a sample of them tells."""
    some = np.unique(np.linspace(0, len(starts) - 1, _PROBES).astype(np.int64))
    sizes = np.minimum(lengths[some], _PROBED)
    spans = list(zip(starts[some].tolist(), sizes.tolist(), strict=True))
    scratch = memoryview(bytearray(int(sizes.max())))
    try:
        count = _count_cold(file, spans, scratch)
        return float(_is_slow(file, spans, scratch)) if count is None else count / len(spans)
    except OSError as error:
        raise damaged(file.path, error.strerror or str(error)) from error


def _count_cold(file: ArrayFile, spans: list[tuple[int, int]], scratch: memoryview) -> int | None:
    """Return how many spans the kernel says are not in memory; None where it does not say."""
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


def not_in_memory(file: ArrayFile, starts: Integers, lengths: Integers) -> Flags:
    """Return which spans have a page that is not in memory; none where the system does not say."""
    size, pages = file.buffer.size, np.zeros(-(-file.buffer.size // mmap.PAGESIZE), np.uint8)
    address, told = ctypes.c_void_p(file.buffer.address), ctypes.c_void_p(pages.ctypes.data)
    if ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), told):
        return np.zeros(len(starts), bool)
    missing = np.concatenate([[0], np.cumsum(pages & 1 == 0)])
    first, after = starts // mmap.PAGESIZE, -(-(starts + lengths) // mmap.PAGESIZE)
    found: Flags = (missing[after] > missing[first]) & (lengths > 0)
    return found


def _is_slow(file: ArrayFile, spans: list[tuple[int, int]], scratch: memoryview) -> bool:
    """Whether reads of some of the spans take as long as those of a disk."""
    took = []
    for start, size in spans[:: -(-len(spans) // _TIMED)]:
        begun = time.perf_counter()
        os.preadv(file.descriptor, [scratch[:size]], start)
        took.append(time.perf_counter() - begun)
    return sorted(took)[len(took) * 3 // 4] > _SLOW  # some are slow on a busy machine
