r"""Read the texts of records ordered by split, source and record."""

# White space becomes single spaces, except in code. Gates or the caller say which texts are code.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Integers, stretches
from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.errors import ShardError, SourceError, nearest
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.quality.texts import LiveTexts
from duckplets.serving.snapshot import CorpusState

# Bytes and records read at a time; a single text may be longer. DuckDB scans at least 122,880 rows
# for any number of records.
_READ = 8 << 20, 1 << 16
_ENCODED = 1 << 20, 8192  # bytes and records encoded at a time
CODE = "code"


class TextBlock(NamedTuple):
    """Consecutive records with their texts."""

    low: int  # place of the first record
    originals: list[str]  # stored texts
    texts: list[str]  # texts with white space normalised
    details: pa.Table  # record_id, domain and metrics


class SplitTexts:
    """The texts of some splits and sources at the newest version; ``code`` names code sources."""

    def __init__(
        self,
        database: Database,
        splits: str | Sequence[str],
        sources: Sequence[str] | None = None,
        code: Sequence[str] = (),
    ) -> None:
        need_splits(database)
        self.database = database
        self.splits = [splits] if isinstance(splits, str) else list(splits)
        for name in self.splits:
            checked_split(name)
        if not self.splits or len(set(self.splits)) < len(self.splits):
            raise ShardError(f"split={splits!r}: give each split once, and at least one")
        self.version = current_version(database)
        found = database.run("ingest/records/live_sources")
        self.names = {int(number): str(name) for number, name, *_ in found}
        self.sources = self._checked("sources", sources)
        self.code = self._checked("code", code) or []

    def _checked(self, argument: str, names: Sequence[str] | None) -> list[str] | None:
        if names is None:
            return None
        wanted = [names] if isinstance(names, str) else list(names)
        known = list(self.names.values())
        for name in wanted:
            if name not in known:
                raise SourceError(
                    f"{argument}={name!r}: there is no such source{nearest(str(name), known)}; "
                    f"sources: {listed(known)}"
                )
        return [name for name in known if name in wanted]

    @cached_property
    def places(self) -> LiveTexts:
        """The records of the texts, in order."""
        return LiveTexts.of(self.database, self.version, splits=self.splits, sources=self.sources)

    def first(self) -> list[str]:
        """Return the sources with texts in the first split."""
        places = self.places
        numbers = np.unique(places.sources[places.splits == 0]).tolist()
        return [self.names[number] for number in numbers]

    def without(self) -> int:
        """Return the number of records without text."""
        parameters = {"version": self.version, "splits": self.splits, "sources": self.sources}
        return int(self.database.run("tokens/texts/without", parameters)[0][0])

    def origin(self) -> dict[str, Any]:
        """Return the version, and digests of everything that the texts depend on."""
        state = CorpusState.of(self.database, self.version)
        judged = self.database.run("tokens/texts/judged")[0]
        return {
            "version": self.version,
            "history": state.history,
            "settings": state.settings,
            "judged": [int(number) for number in judged],
        }

    def blocks(self, low: int, high: int, chosen: Flags | None = None) -> Iterator[TextBlock]:
        """Yield the texts of all or ``chosen`` places, about a megabyte at a time."""
        places = np.arange(low, high)
        if chosen is not None:
            places = places[chosen[low:high]]
        for read in stretches(self.places.sizes[places], total=_READ[0], rows=_READ[1]):
            block, own = self._block(places[read]), places[read]
            for part in stretches(self.places.sizes[own], total=_ENCODED[0], rows=_ENCODED[1]):
                yield TextBlock(
                    int(own[part.start]),
                    block.originals[part],
                    block.texts[part],
                    block.details.slice(part.start, part.stop - part.start),
                )

    def _block(self, places: Integers) -> TextBlock:
        keys = self.places.keys[places]
        requests = pa.table({"place": places, "record_key": keys})
        span = {"low": int(keys.min()), "high": int(keys.max())}
        with self.database.registered(requests=requests):
            known = self.database.table("tokens/texts/details", span)
        originals = self.places.texts(places).to_pylist()
        is_code = self._is_code(places, known)
        pairs = zip(originals, is_code, strict=True)
        texts = [text if code else plain(text) for text, code in pairs]
        return TextBlock(int(places[0]), originals, texts, known)

    def _is_code(self, places: Integers, details: pa.Table) -> list[bool]:
        numbers = [number for number, name in self.names.items() if name in self.code]
        found = np.isin(self.places.sources[places], numbers)
        by_gates = pc.fill_null(pc.equal(details["domain"], CODE), False)
        return list((found | by_gates.to_numpy()).tolist())


def plain(text: str) -> str:
    """Return a text with white space as single spaces, stripped."""
    return " ".join(text.split())
