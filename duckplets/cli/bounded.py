"""Run a statement in a child process that has a limit on memory and on time.

request ─stdin→ child: open the corpus, run, cut ─stdout→ lines

DuckDB's memory limit excludes the values that a function makes, and DuckDB cannot interrupt a
function. So ``repeat('x', 2000000000)`` fills the memory of its process. A child takes a second of
processor time to start. macOS and Windows cannot limit the address space; only the clock ends a
child on these systems.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from duckplets import errors
from duckplets.base.deadline import STATEMENT_TIMEOUT
from duckplets.base.sanitize import size
from duckplets.errors import DeadlineError, DuckpletsError, QueryError

_MEMORY = 4 << 30  # bytes of address space; an idle child with four threads has 0.9 GB
_LONGER = 1.25  # the clock comes after the statement's own deadline: its error says more


def lines(
    function: str,
    corpus: Path,
    parameters: dict[str, Any],
    *,
    seconds: float = STATEMENT_TIMEOUT,
    memory: int = _MEMORY,
) -> Iterator[bytes]:
    """Yield the lines that ``MODULE:FUNCTION`` returns for a corpus, from a child process.

    Raises:
        DeadlineError: It took too long, and its process was ended.
        QueryError: It needed too much memory, and its process was ended.
        DuckpletsError: The function raised it.
    """
    request = {"function": function, "corpus": str(corpus), "parameters": parameters}
    command = [sys.executable, "-P", "-m", "duckplets.cli.bounded"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as child:
        assert child.stdin  # noqa: S101 - for the type checker
        assert child.stdout  # noqa: S101
        try:
            with suppress(BrokenPipeError), closing(child.stdin) as stdin:
                stdin.write(json.dumps(request | {"seconds": seconds, "memory": memory}).encode())
            head = child.stdout.readline()
            if failed := json.loads(head or "{}"):
                raise getattr(errors, failed["kind"])(failed["message"])
            yield from child.stdout
            code = child.wait()
        finally:
            child.kill()
    way = "request less, or use Corpus.sql, which needs no child process"
    if code == 1 and not head:
        raise DeadlineError(
            f"the statement ran longer than {_LONGER * seconds:g} seconds, so it was ended; {way}"
        )
    if code:
        raise QueryError(
            f"the statement needs more than {size(memory)} of memory, so it was ended; {way}"
        )


# -- in the child -----------------------------------------------------------------------------


def _main() -> None:
    request = json.load(sys.stdin)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    with open(os.devnull, "w") as nowhere:
        # It ends the process even while a function has Python's lock, or after the parent's death.
        faulthandler.dump_traceback_later(_LONGER * request["seconds"], exit=True, file=nowhere)
        with suppress(ImportError, AttributeError, ValueError, OSError):  # no such limit here
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        answer, first, failed = _answer(**request), b"", {}
        try:
            first = next(answer, b"")
        except DuckpletsError as error:
            kinds = (kind.__name__ for kind in type(error).__mro__)
            kind = next(name for name in kinds if name in errors.__all__)
            failed = {"kind": kind, "message": str(error)}
        except MemoryError:
            sys.exit(2)
        except Exception as error:
            message = f"this should not happen, please report it: {type(error).__name__}: {error}"
            failed = {"kind": "DuckpletsError", "message": message}
        faulthandler.cancel_dump_traceback_later()  # a reader may be slow
        sys.stdout.buffer.write(f"{json.dumps(failed)}\n".encode())
        sys.stdout.buffer.write(first)
        sys.stdout.buffer.writelines(answer)


def _answer(
    function: str, corpus: str, parameters: dict[str, Any], seconds: float, memory: int
) -> Iterator[bytes]:
    from duckplets.cli.app import as_typed, existing
    from duckplets.corpus.corpus import Corpus

    module, _, name = function.partition(":")
    made, path = getattr(import_module(f"duckplets.{module}"), name), Path(corpus)
    threads = min(4, os.cpu_count() or 1)  # each has address space of its own
    with Corpus(
        existing(path), read_only=True, threads=threads, statement_timeout=seconds
    ) as opened:
        yield from made(as_typed(opened, path), **parameters)


if __name__ == "__main__":
    _main()
