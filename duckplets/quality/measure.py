"""Measure texts: regular expressions in SQL, tokens and n-grams in NumPy, language in Python."""

# Every metric that needs no extra package is measured: thresholds may change without the texts.

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Bytes, Integers, stretches
from duckplets.base.columns import whole
from duckplets.db.database import Database
from duckplets.quality import lines, plugins, tokens
from duckplets.quality.conditions import is_true
from duckplets.quality.language import detector_of, languages
from duckplets.quality.metrics import METRICS
from duckplets.quality.pii import PATTERNS
from duckplets.quality.settings import Quality
from duckplets.quality.texts import digests_of
from duckplets.quality.words import WordFile
from duckplets.text.characters import bytes_of
from duckplets.text.words import PAIRED

_VERSION = "1"  # change it whenever a metric changes

_SAMPLE, _EARLY = 8192, 256  # characters searched for code
_MORSEL, _MORSEL_BYTES = 256, 1 << 20  # texts a DuckDB thread takes at a time
_LARGE = 4 << 20  # bytes of a text above which it is cut into pieces of a morsel
_LINE_BREAK = re.compile(rb"(?<=[^\n])\n(?=[^\n])")
_BETWEEN_WORDS = re.compile(rb"(?<=[A-Za-z]) (?=[A-Za-z])")

_KEYWORDS = (
    "abstract assert async await bool boolean break case catch char class const continue def "
    "default defer del delete double elif else elsif end endif enum except export extends extern "
    "false final finally float fn for foreach from func function global goto if impl implements "
    "import include inline instanceof int interface lambda let local long match module mut "
    "namespace new nil None null nullptr override package pass private protected pub public raise "
    "return self short signed sizeof static str string struct super switch template then this "
    "throw throws trait True true try typedef typename typeof union unsigned use using var virtual "
    "void volatile where while with yield False"
)
# frequent English words without meaning of their own
_ENGLISH = "for if end with from this then use where or and not in is long short local new case"
KEYWORD = r"\b(?:" + "|".join(sorted(set(_KEYWORDS.split()) - set(_ENGLISH.split()))) + r")\b"

_LINE_WORDS, _LONGEST_WORD, _SHORT_LINE = 3, 1000, 30
_POLICIES = (
    "terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"  # C4's
)
_ABBREVIATIONS = (
    "mr|mrs|ms|dr|prof|st|jr|sr|gen|col|sgt|rev|hon|inc|ltd|co|corp|vs|etc|no|vol|fig|approx|jan|"
    "feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|[a-z]|[a-z]\\.[a-z]"
)
# sentence terminators of Unicode, without the ellipsis
_TERMINAL = (
    r"!.?\x{589}\x{61d}-\x{61f}\x{6d4}\x{700}-\x{702}\x{7f9}\x{837}\x{839}\x{83d}\x{83e}"
    r"\x{964}\x{965}\x{104a}\x{104b}\x{1362}\x{1367}\x{1368}\x{166e}\x{1735}\x{1736}"
    r"\x{17d4}-\x{17d6}\x{17d9}\x{17da}\x{1803}\x{1809}\x{1944}\x{1945}\x{1aa8}-\x{1aab}"
    r"\x{1b5a}\x{1b5b}\x{1b5e}\x{1b5f}\x{1b7d}\x{1b7e}\x{1c3b}\x{1c3c}\x{1c7e}\x{1c7f}"
    r"\x{203c}\x{203d}\x{2047}-\x{2049}\x{2e2e}\x{2e3c}\x{2e53}\x{2e54}\x{3002}\x{a4ff}"
    r"\x{a60e}\x{a60f}\x{a6f3}\x{a6f7}\x{a876}\x{a877}\x{a8ce}\x{a8cf}\x{a92f}\x{a9c8}\x{a9c9}"
    r"\x{aa5d}-\x{aa5f}\x{aaf0}\x{aaf1}\x{abeb}\x{fe52}\x{fe56}\x{fe57}\x{ff01}\x{ff0e}"
    r"\x{ff1f}\x{ff61}"
)

_STOP = "[。！？｡]+[”’」』）]*"  # of a sentence that no white space follows

_LINES = {
    "solid": rf"[^{lines.BLANKS}]",
    "ended": rf"(?:[.?!\"']|{_STOP})\s*$",
    "cut": r"\.\.\.\s*$",
    "least_words": rf"^\s*(?:\S+\s+){{{_LINE_WORDS - 1}}}\S"
    rf"|[{PAIRED}](?:[^{PAIRED}]*[{PAIRED}]){{{_LINE_WORDS - 1}}}",
    "longest_word": _LONGEST_WORD,
    "citation": r"\[\d*\]|\[edit\]|\[citation needed\]",
    "policy": _POLICIES,
    "boundary": rf"[.!?]+[\"'”’)\]]*\s|{_STOP}[^\x01。！？｡”’」』）]",
    "abbreviation": rf"\b(?:{_ABBREVIATIONS})\.\s",
    "end_of_sentence": f"[{_TERMINAL}]$",
    "short_line": _SHORT_LINE,
}


def ready(quality: Quality) -> None:
    """Check before reading that the packages and functions of the settings exist."""
    if quality.language is not None:
        detector_of(quality.detector)
    for condition in quality.conditions:
        for name in condition.gates:
            plugins.gate(name)


def measured(quality: Quality) -> dict[str, str]:
    """Return the metrics that ``measure`` computes, each with a key of the settings it needs."""
    # Settings with the same key reuse a stored metric.
    keys = {name: _VERSION for name in METRICS.names if name != "own"}
    keys["copyright"] = _key("copyright", quality.copyright)
    terms = _key("terms", quality.terms.sha256)
    keys |= {"domain_terms": terms, "domain_categories": terms}
    if quality.profane is None:
        del keys["profanity"]
    else:
        keys["profanity"] = _key("profanity", quality.profane.sha256)
    if quality.language is None:
        del keys["language"], keys["language_probability"]
    else:
        found = detector_of(quality.detector)
        by = (found.name, found.version, quality.language_prefix, quality.min_letters)
        keys["language"] = keys["language_probability"] = _key("language", by)
    for condition in quality.conditions:
        keys |= {f"own:{name}": plugins.gate(name).version for name in condition.gates}
    for condition in quality.conditions:
        if condition.needs_text:
            reads = sorted((name, keys.get(name)) for name in condition.reads)
            keys[f"own:{condition.text}"] = _key("condition", reads)
    return keys


def _key(metric: str, settings: object) -> str:
    return hashlib.sha256(json.dumps([_VERSION, metric, settings]).encode()).hexdigest()[:16]


def measure(database: Database, rows: pa.Table, quality: Quality) -> pa.Table:
    """Return ``row`` and the columns of ``METRICS`` for each text, in order."""
    # Language is null while its gate is off, and profanity without a word file.
    texts = whole(rows["text"]).cast(pa.string())
    count = len(texts)
    found: dict[str, Any] = {"row": whole(rows["row"]).cast(pa.int64())}
    found |= {n: whole(rows[n]) for n in ("license", "present") if n in rows.column_names}
    if count:
        found["sha256"], found["bytes"] = digests_of(texts)
        with ThreadPoolExecutor(1, "duckplets-quality") as pool:
            counted = pool.submit(lambda: tokens.counts(texts, _SAMPLE) | lines.counts(texts))
            if pc.max(found["bytes"]).as_py() > _LARGE:  # one after the other, to use less memory
                counted.result()
                pa.default_memory_pool().release_unused()
            found |= _by_sql(database, texts, quality) | counted.result()
        found["code_early"] = _early(texts)
        if quality.language is not None:
            by = (quality.detector, quality.language_prefix, quality.min_letters)
            found["language"], found["language_probability"] = languages(texts, *by)
    fields = [field for field in METRICS if field.name != "own"]
    columns = [found.get(field.name, pa.nulls(count)) for field in fields]
    cast = [pa.array(c).cast(f.type) for c, f in zip(columns, fields, strict=True)]
    table = pa.table([found["row"], *cast], names=["row", *(field.name for field in fields)])
    return table.append_column("own", _own_values(database, table, texts, quality))


# -- SQL ------------------------------------------------------------------------------------------


def _by_sql(database: Database, texts: pa.Array, quality: Quality) -> dict[str, Any]:
    phrases = [phrase.lower() for phrase in quality.copyright]
    parameters = {**PATTERNS, "keyword": KEYWORD, "phrases": phrases, "sample": _SAMPLE}
    pieces, owners = _pieces(texts)
    with database.registered(quality_texts=_morsels(pieces)):
        found = database.table("quality/measure/texts", parameters)
        columns = _placed(found, len(pieces))
        columns |= _placed(database.table("quality/measure/lines", _LINES), len(pieces))
    if len(pieces) > len(texts):
        columns = _whole(columns, texts, owners, phrases)
        pa.default_memory_pool().release_unused()
    with database.registered(quality_texts=_morsels(texts)):
        columns |= _placed(_terms(database, quality.terms), len(texts))
        if quality.profane is not None:
            found = database.table("quality/measure/profanity", _profane(quality.profane))
            columns |= _placed(found, len(texts))
    return columns


def _morsels(texts: pa.Array) -> pa.Table:
    """Return texts with their places, in batches for DuckDB's threads."""
    table = pa.table({"place": np.arange(len(texts)), "text": texts})
    sizes = pc.binary_length(texts).to_numpy()
    parts = (
        table.slice(part.start, part.stop - part.start)
        for part in stretches(sizes, rows=_MORSEL, total=_MORSEL_BYTES)
    )
    return pa.Table.from_batches([batch for part in parts for batch in part.to_batches()])


def _pieces(texts: pa.Array) -> tuple[pa.Array | pa.ChunkedArray, Integers]:
    """Cut large texts at line breaks: SQL over lines needs many times their memory."""
    # A megabyte without a line break is cut between words. C4 then counts its last piece only.
    large = pc.greater(pc.binary_length(texts), _LARGE).to_numpy(zero_copy_only=False)
    if not large.any():
        return texts, np.arange(len(texts))
    data, bounds = bytes_of(texts)
    found, counts, at = [], np.ones(len(texts), np.int64), 0
    for owner in np.flatnonzero(large).tolist():
        start, end = bounds[owner : owner + 2]
        parts = [_text_of(part) for part in _cut(data[start:end])]
        found += [texts.slice(at, owner - at), *parts]
        counts[owner], at = len(parts), owner + 1
    pieces = pa.chunked_array([*found, texts.slice(at)], pa.string())
    return pieces, np.repeat(np.arange(len(texts)), counts)


def _text_of(data: Bytes) -> pa.Array:
    """Return bytes as one text, without a copy."""
    bounds = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, bounds, pa.py_buffer(data)])


def _cut(data: Bytes) -> Iterator[Bytes]:
    start = 0
    while start + 2 * _MORSEL_BYTES < len(data):
        span = start + _MORSEL_BYTES, start + 2 * _MORSEL_BYTES
        if at := _LINE_BREAK.search(data.data, *span):
            yield data[start : at.start()]
            start = at.end()
        else:
            at = _BETWEEN_WORDS.search(data.data, *span)
            end = at.end() if at else span[1]
            while data[end] & 0xC0 == 0x80:  # within a character
                end -= 1
            yield data[start:end]
            start = end
    yield data[start:]


def _whole(
    pieces: dict[str, pa.Array], texts: pa.Array, owners: Integers, phrases: Sequence[str]
) -> dict[str, Any]:
    """Return counts of texts from the counts of their pieces: sums, except for a few metrics."""
    first = np.searchsorted(owners, np.arange(len(texts)))
    number = np.diff(first, append=len(owners))
    counts = {name: values.cast(pa.int64()).to_numpy() for name, values in pieces.items()}
    columns = {name: np.add.reduceat(values, first) for name, values in counts.items()}
    for name in ("code_lines", "code_indented", "code_keywords"):  # of the first piece
        columns[name] = counts[name][first]
    data, bounds = bytes_of(texts)
    columns["characters"] = pc.utf8_length(texts).to_numpy()
    for at in np.flatnonzero(number > 1).tolist():
        columns["copyright"][at] = _phrases_in(data[bounds[at] : bounds[at + 1]], phrases)
    return {name: pa.array(values) for name, values in columns.items()}


def _phrases_in(data: Bytes, phrases: Sequence[str]) -> int:
    """Return how many phrases a large text has."""
    overlap = 8 * max(map(len, phrases), default=0)  # bytes: a phrase may cross the end of a part
    missing = list(phrases)
    for start in range(0, len(data), _MORSEL_BYTES):
        part = data[start : start + _MORSEL_BYTES + overlap].tobytes().decode(errors="ignore")
        folded = part.lower()
        missing = [phrase for phrase in missing if phrase not in folded]
    return len(phrases) - len(missing)


def _placed(found: pa.Table, count: int) -> dict[str, Any]:
    """Return columns in order of places, with 0 for missing places."""
    if found.num_rows == count:
        found = found.take(pc.sort_indices(found["place"]))
        return {name: whole(found[name]) for name in found.column_names if name != "place"}
    place, columns = found["place"].to_numpy(), {}
    for name in found.column_names[1:]:
        values = np.zeros(count, np.int64)
        values[place] = found[name].to_numpy()
        columns[name] = pa.array(values)
    return columns


def _terms(database: Database, words: WordFile) -> pa.Table:
    category, term = zip(*words.terms, strict=True)
    # longest first: a regular expression takes the first alternative that matches
    ordered = sorted(set(term), key=lambda t: (-len(t), t))
    pattern = r"\b(?:" + "|".join(_flexible(term) for term in ordered) + r")\b"
    with database.registered(quality_terms=pa.table({"category": category, "term": term})):
        return database.table("quality/measure/terms", {"terms": pattern})


def _flexible(phrase: str) -> str:
    return r"\s+".join(map(re.escape, phrase.split()))


def _profane(words: WordFile) -> dict[str, Any]:
    nothing = r"[^\s\S]"  # matches nothing
    found = [term for _, term in words.terms]
    single = "|".join(re.escape(word) for word in found if " " not in word)
    several = "|".join(_flexible(phrase) for phrase in found if " " in phrase)
    return {
        # a word is surrounded by non-letters
        "words": rf"[^\pL\pN]*(?:{single or nothing})(?:['’]s)?[^\pL\pN]*",
        "phrases": rf"\b(?:{several})\b" if several else nothing,
        "longest": 300,
        "separators": r"[-/,;:.…_&()\"“”]+",
    }


# -- code and registered gates --------------------------------------------------------------------


def _early(texts: pa.Array) -> pa.Array:
    """Return whether the beginning of texts has an indented line and a symbol, as code has."""
    begin = pc.utf8_slice_codeunits(texts, 0, _EARLY)
    indented = pc.match_substring_regex(begin, r"(?:^|\n)(?:\t| {2,})[ \t]*\S")
    return pc.and_(indented, pc.match_substring_regex(begin, r"[{}()\[\];=<>]"))


def _own_values(
    database: Database, metrics: pa.Table, texts: pa.Array, quality: Quality
) -> pa.Array:
    """Return the values of registered gates for each row, as a map."""
    values: dict[str, Sequence[float]] = {}
    by_name = {condition.text for condition in quality.conditions if condition.is_gate_name}
    for name in sorted({name for c in quality.conditions for name in c.gates}):
        values[name] = plugins.judged(name, texts.to_pylist(), only_bools=name in by_name)
    on_text = [condition for condition in quality.conditions if condition.needs_text]
    if on_text and len(texts):
        table = metrics.append_column("text", texts).append_column("own", _maps(values, len(texts)))
        values |= {c.text: is_true(database, c, table).astype(float).tolist() for c in on_text}
    return _maps(values, len(texts))


def _maps(values: dict[str, Sequence[float]], count: int) -> pa.Array:
    kind = METRICS.field("own").type
    names = sorted(values)
    rows = zip(*(values[name] for name in names), strict=True) if names else [()] * count
    return pa.array([list(zip(names, row, strict=True)) for row in rows], kind)
