"""Keyed permutations and hashes: shuffled orders and draws as functions of positions."""

# Only integer arithmetic modulo 2^64 is used, so the order is the same on every platform and
# version of Python and NumPy. Any change of results is a new ``ORDER_VERSION``.

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers, Words

Halves = npt.NDArray[np.uint32]

ORDER_VERSION = 4

_SMALL = 4096  # up to this size an epoch is sorted by hash: exactly uniform, and cheap
_SPAN = 1 << 16  # items permuted at a time: they stay in the cache
_HALF_SPAN = 1 << 14  # likewise, of several permutations, with keys of their own
_CELLS = 1 << 20  # items of such epochs sorted together
_SEVERAL = 256  # items above which an epoch is permuted by itself
_ROUNDS = 8  # rounds; four are visibly non-random (tests/order/test_order.py)

_WORD = (1 << 64) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31, _U32 = (np.uint64(s) for s in (27, 30, 31, 32))
_H13, _H16 = np.uint32(13), np.uint32(16)
_H1, _H2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_LOW = np.uint64(0xFFFFFFFF)


def key(*parts: str | int | bytes) -> int:
    """Return a 64-bit key for a purpose, such as ``key(seed, source, recipe, "swap")``."""
    digest = hashlib.blake2b(b"".join(map(encoded, parts)), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


@lru_cache(maxsize=1 << 13, typed=True)
def encoded(part: str | int | bytes) -> bytes:
    """Return a part of a key as bytes, to be reused in many keys."""
    if isinstance(part, bytes):
        return part
    data = f"{type(part).__name__}:{part}".encode()
    return len(data).to_bytes(8, "little") + data


def mix(words: Words) -> Words:
    """Scramble 64-bit words: the finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    words = (words ^ (words >> _U30)) * _M1
    words = (words ^ (words >> _U27)) * _M2
    return words ^ (words >> _U31)


def hashed(purpose: int, values: npt.ArrayLike, attempt: int | Integers = 0) -> Words:
    """Hash non-negative integers under a key; another ``attempt`` gives another hash."""
    words = np.asarray(values).astype(np.uint64)
    if isinstance(attempt, np.ndarray):  # one for each
        words, attempt = words + _GOLDEN * (2 * attempt).astype(np.uint64), 0
    salt = np.uint64((purpose + 0x9E3779B97F4A7C15 * (2 * attempt + 1)) & _WORD)
    return mix(mix(words + salt) ^ np.uint64(purpose))


def below(words: Words, bounds: npt.ArrayLike) -> Integers:
    """Scale hashes to 0 … bound-1, for bounds of 1 to 2^63: the high half of a 128-bit product."""
    bound = np.asarray(bounds).astype(np.uint64)
    upper = bound >> _U32
    if upper.any():
        return _below_large(words, upper, bound & _LOW)
    high = (words >> _U32) * bound + (((words & _LOW) * bound) >> _U32)
    return (high >> _U32).astype(np.int64)


def _below_large(words: Words, upper: Words, lower: Words) -> Integers:
    high, low = words >> _U32, words & _LOW
    middle = high * lower + (low * lower >> _U32)
    carried = low * upper + (middle & _LOW)
    drawn: Integers = (high * upper + (middle >> _U32) + (carried >> _U32)).astype(np.int64)
    return drawn


def ranks(stream: int, n: int, start: int, stop: int) -> tuple[Integers, Integers]:
    """Return (item, epoch) of samples ``start … stop-1``; every epoch is another permutation."""
    return ranks_at(stream, n, np.arange(start, stop, dtype=np.int64))


def ranks_at(stream: int, n: int, index: Integers) -> tuple[Integers, Integers]:
    """Return (item, epoch) of samples by ascending number, with or without gaps."""
    epochs, rank = np.divmod(index, n)
    if n <= _SMALL:
        return _sorted_ranks(stream, n, epochs, rank), epochs
    if len(index) and epochs[-1] - epochs[0] > len(index) // _SEVERAL:
        return _walk(_round_keys(stream, epochs), n, rank), epochs
    items = np.empty(len(index), dtype=np.int64)
    first = 0
    while first < len(index):
        epoch = epochs[first]
        stop = int(np.searchsorted(epochs, epoch, side="right"))
        items[first:stop] = _walk(_round_keys(stream, epoch), n, rank[first:stop])
        first = stop
    return items, epochs


def index_of(stream: int, n: int, items: Integers, epochs: Integers) -> Integers:
    """Return the number of the sample that an item is in an epoch: ``ranks_at`` run backwards."""
    first = epochs * n
    if n > _SMALL:
        return first + _walk(_round_keys(stream, epochs)[::-1], n, items, back=True)
    found = np.empty(len(items), np.int64)
    for epoch in np.unique(epochs).tolist():
        some = epochs == epoch
        found[some] = np.argsort(_order_of(stream, n, epoch))[items[some]]
    return first + found


def permuted(
    stream: int,
    numbers: Integers,  # of the permutations
    sizes: Integers,  # of each, at most 2^32
    which: Integers,  # index of a permutation for every rank
    rank: Integers,
) -> Integers:
    """Return the item at each rank of one of several permutations, each of 0 … size-1."""
    # a Feistel network over a rectangle hardly larger than the size
    wide = np.ceil(np.sqrt(sizes)).astype(np.int64)
    sides = np.stack([wide, -(-sizes // wide)]).astype(np.uint32)
    keys, ends = _round_keys(stream, numbers).astype(np.uint32), sizes.astype(np.uint64)
    found = np.empty(len(rank), np.int64)
    for low in range(0, len(rank), _HALF_SPAN):
        at, of = slice(low, low + _HALF_SPAN), which[low : low + _HALF_SPAN]
        words = rank[at].astype(np.uint32)
        items = _over_rectangle(keys.take(of, axis=1), sides.take(of, axis=1), words)
        todo = np.flatnonzero(items >= ends.take(of))
        while len(todo):
            of = which[low + todo]
            words = items[todo]
            words = _over_rectangle(keys.take(of, axis=1), sides.take(of, axis=1), words)
            items[todo], todo = words, todo[words >= ends.take(of)]
        found[at] = items
    return found


def _over_rectangle(keys: Halves, sides: Halves, words: Halves) -> Halves:
    wide, long = sides
    high, low = np.divmod(words, long)
    for i, round_key in enumerate(keys):
        # the least of a sum and what wraps below 0 is the sum modulo the side
        if i % 2:
            low = low + (_scramble_half(high + round_key) * long >> _H16)
            low = np.minimum(low, low - long)
        else:
            high = high + (_scramble_half(low + round_key) * wide >> _H16)
            high = np.minimum(high, high - wide)
    items: Halves = high * long + low
    return items


def _scramble_half(words: Halves) -> Halves:
    """Return 16 bits of a hash of 32: two steps of MurmurHash3's finalizer (Appleby 2011)."""
    words = (words ^ (words >> _H16)) * _H1
    words = (words ^ (words >> _H13)) * _H2
    return words >> _H16


def item_at(stream: int, n: int, index: int) -> int:
    """Return the item of one sample with Python integers: an array takes twenty times as long."""
    epoch, rank = divmod(index, n)
    if n <= _SMALL:
        return int(_order_of(stream, n, epoch)[rank])
    keys, bits = _key_integers(stream, epoch), (n - 1).bit_length()
    item = _feistel_integer(keys, bits, rank)
    while item >= n:
        item = _feistel_integer(keys, bits, item)
    return item


def shuffled(stream: int, n: int) -> Integers:
    """Return the first epoch of a stream over ``n`` items."""
    items = np.empty(n, dtype=np.int64)
    for start in range(0, n, _SPAN):
        stop = min(start + _SPAN, n)
        items[start:stop] = ranks_at(stream, n, np.arange(start, stop))[0]
    return items


@lru_cache(maxsize=256)  # each of up to 32 kB
def _order_of(stream: int, n: int, epoch: int) -> Integers:
    order: Integers = _orders(stream, n, np.array([epoch]))[0]
    return order


@lru_cache(maxsize=64)
def _key_integers(stream: int, epoch: int) -> list[int]:
    keys: list[int] = _round_keys(stream, np.int64(epoch)).tolist()
    return keys


def _feistel_integer(keys: list[int], bits: int, word: int) -> int:
    low_bits = (bits + 1) // 2
    masks = (1 << bits // 2) - 1, (1 << low_bits) - 1
    high, low = word >> low_bits, word & masks[1]
    for i, round_key in enumerate(keys):
        scrambled = ((high if i % 2 else low) + round_key) * 0x9E3779B97F4A7C15 & _WORD
        scrambled = ((scrambled ^ scrambled >> 32) * 0xBF58476D1CE4E5B9 & _WORD) >> 31
        if i % 2:
            low ^= scrambled & masks[1]
        else:
            high ^= scrambled & masks[0]
    return high << low_bits | low


def _sorted_ranks(stream: int, n: int, epochs: Integers, rank: Integers) -> Integers:
    if len(epochs) == 0:
        return rank
    if epochs[0] == epochs[-1] and len(rank) < n:  # neighbours are often asked for next
        return _order_of(stream, n, int(epochs[0]))[rank]
    is_first = np.diff(epochs, prepend=-1) != 0
    row, rows = np.cumsum(is_first) - 1, epochs[is_first]  # epochs may be skipped
    items = np.empty(len(rank), dtype=np.int64)
    step = max(1, _CELLS // n)
    for first in range(0, len(rows), step):
        orders = _orders(stream, n, rows[first : first + step])
        low, high = np.searchsorted(row, [first, first + step])
        items[low:high] = orders[row[low:high] - first, rank[low:high]]
    return items


def _orders(stream: int, n: int, epochs: Integers) -> Integers:
    """Return whole epochs, a row each: the items sorted by hash."""
    cells = epochs.astype(np.uint64)[:, None] * np.uint64(n) + np.arange(n, dtype=np.uint64)
    # hashes of different cells differ, so there are no ties
    items: Integers = np.argsort(hashed(stream, cells), axis=1)
    return items


def _round_keys(stream: int, epochs: Integers | np.int64) -> Words:
    """Return the keys of all rounds, of one epoch or of several as columns."""
    rounds = np.arange(_ROUNDS, dtype=np.uint64)
    first = np.asarray(epochs).astype(np.uint64) * np.uint64(_ROUNDS)
    return hashed(stream, rounds + first if first.ndim == 0 else rounds[:, None] + first)


def _walk(keys: Words, n: int, rank: Integers, *, back: bool = False) -> Integers:
    """Permute 0 … n-1 by a Feistel network, walking its cycles (Black and Rogaway 2002)."""
    bits = (n - 1).bit_length()
    items = _feistel(keys, bits, rank.astype(np.uint64), back=back)
    outside = np.flatnonzero(items >= np.uint64(n))
    while len(outside):
        some = keys if keys.ndim == 1 else keys[:, outside]
        items[outside] = _feistel(some, bits, items[outside], back=back)
        outside = outside[items[outside] >= np.uint64(n)]
    return items.astype(np.int64)


def _feistel(keys: Words, bits: int, words: Words, *, back: bool = False) -> Words:
    low_bits = np.uint64((bits + 1) // 2)
    low_mask = np.uint64((1 << ((bits + 1) // 2)) - 1)
    high_mask = np.uint64((1 << (bits // 2)) - 1)
    high, low = words >> low_bits, words & low_mask
    for i, round_key in enumerate(keys, start=1 if back else 0):
        if i % 2:
            low = low ^ (_scramble(high + round_key) & low_mask)
        else:
            high = high ^ (_scramble(low + round_key) & high_mask)
    return (high << low_bits) | low


def _scramble(words: Words) -> Words:
    words = words * _GOLDEN
    words = (words ^ (words >> _U32)) * _M1
    return words >> _U31
