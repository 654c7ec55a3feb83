"""Register commands, run them, and turn their errors into one line and an exit code.

Data goes to stdout, talk and progress to stderr. Exit codes: 0, 1 for an error (one line on
stderr, a traceback only with ``--debug``), 2 for wrong usage (Typer's), 130 after Ctrl-C and 141
when the reader of stdout is gone, as the shell has them. Whatever came from outside is written by
``duckplets.base.sanitize``. Errors name the arguments of Python; here they become options.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from duckplets import __version__
from duckplets.base.sanitize import MESSAGE, harmless, shown
from duckplets.errors import DuckpletsError, MissingFileError

CORPUS = Annotated[Path, typer.Argument(metavar="CORPUS", help="The corpus file, NAME.duckdb.")]
LOG_FILE = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Log stages, counts and errors there, no texts: 5 MB, and five files before.",
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

INTERRUPTED = 130  # 128 + SIGINT
READER_GONE = 141  # 128 + SIGPIPE

_USAGE_ERROR: Any = typer.BadParameter.__base__  # Typer names those of wrong usage nowhere else

_debug = False


def new_app(description: str, *, completion: bool = False) -> typer.Typer:
    """Return an application, or a group of commands, with plain help.

    Args:
        description: What its help begins with.
        completion: Whether it has the options that install shell completion.
    """
    return typer.Typer(
        cls=_Group,
        help=description,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
    )


class _Group(TyperGroup):
    """A group of commands that refuses wrong usage without repeating what acts on a terminal."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _harmless_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        with _harmless_usage():
            return super().invoke(context)


def add(app: typer.Typer, name: str, command: Callable[..., None], *, long: bool = False) -> None:
    """Register a command under a name, inside the errors' boundary; a long one can be logged."""

    @functools.wraps(command)
    def guarded(log_file: Path | None = None, **options: object) -> None:
        from duckplets.cli.logs import logged, said

        given = chain.from_iterable(v if isinstance(v, list) else [v] for v in options.values())
        with (
            boundary(guarded),
            said(lambda text: say(in_options(text, guarded))),
            logged(log_file, apart_from=[*given]),
        ):
            command(**options)
            if sys.stdout is not None:
                sys.stdout.flush()

    if long:
        own = inspect.signature(command, eval_str=True).parameters
        log = inspect.Parameter(
            "log_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=LOG_FILE
        )
        given = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.values()]
        guarded.__signature__ = inspect.Signature([*given, log])  # type: ignore[attr-defined]
        guarded.__annotations__ = {p.name: p.annotation for p in [*given, log]}
        del guarded.__wrapped__  # or Typer would look at its parameters
    app.command(name, help=_help(command))(guarded)


def list_only(app: typer.Typer, name: str, command: Callable[..., None], **_: bool) -> None:
    """Register the name and the help of a command that is listed and not called."""
    app.command(name, help=_help(command))(lambda: None)


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


def run(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Run the command line and leave with its exit code."""
    _reserve_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 wherever it goes
    with boundary():
        app(_debug_first(list(arguments)), prog_name="duckplets")


def tell(*lines: str) -> None:
    """Print lines for people: to stdout."""
    for line in lines:
        print(shown(line, MESSAGE))


def say(*lines: str) -> None:
    """Print talk: to stderr, if it is open."""
    if sys.stderr is not None:  # print would take stdout in its place
        for line in lines:
            print(shown(line, MESSAGE), file=sys.stderr)


def existing(corpus: Path) -> Path:
    """Return the path of a corpus that a command changes but does not create."""
    if not corpus.exists():
        raise MissingFileError(
            f"{corpus} does not exist; create it with: duckplets ingest {corpus} …"
        )
    return corpus


# -- errors ---------------------------------------------------------------------------------------


class _AsWrittenError(DuckpletsError):
    """An error about a file that users write: it names the keys that stand there, not options."""


@contextmanager
def as_written() -> Iterator[None]:
    """Leave the names in errors as they are: those of keys in a file that is being read."""
    try:
        yield
    except DuckpletsError as error:
        raise _AsWrittenError(str(error)) from error


@contextmanager
def boundary(command: Callable[..., None] | None = None) -> Iterator[None]:
    """Turn every exception into one line on stderr, in the options of a command, and an exit code.

    Args:
        command: The one that runs; errors name its arguments.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        interrupted()
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
        text = _text_of(error)
        if command is not None and not isinstance(error, _AsWrittenError):
            text = in_options(text, command)
        say(f"error: {' '.join(line.strip() for line in harmless(text).splitlines())}")
        raise SystemExit(1) from error


def interrupted() -> None:
    """Leave after Ctrl-C."""
    _give_up_stdout()  # whoever reads it may wait for us
    say("interrupted")
    raise SystemExit(INTERRUPTED) from None


@contextmanager
def _harmless_usage() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        interrupted()
    except _USAGE_ERROR as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # whose message is the help
            error.message = shown(error.message, MESSAGE)
        raise


def _reserve_streams() -> None:
    """Keep a corpus from being opened in the place of a standard stream that is closed.

    What C code says on stderr would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the first free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - to the end


def _give_up_stdout() -> None:
    """Lose what stdout still holds: Python would try to write it at exit, and print a traceback."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, UnicodeEncodeError) and error.encoding == "utf-8":
        return f"{shown(error.object)} is not UTF-8"
    if isinstance(error, MemoryError):
        return "the memory is full"
    if isinstance(error, DuckpletsError):
        return str(error)
    return (
        f"this should not happen, please report it: {type(error).__name__}: {error} "
        f"(--debug shows where)"
    )


# A quoted value, the URI of a data set with its keys, or the name of an argument before its value.
_QUOTED = r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = r"\b\w+Source\(…, ([^()]*)\)"  # an example in Python
# The way in Python where a command follows, which is the same.
_IN_PYTHON = (
    rf"(?:call )?(?:corpus|duckplets)\.\w+\((?:{_QUOTED}|[^()'\"])*\), or (run: )?(?=duckplets )"
)
_ARGUMENT = (
    rf"""{_QUOTED}|hf://\S+(?:(?<![,;])\s+\w+=\S+)*|(?<![\w.$-])(\w+)=(True\b|False\b|None\b)?"""
)


def in_options(text: str, command: Callable[..., None]) -> str:
    """Return a message in the options of a command: ``batch_size=0`` becomes ``--batch-size 0``."""
    text = re.sub(_CALL, r"\1", text)
    text = re.sub(_IN_PYTHON, lambda found: "run: " if found[0].startswith("call ") else "", text)
    options, places = _given_by(command)

    def of(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if value in ("False", "None") and f"no_{name}" in options:
            return options[f"no_{name}"]
        if name in places and value is None:
            return ""
        if name not in options:
            return found[0]
        follows = text[found.end() : found.end() + 1].strip(" ,;:.)")
        return options[name] + (" " if follows and value is None else "")

    return re.sub(_ARGUMENT, of, text)


def _given_by(command: Callable[..., None]) -> tuple[dict[str, str], set[str]]:
    """Return the options of a command by the names of what they give, and what has a place."""
    options, places = {}, set()
    for name, hint in get_type_hints(command, include_extras=True).items():
        for how in getattr(hint, "__metadata__", ()):
            if isinstance(how, typer.models.OptionInfo):
                written = [how.default, *(how.param_decls or ())]  # Typer takes the first for one
                named = [each for each in written if isinstance(each, str) and each[:2] == "--"]
                options[name], _, off = [option(name), *named][-1].partition("/")
                options |= {f"no_{name}": off} if off else {}
            else:
                places.add(name)
    return options, places


def option(name: str) -> str:
    """Return the option that gives an argument."""
    return f"--{name.replace('_', '-')}"


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
