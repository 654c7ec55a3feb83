r"""Say what personal data looks like, count it, and take it out of texts.

    text ─RE2 in SQL→ candidates ─Luhn, public networks→ counts        text ─the same→ [EMAIL] …

One table of patterns, read alike by DuckDB's RE2 and by Python: nothing
but ASCII digits and words, no look-around. So what is counted is what is taken out. Texts are
searched in SQL; Python goes through those alone in which something was found, in time that grows
with the text: patterns of numbers are bounded, and addresses are found from their ``@``, for
Python would read a run of letters and dots from each of its places to the end.

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
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

_LOCAL = r"A-Za-z0-9._%+-"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}"

PATTERNS = {
    # contained in each of those below but e-mail addresses
    "digits": r"\d(?:[ .()-]{0,2}\d){6}|\d\.\d{1,3}\.\d{1,3}\.\d",
    "email": rf"[A-Za-z0-9][{_LOCAL}]*@{_DOMAIN}(?:\b|_)",
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
_AT, _FIRST = re.compile("@"), re.compile("[A-Za-z0-9]")
_BEFORE, _AFTER = re.compile(f"[{_LOCAL}]*"), re.compile(f"{_DOMAIN}(?![A-Za-z0-9])")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9_])_+|(?<=[A-Za-z0-9])_++(?![A-Za-z0-9])")


def redacted(database: Database, texts: pa.Array, kinds: Sequence[str]) -> pa.Array:
    """Return texts in which personal data is replaced by its kind: ``[EMAIL]``, ``[PHONE]``, …."""
    place = pa.array(range(len(texts)), pa.int64())
    table = pa.table({"place": place, "text": texts.cast(pa.string())})
    with database.registered(quality_texts=table):
        given = {f"of_{kind}": PATTERNS[kind] for kind in (*_CANDIDATES, "emphasis")}
        found = database.table("quality/redact/candidates", given)
    at = pc.sort_indices(found["place"])
    places = found["place"].take(at).to_pylist()
    if not places:
        return texts
    changed = [_redact(text, kinds) for text in found["text"].take(at).to_pylist()]
    mask = pc.is_in(place, value_set=pa.array(places, pa.int64()))
    return pc.replace_with_mask(texts, mask, pa.array(changed, texts.type))


def _redact(text: str, kinds: Sequence[str]) -> str:
    for candidate in _CANDIDATES:
        kind = "ipv4" if candidate == "number" else candidate
        if kind in kinds:
            spans = _emails(text) if kind == "email" else _numbers(text, candidate, kind)
            text = _marked(text, spans, "[IP]" if kind == "ipv4" else f"[{kind.upper()}]")
    return text


def _marked(text: str, spans: Iterable[tuple[int, int]], mark: str) -> str:
    """Replace spans of a text by a mark."""
    pieces, done = [], 0
    for start, end in spans:
        pieces += [text[done:start], mark]
        done = end
    return "".join(pieces) + text[done:]


def _emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of addresses, looking back from each ``@`` no further than needed."""
    backwards, done = text[::-1], 0
    for found in _AT.finditer(text):
        at = found.start()
        before = _BEFORE.match(backwards, len(text) - at, len(text) - done)
        first = before and _FIRST.search(text, at - len(before[0]), at)
        domain = first and _AFTER.match(text, at + 1)
        if first and domain:
            done = domain.end()
            yield first.start(), done


def _numbers(text: str, candidate: str, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of numbers of a kind."""
    if "_" in text:
        text = _EMPHASIS.sub(lambda found: "=" * len(found[0]), text)
    for found in _ANY[candidate].finditer(text):
        if _is(kind, found[0]):
            yield found.span()


def _is(kind: str, found: str) -> bool:
    """Return whether a candidate is of a kind."""
    if kind == "ipv4":
        return bool(_ANY["ipv4"].fullmatch(found)) and not _ANY["reserved"].match(found)
    if kind == "card":
        digits = [int(c) for c in reversed(found) if c.isdigit()]
        doubled = [d * 2 - 9 * (d > 4) for d in digits[1::2]]
        return (sum(digits[::2]) + sum(doubled)) % 10 == 0
    return True
