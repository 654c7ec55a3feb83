"""Make the keys of mapped rows and the hashes of their contents, by hashlib where texts are long.

The law is in ``sql/sources/rows.sql``. DuckDB hashes 0.1 GB a second and has no use for the
processor's instructions; ``hashlib`` has, but every call costs half a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.db.queries import query

_CHUNK_ROWS = 8_192  # rows that go to DuckDB together, enough for several threads
_LONG = 128  # bytes of a text on average, from which hashlib takes less time


def hashed(reader: Database, rows: pa.Table) -> pa.Table:
    """Return ``key`` and ``content_hash`` of mapped rows."""
    texts = rows["sections"].combine_chunks().flatten().field("text")
    is_long = texts.nbytes > _LONG * max(len(texts), 1)
    if is_long and all(
        rows[n].null_count == rows.num_rows for n in ("identity", "prefix", "label")
    ):
        return _by_hashlib(rows)
    chunks = pa.Table.from_batches(rows.to_batches(_CHUNK_ROWS), rows.schema)
    with reader.registered(mapped=chunks):
        return reader.arrow(query("sources/rows"))


def _by_hashlib(rows: pa.Table) -> pa.Table:
    digests = [sha256(content).digest()[:8] for content in _contents(rows)]
    keys = rows["id"].combine_chunks()
    if keys.null_count:
        has_key = rows["has_key"].to_pylist()
        made = [d.hex() if k else None for d, k in zip(digests, has_key, strict=True)]
        keys = pc.coalesce(keys, pa.array(made, pa.string()))
    hashes = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
    return pa.table({"key": keys, "content_hash": hashes})


def _contents(rows: pa.Table) -> Iterator[bytes]:
    """Yield the serialised content of each row."""
    lists = rows["sections"].combine_chunks()
    sections = lists.flatten()
    roles = sections.field("role").to_pylist()
    texts = sections.field("text").cast(pa.binary()).to_pylist()
    each = [f"{role} {sha256(t).hexdigest()}" for role, t in zip(roles, texts, strict=True)]
    ends = np.cumsum([0, *lists.value_lengths().to_pylist()]).tolist()
    for start, end, more in zip(ends, ends[1:], _more(rows), strict=False):
        yield f"{end - start} {' '.join(each[start:end])}{more}".encode()


def _more(rows: pa.Table) -> Iterator[str]:
    """Yield what follows the sections: date, group, taxonomy and meta."""
    names = ("date", "group_key", "taxonomy", "meta")
    values = sum(len(each.values) for name in names[2:] for each in rows[name].chunks)
    if not values and all(rows[name].null_count == rows.num_rows for name in names[:2]):
        yield from ["dg-t0 m0 "] * rows.num_rows
        return
    days = rows["date"].cast(pa.string()).to_pylist()
    others = (rows[name].to_pylist() for name in names[1:])
    for day, group, topics, metas in zip(days, *others, strict=True):
        of_group = "-" if group is None else _told(group)
        of_metas = "".join(_told(key) + _told(value) for key, value in metas)
        of_topics = "".join(map(_told, topics))
        yield f"d{day or ''}g{of_group}t{len(topics)} {of_topics}m{len(metas)} {of_metas}"


def _told(text: str) -> str:
    return f"{len(text.encode())}:{text}"
