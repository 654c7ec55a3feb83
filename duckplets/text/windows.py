"""Cut texts into chunks: from an Arrow column to tokens to spans, by arithmetic over bytes.

    texts ─blocks→ bytes ─tokens→ counts ─rows→ token ranges ─ranges→ byte ranges ─strip→ spans

The decision that matters: no array per token. Where words begin, where characters begin and what
is not white space are one bit a byte, with a running count per 64 (``Bits``); counting tokens,
finding the n-th, and turning bytes into characters are then rank and select, asked only at the
ends of texts and of windows. (The tokens of a file are arrays, and each window is encoded alone,
where it has other tokens than in its text.) Texts adjoin in the buffer, so a text's first byte
begins a word of its own whatever stands before it. Work goes by blocks of about a megabyte, whose
passes stay in the cache: 1.8 GB/s for long ASCII texts on one core, against 0.9 for one text of
35 MB.

White space is a list of our own, equal to that of ``str.split`` and ``str.isspace`` (a test holds
it), so that stored chunks do not follow the Unicode tables of the running Python.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Bits, Bytes, Flags, Integers, Integers32
from duckplets.errors import ChunkingError
from duckplets.text.characters import NARROW_SPACES, WIDE_SPACES, bytes_of
from duckplets.text.chunking import MOST, open_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckplets.text.chunkers import ChunkSpans, Place
    from duckplets.text.chunking import Chunking


BLOCK = 1 << 20
_SPACES = NARROW_SPACES + WIDE_SPACES
# first UTF-8 bytes of wide spaces, and the last bytes that complete one
_LAST_BYTES: dict[bytes, Flags] = {}
for *_prefix, _last in (space.encode() for space in WIDE_SPACES):
    _LAST_BYTES.setdefault(bytes(_prefix), np.zeros(256, np.bool_))[_last] = True


@dataclass(frozen=True, slots=True)
class Windows:
    """Chunks as columns, one row a chunk, by section, overlap as given and window; summary last."""

    section: Integers  # index into the texts
    summary: Flags  # whether it is a summary rather than a window
    window_index: Integers32  # 0, 1, … among the windows of its overlap
    overlap: Integers32  # tokens shared with the window before
    start: Integers32  # first character (Unicode code point), from 0
    length: Integers32  # characters
    start_token: Integers32  # first token, from 0
    token_count: Integers32  # tokens; of a tokenizer file those of the chunk when encoded alone


def windows(texts: pa.Array | pa.ChunkedArray, chunking: Chunking) -> tuple[Integers32, Windows]:
    """Count the tokens of every text, and cut those that are too long into windows and a summary.

    A text of white space alone has no token and gives no chunk; null is an empty text.

    Returns:
        Tokens of every text, and the chunks of all of them.
    """
    return _joined(
        (tokens.counts, _cut(tokens, base, chunking))
        for base, tokens in _tokens(texts, chunking, chunking.max_tokens)
    )


def windows_of(
    texts: pa.Array | pa.ChunkedArray, spans: ChunkSpans, chunking: Chunking, place: Place
) -> tuple[Integers32, Windows]:
    """Count the tokens of every text, and make chunks of spans of them.

    A span is stored as it is, up to ``max_tokens``. A longer window is cut as a longer text is; its
    windows count on from those before, of each overlap by itself. A longer summary ends at
    ``max_tokens``, and one equal to a window is not made. A token that lies in two spans counts
    in both.

    Returns:
        As for ``windows``.
    """
    return _joined(
        (tokens.counts, _cut_spans(tokens, base, spans, chunking, place))
        for base, tokens in _tokens(texts, chunking)
    )


def _tokens(
    texts: pa.Array | pa.ChunkedArray, chunking: Chunking, most: int = 0
) -> Iterator[tuple[int, _Words | _Pieces]]:
    """Yield blocks of texts as tokens, each with the number of its first text.

    For texts of at most ``most`` tokens only the number of tokens is needed.
    """
    tokenizer = open_tokenizer(chunking.tokenizer) if chunking.tokenizer is not None else None
    base = 0
    for block in _blocks(texts):
        yield base, _Words(block) if tokenizer is None else _Pieces(block, tokenizer, most)
        base += len(block.texts)


def _joined(blocks: Iterator[tuple[Integers, Windows]]) -> tuple[Integers32, Windows]:
    counts, parts = zip(*blocks, strict=True)
    names = [field.name for field in fields(Windows)]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return np.concatenate(counts).astype(np.int32), Windows(**columns)


class _TextBlock:
    """Adjoining texts: their bytes, offsets, and flags of bytes that are not white space."""

    __slots__ = ("bounds", "chars", "data", "first_char", "solid", "texts")

    def __init__(self, texts: pa.Array, data: Bytes, bounds: Integers) -> None:
        self.texts, self.data, self.bounds = texts, data, bounds
        ascii_only = not len(data) or int(data.max()) < 0x80
        self.solid = _solid(data, ascii_only)
        # as signed numbers, continuation bytes are below -64
        self.chars = None if ascii_only else Bits(data.view(np.int8) >= -64)
        self.first_char = bounds if self.chars is None else self.chars.rank(bounds)

    def char_of(self, text: Integers, byte: Integers) -> Integers:
        """Return characters within their text for positions in the block."""
        char = byte if self.chars is None else self.chars.rank(byte)
        return char - self.first_char[text]

    def byte_of(self, text: Integers, char: Integers) -> Integers:
        """Return positions in the block for characters of texts."""
        char = char + self.first_char[text]
        return char if self.chars is None else self.chars.select(char)


class _Words:
    """Words between white space: a solid byte after one that is not, or at the front."""

    def __init__(self, block: _TextBlock) -> None:
        self.block = block
        begins = block.solid.copy()
        begins[1:] &= ~block.solid[:-1]
        front = block.bounds[:-1][np.diff(block.bounds) > 0]
        begins[front] = block.solid[front]
        self.bits = Bits(begins)
        ranks = self.bits.rank(block.bounds)
        self.first, self.counts = ranks[:-1], np.diff(ranks)

    def ranges(self, text: Integers, first: Integers, count: Integers) -> tuple[Integers, Integers]:
        """Return byte ranges of tokens, with at most white space around them."""
        # up to the next word, even of a later text: only white space lies between
        nth = self.first[text] + first
        return self.bits.select(nth), self.bits.select(nth + count)

    def within(
        self, text: Integers, begin: Integers, solid: Integers, end: Integers
    ) -> tuple[Integers, Integers]:
        """Return the first token of byte ranges, and how many they touch; ``solid`` begins one."""
        first = self.bits.rank(solid + 1) - 1
        return first - self.first[text], self.bits.rank(end) - first


class _Pieces:
    """Tokens of a Hugging Face tokenizer, each extended to the start of the next.

    So skipped characters belong to the preceding token. Several tokens of one character (byte-level
    BPE) each have all of it. Text without tokens counts as one.
    """

    def __init__(self, block: _TextBlock, tokenizer: Any, most: int) -> None:
        self.block, self.encoder, self.strings = block, tokenizer, block.texts.to_pylist()
        encodings = self.encoded(self.strings)
        lengths = np.array([len(encoding) for encoding in encodings], np.int64)
        filled = np.diff(Bits(block.solid).rank(block.bounds)) > 0
        self.counts = np.where(filled, np.maximum(lengths, 1), 0)
        self.long = np.flatnonzero(self.counts > most)
        # in characters of the original text: the Python binding converts from bytes
        self.offsets = [_ascending(encodings[text], self.strings[text]) for text in self.long]

    def encoded(self, texts: list[str]) -> list[Any]:
        """Return the encodings of texts, each by itself."""
        return list(self.encoder.encode_batch(texts, add_special_tokens=False))

    def within(
        self, text: Integers, begin: Integers, solid: Integers, end: Integers
    ) -> tuple[Integers, Integers]:
        """Return the first token of byte ranges, and how many they touch; ``solid`` is text."""
        # In characters of the block, where starts ascend over all texts; the end of a
        # text's last token is the start of the next text.
        first_char = self.block.first_char
        char, some, upto = (
            self.block.char_of(text, byte) + first_char[text] for byte in (begin, solid, end)
        )
        sizes = np.where(self.counts > 0, self.counts + 1, 0)
        spans = np.concatenate([np.zeros((0, 2), np.int64), *self.offsets])
        before = np.repeat(first_char[:-1], sizes)
        starts, ends = spans[:, 0] + before, spans[:, 1] + before
        at = np.searchsorted(starts, char, side="right") - 1
        # skipped white space belongs to what precedes it
        at += ends[at] <= char
        at = np.minimum(at, np.searchsorted(starts, some, side="right") - 1)
        own = (np.cumsum(sizes) - sizes)[text]
        first = np.maximum(np.searchsorted(starts, starts[at]), own)
        return first - own, np.searchsorted(starts, upto) - first


def _ascending(encoding: Any, text: str) -> Integers:
    """Return first and last character of every token, (tokens + 1, 2), and of the end."""
    size = len(text)
    found = np.array([*(encoding.offsets or [(0, size)]), (size, size)], np.int64)
    found[0, 0] = 0
    np.maximum.accumulate(found[:, 0], out=found[:, 0])
    return found


# -- windows of a tokenizer -----------------------------------------------------------------------

_Window = tuple[int, int, int, int]  # first character, end, first token, tokens
_Walk = Generator[str, Any, list[_Window]]


def _walked(tokens: _Pieces, walks: Sequence[_Walk]) -> list[list[_Window]]:
    """Return the windows of each walk, encoding together what all ask for."""
    found: list[list[_Window]] = [[] for _ in walks]
    answers: dict[int, int | None] = dict.fromkeys(range(len(walks)))
    while answers:
        asked = {}
        for number, answer in answers.items():
            try:
                asked[number] = walks[number].send(answer)
            except StopIteration as ended:
                found[number] = ended.value
        encodings = tokens.encoded([*asked.values()])
        answers = {number: len(each) for number, each in zip(asked, encodings, strict=True)}
    return found


def _walk(text: str, offsets: Integers, most: int, overlap: int, once: bool) -> _Walk:
    """Cut a text into windows of at most so many tokens when encoded alone.

    By itself a window may have more tokens than in its text: it loses the space before its first
    word, or gets one, and begins or ends within a word. Then its end moves back, by tokens or else
    characters, and the next window begins there if it would have begun later. Only a single
    character may exceed the limit.
    """
    found: list[_Window] = []
    starts, count = offsets[:, 0].tolist(), len(offsets) - 1
    begin, last = 0, len(text.rstrip(_SPACES))
    while begin < last:
        # several tokens may share a character: take the first
        first = bisect_left(starts, starts[bisect_right(starts, begin, 0, count) - 1])
        after = bisect_right(starts, begin)  # first token that begins later
        end = starts[max(min(first + most, count), after)]
        while window := text[begin:end].strip(_SPACES):
            start = begin + len(text[begin:end]) - len(text[begin:end].lstrip(_SPACES))
            tokens = yield window
            extra = tokens - most
            if extra <= 0 or len(window) == 1:
                found.append((start, start + len(window), first, max(tokens, 1)))
                break
            shorter = starts[max(bisect_left(starts, end) - extra, 0)]
            end = shorter if start < shorter < end else start + max(1, len(window) - -(-extra // 4))
        if (once and found) or end >= last:
            break
        begin = min(max(starts[min(first + max(1, most - overlap), count)], starts[after]), end)
    return found


def _pieces_of_texts(tokens: _Pieces, chunking: Chunking) -> tuple[Integers, ...]:
    """Return how many chunks long texts have, as ``_cut`` counts them, and their columns."""
    limits = [(chunking.max_tokens, overlap, False) for overlap in chunking.overlap]
    if chunking.summary_length:
        limits.append((chunking.summary_length, 0, True))
    found = _walked(
        tokens,
        [
            _walk(tokens.strings[text], offsets, *limit)
            for text, offsets in zip(tokens.long, tokens.offsets, strict=True)
            for limit in limits
        ],
    )
    number = np.zeros((len(tokens.counts), len(chunking.overlap) + 1), np.int64)
    number[tokens.long, : len(limits)] = np.reshape([*map(len, found)], (-1, len(limits)))
    return number, *_columns(found)


def _pieces_of_spans(tokens: _Pieces, spans: ChunkSpans, chunking: Chunking) -> tuple[Any, ...]:
    """Return which spans are too long when encoded alone, and their pieces.

    Returns:
        Whether each is too long; its chunks by overlap; its tokens; of the chunks of those too long
        the starts and ends within the span, and their tokens.
    """
    places = zip(spans.text, spans.start, spans.stop, strict=True)
    strings = [tokens.strings[text][start:stop] for text, start, stop in places]
    encodings, most = tokens.encoded(strings), chunking.max_tokens
    alone = np.array([len(each) for each in encodings], np.int64)
    long = alone > most
    walks, number = [], np.zeros((len(strings), len(chunking.overlap)), np.int64)
    cells = []
    for span in np.flatnonzero(long).tolist():
        overlaps = chunking.overlap[: 1 if spans.summary[span] else None]
        offsets = _ascending(encodings[span], strings[span])
        once = bool(spans.summary[span])
        walks += [_walk(strings[span], offsets, most, each, once) for each in overlaps]
        cells += [(span, across) for across in range(len(overlaps))]
    found = _walked(tokens, walks)
    number[~long, 0] = 1
    for cell, windows in zip(cells, found, strict=True):
        number[cell] = len(windows)
    start, stop, _, counts = _columns(found)
    return long, number, alone, start, stop, counts


def _columns(found: list[list[_Window]]) -> Integers:
    rows = [window for windows in found for window in windows]
    return np.array(rows, np.int64).reshape(-1, 4).T


def _cut(tokens: _Words | _Pieces, base: int, chunking: Chunking) -> Windows:
    """Return the chunks of one block, whose first text is number ``base``."""
    block, counts, most = tokens.block, tokens.counts, chunking.max_tokens
    overlaps = np.array([*chunking.overlap, 0])
    long = counts > most
    # Chunks by text (down) and overlap, then summary (across); a short text has one, in front.
    if isinstance(tokens, _Pieces):
        number, *parts = _pieces_of_texts(tokens, chunking)
    else:
        strides = np.maximum(1, most - overlaps)
        number = np.where(long[:, None], -((most - counts[:, None]) // strides) + 1, 0)
        number[:, -1] = long & (chunking.summary_length > 0)
    number[:, 0] += (counts > 0) & ~long
    cell = np.repeat(np.arange(number.size), number.ravel())
    section, across = np.divmod(cell, number.shape[1])
    summary, cut = across == len(chunking.overlap), long[section]
    first, count = np.zeros(len(cell), np.int64), counts[section]
    start, length = np.zeros(len(cell), np.int64), np.diff(block.first_char)[section]
    if isinstance(tokens, _Pieces):
        start[cut], length[cut], first[cut], count[cut] = parts
        length[cut] -= start[cut]
    else:
        first = _index_within(cell) * strides[across]
        count = np.minimum(np.where(summary, chunking.summary_length, most), count - first)
        start[cut], length[cut] = _spans(tokens, section[cut], first[cut], count[cut])
    # a tokenizer may have white-space tokens, and so windows without text
    keep = length > 0
    return Windows(
        section=section[keep] + base,
        summary=summary[keep],
        window_index=_index_within(cell[keep]).astype(np.int32),
        overlap=np.where(cut, overlaps[across], 0)[keep].astype(np.int32),
        start=start[keep].astype(np.int32),
        length=length[keep].astype(np.int32),
        start_token=first[keep].astype(np.int32),
        token_count=count[keep].astype(np.int32),
    )


def _cut_spans(
    tokens: _Words | _Pieces, base: int, spans: ChunkSpans, chunking: Chunking, place: Place
) -> Windows:
    """Return the chunks of spans of one block, whose first text is number ``base``."""
    block, most = tokens.block, chunking.max_tokens
    spans, solid = spans.of(base, base + len(tokens.counts)), Bits(block.solid)
    text = spans.text
    begin, end = block.byte_of(text, spans.start), block.byte_of(text, spans.stop)
    _refuse_gaps(block, solid, spans, begin, end, lambda at: place(base + at))
    overlaps = np.array(chunking.overlap)
    # Chunks by span (down) and overlap (across); a span that stays whole has one, in front.
    if isinstance(tokens, _Pieces):
        long, number, *parts = _pieces_of_spans(tokens, spans, chunking)
    else:
        first, counts = tokens.within(text, begin, solid.select(solid.rank(begin)), end)
        strides, long = np.maximum(1, most - overlaps), counts > most
        several = long & ~spans.summary
        number = np.where(several[:, None], -((most - counts[:, None]) // strides) + 1, 0)
        number[:, 0] += ~several
    cell = np.repeat(np.arange(number.size), number.ravel())
    of, across = np.divmod(cell, number.shape[1])
    start, stop = spans.start[of], spans.stop[of]
    cut = long[of]
    if isinstance(tokens, _Pieces):
        alone, *ends, tokens_cut = parts
        start[cut], stop[cut] = (spans.start[of[cut]] + each for each in ends)
        low, high = (block.byte_of(text[of], char) for char in (start, stop))
        first = tokens.within(text[of], low, solid.select(solid.rank(low)), high)[0]
        count = np.maximum(alone, 1)[of]
        count[cut] = tokens_cut
    else:
        ahead = _index_within(cell) * strides[across]
        first, count = first[of] + ahead, np.minimum(most, counts[of] - ahead)
        inner, length = _spans(tokens, text[of[cut]], first[cut], count[cut])
        # a span may begin or end within a token
        start[cut] = np.maximum(start[cut], inner)
        stop[cut] = np.minimum(stop[cut], inner + length)
    summary = spans.summary[of]
    overlap = np.where(cut & ~summary, overlaps[across], 0)
    keep = (stop > start) & ~(summary & _repeated(text[of], start, stop, summary))
    cell, of = cell[keep], of[keep]
    windows = np.bincount(cell, minlength=number.size).reshape(number.shape).max(1, initial=0)
    before = np.cumsum(windows) - windows
    index = _index_within(cell) + (before - before[np.searchsorted(text, text)])[of]
    return Windows(
        section=text[of] + base,
        summary=summary[keep],
        window_index=np.where(summary[keep], 0, index).astype(np.int32),
        overlap=overlap[keep].astype(np.int32),
        start=start[keep].astype(np.int32),
        length=(stop - start)[keep].astype(np.int32),
        start_token=first[keep].astype(np.int32),
        token_count=count[keep].astype(np.int32),
    )


def _repeated(text: Integers, start: Integers, stop: Integers, summary: Flags) -> Flags:
    """Return which chunks belong to a text with a window equal to the summary."""
    wanted = np.full((2, int(text.max(initial=-1)) + 1), -1)
    wanted[:, text[summary]] = start[summary], stop[summary]
    same = ~summary & (start == wanted[0, text]) & (stop == wanted[1, text])
    repeated: Flags = np.isin(text, text[same])
    return repeated


def _refuse_gaps(
    block: _TextBlock, solid: Bits, spans: ChunkSpans, begin: Integers, end: Integers, place: Place
) -> None:
    """Refuse spans of white space, and texts not wholly covered by windows."""
    blank = np.flatnonzero(solid.rank(begin) == solid.rank(end))
    if len(blank):
        at = blank[0]
        span = f"{place(int(spans.text[at]))}: ({spans.start[at]}, {spans.stop[at]})"
        raise ChunkingError(f"{span} of the chunker is white space alone: leave it out")
    text, begin, end = (column[~spans.summary] for column in (spans.text, begin, end))
    last = block.bounds[:-1].copy()
    np.maximum.at(last, text, end)
    reached = np.maximum.accumulate(np.concatenate([[0], end]))[:-1]
    low = np.concatenate([np.maximum(block.bounds[text], reached), last])
    high = np.maximum(low, np.concatenate([begin, block.bounds[1:]]))
    missed = solid.rank(low)[solid.rank(high) > solid.rank(low)]
    if len(missed):
        byte = solid.select(missed.min(keepdims=True))
        at = np.searchsorted(block.bounds, byte, side="right") - 1
        char = int(block.char_of(at, byte)[0])
        raise ChunkingError(
            f"{place(int(at[0]))}: the chunker left out character {char}, "
            f"{block.texts[int(at[0])].as_py()[char]!r}: what is not white space lies in a window"
        )


def _index_within(cell: Integers) -> Integers:
    """Return 0, 1, … within each run of equal, ordered values."""
    return np.arange(len(cell)) - np.searchsorted(cell, cell)


def _spans(
    tokens: _Words, text: Integers, first: Integers, count: Integers
) -> tuple[Integers, Integers]:
    """Return start and length, in characters, of tokens without surrounding white space."""
    if not len(text):
        return text, text
    solid = Bits(tokens.block.solid)
    lower, upper = (solid.rank(at) for at in tokens.ranges(text, first, count))
    start = tokens.block.char_of(text, solid.select(lower))
    stop = tokens.block.char_of(text, solid.select(np.maximum(upper - 1, 0)) + 1)
    return start, np.where(upper > lower, stop - start, 0)


def _solid(data: Bytes, ascii_only: bool) -> Flags:
    """Return which bytes are not white space."""
    # unsigned bytes wrap below 0, so each test is a range: 9 to 13, and 28 to 32
    solid = ((data - np.uint8(9)) > 4) & ((data - np.uint8(28)) > 4)
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
            raise ChunkingError("a text of more than 2 GiB: expected shorter ones, split it")
        marks = np.searchsorted(bounds[:-1], np.arange(0, bounds[-1], BLOCK))
        cuts = np.unique([0, *marks, len(chunk)])
        for start, stop in itertools.pairwise([0, 0] if len(cuts) == 1 else cuts):
            inside = data[bounds[start] : bounds[stop]]
            part = bounds[start : stop + 1] - bounds[start]
            yield _TextBlock(chunk.slice(start, stop - start), inside, part)
