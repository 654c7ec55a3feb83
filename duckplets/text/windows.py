"""Cut texts into chunks: from an Arrow column to tokens to spans, by arithmetic over bytes.

    texts ─blocks→ bytes ─tokens→ counts ─rows→ token ranges ─ranges→ byte ranges ─strip→ spans

The decision that matters: no array per token. The beginnings of words, the beginnings of
characters, and bytes that are not white space are one bit a byte, with a running count per 64
(``Bits``). Rank and select, at the ends of texts and windows only, then count tokens, find the n-th
and turn bytes into characters. The tokens of a tokenizer file are arrays, and each window is
encoded alone, since its tokens may differ from the tokens in the text. Texts adjoin in the buffer,
so the first byte of a text always begins a word. Blocks of about a megabyte stay in the cache. The
speed is 1.8 GB/s for long ASCII texts on one core, and 0.9 for one text of 35 MB. Texts with
weighed letters, and long texts with a run too long for a word, are ``Units``.

White space is a fixed list, equal to ``str.split`` and ``str.isspace``, as a test checks. So stored
chunks do not depend on the Unicode tables of the running Python.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Bits, Bytes, Flags, Integers, Integers32
from duckplets.errors import ChunkingError
from duckplets.text.characters import JOINER, MARK, NARROW_SPACES, WIDE_SPACES, bytes_of, kind_of
from duckplets.text.chunking import MOST, open_tokenizer
from duckplets.text.words import TOKEN, Units, extra_tokens, has_weights, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckplets.text.chunkers import ChunkSpans
    from duckplets.text.chunking import Chunking


BLOCK = 1 << 20
_STEP = 1 << 16  # bytes
_SPACES = NARROW_SPACES + WIDE_SPACES
# first UTF-8 bytes of wide spaces, and the last bytes that complete one
_LAST_BYTES: dict[bytes, Flags] = {}
for *_prefix, _last in (space.encode() for space in WIDE_SPACES):
    _LAST_BYTES.setdefault(bytes(_prefix), np.zeros(256, np.bool_))[_last] = True


@dataclass(frozen=True, slots=True)
class Windows:
    """Chunks as columns, one row a chunk, in order of section, overlap and window; summary last."""

    section: Integers  # index into the texts
    summary: Flags  # whether it is a summary rather than a window
    window_index: Integers32  # 0, 1, … among the windows of its overlap
    overlap: Integers32  # tokens shared with the window before
    start: Integers32  # first character (Unicode code point), from 0
    length: Integers32  # characters
    start_token: Integers32  # first token, from 0
    token_count: Integers32  # tokens; with a tokenizer file when the chunk is encoded alone


def windows(texts: pa.Array | pa.ChunkedArray, chunking: Chunking) -> tuple[Integers32, Windows]:
    """Count the tokens of every text, and cut long ones into windows and a summary."""
    return _joined(
        (tokens.counts, tokens.cut(base, chunking))
        for base, tokens in _tokens(texts, chunking, chunking.max_tokens)
    )


def windows_of(
    texts: pa.Array | pa.ChunkedArray, spans: ChunkSpans, chunking: Chunking
) -> tuple[Integers32, Windows]:
    """Count the tokens of every text, and cut its spans into chunks like texts."""
    counts, firsts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for base, tokens in _tokens(texts, chunking):
        low, high = np.searchsorted(spans.text, [base, base + len(tokens.counts)])
        place = (spans.text[low:high] - base, spans.start[low:high], spans.solid[low:high])
        counts.append(tokens.counts)
        firsts.append(tokens.first_at(*place))
    found = windows(pa.array(spans.parts, pa.large_string()), chunking)[1]
    found = _rows(found, ~spans.summary[found.section] | (_index_within(found.section) == 0))
    span, text, summary = found.section, spans.text[found.section], spans.summary[found.section]
    start = spans.start[span] + found.start
    pieces = np.zeros(len(spans.text), np.int64)
    np.maximum.at(pieces, span[~summary], found.window_index[~summary] + 1)
    before = np.cumsum(pieces) - pieces
    before -= before[np.searchsorted(spans.text, spans.text)]  # of the same text
    chunks = Windows(
        section=text,
        summary=summary,
        window_index=np.where(summary, 0, found.window_index + before[span]).astype(np.int32),
        overlap=np.where(summary, 0, found.overlap).astype(np.int32),
        start=start.astype(np.int32),
        length=found.length,
        start_token=(np.concatenate(firsts)[span] + found.start_token).astype(np.int32),
        token_count=found.token_count,
    )
    chunks = _rows(chunks, ~summary | ~_repeated(text, start, start + found.length, summary))
    return np.concatenate(counts).astype(np.int32), chunks


def _tokens(
    texts: pa.Array | pa.ChunkedArray, chunking: Chunking, most: int = 0
) -> Iterator[tuple[int, _Words | _Weighed | _Pieces]]:
    """Yield first text and tokens of each block; texts up to ``most`` tokens are only counted."""
    tokenizer = open_tokenizer(chunking.tokenizer) if chunking.tokenizer is not None else None
    base = 0
    for block in _blocks(texts):
        if tokenizer is not None:
            yield base, _Pieces(block, tokenizer, most)
        elif block.chars is not None and has_weights(block.data):
            yield base, _Weighed(block)
        else:
            yield base, _Words(block)
        base += len(block.texts)


def _joined(blocks: Iterator[tuple[Integers, Windows]]) -> tuple[Integers32, Windows]:
    counts, parts = zip(*blocks, strict=True)
    return np.concatenate(counts).astype(np.int32), _concatenated(parts)


def _concatenated(parts: Sequence[Windows]) -> Windows:
    names = [field.name for field in fields(Windows)]
    return Windows(**{n: np.concatenate([getattr(part, n) for part in parts]) for n in names})


def _rows(found: Windows, rows: Flags | Integers) -> Windows:
    return Windows(**{field.name: getattr(found, field.name)[rows] for field in fields(Windows)})


class _TextBlock:
    """Adjoining texts: their bytes, offsets, and flags of bytes that are not white space."""

    def __init__(self, texts: pa.Array, data: Bytes, bounds: Integers) -> None:
        self.texts, self.data, self.bounds = texts, data, bounds
        ascii_only = not len(data) or int(data.max()) < 0x80
        # as signed numbers, continuation bytes are below -64
        self.chars = None if ascii_only else Bits(data.view(np.int8) >= -64)
        self.first_char = bounds if self.chars is None else self.chars.rank(bounds)

    @functools.cached_property
    def solid(self) -> Bits:
        return Bits(_solid(self.data, self.chars is None))

    def part(self, texts: Integers) -> _TextBlock:
        """Return some of the texts."""
        inside = slices(self.data, self.bounds[texts], self.bounds[texts + 1])
        return _TextBlock(self.texts.take(texts), *inside)

    def char_of(self, text: Integers, byte: Integers) -> Integers:
        """Return characters within their text for positions in the block."""
        char = byte if self.chars is None else self.chars.rank(byte)
        return char - self.first_char[text]

    def byte_of(self, text: Integers, char: Integers) -> Integers:
        """Return positions in the block for characters of texts."""
        char = char + self.first_char[text]
        return char if self.chars is None else self.chars.select(char)


class _Words:
    """Words between white space: each begins with a solid byte at the front or after a space."""

    def __init__(self, block: _TextBlock) -> None:
        self.block = block
        self.bits = block.solid.runs(block.bounds)
        ranks = self.bits.rank(block.bounds)
        extra = extra_tokens(block.data, self.bits, ranks)
        self.first, self.counts = ranks[:-1], np.diff(ranks) + extra
        self.long = np.flatnonzero(extra)  # texts with a run too long for a word

    def cut(self, base: int, chunking: Chunking) -> Windows:
        """Return the chunks of the block, whose first text is number ``base``."""
        long = self.long[self.counts[self.long] > chunking.max_tokens]
        if not len(long):
            return _cut_words(self, self.counts, base, chunking)
        cut = _Weighed(self.block.part(long)).windows(np.arange(len(long)), chunking)
        return _with_long(self, long, replace(cut, section=long[cut.section]), base, chunking)

    def first_at(self, text: Integers, begin: Integers, solid: Integers) -> Integers:
        """Return the first tokens of spans; ``solid`` is their first character with a token."""
        first: Integers = self.bits.rank(self.block.byte_of(text, solid) + 1) - 1
        first -= self.first[text]
        if len(self.long):
            places = np.flatnonzero(np.isin(text, self.long))
            long = np.searchsorted(self.long, text[places])
            weighed = _Weighed(self.block.part(self.long))
            first[places] = weighed.first_at(long, begin[places], solid[places])
        return first


class _Weighed:
    """Tokens by weight, for scripts without spaces and runs too long for a word."""

    def __init__(self, block: _TextBlock) -> None:
        self.block, self.units = block, Units(block.data, block.first_char)
        self.counts = self.units.counts()

    def cut(self, base: int, chunking: Chunking) -> Windows:
        """Return the chunks of the block, whose first text is number ``base``."""
        long = np.flatnonzero(self.counts > chunking.max_tokens)
        if not len(long):
            return _cut_words(self, self.counts, base, chunking)
        return _with_long(self, long, self.windows(long, chunking), base, chunking)

    def windows(self, texts: Integers, chunking: Chunking) -> Windows:
        """Return the windows and summaries of long texts."""
        units, most = self.units, chunking.max_tokens
        limits = [(0, overlap, most) for overlap in chunking.overlap]
        if chunking.summary_length:
            limits.append((1, 0, chunking.summary_length))
        cutter, rows = units.cutter(), list[tuple[int, ...]]()
        for number in texts.tolist():
            begin, last = units.first[number : number + 2].tolist()
            for is_summary, overlap, size in limits:
                found = cutter.cut(begin, last, size, overlap, once=is_summary > 0)
                rows += [(number, is_summary, i, overlap, *cut) for i, cut in enumerate(found)]
        text, summary, index, shared, first, stop, end = np.array(rows, np.int64).reshape(-1, 7).T
        start, stop = (units.characters(at) - self.block.first_char[text] for at in (first, stop))
        start_token = (units.before(first) - units.before(units.first[text])) // TOKEN
        # a cluster may weigh more than one token
        limit = np.where(summary, chunking.summary_length, most)
        count = np.clip(-((units.before(first) - units.before(end)) // TOKEN), 1, limit)
        columns = (index, shared, start, stop - start, start_token, count)
        return Windows(text, summary > 0, *(column.astype(np.int32) for column in columns))

    def first_at(self, text: Integers, begin: Integers, solid: Integers) -> Integers:
        """Return the first tokens of spans; ``solid`` is their first character with a token."""
        units = self.units
        before = units.before_units(solid + self.block.first_char[text])
        return (before - units.before(units.first[text])) // TOKEN


def _with_long(
    tokens: _Words | _Weighed, long: Integers, cut: Windows, base: int, chunking: Chunking
) -> Windows:
    """Return the chunks of a block, with given chunks for its long texts."""
    counts = tokens.counts.copy()
    counts[long] = 0
    cut = replace(cut, section=cut.section + base)
    found = _concatenated([_cut_words(tokens, counts, base, chunking), cut])
    return _rows(found, np.argsort(found.section, kind="stable"))


class _Pieces:
    """Tokens of a Hugging Face tokenizer, each extended to the start of the next."""

    # Skipped characters belong to the preceding token. Several tokens of one character (byte-level
    # BPE) each have the whole character. Text without tokens counts as one token.

    def __init__(self, block: _TextBlock, tokenizer: Any, most: int) -> None:
        self.block, self.encoder, self.strings = block, tokenizer, block.texts.to_pylist()
        encodings = self.encoded(self.strings)
        lengths = np.array([len(encoding) for encoding in encodings], np.int64)
        filled = np.diff(block.solid.rank(block.bounds)) > 0
        self.counts = np.where(filled, np.maximum(lengths, 1), 0)
        self.long = np.flatnonzero(self.counts > most)
        # in characters of the original text: the Python binding converts from bytes
        self.offsets = [_ascending(encodings[text], self.strings[text]) for text in self.long]

    def cut(self, base: int, chunking: Chunking) -> Windows:
        """Return the chunks of the block, whose first text is number ``base``."""
        return _cut_pieces(self, base, chunking)

    def encoded(self, texts: list[str]) -> list[Any]:
        """Return the encodings of texts, each by itself."""
        return list(self.encoder.encode_batch(texts, add_special_tokens=False))

    def first_at(self, text: Integers, begin: Integers, solid: Integers) -> Integers:
        """Return the first tokens of spans; skipped white space belongs to the token before it."""
        offsets = dict(zip(self.long.tolist(), self.offsets, strict=True))
        found = np.zeros(len(text), np.int64)
        places = (column.tolist() for column in (text, begin, solid))
        for span, (number, char, filled) in enumerate(zip(*places, strict=True)):
            starts, ends = offsets[number].T
            at = np.searchsorted(starts, char, side="right") - 1
            at = min(at + (ends[at] <= char), np.searchsorted(starts, filled, side="right") - 1)
            found[span] = np.searchsorted(starts, starts[at])  # several may share a character
        return found


def _ascending(encoding: Any, text: str) -> Integers:
    """Return first character and end of every token and of the end of text, (tokens + 1, 2)."""
    size = len(text)
    found = np.array([*(encoding.offsets or [(0, size)]), (size, size)], np.int64)
    found[0, 0] = 0
    np.maximum.accumulate(found[:, 0], out=found[:, 0])
    return found


# -- windows of a tokenizer -----------------------------------------------------------------------

_Window = tuple[int, int, int, int]  # first character, end, first token, tokens
_Walk = Generator[str, Any, list[_Window]]


def _walked(tokens: _Pieces, walks: Sequence[_Walk]) -> list[list[_Window]]:
    """Return the windows of each walk; the requests of all walks are encoded together."""
    found: list[list[_Window]] = [[] for _ in walks]
    answers: dict[int, int | None] = dict.fromkeys(range(len(walks)))
    while answers:
        requests = {}
        for number, answer in answers.items():
            try:
                requests[number] = walks[number].send(answer)
            except StopIteration as ended:
                found[number] = ended.value
        answers = dict(zip(requests, map(len, tokens.encoded([*requests.values()])), strict=True))
    return found


def _walk(text: str, offsets: Integers, most: int, overlap: int, once: bool) -> _Walk:
    """Cut a text into windows of at most ``most`` tokens when encoded alone."""
    found: list[_Window] = []
    starts, count = offsets[:, 0].tolist(), len(offsets) - 1
    begin, last = 0, len(text.rstrip(_SPACES))
    while begin < last:
        # several tokens may share a character: take the first
        first = bisect_left(starts, starts[bisect_right(starts, begin, 0, count) - 1])
        after = bisect_right(starts, begin)  # first token that begins later
        end = _before_marks(text, begin, starts[max(min(first + most, count), after)])
        while window := text[begin:end].strip(_SPACES):
            start = begin + len(text[begin:end]) - len(text[begin:end].lstrip(_SPACES))
            tokens = yield window
            extra = tokens - most
            if extra <= 0 or len(window) == 1:
                found.append((start, start + len(window), first, max(tokens, 1)))
                break
            shorter = starts[max(bisect_left(starts, end) - extra, 0)]
            end = shorter if start < shorter < end else start + max(1, len(window) - -(-extra // 4))
            end = _before_marks(text, start, end)
        if (once and found) or end >= last:
            break
        begin = min(max(starts[min(first + max(1, most - overlap), count)], starts[after]), end)
        while begin < end and _is_inside(text, begin):
            begin += 1
    return found


def _before_marks(text: str, start: int, at: int) -> int:
    """Return a place moved back before a character with all its marks, or the same place."""
    back = at
    while start < back < len(text) and _is_inside(text, back):
        back -= 1
    return back if back > start else at


def _is_inside(text: str, at: int) -> bool:
    """Return whether a place is between a character and its marks, or next to a joiner."""
    char = text[at]
    if char.isascii():
        return False
    return kind_of(char) >= MARK or kind_of(text[at - 1]) == JOINER


def _cut_pieces(tokens: _Pieces, base: int, chunking: Chunking) -> Windows:
    """Return the chunks of one block by a tokenizer."""
    limits = [(chunking.max_tokens, overlap, False) for overlap in chunking.overlap]
    if chunking.summary_length:
        limits.append((chunking.summary_length, 0, True))
    offsets = dict(zip(tokens.long.tolist(), tokens.offsets, strict=True))
    strings = tokens.strings
    walks = [_walk(strings[text], at, *limit) for text, at in offsets.items() for limit in limits]
    found = iter(_walked(tokens, walks))
    rows: list[tuple[int, ...]] = []
    for text, count in enumerate(tokens.counts.tolist()):
        if text in offsets:
            for _, overlap, is_summary in limits:
                for index, (start, stop, *numbers) in enumerate(next(found)):
                    row = (base + text, is_summary, index, overlap, start, stop - start, *numbers)
                    rows.append(row)
        elif count:
            rows.append((base + text, False, 0, 0, 0, len(strings[text]), 0, count))
    section, summary, *columns = np.array(rows, np.int64).reshape(-1, 8).T
    return Windows(section, summary > 0, *(column.astype(np.int32) for column in columns))


def _cut_words(
    tokens: _Words | _Weighed, counts: Integers, base: int, chunking: Chunking
) -> Windows:
    """Return the chunks of one block by words; texts of ``_Weighed`` are short."""
    block, most = tokens.block, chunking.max_tokens
    overlaps = np.array([*chunking.overlap, 0])
    long = counts > most
    # Numbers of chunks by text (rows) and overlap, then summary (columns); a short text has one.
    strides = np.maximum(1, most - overlaps)
    number = np.where(long[:, None], -((most - counts[:, None]) // strides) + 1, 0)
    number[:, -1] = long & (chunking.summary_length > 0)
    number[:, 0] += (counts > 0) & ~long
    cell = np.repeat(np.arange(number.size), number.ravel())
    section, across = np.divmod(cell, number.shape[1])
    summary, cut = across == len(chunking.overlap), long[section]
    index = _index_within(cell)
    first = index * strides[across]
    limit = np.where(summary, chunking.summary_length, most)
    count = np.minimum(limit, counts[section] - first)
    start, length = np.zeros(len(cell), np.int64), np.diff(block.first_char)[section]
    if isinstance(tokens, _Words):
        start[cut], length[cut] = _spans(tokens, section[cut], first[cut], count[cut])
    return Windows(
        section=section + base,
        summary=summary,
        window_index=index.astype(np.int32),
        overlap=np.where(cut, overlaps[across], 0).astype(np.int32),
        start=start.astype(np.int32),
        length=length.astype(np.int32),
        start_token=first.astype(np.int32),
        token_count=count.astype(np.int32),
    )


def _repeated(text: Integers, start: Integers, stop: Integers, summary: Flags) -> Flags:
    """Return which chunks belong to a text with a window equal to the summary."""
    wanted = np.full((2, int(text.max(initial=-1)) + 1), -1)
    wanted[:, text[summary]] = start[summary], stop[summary]
    same = ~summary & (start == wanted[0, text]) & (stop == wanted[1, text])
    repeated: Flags = np.isin(text, text[same])
    return repeated


def _index_within(cell: Integers) -> Integers:
    """Return 0, 1, … within each run of equal, ordered values."""
    return np.arange(len(cell)) - np.searchsorted(cell, cell)


def _spans(
    tokens: _Words, text: Integers, first: Integers, count: Integers
) -> tuple[Integers, Integers]:
    """Return start and length, in characters, of tokens without surrounding white space."""
    if not len(text):
        return text, text
    solid, nth = tokens.block.solid, tokens.first[text] + first
    # up to the next word, also of a later text: there is only white space between them
    lower, upper = (solid.rank(tokens.bits.select(at)) for at in (nth, nth + count))
    start = tokens.block.char_of(text, solid.select(lower))
    stop = tokens.block.char_of(text, solid.select(upper - 1) + 1)
    return start, stop - start


def _solid(data: Bytes, ascii_only: bool) -> Flags:
    """Return which bytes are not white space."""
    solid = np.empty(len(data), np.bool_)
    # by steps: allocating large temporary arrays takes several times as long as the tests
    for start in range(0, len(data), _STEP):
        part = data[start : start + _STEP]
        # unsigned bytes wrap below 0, so each test is a range: 9 to 13, and 28 to 32
        outside = (part - np.uint8(9) > 4), (part - np.uint8(28) > 4)
        np.logical_and(*outside, out=solid[start : start + _STEP])
    for prefix in () if ascii_only else _LAST_BYTES:
        size = len(data) - len(prefix)
        found = np.ones(max(size, 0), np.bool_)
        for offset, byte in enumerate(prefix):
            found &= data[offset : size + offset] == byte
        at = np.flatnonzero(found)
        at = at[_LAST_BYTES[prefix][data[at + len(prefix)]]]
        for offset in range(len(prefix) + 1):
            solid[at + offset] = False
    return solid


def _blocks(texts: pa.Array | pa.ChunkedArray) -> Iterator[_TextBlock]:
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    for chunk in chunks or [pa.array([], pa.string())]:
        if chunk.type not in (pa.string(), pa.large_string()):
            chunk = chunk.cast(pa.large_string())
        chunk = chunk.fill_null("") if chunk.null_count else chunk
        data, bounds = bytes_of(chunk)
        if int(np.diff(bounds).max(initial=0)) > MOST:
            raise ChunkingError("a text has more than 2 GiB: split it into shorter texts")
        marks = np.searchsorted(bounds[:-1], np.arange(0, bounds[-1], BLOCK))
        cuts = np.unique([0, *marks, len(chunk)])
        for start, stop in itertools.pairwise([0, 0] if len(cuts) == 1 else cuts):
            inside = data[bounds[start] : bounds[stop]]
            part = bounds[start : stop + 1] - bounds[start]
            yield _TextBlock(chunk.slice(start, stop - start), inside, part)


# -- lines before texts ---------------------------------------------------------------------------


def with_lines(
    texts: pa.Array, lines: pa.Array, tokens: Integers, chunking: Chunking
) -> tuple[pa.Array, pa.Array]:
    """Put lines before texts, and cut texts and lines to the length of a window."""
    whole = pc.binary_join_element_wise(lines, texts, "\n", null_handling="skip")
    size = pc.binary_length(lines).fill_null(0).to_numpy(zero_copy_only=False)
    most = tokens + (size + 1) // 2
    if chunking.tokenizer is not None:
        most = tokens * 5 // 4 + 16 + size
    mask = (size > 0) & (most > chunking.max_tokens)
    if not mask.any():
        return whole, lines
    cut, heads = (
        _first_windows(whole.filter(pa.array(mask)), chunking),
        lines.filter(pa.array(mask)),
    )
    heads = pc.if_else(pc.less(pc.binary_length(cut), pc.binary_length(heads)), cut, heads)
    return pc.replace_with_mask(whole, mask, cut), pc.replace_with_mask(lines, mask, heads)


def _first_windows(texts: pa.Array, chunking: Chunking) -> pa.Array:
    """Cut texts at the end of their first window; they do not begin with white space."""
    found = windows(texts, replace(chunking, overlap=(0,), summary_tokens=0))[1]
    first = np.searchsorted(found.section, np.arange(len(texts)))
    ends = (found.start[first] + found.length[first]).tolist()
    cut = [text[:end] for text, end in zip(texts.to_pylist(), ends, strict=True)]
    return pa.array(cut, texts.type)
