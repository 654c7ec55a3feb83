"""List the file formats and their readers. Add a new format here.

The command line and the readers load this module first.
"""

from __future__ import annotations

from typing import NamedTuple

STDIN = "-"
TEXT = "text"
HUB = "hub"
HUB_MARK = "hf://"
DATA_SETS = (".yaml", ".yml", ".toml")
"""Suffixes of files that describe data sets."""


class Format(NamedTuple):
    """A format: its reader as ``module:class`` in ``duckplets.sources``, suffixes, arguments."""

    reader: str
    suffixes: tuple[str, ...]
    arguments: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


READERS = {  # a Hub data set with several copies is read in the first of these formats
    "parquet": Format("formats.columnar:ParquetSource", (".parquet",)),
    "arrow": Format("formats.columnar:ArrowSource", (".arrow", ".ipc", ".feather")),
    "jsonl": Format("formats.json_file:JsonSource", (".jsonl", ".ndjson")),
    "json": Format("formats.json_file:JsonSource", (".json",)),
    "tsv": Format("formats.csv_file:CsvSource", (), {"delimiter": "\t"}),
    "csv": Format("formats.csv_file:CsvSource", (".csv", ".tsv", ".tab")),
    TEXT: Format(
        "formats.text_file:TextFileSource",
        (".txt", ".text", ".md", ".markdown", ".rst", ".adoc", ".org", ".tex"),
    ),
}
ALIASES = {"ndjson": "jsonl", "ipc": "arrow", "feather": "arrow"}
FORMATS = (*(name for name in reversed(READERS) if name != TEXT), *ALIASES, TEXT)
OF_SUFFIX = {suffix: name for name, format_ in READERS.items() for suffix in format_.suffixes}
