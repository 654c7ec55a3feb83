r"""Say what personal data looks like, count it, and take it out of texts.

    text ─RE2 in SQL→ candidates ─Luhn, public networks→ counts        text ─the same→ [EMAIL] …

One table of patterns, read alike by RE2, in DuckDB and in Arrow, and by Python: nothing but ASCII
digits and words, no look-around. So what is counted is what is taken out. Texts are searched by
RE2; those alone in which something was found are gone through, in time that grows with the text:
e-mail addresses by RE2, for Python would read a run of letters and dots from each of its places to
the end, and numbers, whose patterns are bounded, in Python.

Underscores around a word are Markdown's emphasis and no part of what they enclose.

- email: ``name@host.domain``.
- phone: ``+`` and 8 to 15 digits with single separators, or ten digits as written in North
  America: ``(212) 555-0123``, ``212-555-0123``, with or without a 1 before it.
- ssn: ``123-45-6789`` with hyphens or spaces, none of the numbers that are never given out.
- ipv4: four numbers below 256 and no more, in a public network.
- card: 13 to 19 digits that begin with 2 to 6, as one, in fours, or in 4, 6 and 5, and whose check
  digit (Luhn) is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

_EMAIL = r"[A-Za-z0-9][A-Za-z0-9._%+-]*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}"

PATTERNS = {
    # contained in each of those below but e-mail addresses
    "digits": r"\d(?:[ .()-]{0,2}\d){6}|\d\.\d{1,3}\.\d{1,3}\.\d",
    "email": rf"{_EMAIL}(\b|_)",
    "phone": (
        r"\+[1-9](?:[ .()-]{0,2}\d){7,14}\b"
        r"|(?:\b1[ .-])?(?:\(\d{3}\) ?|\b\d{3}[ .-])\d{3}[ .-]\d{4}\b"
    ),
    "ssn": (
        r"\b(?:00[1-9]|0[1-9]\d|[1-578]\d\d|6[0-57-9]\d|66[0-57-9])[- ]"
        r"(?:0[1-9]|[1-9]\d)[- ](?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})\b"
    ),
    "number": r"\b\d+(?:\.\d+)+\b",
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "reserved": (
        r"^(?:0|10|127|22[4-9]|2[345]\d)\.|^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|^169\.254\."
        r"|^172\.(?:1[6-9]|2\d|3[01])\.|^192\.(?:168|0\.[02])\.|^198\.(?:1[89]|51\.100)\."
        r"|^203\.0\.113\."
    ),
    # Emphasis; patterns of numbers treat it like "=", not as part of a word.
    "emphasis": r"\b_+|_+\b",
    "card": r"\b[2-6](?:\d{3}(?:[ -]\d{4}){2}[ -]\d{1,7}|\d{3}[ -]\d{6}[ -]\d{4,5}|\d{12,18})\b",
}

_CANDIDATES = ("card", "email", "number", "ssn", "phone")  # replaced in this order
_ANY = {kind: re.compile(PATTERNS[kind], re.ASCII) for kind in PATTERNS}
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9_])_+|(?<=[A-Za-z0-9])_++(?![A-Za-z0-9])")


def redacted(texts: pa.Array, kinds: Sequence[str]) -> pa.Array:
    """Return texts in which personal data is replaced by its kind: ``[EMAIL]``, ``[PHONE]``, …."""
    suspected = _suspected(texts.cast(pa.string()))
    changed = texts.filter(suspected).cast(pa.string())
    for candidate in _CANDIDATES:
        kind = "ipv4" if candidate == "number" else candidate
        if kind == "email" and kind in kinds:
            changed = pc.replace_substring_regex(changed, PATTERNS[kind], r"[EMAIL]\1")
        elif kind in kinds:
            without = [_without(text, candidate, kind) for text in changed.to_pylist()]
            changed = pa.array(without, pa.string())
    return pc.replace_with_mask(texts, suspected, changed.cast(texts.type))


def _suspected(texts: pa.Array) -> pa.Array:
    """Return in which texts something looks like personal data."""
    digits = pc.if_else(pc.match_substring_regex(texts, PATTERNS["digits"]), texts, "")
    numeric = pc.replace_substring_regex(digits, PATTERNS["emphasis"], "=")
    found = pc.match_substring_regex(texts, PATTERNS["email"])
    for candidate in ("phone", "ssn", "number", "card"):
        found = pc.or_(found, pc.match_substring_regex(numeric, PATTERNS[candidate]))
    return pc.fill_null(found, False)


def _without(text: str, candidate: str, kind: str) -> str:
    """Replace the numbers of a kind in a text."""
    mark = "[IP]" if kind == "ipv4" else f"[{kind.upper()}]"
    plain, pieces, done = text, [], 0
    if "_" in text:
        plain = _EMPHASIS.sub(lambda found: "=" * len(found[0]), text)
    for found in _ANY[candidate].finditer(plain):
        if _is(kind, found[0]):
            pieces += [text[done : found.start()], mark]
            done = found.end()
    return "".join(pieces) + text[done:]


def _is(kind: str, found: str) -> bool:
    """Return whether a candidate is of a kind."""
    if kind == "ipv4":
        return bool(_ANY["ipv4"].fullmatch(found)) and not _ANY["reserved"].match(found)
    if kind == "card":
        digits = [int(c) for c in reversed(found) if c.isdigit()]
        doubled = [d * 2 - 9 * (d > 4) for d in digits[1::2]]
        return (sum(digits[::2]) + sum(doubled)) % 10 == 0
    return True
