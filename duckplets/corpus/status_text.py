"""Format the state of a corpus as text, for ``print`` and ``duckplets status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from duckplets.base.sanitize import MESSAGE, counted, listed, shown, size, tallied, text_table

_READS_A_TRIPLET = 3.5  # pages read for three texts of some hundred bytes, each on up to two
_SIZES = ("records", "sections", "chunks", "tokens")
_UNFINISHED = ("source", "uri", "rows", "saved_at")
_MINED = ("recipe", "source", "split", "scorer", "anchors", "candidates", "stale")


def status_text(found: Mapping[str, Any]) -> str:
    """Return the result of ``Corpus.status`` as lines and tables."""
    return "\n".join(shown(line, MESSAGE) for line in (*_head(found), *_tables(found)))


def _head(found: Mapping[str, Any]) -> Iterator[str]:
    splits, sizes = found["splits"], {name: size(amount) for name, amount in found["bytes"].items()}
    parts = ", ".join(f"{name} {sizes[name]}" for name in ("indexes", "candidates"))
    yield f"corpus    {found['path']}, version {found['version']}"
    yield f"splits    {settings(splits) if splits else 'none yet; run: duckplets split …'}"
    yield f"chunks    {settings(found['chunking'])}"
    yield f"size      {sizes['corpus']} ({parts})"
    if (left := found["in_place"])["files"]:
        yield f"in place  texts in {counted(left['files'], 'file')} of {size(left['bytes'])}"
        yield from (f"changed   {change}" for change in left["changed"])
    if any(found["cleaned"].values()):
        yield f"cleaned   {tallied(found['cleaned'])}"
    if kept := found["snapshot"]:
        yield f"snapshot  {_snapshot(kept)}"
    yield from (f"labels  {settings(of)}" for of in found["labels"])
    for of in found["vectors"]:
        yield f"vectors   {_vectors(of)}"
    yield f"recipes   {listed(found['recipes']) or 'none stored; the defaults of each source'}"


def _tables(found: Mapping[str, Any]) -> Iterator[str]:
    weighed = any(source["weight"] is not None for source in found["sources"])
    columns = ["name", "kind", "trust", *(["weight"] if weighed else [])]
    yield from _table("sources", [*columns, *_SIZES], found["sources"])
    if found["collections"]:
        rows = ({name: _parts(of) for name, of in row.items()} for row in found["collections"])
        yield from _table("collections", ("source", "documents", "queries", "labels"), rows)
    if found["unfinished"]:
        yield from _table("unfinished ingests", _UNFINISHED, found["unfinished"])
    if found["splits"]:
        yield from _table("records by split", ("source", "split", "records"), found["records"])
        for split, of_split in found["shared_anchors"].items():
            yield shared_anchors(split, of_split["anchors"], of_split["shared"])
        pools = (
            pool | {"left out": tallied(pool["left_out"])}
            for pool in found["pools"]
            if pool["anchors"] or pool["left_out"]
        )
        yield from _table("pools", ("source", "split", "recipe", "anchors", "left out"), pools)
        if found["uncounted"]:
            yield "not counted, for there are many records: call Corpus.status(pools=True)"
        if found["mining"]:
            yield from _table("mined negatives", _MINED, found["mining"])
    if rows := found["capacity"]:
        yield from _table("samples, estimated from counts", [*rows[0]], rows)
    if found["runs"]:
        yield from ("", "saved runs", *cursor_lines(found["runs"]))
    else:
        yield from ("", "no saved run")


def _table(title: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", title, *text_table(columns, ([row[name] for name in columns] for row in rows)))


def _parts(of: str | Mapping[str, int]) -> str:
    return of if isinstance(of, str) else ", ".join(f"{name}: {n:,}" for name, n in of.items())


def cursor_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table of saved runs as lines."""
    columns = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    cells = []
    for row in rows:
        later = (f"{more['version']} from step {more['step']:,}" for more in row["later_versions"])
        versions = ", ".join([str(row["corpus_version"]), *later])
        cells.append([{**row, "corpus_version": versions}[name] for name in columns])
    return text_table(columns, cells)


def shared_anchors(split: str, anchors: int, shared: int) -> str:
    """Return in words how many anchors of a split are also in train."""
    share = f" ({100 * shared / anchors:.1f} %)" if shared else ""
    return f"{split}: {shared:,} of {anchors:,} anchors are anchors of train too{share}"


def settings(values: Mapping[str, Any]) -> str:
    """Return settings in one line, without a value of None."""
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def fit(needed: int, room: int | None, reads_per_s: int | None) -> str:
    """Return in words whether a snapshot fits into memory, and the speed without it."""
    if room is None:
        return "whether it fits into memory is not known here"
    if needed <= room:
        return f"it fits into the {size(room)} of memory that are available"
    beyond = f"it does not fit into the {size(room)} of memory that are available"
    if reads_per_s is None:
        return f"{beyond}, and this system cannot be asked to read ahead: triplets will be slow"
    rate = reads_per_s / _READS_A_TRIPLET
    return (
        f"{beyond}: texts are read ahead, {reads_per_s:,} a second from this disk, which is about "
        f"{rate:,.0f} triplets"
    )


def _snapshot(found: Mapping[str, Any]) -> str:
    if "damaged" in found:
        return f"damaged: {found['damaged']}"
    how = "" if found["current"] else ", behind the corpus: the next run of a large one adds to it"
    fitting = fit(found["bytes"], found["memory_available"], found["reads_per_s"])
    return f"{found['folder']}, version {found['version']}, {size(found['bytes'])}{how}; {fitting}"


def _vectors(found: Mapping[str, Any]) -> str:
    if "damaged" in found:
        return str(found["damaged"])
    failed = f", {found['failures']:,} texts failed" if found["failures"] else ""
    what = f"{found['vectors']:,} of {found['dimension']} dimensions, {found['dtype']}"
    return f"{found['name']}: {what}, commit {found['commit']}{failed}"
