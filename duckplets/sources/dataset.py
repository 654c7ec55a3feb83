"""Read data sets of the ``datasets`` library, in memory or streaming, into rows.

    Dataset          rows by number: an ingest goes on at the row it stopped at
    IterableDataset  rows in their order: it goes on from the data set's own state_dict

One that is shuffled as it streams has no place to go on from, and is ingested in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.mapping import Mapped
from duckplets.sources.memory import row_of
from duckplets.sources.names import known_fields, require_texts, resolve
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import MAX_BYTES, RowBlock, Rows, cursor_of
from duckplets.sources.typed import blocks_of, classes_of_features

if TYPE_CHECKING:
    from duckplets.db.database import Database

_ROWS = 1_000  # of a batch at first; later as many as make a few megabytes
_KIND = "DatasetSource"


@dataclass(frozen=True, slots=True, eq=False)
class DatasetSource(Mapped):
    """A ``datasets.Dataset`` or ``datasets.IterableDataset``.

    Columns that are a ``ClassLabel`` hold the names of the classes. Of a data set in memory, and
    of one that streams unshuffled, an ingest that stops half-way goes on at the row it stopped
    at, when the same data set is given again.
    """

    dataset: Any
    """The data set."""

    kind: ClassVar[str] = "dataset"

    def __post_init__(self) -> None:
        given = self.dataset
        if not hasattr(given, "with_format") or not hasattr(given, "features"):
            splits = list(given) if hasattr(given, "keys") else []
            more = f"; choose one of {', '.join(map(repr, splits))}" if splits else ""
            kind = type(given).__name__
            raise SourceError(f"a {kind} is no datasets.Dataset or IterableDataset{more}")
        Mapped.__post_init__(self)

    @property
    def uri(self) -> str | None:
        """Nothing: where a data set came from, it does not say."""
        return None

    @property
    def is_shuffled(self) -> bool:
        """Whether its order changes as it streams, so that there is no place to go on from."""
        steps = [getattr(self.dataset, "_ex_iterable", None)]
        while steps:
            step = steps.pop()
            if step is None:
                continue
            if "Shuffle" in type(step).__name__ or "Randomly" in type(step).__name__:
                return True
            steps.append(getattr(step, "ex_iterable", None))
            steps.extend(getattr(step, "ex_iterables", ()))
        return False

    @property
    def in_pieces(self) -> bool:
        """Whether an ingest of it goes on where it stopped."""
        return not self.is_shuffled

    def default_name(self) -> str:
        """Return the name the data set was loaded by, else ``dataset``."""
        info = self.dataset.info
        name = str(info.dataset_name or info.builder_name or "dataset")
        return name.replace("/", "--")[:200] if name.isprintable() and name.strip() else "dataset"

    def settings(self) -> dict[str, Any]:
        """Return what tells the data set and the mapping from others."""
        return {"dataset": _identity(self.dataset), "mapping": self.read_settings()}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the columns, and return the rows from a place on.

        Raises:
            SourceError: A column is not there.
        """
        where = f"data set {self.default_name()!r}"
        place = cursor_of(cursor, where, (dict, None))
        features = self.dataset.features
        if features is not None:
            require_texts(self, list(features), where, _KIND)
            resolve(self, list(features), where)
        streams = _streams(self.dataset)
        start = place["rows"]
        batches = self._streamed(place["at"]) if streams else self._by_number(start)
        return opened(
            reader,
            self,
            self._blocks(batches, where, start),
            where,
            cursor=cursor,
            total=None if streams else len(self.dataset),
            known=True,
            by_row=not streams,
            marks=self.in_pieces,
            kind=_KIND,
        )

    def _blocks(
        self, batches: Iterator[tuple[Any, Any]], where: str, row: int
    ) -> Iterator[RowBlock]:
        classes, known = classes_of_features(self.dataset.features), known_fields(self)
        for found, at in _guarded(batches, where, row):
            if isinstance(found, list):
                row += len(found)
                yield RowBlock(found, at=at)
                continue
            names = found.schema.names
            used = resolve(self, names, where)
            others = [name for name in names if name.lower() not in known] if known else []
            parts = found.combine_chunks().to_batches()
            held: RowBlock | None = None
            for block in blocks_of(parts, where, columns=used, classes=classes, row=row):
                if held is not None:
                    yield held
                row += len(block.rows)
                held = block._replace(columns=names, left_out=others)
            if held is not None:
                yield held._replace(at=at)

    def _by_number(self, row: int) -> Iterator[tuple[pa.Table, Any]]:
        rows = self.dataset.with_format("arrow")
        count = _ROWS
        while row < len(rows):
            table = rows[row : row + count]
            row += table.num_rows
            yield table, None  # a place is anywhere
            each = max(table.nbytes // max(table.num_rows, 1), 1)
            count = max(1, min(8 * _ROWS, MAX_BYTES // 8 // each))

    def _streamed(self, state: Any) -> Iterator[tuple[Any, Any]]:
        # Without features datasets guesses the types of a batch's rows one by one, and fails
        # where they differ.
        known = self.dataset.features is not None
        rows = self.dataset.with_format("arrow" if known else None)
        if state is not None:
            rows.load_state_dict(state)
        for batch in rows.iter(batch_size=_ROWS):
            found = batch
            if not known:
                values = zip(*batch.values(), strict=True)
                found = [row_of(dict(zip(batch, each, strict=True))) for each in values]
            yield found, rows.state_dict()


def _guarded(batches: Iterator[tuple[Any, Any]], where: str, row: int) -> Iterator[tuple[Any, Any]]:
    """Yield batches; what the data set's own code raises is told with the row."""
    try:
        for found, at in batches:
            row += len(found)
            yield found, at
    except SourceError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
        raise SourceError(f"{where}, after row {row}: {reason}") from error


def _streams(dataset: Any) -> bool:
    return hasattr(dataset, "load_state_dict")


def _identity(dataset: Any) -> dict[str, Any]:
    info = dataset.info
    found: dict[str, Any] = {"name": info.dataset_name, "config": info.config_name}
    found |= {"split": str(dataset.split), "columns": list(dataset.features or ())}
    if _streams(dataset):
        return found | {"shards": dataset.num_shards}
    return found | {"fingerprint": dataset._fingerprint, "rows": len(dataset)}
