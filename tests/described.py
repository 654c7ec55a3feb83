"""Files of sources, and rare settings of an ingest, written from flat keys by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import duckplets as dp
from duckplets.records.sources_file import _COLUMNS, _GATES

_RARE = [field.name for field in fields(dp.IngestOptions)]


def sources_file(path: Path | str, tables: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write a YAML file of sources by name, each with flat keys."""
    found = []
    for name, table in tables.items():
        rest = {key: of for key, of in table.items() if key not in (*_COLUMNS, *_GATES)}
        for nested, keys in (("columns", _COLUMNS), ("gates", _GATES)):
            if inside := {key: table[key] for key in keys if key in table}:
                rest[nested] = inside
        found.append({"name": name, **rest})
    Path(path).write_text(json.dumps({"version": 1, "source": found}, default=str))
    return Path(path)


def ingested(corpus: dp.Corpus, source: Any, **given: Any) -> Any:
    """Ingest with rare settings among the arguments."""
    rare = {name: given.pop(name) for name in _RARE if name in given}
    options = given.pop("options", dp.IngestOptions())
    return corpus.ingest(source, **given, options=replace(options, **rare))
