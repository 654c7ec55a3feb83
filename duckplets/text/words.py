"""Count the tokens of texts by the weights of their words, and cut them where a reader would.

    bytes ─flags→ characters ─runs→ units (a cluster or a word) with weights ─sums→ tokens, windows

A piece between white space is a token. A letter of a script without spaces, or of one of which
vocabularies need several tokens a word, is a unit of its own and weighs quarters of a token
(``characters.WEIGHTS``). A word beside such letters is one token, and punctuation none. In a run of
more than ``LONGEST`` letters and digits each of them is a unit of ``HALF``. A text has the ceiling
of its weights. No unit begins with a mark, or after a joiner.
Texts without such letters and runs are counted by ``windows``, ten times as fast and equally.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from duckplets.base.arrays import Array, Bits, Bytes, Flags, Integers, ranges
from duckplets.text.characters import (
    DIGIT,
    JOINER,
    LETTER,
    MARK,
    PHRASE,
    SENTENCE,
    SPACE,
    characters_of,
    classes,
    heavy,
)

# Letters and marks of scripts without spaces, whose terms are pairs of characters, as what brackets
# of a regular expression hold. The macro _internal.paired says the same.
PAIRED = (
    "\u0e01-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17dd"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u303c\u3041-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
LONGEST = 64  # letters and digits of a word: a longer run is base64, an address or minified code
TOKEN, HALF = 4, 2  # quarters
_WEIGHT = np.array([*range(7), *[0] * 9], np.uint8)  # of each kind
_ALNUM = LETTER | DIGIT
_STEP = 1 << 16  # bytes


def may_be_weighed(data: Bytes, pieces: Bits, *, ascii_only: bool) -> bool:
    """Return whether texts may have a letter with a weight, or a run too long for a word."""
    for start in range(0, 0 if ascii_only else len(data), _STEP):
        leads: Integers = np.flatnonzero(data[start : start + _STEP] >= 0xE0) + start
        if len(leads) and heavy()[data[leads], data[leads + 1] & 0x3F].any():
            return True
    # where no piece begins for 65 bytes, three times 16 aligned flags are 0
    empty = pieces.words.view(np.uint16)[: len(data) >> 4] == 0
    empty = empty[:-2] & empty[1:-1] & empty[2:]
    if not empty.any():
        return False
    first = pieces.rank(np.flatnonzero(empty) << 4) - 1
    first = first[np.diff(first, prepend=-1) > 0]
    begin = pieces.select(first)
    size = pieces.select(first + 1) - begin
    begin, size = begin[size > LONGEST], size[size > LONGEST]
    if not len(begin):
        return False
    letters = classes(data[ranges(begin, size)]) & _ALNUM != 0
    counts = np.add.reduceat(letters, np.cumsum(size) - size, dtype=np.int64)
    return bool((counts > LONGEST).any())


class Units:
    """The units of texts, and the sums of their weights.

    Attributes:
        place: First byte of every unit, and the end; int64[units + 1].
        before: Quarters of a token before every unit, and of all; int64[units + 1].
        first: First unit of every text, and the end; int64[texts + 1].
    """

    __slots__ = ("_flags", "_unit", "before", "first", "place")

    def __init__(self, data: Bytes, bounds: Integers) -> None:
        at, flags = characters_of(data)
        front = np.zeros(len(at) + 1, np.bool_)
        front[np.searchsorted(at, bounds)] = True
        kind = flags >> 4
        if kind.max(initial=0) >= MARK:
            kept = ~_attached(kind, (flags & SPACE) != 0, front)
            at, flags, kind = at[kept], flags[kept], kind[kept]
            front = np.append(front[:-1][kept], True)
        weight = _WEIGHT.take(kind)
        begin = weight > 0
        _weigh_runs(flags, front, weight, begin)
        self._flags, self._unit = flags, np.flatnonzero(begin)
        sums = np.cumsum(weight, dtype=np.int64)
        self.before = np.append(sums[self._unit] - weight[self._unit], sums[-1:])
        self.place = np.append(at[self._unit], len(data))
        self.first = np.searchsorted(self.place[:-1], bounds)

    def tokens(self, first: Integers, end: Integers) -> Integers:
        """Return the tokens of ranges of units."""
        return -((self.before[first] - self.before[end]) // TOKEN)

    def stops(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return whether units touch the one before, and which follow sentences and phrases."""
        unit, flags = self._unit, self._flags
        spaced = flags[unit - 1] & SPACE != 0
        spaced[:1] = True
        after = []
        for each in (SENTENCE, PHRASE):
            found = np.flatnonzero(flags >> 4 == each)
            following = flags.take(found + 1, mode="clip")
            # not in 3.5
            is_inside = (following & _ALNUM != 0) & (_WEIGHT.take(following >> 4) == 0)
            follows = np.append(spaced if each == PHRASE else np.zeros_like(spaced), False)
            follows[np.searchsorted(unit, found[~is_inside])] = True
            after.append(np.flatnonzero(follows[:-1]).data)
        return (~spaced).data, *after


def _attached(kind: Array, space: Flags, front: Flags) -> Flags:
    """Return which characters belong to the one before: marks, and what a joiner joins."""
    attached: Flags = kind >= MARK
    attached[1:] |= (kind[:-1] == JOINER) & ~space[1:]
    attached[1:] &= ~space[:-1]
    attached[front[:-1]] = False
    return attached


def _weigh_runs(flags: Bytes, front: Flags, weight: Bytes, begin: Flags) -> None:
    """Set weights and beginnings of runs of characters that have no weight of their own."""
    plain = (flags & SPACE == 0) & ~begin
    starts, ends = plain.copy(), plain.copy()
    starts[1:] &= ~plain[:-1] | front[1:-1]
    ends[:-1] &= ~plain[1:] | front[1:-1]
    first, end = np.flatnonzero(starts), np.flatnonzero(ends) + 1
    if not len(first):
        return
    after = np.append(begin, False)[end] & ~front[end]
    before = begin[first - 1] & ~front[first]
    weight[first], begin[first] = TOKEN, True
    looked = np.flatnonzero(before | after | (end - first > LONGEST))
    if not len(looked):
        return
    size = (end - first)[looked]
    letter = (flags & _ALNUM != 0)[inside := ranges(first[looked], size)]
    letters = np.add.reduceat(letter, np.cumsum(size) - size, dtype=np.int64)
    hollow = looked[(letters == 0) & (before | after)[looked]]
    weight[first[hollow]] = 0
    begin[first[hollow[before[hollow]]]] = False
    # punctuation that opens a piece stays with the cluster after it
    begin[end[hollow[~before[hollow]]]] = False
    long = np.repeat(letters > LONGEST, size)
    weight[inside[long]] = HALF * letter[long]
    begin[inside[long]] = letter[long]
    begin[first[looked[letters > LONGEST]]] = True


def with_long_runs(data: Bytes, bounds: Integers, most: int) -> Flags:
    """Return which texts have a run of plain characters that is more than ``most`` tokens."""
    at, flags = characters_of(data)
    first = np.searchsorted(at, bounds)
    breaks = np.flatnonzero((flags & SPACE != 0) | (_WEIGHT.take(flags >> 4) > 0))
    edges = np.union1d(breaks, first)
    letters = np.append(0, np.cumsum(flags & _ALNUM != 0))[edges]
    long = edges[:-1][np.diff(letters) > max(LONGEST, most * TOKEN // HALF)]
    found: Flags = np.bincount(np.searchsorted(first, long, "right") - 1, minlength=len(bounds)) > 0
    return found[:-1]


def cut(
    units: Units, text: int, stops: tuple[memoryview, ...], most: int, overlap: int, once: bool
) -> list[tuple[int, int]]:
    """Return windows of a text, or the first, as ranges of units of at most ``most`` tokens.

    A window that would end within a piece ends after a sentence in its last quarter; if there is
    none, after a phrase or a piece there.
    """
    before, (touches, *marks) = units.before.data, stops
    begin, last = units.first[text : text + 2].tolist()
    found: list[tuple[int, int]] = []
    while True:
        limit = before[begin] + TOKEN * most
        if before[last] <= limit or last == begin + 1:
            return [*found, (begin, last)]
        end = max(bisect_right(before, limit, begin + 1, last) - 1, begin + 1)
        if touches[end]:
            least = bisect_left(before, limit - most, begin + 1, end)
            for places in marks:
                at = bisect_right(places, end) - 1
                if at >= 0 and places[at] >= least:
                    end = places[at]
                    break
        found.append((begin, end))
        if once:
            return found
        back = bisect_left(before, before[end] - TOKEN * overlap, begin + 1, end)
        begin = max(begin + 1, back)
