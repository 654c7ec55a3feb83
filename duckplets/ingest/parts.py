"""The work of engine workers for an ingest: read a part of the files and prepare its rows.

part ─read→ rows, numbered from 1 ─clean, measure→ rows in a waiting file, or in the result

The decision that matters: an unreadable part is no failure of a worker. The parent reads it again
and raises what one process would raise, with the row's number in the whole. Registered user
functions are sent along and registered by the worker.

Batches of a part may differ in columns, since rare columns exist only where needed. So each batch
is a table, or a stream in the file.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Union
from uuid import uuid4

import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, EngineError, SourceError
from duckplets.ingest.gates import GateMeasures, Gates
from duckplets.ingest.preprocess import preprocess
from duckplets.sources import Mark
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.partitions import Cut, PartOf
from duckplets.text.chunking import Chunking
from duckplets.text.preprocessors import REGISTRY, AnyPreprocessor, Cleaner, Preprocessor

Tables = tuple[pa.Table, ...]  # rows of a batch
Item = Union[pa.RecordBatch, Mark]  # noqa: UP007 - Arrow's types are none for a checker

_SMALL = 1 << 20  # bytes of rows returned with the result


class Transform(NamedTuple):
    """The steps before rows are compared with the corpus: cleaning, measuring."""

    preprocessors: tuple[AnyPreprocessor, ...]
    functions: tuple[tuple[Preprocessor, Cleaner], ...]  # registered functions of users
    measuring: GateMeasures | None

    @classmethod
    def of(cls, chunking: Chunking, gates: Gates) -> Transform | None:
        """Return what there is to do; None for nothing."""
        own = (each for each in chunking.preprocessors if isinstance(each, Preprocessor))
        functions = tuple((each, REGISTRY.find(each.name, each.version)) for each in own)
        found = cls(chunking.preprocessors, functions, gates.measuring)
        return found if found.preprocessors or found.measuring is not None else None

    def done(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield cleaned and measured rows."""
        for each, function in self.functions:
            REGISTRY.add(each.name, each.version, function)
        chunking = Chunking(preprocessors=self.preprocessors)
        for batch in batches:
            cleaned, _ = preprocess(batch, chunking)
            yield cleaned if self.measuring is None else self.measuring.measured(cleaned)


class ReadJob(NamedTuple):
    """The values that all parts of a source share."""

    source: Any  # the whole
    keys: Any  # as in ``PartOf``
    limits: Limits
    transform: Transform | None


class ReadPart(NamedTuple):
    """A part of a source."""

    cut: Cut  # by paths valid anywhere
    file: Path  # file for its rows, if they are many


class Read(NamedTuple):
    """A part that was read."""

    batches: Tables | Path  # or the file with their streams
    part: PartOf  # findings about the whole


def read_part(job: ReadJob, part_to_read: ReadPart) -> Read | DuckpletsError:
    """Read a part and prepare its rows; return the reason if it is unreadable."""
    if (error := _refused(part_to_read.cut)) is not None:
        return error
    part = PartOf(job.source, keys=job.keys)
    try:
        with closing(FileReader.within(job.limits)) as reader:
            batches = part_to_read.cut.open(job.source, reader, part).batches
            found = _kept(job.transform.done(batches) if job.transform else batches, part_to_read)
    except EngineError:
        raise
    except DuckpletsError as refusal:
        return refusal
    part.source = part.listed = None
    return Read(found, part)


def transformed(transform: Transform, rows: pa.Table | None) -> Tables | DuckpletsError:
    """Prepare rows read by another process."""
    try:
        return () if rows is None else _tables(transform.done(rows.to_batches()))
    except DuckpletsError as error:
        return error


def _tables(batches: Iterable[pa.RecordBatch]) -> Tables:
    return tuple(pa.Table.from_batches([batch]) for batch in batches)


def _kept(batches: Iterable[pa.RecordBatch], part: ReadPart) -> Tables | Path:
    """Store rows in a file, or return them if they are few."""
    if part.cut.size <= _SMALL:
        return _tables(batches)
    if not part.file.parent.is_dir():
        raise EngineError(
            f"{part.cut.label}: {_here()} does not see {part.file.parent}, where its rows wait. "
            f"Put the corpus in a folder that all workers share"
        )
    aside = part.file.with_name(f"{part.file.name}-{uuid4().hex}")
    try:
        with _room(part), closing(pa.OSFile(str(aside), "wb")) as file:
            for batch in batches:
                with pa.ipc.new_stream(file, batch.schema) as stream:
                    stream.write_batch(batch)
        os.replace(aside, part.file)
    finally:
        with suppress(OSError):
            aside.unlink()
    return part.file


@contextmanager
def _room(part: ReadPart) -> Iterator[None]:
    """Translate system errors while rows are written; read errors have their own."""
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"{part.cut.label}: its rows cannot wait in {part.file.parent}, on {_here()}: "
            f"{shown(error.strerror or error)}; make room there"
        ) from error


def _refused(cut: Cut) -> DuckpletsError | None:
    """Return how the files here differ from the requested ones."""
    files = [file for file in cut.files if isinstance(file, Path)]  # stores check theirs
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.stat().st_size
    if not files or size == cut.size:
        return None
    for file in files:
        if not file.exists():
            raise EngineError(
                f"{file}: {_here()} does not see it: files are read where they lie, by a path that "
                f"has to be the same for all workers"
            )
    return SourceError(f"{cut.label} changes while it is read: it has {size:,} bytes now")


def _here() -> str:
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"


# -- where the rows are stored ---------------------------------------------------------------------


def batches_of(rows: Tables | Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a part; its file is removed once open."""
    if not isinstance(rows, Path):
        for table in rows:
            yield from table.to_batches()
        return
    with pa.memory_map(str(rows)) as file:
        with suppress(OSError):
            rows.unlink()
        while file.tell() < file.size():
            yield from pa.ipc.open_stream(file)
