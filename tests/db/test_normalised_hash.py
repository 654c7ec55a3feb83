"""The hash of a normalised text is that of its definition, however it is reckoned."""

import random
import unicodedata

import pyarrow as pa
from effort import often

import duckplets as dp

DEFINITION = r"""
md5_number_lower(lower(strip_accents(nfc_normalize(trim(
    regexp_replace(text, '\s+', ' ', 'g')
)))))
"""
DIFFERENT = f"SELECT count(*) FROM made WHERE normalised_hash(text) IS DISTINCT FROM {DEFINITION}"
SPACES = [*" \t\n\r\f\v", "  ", "\r\n", "\x85", "\xa0", "\u2003", "\u2028", "\u200b", "\u3000"]
LETTERS = [*"aBÉ\u0301ßİﬁ각😀\0", "e\u0301", "\u1100\u1161\u11a8"]


def test_it_is_that_of_the_definition(tmp_path):
    draw = random.Random(4)
    marks = [chr(c) for c in range(0x300, 0x1E000) if unicodedata.combining(chr(c))]
    composed = [chr(c) for c in range(0x110000) if unicodedata.decomposition(chr(c))]
    choices = [SPACES, SPACES, LETTERS, LETTERS, marks, composed]
    texts = [
        "".join(draw.choice(draw.choice(choices)) for _ in range(draw.randrange(9)))
        for _ in range(often(200_000, less=20_000))
    ]
    texts += [
        f"{before}x{between}y{after}" for before in SPACES for between in SPACES for after in SPACES
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        made = pa.table({"text": texts})
        with corpus.database.registered(made=made):
            ((wrong,),) = corpus.database.rows(DIFFERENT)
            hashes = "normalised_hash(E' A\\n\\tÉ '), normalised_hash('a e'), normalised_hash('ae')"
            (equal,) = corpus.database.rows(f"SELECT {hashes}")
    assert wrong == 0
    assert equal[0] == equal[1] != equal[2]
