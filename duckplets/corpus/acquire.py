"""Arguments of an intake through gates: sources by name, and the gates of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, SourceError

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.quality.intake import QualityGates
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source

_MB = 10**6


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """A source to acquire, with the settings of its data set."""

    source: Source
    gates: dict[str, Any]
    data_set: DataSet | None = None

    def check_cleaning(self, database: Database) -> None:
        """Refuse a data set whose cleaning differs from the corpus's."""
        from duckplets.ingest.chunks import current_chunking
        from duckplets.records.data_set_gates import check_cleaning

        if self.data_set is not None:
            check_cleaning([(self.data_set.name, self.data_set.clean)], current_chunking(database))


def wanted_of(sources: Any) -> dict[str, AcquireRequest]:
    """Return the requests by name, in order.

    Raises:
        SourceError: An entry is no source, two share a name, or a file is wrong.
    """
    from duckplets.records.data_sets import DataSet, load_data_sets
    from duckplets.sources.custom.protocol import adapted

    if isinstance(sources, str | PathLike):
        sources = load_data_sets(sources)
    if not isinstance(sources, Iterable):
        kind = type(sources).__name__
        raise SourceError(f"sources={kind}: give several in a list, or by name")
    by_name = sources.items() if isinstance(sources, Mapping) else ((None, s) for s in sources)
    found: dict[str, AcquireRequest] = {}
    for name, each in by_name:
        if isinstance(each, DataSet):
            one, own = AcquireRequest(each.source(), each.gates, each), each.name
        else:
            one = AcquireRequest(adapted(each), {})
            own = one.source.default_name()
        name = own if name is None else name
        if name in found:
            raise SourceError(
                f"two sources would be {shown(repr(name))}: give them by names of their own"
            )
        found[name] = one
    return found


def naming(name: str, error: DuckpletsError) -> DuckpletsError:
    """Return an error that names its source."""
    if name in str(error):
        return error
    named = type(error)(f"source {name!r}: {error}")
    named.__cause__ = error
    return named


def gates_of(quality: Any, **others: Any) -> QualityGates | None:
    """Return the gates of an ingest; None without any.

    Args:
        quality: As for ``Corpus.ingest``.
        others: ``where``, ``size_mb`` and ``limit``, each None if not given.
    """
    if quality is None and all(value is None for value in others.values()):
        return None
    from duckplets.quality.intake import QualityGates

    return QualityGates(quality, **others)


def accepted_note(every: Sequence[QualityGates]) -> str:
    """Return a function that says how much the gates accepted so far, for a bar."""
    if not every:
        return "no gates"
    read, accepted, size = (sum(gates.size[i] for gates in every) for i in range(3))
    share = f"{accepted / read:.1%} accepted, " if read else ""
    return f"{share}{size / _MB:,.1f} MB"
