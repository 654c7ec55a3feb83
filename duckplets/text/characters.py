"""Classify the characters of texts as bytes: flags of letters, digits and white space, and a kind.

The decision that matters: the tables are in this file, from Unicode 14, as in the oldest supported
Python. Cleaned and cut texts are stored, and must not depend on the running Python. ``LETTERS``,
``DIGITS`` and ``MARKS`` are lengths of runs of code points from 0 on, in base 36. The first run is
not of the kind, the second is, and so on.

The kind, in the upper four bits, is for counting (``text.words``). It is the weight in quarters of
a token if the script has no spaces or many tokens a word. For others it is a mark or a stop.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Bytes, Flags, Integers

LETTER, DIGIT, SPACE, PIPE = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
SENTENCE, PHRASE, MARK, JOINER = 7, 8, 9, 10  # kinds; 1 to 6 are weights
NARROW_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
WIDE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_POINTS = 0x110000
_STEP = 1 << 15  # bytes processed at a time, to bound memory

# General categories Lu, Ll, Lt, Lm and Lo, as str.isalpha.
LETTERS = (
    "1t q 6 q 1b 1 a 1 4 1 5 n 1 v 1 cq 4 c e 5 7 1 1 1 3l 5 1 2 2 4 1 1 6 1 1 3 1 1 1 k 1 2b 1 "
    "3v 8 4m 1 12 2 1 6 15 1z r 4 4 19 17 z 2 1 2r 1 1 f 2 7 2 a 3 2 1 g 1 1 u t 2h b 1 o x 9 2 4 "
    "1 5 m 4 1 9 1 3 1 n p 7 b 5 o 1 6 h 16 1m 1i 3 1 i 1 7 a f g 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 "
    "d 2 1 3 e 2 a 1 8 6 4 2 2 m 1 7 1 2 1 2 1 2 v 4 1 1 j 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 "
    "n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 u 2 1 3 f 1 h 1 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 "
    "1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1 n 1 a 1 5 3 1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 "
    "8 3 o 6 5 i 3 o 1 9 1 1 2 7 1m 1c 1 2 c 7 1m 2 1 1 1 5 1 o 1 1 1 a 1 2 9 1 2 5 1 1 l 4 w 1 "
    "1r 8 1 10 r 5 37 17 k 1 g 6 4 4 3 1 3 2 7 3 4 d c 1 h 12 1 1 5 1 2 17 1 99 1 4 2 7 1 1 1 4 2 "
    "15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g g 2e 2 6 3 h8 2 h 1 q 5 23 6 8 7 i d j e i "
    "e d 1 3 f 1g z 1 4 1 1v 2h 7 5 2 y 1 1 5 1y a v 1d u 2 5 b 18 4 q 1i n 9 1h 2a 1 2l 1b h 8 "
    "1i u d 2 a 18 q 10 15 3 a 10 2 9 7 17 2 3 15 4 1 6 1 2 3 1 5 5c 1s 7q 2 6 2 12 2 6 2 8 1 1 1 "
    "1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 38 1 d 1 g d 2t 1 4 1 2 a 1 1 3 5 6 1 1 1 "
    "1 1 1 4 1 b 2 4 5 5 4 1 1g 2 22j 6d 6 4 3 2 c 12 1 1 5 1 2 1k 7 1 g n 9 7 1 7 1 7 1 7 1 7 1 "
    "7 1 7 1 7 28 1 d1 2 16 5 5 2 4 2e 6 3 1 2i 1 4 5 17 1 2m h w 1c g e8 534 1s h3h 1v 1a 2 7h 3 "
    "g a 2 k 1b g v 2 1y 1d 9 2 2v 2 1s 5 2 1 1 1 5 o g 1 3 1 4 1 n t 1g e 1e 1q 6 3 1 1 2 b s a "
    "n p t 7 1b s 1 g 5 1 a a 5 1 15 n 3 1 8 k n 3 1 3 1e 1 1 3 2 2 5 2 1 1 1 o 3 2 b 7 3 c 6 2 6 "
    "2 6 9 7 1 7 1 17 1 e 6 37 t 8mc c n 4 1d 6is a6 2 2y 12 7 c 5 5 1 1 a 1 d 1 5 1 1 1 2 1 2 1 "
    "30 x a3 i 1s 2 1i 14 c 38 5 1 3r 10 q 6 q b 2h 3 6 2 6 2 6 2 3 z c 1 q 1 j 1 2 1 f 2 e y 3f "
    "at t 3 1d 1b w d k 1 8 6 12 a u 2 10 4 8 1c 4e i 10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 "
    "7 1 2 1v 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18 1 2 3 1 2 n a n 9 v 1t j 1 2 a m a q 1y 1k 6 "
    "2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i 32 21 1j 1f d 1f d 10 9o 16 6 2 26 t a "
    "1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1 2 1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p 2c "
    "7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i 1 c 5 4e 1h i 4 k 3 u 1c k 2 1 1 54 1b "
    "15 4 10 1c k 1 1n 17 d 1 1z r 11 7 55 18 38 1s v 8 2 1 2 8 1 2 1 o f 1 1 1 2m 8 2 13 g 1 1 1 "
    "s 1 a 14 7 1 l 1 b 1a j 1 i 21 7b 9 1 11 h 1 1d u 34 7 1 2 1 12 l 1 p 6 1 2 1 w e 1 93 j 59 "
    "1 27 pm 6e 5g 218 2p f tr 34h g7 6nt ft 7 v h 27 h u i 1c g 4 v l 5 j j4 1s 3k 23 5 1 1u d "
    "1s 2 1 1 s 4qg 8 ye 16 9 6w7 4 1 7 1 2 1 83 19 3 h 4 8 b0 1s4 2z 5 d 3 9 7 a 4me 2d 1 1z 1 2 "
    "2 1 2 2 2 4 1 c 1 1 1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 "
    "v 1 p 1 v 1 p 1 8 1f8 v dd 19 a 7 g 1 8x u i 18 z8 7 1 4 1 2 1 f 1 5h 1n 1w 7 1 xg 4 1 r 1 2 "
    "1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 "
    "1 4 1 1 1 a 1 h 5 3 1 5 1 h 3es wyo w 37d 7 66 2 4g2 e 5rl 2e7 f2 15u 3t7"
)
# Nd, and of No single digits such as ² and ①, as str.isdigit
DIGITS = (
    "1c a 3c 2 5 1 146 a 3q a 5i a bg a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 2o a 3a a 1y "
    "a 7q a 1y a jz 9 vi a 12 a 8c a 3k b 4l a 6 a 52 a 2e a 3q a 6 a t2 1 3 6 6 a ra 9 b 9 b 9 "
    "2h 1 a 9 1 1 hi 9 1 9 1 9 ozx a iu a 12 a 5i a m a 2e a ba a geu a 13a a 13q 4 ks a 86 9 dl "
    "9 b a 3k a 1o a 40 a 7q a 9i a 3a a ae a 2u a 2u a bq a 2u a l2 a 6u a 1y a f5i a 2e a 3q a "
    "lf8 1e 1ts a bq a 192 a 1ie b 25h a"
)

# Mn, Mc and Me, characters of no width, skin tones, and vowels that Unicode calls letters
MARKS = (
    "4t 1 gi 34 7n 7 7b 19 1 1 1 2 1 2 1 1 20 b 1c l g 1 2t 7 2 6 2 2 1 4 z 1 u r 2j b 1m 9 9 1 "
    "o 4 1 9 1 3 1 5 17 3 1o 8 16 o 1 x 1i 3 1 i 1 7 a 2 t 3 1k 1 1 7 2 2 2 3 9 1 a 2 q 1 2 3 "
    "1k 1 1 5 4 2 2 3 3 1 u 2 3 1 b 3 1k 1 1 8 1 3 1 3 k 2 m 6 1 3 1k 1 1 7 2 2 2 3 7 3 a 2 u 1 "
    "1n 5 3 3 1 4 9 1 14 5 1j 1 1 7 1 3 1 4 7 2 b 2 t 3 1k 1 1 7 1 3 1 4 7 2 b 2 s 4 1j 2 1 7 1 "
    "3 1 4 9 1 a 2 t 3 1y 1 4 6 1 1 1 8 i 2 1p 1 1 8 c 8 2q 1 1 a b 6 22 2 r 1 1 1 1 1 4 2 1d k "
    "1 2 5 b 1 10 9 1 2s k n 4 4 3 1 3 2 7 3 4 d c 1 1 a 4 5e 4g 9p 3 qa 4 s 3 t 2 u 2 1s w 9 1 "
    "19 3 1 1 39 2 y 1 3a c 4 c 63 5 1l a 1 t 2 1 1c v 1d 5 1b h 12 9 c 3 u d 1k e 1c k 48 3 1 "
    "l 4 1 6 1 2 3 5i 1s ej 5 28 5 2z x 2da 3 3x 1 2o w fe 6 2x 2 n9w 4 1 a w 2 28 2 7k 1 3 1 4 "
    "1 n 5 4 1 2b 2 1e i q i d 1 12 8 p d 18 4 1b e 10 1 1v e c 1 8 2 19 3 1e 1 1 3 2 2 5 2 1 1 "
    "15 5 5 2 6k 8 1 2 8n6 24 6xu 1 kh g g g 5r 1 4e 2 gt 1 6a 1 45 5 1ae 3 1 2 5 4 14 3 4 1 4l "
    "2 fx 4 ar 2 49 b 1d 4 3e 3 1h f 15 1 2 2 a 4 19 b 7 1 1p 3 10 e g 2 18 1 c 3 1c e 8 4 1 2 "
    "2k c 6 1 4g c l 4 1j 2 1 7 2 2 2 3 9 1 a 2 2 7 3 5 5c i n 1 29 k 6j 7 2 9 r 2 2a h 2y d 2t "
    "f 74 f 6t 6 1 2 2 4 1 1 1 2 3x 7 2 7 3 1 s a 14 7 1 4 8 1 9 b 1a g b9 8 1 8 2a m 1 e 3e 6 "
    "3 1 1 2 1 7 1 1 1u 5 1 2 1 5 9n 4 f09 5 1n 7 t4 1 1 1j 7 4 29 1 b 2 f57 2 3mp 1a 2 n f2 5 "
    "3 6 8 8 2 7 u 4 44 3 1iz 1j 4 1e 8 1 e 1 m 5 1 f 11s 7 1 h 2 7 1 2 1 5 79 7 af 1 1p 4 15s "
    "7 31 7 240 5 gx7k 2o 3k 6o "
)
_JOINERS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0ccd\u0d4d\u1039\u17d2\u200d"  # join the next character
# First and last code point of scripts, and the weight of a letter in quarters of a token. It is
# near the mean of two large vocabularies (benchmarks/languages.json): Bengali to Sinhala; Thai; Lao
# and Tibetan; Burmese; Hangul; Ethiopic; Khmer; Han, kana and Yi; and other blocks.
WEIGHTS = (
    "980 dff 3 e00 e7f 2 e80 fff 6 1000 109f 4 1100 115f 3 1200 139f 6 1780 17ff 4 2e80 312f 4 "
    "3130 318f 3 31a0 a4cf 4 a960 a97f 3 aa60 aa7f 4 ac00 d7a3 3 f900 faff 4 ff66 ff9d 4 "
    "ffa0 ffdc 3 1aff0 1b16f 4 20000 3ffff 4"
)
_NUMERALS = "\u3007\u3021\u3022\u3023\u3024\u3025\u3026\u3027\u3028\u3029"
_SENTENCES = ".!?…\u0964\u0965\u0f0d\u0f0e\u104b\u1362\u17d4\u17d5\u3002\uff01\uff0e\uff1f\uff61"
_PHRASES = ",;:\u060c\u061b\u104a\u1361\u1363\u1364\u17d6\u3001\uff0c\uff1a\uff1b\uff64"


def bytes_of(texts: pa.Array) -> tuple[Bytes, Integers]:
    """Return the concatenated bytes of texts, and their offsets; null is an empty text."""
    if len(texts) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    texts = texts.fill_null("") if texts.null_count else texts
    width = np.dtype(np.int32 if texts.type == pa.string() else np.int64)
    _, places, content = texts.buffers()
    at = texts.offset * width.itemsize
    bounds = np.frombuffer(places, width, len(texts) + 1, at).astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    return data, bounds - bounds[0]


def classes(data: Bytes) -> Bytes:
    """Return the flags of every character of UTF-8 text."""
    if not len(data) or data.max() < 0x80:
        return np.frombuffer(data.tobytes().translate(_table()[:256].tobytes()), np.uint8).copy()
    found = np.zeros(len(data), np.uint8)
    flags = flags_of(data)
    at = np.flatnonzero(data.view(np.int8) >= -64)  # continuation bytes are below
    found[at] = flags
    spaces = at[flags == SPACE]
    lead = data[spaces]
    found[spaces[lead >= 0xC0] + 1] = SPACE
    found[spaces[lead >= 0xE0] + 2] = SPACE
    return found


@functools.cache
def heavy() -> Flags:
    """Return the first two bytes of letters with a weight, by first byte and six bits."""
    kinds = _table() >> 4
    points = np.flatnonzero((kinds > 0) & (kinds < SENTENCE))
    bits = np.where(points < 0x10000, 6, 12)
    found = np.zeros((256, 64), np.bool_)
    found[np.where(bits == 6, 0xE0, 0xF0) | (points >> bits >> 6), (points >> bits) & 0x3F] = True
    return found


def kind_of(character: str) -> int:
    """Return the kind of a character."""
    return int(_table()[ord(character)] >> 4)


def flags_of(data: Bytes) -> Bytes:
    """Return the flags of every character of UTF-8 text, shape (characters,)."""
    table, found, start = _table(), [np.zeros(0, np.uint8)], 0
    while start < len(data):
        stop = start + _STEP
        while stop < len(data) and data[stop] & 0xC0 == 0x80:
            stop += 1
        # Python decodes several times as fast as arithmetic over arrays
        text = data[start:stop].tobytes().decode()
        points = np.frombuffer(text.encode("utf-32-le"), "<u4")
        found.append(table.take(points, mode="clip"))
        start = stop
    return np.concatenate(found)


@functools.cache
def _table() -> Bytes:
    """Return the flags of every code point."""
    table = np.zeros(_POINTS, np.uint8)
    for runs, flag in ((LETTERS, LETTER), (DIGITS, DIGIT)):
        for start, end in _ranges(runs):
            table[start:end] |= flag
    for characters, flag in ((NARROW_SPACES + WIDE_SPACES, SPACE), ("|", PIPE)):
        table[[ord(character) for character in characters]] = flag
    weights = [int(number, 16) for number in WEIGHTS.split()]
    for first, last, quarters in zip(weights[::3], weights[1::3], weights[2::3], strict=True):
        letters = table[first : last + 1]
        letters[(letters & LETTER) != 0] |= quarters << 4
    table[[ord(character) for character in _NUMERALS]] = 4 << 4
    for start, end in _ranges(MARKS):
        table[start:end] = table[start:end] & 15 | MARK << 4
    for characters, kind in ((_JOINERS, JOINER), (_SENTENCES, SENTENCE), (_PHRASES, PHRASE)):
        table[[ord(character) for character in characters]] = kind << 4
    return table


def _ranges(runs: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of every run of a kind."""
    ends = np.cumsum([int(length, 36) for length in runs.split()]).tolist()
    return zip(ends[::2], ends[1::2], strict=True)
