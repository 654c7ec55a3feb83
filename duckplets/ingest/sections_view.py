"""Build the view ``sections``, which reads every text where it is: corpus or file."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.duckdb import DuckDB

from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.queries import query

_VIEW = "sections"
# White space of Python's str.isspace; RE2's \s is ASCII only.
_FILLED = (
    r"[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)


def refresh(database: Database, without: Collection[int] = ()) -> None:
    """Make the view again for the recorded files."""
    files = [row for row in database.run("ingest/external_text/files") if row[0] not in without]
    view: exp.Query = parse_one(
        query("ingest/external_text/inside"), into=exp.Select, dialect=DuckDB
    )
    if files:
        view = view.where(exp.column("file_key").is_(exp.null()))
    if own := [str(row[2]) for row in files if row[2].startswith(external_files.OWN)]:
        view = exp.union(view, _filled("own", own, {}), distinct=False)
    for run in _runs([row for row in files if not row[2].startswith(external_files.OWN)]):
        values = {
            "first_key": exp.Literal.number(run[0][0]),
            "last_key": exp.Literal.number(run[-1][0]),
            "cell_text": _text(json.loads(run[0][-1])),
        }
        of_run = _filled("outside", [str(row[2]) for row in run], values)
        view = exp.union(view, of_run, distinct=False)
    made = exp.Create(this=exp.to_table(_VIEW), kind="VIEW", replace=True, expression=view)
    comments = database.run("ingest/external_text/comments")  # dropped with the old view
    database.rows(made.sql(dialect=DuckDB, comments=False))
    for name, comment in comments:
        target = exp.to_table(_VIEW) if name is None else exp.column(name, table=_VIEW)
        kind, text = "VIEW" if name is None else "COLUMN", exp.Literal.string(comment)
        statement = exp.Comment(this=target, kind=kind, expression=text)
        database.rows(statement.sql(dialect=DuckDB))


def forget_unused(database: Database) -> None:
    """Forget files that no section needs."""
    if database.run("ingest/external_text/forget_unused")[0][0]:
        refresh(database)


def complete(database: Database, corpus: Path) -> None:
    """Make the view of a copy of a corpus, for the files that it still needs."""
    database.run("ingest/external_text/forget_unused")
    paths = [
        external_files.located(row[0], corpus) for row in database.run("db/external_files/files")
    ]
    if paths:
        database.allow(paths)
        database.run("db/external_files/texts", {"folder": external_files.texts_of(corpus)})
        refresh(database)


def _runs(files: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Group files with equal columns and adjacent keys."""
    ends = [0]
    for (key, *_, columns), (after, *_, others) in pairwise(files):
        ends.append(ends[-1] + (after != key + 1 or columns != others))
    numbered = groupby(zip(ends, files, strict=False), key=lambda pair: pair[0])
    return [[file for _, file in run] for _, run in numbered]


def _filled(name: str, files: Sequence[str], values: Mapping[str, exp.Expr]) -> exp.Select:
    """Return a statement with the files and further values in their places."""
    select = parse_one(query(f"ingest/external_text/{name}"), into=exp.Select, dialect=DuckDB)
    paths = exp.Array(expressions=[_place(file) for file in files])
    plain = exp.EQ(this=exp.to_identifier("hive_partitioning"), expression=exp.false())
    cells = exp.Table(
        this=_call("read_parquet", paths, plain),
        alias=exp.TableAlias(this=exp.to_identifier("cells")),
    )
    for table in list(select.find_all(exp.Table)):
        if table.name == "cells":
            table.replace(cells)
    values = {"paths": paths, **values}
    for column in list(select.find_all(exp.Column)):
        if not column.table and column.name in values:
            column.replace(values[column.name].copy())
    return select


def _place(path: str) -> exp.Expr:
    """Return the path of a file as the view has it."""
    if path.startswith(external_files.OWN):
        name = path.removeprefix(external_files.OWN)
        return _call("_internal.in_texts", exp.Literal.string(name))
    if os.path.isabs(path):
        return exp.Literal.string(path)
    return _call("_internal.beside_corpus", exp.Literal.string(path))


def _text(columns: Sequence[tuple[str, str, bool]]) -> exp.Expr:
    """Return the expression of a section's text, by heading, from the cells of its row."""
    case = exp.case(exp.column("heading", table="stored"))
    for heading, name, is_list in columns:
        cell: exp.Expr = exp.column(name, table="cells", quoted=True)
        if is_list:  # [x FOR x IN cell IF it has more than white space]
            loop = exp.Comprehension(
                this=exp.column("x"), expression=exp.to_identifier("x"), iterator=cell
            )
            filled = _call("regexp_matches", exp.column("x"), exp.Literal.string(_FILLED))
            loop.set("condition", filled)
            texts = exp.Array(expressions=[loop])
            cell = _call("list_extract", texts, exp.column("item", table="stored"))
        case = case.when(exp.Literal.string(heading), exp.cast(cell, "VARCHAR"))
    return case


def _call(function: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a function by exactly this name."""
    # Anonymous, so that sqlglot keeps the name and leaves JSON pointers alone.
    return exp.Anonymous(this=function, expressions=list(arguments))
