"""Find out whether DuckDB survives reading a file, in a process that may die of it.

DuckDB trusts what its blocks say. Where one block stands in the place of another, as after a copy
that went wrong, reading may end the process: 30 of 300 damaged state files did so. No exception
tells of that, so another process reads all there is first.

Run as a program this is that process. It imports DuckDB and nothing else, which takes 0.1 s.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_DAMAGED, _UNOPENED = 1, 3  # exit codes
Signature = tuple[tuple[int, int, int] | None, ...]

# Files that were read or written whole by this process, as they were then.
_whole: dict[str, Signature] = {}


def damage(path: Path, tables: Collection[str] = (), *, seconds: float | None = None) -> str | None:
    """Return why a file cannot be read; None if it can, or if opening it is refused anyhow.

    A file that this process knows to be whole is not read again.

    Args:
        path: A DuckDB file.
        tables: Those to read, if they are there; by default all.
        seconds: How long that may take.

    Raises:
        DamagedFileError: A killed process left it in the middle of a write, as ``db.torn`` tells,
            and it may not be mended here.
    """
    # Not at the top: the program has no package to import from.
    from duckplets.base.sanitize import shown
    from duckplets.db import sessions
    from duckplets.db.queries import query

    engine = find_spec("duckdb")
    if is_whole(path) or engine is None or engine.origin is None:
        return None
    if not sys.executable or getattr(sys, "frozen", False):  # there is no Python to start
        return None
    sessions.mend(path.resolve(), shown(path))
    texts = [query(f"db/probe/{name}") for name in ("names", "rows")]
    home = str(Path(engine.origin).parent.parent)
    command = [sys.executable, "-I", "-S", __file__, home, str(path), *texts, *tables]
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"reading it did not end within {seconds:g} seconds"
    except (OSError, ValueError):
        return None  # no process can be started here, or by such a path
    if run.returncode == 0:
        trust(path)
    if run.returncode in (0, _UNOPENED):
        return None
    told = run.stdout.decode(errors="replace").strip()
    return told[:300] or f"DuckDB dies of reading it ({_died(run.returncode)})"


def is_whole(path: Path) -> bool:
    """Return whether this process has read or written a file whole, and nobody changed it since."""
    return _whole.get(os.path.realpath(path)) == signature(path)


def trust(path: Path) -> None:
    """Note that a file is whole: it was read to the end, or written here."""
    _whole[os.path.realpath(path)] = signature(path)


def signature(path: Path) -> Signature:
    """Return what is another after a file or its WAL was written: which they are, sizes, times."""
    found: list[tuple[int, int, int] | None] = []
    for file in (path, path.with_name(f"{path.name}.wal")):
        try:
            told = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((told.st_ino, told.st_size, told.st_mtime_ns))
    return tuple(found)


def _died(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"


def _read_all(path: str, names: str, rows: str, tables: Collection[str]) -> int:
    """Read the tables of a file to the end and return the exit code."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "memory_limit": "1GB",
    }
    try:
        connection = duckdb.connect(path, read_only=True, config=config)
    except Exception:  # another process has it, or it is none: who opens it is told in full
        return _UNOPENED
    try:
        for (name,) in connection.execute(names).fetchall():
            if not tables or name in tables:
                connection.execute(rows, {"table": name}).fetchall()
    except Exception as error:
        print(next(iter(str(error).splitlines()), type(error).__name__))
        return _DAMAGED
    return 0


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death that is expected leaves no core
    home, file, first, second, *wanted = sys.argv[1:]
    sys.path.insert(0, home)
    sys.exit(_read_all(file, first, second, wanted))
