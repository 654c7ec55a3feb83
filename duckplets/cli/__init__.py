"""The command line: ``duckplets COMMAND CORPUS …``.

One module per step of the work; ``app`` holds what commands share. Modules that load DuckDB or
Arrow are imported inside the commands: ``duckplets --help`` takes 0.1 s.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]

# Commands by purpose: module, and summary, so that listing them imports no module. The function
# has the command's name.
_COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Bring text in": {
        "demo": ("demo", "Do the main job on text that every Python ships."),
        "ingest": ("ingest", "Store the records of files, through gates or without."),
        "split": ("ingest", "Assign every record to train, validation or test."),
        "chunk": ("chunk", "Cut the sections into windows with other settings."),
        "quality": ("quality", "Tell what gates accepted and rejected, and judge anew."),
        "deduplicate": ("quality", "Find records whose texts are equal or nearly so."),
        "decontaminate": ("quality", "Find records that an evaluation set shares text with."),
    },
    "Look": {
        "status": ("maintenance", "Show what is in a corpus, as a page too."),
        "show": ("show", "Show records, samples, or mined negatives and what cut them."),
        "search": ("mining", "Show the sections that fit a text best."),
        "sql": ("recipes", "Print the statement of a recipe's pool, or its rows."),
        "capacity": ("maintenance", "Estimate how many samples each source and split has."),
        "mcp": ("mcp", "Let an assistant look into a corpus, over stdin and stdout."),
    },
    "Recipes and negatives": {
        "recipe": ("", "Keep recipes in a corpus: add, list, show, remove."),
        "mine": ("mining", "Mine hard negatives, where they are missing."),
        "export": ("mining", "Write mined negatives, an evaluation set or all records to a file."),
        "embed": ("tokens", "Give a vector to every text that has none yet."),
    },
    "Train": {
        "forecast": ("forecast", "Print what a run will draw, or what a mixture alters."),
        "sample": ("sample", "Write samples as JSON lines or Parquet."),
        "served": ("sample", "Print the ids of what a saved run served or will serve."),
        "cursor": ("", "Look at saved runs, or forget them: list, reset."),
        "tokenizer": ("", "Make a tokenizer for a corpus: train."),
        "shard": ("tokens", "Write the texts of a corpus as token shards."),
        "verify": ("tokens", "Compare token shards with their manifest."),
    },
    "Keep in order": {
        "remove": ("maintenance", "Remove a source from the newest version of a corpus."),
        "compact": ("maintenance", "Rewrite a corpus without what no run needs any more."),
        "prepare": ("maintenance", "Make the snapshot of a corpus that runs are served from."),
        "migrate": ("maintenance", "Bring a corpus and its state file to this schema."),
        "doctor": ("maintenance", "Check the environment and a corpus."),
    },
}
_GROUPS = {
    "tokenizer": {"train": "tokens.train"},
    "recipe": {
        "add": "recipes.add_recipes",
        "list": "recipes.list_recipes",
        "show": "recipes.show",
        "remove": "recipes.remove",
    },
    "cursor": {"list": "maintenance.list_cursors", "reset": "maintenance.reset"},
}
_HELP = (
    "Text corpora in one DuckDB file, and recipes that turn them into training batches.\n\n"
    "\b\nExample:\n"
    "    duckplets ingest faq.duckdb faq.csv --anchor question --positive answer\n"
    "    duckplets split faq.duckdb\n"
    "    duckplets sample faq.duckdb --steps 10 --save"
)

_COMPLETE = "_DUCKPLETS_COMPLETE"  # set by the shell for completion


if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> Any:
        """Build the application on first use: Typer takes 0.2 s to load."""
        if name != "app":
            raise AttributeError(f"module 'duckplets.cli' has no attribute {name!r}")
        globals()["app"] = made = _application()
        return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with arguments, by default those of the process, and exit.

    Raises:
        SystemExit: With the exit code.
    """
    try:
        from duckplets.cli.app import run

        given = list(sys.argv[1:] if arguments is None else arguments)
        if arguments is None:  # the process is ours
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start unused threads
        called = [each for each in given if each != "--debug"]
        run(_application(None if _COMPLETE in os.environ else called), given)
    except KeyboardInterrupt:  # while modules load; later the boundary handles it
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _application(called: Sequence[str] | None = None) -> typer.Typer:
    """Return the application, with only the commands that the given words need.

    Typer takes 3 ms for a command with its options, besides importing its module. Listing the
    commands imports none.
    """
    from duckplets.cli.app import Command, new_app, start

    first, second = [*(called or ()), "", ""][:2]
    known = {name: home for group in _COMMANDS.values() for name, home in group.items()}
    is_list = called is not None and {*called}.isdisjoint(known)
    made = new_app(_HELP, panels={k: list(v) for k, v in _COMMANDS.items()})
    made.callback()(start)
    for name, (home, summary) in known.items() if first not in known else [(first, known[first])]:
        if is_list:
            made.command(name, help=summary)(lambda: None)
        elif name not in _GROUPS:
            made.command(name, cls=Command)(_function(f"{home}.{name}"))
        else:
            group, verbs = new_app(summary), _GROUPS[name]
            made.add_typer(group, name=name)
            for verb in verbs if second not in verbs else [second]:
                group.command(verb, cls=Command)(_function(verbs[verb]))
    return made


def _function(place: str) -> Callable[..., None]:
    module, _, name = place.partition(".")
    function: Callable[..., None] = getattr(import_module(f"duckplets.cli.{module}"), name)
    return function
