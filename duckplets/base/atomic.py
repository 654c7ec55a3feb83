"""Write aside and rename: whoever looks sees the old file or the whole new one.

What is on its way to ``NAME.SUFFIX`` lies beside it as ``.NAME.PID-THREAD.new.SUFFIX``. A process
that is killed leaves it behind, and the next one that writes there removes it.
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

_STEM = 20  # characters of a name, which may have 255 bytes in all
_NUMBERED = re.compile(r"\.\d+[-.]")  # as every name that is left behind


def aside_of(path: Path, kind: str = "new") -> Path:
    """Return where this thread puts what is on its way to a path, or ``old`` away from it."""
    mark = f"{os.getpid()}-{threading.get_ident()}.{kind}"
    return path.with_name(f".{path.stem[:_STEM]}.{mark}{path.suffix[:_STEM]}")


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Open a file that has its name only when it is whole and on the disk."""
    sweep(path)
    aside = aside_of(path)
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        with suppress(OSError):
            aside.unlink()


def sweep(path: Path, also: str = "(?!)") -> None:
    """Remove what dead processes left on its way to a path.

    Args:
        path: Of a file or a folder.
        also: A regular expression of other names beside it to remove; the number of the process
            is its group ``process``, between dots.
    """
    with suppress(OSError), os.scandir(path.parent) as entries:
        numbered = [entry for entry in entries if _NUMBERED.search(entry.name)]
        if not numbered:  # an expression of its own for every path takes 3 ms to compile
            return
        stem, suffix = re.escape(path.stem[:_STEM]), re.escape(path.suffix[:_STEM])
        left = re.compile(rf"\.{stem}\.(\d+)-\d+\.(?:new|old){suffix}(?:\.wal)?|{also}")
        for entry in numbered:
            found = left.fullmatch(entry.name)
            if found and not _is_alive(int(found[1] or found["process"])):
                remove(Path(entry.path))


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, if it is there and can be."""
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
    except OSError:  # it is somebody else's
        return True
    try:  # Linux keeps one that has ended until its parent asks
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[0] not in ("Z", "X")
