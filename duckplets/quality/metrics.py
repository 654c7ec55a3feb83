"""The metrics that are stored of every text: their names and types, and what decides by which.

    settings ─needed→ names of metrics        settings ─measured→ names, and what each was made by

The decision that matters: metrics are counts, of things and of what they are a share of. Shares
are made where it is decided, from integers, so that they are the same on every machine and a limit
can be met exactly.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pyarrow as pa

from duckplets.quality import plugins
from duckplets.quality.language import detector_of

if TYPE_CHECKING:
    from duckplets.quality.settings import Quality

__all__ = ["METRICS", "RULES", "measured", "needed"]

_VERSION = "1"  # of what is measured; another one counts as another metric

_DOCUMENTED = """
sha256 binary: of the text
bytes: of the text in UTF-8
characters: of the text
words: between white space
lines: of the text; an empty one after the last line break does not count
present list: names of required fields that a row may be asked for and that are not blank
license string: of the row
emails: e-mail addresses
phones: telephone numbers
ssns: social security numbers
addresses: public IPv4 addresses
cards: numbers of cards with a right check digit
profanity: words and phrases of the list; NULL without one
copyright: how many of the phrases occur
domain_terms: terms of the vocabulary
domain_categories: categories that these are of
code_lines: lines that are not blank at the beginning, in the first 8,192 characters
code_indented: of these lines those that begin with a tab or two spaces
code_symbols: brackets and operators there
code_characters: characters that are not white space there
code_keywords: keywords of programming languages there
code_words: words there
code_early bool: whether the first 256 characters have an indented line and a symbol
tokens: words and marks
plain_tokens: tokens that are not marks
plain_characters: characters of these
alphabetic_tokens: tokens with a letter
stop_words: how many different stop words occur
hashes: number signs
ellipses: three dots, and the character for them
bullet_lines: lines that begin with a bullet
ellipsis_lines: lines that end with an ellipsis
paragraphs: parts between blank lines
duplicate_paragraphs: those that stood before
duplicate_paragraph_characters: characters in those
pieces: what stands between line breaks, the empty pieces at both ends included
duplicate_lines: pieces that stood before
duplicate_line_characters: characters in those
top_2gram: characters in the most frequent two tokens
top_3gram: characters in the most frequent three tokens
top_4gram: characters in the most frequent four tokens
duplicate_5grams: characters in five tokens that stood before
duplicate_6grams: characters in six tokens that stood before
duplicate_7grams: characters in seven tokens that stood before
duplicate_8grams: characters in eight tokens that stood before
duplicate_9grams: characters in nine tokens that stood before
duplicate_10grams: characters in ten tokens that stood before
sentences: in lines that C4 keeps
lorem_ipsum: such lines with these words
curly_brackets: such lines with an opening curly bracket
filled_lines: lines that are not blank
punctuated_lines: of these those that end a sentence
short_lines: of these those of at most 30 characters
duplicate_filled_characters: characters in those that stood before
newlines: line breaks
language string: of the beginning, as a code; NULL while its gate is off
language_probability double: of that language; NULL where it is undetermined
own map: values of registered gates, and of conditions that look at the text, by name
"""

_TYPES = {
    "": pa.int64(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.float64()),
    "string": pa.string(),
}


def _field(line: str) -> pa.Field:
    head, says = line.split(": ", 1)
    name, _, kind = head.partition(" ")
    return pa.field(name, _TYPES[kind], metadata={"comment": says})


METRICS = pa.schema([_field(line) for line in _DOCUMENTED.strip().splitlines()])
"""Every metric, with what it says under ``comment`` in its metadata; beside ``row`` in a table."""

_CODE = ("code_lines", "code_indented", "code_symbols", "code_characters", "code_keywords")
_PII = {
    "email": "emails",
    "phone": "phones",
    "ssn": "ssns",
    "ipv4": "addresses",
    "card": "cards",
}

# A threshold, and the metrics that it is compared with.
RULES = {
    "min_characters": ("characters",),
    "max_characters": ("characters",),
    "max_profanity_density": ("profanity", "words"),
    "min_words": ("plain_tokens",),
    "max_words": ("plain_tokens",),
    "min_word_length": ("plain_characters", "plain_tokens"),
    "max_word_length": ("plain_characters", "plain_tokens"),
    "max_hashes": ("hashes", "tokens"),
    "max_ellipses": ("ellipses", "tokens"),
    "max_bullet_lines": ("bullet_lines", "lines"),
    "max_ellipsis_lines": ("ellipsis_lines", "lines"),
    "min_alphabetic_words": ("alphabetic_tokens", "tokens"),
    "min_stop_words": ("stop_words",),
    "max_duplicate_paragraphs": ("duplicate_paragraphs", "paragraphs"),
    "max_duplicate_paragraph_characters": ("duplicate_paragraph_characters", "characters"),
    "max_duplicate_lines": ("duplicate_lines", "pieces"),
    "max_duplicate_line_characters": ("duplicate_line_characters", "characters"),
    **{f"max_top_{n}gram": (f"top_{n}gram", "characters") for n in (2, 3, 4)},
    **{f"max_duplicate_{n}grams": (f"duplicate_{n}grams", "characters") for n in range(5, 11)},
    "min_sentences": ("sentences",),
    "min_punctuated_lines": ("punctuated_lines", "filled_lines"),
    "max_short_lines": ("short_lines", "filled_lines"),
    "max_duplicate_filled_characters": (
        "duplicate_filled_characters",
        "characters",
        "newlines",
    ),
    "max_newlines": ("newlines", "tokens"),
    "min_domain_terms": ("domain_terms",),
    "min_domain_density": ("domain_terms", "words"),
    "min_domain_categories": ("domain_categories",),
    "code_score": (*_CODE, "code_words"),
}


def needed(quality: Quality) -> frozenset[str]:
    """Return the metrics that settings decide by.

    Values of registered gates, and of conditions on the text, are ``own:NAME``.
    """
    names = {
        metric
        for rule, metrics in RULES.items()
        if getattr(quality, rule) is not None
        and (rule != "max_profanity_density" or quality.profanity is not None)
        for metric in metrics
    }
    if quality.pii == "reject" and quality.max_pii_density is not None:
        names |= {"words"} | {_PII[kind] for kind in quality.pii_kinds}
    names |= {"present"} if quality.required else set()
    names |= {"license"} if quality.licenses else set()
    names |= {"copyright"} if quality.copyright else set()
    names |= {"sha256"} if quality.duplicates else set()
    names |= {name for name in ("lorem_ipsum", "curly_brackets") if not getattr(quality, name)}
    names |= {"language", "language_probability"} if quality.language is not None else set()
    names |= {"code_early"} if quality.code_score is not None and quality.code_early_gate else set()
    for condition in quality.conditions:
        names |= condition.metrics
    return frozenset(names)


def measured(quality: Quality) -> dict[str, str]:
    """Return the metrics that ``measure`` takes, with a key of the settings that it takes each by.

    A stored metric serves other settings where these have the same key for it.
    """
    keys = {name: _VERSION for name in METRICS.names if name != "own"}
    keys["copyright"] = _key("copyright", quality.copyright)
    keys |= dict.fromkeys(
        ("domain_terms", "domain_categories"), _key("terms", quality.terms.sha256)
    )
    if quality.profane is None:
        del keys["profanity"]
    else:
        keys["profanity"] = _key("profanity", quality.profane.sha256)
    if quality.language is None:
        del keys["language"], keys["language_probability"]
    else:
        found = detector_of(quality.detector)
        by = (found.name, found.version, quality.language_prefix, quality.min_letters)
        keys |= dict.fromkeys(("language", "language_probability"), _key("language", by))
    for condition in quality.conditions:
        keys |= {f"own:{name}": plugins.gate(name).version for name in condition.gates}
    for condition in quality.conditions:
        if condition.looks:
            reads = sorted((name, keys.get(name)) for name in condition.reads)
            keys[f"own:{condition.text}"] = _key("condition", reads)
    return keys


def _key(what: str, by: object) -> str:
    return hashlib.sha256(json.dumps([_VERSION, what, by]).encode()).hexdigest()[:16]
