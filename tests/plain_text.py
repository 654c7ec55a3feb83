"""How texts are compared, in plain Python: one character at a time."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# scripts whose marks make other words, such as kana and those of India
OWN_MARKS = re.compile(
    "[\u0700-\u074f\u0780-\u085f\u0900-\u109f\u1700-\u1aaf\u1b00-\u1c7f\u1cd0-\u1cff\u3040-\u30ff"
    "\ua800-\uaaff\uabc0-\uabff\U00010a00-\U00010aff\U00011000-\U00011fff]"
)


def unaccented(text: str) -> str:
    """Return a text without marks; those of some scripts stay, and joiners after them go."""
    kept, own = [], False
    for char in text:
        if OWN_MARKS.match(char):
            own = True
        elif own and char in "\u200c\u200d":
            continue
        else:
            own = False
            plain = unicodedata.normalize("NFD", char)
            char = "".join(c for c in plain if unicodedata.category(c)[0] != "M")
        kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept))


@cache  # the plain law compares each text with all others, again and again
def normalised(text: str) -> str:
    """Return a text without case, accents, composition and what kind of white space there is."""
    return unaccented(re.sub("[\t\n\f\r ]+", " ", text).strip()).lower()
