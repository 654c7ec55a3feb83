"""Find the family of each record: its group, its text, or a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Keys, Words
from duckplets.conditions.costs import LONG_COLUMNS
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import DeadlineError, QueryError, RecipeError, SamplerError
from duckplets.order.permute import mix

_COLUMNS = (
    *("record_id", "date", "group_key", "taxonomy", "meta", "trust", "created_at", "updated_at"),
    *("source", "label"),
)
_GIVEN = "ingest/families/given"
_CHOICES = {
    "no_duplicates": "True, False, 'negatives', 'group'",
    "batch_by": "'source', 'recipe', 'length'",
    "column": "one or two names",
    "order_by": "a number or a date",
}


class Families:
    """The families of the records of a split, as of a version.

    Raises:
        SamplerError: No record has the value, or it cannot be computed.
        DeadlineError: It takes too long.
    """

    def __init__(self, database: Database, family: str, where: Mapping[str, Any]) -> None:
        rows = values(database, family, where, "no_duplicates")
        self._keys = rows["record_key"].to_numpy()  # ascending
        self._words = rows["family"].to_numpy()

    def of(self, records: Keys) -> Words:
        """Return the hash of the family of each record; one without a value is its own."""
        own = mix(records.astype(np.uint64))
        if not len(self._keys):  # a split without records
            return own
        at = np.minimum(np.searchsorted(self._keys, records), len(self._keys) - 1)
        return np.where(self._keys[at] == records, self._words[at], own)


def values(
    database: Database, family: str, where: Mapping[str, Any], argument: str, name: str = _GIVEN
) -> pa.Table:
    """Return ``record_key`` and the columns of the statement ``name``.

    Without another name these are the hash of the family, and the rank of the value.
    """
    asked = f"{argument}={family!r}"
    try:
        with database.deadline(asked):
            rows = database.arrow(statement(family, argument, name), where)
    except DeadlineError:
        raise
    except QueryError as error:  # of a value, such as a cast that fails
        raise SamplerError(str(error)) from error
    if family != "group" and not rows.num_rows:
        raise SamplerError(
            f"{asked}: no record of split {where['split']!r} has such a value; give another one, "
            f"or leave it out"
        )
    return rows


def statement(family: str, argument: str = "no_duplicates", name: str = _GIVEN) -> str:
    """Return the statement that finds families: by ``group``, or by a value of records.

    Raises:
        SamplerError: It is no value of records.
    """
    rows = f"(\n{query('ingest/families/records')}\n)"
    if family == "group" and argument == "no_duplicates":
        return query("ingest/families/groups").replace("split_records", rows)
    try:
        value = _value(family)
    except RecipeError as error:
        raise SamplerError(
            f"{argument}={family!r}: give {_CHOICES[argument]}, or a value of records such as "
            f"\"meta['entity']\"; {error}"
        ) from error
    return query(name).replace("split_records", rows).replace("family_value", value)


def _value(text: str) -> str:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    from duckplets.conditions.parse import free_condition

    columns = {name: name in LONG_COLUMNS for name in _COLUMNS}
    tree = free_condition(f"({text}) IS NOT NULL", columns)
    whole = tree.this.this if isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) else None
    if not isinstance(whole, exp.Paren):  # a text that closes the parenthesis
        raise RecipeError(f"{text!r} is not one value")
    return str(whole.this.sql(dialect=DuckDB))
