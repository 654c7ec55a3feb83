"""Rare settings of an ingest, as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

from duckplets.errors import SourceError
from duckplets.sources.limits import Limits
from duckplets.text.prefix import Prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """Rare settings of ``Corpus.ingest``.

    Attributes:
        prefix: Metadata that is shown before half of the texts of all records, such as
            ``"source,date"``; as for ``set_prefix``.
        limits: Limits of memory, rows and fields. Default: ``Limits()``, which no honest file
            meets.
        size_mb: Stop once the accepted texts of the source have this many 10^6 bytes of UTF-8; at
            most one record more is stored.
        jsonl: A file that gets all records of the corpus as JSON lines when the ingest ends, also
            by an error or Ctrl-C. An earlier export there is replaced. After a kill the same call
            writes it.
        in_place: Leave the texts of a ``ParquetSource`` in its files, which must stay unchanged.
            The corpus stores the place of each text: some 65 bytes a record, which the report's
            notes say.
        inside_mb: Megabytes (10^6 bytes) of the texts of an ingest that lie in the corpus file.
            Further texts lie in ``NAME.texts/``, in Parquet files that belong to the corpus.
        engine: Reads files, cleans and measures, as for ``mine``. Workers see files, and a folder
            beside the corpus, by the same paths. Other sources are read in this process.
        readers: Sources to read at the same time. Default: 4 with gates, 1 without.
        retries: Times to continue a source after an error that may pass, without a further row.
            Default: 5 with gates, 0 without.
        keep_going: Store the sources after one that failed, too. If both have a text, the gates
            accept it from the later source.
        prepare: Whether to make the snapshot that runs are served from as the texts are stored.
            True: also its pools, as ``Corpus.prepare`` does; a corpus without splits is split as
            ``Corpus.split()`` splits it. Default: the texts of it, if more than 200,000 chunks come
            into a corpus that is split.

    Raises:
        SourceError: A value is wrong.
    """

    prefix: Prefix | str | None = None
    limits: Limits | None = None
    size_mb: float | None = None
    jsonl: str | PathLike[str] | None = None
    in_place: bool = False
    inside_mb: float = 64
    engine: Any = None
    readers: int | None = None
    retries: int | None = None
    keep_going: bool = False
    prepare: bool | None = None

    def __post_init__(self) -> None:
        """Check the numbers; the others are checked where they are used."""
        is_size = isinstance(self.inside_mb, int | float) and 0 <= self.inside_mb < math.inf
        if not is_size or isinstance(self.inside_mb, bool):
            raise SourceError(
                f"inside_mb={self.inside_mb!r}: give a number of megabytes, 0 or more"
            )
        for name, value, least in (("readers", self.readers, 1), ("retries", self.retries, 0)):
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_number and least <= value < 1000):
                raise SourceError(f"{name}={value!r}: give a whole number from {least} to 999")
