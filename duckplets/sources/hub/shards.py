"""The rows of one shard as pieces of input, from any row on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from duckplets.errors import SourceError
from duckplets.sources import arrow_file, csv_file, json_file, parquet_file
from duckplets.sources.base import Mapped, require_texts, resolve
from duckplets.sources.feed import pick
from duckplets.sources.hub.other_forms import OtherForm
from duckplets.sources.labels import Labels, named, of_schema

if TYPE_CHECKING:
    from duckplets.db.database import Database

LINES = ("lines", "json")
"""The forms that are lines of JSON; the others have columns."""

_SLICE = 8_192  # rows of a piece; marks fall between pieces


class Shard:
    """A shard that has arrived.

    Args:
        path: Where it lies.
        form: How it is read, a key of ``layout.FORMS``; nothing for one that is not read here.
        shown: Its name, for messages, instead of the path in the cache.
    """

    def __init__(self, path: Path, form: str | None, shown: str) -> None:
        self.path, self.form, self.shown = path, form, shown
        self._other: OtherForm | None = None

    def typed(self, mapping: Mapped, labels: Labels, skip: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the mapping's names as ``c0, c1, …``, classes by their names.

        Args:
            mapping: Which column plays which part.
            labels: The classes' names as the card has them; the shard's own come first.
            skip: How many rows to leave out at the beginning.
        """
        try:
            schema = self._schema(mapping)
            require_texts(mapping, schema.names, self.shown, "HubSource")
            places = resolve(mapping, schema.names, self.shown)
            labels = labels | (self._other.labels() if self._other else of_schema(schema))
            columns = [schema.names[place] for place in places]
            classes = [labels.get(column) for column in columns]
            for piece in self._pieces(mapping, places, schema.names, skip):
                yield named(piece, classes, columns)
        except SourceError as error:
            raise self._renamed(error) from error

    def lines(self, reader: Database, skip: int) -> Iterator[pa.RecordBatch]:
        """Yield lines of JSON.

        Args:
            reader: An instance to run statements in.
            skip: How many lines to leave out at the beginning.
        """
        try:
            for piece in _after(json_file.pieces_of(reader, self.path), skip):
                yield from _cut(piece)
        except SourceError as error:
            raise self._renamed(error) from error

    def _renamed(self, error: SourceError) -> SourceError:
        return SourceError(str(error).replace(str(self.path), self.shown))

    def _schema(self, mapping: Mapped) -> pa.Schema:
        if self.form == "parquet":
            with parquet_file.opened(self.path) as parquet:
                return parquet.schema_arrow
        if self.form == "arrow":
            return next(arrow_file.schema_and_batches(self.path))
        if self.form == "csv":
            names = self._csv(mapping)._header(self.path)
            return pa.schema([(name, pa.string()) for name in names])
        self._other = OtherForm(self.path)
        return self._other.schema

    def _csv(self, mapping: Mapped) -> csv_file.CsvSource:
        return csv_file.CsvSource(
            self.path, **{f.name: getattr(mapping, f.name) for f in fields(mapping)}
        )

    def _pieces(
        self, mapping: Mapped, places: list[int], names: list[str], skip: int
    ) -> Iterator[pa.RecordBatch]:
        if self.form == "parquet":
            yield from _parquet(self.path, places, skip)
            return
        if self.form == "arrow":
            pieces = arrow_file.pieces_of(self.path, places)
        elif self._other:
            pieces = self._other.pieces(places)
        else:
            pieces = self._csv(mapping)._pieces(self.path, names, places)
        for piece in _after(pieces, skip):
            yield from _cut(piece)


def _parquet(path: Path, places: list[int], skip: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows after the first ``skip``; whole row groups before are not decoded."""
    with parquet_file.opened(path) as parquet:
        names = [parquet.schema_arrow.names[place] for place in places]
        for group in range(parquet.metadata.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if skip >= rows:
                skip -= rows
                continue
            yield from _after(_group(parquet, group, names), skip)
            skip = 0


def _group(parquet: pq.ParquetFile, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    rows = parquet_file.batch_rows(parquet, group, names)
    wanted = list(dict.fromkeys(names))
    for batch in parquet.iter_batches(rows, row_groups=[group], columns=wanted):
        yield pick(batch, [batch.schema.names.index(name) for name in names])


def _after(pieces: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Yield what comes after the first ``skip`` rows of pieces."""
    for piece in pieces:
        if skip < piece.num_rows:
            yield piece.slice(skip)
        skip = max(skip - piece.num_rows, 0)


def _cut(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, piece.num_rows, _SLICE):
        yield piece.slice(start, _SLICE)
