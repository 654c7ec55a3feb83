"""Errors say values as they came, and nothing in these acts on a terminal or hides the advice."""

from __future__ import annotations

import pytest

from duckplets.errors import ChunkingError, SourceError
from duckplets.text.chunking import Chunking

PROSE = "it is the user's own, and " + "words about it " * 40 + "of the corpus's own"


def test_a_message_is_what_was_said_but_for_what_acts():
    for message, said in (
        ("name=" + repr("x\x1b[2Jy") + ": no", r"name='x\x1b[2Jy': no"),
        ("a\x1b[2J\u202eb\nc", "a\\x1b[2J\\u202eb\nc"),
        (PROSE, PROSE),
        (f"'a?' {PROSE} 'b'", f"'a?' {PROSE} 'b'"),
    ):
        assert str(SourceError(message)) == said


def test_a_long_value_is_cut_and_what_to_do_stays():
    said = str(SourceError(f"name={'x' * 9000!r}: give {'a shorter name'!r}, {'y' * 9000!r} too"))
    assert len(said) < 600
    assert "(9,002 characters)" in said
    assert said.startswith("name='xxx")
    assert "give 'a shorter name'," in said
    with pytest.raises(ChunkingError, match=r"max_tokens=\(a number of 10000 bits\): give an int"):
        Chunking(max_tokens=1 << 9999)
