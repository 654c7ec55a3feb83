"""Name the metrics stored for every text, with types and meanings; a star marks page metrics."""

# Metrics are integers. Shares are computed when rows are decided, the same on every machine.

from __future__ import annotations

import pyarrow as pa

_DOCUMENTED = """
sha256 binary: of the text
bytes: of the text in UTF-8
* characters: of the text
* words: between white space; letters of scripts without spaces by weight, as tokens of chunks
* lines: of the text; an empty one after the last line break does not count
present list: names of the fields of a row that are not blank, for ``required``
license string: of the row
emails: e-mail addresses
phones: telephone numbers
ssns: social security numbers
addresses: public IPv4 addresses
ipv6_addresses: public IPv6 addresses
ibans: international numbers of bank accounts with a right checksum
cards: numbers of cards with a right check digit
profanity: words and phrases of the list; NULL without one
copyright: how many of the phrases occur
domain_terms: terms of the vocabulary
domain_categories: categories that these are of
code_lines: lines that are not blank at the beginning, in the first 8,192 characters
code_indented: such lines that begin with a tab or two spaces
code_symbols: brackets and operators there
code_characters: characters that are not white space there
code_keywords: keywords of programming languages there
code_words: words there
code_early bool: whether the first 256 characters have an indented line and a symbol
* tokens: words and marks
plain_tokens: tokens that are not marks
plain_characters: characters of plain tokens; a letter that is a word counts as five
* alphabetic_tokens: tokens with a letter
* stop_words: how many different stop words occur
hashes: number signs
ellipses: three dots, and the character for them
bullet_lines: lines that begin with a bullet
ellipsis_lines: lines that end with an ellipsis
paragraphs: parts between blank lines
duplicate_paragraphs: paragraphs that occurred before
duplicate_paragraph_characters: characters in such paragraphs
pieces: text between line breaks, with empty pieces at both ends
* duplicate_lines: pieces that occurred before
duplicate_line_characters: characters in such pieces
top_2gram: characters in the most frequent two tokens
top_3gram: characters in the most frequent three tokens
top_4gram: characters in the most frequent four tokens
duplicate_5grams: characters in five tokens that occurred before
duplicate_6grams: characters in six tokens that occurred before
duplicate_7grams: characters in seven tokens that occurred before
duplicate_8grams: characters in eight tokens that occurred before
duplicate_9grams: characters in nine tokens that occurred before
duplicate_10grams: characters in ten tokens that occurred before
* sentences: in lines that C4 keeps
lorem_ipsum: such lines with these words
curly_brackets: such lines with an opening curly bracket
filled_lines: lines that are not blank
punctuated_lines: filled lines that end a sentence
short_lines: filled lines of at most 30 characters
duplicate_filled_characters: characters in filled lines that occurred before
newlines: line breaks
language string: of the beginning, as a code; NULL while its gate is off
language_probability double: of that language; NULL where it is undetermined
own map: values of registered gates, and of conditions on the text, by name
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
    head, meaning = line.removeprefix("* ").split(": ", 1)
    name, _, kind = head.partition(" ")
    return pa.field(name, _TYPES[kind], metadata={"comment": meaning, "page": line[0]})


METRICS = pa.schema([_field(line) for line in _DOCUMENTED.strip().splitlines()])
"""Every metric, with its meaning under ``comment`` in its metadata. A table also has ``row``."""
ON_PAGE = {
    metric.name: metric.metadata[b"comment"].decode()
    for metric in METRICS
    if metric.metadata[b"page"] == b"*"
}


def whole(metrics: pa.Table) -> pa.Table:
    """Return a table of metrics with null columns for those it lacks."""
    names, count = metrics.column_names, metrics.num_rows
    for field in METRICS:
        if field.name not in names:
            metrics = metrics.append_column(field, pa.nulls(count, field.type))
    return metrics.combine_chunks()
