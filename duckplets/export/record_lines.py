"""Write the records of a corpus as JSON lines, with the metrics of each.

records ─by key, some megabytes→ lines, made by one statement ─→ temporary file ─rename→ FILE

The corpus is the only truth: every export derives the file again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckplets.base.atomic import written_aside
from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError, SourceError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.text.characters import bytes_of

_LOG = logging.getLogger(__name__)
_BLOCK = {"bytes": 8 << 20, "records": 8_192}  # texts converted into lines at a time
_FIELDS = {"source", "record_id", "sha256"}  # keys in the meta of every line


def written(
    database: Database,
    file: str | os.PathLike[str],
    *,
    overwrite: bool,
    argument: str = "path",
    also_empty: bool = True,
) -> int:
    """Write all records except removed ones as lines; return their number."""
    path = checked(file, overwrite=overwrite, argument=argument)
    live = {"unpublished": UNPUBLISHED}
    count = 0
    with database.transaction():  # all blocks see one state of the corpus
        blocks = database.run("export/record_lines/blocks", live | _BLOCK)
        if not (blocks or also_empty):
            return 0
        try:
            with written_aside(path) as stream:
                for low, high in blocks:
                    span = live | {"low": low, "high": high}
                    lines = database.table("export/record_lines/lines", span)["line"]
                    for chunk in lines.chunks:
                        stream.write(bytes_of(chunk)[0].data)
                    count += len(lines)
                checked(file, overwrite=overwrite, argument=argument)  # somebody may have made it
        except OSError as error:
            raise SourceError(
                f"{argument}={shown(repr(os.fspath(file)))}: {error.strerror}; the file was not "
                f"written, and the corpus has all records: repeat the export"
            ) from error
    _LOG.info("wrote %s to %s", counted(count, "line"), shown(path))
    return count


@contextmanager
def exported_at_the_end(database: Database, jsonl: str | os.PathLike[str]) -> Iterator[None]:
    """Write the JSON lines after the block, also after an error or Ctrl-C."""
    checked(jsonl, overwrite=True, argument="jsonl")
    try:
        yield
    except BaseException:
        try:
            written(database, jsonl, overwrite=True, argument="jsonl", also_empty=False)
        except DuckpletsError as error:  # the first error is raised
            _LOG.warning("%s", error)
        raise
    written(database, jsonl, overwrite=True, argument="jsonl")


def checked(file: str | os.PathLike[str], *, overwrite: bool, argument: str) -> Path:
    """Return the real path of a file that can be written."""
    name = os.fspath(file)
    shown_name = f"{argument}={shown(repr(name))}"
    if name in ("", "-") or not name.isprintable():
        raise SourceError(f"{shown_name}: give the path of a file")
    path = Path(os.path.realpath(name))
    if not path.parent.is_dir():
        raise SourceError(f"{shown_name}: there is no folder {shown(path.parent)}; make it first")
    try:
        if not path.exists():
            return path
        if not overwrite:
            raise SourceError(f"{shown_name} exists; give another, or overwrite=True")
        is_replaced = path.is_file() and _is_export(path)
    except OSError as error:
        raise SourceError(f"{shown_name}: {error.strerror}") from error
    if not is_replaced:
        raise SourceError(
            f"{shown_name}: the file is no export of records, so it is not replaced: give another "
            f"{argument}=, or move it away"
        )
    return path


def _is_export(path: Path) -> bool:
    """Return whether a file is empty or starts with a line of an export."""
    with path.open("rb") as file:
        if not (start := file.read(9)):
            return True
        if start != b'{"text":"':
            return False
        try:
            first = json.loads(start + file.readline())
        except (ValueError, RecursionError):
            return False
    meta = first.get("meta")
    return set(first) == {"text", "meta"} and isinstance(meta, dict) and meta.keys() >= _FIELDS
