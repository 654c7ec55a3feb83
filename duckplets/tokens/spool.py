"""Store encoded texts in Arrow files until their shards are written."""

# Only a complete part has its final name, so an export continues with the missing parts.

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.atomic import written_aside
from duckplets.tokens.encode import Encoded
from duckplets.tokens.texts import TextBlock

METRIC = "metric:"  # prefix of metric columns
OFFSETS = pa.list_(pa.struct([("start", pa.int32()), ("stop", pa.int32())]))


class Spool:
    """Encoded texts in Arrow files, one part for each range of places."""

    def __init__(self, folder: Path, parts: list[tuple[int, int]]) -> None:
        self.folder, self.parts = folder, parts
        self._starts = np.array([low for low, _ in parts], np.int64)

    def path(self, part: int) -> Path:
        """Return the path of a part."""
        return self.folder / f"part-{part:06d}.arrow"

    def missing(self) -> list[int]:
        """Return the parts that are not encoded yet."""
        return [part for part in range(len(self.parts)) if not self.path(part).exists()]

    def write(self, part: int, rows: list[tuple[TextBlock, Encoded]]) -> None:
        """Write a part."""
        table = pa.concat_tables([_columns(*block) for block in rows], promote_options="default")
        metadata = {
            "cut": str(sum(encoded.cut for _, encoded in rows)),
            "blank": str(sum(not text for _, encoded in rows for text in encoded.texts)),
        }
        table = table.combine_chunks().replace_schema_metadata(metadata)
        with (
            written_aside(self.path(part)) as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)

    def read(self, part: int) -> pa.Table:
        """Return a part, memory-mapped."""
        with pa.memory_map(str(self.path(part))) as file:
            return pa.ipc.open_file(file).read_all()

    def counts(self) -> Integers32:
        """Return the tokens of every place."""
        found = [self.read(part)["token_count"].to_numpy() for part in range(len(self.parts))]
        return np.concatenate(found) if found else np.zeros(0, np.int32)

    def total(self, name: str) -> int:
        """Return how many texts were ``cut`` or ``blank``."""
        parts = range(len(self.parts))
        return sum(int(self.read(part).schema.metadata[name.encode()]) for part in parts)

    def metrics(self) -> pa.Schema:
        """Return the names of metrics that any text has."""
        found: dict[str, pa.DataType] = {}
        for part in range(len(self.parts)):
            for field in self.read(part).schema:
                if field.name.startswith(METRIC):
                    found.setdefault(field.name, field.type)
        return pa.schema(sorted(found.items()))

    def rows(self, places: Integers) -> pa.Table:
        """Return the rows of places, in that order, loaded into memory."""
        order = np.argsort(places, kind="stable")
        places = places[order]
        owners = np.searchsorted(self._starts, places, side="right") - 1
        tables = []
        for part in np.unique(owners).tolist():
            within = places[owners == part] - self._starts[part]
            tables.append(self.read(part).take(pa.array(within)).replace_schema_metadata())
        found = pa.concat_tables(tables, promote_options="default")
        return found.take(pa.array(np.argsort(order)))


def _columns(block: TextBlock, rows: Encoded) -> pa.Table:
    """Return encoded texts as columns of a part."""
    details = block.details
    originals = [text.encode("utf-8", "surrogatepass") for text in block.originals]
    ends = pa.array(np.concatenate([[0], np.cumsum(rows.counts)]).astype(np.int32))
    columns = {
        "text": pa.array(rows.texts, pa.string()),
        "tokens": pa.ListArray.from_arrays(ends, pa.array(rows.tokens)),
        "record_id": details["record_id"],
        "domain": details["domain"],
        "token_count": pa.array(rows.counts.astype(np.int32)),
        "token_sum": pa.array(rows.sums),
        "sha256": pa.array([hashlib.sha256(text).hexdigest() for text in originals], pa.string()),
    }
    if rows.spans is not None:
        spans = pa.StructArray.from_arrays(
            [pa.array(rows.spans[:, 0]), pa.array(rows.spans[:, 1])],
            fields=list(OFFSETS.value_type),
        )
        columns["offsets"] = pa.ListArray.from_arrays(ends, spans, type=OFFSETS)
    measured = _metrics(details["metrics"].combine_chunks())
    measured |= {
        "bytes": pa.array(list(map(len, originals)), pa.int64()),
        "characters": pa.array(list(map(len, block.originals)), pa.int64()),
    }
    return pa.table(columns | {f"{METRIC}{name}": values for name, values in measured.items()})


def _metrics(found: pa.StructArray) -> dict[str, pa.Array]:
    """Return the metrics that any record has, and values of gates by their names."""
    measured = {}
    if found.null_count == len(found):
        return {}
    for field in found.type:
        values = pc.struct_field(found, field.name)
        if values.null_count == len(values):
            continue
        if pa.types.is_map(field.type):
            rows = [dict(row or ()) for row in values.to_pylist()]
            for name in sorted({name for row in rows for name in row}):
                measured[name] = pa.array([row.get(name) for row in rows], pa.float64())
        else:
            measured[field.name] = values
    return measured
