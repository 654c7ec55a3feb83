"""Read data sets of the ``datasets`` library, in memory or streaming, into rows and marks.

    Dataset          rows by number: an ingest goes on at the row it stopped at
    IterableDataset  rows in their order: it goes on from the data set's own state_dict

One that is shuffled as it streams has no place to go on from, and is ingested in one piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.columns import portions
from duckplets.sources.labels import Labels, named, of_features
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import Columns, Mapped, TextOf, Turns
from duckplets.sources.mapping_checks import LabelNames, OnBadDate, OnError
from duckplets.sources.row_batches import gather, pick, run, table_bytes
from duckplets.sources.rows import MAX_BYTES, Mark, Rows, checked_cursor

if TYPE_CHECKING:
    from duckplets.db.database import Database

_PLACE = {"state": (dict, None), "skip": range(1 << 63), "done": range(1 << 63)}
_ROWS = 1_000  # of a batch at first; later as many as make a few megabytes


class DatasetSource:
    """A ``datasets.Dataset`` or ``datasets.IterableDataset``.

    Columns that are a ``ClassLabel`` hold the names of the classes. Of a data set in memory, and
    of one that streams unshuffled, an ingest that stops half-way goes on at the row it stopped
    at, when the same data set is given again.

    Args:
        dataset: The data set.
        anchor: Column with the anchor text (or candidates, in order).
        positive: Column with the text that belongs to the anchor (or candidates, in order).
        context: Columns with further texts, all required.
        negative: Columns with ready negatives of the anchor, or lists of them.
        label: Column that judges the pair of anchor and positive; see ``Mapped``.
        labels: What its values mean, where they are names of your own.
        text: Column with the only text of the row (or candidates), instead of an anchor.
        sections: Column with sections given whole, besides other columns or instead of them.
        text_of: ``json`` takes the JSON of what is no text; by default its row fails.
        id: Column that identifies a row; without one the content does.
        date: Column with a date.
        created_at: Column with the time the record was made.
        updated_at: Column with the time it was last changed.
        group: Column whose equal values keep rows in one split.
        taxonomy: Columns with the row's categories, from broad to narrow.
        meta: Columns kept as metadata.
        prefix: Column with the record's own metadata prefix.
        trust: Trust in the source, from 0 to 1, or the column that says it per row.
        converter: Converter of instruction data, instead of columns of texts; see ``Mapped``.
        turns: Which replies of a conversation make a pair; see ``Mapped``.
        on_error: What becomes of a row that cannot be used; see ``Mapped``.
        date_format: How dates are written; see ``Mapped``.
        on_bad_date: What becomes of a row whose date cannot be read; see ``Mapped``.
        null_values: Words for no value; see ``Mapped``.

    Raises:
        SourceError: It is no such data set, or an argument is wrong.
    """

    kind: ClassVar[str] = "dataset"

    def __new__(cls, dataset: Any, **mapping: Any) -> DatasetSource:
        """Return one that can go on where the data set can."""
        can = cls is DatasetSource and not _is_shuffled(dataset)
        return object.__new__(_Resumable if can else cls)

    def __init__(
        self,
        dataset: Any,
        *,
        anchor: Columns = None,
        positive: Columns = None,
        context: Columns = None,
        negative: Columns = None,
        label: str | None = None,
        labels: LabelNames = None,
        text: Columns = None,
        sections: str | None = None,
        text_of: TextOf = None,
        id: str | None = None,  # noqa: A002 - the name it has in every source
        date: str | None = None,
        created_at: str | None = None,
        updated_at: str | None = None,
        group: str | None = None,
        taxonomy: Columns = None,
        meta: Columns = None,
        prefix: str | None = None,
        trust: float | str | None = None,
        converter: str | None = None,
        turns: Turns = "last",
        on_error: OnError | None = None,
        date_format: Columns = None,
        on_bad_date: OnBadDate = "null",
        null_values: str | Sequence[str] = (),
    ) -> None:
        if not hasattr(dataset, "with_format") or not hasattr(dataset, "features"):
            splits = list(dataset) if hasattr(dataset, "keys") else []
            more = f"; choose one of {', '.join(map(repr, splits))}" if splits else ""
            kind = type(dataset).__name__
            raise SourceError(f"a {kind} is no datasets.Dataset or IterableDataset{more}")
        self.dataset = dataset
        self.mapping = Mapped(
            anchor=anchor,
            positive=positive,
            context=context,
            negative=negative,
            label=label,
            labels=labels,
            text=text,
            sections=sections,
            text_of=text_of,
            id=id,
            date=date,
            created_at=created_at,
            updated_at=updated_at,
            group=group,
            taxonomy=taxonomy,
            meta=meta,
            prefix=prefix,
            trust=trust,
            converter=converter,
            turns=turns,
            on_error=on_error,
            date_format=date_format,
            on_bad_date=on_bad_date,
            null_values=null_values,
        )

    @property
    def uri(self) -> str | None:
        """Nothing: where a data set came from, it does not say."""
        return None

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column that says it per row."""
        return self.mapping.trust

    @property
    def is_shuffled(self) -> bool:
        """Whether its order changes as it streams, so that there is no place to go on from."""
        return _is_shuffled(self.dataset)

    def default_name(self) -> str:
        """Return the name the data set was loaded by, else ``dataset``."""
        info = self.dataset.info
        name = str(info.dataset_name or info.builder_name or "dataset")
        return name.replace("/", "--")[:200] if name.isprintable() and name.strip() else "dataset"

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.dataset, made.mapping = self.dataset, self.mapping
        return made

    def described(self) -> dict[str, Any]:
        """Return what is set of the mapping, as plain JSON values."""
        return self.mapping.described()

    def open(self, reader: Database) -> Rows:
        """Check the columns, and return the rows.

        Raises:
            SourceError: A column is not there.
        """
        return self._opened(reader, None)

    def _opened(self, reader: Database, cursor: Any) -> Rows:
        reading = DataSetReading(self.dataset, self.mapping, f"data set {self.default_name()!r}")
        batches = reading.batches(reader, cursor)
        if self.dataset.features is not None:
            reading.places(list(self.dataset.features))
        total = None if _streams(self.dataset) else len(self.dataset)
        return Rows(batches, self.mapping.defaults(), total)


class _Resumable(DatasetSource):
    """One of which an ingest can go on."""

    def settings(self) -> dict[str, Any]:
        """Return what tells the data set and the mapping from others."""
        read = {part: list(names) for part, names in self.mapping.parts() if names}
        converted = {
            "converter": self.mapping.converter,
            "on_error": self.mapping.on_error or "raise",
        }
        text_of = {"text_of": "json"} if self.mapping.text_of == "json" else {}
        found = {"dataset": _identity(self.dataset), "mapping": read, **converted}
        return found | text_of

    def open_at(self, reader: Database, cursor: Any) -> Rows:
        """Open at a place; see ``open``.

        Args:
            reader: An instance to run statements in.
            cursor: Of a ``Mark``, or None for the beginning.
        """
        return self._opened(reader, cursor)


class DataSetReading:
    """How a data set is read: batches of it, the places between them, and rows.

    Args:
        dataset: With rows by number, or streaming.
        mapping: Which column plays which part.
        where: Its name, for messages.
    """

    def __init__(self, dataset: Any, mapping: Mapped, where: str) -> None:
        self._dataset = dataset
        self._mapping = mapping
        self._where = where
        self._labels: Labels = of_features(dataset.features)
        self._limits = Limits()
        self._firsts: list[int] = []
        self._states: list[Any] = []
        self._found: dict[tuple[str, ...], list[int]] = {}

    def batches(self, reader: Database, cursor: Any) -> Iterator[pa.RecordBatch | Mark]:
        """Yield batches of rows, each followed by a mark."""
        self._limits = limits_of(reader)
        place = checked_cursor(cursor, _PLACE, self._where) or {"state": None, "skip": 0, "done": 0}
        self._firsts, self._states = [place["done"] - place["skip"]], [place["state"]]
        tables = gather(self._pieces(place), table_bytes(self._mapping))
        for batch in run(reader, self._mapping, tables, self._where):
            yield batch
            yield Mark(self._cursor(batch["row"][-1].as_py()))

    def places(self, columns: list[str]) -> list[int]:
        """Return the places of the mapping's columns.

        Raises:
            SourceError: One is not there.
        """
        names = tuple(columns)
        if names not in self._found:
            require_texts(self._mapping, columns, self._where, "DatasetSource")
            self._found[names] = resolve(self._mapping, columns, self._where)
        return self._found[names]

    def _cursor(self, done: int) -> dict[str, Any]:
        """Return the state before the batch that holds the row after, and how far into it."""
        at = bisect_right(self._firsts, done) - 1
        del self._firsts[:at], self._states[:at]
        return {"state": self._states[0], "skip": done - self._firsts[0], "done": done}

    def _pieces(self, place: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        number, skip = place["done"] - place["skip"] + 1, place["skip"]
        where, limits = self._where, self._limits
        streams = _streams(self._dataset)
        tables = self._streamed(place["state"]) if streams else self._by_number(number - 1)
        for table in self._guarded(tables, number):
            for batch in table.combine_chunks().to_batches():
                part = batch.slice(skip)
                skip = max(skip - batch.num_rows, 0)
                first = number + batch.num_rows - part.num_rows
                number += batch.num_rows
                if part.num_rows:
                    names = part.schema.names
                    used = part.select(self.places(names))
                    for portion in portions(used, where, limits, first - 1):
                        yield from telling(self._mapping, names, [self._piece(portion, first)])
                        first += portion.num_rows

    def _piece(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        columns = batch.schema.names
        numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
        picked = pick(batch, range(len(columns)), self._where)
        piece = named(picked, [self._labels.get(c) for c in columns], columns)
        return piece.append_column("row", numbers)

    def _by_number(self, row: int) -> Iterator[pa.Table]:
        rows = self._dataset.with_format("arrow")
        count = _ROWS
        while row < len(rows):
            table = rows[row : row + count]
            yield table
            row += table.num_rows
            each = max(table.nbytes // max(table.num_rows, 1), 1)
            count = max(1, min(8 * _ROWS, MAX_BYTES // 8 // each))

    def _streamed(self, state: Any) -> Iterator[pa.Table]:
        # Without features datasets guesses the types of a batch's rows one by one, and fails
        # where they differ.
        known = self._dataset.features is not None
        rows = self._dataset.with_format("arrow" if known else None)
        done = self._firsts[0]
        if state is not None:
            rows.load_state_dict(state)
        for batch in rows.iter(batch_size=_ROWS):
            table = batch if known else pa.table(batch)
            yield table
            done += table.num_rows
            self._firsts.append(done)
            self._states.append(rows.state_dict())

    def _guarded(self, tables: Iterator[pa.Table], number: int) -> Iterator[pa.Table]:
        """Yield tables; what the data set's own code raises is told with the row."""
        try:
            for table in tables:
                number += table.num_rows
                yield table
        except SourceError:
            raise
        except Exception as error:
            said = str(error).strip().splitlines()
            reason = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
            raise SourceError(f"{self._where}, after row {number - 1}: {reason}") from error


def _streams(dataset: Any) -> bool:
    return hasattr(dataset, "load_state_dict")


def _is_shuffled(dataset: Any) -> bool:
    """Return whether a data set's order changes as it streams."""
    step = getattr(dataset, "_ex_iterable", None)
    steps = [step]
    while steps:
        step = steps.pop()
        if step is None:
            continue
        if "Shuffle" in type(step).__name__ or "Randomly" in type(step).__name__:
            return True
        steps.append(getattr(step, "ex_iterable", None))
        steps.extend(getattr(step, "ex_iterables", ()))
    return False


def _identity(dataset: Any) -> dict[str, Any]:
    info = dataset.info
    found: dict[str, Any] = {"name": info.dataset_name, "config": info.config_name}
    found |= {"split": str(dataset.split), "columns": list(dataset.features or ())}
    if _streams(dataset):
        return found | {"shards": dataset.num_shards}
    return found | {"fingerprint": dataset._fingerprint, "rows": len(dataset)}
