"""The protocol of users' sources: any object with a name and ``batches(cursor)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, runtime_checkable

from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.sources.custom.feed import RefusedError, as_json, read_batches
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import Rows


@runtime_checkable
class PagedSource(Protocol):
    """What a user writes to read from anywhere: a database, an API, a queue.

    It may have, besides: ``trust`` (a number from 0 to 1), ``kind`` (what sort of source it is,
    ``custom`` if not said), ``uri`` (where it reads from, without secrets), ``mapping`` (as the
    arguments of ``CustomSource``), ``settings()`` (plain JSON values that must be the same for a
    cursor to mean the same place, such as a filter) and ``recipes`` (a list, in place of the
    default ones; None leaves those of before, an empty list takes them away; sources may not
    have different recipes of one name).

    Attributes:
        name: The source's name in the corpus, unless ``ingest`` is given another.
    """

    name: str

    def batches(self, cursor: Any) -> Iterable[tuple[Any, Any]]:
        """Yield pairs of some records and a cursor, from a place on.

        It is called once for an ingest, in a thread of its own, where all of its code runs. An
        exception ends the ingest with a ``SourceError`` that names source and row; called again,
        the ingest goes on from a cursor.

        Args:
            cursor: None for the beginning; else one that was yielded, for the records after it.

        Yields:
            The next records, and the cursor behind them. Records are an iterable of
            dictionaries, or an Arrow table or record batch. Without a mapping their keys are
            ``anchor``, ``positive``, ``context``, ``negative``, ``text``, ``sections`` (a list of
            ``{"role", "heading", "text"}``), ``id``, ``date``, ``created_at``, ``updated_at``,
            ``group``, ``taxonomy``, ``meta`` (a dictionary), ``trust``, ``label`` and ``prefix``;
            each record may have others of them, a text, id or label that is there must not be
            blank, and a key of any other name is an error. None in place of a record leaves it
            out, counted. A cursor is a plain JSON value; behind one that is None the reading
            cannot go on.
        """


@dataclass(frozen=True, slots=True, eq=False)
class CustomSource(Mapped):
    """A user's source whose records have other keys than those of ``PagedSource``.

    Without a mapping each record is mapped by its own keys.
    """

    source: Any
    """Object with ``name`` and ``batches(cursor)``; see ``PagedSource``."""

    in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super(CustomSource, self).__post_init__()
        _check_source(self.source)
        if self.trust is None:
            trust = getattr(self.source, "trust", None)
            if isinstance(trust, str):
                raise SourceError(f"source {self.name!r}: trust={trust!r}: give a number, 0 to 1")
            object.__setattr__(self, "trust", trust)
            super(CustomSource, self).__post_init__()

    @property
    def name(self) -> str:
        """The source's name."""
        return str(self.source.name)

    @property
    def kind(self) -> str:
        """Kind given by the source, or ``custom``."""
        return str(getattr(self.source, "kind", None) or "custom")

    @property
    def uri(self) -> str | None:
        """Address given by the source."""
        uri = getattr(self.source, "uri", None)
        return None if uri is None else str(uri)

    def default_name(self) -> str:
        """Return the source's name."""
        return self.name

    def settings(self) -> dict[str, Any]:
        """Return the settings a cursor depends on."""
        given = getattr(self.source, "settings", None)
        try:
            user = as_json(given() if callable(given) else given, "settings()")
        except RefusedError as error:
            raise SourceError(f"source {self.name!r}: {error}") from None
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise SourceError(f"source {self.name!r}: settings(): {what}") from error
        return settings_of(self, self.name) | {"settings": user}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Start reading at a cursor, and look at the first records."""
        return read_batches(reader, self, self.name, self.source.batches, cursor)


def adapted(source: Any) -> Any:
    """Return a source that can be ingested, wrapping a user's own."""
    if callable(getattr(source, "open", None)) and hasattr(source, "default_name"):
        return source
    if isinstance(source, (str, PurePath)):
        raise SourceError(
            f"{str(source)!r} is a path, not a source: say how to read it, for example "
            f"dp.Source({str(source)!r}, anchor=…, positive=…)"
        )
    if isinstance(source, (list, tuple)) or hasattr(source, "__arrow_c_stream__"):
        raise SourceError(
            f"a {type(source).__name__} is not a source: give dp.Source(records, anchor=…)"
        )
    _check_source(source)
    mapping = getattr(source, "mapping", None) or {}
    known = [part.name for part in fields(Mapped)]
    if not isinstance(mapping, Mapping):
        raise SourceError(f"source {source.name!r}: mapping={mapping!r}: give a dictionary")
    for part in mapping:
        if part not in known:
            raise SourceError(
                f"source {source.name!r}: mapping has {part!r}{nearest(str(part), known)}; there "
                f"are {', '.join(known)}"
            )
    return CustomSource(source, **mapping)


def _check_source(source: Any) -> None:
    kind = type(source).__name__
    needs = "a source has a name and batches(cursor), which yields pairs of records and a cursor"
    if isinstance(source, type):
        raise SourceError(f"{source.__name__} is a class: give an object, {source.__name__}(…)")
    if not hasattr(source, "batches"):
        raise SourceError(f"{kind} has no batches(): {needs}")
    if not callable(source.batches):
        raise SourceError(f"{kind}.batches is no method: {needs}")
    if not isinstance(getattr(source, "name", None), str):
        has = f"name={source.name!r}" if hasattr(source, "name") else "no name"
        raise SourceError(f"{kind} has {has}: {needs}")


def settings_of(source: Any, name: str) -> dict[str, Any]:
    """Return the settings common to all sources of this kind."""
    described = {"name": name, "kind": source.kind, "uri": source.uri}
    return described | {"columns": source.read_settings()}
