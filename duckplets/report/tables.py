"""Hold what a report tells: sections of tables, each with the SQL that made it.

Statements are shown and run in one form, with their parameters written in: what stands on the page
is what was run, and the duckdb CLI runs it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from duckplets.db.queries import query
from duckplets.pools.steps import bound

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.report.plots import Plot

MOST = 500
"""Rows of a table on the page; its statement has no such limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows with what made them.

    Attributes:
        title: What they are.
        columns: Names of the columns.
        rows: Plain values, the first ``MOST`` unless more are asked for.
        total: How many rows there are.
        made_by: The statement, or a call in Python.
        of: What the statement is run in: the corpus, the state file, or Python.
        note: What is to be known of them.
        plot: The same as a drawing.
        form: ``cards`` for samples side by side, a row for each text of a sample.
    """

    title: str
    columns: list[str]
    rows: list[list[Any]]
    total: int
    made_by: str
    of: Literal["corpus", "state", "python"] = "corpus"
    note: str = ""
    plot: Plot | None = None
    form: Literal["table", "cards"] = "table"

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return all but the drawing, as JSON has it."""
        names = ("title", "columns", "rows", "total", "made_by", "of", "note")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        name: Its anchor.
        title: Its heading.
        notes: Sentences on what is not there, and why.
        tables: What is there.
    """

    name: str
    title: str
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def asked(
    database: Database,
    title: str,
    statement: str,
    parameters: Mapping[str, int | str] | None = None,
    *,
    most: int = MOST,
    **how: Any,
) -> Table:
    """Run a named statement and return its rows.

    Args:
        database: The corpus, or a state file.
        title: Of the table.
        statement: Its name.
        parameters: Written into it.
        most: Rows of the table.
        how: Further attributes of the table.
    """
    sql = bound(query(statement), parameters or {})
    found = database.arrow(sql)
    names = found.column_names
    rows = [[row[name] for name in names] for row in found.slice(0, most).to_pylist()]
    return told(title, names, rows, sql, total=found.num_rows, most=most, **how)


def told(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    made_by: str,
    *,
    total: int | None = None,
    most: int = MOST,
    **how: Any,
) -> Table:
    """Return a table of any values, which become plain."""
    return Table(
        title=title,
        columns=list(columns),
        rows=[[plain(value) for value in row] for row in rows[:most]],
        total=len(rows) if total is None else total,
        made_by=made_by.strip(),
        **how,
    )


def plain(value: Any) -> Any:
    """Return a value as JSON has it; a number that is none becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value  # datetimes are dates
