"""Register commands, run them, and turn their errors into one line and an exit code.

Data goes to stdout, talk and progress to stderr. Exit codes: 0, 1 for an error (one line on
stderr, a traceback only with ``--debug``), 2 for wrong usage (Typer's), 130 after Ctrl-C and 141
when the reader of stdout is gone, as the shell has them.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from duckplets import __version__
from duckplets.errors import DuckpletsError, MigrationError

CORPUS = Annotated[Path, typer.Argument(metavar="CORPUS", help="The corpus file, NAME.duckdb.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

INTERRUPTED = 130  # 128 + SIGINT
READER_GONE = 141  # 128 + SIGPIPE

_debug = False


def new_app(description: str) -> typer.Typer:
    """Return an application, or a group of commands, with plain help."""
    return typer.Typer(
        help=description,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def add(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Register a command under a name, inside the errors' boundary."""

    @functools.wraps(command)
    def guarded(*arguments: object, **options: object) -> None:
        with boundary():
            command(*arguments, **options)
            if sys.stdout is not None:
                sys.stdout.flush()

    app.command(name, help=_help(command))(guarded)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"duckplets {__version__}")
        raise typer.Exit


VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)
DEBUG = typer.Option("--debug", help="Show errors in full, with their traceback.")


def start(
    *, version: Annotated[bool, VERSION] = False, debug: Annotated[bool, DEBUG] = False
) -> None:
    """Take the options that stand before any command."""
    global _debug
    _debug = debug


def run(app: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 wherever it goes
    with boundary():
        app(_debug_first(given), prog_name="duckplets")


def say(*lines: str) -> None:
    """Print talk: to stderr."""
    for line in lines:
        print(line, file=sys.stderr)


def existing(corpus: Path) -> Path:
    """Return the path of a corpus that a command changes but does not create."""
    if not corpus.exists():
        raise MigrationError(
            f"{corpus} does not exist; create it with: duckplets ingest {corpus} …"
        )
    return corpus


@contextmanager
def boundary() -> Iterator[None]:
    """Turn every exception into one line on stderr and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        _give_up_stdout()  # whoever reads it may wait for us
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _give_up_stdout()
        raise SystemExit(READER_GONE) from None
    except Exception as error:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            _give_up_stdout()
        if _debug:
            raise
        say(f"error: {_one_line(error)}")
        raise SystemExit(1) from error


def _give_up_stdout() -> None:
    """Lose what stdout still holds: Python would try to write it at exit, and print a traceback."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}"
    elif isinstance(error, MemoryError):
        text = "the memory is full"
    elif isinstance(error, DuckpletsError):
        text = str(error)
    else:
        text = (
            f"this should not happen, please report it: {type(error).__name__}: {error} "
            f"(--debug shows where)"
        )
    return " ".join(line.strip() for line in text.splitlines())


def _debug_first(arguments: list[str]) -> list[str]:
    """Let ``--debug`` stand anywhere: it is an option of the application, before the command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest = [argument for argument in arguments[:end] if argument != "--debug"]
    debug = ["--debug"] if len(rest) < end else []
    return [*debug, *rest, *arguments[end:]]


def _help(command: Callable[..., None]) -> str:
    """Return the help of a command: its docstring, with the lines of its example kept apart."""
    text = inspect.getdoc(command) or ""
    return text.replace("Example:\n", "\b\nExample:\n")
