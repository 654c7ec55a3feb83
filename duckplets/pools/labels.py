"""Tell which sources have labels, and of which kind: a property of their records at a version."""

from __future__ import annotations

from typing import Literal

from duckplets.db.database import Database

Kinds = dict[str, Literal["binary", "graded"]]
"""By the name of each source with labels: ``graded`` where some are neither 0 nor 1."""


def labels_of(database: Database, version: int) -> Kinds:
    """Return the sources that have labels at a version, and of which kind these are."""
    found = database.run("pools/lists/labels", {"version": version})
    return {source: "graded" if graded else "binary" for source, graded in found}
