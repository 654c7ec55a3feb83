"""Register commands, run them, and turn errors into one line and an exit code.

Data goes to stdout, messages and progress to stderr. An error is one line on stderr, with a
traceback only with ``--debug``. Exit codes: 0; 1 for an error; 2 for wrong usage (Typer's); 130
after Ctrl-C; 141 if the reader of stdout closed it, as in a shell. ``duckplets.base.sanitize``
escapes values from outside. Error messages name arguments as in Python.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from duckplets import __version__
from duckplets.base.old_names import sentence
from duckplets.base.sanitize import MESSAGE, harmless, shown
from duckplets.errors import DuckpletsError, MissingFileError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus

# Headings for the options of commands with many.
_MANY = 20
_SMALL = 16 << 20  # bytes of a file
_HEADINGS = {
    "Columns": (
        *("anchor", "positive", "context", "text", "negative", "label", "sections"),
        *("id", "date", "group", "meta"),
    ),
    "How files are read": ("format", "converter", "pattern", "by_heading"),
    "Gates": ("quality", "where", "limit"),
    "A saved run": (*("run", "resume", "tag", "state", "version", "allow_drift", "save"),),
    "What batches have": ("batch_by", "vectors"),
    "Negatives, pairs and duplicates": (
        *("negatives", "by", "consistent", "pairs", "swap", "allow_stale"),
        "no_duplicates",
    ),
    "Ranks and machine": ("rank", "world_size", "remainder", "memory_mb", "snapshot"),
}
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names}
_RANGE = re.compile(r" +\[x>=\d+\]|; x>=\d+")

INTERRUPTED = 130  # 128 + SIGINT
READER_GONE = 141  # 128 + SIGPIPE

_USAGE_ERROR: Any = typer.BadParameter.__base__  # Typer does not export its usage error

_UNWRITTEN = {errno.EFBIG, errno.ENOSPC, errno.EIO}

_debug = False
_log_file: Path | None = None


def new_app(description: str, panels: Mapping[str, Sequence[str]] | None = None) -> typer.Typer:
    """Return a command group with plain help; with ``panels``, the whole application."""
    return typer.Typer(
        cls=type("_Panels", (_Group,), {"panels": panels or {}}),
        help=description,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=panels is not None,
        pretty_exceptions_enable=False,
    )


class _Group(TyperGroup):
    """A command group whose usage errors are escaped and whose help has headings."""

    panels: ClassVar[Mapping[str, Sequence[str]]] = {}

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        parsed: list[str] = super().parse_args(context, global_first(args) if self.panels else args)
        return parsed

    def format_commands(self, context: Any, formatter: Any) -> None:
        for title, names in (self.panels or {"Commands": list(self.commands)}).items():
            known = [(name, self.commands[name]) for name in names if name in self.commands]
            most = formatter.width - 6 - max((len(name) for name, _ in known), default=0)
            if known:
                with formatter.section(title):
                    rows = [(name, command.get_short_help_str(most)) for name, command in known]
                    formatter.write_dl(rows)

    def resolve_command(self, context: Any, args: list[str]) -> Any:
        if args and (message := sentence(f"duckplets {args[0]}")):
            raise _USAGE_ERROR(message, context)
        return super().resolve_command(context, args)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _harmless_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        with _harmless_usage():
            return super().invoke(context)


class Command(TyperCommand):
    """A command whose help lists many options under headings."""

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """Return the words of a call."""
        places = [param for param in self.params if _is_place(param)]
        names = [f"{param.metavar}{'…' if param.nargs != 1 else ''}" for param in places]
        return [
            self.options_metavar or "",
            *(n if p.required else f"[{n}]" for n, p in zip(names, places, strict=True)),
        ]

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the options, under headings if the command has many."""
        params: list[Any] = self.get_params(context)
        options = [param for param in params if not _is_place(param)]
        places = [(param.metavar, param.help) for param in params if _is_place(param)]
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": places, "Options": []}
        sections |= {heading: [] for heading in _HEADINGS}
        for param in options:
            written, text = param.get_help_record(context) or ("", "")
            heading = _HEADING_OF.get(param.name, "Options") if len(options) > _MANY else "Options"
            sections[heading].append((written, _RANGE.sub("", text)))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _is_place(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"duckplets {__version__}")
        raise typer.Exit


def start(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show errors in full, with their traceback.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Log stages, counts and errors to a file, without texts. Five earlier files stay.",
        ),
    ] = None,
) -> None:
    """Handle the options that are allowed anywhere in a command line."""
    global _debug, _log_file
    _debug, _log_file = debug, log_file


def log_file() -> Path | None:
    """Return the log file of ``--log-file``."""
    return _log_file


def run(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Run the command line and exit with its code."""
    _reserve_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 everywhere
    with boundary():
        app(list(arguments), prog_name="duckplets")


def tell(*lines: str) -> None:
    """Print lines of a result to stdout."""
    for line in lines:
        print(shown(line, MESSAGE))


def say(*lines: str) -> None:
    """Print messages to stderr."""
    for line in lines:
        print(shown(line, MESSAGE), file=sys.stderr)


def existing(corpus: Path) -> Path:
    """Return the path of a corpus that must exist."""
    if not corpus.exists():
        raise MissingFileError(
            f"{corpus} does not exist; create it with: duckplets ingest {corpus} …"
        )
    return corpus


def search_here() -> None:
    """Search ``module:function`` in the working folder too, after installed modules."""
    with suppress(OSError):  # it was deleted
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)


def corpus_at(path: Path, *, read_only: bool = False) -> Corpus:
    """Open an existing corpus."""
    from duckplets.corpus.corpus import Corpus

    # For a small file a second thread costs more than it saves: a sixth of the time of `status`.
    threads = 1 if read_only and existing(path).stat().st_size < _SMALL else None
    return as_typed(Corpus(existing(path), read_only=read_only, threads=threads), path)


def as_typed(corpus: Corpus, path: Path) -> Corpus:
    """Return a corpus whose messages show the path as typed: a command stays in its folder."""
    corpus.path = corpus.database.path = path
    return corpus


# -- errors ---------------------------------------------------------------------------------------


@contextmanager
def boundary() -> Iterator[None]:
    """Turn every exception into one line on stderr, and an exit code."""
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except (KeyboardInterrupt, typer.Abort):
        interrupted()
    except BrokenPipeError:
        _give_up_stdout()
        raise SystemExit(READER_GONE) from None
    except Exception as error:
        try:
            sys.stdout.flush()
        except OSError:
            _give_up_stdout()
        if _debug:
            raise
        text = harmless(_text_of(error))
        say(f"error: {' '.join(line.strip() for line in text.splitlines())}")
        raise SystemExit(1) from error


def interrupted() -> None:
    """Exit after Ctrl-C."""
    _give_up_stdout()  # its reader may be waiting for us
    say("interrupted")
    raise SystemExit(INTERRUPTED) from None


@contextmanager
def _harmless_usage() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        interrupted()
    except _USAGE_ERROR as error:
        old = getattr(error, "option_name", None)
        error.message = (old and (sentence(old) or _of_key(old, error.ctx))) or error.message
        if type(error).__name__ != "NoArgsIsHelpError":  # its message is the help
            error.message = shown(error.message, MESSAGE)
        raise


def _of_key(option: str, context: Any) -> str | None:
    """Return how to write an option that is a key of a run, if the command has --set."""
    if not any("--set" in param.opts for param in context.command.params):
        return None
    from duckplets.corpus.run_file import keys

    name = option.lstrip("-").replace("-", "_")
    return f"{option} is a key of a run: --set {name}=VALUE" if name in keys() else None


def _reserve_streams() -> None:
    """Open closed standard streams to nowhere: a corpus would get their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end


def _give_up_stdout() -> None:
    """Discard the buffer of stdout: Python would write it at exit and print a traceback."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = error.filename2 or error.filename  # after renaming: the name the user knows
        if where is None and error.errno in _UNWRITTEN:
            where = "stdout"  # other writers name their file
        return f"{where}: {error.strerror}" if where else error.strerror
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


def global_first(arguments: Sequence[str]) -> list[str]:
    """Move the options of all commands to the front: they are allowed anywhere."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    first, rest, words = list[str](), list[str](), iter(arguments[:end])
    for word in words:
        if word == "--debug" or word.startswith("--log-file="):
            first.append(word)
        elif word == "--log-file":
            first += [word, *([value] if (value := next(words, None)) is not None else [])]
        else:
            rest.append(word)
    return [*first, *rest, *arguments[end:]]
