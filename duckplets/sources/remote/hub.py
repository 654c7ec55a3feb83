"""A data set on a hub as a source, resumable at any row.

line ─grammar→ URI ─layout→ files ─cache→ shards on disk ─→ rows and marks

Rows come in the order of file paths; nothing is shuffled. Marks name the revision, so a resumed
ingest reads what it began with even if the data set has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from duckplets.base.documents import LARGEST
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources.files import called, reader_of, used_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.remote import grammar
from duckplets.sources.remote.download import Hub, Sleep, imported
from duckplets.sources.remote.layout import Card, choose, form_of, parse_card
from duckplets.sources.remote.stores import Remote, arrivals
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import Blocks, Look, RowBlock, Rows, Stoppable, cursor_of
from duckplets.sources.typed import Classes, blocks_of, classes_of_features, with_classes

_PLACE = {"file": str, "row": range(1 << 63)}
_ROWS = 1_000  # rows of a batch of datasets


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HubSource(Mapped):
    """A data set on the Hugging Face Hub, or on the hub that ``HF_ENDPOINT`` names.

    Shards are downloaded one ahead of reading. Parquet, Arrow, JSON and CSV are read here; other
    formats are streamed by ``datasets``. An interrupted ingest continues at the row where it
    stopped. ``ClassLabel`` columns contain the names of the classes.
    """

    line: str
    """``hf://org/name``, perhaps with ``/config`` and ``/split``, and with keys as in a list:
    ``hf://org/name/config/split anchor=question positive=answer trust=0.9``. Default: the
    configuration ``default``, and all splits."""
    source_id: str | None = field(default=None, kw_only=True)
    """The source's name. Default: a name made from the URI."""
    weight: float | None = field(default=None, kw_only=True)
    """Weight of the source in the mixture that a list declares; stored with the source."""
    token: str | None = field(default=None, kw_only=True)
    """Token for private and gated data sets. Default: ``HF_TOKEN``, or the hub's own login. It is
    sent to the hub only, and neither stored nor shown."""

    in_pieces: bool = field(default=True, kw_only=True)
    """Whether records are stored in pieces as they come, so that an ingest can continue."""

    _uri: grammar.HubUri = field(init=False)
    _sleep: Sleep | None = field(init=False, default=None)  # None for real time

    kind: ClassVar[str] = "hub"

    def __post_init__(self) -> None:
        uri, options = _parsed(self.line, self._options())
        for name, value in {"_uri": uri, **options}.items():
            object.__setattr__(self, name, value)
        Mapped.__post_init__(self)
        if self.source_id is not None:
            grammar.check_name(self.source_id)
        grammar.check_weight(self.weight)

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self._options().items()]
        return f"HubSource({', '.join([repr(self.uri), *options])})"

    @property
    def uri(self) -> str:
        """URI of the data set."""
        return str(self._uri)

    def default_name(self) -> str:
        """Return ``source_id``, or a name made from the URI."""
        return self.source_id or self._uri.slug()

    def settings(self) -> dict[str, Any]:
        """Return what is read and how, without the hub's address or token."""
        return {"uri": self.uri, "mapping": self.read_settings()}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """List the repository, and return the rows from a place on."""
        place = cursor_of(cursor, self.uri, _PLACE)
        hub = Hub(self._uri.repo, self.token, self._sleep)
        revision = (place["of"] or {}).get("revision") or hub.info().sha
        files, card = _contents(hub, revision, self.uri)
        layout = choose(self._uri, files, card)
        remaining, skip = self._remaining(layout.files, place["at"])
        classes = card.labels(layout.config)
        fetch = partial(hub.fetch, revision=revision)

        def blocks() -> Iterator[RowBlock]:
            with closing(arrivals(remaining, fetch, hub.stop.set)) as arriving:
                done = skip
                for file, here in arriving:
                    yield from self._shard(reader, file.path, here, classes, done)
                    done = 0

        rows = opened(
            reader,
            self,
            blocks(),
            self.uri,
            cursor=cursor,
            total=card.rows(layout.config, self._uri.split),
            of={"revision": revision},
            known=True,
            marks=self.in_pieces,
            notes=layout.notes,
        )
        return Stoppable.of(rows, hub.stop.set)

    def _remaining(
        self, files: Sequence[Remote], place: dict[str, Any] | None
    ) -> tuple[Sequence[Remote], int]:
        if place is None:
            return files, 0
        there = [file.path for file in files]
        if place["file"] not in there:
            raise SourceError(
                f"{self.uri}: the unfinished ingest stopped in {place['file']}, which is not "
                f"one of its files; discard it with restart=True"
            )
        return files[there.index(place["file"]) :], place["row"]

    def _options(self) -> dict[str, Any]:
        """Return the options of a line that are set."""
        defaults: dict[str, Any] = {"source_id": None, "weight": None}
        defaults |= {part.name: part.default for part in fields(Mapped)}
        values = {name: getattr(self, name) for name in defaults}
        return {name: value for name, value in values.items() if value != defaults[name]}

    def _shard(
        self, reader: Database, file: str, here: Path, classes: Classes, skip: int
    ) -> Iterator[RowBlock]:
        """Yield the rows of a shard after the first ``skip``, each block with a cursor."""
        form, shown, row = form_of(file), f"{self.uri}: {file}", 0
        with called(here, shown):
            shard = _ByDatasets(here) if form is None else reader_of(form)(here, text="x")
            look = shard.look(here, reader)
            used = used_of(self, look, shown, reader)
            of_card = {n: c for n, c in classes.items() if n not in look.classes}
            for block in shard.blocks(here, look, used, reader):
                row += len(block.rows)
                if row > skip:
                    rows = with_classes(block.rows, of_card)
                    block = block._replace(rows=rows, columns=look.columns)
                    block = block.part(max(skip - (row - len(rows)), 0))
                    yield block._replace(file=file, at={"file": file, "row": row})


def _contents(hub: Hub, revision: str, uri: str) -> tuple[Sequence[Remote], Card]:
    files, readme = hub.files(revision), ""
    cards = [file for file in files if file.path == "README.md"]
    with closing(arrivals(cards, partial(hub.fetch, revision=revision))) as arriving:
        for _, here in arriving:
            with here.open(encoding="utf-8", errors="replace", newline="") as text:
                readme = text.read(LARGEST)
    return files, parse_card(readme, uri)


def configurations(uri: str) -> dict[str, list[str]]:
    """Return the splits of every configuration that the card of a data set names."""
    hub = Hub(grammar.parse_uri(uri).repo, None)
    _, card = _contents(hub, hub.info().sha, uri)
    return {config.name: list(config.splits) for config in card.configs}


class _ByDatasets:
    """A shard of another format, streamed by the loader of ``datasets``."""

    def __init__(self, here: Path) -> None:
        datasets = imported("datasets")
        with _loading(here):
            self._found = datasets.load_dataset(
                str(here.parent), data_files={"train": [here.name]}, split="train", streaming=True
            )

    def look(self, here: Path, _: Database) -> Look:
        """Return the columns of the first row."""
        with _loading(here):
            first = next(iter(self._found.with_format("arrow").iter(batch_size=1)), None)
        return Look([] if first is None else first.schema.names)

    def blocks(self, here: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows."""
        with _loading(here):
            for table in self._found.with_format("arrow").iter(batch_size=_ROWS):
                batches = table.combine_chunks().to_batches()
                features = self._found.features
                classes = classes_of_features(features.to_dict() if features else {})
                yield from blocks_of(batches, str(here), columns=used, classes=classes)


@contextmanager
def _loading(here: Path) -> Iterator[None]:
    """Turn any error of a loader into one sentence."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        lines = (line.strip() for line in str(error).splitlines() if line.strip())
        reason = ": ".join([type(error).__name__, *islice(lines, 1)])
        raise SourceError(f"{here} cannot be read by datasets either: {reason}") from None


# -- lists ----------------------------------------------------------------------------------------


def _parsed(line: str, arguments: dict[str, Any]) -> tuple[grammar.HubUri, dict[str, Any]]:
    if not isinstance(line, str):
        raise SourceError(
            f"{line!r} is no data set on the Hub; give a text such as {grammar.EXAMPLE}"
        )
    parsed = grammar.parse_line(line, complete=any(key in arguments for key in grammar.TEXTS))
    if parsed is None:
        raise SourceError(f"{line!r} names no data set; write {grammar.EXAMPLE}")
    uri, options = parsed
    for key in arguments:
        if key in options:
            raise SourceError(f"{key}= is given in the line and as an argument: leave out one")
    return uri, {**options, **arguments}
