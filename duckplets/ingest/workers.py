"""What a worker of an engine does for an ingest: read a part of its files, make rows ready.

    part ─read→ rows, numbered from 1 ─clean, measure→ rows in a file that waits, or in the result

The decision that matters: a part that cannot be read is no failure of a worker. Whoever asked for
it reads it again, and raises what one process raises, naming the row by its number in the whole.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, EngineError, SourceError
from duckplets.ingest.streams import batches_of, stream_of
from duckplets.ingest.transform import Job
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.partitions import Cut, PartOf

_SMALL = 1 << 20  # bytes of rows that come with the result


class ReadJob(NamedTuple):
    """What a worker has to know to read a part.

    Attributes:
        number: Of the source, among those that are read.
        source: The whole.
        cut: The part, by paths that hold anywhere.
        told: What its files are called, where that is something else.
        keys: As in ``PartOf``.
        limits: Of the reader.
        file: Where its rows wait, if they are many.
    """

    number: int
    source: Any
    cut: Cut
    told: Mapping[str, str]
    keys: Any
    limits: Limits
    file: Path


class Read(NamedTuple):
    """A part that was read.

    Attributes:
        rows: How many it has, those that are blank too.
        batches: Streams of Arrow, one after the other, or the file that has them.
        part: What was found out.
    """

    rows: int
    batches: bytes | Path
    part: PartOf


def read_part(job: Job, given: ReadJob) -> Read | DuckpletsError:
    """Read a part of a source, and make its rows ready.

    Returns:
        The rows; or why they cannot be read.

    Raises:
        EngineError: Files, or the folder for rows, are not there for this worker; or it is full.
    """
    if (error := _refused(given.cut)) is not None:
        return error
    part = PartOf(given.source, given.source.uri or "", keys=given.keys)
    try:
        with closing(FileReader.within(given.limits)) as reader:
            batches = _told(given.cut.open(given.source, reader, part).batches, given.told)
            work = job[given.number]
            found = _kept(batches if work is None else work.done(batches), given)
    except EngineError:
        raise
    except DuckpletsError as refusal:
        return refusal
    rows = part.rows
    part.source = part.listed = None
    return Read(rows, found, part)


def work_at(job: Job, given: tuple[int, bytes]) -> bytes | DuckpletsError:
    """Make rows ready that another process has read."""
    number, rows = given
    work = job[number]
    if work is None:
        return rows
    try:
        return b"".join(map(stream_of, work.done(batches_of(rows))))
    except DuckpletsError as error:
        return error


def _kept(batches: Iterable[pa.RecordBatch], given: ReadJob) -> bytes | Path:
    """Keep rows in a file until their turn; or return them, where they are few."""
    if given.cut.size <= _SMALL:
        return b"".join(map(stream_of, batches))
    if not given.file.parent.is_dir():
        raise EngineError(
            f"{given.cut.label}: its rows are to wait in {given.file.parent}, which {_here()} does "
            f"not see: the folder of the corpus has to be one that all workers share"
        )
    aside = given.file.with_name(f"{given.file.name}-{uuid4().hex}")
    try:
        with _room(given), closing(pa.OSFile(str(aside), "wb")) as file:
            for batch in batches:
                with pa.ipc.new_stream(file, batch.schema) as stream:
                    stream.write_batch(batch)
        os.replace(aside, given.file)
    finally:
        with suppress(OSError):
            aside.unlink()
    return given.file


@contextmanager
def _room(given: ReadJob) -> Iterator[None]:
    """Turn what the system raises while rows are written: what is read has errors of its own."""
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"{given.cut.label}: its rows cannot wait in {given.file.parent}, on {_here()}: "
            f"{shown(error.strerror or error)}; make room there"
        ) from error


def _refused(cut: Cut) -> DuckpletsError | None:
    """Return why the files here are not those that were to be read."""
    files = [file for file in cut.files if isinstance(file, Path)]  # a store's say so by themselves
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


def _told(batches: Iterable[pa.RecordBatch], names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield rows with their files as they are called where they were asked for."""
    for batch in batches:
        at = batch.schema.get_field_index("file")
        if at >= 0 and names:
            column = batch.column(at)
            files = [names.get(name, name) for name in column.dictionary.to_pylist()]
            column = pa.DictionaryArray.from_arrays(column.indices, pa.array(files, pa.string()))
            batch = batch.set_column(at, "file", column)
        yield batch


def _here() -> str:
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"
