"""The command line: ``duckplets COMMAND CORPUS …``.

One module a step of the work; ``app`` holds what all commands share. Modules that load DuckDB or
Arrow are imported inside the commands: ``duckplets --help`` takes 0.1 s.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]

T = TypeVar("T")

# Command: the module that has a function of that name.
_COMMANDS = {
    "demo": "demo",
    "ingest": "ingest",
    "acquire": "quality",
    "split": "ingest",
    "chunk": "chunk",
    "deduplicate": "repeats",
    "decontaminate": "repeats",
    "index": "mining",
    "mine": "mining",
    "search": "mining",
    "embed": "embed",
    "export": "mining",
    "shard": "tokens",
    "verify": "tokens",
    "sql": "recipes",
    "pool": "recipes",
    "sample": "sample",
    "plan": "sample",
    "served": "sample",
    "forecast": "forecast",
    "watch": "watch",
    "status": "maintenance",
    "capacity": "maintenance",
    "report": "report",
    "judge": "quality",
    "quality": "quality",
    "show": "show",
    "remove": "maintenance",
    "compact": "maintenance",
    "prepare": "maintenance",
    "migrate": "maintenance",
    "doctor": "maintenance",
}
_GROUPS = {
    "tokenizer": ("Make a tokenizer for a corpus: train.", {"train": "tokens.train"}),
    "recipe": (
        "Keep recipes in a corpus: add, list, show, remove.",
        {
            "add": "recipes.add_recipes",
            "list": "recipes.list_recipes",
            "show": "recipes.show",
            "remove": "recipes.remove",
        },
    ),
    "cursor": (
        "Look at saved runs, or forget them: list, reset.",
        {"list": "maintenance.list_cursors", "reset": "maintenance.reset"},
    ),
}
# What may take long, and can be logged.
_LONG = {
    *("demo", "ingest", "acquire", "split", "chunk", "deduplicate", "decontaminate", "index"),
    *("mine", "embed", "export", "shard", "verify", "sample", "report", "judge", "remove"),
    *("compact", "prepare", "tokenizer train"),
}
_HELP = (
    "Text corpora in one DuckDB file, and recipes that turn them into training batches.\n\n"
    "\b\nExample:\n"
    "    duckplets ingest faq.duckdb faq.csv --anchor question --positive answer\n"
    "    duckplets split faq.duckdb\n"
    "    duckplets sample faq.duckdb --steps 10 --save"
)

_COMPLETE = "_DUCKPLETS_COMPLETE"  # how the shell asks what may come next


if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> Any:
        """Make the application when it is first asked for: Typer takes 0.2 s to load."""
        if name != "app":
            raise AttributeError(f"module 'duckplets.cli' has no attribute {name!r}")
        globals()["app"] = made = _application()
        return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; never returns.

    Args:
        arguments: Those of the command line; by default the process's own.

    Raises:
        SystemExit: With the exit code.
    """
    try:
        from duckplets.cli.app import run

        given = list(sys.argv[1:] if arguments is None else arguments)
        if arguments is None:  # the process is ours alone
            os.environ.setdefault(
                "OPENBLAS_NUM_THREADS", "1"
            )  # NumPy would start them, for nothing
        called = [each for each in given if each != "--debug"]
        run(_application(None if _COMPLETE in os.environ else called), given)
    except KeyboardInterrupt:  # while modules are loaded; later each command says so itself
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _application(called: Sequence[str] | None = None) -> typer.Typer:
    """Return the application; of one that is called, only what the words of the call need.

    Typer takes 3 ms for a command with its options, beside what its module imports. A list of all
    commands needs no options.
    """
    from duckplets.cli.app import add, list_only, new_app, start

    first, second = [*(called or ()), "", ""][:2]
    every = first not in _COMMANDS and first not in _GROUPS
    is_list = called is not None and {*called}.isdisjoint({*_COMMANDS, *_GROUPS})
    put = list_only if is_list else add
    made = new_app(_HELP, completion=True)
    made.callback()(start)
    for name, home in _called(_COMMANDS, first, every=every).items():
        put(made, name, _command(f"{home}.{name.replace('-', '_')}"), long=name in _LONG)
    for name, (description, verbs) in _called(_GROUPS, first, every=every).items():
        group = new_app(description)
        made.add_typer(group, name=name)
        for verb, where in _called(verbs, second, every=second not in verbs).items():
            put(group, verb, _command(where), long=f"{name} {verb}" in _LONG)
    return made


def _called(commands: Mapping[str, T], word: str, *, every: bool) -> Mapping[str, T]:
    """Return the command of a word, if it is one, or every command."""
    return commands if every else {word: commands[word]} if word in commands else {}


def _command(where: str) -> Any:
    module, name = where.split(".")
    return getattr(import_module(f"duckplets.cli.{module}"), name)
