"""Read Parquet and Arrow files, a bounded part of their columns at a time.

PyArrow decompresses a page of Parquet and a batch of Arrow as a whole, without a limit. So a
separate process with a limited address space reads a file that announces more than the memory
limit, or no size. A file above the limit is an error.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.rows import Blocks, Look
from duckplets.sources.typed import BLOCK_BYTES, blocks_of, classes_of_schema, names_of

_ROWS = 16_384  # rows of a batch
_MOST_BYTES = 64 << 20  # bytes of a batch, whatever its values stand for
_OWN = 1 << 30  # address space of a process with PyArrow
_OUT_OF_MEMORY = 3  # exit status of the process
_COMPRESSION = 3  # number of the field in RecordBatch
_MOST_OF_CODEC = {-1: 0, 0: 255}  # memory of a file in multiples of its bytes: uncompressed, LZ4


@dataclass(frozen=True, slots=True)
class ParquetSource(Files):
    """Parquet files, a row group's columns decoded a few megabytes at a time."""

    kind: ClassVar[str] = "parquet"

    def look(self, file: Path, reader: Database) -> Look:
        """Return the columns in a file's footer."""
        with opened(file) as parquet:
            schema = parquet.schema_arrow
            rows = parquet.metadata.num_rows
        return Look(names_of(schema, str(file)), rows, classes_of_schema(schema))

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows of a file, or of some row groups, with the columns used."""
        part, limits = part_of(reader), limits_of(reader)
        with opened(file) as parquet:
            groups = range(parquet.num_row_groups)
        groups = groups if part is None or part.groups is None else part.groups
        largest, shares = _announced(reader, file, groups, used)
        batches = _parquet_batches(file, used, groups, largest)
        if largest > limits.size("memory") or shares:
            batches = _separately("parquet", file, used, limits, groups)
        with closing(batches):
            yield from blocks_of(batches, str(file), columns=used, classes=look.classes)


@dataclass(frozen=True, slots=True)
class ArrowSource(Files):
    """Arrow IPC files or streams, and Feather (version 2) files."""

    kind: ClassVar[str] = "arrow"

    def look(self, file: Path, reader: Database) -> Look:
        """Return the columns in a file's schema."""
        with closing(_schema_and_batches(file)) as found:
            schema = next(found)
        return Look(names_of(schema, str(file)), None, classes_of_schema(schema))

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows of a file with the columns used."""
        batches, limits = _arrow_batches(file, used), limits_of(reader)
        if _may_take(file) > limits.size("memory"):
            batches = _separately("arrow", file, used, limits)
        with closing(batches):
            yield from blocks_of(batches, str(file), columns=used, classes=look.classes)


# -- Parquet --------------------------------------------------------------------------------------


def opened(file: Path, encoded: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a Parquet file."""
    with paths.reading(file):
        return pq.ParquetFile(file, pre_buffer=False, read_dictionary=list(encoded))


def _announced(
    reader: Database, file: Path, groups: Sequence[int], used: Sequence[str]
) -> tuple[int, bool]:
    """Return the bytes a row group's columns announce, and whether texts are delta-encoded."""
    # PyArrow (26.0) crashes on columns of a damaged footer; DuckDB does not.
    starts = tuple(f"{name}." for name in used)  # nested columns have several parts
    place = {"path": re.sub(r"([*?\[])", r"[\1]", str(file))}
    try:
        found = reader.rows(query("sources/parquet"), place)
    except QueryError as error:
        raise paths.unreadable(file, error) from error
    sizes, shares = Counter[int](), False
    for group, path, size, encodings in found:
        if group in groups and f"{path.replace(', ', '.')}.".startswith(starts):
            sizes[group] += size
            shares |= "DELTA_BYTE_ARRAY" in encodings
    return max(sizes.values(), default=0), shares


def _parquet_batches(
    file: Path, used: list[str], groups: Sequence[int], largest: int
) -> Generator[pa.RecordBatch, None, None]:
    names = list(dict.fromkeys(used))
    with opened(file) as parquet, paths.reading(file):
        schema = parquet.schema_arrow
        texts = [n for n in names if schema.field(n).type in (pa.string(), pa.binary())]
        with opened(file, texts) as encoded:
            for group in groups:
                count = parquet.metadata.row_group(group).num_rows
                rows = min(_ROWS, BLOCK_BYTES * count // max(largest, 1))
                rows = max(1, min(rows, _MOST_BYTES // _longest(encoded, texts, group)))
                yield from parquet.iter_batches(rows, row_groups=[group], columns=names)


def _longest(encoded: pq.ParquetFile, texts: list[str], group: int) -> int:
    """Return the length of the longest text in the dictionaries of a row group."""
    first = next(encoded.iter_batches(64, row_groups=[group], columns=texts), None)
    columns = () if first is None else first.columns
    found = [c.dictionary for c in columns if pa.types.is_dictionary(c.type) and len(c.dictionary)]
    return max((int(pc.max(pc.binary_length(each)).as_py() or 0) for each in found), default=0) or 1


# -- Arrow ----------------------------------------------------------------------------------------


def _arrow_batches(file: Path, used: list[str]) -> Generator[pa.RecordBatch, None, None]:
    batches = _schema_and_batches(file)
    names = next(batches).names
    places = [names.index(name) for name in used]
    for batch in batches:
        yield batch.select(places)


def _schema_and_batches(file: Path) -> Generator[Any, None, None]:
    """Yield a file's schema, then its batches."""
    with paths.reading(file), pa.memory_map(str(file)) as source:
        magic = source.read(6)
        source.seek(0)
        if magic.startswith(b"FEA1"):
            raise SourceError(f"{file} is a Feather file of version 1; write it as version 2")
        if magic == b"ARROW1":
            reader = pa.ipc.open_file(source)
            yield reader.schema
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            stream = pa.ipc.open_stream(source)
            yield stream.schema
            yield from stream


def _may_take(file: Path) -> float:
    """Return the memory a file's batches may take: none if it is mapped."""
    with paths.reading(file), pa.memory_map(str(file)) as source:
        source.seek(8 if source.read(6) == b"ARROW1" else 0)
        try:
            while True:
                message = pa.ipc.read_message(source)
                if message.type in ("record batch", "dictionary"):
                    codec = _codec(message.metadata.to_pybytes(), message.type)
                    return float(_MOST_OF_CODEC.get(codec, math.inf) * source.size())
        except (EOFError, pa.ArrowException):
            return 0  # none; reading will report the fault
        except struct.error:
            return math.inf


def _codec(data: bytes, kind: str) -> int:
    """Return the compression codec in a FlatBuffers message header; -1 for none."""

    def field(table: int, number: int) -> int:
        places = table - struct.unpack_from("<i", data, table)[0]
        size = struct.unpack_from("<H", data, places)[0]
        if 4 + 2 * number >= size:
            return 0
        at = int(struct.unpack_from("<H", data, places + 4 + 2 * number)[0])
        return table + at if at else 0

    def inner(at: int) -> int:
        return at + int(struct.unpack_from("<I", data, at)[0])

    batch = inner(field(inner(0), 2))
    batch = inner(field(batch, 1)) if kind == "dictionary" else batch
    at = field(batch, _COMPRESSION)
    if not at:
        return -1
    codec = field(inner(at), 0)
    return data[codec] if codec else 0


# -- in a process of its own ----------------------------------------------------------------------


def _separately(
    form: str, file: Path, used: Sequence[str], limits: Limits, groups: Sequence[int] = ()
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of a file read by a process with a limited address space."""
    request: dict[str, Any] = {"form": form, "file": str(file), "memory": limits.size("memory")}
    request |= {"used": list(used), "groups": list(groups)}
    module = "duckplets.sources.formats.columnar"
    command = [sys.executable, "-P", "-m", module, json.dumps(request)]  # -P: not from this folder
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment)
    assert process.stdout is not None  # noqa: S101
    try:
        with pa.PythonFile(process.stdout, "r") as stream:
            try:
                yield from pa.ipc.open_stream(stream)
            except (pa.ArrowException, OSError) as error:
                raise _failure(process, file, limits) or paths.unreadable(file, error) from error
        if failure := _failure(process, file, limits):
            raise failure
    finally:
        process.kill()
        process.communicate()


def _failure(process: subprocess.Popen[bytes], file: Path, limits: Limits) -> SourceError | None:
    _, message = process.communicate()
    if process.returncode == 0:
        return None
    text = message.decode("utf-8", "replace").strip()
    if process.returncode == 1 and text:
        return SourceError(text.splitlines()[-1])
    return limits.exceeded(str(file), "reading it takes more memory", "memory")


def _main() -> None:
    """Write the batches of a file to stdout within limited memory."""
    import resource

    request = json.loads(sys.argv[1])
    most = request["memory"] + _OWN
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    file, used = Path(request["file"]), request["used"]
    batches = _arrow_batches(file, used)
    if request["form"] == "parquet":
        batches = _parquet_batches(file, used, request["groups"], request["memory"])
    sink = None
    try:
        for batch in batches:
            if batch.nbytes > request["memory"]:
                sys.exit(_OUT_OF_MEMORY)
            if sink is None:
                sink = pa.ipc.new_stream(sys.stdout.buffer, batch.schema)
            sink.write_batch(batch)
        if sink is not None:
            sink.close()
    except (MemoryError, pa.ArrowMemoryError):
        sys.exit(_OUT_OF_MEMORY)
    except SourceError as error:
        memory = isinstance(error.__cause__, (MemoryError, pa.ArrowMemoryError))
        sys.exit(_OUT_OF_MEMORY if memory or "malloc" in str(error) else str(error))


if __name__ == "__main__":
    _main()
