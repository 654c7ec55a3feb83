"""Make rows of lines of JSON: cut lines from a stream, judge them, find the keys of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.sources.formats.json_keys import Keys, judged
from duckplets.sources.limits import Limits, limits_of, part_of, shallow
from duckplets.sources.mapped_columns import require_texts
from duckplets.sources.mapping import Mapped
from duckplets.sources.row_batches import first_row, gather, run, table_bytes
from duckplets.sources.row_provenance import Origins
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_BLOCK = 16 << 20
_BOM = b"\xef\xbb\xbf"


def json_rows(
    reader: Database,
    mapping: Mapped,
    pieces: Iterable[pa.RecordBatch],
    where: str,
    total: int | None = None,
    origins: Origins | None = None,
) -> Rows:
    """Return the rows of JSON lines, after a look at the first of them.

    Raises:
        SourceError: No text is mapped, or a part's columns are in none of the first lines.
    """
    keys = Keys(reader, mapping, where)
    sound = shallow(pieces, limits_of(reader).depth)
    row, part = first_row(reader, origins), part_of(reader)
    tables = judged(reader, gather(sound, table_bytes(mapping), row), where)
    if part is not None and part.keys is not None:
        keys.know(part.keys)
        values = map(keys.values, tables)
        rows = run(reader, keys.mapping, values, where, origins=origins)
        return Rows(rows, keys.mapping.defaults())
    first = next(tables, None)
    if first is not None:
        keys.look_for_sections(first)
        keys.learn(first)
    require_texts(keys.mapping, keys.seen, where, type(mapping).__name__)
    keys.check_parts()
    if part is not None:
        part.keys = keys.known()
    if first is None:
        return Rows(iter(()), mapping.defaults(), total)
    values = map(keys.values, chain([first], tables))
    rows = run(reader, keys.mapping, values, where, origins=origins)
    suited = keys.mapping.defaults()
    if keys.mapping.part("sections"):
        begun = list(islice(rows, 1))
        suited, rows = suited_to(keys.mapping, begun), chain(begun, rows)
    return Rows(chain(rows, keys.check_all()), suited, total)


def suited_to(mapping: Mapped, rows: Iterable[pa.RecordBatch]) -> str:
    """Return which default recipes suit rows that bring sections, by the roles they have."""
    roles = {role for batch in rows for role in _roles(batch)}
    if "rejected" in roles and "anchor" in roles:
        return "ready"
    return mapping.defaults() if mapping.part("anchor") or "anchor" in roles else "text"


def _roles(batch: pa.RecordBatch) -> list[str | None]:
    usable = batch.filter(pc.is_null(batch["skip"]))
    return list(pc.unique(pc.struct_field(usable["sections"].flatten(), "role")).to_pylist())


def line_pieces(stream: BinaryIO, where: str, limits: Limits) -> Iterator[pa.RecordBatch]:
    r"""Yield a stream's lines, cut at ``\n`` only, in blocks of about 16 MB or one line.

    Texts may hold any other separator (U+2028 too), so nothing else is a line's end. The bytes
    are not looked at otherwise: that they are UTF-8 is checked with all other text.

    Args:
        stream: Read to its end.
        where: The file, for messages.
        limits: Of these that of a row is what a line may be long.

    Raises:
        SourceError: A line is longer.
    """
    held: list[bytes] = []
    size = count = 0
    start = True
    while block := stream.read(_BLOCK):
        if start:
            block, start = block.removeprefix(_BOM), False
        first = block.find(b"\n")
        size += first if first >= 0 else len(block)
        if size > limits.size("row"):
            raise limits.exceeded(f"{where}, line {count + 1}", "it is longer", "row")
        cut = block.rfind(b"\n") + 1
        if cut:
            lines = _lines(b"".join([*held, block[:cut]]))
            check_lengths(lines, f"{where}, line", limits, count)
            held, size, count = [], len(block) - cut, count + lines.num_rows
            yield lines
            del lines
        held.append(block[cut:])
    if rest := b"".join(held):
        lines = _lines(rest + b"\n")
        check_lengths(lines, f"{where}, line", limits, count)
        yield lines


def check_lengths(lines: pa.RecordBatch, what: str, limits: Limits, count: int) -> None:
    """Refuse a line that is longer than a row may be.

    Args:
        lines: To look at.
        what: The file, and what is counted in it, for messages.
        limits: Of these that of a row counts.
        count: How many came before.

    Raises:
        SourceError: One is longer.
    """
    if lines.nbytes > limits.size("row"):
        lengths = pc.binary_length(lines.column(0)).to_numpy(zero_copy_only=False)
        longest = int(lengths.argmax())
        if lengths[longest] > limits.size("row"):
            raise limits.exceeded(f"{what} {count + longest + 1}", "it is longer", "row")


def _lines(data: bytes) -> pa.RecordBatch:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return line_batch(pa.Array.from_buffers(pa.string(), len(ends), buffers))


def line_batch(lines: pa.Array) -> pa.RecordBatch:
    """Return a piece of input of JSON lines."""
    return pa.record_batch([lines], ["line"])
