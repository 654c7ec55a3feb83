"""Read word files of gates: profanity, and domain terms by category."""

# The settings store the digest of the file, so decisions by two versions of a file never mix.

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from duckplets.base.documents import Form, read_document, read_text
from duckplets.base.sanitize import shown
from duckplets.errors import QualityError

SHIPPED = "medical"  # the vocabulary of the package

# Characters of all words of a file: they are one regular expression, and RE2 has a limit.
_MOST_TERMS, _MOST_WORDS = 150_000, 25_000
_LONGEST = 100  # longest word


class WordFile(NamedTuple):
    """The words of a file."""

    sha256: str  # of the words
    terms: tuple[tuple[str, str], ...]  # category ("" for none), and word in lower case


def read_words(file: str | Path) -> WordFile:
    """Read a file of words or phrases, one a line; ``#`` begins a comment."""
    lines = read_text(Path(file), QualityError).splitlines()
    found = [("", line.strip(), f"line {n}") for n, line in enumerate(lines, 1)]
    found = [(c, w, at) for c, w, at in found if w and not w.startswith("#")]
    return _checked(file, found, _MOST_WORDS)


def read_terms(file: str | Path) -> WordFile:
    """Read a vocabulary: JSON or TOML that maps categories to lists of terms."""
    if str(file) == SHIPPED:
        file = Path(__file__).parent / "medical.toml"
    forms: dict[str, Form] = {".json": "JSON", ".toml": "TOML"}
    form = forms.get(Path(file).suffix.lower())
    if form is None:
        raise QualityError(f"{shown(file)}: a vocabulary is a file that ends in .json or .toml")
    table = read_document(Path(file), form, QualityError)
    if not isinstance(table, Mapping) or not table:
        raise QualityError(f"{shown(file)}: {_WANTED}")
    found = []
    for category, terms in table.items():
        if not isinstance(terms, list) or not terms or not str(category).strip():
            raise QualityError(f"{shown(file)}: category {shown(repr(category))}: {_WANTED}")
        found += [(str(category), term, f"category {category!r}") for term in terms]
    return _checked(file, found, _MOST_TERMS)


_WANTED = 'expected categories with lists of terms, such as {"anatomy": ["heart", "lung"]}'


def _checked(file: str | Path, found: list[tuple[str, Any, str]], most: int) -> WordFile:
    """Check words, and return them in lower case with single spaces, once a category."""
    terms = set()
    for category, word, where in found:
        is_text = isinstance(word, str) and 0 < len(word) <= _LONGEST and word.isprintable()
        if not is_text or not any(c.isalnum() for c in word):
            raise QualityError(
                f"{shown(file)}: {shown(where)}: {shown(repr(word))} is no word of at most "
                f"{_LONGEST} characters with a letter or digit in it"
            )
        terms.add((category, " ".join(word.lower().split())))
    if not terms:
        raise QualityError(f"{shown(file)}: it holds no words; give at least one")
    size = sum(len(word) for _, word in terms)
    if size > most:
        raise QualityError(
            f"{shown(file)}: its words have {size:,} characters; {most:,} are allowed; remove some"
        )
    ordered = tuple(sorted(terms))
    digest = hashlib.sha256("\n".join(f"{c}\t{w}" for c, w in ordered).encode()).hexdigest()
    return WordFile(digest, ordered)
