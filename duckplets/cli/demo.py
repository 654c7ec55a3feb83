"""The command `demo`: do the main job, end to end, and print what came of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckplets.cli.app import say
from duckplets.errors import MigrationError

if TYPE_CHECKING:
    from duckplets.sampling.batch import Batch

_SHOWN = 3
_WIDTH = 88


def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the corpus, in a new file.")
    ] = None,
) -> None:
    """Do the main job on text that every Python ships: ingest, split, mine, sample, save, resume.

    The corpus is made in a temporary folder, unless it is to be kept.

    Example:
        duckplets demo --keep demo.duckdb
    """
    if keep is not None:
        if keep.exists():
            raise MigrationError(f"{keep} exists; give --keep the path of a new file")
        _walk(keep)
        _show_next(str(keep))
        return
    with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
        _walk(Path(folder) / "demo.duckdb")
    print("The corpus is gone again; keep it with: duckplets demo --keep demo.duckdb")
    _show_next("demo.duckdb")


def _walk(path: Path) -> None:
    from duckplets.demo import walk

    found = walk(path, say)
    _show_triplets(found.batch)
    if not found.equal:
        say("error: the resumed run gave another batch; please report this")
        raise typer.Exit(1)


def _show_triplets(batch: Batch) -> None:
    for i, row in enumerate(batch.table.slice(0, _SHOWN).to_pylist()):
        print(f"\ntriplet {i + 1}, source {row['source']}, recipe {row['recipe']}")
        for slot in ("anchor", "positive", "negative"):
            print(f"  {slot:<9} {_shortened(row[slot])}")
        score = row["negative_score"]
        how = f"{row['negative_by']}, score {score:.2f}" if score else row["negative_by"]
        print(f"  chosen by {how}")
    print()


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1].rstrip() + "…"


def _show_next(corpus: str) -> None:
    print("What to do next:")
    print(f"  duckplets status {corpus}")
    print(f"  duckplets sample {corpus} --batch-size 4")
    print(f"  duckplets search {corpus} 'sort a list'")
    print(f"  duckplets sql {corpus} anchor_context --source docstrings")
    print("and with text of your own:")
    print("  duckplets ingest faq.duckdb faq.csv --anchor question --positive answer")
    print("  duckplets split faq.duckdb")
    print("  duckplets sample faq.duckdb --steps 10 --save --out first.parquet")
