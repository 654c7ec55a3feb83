"""Fetch records by number, in a shuffled order and with several threads.

ranks(seed) ─→ numbers in order ─Lookahead→ get(i), get(j), … ─in order→ as any custom source
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Annotated, Any, ClassVar

from duckplets.base.prefetch import Lookahead
from duckplets.base.settings import Bounds, checked
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.order.permute import key, ranks
from duckplets.sources.custom.feed import RefusedError, read_batches
from duckplets.sources.custom.protocol import settings_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import Rows, cursor_of

_PLACE = {"done": range(1 << 63), "size": range(1 << 63)}
_BLOCK = 4_096  # numbers ordered at a time
_PORTION = 64  # records fetched by a call
_BYTES_WAITING = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSource(Mapped):
    """Anything with a length from which the i-th record can be had.

    A record is a dictionary; with no mapping at all each is mapped by the keys it has, as
    ``PagedSource`` says. None in its place leaves it out, counted as ``dropped by the source``.
    An ingest that stops half-way goes on where it stopped.
    """

    rows: Any = None
    """Object with ``len(rows)``, and ``rows.get(i)`` or else ``rows[i]``; a list, say."""
    name: str = field(kw_only=True)
    """The source's name."""
    get: Callable[[int], Any] | None = field(default=None, kw_only=True)
    """Instead of ``rows``: a function that returns the i-th record."""
    size: int | None = field(default=None, kw_only=True)
    """How many records ``get`` can return."""
    seed: int = field(default=42, kw_only=True)
    """Another seed gives another order."""
    shuffle: bool = field(default=True, kw_only=True)
    """Whether to read in a shuffled order, each record exactly once, or from 0 on."""
    threads: int = field(default=4, kw_only=True)
    """How many threads fetch records at once; 1 where that is not safe."""

    kind: ClassVar[str] = "indexed"
    uri: ClassVar[str | None] = None
    in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super(IndexedSource, self).__post_init__()
        if not isinstance(self.name, str) or not self.name:
            raise SourceError(f"IndexedSource: name={self.name!r}: give a text")
        self._check_rows()
        where = f"source {self.name!r}"
        checked("seed", self.seed, int, SourceError, where)
        checked("threads", self.threads, Annotated[int, Bounds(1, 256)], SourceError, where)

    def _check_rows(self) -> None:
        if (self.rows is None) == (self.get is None):
            raise self._error("give either rows, or get= and size=")
        if self.rows is not None and self.size is not None:
            raise self._error("size= goes with get=; of rows it is their length")
        if self.rows is not None and not hasattr(type(self.rows), "__len__"):
            raise self._error(f"{type(self.rows).__name__} has no length; give get= and size=")
        if hasattr(self.rows, "iloc"):  # its get() would look up a column
            raise self._error("of a data frame give get=lambda i: frame.iloc[i].to_dict(), size=…")
        if self.rows is not None and self._getter() is None:
            raise self._error(f"{type(self.rows).__name__} has neither get(i) nor [i]")
        if self.get is not None and not callable(self.get):
            raise self._error(f"get={self.get!r} is no function")
        size = self.size
        if self.get is not None and (
            isinstance(size, bool) or not isinstance(size, int) or size < 0
        ):
            raise self._error(f"size={size!r}: say how many records get() can return")

    def _error(self, message: str) -> SourceError:
        return SourceError(f"source {self.name!r}: {message}")

    def _getter(self) -> Callable[[int], Any] | None:
        if self.get is not None:
            return self.get
        own = None if isinstance(self.rows, dict) else getattr(self.rows, "get", None)
        if callable(own):
            return own  # type: ignore[no-any-return]
        return self.rows.__getitem__ if hasattr(self.rows, "__getitem__") else None

    def _size(self) -> int:
        if self.size is not None:
            return self.size
        try:
            return len(self.rows)
        except Exception as error:
            raise self._error(f"its length: {type(error).__name__}: {error}") from error

    def default_name(self) -> str:
        """Return the source's name."""
        return self.name

    def settings(self) -> dict[str, Any]:
        """Return the settings a cursor depends on; the size is in the cursor."""
        return settings_of(self, self.name) | {"seed": self.seed, "shuffle": self.shuffle}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Start reading at a cursor."""
        size = self._size()
        place = cursor_of(cursor, f"source {self.name!r}", _PLACE)["at"]
        if place is not None and place["size"] != size:
            raise self._error(
                f"it had {place['size']} records when its ingest began, and now has {size}: the "
                f"order is another; begin anew with restart=True"
            )
        return read_batches(reader, self, self.name, self._batches(size), cursor, size)

    def _batches(self, size: int) -> Callable[[Any], Iterator[Any]]:
        getter = self._getter()
        stream = key(self.seed, "indexed source") if self.shuffle else None

        def batches(cursor: Any) -> Iterator[tuple[list[Any], Any]]:
            done = cursor["done"] if cursor else 0
            numbers = _numbers(stream, done, size)
            portions = iter(lambda: list(islice(numbers, _PORTION)), [])
            fetched = Lookahead(
                (partial(_fetch, getter, some) for some in portions),
                "duckplets-get",
                most=2 * self.threads - 1,
                threads=self.threads,
                most_bytes=_BYTES_WAITING,
                weigh=lambda found: _size_of(found[0]),
            )
            with closing(fetched):
                for records, error in fetched:
                    done += len(records)
                    yield records, {"done": done, "size": size}
                    if error is not None:
                        raise error

        return batches


def _numbers(stream: int | None, start: int, size: int) -> Iterator[int]:
    """Yield the numbers of records from a position of the order on, each once."""
    if stream is None:
        yield from range(start, size)
        return
    for first in range(start, size, _BLOCK):
        yield from ranks(stream, size, first, min(first + _BLOCK, size))[0].tolist()


def _fetch(get: Any, numbers: Sequence[int]) -> tuple[list[Any], Exception | None]:
    """Return the records of some numbers, up to the first that fails, and its error."""
    records: list[Any] = []
    for number in numbers:
        try:
            records.append(get(number))
        except Exception as error:
            fault = RefusedError(f"get({number}): {type(error).__name__}: {error}")
            fault.__cause__ = error
            return records, fault
    return records, None


def _size_of(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return 64 + sum(map(_size_of, value.values()))
    return 64 + sum(map(_size_of, value)) if isinstance(value, (list, tuple)) else 64
