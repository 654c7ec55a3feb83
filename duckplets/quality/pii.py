r"""Define patterns of personal data, and replace it in texts."""

# RE2 and Python use one table of patterns, with ASCII digits and words and no look-around, and find
# the same data. So the counted data is the replaced data. Underscores around a word are Markdown's
# emphasis.
#
# - email: ``name@host.domain``, but not ``icon@2x.png`` and ``git@github.com``.
# - phone: ``+`` and 8 to 15 digits with single separators, or ten digits as in North America:
#   ``(212) 555-0123``, ``212-555-0123``, with or without a 1 before it.
# - ssn: ``123-45-6789`` with hyphens or spaces, except numbers that are never issued.
# - ipv4: four numbers below 256, in a public network; but not the number of a version or section:
#   ``version 1.2.3.4``, ``name-1.2.3.4``, ``name>=1.2.3.4``, ``1.2.3.4.zip``.
# - ipv6: an address in a public network, with or without ``::``.
# - iban: a country with the length of its numbers, without spaces or in groups of four, with a
#   correct checksum.
# - card: 13 to 19 digits that begin with 2 to 6, without spaces, in groups of four, or in groups of
#   4, 6 and 5, with a correct check digit (Luhn).

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}(?:\b|_)"
_FILES = (
    "avif|bmp|cjs|css|csv|dll|docx?|exe|gif|gz|heic|html?|ico|jar|jpe?g|json|jsx?|mjs|pdf|png|pptx?|"
    "scss|svg|tgz|tiff?|toml|tsx?|ttf|txt|wav|webm|webp|whl|woff|xlsx?|xml|ya?ml"
)  # no top-level domain is among them
_VERSION = (
    r"(?i:\b(?:v|vers?|versions?|releases?|rev|revisions?|builds?|firmware|sect?|sections?|chapters?"
    r"|clauses?|fig|figures?|tables?|appendix|oid)\b[ .:=*]*|[a-z]-|[=<>~!]= ?)"
)
_OF_FILE = (
    rf"(?i:\.(?:{_FILES}|deb|msi|rpm|tar|zip)|[-+](?:alpha|beta|dev|final|ga|pre|rc|snapshot))"
)
_HEX, _FIRST = "[0-9A-Fa-f]{1,4}", "[23][0-9A-Fa-f]{3}"

# Countries by the length of their numbers, as of the registry of 2025.
_IBANS = {
    15: "NO",
    16: "BE",
    18: "DK|FI|FK|FO|GL|NL|SD",
    19: "MK|SI",
    20: "AT|BA|EE|KZ|LT|LU|MN|XK",
    21: "CH|HR|LI|LV",
    22: "BG|BH|CR|DE|GB|GE|IE|ME|RS|VA",
    23: "AE|GI|IL|IQ|OM|SO|TL",
    24: "AD|CZ|ES|MD|PK|RO|SA|SE|SK|TN|VG",
    25: "LY|PT|ST",
    26: "IS|TR",
    27: "BI|DJ|FR|GR|IT|MC|MR|SM",
    28: "AL|AZ|BY|CY|DO|GT|HN|HU|LB|NI|PL|SV",
    29: "BR|EG|PS|QA|UA",
    30: "JO|KW|MU|YE",
    31: "MT|SC",
    32: "LC",
    33: "RU",
}
_IBAN = "|".join(
    rf"(?:{countries})\d\d(?: ?[A-Z0-9]{{4}}){{{size // 4 - 1}}}"
    + f" ?[A-Z0-9]{{{size % 4}}}" * (size % 4 > 0)
    for size, countries in _IBANS.items()
)

PATTERNS = {
    # contained in a match of each pattern below, except e-mail addresses
    "digits": rf"\d(?:[ .()-]{{0,2}}\d){{6}}|\d\.\d{{1,3}}\.\d{{1,3}}\.\d|{_FIRST}:",
    "email": rf"[A-Za-z0-9][A-Za-z0-9._%+-]*@{_DOMAIN}",
    "no_email": rf"(?i)^git@|\.(?:{_FILES})_?$",
    "phone": (
        r"\+[1-9](?:[ .()-]{0,2}\d){7,14}\b"
        r"|(?:\b1[ .-])?(?:\(\d{3}\) ?|\b\d{3}[ .-])\d{3}[ .-]\d{4}\b"
    ),
    "ssn": (
        r"\b(?:00[1-9]|0[1-9]\d|[1-578]\d\d|6[0-57-9]\d|66[0-57-9])[- ]"
        r"(?:0[1-9]|[1-9]\d)[- ](?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})\b"
    ),
    "number": rf"(?:{_VERSION}|\b)\d+(?:\.\d+)+\b(?:{_OF_FILE})?",
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "reserved": (
        r"^(?:0|10|127|22[4-9]|2[345]\d)\.|^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|^169\.254\."
        r"|^172\.(?:1[6-9]|2\d|3[01])\.|^192\.(?:168|0\.[02])\.|^198\.(?:1[89]|51\.100)\."
        r"|^203\.0\.113\."
    ),
    "groups": r"\b[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]*[0-9A-Fa-f]\b",
    "ipv6": "|".join(
        [rf"{_FIRST}(?::{_HEX}){{7}}"]
        + [rf"{_FIRST}(?::{_HEX}){{{n}}}::{_HEX}(?::{_HEX}){{0,{5 - n}}}" for n in range(6)]
    ),
    "reserved6": (
        r"(?i)^2001:(?::|0{0,2}[0-9a-f]{1,2}:|0?[01][0-9a-f]{2}:|0?db8:)|^2002:|^3fff:0?[0-9a-f]{0,3}:"
    ),
    "iban": rf"\b(?:{_IBAN})\b",
    # contained in each IPv6 address and each IBAN
    "rare": rf"\b[A-Z]{{2}}\d\d ?[A-Z0-9]{{4}}|{_FIRST}:[0-9A-Fa-f:]*:",
    # Emphasis; patterns of numbers treat it like "*", not as part of a word.
    "emphasis": r"\b_+|_+\b",
    "card": r"\b[2-6](?:\d{3}(?:[ -]\d{4}){2}[ -]\d{1,7}|\d{3}[ -]\d{6}[ -]\d{4,5}|\d{12,18})\b",
}

# Kinds with the pattern of their candidates, in the order in which they are replaced.
_CANDIDATES = {
    "iban": "iban",
    "card": "card",
    "email": "email",
    "ipv4": "number",
    "ipv6": "groups",
    "ssn": "ssn",
    "phone": "phone",
}
_MARKS = dict.fromkeys(("ipv4", "ipv6"), "[IP]")
_ANY = {kind: re.compile(PATTERNS[kind], re.ASCII) for kind in PATTERNS}
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9_])_+|(?<=[A-Za-z0-9])_++(?![A-Za-z0-9])")
_HOST, _EMAN = re.compile(_DOMAIN, re.ASCII), re.compile(r"[A-Za-z0-9._%+-]*[A-Za-z0-9]")


def redacted(texts: pa.Array, kinds: Sequence[str]) -> pa.Array:
    """Return texts in which personal data is replaced by its kind: ``[EMAIL]``, ``[PHONE]``, …."""
    plain, changed = texts.cast(pa.string()), dict[int, str]()
    with_digits = _found(plain, "digits")
    numeric = pc.replace_substring_regex(plain.take(with_digits), PATTERNS["emphasis"], "*")
    for kind in (kind for kind in _CANDIDATES if kind in kinds):
        is_email, pattern = kind == "email", _CANDIDATES[kind]
        places = _found(plain, pattern) if is_email else with_digits[_found(numeric, pattern)]
        for place in places.tolist():
            changed[place] = _without(changed.get(place) or plain[place].as_py(), kind)
    is_changed = np.zeros(len(texts), bool)
    is_changed[np.fromiter(changed, np.int64)] = True
    values = pa.array([changed[place] for place in sorted(changed)], texts.type)
    return pc.replace_with_mask(texts, pa.array(is_changed), values)


def _found(texts: pa.Array, name: str) -> Integers:
    """Return the texts in which RE2 finds a pattern."""
    found = pc.fill_null(pc.match_substring_regex(texts, PATTERNS[name]), False)
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def _without(text: str, kind: str) -> str:
    """Replace personal data of a kind in a text."""
    mark = _MARKS.get(kind, f"[{kind.upper()}]")
    pieces, done = [], 0
    for start, stop in _emails(text) if kind == "email" else _numbers(text, kind):
        if _is(kind, text[start:stop]):
            pieces += [text[done:start], mark]
            done = stop
    return "".join(pieces) + text[done:]


def _numbers(text: str, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of candidates of a kind."""
    if "_" in text:
        text = _EMPHASIS.sub(lambda found: "*" * len(found[0]), text)
    for found in _ANY[_CANDIDATES[kind]].finditer(text):
        yield found.span()


def _emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the e-mail addresses that RE2 finds."""
    # The pattern alone takes Python quadratic time over a long run of letters and dots.
    backwards, done = text[::-1], 0
    for found in re.finditer("@", text):
        at = found.start()
        name = _EMAN.match(backwards, len(text) - at, len(text) - done)
        host = _HOST.match(text, at + 1)
        if name and host:
            done = host.end()
            yield len(text) - name.end(), done - (text[done - 1] == "_")


def _is(kind: str, found: str) -> bool:
    """Return whether a candidate is of a kind."""
    if kind == "email":
        return not _ANY["no_email"].search(found)
    if kind == "ipv4":
        return bool(_ANY["ipv4"].fullmatch(found)) and not _ANY["reserved"].match(found)
    if kind == "ipv6":
        return bool(_ANY["ipv6"].fullmatch(found)) and not _ANY["reserved6"].match(found)
    if kind == "iban":
        found = found.replace(" ", "")
        return int("".join(str(int(c, 36)) for c in found[4:] + found[:4])) % 97 == 1
    if kind == "card":
        digits = [int(c) for c in reversed(found) if c.isdigit()]
        doubled = [d * 2 - 9 * (d > 4) for d in digits[1::2]]
        return (sum(digits[::2]) + sum(doubled)) % 10 == 0
    return True
