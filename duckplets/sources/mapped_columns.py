"""From the names in a mapping to the places of columns, with errors that list what is there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from duckplets.base.sanitize import listed
from duckplets.errors import SourceError, nearest
from duckplets.sources.field_paths import is_optional, match, path_of
from duckplets.sources.formats.json_records import head
from duckplets.sources.mapping import TEXTS, Mapped
from duckplets.sources.rows import LEFT_OUT


def require_texts(mapping: Mapped, columns: Sequence[str], where: str, kind: str) -> None:
    """Refuse a mapping that names no text, showing what there is to choose from.

    Raises:
        SourceError: Neither anchor, nor context, nor text is given, and no converter.
    """
    if mapping.converter is not None or any(mapping.part(part) for part in TEXTS):
        return
    first, second = (*columns, "title", "body")[:2] if len(columns) > 1 else ("title", "body")
    raise SourceError(
        f"{where}: say which columns hold the text, for example {kind}(…, anchor={first!r}, "
        f"positive={second!r}) or {kind}(…, text={second!r}); {there_are(columns)}"
    )


def resolve(mapping: Mapped, columns: Sequence[str], where: str) -> list[int]:
    """Return the place in ``columns`` of each of the mapping's names, then of what is converted.

    Raises:
        SourceError: A name fits no column, or more than one; a converter's field is not there.
    """
    named = [_place(name, columns, where) for name in mapping.names()]
    for name, place in zip(mapping.names(), named, strict=True):
        check_optional(mapping, name, columns[place], columns, where)
    converter = mapping.conversion()
    if converter is None:
        return [*named, *range(len(columns))] if mapping.needs_whole_rows() else named
    for name in converter.needed:
        _place(name, columns, where)
    if mapping.needs_whole_rows():
        return [*named, *range(len(columns))]
    fields = [name for name in converter.fields if match(name, columns)]
    return [*named, *(_place(name, columns, where) for name in fields)]


def known_fields(mapping: Mapped) -> tuple[str, ...]:
    """Return what a built-in converter and its mapping read, in lower case; of others nothing.

    Without a converter it is the user who chose the columns, and a function reads whole rows.
    """
    converter = mapping.conversion()
    if converter is None or converter.function is not None:
        return ()
    names = mapping.names()
    return tuple({name.lower() for name in (*converter.fields, *names, *map(head, names))})


def telling(
    mapping: Mapped, columns: Sequence[str], pieces: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield pieces of a table, with the columns of it that a converter does not read.

    A column is one of every row: to see which rows have a value there it would have to be read.
    """
    known = known_fields(mapping)
    others = [name for name in columns if name.lower() not in known] if known else []
    said = json.dumps(others)
    for piece in pieces:
        if others:
            piece = piece.append_column(LEFT_OUT, pa.repeat(said, piece.num_rows))
        yield piece


def check_optional(
    mapping: Mapped, name: str, column: str, columns: Sequence[str], where: str
) -> None:
    """Refuse a name that says that its column may lack, where that is no further context.

    Raises:
        SourceError: It is of another part.
    """
    if is_optional(name, column) and name not in mapping.part("context"):
        raise SourceError(
            f"{unknown(name, columns, where)} (a ? behind a name is for context=, of which a row "
            f"may have none)"
        )


def several_fit(name: str, found: Sequence[str], where: str) -> SourceError:
    """Return the error for a name that could be any of several columns."""
    twins = listed(map(repr, found))
    return SourceError(f"{where}: column {name!r} could be any of {twins}; rename one")


def unknown(name: str, columns: Sequence[str], where: str) -> SourceError:
    """Return the error for a column that is not there."""
    return SourceError(f"{where}: no column {name!r}{nearest(name, columns)}; {there_are(columns)}")


def there_are(columns: Sequence[str]) -> str:
    """Return a sentence that lists the columns."""
    return f"its columns are: {listed(columns)}" if columns else "it has no columns"


def _place(name: str, columns: Sequence[str], where: str) -> int:
    places = match(name, columns)
    if not places and (path := path_of(name, columns)):
        return path[0]
    if not places:
        raise unknown(name, columns, where)
    if len(places) > 1:
        raise several_fit(name, [columns[place] for place in places], where)
    return places[0]
