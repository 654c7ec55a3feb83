"""Read the shards of a data set, in order, as blocks of rows with places to go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.errors import SourceError
from duckplets.sources import row_batches
from duckplets.sources.files import called
from duckplets.sources.formats import columnar, csv_file, json_file
from duckplets.sources.limits import limits_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import known_fields, require_texts, resolve
from duckplets.sources.remote.download import imported
from duckplets.sources.remote.layout import form_of
from duckplets.sources.rows import RowBlock
from duckplets.sources.typed import (
    Classes,
    blocks_of,
    classes_of_features,
    classes_of_schema,
    names_of,
    with_classes,
)

if TYPE_CHECKING:
    from duckplets.db.database import Database

_Read = Callable[[list[str], int], Iterator[RowBlock]]
"""Yields the rows of some columns, perhaps but for so many at the beginning."""

_LINES = ("lines", "json")  # the forms that are lines of JSON; the others have columns
_SLICE = 1_024  # rows of a block; marks fall between blocks
_ROWS = 1_000  # of what datasets reads, at a time


def shard_blocks(
    reader: Database, file: str, here: Path, uri: str, mapping: Mapped, classes: Classes, skip: int
) -> Iterator[RowBlock]:
    """Yield the rows of a shard that has arrived, from one on, each block with its place.

    Args:
        reader: An instance to run statements in.
        file: Its path in the repository.
        here: Where it lies.
        uri: Of the data set, for messages.
        mapping: Which column plays which part.
        classes: The names of classes that the card has.
        skip: Rows that are done.
    """
    form, shown, row, limits = form_of(file), f"{uri}: {file}", 0, limits_of(reader)
    with called(here, shown):
        if form in _LINES:
            blocks: Iterator[RowBlock] = json_file.blocks_of(here, limits)
            blocks = (b._replace(rows=with_classes(b.rows, classes)) for b in blocks)
        else:
            names, own, read = _opened(reader, form, here, shown)
            if len(names) > limits.columns:
                raise limits.exceeded(shown, f"{len(names):,} columns, more", "columns")
            require_texts(mapping, names, shown, "HubSource")
            used, known = resolve(mapping, names, shown), known_fields(mapping)
            others = [name for name in names if name.lower() not in known] if known else []
            of_card = {n: c for n, c in classes.items() if n not in own}
            blocks = (
                b._replace(rows=with_classes(b.rows, of_card), columns=names, left_out=others)
                for b in read(used, skip)
            )
            if form == "parquet":
                row, skip = skip, 0
        for block in blocks:
            while block.rows:
                part = block._replace(rows=block.rows[: min(_SLICE, row_batches.MAX_ROWS)])
                block = block.after(len(part.rows))
                passed = min(skip, len(part.rows))
                row, skip = row + len(part.rows), skip - passed
                if passed < len(part.rows):
                    yield part.after(passed)._replace(file=file, at={"file": file, "row": row})


def _opened(
    reader: Database, form: str | None, here: Path, shown: str
) -> tuple[Sequence[str], Classes, _Read]:
    """Return the columns of a shard, the names of classes that it says itself, what reads it."""
    limits = limits_of(reader)
    if form == "parquet":
        schema = columnar.parquet_schema(here)
        own = classes_of_schema(schema)
        return (
            names_of(schema, shown),
            own,
            lambda used, skip: columnar.parquet_blocks(reader, here, used, skip),
        )
    if form == "arrow":
        schema = columnar.arrow_schema(here)
        own = classes_of_schema(schema)
        return (
            names_of(schema, shown),
            own,
            lambda used, _: columnar.arrow_blocks(here, used, limits),
        )
    if form == "csv":
        csv = csv_file.CsvSource(here, text="x")
        names = csv.header(here, limits)
        return names, {}, lambda used, _: csv.blocks(here, names, used, limits)
    return _by_datasets(here)


def _by_datasets(here: Path) -> tuple[Sequence[str], Classes, _Read]:
    """Open a shard of another form with the loader that ``datasets`` has for it, streaming.

    The loader is given the shard that has arrived, not the repository. Scripts are never run.

    Raises:
        SourceError: There is no loader for it, or the loader fails.
    """
    datasets = imported("datasets")
    with _told(here):
        found = datasets.load_dataset(
            str(here.parent), data_files={"train": [here.name]}, split="train", streaming=True
        )
        rows = found.with_format("arrow")
        first = next(iter(rows.iter(batch_size=1)), None)

    def blocks(used: list[str], _: int) -> Iterator[RowBlock]:
        with _told(here):
            for table in rows.iter(batch_size=_ROWS):
                batches = table.combine_chunks().to_batches()
                classes = classes_of_features(found.features)
                yield from blocks_of(batches, str(here), columns=used, classes=classes)

    return [] if first is None else first.schema.names, {}, blocks


@contextmanager
def _told(here: Path) -> Iterator[None]:
    """Turn whatever a loader raises into one sentence."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        lines = (line.strip() for line in str(error).splitlines() if line.strip())
        said = ": ".join([type(error).__name__, *islice(lines, 1)])
        raise SourceError(f"{here} cannot be read by datasets either: {said}") from None
