"""Write to a temporary file and rename: readers see the old file or the whole new one.

The temporary file of ``NAME.SUFFIX`` is ``.NAME.PID-THREAD.new.SUFFIX`` in the same folder. If its
process is killed, the next writer of that path removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_STEM = 20  # characters of the name; file systems allow 255 bytes
_NUMBERED = re.compile(r"\.\d+[-.]")  # part of every temporary name


def aside_of(path: Path, kind: str = "new") -> Path:
    """Return this thread's temporary path for a path, or with ``kind="old"`` its backup path."""
    mark = f"{os.getpid()}-{threading.get_ident()}.{kind}"
    return path.with_name(f".{path.stem[:_STEM]}.{mark}{path.suffix[:_STEM]}")


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Add the name of a file to errors of writing: the system names it for opening only."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its final name once it is complete and on disk."""
    sweep(path)
    aside = aside_of(path)
    try:
        with naming(path), aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        with suppress(OSError):
            aside.unlink()


def sweep(path: Path, also: str = "(?!)") -> None:
    """Remove temporary files of dead processes for a path."""
    with suppress(OSError), os.scandir(path.parent) as entries:
        numbered = [entry for entry in entries if _NUMBERED.search(entry.name)]
        if not numbered:  # compiling an expression for every path takes 3 ms
            return
        stem, suffix = re.escape(path.stem[:_STEM]), re.escape(path.suffix[:_STEM])
        temporary = re.compile(rf"\.{stem}\.(\d+)-\d+\.(?:new|old){suffix}(?:\.wal)?|{also}")
        for entry in numbered:
            found = temporary.fullmatch(entry.name)
            if found and not _is_alive(int(found[1] or found["process"])):
                remove(Path(entry.path))


def remove(path: Path) -> None:
    """Remove a file or a folder tree, if it exists and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # the process belongs to another user
        return True
    try:  # a zombie, until its parent waits for it
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[0] not in ("Z", "X")
