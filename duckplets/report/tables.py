"""Make the tables of the report, each with its SQL for the duckdb CLI."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from duckplets.base.sanitize import counted
from duckplets.corpus import status
from duckplets.db.queries import Value, bound, query
from duckplets.quality.metrics import ON_PAGE
from duckplets.quality.pii import redacted
from duckplets.report.plots import Plot, bars

if TYPE_CHECKING:
    from duckplets.corpus.status import Status
    from duckplets.db.database import Database

MOST = 500
"""Rows of a table on the page; its statement has no such limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of plain values, and the statement or Python call that made them."""

    # The form is ``cards`` for samples, ``sizes`` for numbers, ``commands`` for sentences with
    # commands.

    title: str
    columns: list[str]
    rows: list[list[Any]]
    total: int
    made_by: str
    of: Literal["corpus", "python"] = "corpus"
    note: str = ""
    plot: Plot | None = None
    form: Literal["table", "cards", "sizes", "commands"] = "table"

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the drawing as JSON values."""
        names = ("title", "columns", "rows", "total", "made_by", "of", "note")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A section of the page; ``notes`` explain missing tables."""

    name: str
    title: str
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the section as plain JSON values."""
        head = {"name": self.name, "title": self.title, "notes": self.notes}
        return head | {"tables": [table.to_dict() for table in self.tables]}


def selected(
    database: Database,
    title: str,
    statement: str,
    parameters: Mapping[str, Value] | None = None,
    *,
    most: int = MOST,
    **how: Any,
) -> Table:
    """Run a named statement and return its rows as a table."""
    sql = bound(query(statement), parameters or {})
    found = database.arrow(sql)
    names = found.column_names
    rows = [[row[name] for name in names] for row in found.slice(0, most).to_pylist()]
    return table_of(title, names, rows, sql, total=found.num_rows, most=most, **how)


def table_of(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    made_by: str,
    *,
    total: int | None = None,
    most: int = MOST,
    **how: Any,
) -> Table:
    """Return a table of any values, converted to plain ones."""
    return Table(
        title=title,
        columns=list(columns),
        rows=[[plain(value) for value in row] for row in rows[:most]],
        total=len(rows) if total is None else total,
        made_by=made_by.strip(),
        **how,
    )


def plain(value: Any) -> Any:
    """Return a value as JSON; NaN and infinity become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value  # a datetime is a date


# -- the corpus -----------------------------------------------------------------------------------

_PERSONAL = ("email", "phone", "ssn", "ipv4", "card")
_POOLS = 24  # pools with their statement on the page
_DRAWN = 8  # sources or minings with their own drawing
_READ = 1_000_000  # rows sampled for metrics or scores


def corpus(database: Database, found: Status) -> Section:
    """Report sources, splits, roles, lengths, and skipped rows."""
    lengths = selected(database, "Section lengths in tokens", "report/stored/lengths")
    columns = ("name", "kind", "trust", "weight", "records", "sections", "chunks", "tokens")
    counts = query("corpus/status/sources").strip()
    sources = query("report/sources").replace("found_list", f"(\n{counts}\n)")
    tables = [
        _of_status("Sources", columns, found["sources"], sources),
        _of_status(
            "Records by split",
            ("source", "split", "records"),
            found["records"],
            query("corpus/status/splits"),
        ),
        selected(database, "Sections by split and role", "report/stored/roles"),
        *(
            [selected(database, "Collections", "corpus/status/collections")]
            if found["collections"]
            else []
        ),
        *_by_source(lengths),
    ]
    if found["splits"]:
        shared = [{"split": name, **counts} for name, counts in found["shared_anchors"].items()]
        tables.append(
            _of_status(
                "Anchors shared across splits",
                ("split", "anchors", "shared"),
                shared,
                query("ingest/splits/shared_anchors"),
                note="Anchors of validation and test, and the number also in train.",
            )
        )
    tables.append(selected(database, "Rows left out, by reason", "report/stored/left_out"))
    tables.append(selected(database, "Quarantined rows", "report/stored/quarantined"))
    return Section(name="corpus", title="Corpus", tables=tables)


def _of_status(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    made_by: str,
    **how: Any,
) -> Table:
    """Return rows of the status, with the statement that counts them."""
    cells = [[row[name] for name in columns] for row in rows]
    return table_of(title, columns, cells, made_by, **how)


def _powers(title: str, rows: list[dict[str, Any]], *, x: str, y: str) -> Plot:
    found = {row["at_least"]: row[y] for row in rows if row["at_least"] is not None}
    ends = range(min(found).bit_length() - 1, max(found).bit_length()) if found else range(0)
    values = {_between(1 << power): found.get(1 << power, 0) for power in ends}
    without = [row[y] for row in rows if row["at_least"] is None]
    values |= {"none": without[0]} if without else {}
    return bars(title, list(values), {y: list(values.values())}, x=x, y=y)


def _between(low: int) -> str:
    return f"{low:,}" if low == 1 else f"{low:,}–{2 * low - 1:,}"


def _by_source(table: Table) -> list[Table]:
    """Split a table of lengths by source, with a plot each; one table for many sources."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in table.records():
        groups.setdefault(row["source"], []).append(row)
    if len(groups) > _DRAWN:
        return [table]
    only = query("report/only").replace("found_list", f"(\n{table.made_by}\n)")
    return [
        replace(
            table,
            title=f"{table.title}: {name}",
            rows=[list(row.values()) for row in rows],
            total=len(rows),
            made_by=bound(only, {"value": name}),
            plot=_powers(f"Section lengths of {name}", rows, x="tokens", y="sections"),
        )
        for name, rows in groups.items()
    ] or [table]


# -- recipes ------------------------------------------------------------------------------------


def pools(database: Database, found: Status) -> list[Table]:
    """Report drawn and excluded anchors of each recipe, by reason; no table without counts."""
    if not found["pools"]:
        return []
    by_recipe: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for pool, row in zip(status.pools_of(database), found["pools"], strict=True):
        by_recipe.setdefault(pool.recipe.name, []).append((pool, row))
    tables = []
    for name, several in by_recipe.items():
        shown = several[:_POOLS]
        counts = [
            [row["source"], row["split"], reason, n]
            for _, row in shown
            for reason, n in [(None, row["anchors"]), *row["left_out"].items()]
            if n
        ]
        statements = [_counts(pool) for pool, _ in shown]
        more = len(several) - len(shown)
        note = "Anchors without a reason are drawn."
        if more:
            note += f" duckplets status shows {counted(more, 'further pool')}."
        columns = ("source", "split", "left_out", "anchors")
        made_by = "\nUNION ALL\n".join(statements)
        tables.append(table_of(f"Anchors of {name}", columns, counts, made_by, note=note))
    return tables


def _counts(pool: Any) -> str:
    counts = bound(pool.sql("counts"), pool.parameters).strip()
    where = {name: pool.parameters[name] for name in ("source", "split")}
    text = bound(query("report/pool").replace("found_list", f"(\n{counts}\n)"), where)
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


# -- mined negatives ----------------------------------------------------------------------------


def mined(database: Database, found: Status) -> Section:
    """Report the hardness of mined negatives: scores, ranks, guards, short anchors."""
    minings = selected(database, "Minings", "report/mined/minings")
    stale = [row for row in found["mining"] if row["stale"]]
    notes = [f"{r['recipe']}, {r['source']}, {r['split']}: {r['stale']}" for r in stale]
    section = Section(name="mined", title="Mined negatives", notes=notes)
    if not minings.rows:
        section.notes.append("No negatives are mined: duckplets mine finds hard negatives.")
        return section
    section.tables.append(minings)
    section.tables.append(selected(database, "Anchors by outcome", "report/mined/outcomes"))
    section.tables.append(selected(database, "Candidates by guard", "report/mined/guards"))
    for row in minings.records()[:_DRAWN]:
        section.tables.extend(_mining(database, row))
    if minings.total > _DRAWN:
        section.notes.append(f"Plots show the scores of {_DRAWN} of {minings.total} minings.")
    return section


def _mining(database: Database, row: dict[str, Any]) -> list[Table]:
    name = f"{row['recipe']}, {row['source']}, {row['split']}, {row['scorer']}"
    every = 1 + row["candidates"] // _READ
    key = {"mining": row["mining"]}
    title = f"Scores of mined negatives: {name}"
    scores = selected(database, title, "report/mined/scores", key | {"every": every})
    ranks = selected(database, f"Rank of the positive: {name}", "report/mined/ranks", key)
    records = scores.records()
    values = {side: [each[side] for each in records] for side in ("positives", "negatives")}
    labels = [f"{each['at_least']:.3g}" for each in records]
    drawn = bars(scores.title, labels, values, x="score", y="pairs")
    note = f"One anchor in {every} is counted." if every > 1 else ""
    return [
        replace(scores, plot=drawn, note=note),
        replace(ranks, plot=_powers(ranks.title, ranks.records(), x="rank", y="anchors")),
    ]


# -- gates --------------------------------------------------------------------------------------


def gates(database: Database, cut: int) -> Section:
    """Report the outcomes of rows in gates, with examples and metrics."""
    section = Section(name="gates", title="Quality gates")
    outcomes = selected(database, "Rows by outcome, gate and rule", "report/gates/outcomes")
    if not outcomes.rows:
        section.notes.append("No row passed through gates.")
        return section
    every = 1 + sum(row["rows"] for row in outcomes.records()) // _READ
    examples = selected(database, "Examples", "report/gates/examples", {"each": 3, "cut": cut})
    texts = pa.array([row[-1] or "" for row in examples.rows], pa.string())
    clean = redacted(texts, _PERSONAL).to_pylist()
    for row, text in zip(examples.rows, clean, strict=True):
        row[-1] = None if row[-1] is None else text
    note = (
        "Personal data is replaced by its kind, as in [EMAIL]; the statement shows the original. A "
        "row without a text has no stored text."
    )
    sample = {"every": every, "names": [*ON_PAGE]}
    metrics = selected(database, "Metrics", "report/gates/metrics", sample)
    meanings = "; ".join(f"{name} {meaning}" for name, meaning in ON_PAGE.items())
    tables = [
        outcomes,
        replace(examples, note=note),
        selected(database, "Languages", "report/gates/languages"),
        replace(metrics, note=f"From one row in {every}: {meanings}."),
    ]
    section.tables.extend(tables)
    return section
