"""Tell which records are of one family: of a group, of one text, or of one value of theirs."""

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

    def __init__(self, database: Database, of: str, where: Mapping[str, Any]) -> None:
        rows = values(database, of, where, "no_duplicates")
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
    database: Database, of: str, where: Mapping[str, Any], argument: str, what: str = _GIVEN
) -> pa.Table:
    """Return ``record_key``, the hash of its family and, of a value, the value's place.

    ``what`` is another statement for what is known of a value.
    """
    asked = f"{argument}={of!r}"
    try:
        with database.deadline(asked):
            rows = database.arrow(statement(of, argument, what), where)
    except DeadlineError:
        raise
    except QueryError as error:  # of a value, such as a cast that fails
        raise SamplerError(str(error)) from error
    if of != "group" and not rows.num_rows:
        raise SamplerError(
            f"{asked}: no record of split {where['split']!r} has such a value; give another one, "
            f"or leave it out"
        )
    return rows


def statement(of: str, argument: str = "no_duplicates", what: str = _GIVEN) -> str:
    """Return the statement that finds families: by ``group``, or by a value of records.

    Raises:
        SamplerError: It is no value of records.
    """
    if of == "group" and argument == "no_duplicates":
        return query("ingest/families/groups")
    try:
        value = _value(of)
    except RecipeError as error:
        raise SamplerError(
            f"{argument}={of!r}: give {_CHOICES[argument]}, or a value of records such as "
            f"\"meta['entity']\"; {error}"
        ) from error
    return query(what).replace("family_value", value)


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
