"""The command line: ``duckplets COMMAND CORPUS …``.

One module a step of the work; ``app`` holds what all commands share. Modules that load DuckDB or
Arrow are imported inside the commands: ``duckplets --help`` takes 0.1 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duckplets.cli import demo, hard_negatives, ingest, recipes, sample, upkeep
from duckplets.cli.app import add, new_app, run, start

__all__ = ["app", "main"]

_COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "ingest": ingest.ingest,
    "split": ingest.split,
    "chunk": ingest.chunk,
    "index": hard_negatives.index,
    "mine": hard_negatives.mine,
    "search": hard_negatives.search,
    "export": hard_negatives.export,
    "sql": recipes.sql,
    "pool": recipes.pool,
    "sample": sample.sample,
    "plan": sample.plan,
    "served": sample.served,
    "status": upkeep.status,
    "capacity": upkeep.capacity,
    "migrate": upkeep.migrate,
    "doctor": upkeep.doctor,
}
_GROUPS: dict[str, tuple[str, dict[str, Callable[..., None]]]] = {
    "recipe": (
        "Keep recipes in a corpus: add, list, show, remove.",
        {
            "add": recipes.add_recipes,
            "list": recipes.list_recipes,
            "show": recipes.show,
            "remove": recipes.remove,
        },
    ),
    "cursor": (
        "Look at saved runs, or forget them: list, reset.",
        {"list": upkeep.list_cursors, "reset": upkeep.reset},
    ),
}

app = new_app(
    "Text corpora in one DuckDB file, and recipes that turn them into training batches.\n\n"
    "\b\nExample:\n"
    "    duckplets ingest faq.duckdb faq.csv --anchor question --positive answer\n"
    "    duckplets split faq.duckdb\n"
    "    duckplets sample faq.duckdb --steps 10 --save"
)
app.callback()(start)
for _name, _command in _COMMANDS.items():
    add(app, _name, _command)
for _name, (_description, _commands) in _GROUPS.items():
    _group = new_app(_description)
    app.add_typer(_group, name=_name)
    for _verb, _command in _commands.items():
        add(_group, _verb, _command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; never returns.

    Args:
        arguments: Those of the command line; by default the process's own.

    Raises:
        SystemExit: With the exit code.
    """
    run(app, arguments)
