"""Data sets on a hub as sources: their shards one after another, from any row on.

    URI ─layout→ files ─arrivals→ shards in the cache ─→ pieces ─→ rows and marks

Order is that of the files' paths and of the rows in them; nothing is shuffled. A mark names the
revision, so an ingest that goes on reads what it began with, even where the data set has changed
meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from duckplets.errors import SourceError
from duckplets.sources.base import Columns, Mapped, OnError, Rows
from duckplets.sources.hub import grammar
from duckplets.sources.hub.cache import LIMIT, ShardCache, default_folder, size_of
from duckplets.sources.hub.card import parse_card
from duckplets.sources.hub.download import Hub
from duckplets.sources.hub.layout import choose
from duckplets.sources.hub.reading import Begun, Reading, Start

if TYPE_CHECKING:
    from duckplets.db.database import Database


class HubSource:
    """A data set on the Hugging Face Hub, or on the hub that ``HF_ENDPOINT`` names.

    Shards are brought to a cache, one ahead of reading. Parquet, Arrow, JSON and CSV are read
    here; what has other forms goes through the streams of ``datasets``. An ingest that stops
    half-way goes on at the row it stopped at. Columns that are a ``ClassLabel`` hold the names of
    the classes.

    Args:
        line: ``hf://org/name``, perhaps with ``/config`` and ``/split``, and with keys as in a
            list: ``hf://org/name/config/split anchor=question positive=answer trust=0.9``.
            Without a configuration ``default`` is meant, without a split all of them.
        anchor: As in every source, and so the next eight: instead of a key in the line.
        positive: See ``anchor``.
        context: See ``anchor``.
        text: See ``anchor``.
        id: See ``anchor``.
        date: See ``anchor``.
        group: See ``anchor``.
        taxonomy: See ``anchor``.
        meta: See ``anchor``.
        prefix: Column with the record's own metadata prefix.
        trust: Trust in the source, from 0 to 1, or the column that says it per row.
        source_id: The source's name, instead of one made of the URI.
        converter: Converter of instruction data, instead of columns of texts.
        on_error: What becomes of a row that the converter cannot read.
        cache: Folder for shards, of its own; else ``DUCKPLETS_CACHE``, else one in the user's
            cache folder.
        cache_limit: Bytes, or a text such as ``"10GB"``: how much the shards may take there; the
            longest unused make room for others.
        token: For private and gated data sets; else ``HF_TOKEN``, else the hub's own login. It
            is sent to the hub only, and neither stored nor shown.

    Raises:
        SourceError: The line or an argument is wrong.
    """

    kind: ClassVar[str] = "hub"

    def __init__(
        self,
        line: str,
        *,
        anchor: Columns = None,
        positive: Columns = None,
        context: Columns = None,
        text: Columns = None,
        id: str | None = None,  # noqa: A002 - the name it has in every source
        date: str | None = None,
        group: str | None = None,
        taxonomy: Columns = None,
        meta: Columns = None,
        prefix: str | None = None,
        trust: float | str | None = None,
        source_id: str | None = None,
        converter: str | None = None,
        on_error: OnError | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: int | str = LIMIT,
        token: str | None = None,
    ) -> None:
        given = {
            "anchor": anchor,
            "positive": positive,
            "context": context,
            "text": text,
            "id": id,
            "date": date,
            "group": group,
            "taxonomy": taxonomy,
            "meta": meta,
            "prefix": prefix,
            "trust": trust,
            "source_id": source_id,
            "converter": converter,
            "on_error": on_error,
        }
        self._uri, options = _parsed(line, {k: v for k, v in given.items() if v is not None})
        self._name: str | None = options.pop("source_id", None)
        if self._name is not None:
            grammar.check_name(self._name)
        self.mapping = Mapped(**options)
        self._cache = None if cache is None else Path(cache).expanduser()
        self._cache_limit = size_of(cache_limit)
        self._token = token
        self._sleep: Callable[[float], Any] | None = None  # between tries; None for real time

    def __repr__(self) -> str:
        parts = [repr(str(self._uri))]
        parts += [f"{name}={value!r}" for name, value in self._options().items()]
        return f"HubSource({', '.join(parts)})"

    @property
    def uri(self) -> str:
        """Which data set."""
        return str(self._uri)

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column that says it per row."""
        return self.mapping.trust

    def default_name(self) -> str:
        """Return ``source_id``, else a name made of the URI."""
        return self._name or self._uri.slug()

    def settings(self) -> dict[str, Any]:
        """Return which data set is read and how; neither the hub's address nor a token."""
        read = {part: list(names) for part, names in self.mapping.parts() if names}
        converted = {"converter": self.mapping.converter, "on_error": self.mapping.on_error}
        return {"uri": self.uri, "mapping": read, **converted}

    def open(self, reader: Database) -> Rows:
        """Look at what the repository holds, and return the rows from the first on.

        Raises:
            SourceError: The hub cannot be reached or denies access, there is no such data set,
                configuration or split, or a column is not there.
        """
        return self.open_at(reader, None)

    def open_at(self, reader: Database, cursor: Any) -> Rows:
        """Open at a place; see ``open``.

        Args:
            reader: An instance to run statements in.
            cursor: Of a ``Mark``, or None for the beginning.
        """
        start = Start.of(cursor, self.uri)
        hub = Hub(self._uri.repo, self._token, self._sleep)
        revision = start.revision or hub.revision()
        files = hub.files(revision)
        readme = next((file for file in files if file.path == "README.md"), None)
        card = parse_card(hub.text(readme, revision) if readme else "", self.uri)
        layout = choose(self._uri, files, card)
        cache = ShardCache(self._cache or default_folder(), self._cache_limit)
        reading = Reading(self.uri, self.mapping, card.labels(layout.config), start)
        batches = reading.batches(reader, hub, cache, revision, layout.files)
        total = card.rows(layout.config, self._uri.split)
        return Rows(Begun(batches, hub.stop.set), self.mapping.defaults(), total)

    def _options(self) -> dict[str, Any]:
        values = {field.name: getattr(self.mapping, field.name) for field in fields(self.mapping)}
        values = {"source_id": self._name} | values
        return {
            k: v for k, v in values.items() if v is not None and (k, v) != ("on_error", "raise")
        }


def read_hub_list(
    path: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | str = LIMIT,
    token: str | None = None,
) -> list[HubSource]:
    """Return the sources that a list names, one a line, as ``HubSource`` takes them.

    Blank lines and what follows a ``#`` do not count.

    Args:
        path: Of the list.
        cache: As in ``HubSource``, for all of them.
        cache_limit: As in ``HubSource``.
        token: As in ``HubSource``.

    Raises:
        SourceError: The list cannot be read, names nothing, or has lines that are wrong: all of
            them, each as ``FILE:LINE: what is wrong``.
    """
    found: list[HubSource] = []
    lines: dict[str, int] = {}
    problems = []
    for number, line in grammar.read_lines(path):
        try:
            if grammar.parse_line(line) is None:
                continue
            source = HubSource(line, cache=cache, cache_limit=cache_limit, token=token)
            name = source.default_name()
            if lines.setdefault(name, number) != number:
                raise SourceError(
                    f"the name {name!r} is taken by line {lines[name]}; give a source_id="
                )
            found.append(source)
        except SourceError as error:
            problems += [f"{path}:{number}: {problem}" for problem in str(error).splitlines()]
    if problems:
        raise SourceError("\n".join(problems))
    if not found:
        raise SourceError(f"{path} names no data set; a line of it is {grammar.EXAMPLE}")
    return found


def _parsed(line: str, given: dict[str, Any]) -> tuple[grammar.HubUri, dict[str, Any]]:
    """Return what a line and arguments say together."""
    if not isinstance(line, str):
        raise SourceError(
            f"{line!r} is no data set on the Hub; give a text such as {grammar.EXAMPLE}"
        )
    entry = grammar.parse_line(line, complete=any(key in given for key in grammar.TEXTS))
    if entry is None:
        raise SourceError(f"{line!r} names no data set; write {grammar.EXAMPLE}")
    for key in given:
        if key in entry.options:
            raise SourceError(f"{key}= is given in the line and as an argument: leave out one")
    options: dict[str, Any] = dict(entry.options)
    return entry.uri, options | given
