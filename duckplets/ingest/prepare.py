"""Check the arguments of an ingest and find where it begins, before anything is read.

arguments ─checked→ request ─what is known of the source→ settings, cursor: ``PreparedIngest``

Everything depends on the name of the source alone, so several sources with different names can be
prepared before the first is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import counted, shown
from duckplets.base.settings import Bounds, Named, checked
from duckplets.db.database import Database
from duckplets.db.external_files import INSIDE
from duckplets.errors import SourceError
from duckplets.ingest import checkpoint
from duckplets.ingest.checkpoint import Unfinished
from duckplets.ingest.external_text import Placing, files_to_leave, refuse_inside
from duckplets.ingest.gates import Gates
from duckplets.sources import Rows, Source
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.mapping import (
    OnError,
    changed,
    check_on_error,
    described,
    overriding,
    written,
)

if TYPE_CHECKING:
    from duckplets.text.prefix import Prefix


OnConflict = Literal["error", "skip", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedIngest:
    """A checked ingest, not yet read."""

    source: Source
    name: str
    trust: float | None  # trust given for the source
    on_conflict: OnConflict  # rule for a known id with other content
    prefix: Prefix | None  # new prefix of the source, or None to keep it
    remap: bool  # the source's present content replaces everything it had
    notes: tuple[str, ...]  # notes on the request
    gates: Gates
    placing: Placing | None  # files that texts stay in
    inside: int  # bytes of texts that go into the corpus file, before files beside it
    settings: dict[str, Any] | None  # settings to continue it; None if it cannot continue
    found: Unfinished | None  # unfinished ingest to continue
    cursor: Any  # cursor; None for the beginning
    limits: Limits
    is_full: bool  # the source is full: nothing is read

    def open(self, reader: FileReader, cursor: Any) -> Rows:
        """Open the source at a cursor."""
        return (
            self.source.open(reader) if self.settings is None else self.source.open(reader, cursor)
        )


def prepare(
    database: Database,
    source: Source,
    *,
    name: str | None = None,
    trust: float | None = None,
    on_conflict: OnConflict = "error",
    prefix: Prefix | None = None,
    on_error: OnError | None = None,
    remap: bool = False,
    restart: bool = False,
    limits: Limits | None = None,
    gates: Gates | None = None,
    in_place: bool = False,
    inside: int = INSIDE,
) -> PreparedIngest:
    """Check the arguments of an ingest, and find where it begins; see ``Corpus.ingest``.

    With ``restart`` an unfinished ingest of that name is discarded here.
    """
    checkpoint.sweep(database)
    gates = gates or Gates()
    name = source.default_name() if name is None else name
    name = checked("source name", name, Named, SourceError)
    checked("on_conflict", on_conflict, OnConflict, SourceError)
    if trust is None and not isinstance(source.trust, str):
        trust = source.trust  # a trust column is in the rows; the source has the default
    trust = checked("trust", trust, Annotated[float, Bounds(0, 1)] | None, SourceError)
    check_on_error(on_error)
    if gates.judges and on_error is None and _is_left_open(source):
        on_error = "skip"  # every row has an outcome, also after a limit
    source, notes = _as_known(database, overriding(source, on_error), name, remap=remap)
    on_conflict = "replace" if remap else on_conflict
    placing = None
    if in_place:
        pii = (gates.settings().get("quality") or {}).get("pii")
        placing = Placing(database, files_to_leave(database, source, pii))
    else:
        refuse_inside(database, name)
    if gates.judges:
        source = _in_rows(source, on_conflict)
    settings = None
    if getattr(source, "in_pieces", False) and not remap:
        settings = _settings_of(source, name, trust, gates)
    found = checkpoint.find(database, name)
    # An ingest killed before it stored a record blocks nobody.
    if found is not None and (restart or (not found.has_stored and found.settings != settings)):
        checkpoint.discard(database, found)
        found = None
    if found is not None:
        _refuse_another(found, settings)
    before = gates.take_up(database, name, source)
    return PreparedIngest(
        source=source,
        name=name,
        trust=trust,
        on_conflict=on_conflict,
        prefix=prefix,
        remap=remap,
        notes=notes,
        gates=gates,
        placing=placing,
        inside=inside,
        settings=settings,
        found=found,
        cursor=found.cursor if found else before,
        limits=limits or Limits(),
        is_full=gates.is_full and found is None,
    )


def _is_left_open(source: Source) -> bool:
    """Return whether a file without a converter leaves its rule for bad rows open."""
    of_file = not getattr(source, "in_pieces", False)  # other settings include the rule
    says = getattr(source, "on_error", ""), getattr(source, "converter", "")
    return of_file and says == (None, None)


def _as_known(
    database: Database, source: Source, name: str, *, remap: bool
) -> tuple[Source, tuple[str, ...]]:
    """Return a source as it is read under its name, and notes on that."""
    known = [row for row in database.run("ingest/records/live_sources") if row[1] == name]
    if not known:
        return source, ()
    _, _, kind, uri, _, _, text = known[0]
    place = StoredJson(database.path, "sources", f"source {name!r}")
    stored = None if text is None else dict(place.read("mapping", text, {str: object}))
    now = described(source)
    notes = []
    if (kind, uri) != (source.kind, source.uri):
        notes.append(f"read from {_place(source.kind, source.uri)} now, before {_place(kind, uri)}")
    if now is None or now == stored:
        return source, tuple(notes)
    if remap:
        notes.append(f"read as {written(now)} now, before {written(stored)}")
    else:
        raise SourceError(
            f"source {name!r} is known with another mapping: {written(stored)}; now it is "
            f"{written(now)}. Reading it so would add its rows a second time: remap=True "
            f"(--remap) replaces its records, and another name= (--name) makes a second source"
        )
    return source, tuple(notes)


def _place(kind: str, uri: str | None) -> str:
    return shown(uri or "nowhere in particular") + f" ({shown(kind)})"


def _settings_of(source: Any, name: str, trust: float | None, gates: Gates) -> dict[str, Any]:
    """Return the JSON values an unfinished ingest depends on."""
    found = {"kind": source.kind, "uri": source.uri, "trust": trust, "source": source.settings()}
    try:
        return dict(json.loads(json.dumps(found | gates.settings())))
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"source {name!r}: its settings() are not plain JSON values: {error}"
        ) from error


def _in_rows(source: Source, on_conflict: OnConflict) -> Source:
    """Return a source resumable at any row, if it can be read again, for gates."""
    if getattr(source, "turns", "last") == "each":
        raise SourceError(
            "turns='each' makes several records of a row, and quality=, where=, limit= and "
            "size_mb= decide on rows. Leave these out; Corpus.quality(apply=quality) applies "
            "gates to the stored records"
        )
    if on_conflict == "replace":
        raise SourceError(
            "quality=, where=, size_mb= and limit= do not go with on_conflict='replace' or "
            "remap=True: gates decide on a row once. Remove the source and read it again, or "
            "give on_conflict='skip'"
        )
    refuse_shuffled(source)
    can = hasattr(source, "in_pieces") and callable(getattr(source, "settings", None))
    if not can or source.in_pieces or getattr(source, "is_stdin", False):
        return source
    made: Source = changed(source, in_pieces=True)
    return made


def refuse_shuffled(source: Source) -> None:
    """Refuse a data set that is shuffled as it streams, where reading must be resumable."""
    if getattr(source, "is_shuffled", False):
        raise SourceError(
            f"source {shown(repr(source.default_name()))} is shuffled as it streams, so a "
            f"continued ingest would lose rows. Give it without .shuffle(): a sampler draws in "
            f"an order of its own"
        )


def _refuse_another(found: Unfinished, settings: dict[str, Any] | None) -> None:
    """Refuse to begin if another ingest of that name is unfinished."""
    if settings == found.settings:
        return
    where = found.settings["uri"] or f"a source of kind {found.settings['kind']}"
    differ = ""
    if settings is not None and settings["uri"] == found.settings["uri"]:
        gated = "quality" in settings and "quality" in found.settings
        names = checkpoint.differing(settings, found.settings, inner=gated)
        differ = f" with another {' and '.join(names)}"
    raise SourceError(
        f"source {found.name!r} has an unfinished ingest from {where}{differ}, stopped at "
        f"{found.saved_at} UTC after {counted(found.counts.get('read', 0), 'row')}. Run that one "
        f"again to continue it, or discard it with restart=True"
    )
