"""Count words and tokens of texts, and measure repetition within a text."""

# An (n+1)-gram repeats only if both its n-grams do. So pairs are sorted once, and longer n-grams
# are searched among the few that remain. Ids are exact, so two n-grams never share one.
#
# Tokens follow spaCy's English rules in most texts. A token is a run of word characters, with a dot
# between two of them and a comma between two digits. An apostrophe begins a token. A letter of a
# script without spaces is a token. A run of a mark is one, except brackets, quotes, ``,:;!?#*&``.

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import (
    Bits,
    Bytes,
    Flags,
    Integers,
    Integers32,
    in_order,
    offsets,
    ranges,
    stretches,
)
from duckplets.text.characters import DIGIT, LETTER, MARK, SPACE, bytes_of, classes
from duckplets.text.words import Units, extra_tokens, has_weights

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
TOP = (2, 3, 4)
DUPLICATE = (5, 6, 7, 8, 9, 10)
SYMBOLS = b"{}()[]<>=;+*/%&|^~!#@\\"

_BYTES, _TEXTS = 1 << 20, 4096  # bytes of a block; a longer text is a block by itself
_STEP = 1 << 16  # tokens of a long text processed together
_SORTED = 1 << 20  # values that are sorted at once
_GAP, _WORD, _MARK = 0, 1, 2

# Classes of bytes: symbols of code, digits, marks whose runs are one token, and the kind. Bytes
# beyond ASCII are word characters.
_SYMBOL = bytes(byte in SYMBOLS for byte in range(256))
_DIGIT = bytes(ord("0") <= byte <= ord("9") for byte in range(256))
_RUN = bytes(byte < 128 and byte not in b",:;!?()[]{}<>#*&\"'" for byte in range(256))
_KIND = bytes(
    _WORD if chr(byte).isalnum() or byte == ord("_") or byte > 127 else _MARK for byte in range(256)
)

# Weights of letters that are words. Each counts as many characters as an English word has.
_ALONE, _USUAL = (2, 4, 6), 5

Columns = dict[str, Integers]


def counts(texts: pa.Array, sample: int) -> Columns:
    """Return counts of every text, by metric name; code is counted in ``sample`` characters."""
    blocks = []
    sizes = pc.binary_length(texts).to_numpy()
    for part in stretches(sizes, rows=_TEXTS, total=_BYTES):
        parts = [_read(window, sample) for window in _windows(texts[part])]
        found, tokens = parts[0] if len(parts) == 1 else _joined(parts)
        del parts
        blocks.append(found | _repeated(tokens))
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _windows(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield a long text in windows that end before white space, and other texts whole."""
    data, bounds = bytes_of(texts)
    start, end = int(bounds[0]), int(bounds[-1])
    if len(texts) > 1 or end - start < 2 * _BYTES:
        yield texts
        return
    while start < end:
        stop, least = end, start + _BYTES
        while least < end and stop == end:
            part = data[least : least + _BYTES]
            blank = np.flatnonzero((part == ord(" ")) | (part == ord("\n")))
            stop = least + int(blank[0]) if len(blank) else end
            least += _BYTES
        yield pa.array([data[start:stop].tobytes().decode()], pa.large_string())
        start = stop


class _Tokens(NamedTuple):
    """Tokens of several texts."""

    number: Integers32
    ends: Integers32  # characters of tokens up to each, and up to the last
    text: Integers32  # of one text it takes no memory
    first: Integers
    kinds: pa.Array


def _read(texts: pa.Array, sample: int) -> tuple[Columns, _Tokens]:
    """Return counts of texts and their tokens, and free the arrays of bytes."""
    data, bounds = bytes_of(texts)
    flags = classes(data)
    begins = Bits((data & 0xC0) != 0x80)
    letters = Bits((flags & LETTER) != 0)
    words = Bits((flags & SPACE) == 0).runs(bounds)
    found = _samples(data, flags, bounds, sample, begins, words)
    if has_weights(data):
        found["words"] = Units(data, begins.rank(bounds)).counts()
    else:
        first = words.rank(bounds)
        found["words"] = np.diff(first) + extra_tokens(data, words, first)
    alone = np.isin(flags >> 4, _ALONE)
    start, end, is_word = _tokens(data, flags, bounds, alone)
    first = np.searchsorted(start, bounds)
    number, kinds = numbered(data, start, end)
    length = _within(begins, start, end)
    has_letter = _within(letters, start, end) > 0

    def total(values: Integers | Flags) -> Integers:
        return np.diff(offsets(values)[first])

    found["tokens"] = np.diff(first)
    found["plain_tokens"] = total(is_word)
    found["plain_characters"] = total(np.where(is_word, np.where(alone[start], _USUAL, length), 0))
    found["alphabetic_tokens"] = total(has_letter)
    text = _of_one(len(number))
    if len(texts) > 1:
        text = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(first))
    found["stop_words"] = _stop_words(kinds, number, text, len(texts))
    return found, _Tokens(number, offsets(length, np.int32), text, first, kinds)


def _joined(parts: list[tuple[Columns, _Tokens]]) -> tuple[Columns, _Tokens]:
    """Return counts and tokens of one text from its windows."""
    windows = [tokens for _, tokens in parts]
    coded = pa.concat_arrays([window.kinds for window in windows]).dictionary_encode()
    ids = coded.indices.to_numpy().astype(np.int32)
    starts = np.cumsum([0, *(len(window.kinds) for window in windows)])
    number = np.concatenate([ids[i:][w.number] for i, w in zip(starts, windows, strict=False)])
    text = _of_one(len(number))
    first = parts[0][0]
    found = {name: np.sum([columns[name] for columns, _ in parts], axis=0) for name in first}
    found |= {name: values for name, values in first.items() if name.startswith("code_")}
    found["stop_words"] = _stop_words(coded.dictionary, number, text, 1)
    ends = offsets(np.concatenate([np.diff(window.ends) for window in windows]), np.int32)
    return found, _Tokens(number, ends, text, np.array([0, len(number)]), coded.dictionary)


def _of_one(tokens: int) -> Integers32:
    """Return the number of the text of each token, for one text."""
    return np.broadcast_to(np.int32(0), tokens)


def _within(flags: Bits, start: Integers, end: Integers) -> Integers32:
    """Return the number of set flags from each start to its end."""
    count = np.empty(len(start), np.int32)
    for at in range(0, len(start), _STEP):  # ranks need several arrays of the size
        some = slice(at, at + _STEP)
        count[some] = flags.rank(end[some]) - flags.rank(start[some])
    return count


def _samples(
    data: Bytes, flags: Bytes, bounds: Integers, sample: int, begins: Bits, words: Bits
) -> Columns:
    """Count words, symbols and non-space characters at the beginning of texts."""
    ends = bounds[1:].copy()
    long = np.flatnonzero(np.diff(bounds) > sample)
    if len(long):
        last = begins.rank(bounds[long]) + sample
        within = last < begins.rank(bounds[long + 1])
        ends[long[within]] = begins.select(last[within])
    solid = Bits(((data & 0xC0) != 0x80) & ((flags & SPACE) == 0))
    symbols = Bits(np.frombuffer(data.tobytes().translate(_SYMBOL), np.bool_))
    return {
        "code_symbols": symbols.rank(ends) - symbols.rank(bounds[:-1]),
        "code_characters": solid.rank(ends) - solid.rank(bounds[:-1]),
        "code_words": words.rank(ends) - words.rank(bounds[:-1]),
    }


# -- tokens ---------------------------------------------------------------------------------------


def _tokens(
    data: Bytes, flags: Bytes, bounds: Integers, alone: Flags
) -> tuple[Integers, Integers, Flags]:
    """Return starts and ends of tokens, and which contain a word character."""
    kind = _kinds(data, flags)
    forced = np.zeros(len(data) + 1, np.bool_)
    forced[bounds] = True
    if alone.any():
        forced[:-1] |= alone
        bases = np.flatnonzero((data & 0xC0 != 0x80) & (flags >> 4 < MARK))
        forced[bases[1:][alone[bases[:-1]]]] = True
    after = np.zeros(len(data), np.uint8)
    after[:-1] = np.where(forced[1:-1], _GAP, kind[1:])
    before = np.zeros(len(data), np.uint8)
    before[1:] = np.where(forced[1:-1], _GAP, kind[:-1])
    number = np.frombuffer(data.tobytes().translate(_DIGIT), np.bool_)
    between = (before == _WORD) & (after == _WORD)
    dots = between & (data == ord("."))
    commas = np.flatnonzero(between & (data == ord(",")))
    commas = commas[number[commas - 1] & number[commas + 1]]
    quotes = np.flatnonzero(between & (data == ord("'")))
    kind[dots] = kind[commas] = kind[quotes] = _WORD
    forced[quotes] = True
    same = np.zeros(len(data), np.bool_)
    runs = np.frombuffer(data.tobytes().translate(_RUN), np.bool_)
    same[1:] = (data[1:] == data[:-1]) & runs[1:]
    same[1:] |= kind[1:] == _WORD
    same[1:] &= kind[1:] == kind[:-1]
    same[1:] |= (data[1:] & 0xC0) == 0x80  # continuation bytes
    del after, before, number, between, dots, runs
    solid = kind != _GAP
    begin = solid & (~same | forced[:-1])
    # a token ends where the next begins, or before a gap
    edge = np.flatnonzero(begin | ~solid)
    begins = np.flatnonzero(begin[edge])
    start, end = edge[begins], np.full(len(begins), len(data))
    followed = len(begins) - int(len(begins) > 0 and begins[-1] + 1 == len(edge))
    end[:followed] = edge[begins[:followed] + 1]
    return start, end, kind[start] == _WORD


def _kinds(data: Bytes, flags: Bytes) -> Bytes:
    """Return for every byte whether its character is a gap, a word character or a mark."""
    kind = np.frombuffer(data.tobytes().translate(_KIND), np.uint8).copy()
    kind[(flags & SPACE) != 0] = _GAP
    leads = np.flatnonzero(data >= 0xC2)
    if len(leads) == 0:
        return kind
    lead, second = data[leads], data[np.minimum(leads + 1, len(data) - 1)]
    marks = (
        ((lead == 0xC2) & (flags[leads] & (LETTER | DIGIT) == 0))  # ¡ « § and others
        | ((lead == 0xE2) & (second <= 0x81))  # general punctuation
        | ((lead == 0xE3) & (second == 0x80))  # of East Asia
        | ((lead == 0xEF) & (second >= 0xBC) & (flags[leads] & (LETTER | DIGIT) == 0))
    )
    marks &= kind[leads] != _GAP
    places = leads[marks]
    kind[places] = _MARK
    for offset in (1, 2):
        rest = places + offset
        rest = rest[rest < len(data)]
        kind[rest[(data[rest] & 0xC0) == 0x80]] = _MARK
    return kind


def numbered(data: Bytes, start: Integers, end: Integers) -> tuple[Integers32, pa.Array]:
    """Return the id of each token, and the token of each id."""
    cuts = np.empty(2 * len(start) + 1, np.int64)
    cuts[0:-1:2], cuts[1::2], cuts[-1] = start, end, len(data)
    # Tokens and gaps alternate over the bytes, without a copy.
    offsets = pa.py_buffer(cuts)
    content = pa.py_buffer(np.ascontiguousarray(data))
    pieces = pa.Array.from_buffers(pa.large_binary(), 2 * len(start), [None, offsets, content])
    coded = pieces.dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False)[::2].copy(), coded.dictionary


def _stop_words(kinds: pa.Array, number: Integers32, text: Integers32, texts: int) -> Integers:
    """Count the distinct stop words of each text."""
    stops = pa.array([word.encode() for word in STOP_WORDS], pa.large_binary())
    index = pc.fill_null(pc.index_in(kinds, value_set=stops), -1)
    stop = index.to_numpy(zero_copy_only=False).astype(np.int8)[number]
    at = np.flatnonzero(stop >= 0)
    seen = np.zeros(texts * len(STOP_WORDS), np.bool_)
    seen[text[at].astype(np.int64) * len(STOP_WORDS) + stop[at]] = True
    distinct: Integers = seen.reshape(texts, len(STOP_WORDS)).sum(axis=1)
    return distinct


# -- repetition -----------------------------------------------------------------------------------


def _repeated(tokens: _Tokens) -> Columns:
    """Return the characters in the most frequent and in the repeated n-grams of each text."""
    texts, ends = len(tokens.first) - 1, tokens.ends
    found: Columns = {}
    begins = np.ones(len(tokens.text), np.bool_)
    begins[tokens.first[1:][np.diff(tokens.first) > 0] - 1] = False  # a text's last token
    place = np.flatnonzero(begins).astype(np.int32)  # first tokens of n-grams, ascending
    group = tokens.text[place].astype(np.int64)  # shared id without the last token
    group *= len(tokens.kinds)
    group += tokens.number[place]
    for n in range(2, max(DUPLICATE) + 1):
        group *= len(tokens.kinds)
        group += tokens.number[place + (n - 1)]
        numbers, first, frequency = _repeats(group)
        del group
        first = place[first]
        if n in TOP:
            best = _most_frequent(tokens.text[first], frequency, first)
            size = ends[first[best] + n] - ends[first[best]] + n - 1
            found[f"top_{n}gram"] = _first_lengths(tokens, ends, n)
            found[f"top_{n}gram"][tokens.text[first[best]]] = size * frequency[best]
        place, numbers = place[numbers >= 0], numbers[numbers >= 0]
        if n in DUPLICATE:
            hits = _read_again(place, numbers, n)
            sizes = ends[hits + n] - ends[hits]
            total = np.bincount(tokens.text[hits], weights=sizes, minlength=texts)
            found[f"duplicate_{n}grams"] = total.astype(np.int64)
        # the n-gram of the next token repeats too, in the same text
        follows = np.zeros(len(place), np.bool_)
        follows[:-1] = place[1:] == place[:-1] + 1
        follows &= place + n < tokens.first[1:][tokens.text[place]]
        group = numbers[follows].astype(np.int64)  # noqa: F841 - of the next n
        place = place[follows]
    return found


def _repeats(values: Integers) -> tuple[Integers32, Integers32, Integers]:
    """Return the numbers of repeated values (others -1), and their first places and counts."""
    count = len(values)
    most = int(values.max()) + 1 if count else 0
    if most <= count:  # small values are counted without a sort
        frequency = np.bincount(values, minlength=most)
        first = np.empty(most, np.int32)
        first[values[::-1]] = np.arange(count - 1, -1, -1, dtype=np.int32)
        several = np.flatnonzero(frequency > 1)
        number = np.full(most, -1, np.int32)
        number[several] = np.arange(len(several), dtype=np.int32)
        return number[values], first[several], frequency[several]
    numbers = np.full(count, -1, np.int32)
    firsts, frequencies, known = [], [], 0
    for at in _parted(values):
        key, order = in_order(values[at])
        fresh = np.ones(len(key), np.bool_)
        fresh[1:] = key[1:] != key[:-1]
        del key
        heads = np.flatnonzero(fresh)
        frequency = np.diff(heads, append=len(order))
        heads, frequency = heads[frequency > 1], frequency[frequency > 1]
        ids = np.arange(known, known + len(heads), dtype=np.int32)
        numbers[at[order[ranges(heads, frequency)]]] = np.repeat(ids, frequency)
        firsts.append(at[order[heads]])
        frequencies.append(frequency)
        known += len(heads)
    return numbers, np.concatenate(firsts), np.concatenate(frequencies)


def _parted(values: Integers) -> Iterator[Integers32]:
    """Yield the places of values in parts that are fast to sort; equal values share a part."""
    if len(values) <= _SORTED:
        yield np.arange(len(values), dtype=np.int32)
        return
    part = np.empty(len(values), np.uint8)
    for low in range(0, len(values), _STEP):
        some = values[low : low + _STEP].view(np.uint64)
        part[low : low + _STEP] = (some * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(60)
    for number in range(16):
        yield np.flatnonzero(part == number).astype(np.int32)


def _most_frequent(text: Integers32, frequency: Integers, first: Integers32) -> Integers:
    """Return the most frequent n-gram of every text, or the first of several."""
    order = np.lexsort((first, -frequency, text))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = text[order[1:]] != text[order[:-1]]
    return order[fresh]


def _first_lengths(tokens: _Tokens, ends: Integers32, n: int) -> Integers:
    """Return the length of the first n-gram of every text, or 0."""
    first, size = tokens.first[:-1], np.diff(tokens.first)
    has = np.flatnonzero(size >= n)
    length = np.zeros(len(first), np.int64)
    length[has] = ends[first[has] + n] - ends[first[has]] + n - 1
    return length


def _read_again(place: Integers32, group: Integers32, n: int) -> Integers32:
    """Return the places where a reader meets a repeated n-gram, continuing after it each time."""
    known = bytearray(int(group.max(initial=-1)) + 1)
    groups, after = group.data, _after(place, n).data  # lists take four times the memory
    met, at, count = [], 0, len(place)
    while at < count:
        kind = groups[at]
        if known[kind]:
            met.append(at)
            at = after[at]
        else:
            known[kind] = 1
            at += 1
    return place[np.array(met, np.int64)]


def _after(place: Integers32, n: int) -> Integers32:
    """Return for every place the number of the first one at least n tokens later."""
    after = np.arange(1, len(place) + 1, dtype=np.int32)
    for ahead in range(1, min(n, len(place))):
        after[:-ahead] += place[ahead:] - place[:-ahead] < n
    return after
