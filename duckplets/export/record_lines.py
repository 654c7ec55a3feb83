"""Write the records of a corpus as JSON lines, with why each was kept.

records ─by key, some megabytes→ lines, made by one statement ─→ temporary file ─rename→ FILE

The corpus is the only truth: the file is derived and written anew whenever it is wanted.
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
_BLOCK = {"bytes": 8 << 20, "records": 8_192}  # bytes of texts turned into lines at a time
_FIELDS = {"source", "record_id", "sha256"}  # keys that the meta of every line has


def written(
    database: Database,
    given: str | os.PathLike[str],
    *,
    overwrite: bool,
    argument: str = "path",
    also_empty: bool = True,
) -> int:
    """Write all records but removed ones as lines; return how many."""
    path = checked(given, overwrite=overwrite, argument=argument)
    live = {"unpublished": UNPUBLISHED}
    count = 0
    with database.transaction():  # all blocks are of one moment
        blocks = database.run("export/record_lines/blocks", live | _BLOCK)
        if not (blocks or also_empty):
            return 0
        try:
            with written_aside(path) as file:
                for low, high in blocks:
                    span = live | {"low": low, "high": high}
                    lines = database.table("export/record_lines/lines", span)["line"]
                    for chunk in lines.chunks:
                        file.write(bytes_of(chunk)[0].data)
                    count += len(lines)
                checked(given, overwrite=overwrite, argument=argument)  # written meanwhile
        except OSError as error:
            raise SourceError(
                f"{argument}={shown(repr(os.fspath(given)))}: {error.strerror}. Nothing was "
                f"written there; all records are in the corpus, so the same again writes them"
            ) from error
    _LOG.info("wrote %s to %s", counted(count, "line"), shown(path))
    return count


@contextmanager
def exported_at_the_end(database: Database, jsonl: str | os.PathLike[str] | None) -> Iterator[None]:
    """Write the JSON lines after the block, also after an error or Ctrl-C."""
    if jsonl is None:
        yield
        return
    checked(jsonl, overwrite=True, argument="jsonl")
    try:
        yield
    except BaseException:
        try:
            written(database, jsonl, overwrite=True, argument="jsonl", also_empty=False)
        except DuckpletsError as error:  # the first error is the one to be told
            _LOG.warning("%s", error)
        raise
    written(database, jsonl, overwrite=True, argument="jsonl")


def checked(given: str | os.PathLike[str], *, overwrite: bool, argument: str) -> Path:
    """Return the real path of a file that can be written."""
    name = os.fspath(given)
    what = f"{argument}={shown(repr(name))}"
    if name in ("", "-") or not name.isprintable():
        raise SourceError(f"{what}: give the path of a file")
    path = Path(os.path.realpath(name))
    if not path.parent.is_dir():
        raise SourceError(f"{what}: there is no folder {shown(path.parent)}; make it first")
    try:
        if not path.exists():
            return path
        if not overwrite:
            raise SourceError(f"{what} exists already; give another, or overwrite=True")
        is_replaced = path.is_file() and _is_export(path)
    except OSError as error:
        raise SourceError(f"{what}: {error.strerror}") from error
    if not is_replaced:
        raise SourceError(
            f"{what}: what is there was not written by such an export, so it stays as it is: give "
            f"another {argument}=, or move it away"
        )
    return path


def _is_export(path: Path) -> bool:
    """Return whether a file is empty or begins with a line as they are written here."""
    with path.open("rb") as file:
        if not (begin := file.read(9)):
            return True
        if begin != b'{"text":"':
            return False
        try:
            first = json.loads(begin + file.readline())
        except (ValueError, RecursionError):
            return False
    meta = first.get("meta")
    return set(first) == {"text", "meta"} and isinstance(meta, dict) and meta.keys() >= _FIELDS
