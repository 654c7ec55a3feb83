"""The rooms of the house: which folder may import which, held by one table."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "duckplets"

# Floors from the ground up: a room imports from the floors below its own, and from no room beside
# it. ``doors`` stands for the modules that lie in no folder, what users meet; of these any room
# may import ``errors`` only.
FLOORS = [
    "base",
    "artifacts engine db text order",
    "sources recipes",
    "ingest",
    "pools quality",
    "search",
    "mining serving",
    "vectors",
    "samples",
    "runs",
    "records export tokens",
    "corpus",
    "report adapters cli",
    "doors",
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}
LAZY = {
    ("duckplets.runs.sampler", "duckplets.adapters.huggingface"),  # ``Sampler.to_hf`` needs both
    ("duckplets.corpus.corpus", "duckplets.adapters.evaluation"),  # ``Corpus.evaluator``
    ("duckplets.corpus.corpus", "duckplets.report"),  # ``Corpus.report`` shows all there is
    ("duckplets.order.mixture", "duckplets.adapters.training_files"),  # ``Mixture.from_toml``
    ("duckplets.runs.forecast", "duckplets.report.plots"),  # ``Forecast.plot`` draws by these
    ("duckplets.cli.app", "duckplets"),  # the version
}

FILES = {
    ".".join(["duckplets", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): file
    for file in PACKAGE.rglob("*.py")
}


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(file: Path) -> set[str]:
    """Return the modules of the package that a file imports anywhere, for type checkers too."""
    found = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in FILES}
        elif isinstance(node, ast.ImportFrom) and str(node.module) in FILES:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in FILES else str(node.module))
    return found


def room_of(name: str) -> str:
    """Return the folder of a module; ``doors`` stands for all that lie in none."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else "doors"


def is_below(name: str, other: str) -> bool:
    """Whether a module may import another one."""
    room, below = room_of(name), room_of(other)
    return room == below or FLOOR_OF[below] < FLOOR_OF[room] or other == "duckplets.errors"


def test_every_folder_has_its_floor() -> None:
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert folders == FLOOR_OF.keys() - {"doors"}


def test_rooms_import_from_the_floors_below_them() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, file in FILES.items()
        for other in imported(file)
        if not is_below(name, other) and (name, other) not in LAZY
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for name, file in FILES.items():
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert not {name: found for name, found in homes.items() if len(found) > 1}
