"""Name the formats of files that sources read; the command line does so before it loads any."""

from __future__ import annotations

STDIN = "-"
TEXT = "text"
HUB = "hub"
HUB_MARK = "hf://"
DATA_SETS = (".yaml", ".yml", ".toml")
"""Suffixes of files that describe data sets."""
FORMATS = ("csv", "tsv", "json", "jsonl", "ndjson", "parquet", "arrow", "ipc", "feather", TEXT)
ALIASES = {"ndjson": "jsonl", "ipc": "arrow", "feather": "arrow"}
