"""The command line: ``duckplets COMMAND CORPUS …``.

Each step of the work has one module; ``app`` has the code that commands share. Commands import
modules that load DuckDB or Arrow themselves: ``duckplets --help`` takes 0.1 s.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]

# Commands by purpose: module and summary. A list of commands imports no module. The function has
# the command's name.
_COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Bring text in": {
        "demo": ("demo", "Show the main job on text that Python contains."),
        "ingest": ("ingest", "Store the records of files, with or without quality gates."),
        "split": ("ingest", "Assign every record to train, validation or test."),
        "quality": ("quality", "Count accepted and rejected rows, or change thresholds."),
        "deduplicate": ("quality", "Find records with equal or almost equal texts."),
        "decontaminate": ("quality", "Find records that share text with an evaluation set."),
    },
    "Look": {
        "status": ("maintenance", "Show the contents of a corpus, as text or as a page."),
        "show": ("show", "Show records, samples, recipes or mined negatives."),
        "search": ("mining", "Show the sections most similar to a text."),
        "sql": ("sql", "Print the rows of a query, or the SQL of a recipe's pool."),
    },
    "Negatives": {
        "embed": ("tokens", "Compute a vector for every text that has none."),
        "mine": ("mining", "Mine missing hard negatives."),
        "advise": ("mining", "Recommend negatives for training, by a small experiment."),
        "export": ("mining", "Write mined negatives, an evaluation set or all records to a file."),
    },
    "Train": {
        "forecast": ("forecast", "Predict the samples of a run, or the effect of a mixture."),
        "sample": ("sample", "Write samples as JSON lines or Parquet."),
        "runs": ("runs", "List saved runs, print the ids they served, or delete one."),
        "verify": ("runs", "Repeat a run from raw sources, and compare its batches."),
        "shard": ("tokens", "Write the texts of a corpus as token shards, and verify them."),
    },
    "Keep in order": {
        "remove": ("maintenance", "Remove a source from the newest version of a corpus."),
        "prepare": ("maintenance", "Build the snapshot of a corpus, store recipes, or compact it."),
        "doctor": ("maintenance", "Check the environment and a corpus."),
    },
}
_HELP = (
    "Text corpora in one DuckDB file, and recipes that turn them into training batches.\n\n"
    "\b\nExample:\n"
    "    duckplets ingest faq.duckdb faq.csv --anchor question --positive answer\n"
    "    duckplets split faq.duckdb\n"
    "    duckplets sample faq.duckdb --steps 10 --save"
)

# DuckDB imports these to recognise its arguments, in 0.4 and 0.2 s. The commands below pass no such
# objects to it, and run no code of others that may need them.
_SPARED = ("pandas", "pyarrow.dataset")
_SPARING = {
    *("deduplicate", "doctor", "forecast", "prepare", "quality", "remove", "runs", "show"),
    *("split", "sql", "status"),
}
_COMPLETE = "_DUCKPLETS_COMPLETE"  # set by the shell for completion


if not TYPE_CHECKING:  # with it a type checker would accept every misspelt name

    def __getattr__(name: str) -> Any:
        """Build the application on first use: Typer takes 0.2 s to load."""
        if name != "app":
            raise AttributeError(f"module 'duckplets.cli' has no attribute {name!r}")
        globals()["app"] = made = _application()
        return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with arguments, by default ``sys.argv``, and exit.

    Raises:
        SystemExit: With the exit code.
    """
    try:
        from duckplets.cli.app import global_first, run

        words = list(sys.argv[1:] if arguments is None else arguments)
        called = [word for word in global_first(words) if word != "--debug"]
        if arguments is None:  # the process is ours
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start unused threads
            if _SPARING.intersection(called):
                sys.meta_path.insert(0, _Missing())
        run(_application(None if _COMPLETE in os.environ else called), words)
    except KeyboardInterrupt:  # while modules load; later the boundary handles it
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


class _Missing(MetaPathFinder):
    """Hide the slow modules from DuckDB in this process."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in _SPARED:
            raise ModuleNotFoundError(f"this command does without {name}", name=name)


def _application(called: Sequence[str] | None = None) -> typer.Typer:
    """Return the application with the commands that a call needs; Typer takes 3 ms for each."""
    from duckplets.cli.app import Command, new_app, start

    words = [*(called or ()), "", "", ""]
    first = words[2] if words[0] == "--log-file" else words[words[0].startswith("--log-file=")]
    known = {name: home for group in _COMMANDS.values() for name, home in group.items()}
    is_list = called is not None and {*called}.isdisjoint(known)
    made = new_app(_HELP, panels={k: list(v) for k, v in _COMMANDS.items()})
    made.callback()(start)
    for name, (home, summary) in known.items() if first not in known else [(first, known[first])]:
        if is_list:
            made.command(name, help=summary)(lambda: None)
        else:
            function = getattr(import_module(f"duckplets.cli.{home}"), name)
            made.command(name, cls=Command)(function)
    return made
