"""The denoiser: hand-written lines, and a line-by-line account of its rules as the oracle."""

import itertools
import random
import sys
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from effort import often, some

from duckplets.errors import ChunkingError
from duckplets.text import denoiser as module
from duckplets.text.characters import DIGIT, LETTER, NARROW_SPACES, SPACE, WIDE_SPACES, _table
from duckplets.text.denoiser import Denoiser

OCR = "42 524 NOVEX INDUSTRIES Springfield 10788 143 1995 190 394 13611 358"

# ---- the rules, line by line


def count(text, flag):
    # Not str.isalpha, so that a newer Python, which knows more letters, agrees.
    return sum(bool(_table()[ord(character)] & flag) for character in text)


def crowded(text, limit):
    digits, letters = count(text, DIGIT), count(text, LETTER)
    return digits / (digits + letters) > limit


def thinned(line, limit):
    tokens = line.split()
    kept = {i for i, token in enumerate(tokens) if count(token, LETTER)}
    while True:
        wave = {j for i in kept for j in (i - 1, i + 1) if 0 <= j < len(tokens)} - kept
        if not wave or crowded(" ".join(tokens[i] for i in sorted(kept | wave)), limit):
            return " ".join(tokens[i] for i in sorted(kept))
        kept |= wave


def cleaned(line, limit, *, tables):
    """Return what stays of a line that is not blank."""
    if tables and line.lstrip().startswith("|") and line.count("|") > 1:
        if all(character in "|-:" or character.isspace() for character in line):
            return None
        line = " ".join(cell.strip() for cell in line.split("|") if cell.strip())
    if not count(line, LETTER):
        return None
    return thinned(line, limit) if crowded(line, limit) else line


def reference(text, limit=0.35, *, tables=True):
    kept = []
    gap = found = False
    for line in (text or "").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line.strip():
            if not gap or (kept and kept[-1].strip()):
                kept.append(line)
                gap = False
            continue
        stays = cleaned(line, limit, tables=tables)
        gap = stays is None
        if stays is not None:
            kept.append(stays)
            found = True
    return "\n".join(kept) if found else None


# ---- by hand

CASES = [
    # waves
    (OCR, "42 524 NOVEX INDUSTRIES Springfield 10788 143"),
    ("a1234", "a1234"),  # alone above the limit: what holds a letter stays
    ("Total 12 34", "Total 12"),
    ("12 Total 34", "Total"),  # 2 of 7 would do, but the wave is refused whole
    ("abcdefg 1234 5", "abcdefg"),
    ("abcdefg 123 456", "abcdefg 123"),
    ("  abcdefg 123 456  ", "abcdefg 123"),
    ("1 ab 2 999999 3 cd 4", "ab cd"),  # the waves of all runs are one
    ("1234567 - ab - 7654321", "- ab -"),  # no digits, no letters: fits
    ("aaaaaaaaaaaaa 1111111", "aaaaaaaaaaaaa 1111111"),  # 7 of 20 is the limit itself
    ("aaaaaaaaaaaaa 11111111", "aaaaaaaaaaaaa"),
    # lines without a letter
    ("€ 12,50", None),
    ("\u0301\u0301", None),  # marks are no letters
    ("", None),
    (" \n\t\n", None),
    # scripts
    ("日本語 １２３４５６", "日本語"),
    ("مرحبا ١٢٣٤٥٦ ٧", "مرحبا"),
    ("𝒳𝒴 𝟙𝟚𝟛", "𝒳𝒴"),
    ("Привет\u3000123\u00a0456\u2003мир", "Привет мир"),
    # tables
    ("| a | b |", "a b"),
    ("| two  words | b |", "two  words b"),
    ("|---|:-:|", None),
    ("| Item | Price |\n|---|---:|\n| Tea | 3 |\n| Milk | 4711 |", "Item Price\nTea 3\nMilk"),
    ("| Springfield | 12 | 13 |", "Springfield 12 13"),
    ("| one bar", "| one bar"),
    ("a|1|2|3", "a|1|2|3"),
    ("|| ab 1234567 ||", "ab"),
    # line ends and blank lines
    ("One.\r\nTwo.\rThree.\n", "One.\nTwo.\nThree.\n"),
    ("One.\n\n12\n\nTwo.", "One.\n\nTwo."),
    ("One.\n12\n\n\nTwo.", "One.\n\n\nTwo."),
    ("12\n\nOne.\n", "One.\n"),
    ("One.\u2028a 1\x0b6 Two", "One.\u2028a 1\x0b6 Two"),  # white space, not line ends
]


PROSE = """\
It was a bright cold day in April, and the clocks were striking thirteen.

\tOn 4 May 1984 — “a Friday” — prices rose by 3.5 %; see page 12.  Two spaces, one tab.

第一段。  Zweiter Absatz (größer als der erste): naïve café, Ὀδυσσεύς, ١٩٨٤ في العالم.
"""


def test_by_hand():
    for text, expected in (*CASES, (PROSE, PROSE)):
        assert Denoiser()(text) == expected, text
        assert reference(text) == expected, text
    texts = pa.array([text for text, _ in CASES])
    for start, stop in itertools.combinations((0, 1, 5, 14, len(CASES)), 2):
        part = Denoiser().apply(texts.slice(start, stop - start))
        assert part.to_pylist() == [expected for _, expected in CASES[start:stop]]
    chunked = pa.chunked_array([texts.slice(0, 2), texts.slice(2)])
    assert Denoiser().apply(chunked).to_pylist() == [expected for _, expected in CASES]
    assert Denoiser().apply(pa.chunked_array([], pa.string())).to_pylist() == []
    as_they_are = pa.array([PROSE, PROSE[:70]] * 100)
    assert Denoiser().apply(as_they_are).equals(as_they_are)


# ---- many texts at once

WORDS = ["a", "ab", "NOVEX", "né", "漢字", "שלום", "नमस्ते", "𝒳", "e\u0301", "x1", "4y4"]
NUMBERS = ["1", "42", "10788", "٧٧", "１２３", "²", "①", "3.5", "1,000", "½", "Ⅷ"]
MARKS = [*"||-:€—\u0301\0", "--", "||"]
SPACES = [*"   \t\u3000\u00a0\u2028\x85\x0c", "  "]
ENDS = ["\n", "\n", "\n\n", "\r\n", "\r", "\n \n"]


def line_of(draw):
    kind = draw.random()
    words = draw.choice([WORDS, NUMBERS, MARKS, WORDS + NUMBERS, WORDS + NUMBERS * 3 + MARKS])
    tokens = [draw.choice(words) for _ in range(draw.randint(0, 12))]
    if kind < 0.3:
        edge = draw.choice(["|", " | ", "| "])
        return edge + draw.choice(["|", " | "]).join(tokens) + draw.choice(["|", "", " |"])
    if kind < 0.4:
        return draw.choice(["|---|:--|", "| - |", "|", "", " ", "\u3000"])
    return "".join(token + draw.choice([*SPACES, ""]) for token in tokens)


def text_of(draw):
    kind = draw.random()
    if kind < 0.03:
        return None
    if kind < 0.3:
        return "".join(draw.choices("a漢\u0301𝟙17٧| -:\n\r\t\u3000\x85", k=draw.randint(0, 60)))
    if kind < 0.4:
        points = (draw.randrange(sys.maxunicode + 1) for _ in range(draw.randint(0, 40)))
        return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)
    lines = [line_of(draw) for _ in range(draw.randint(0, 8))]
    return "".join(line + draw.choice([*ENDS, ""]) for line in lines)


@pytest.mark.parametrize(
    ("block", "kind"),
    some(itertools.product([1, 64, 1 << 20], [pa.string(), pa.large_string()]), less=3),
    ids=str,
)
def test_any_texts_agree_with_the_oracle(block, kind, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    draw = random.Random(f"{block}{kind}")
    for limit, tables in ((0.35, True), (0.35, False), (0.0, True), (0.5, True), (1.0, True)):
        texts = [text_of(draw) for _ in range(often(300, less=60))]
        denoiser = Denoiser(max_digit_ratio=limit, strip_markdown=tables)
        found = denoiser.apply(pa.array(texts, kind))
        found.validate(full=True)
        assert found.type == kind
        assert found.to_pylist() == [reference(text, limit, tables=tables) for text in texts]
        if not tables:
            assert denoiser.apply(found).equals(found), "cleaning again changes nothing"


def test_one_long_line_and_many_short_ones():
    assert Denoiser()("word 123456 7 " * 40_000) == " ".join(["word"] * 40_000)
    assert Denoiser()("1 " * 40_000 + "a" * 13) == "1 1 1 1 1 1 1 " + "a" * 13
    assert Denoiser()("ab 12345\n" * 50_000) == "ab\n" * 50_000


def test_long_tokens_are_counted_in_full():
    sizes = some((1, 255, 256, 257, 511, 512, 900), less=4)
    texts = [
        f"{'1' * digits} {'a' * letters}{'2' * more} {'3' * digits}"
        for digits in sizes
        for letters in sizes
        for more in (0, *sizes)
    ]
    assert Denoiser().apply(pa.array(texts)).to_pylist() == [reference(text) for text in texts]


# ---- characters


def test_letters_digits_and_white_space_are_those_of_python():
    table = _table()
    points = [chr(i) for i in range(sys.maxunicode + 1)]
    for flag, ours in ((LETTER, str.isalpha), (DIGIT, str.isdigit)):
        marked = (table & flag > 0).tolist()
        if unicodedata.unidata_version == "14.0.0":
            assert marked == [ours(point) for point in points]
        # What later versions of Unicode add is neither, what they know from before stays.
        wrong = [p for p, mark in zip(points, marked, strict=True) if mark and not ours(p)]
        assert len(wrong) < 5
    spaces = "".join(point for point in points if point.isspace())
    assert spaces == "".join(sorted(NARROW_SPACES + WIDE_SPACES))
    assert np.flatnonzero(table & SPACE).tolist() == [ord(space) for space in spaces]


# ---- settings


WRONG = [
    ({"max_digit_ratio": -0.1}, r"max_digit_ratio=-0\.1: give a finite number from 0 to 1"),
    ({"max_digit_ratio": 1.1}, "max_digit_ratio"),
    ({"max_digit_ratio": float("nan")}, "max_digit_ratio=nan"),
    ({"max_digit_ratio": True}, "max_digit_ratio=True"),
    ({"max_digit_ratio": "0.3"}, "max_digit_ratio='0.3'"),
    ({"strip_markdown": 1}, "strip_markdown=1: give True or False"),
]


def test_wrong_settings_and_what_is_no_text_are_refused():
    for given, told in WRONG:
        with pytest.raises(ChunkingError, match=told):
            Denoiser(**given)
    with pytest.raises(ChunkingError, match="a text to clean is bytes: expected str"):
        Denoiser()(b"12")
    with pytest.raises(ChunkingError, match=r"has a lone surrogate: .*surrogates not allowed"):
        Denoiser()("a\ud800")
    with pytest.raises(ChunkingError, match="texts to clean are int64"):
        Denoiser().apply(pa.array([1]))
