"""Say what an ingest was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duckplets.ingest.gates import Gates
from duckplets.ingest.in_place import Placing
from duckplets.sources import Source

if TYPE_CHECKING:
    from duckplets.text.prefix import Prefix

OnConflict = Literal["error", "skip", "replace"]


@dataclass(frozen=True, slots=True)
class Request:
    """What an ingest was asked for, checked.

    Attributes:
        source: What is read.
        name: Of the source in the corpus.
        trust: Given for the source, or None.
        on_conflict: What to do about a known id with other content.
        prefix: Metadata prefix of the source from now on, or None to leave it.
        remap: Whether what the source has now takes the place of all that it had.
        notes: What is to be said of the request itself.
        gates: What decides which rows are records, if anything does.
        placing: The files that texts are left in; None where they are taken in.
    """

    source: Source
    name: str
    trust: float | None
    on_conflict: OnConflict
    prefix: Prefix | None
    remap: bool = False
    notes: tuple[str, ...] = ()
    gates: Gates | None = None
    placing: Placing | None = None
