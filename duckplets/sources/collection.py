"""Collections: documents, queries, and labels of pairs of a query and a document.

folder, files, tables, a Hub data set ─by names of columns→ tables, each with a layout
documents, queries ─records of each row→ sources
labels ─pairs of each row→ query, document, and a label or the score of a candidate

Documents and queries are in one table if a row has its texts.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, ClassVar, NamedTuple

from duckplets.base.formats import HUB_MARK, OF_SUFFIX, TEXT
from duckplets.base.sanitize import listed, shown
from duckplets.db.database import Database
from duckplets.errors import SourceError, SplitError
from duckplets.sources import paths
from duckplets.sources.by_path import given_source, source_at, source_of
from duckplets.sources.custom import OwnKeys
from duckplets.sources.files import Files
from duckplets.sources.formats.json_file import JsonSource, line_blocks
from duckplets.sources.layouts import (
    LAYOUTS,
    Grades,
    Lists,
    Row,
    document_of,
    fits,
    plain_name,
    plain_names,
    query_id,
    query_of,
)
from duckplets.sources.limits import FileReader, Limits, limits_of
from duckplets.sources.mapping import OnError, raw
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import Blocks, Look, RowBlock, Rows, Stoppable
from duckplets.sources.values import Fault

_SPLITS = {"train": "train", "test": "test"}
_SPLITS |= dict.fromkeys(("dev", "valid", "val", "validation"), "validation")
_HEADERS = {  # of files without one, by the number of their fields
    "documents": ("pid", "passage"),
    "queries": ("qid", "query"),
    "labels": ("qid", "iteration", "pid", "label"),
}
_TABLES = {".txt", ".trec", ".qrels", *(of for of, form in OF_SUFFIX.items() if form != TEXT)}
_PLAIN = (".tsv", ".tab", ".txt", ".trec", ".qrels", "")
_AUTOMODEL = re.compile(r'\s*\{\s*"(corpus|data)"\s*:')


# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LineRows(Files):
    """Files without a header, as of MS MARCO and TREC: a row is a line."""

    header: tuple[str, ...] = ()

    kind: ClassVar[str] = "tsv"

    def look(self, file: Path, reader: Database) -> Look:
        """Return the names of the fields."""
        return Look(list(self.header))

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the rows of a file."""
        with paths.open_text(file, None, "\n") as text:
            for lines, numbers in line_blocks(text, str(file), limits_of(reader)):
                yield RowBlock(list(map(self._row, lines)), lines=numbers, raw=lines)

    def _row(self, line: str) -> dict[str, str] | Fault | None:
        bare, most = line.rstrip("\r\n"), len(self.header)
        found = bare.split() if most > 2 else bare.split("\t", most - 1)
        if len(found) != most:
            return Fault.of("ragged row", line) if bare.strip() else None
        return dict(zip(self.header, found, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """Rows of a collection, with the names of their columns."""

    source: Any
    names: Set[str]
    where: str
    split: str | None = None

    @classmethod
    def of(cls, table: Any, role: str, limits: Limits, split: str | None = None) -> RawTable:
        """Look at a path, a source or data."""
        source = raw(_source_of(table, role))
        where = shown(source.uri or f"{role} in memory")
        with closing(FileReader.within(limits)) as reader:
            first: Any = next(source.open(reader).batches, None)
        found = () if first is None else (first.columns or [k for row in first.rows for k in row])
        made = cls(source, frozenset(map(plain_name, found)), where, split)
        wanted = {
            "documents": "an id (_id, id, docid, …) and a text (text, passage or document)",
            "queries": "an id (_id, id, query_id, …) and a text (text, query or question)",
            "labels": "query-id, corpus-id and score, or another layout of the page on sources",
        }
        if not fits(role, made.names):
            there = listed(sorted(made.names)) or "none"
            raise SourceError(f"{where}: no {role}: give {wanted[role]}; its columns are: {there}")
        return made

    @property
    def layout(self) -> Grades | Lists | None:
        """The layout of labels in its rows, or None."""
        return next((layout for layout in LAYOUTS if layout.fits(self.names)), None)

    def blocks(self, reader: Database, of: dict[str, Any] | None = None) -> Rows:
        """Open its unmapped rows, in the revision that ``of`` names."""
        found: Rows = self.source.open(reader, of and {"rows": 0, "at": None, "of": of})
        return found


def _source_of(table: Any, role: str) -> Any:
    """Return the source of a table, which may be a file of lines without a header."""
    if not isinstance(table, (str, os.PathLike)):
        if hasattr(table, "__next__") or hasattr(table, "read_next_batch"):  # it is read again
            table = table.read_all() if hasattr(table, "read_all") else list(table)
        return given_source(table, {})
    path = os.fspath(table)
    if path.startswith(HUB_MARK):
        return source_of(path, text=TEXT)
    if (Path(path).expanduser() / "merlin_metadata.json").is_file():
        return source_of(path, format="parquet")
    if paths.inner_suffix(PurePath(path)) not in _PLAIN or Path(path).expanduser().is_dir():
        return source_of(path)
    first = paths.files(path)[0]
    if not isinstance(first, Path):
        return source_of(path, format="tsv")
    with paths.open_text(first) as text:
        line = text.readline(1 << 20).rstrip("\r\n")
    header = _HEADERS[role]
    is_named = fits(role, frozenset(map(plain_name, line.split("\t"))))
    if not is_named and len(line.split() if len(header) > 2 else line.split("\t")) == len(header):
        return _LineRows(path, header=header)
    return source_of(path, format="tsv")


class _PartKeys(OwnKeys):
    """The keys of a document or a query: the mapper looks for no others."""

    __slots__ = ()

    def part(self, part: str) -> tuple[str, ...]:
        """Return the key of a part."""
        return (part,) if part in ("id", "anchor", "text", "meta") else ()


@dataclass(frozen=True, slots=True, eq=False)
class CollectionPart:
    """The documents or the queries of tables, as a source."""

    tables: tuple[RawTable, ...]
    made_of: tuple[Callable[[Row], Iterator[dict[str, Any] | Fault]], ...]  # records, by table
    repeat: bool = False  # whether rows repeat records
    on_error: OnError | None = None
    blank: set[str] = field(default_factory=set)  # ids of records without text, as they are read

    trust: ClassVar[float | None] = None

    @property
    def kind(self) -> str:
        """Kind of the tables."""
        return str(self.tables[0].source.kind)

    @property
    def uri(self) -> str | None:
        """Where the tables are."""
        return ", ".join(table.source.uri or "" for table in self.tables) or None

    @property
    def in_pieces(self) -> bool:
        """Return whether an interrupted ingest can continue: its tables can be read again."""
        bars = ("is_stdin", "is_shuffled")
        sources = [table.source for table in self.tables]
        return all(
            hasattr(of, "settings") and not any(getattr(of, bar, False) for bar in bars)
            for of in sources
        )

    def default_name(self) -> str:
        """Return the name of the first table."""
        return str(self.tables[0].source.default_name())

    def settings(self) -> dict[str, Any]:
        """Return the settings of the tables."""
        return {"tables": [table.source.settings() for table in self.tables]}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Return the records from a cursor on."""
        of = ((cursor or {}).get("of") or {}).get("tables") or [None] * len(self.tables)
        found = [table.blocks(reader, each) for table, each in zip(self.tables, of, strict=True)]
        rows = opened(
            reader,
            _PartKeys(on_error=self.on_error),
            self._blocks(found),
            self.uri or self.default_name(),
            cursor=cursor,
            of={"tables": [each.of for each in found]},
            marks=self.in_pieces,
            notes=lambda: [note for each in found for note in each.notes()],
        )
        stops = [each.batches.stop for each in found if isinstance(each.batches, Stoppable)]
        return Stoppable.of(rows, (lambda: [stop() for stop in stops]) if stops else None)

    def _blocks(self, found: list[Rows]) -> Iterator[RowBlock]:
        seen = set[bytes]()
        for each, made_of in zip(found, self.made_of, strict=True):
            block: Any
            for block in each.batches:
                rows, lines = list[Any](), list[int]()
                for row, line in zip_longest(block.rows, block.lines):
                    for made in made_of(plain_names(row)) if isinstance(row, dict) else (row,):
                        if self.repeat and isinstance(made, dict):
                            text = repr(made).encode("utf-8", "surrogatepass")
                            digest = hashlib.blake2b(text, digest_size=16).digest()
                            if digest in seen:
                                continue
                            seen.add(digest)
                        if isinstance(made, Fault) and made.reason.endswith("without text"):
                            self.blank.add(made.value or "")
                        rows.append(made)
                        lines.append(line)
                yield RowBlock(rows, block.file, lines if block.lines else ())


# -- collections -----------------------------------------------------------------------------------


class Parts(NamedTuple):
    """The parts of a collection, looked at."""

    name: str
    documents: CollectionPart | str  # or the name of a source
    queries: CollectionPart
    labels: list[tuple[RawTable, Grades | Lists]]


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Documents, queries and labels, in the usual forms of retrieval data.

    Every part is a path, an ``hf://`` line, a source or data, as for ``ingest``. The names of the
    columns tell the layout: BEIR, MTEB, MS MARCO, TREC, ir_datasets, sentence-transformers,
    LightOn, Tevatron, NeMo Automodel or FlagEmbedding. The text of a document is its title, a
    blank and its text.
    """

    rows: Any = None
    """A BEIR folder, a data set of MTEB, a training file of Automodel, or rows that have a query
    and the texts of its documents; by split if it is known: ``{"train": rows}``."""
    documents: Any = field(default=None, kw_only=True)
    """The documents, or the name of a source of the corpus that has them."""
    queries: Any = field(default=None, kw_only=True)
    """The queries; rows that name their documents also have labels."""
    qrels: Any = field(default=None, kw_only=True)
    """The labels, by split if it is known: ``{"train": table, "test": "qrels.tsv"}``."""
    splits: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Splits of other names: ``{"eval": "test"}``. dev, valid and val mean validation."""

    _name: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.queries is None):
            raise SourceError("Collection: give rows, or queries= with documents= and qrels=")
        for name, split in (self.splits or {}).items():
            if split not in _SPLITS.values():
                raise SplitError(
                    f"splits: {name!r} means {split!r}; give train, validation or test"
                )

    def parts(self, limits: Limits, known: Set[str] = frozenset()) -> Parts:
        """Look at all parts; ``known`` are the sources of the corpus."""
        named = self if self.rows is None else self._named()
        queries = named._tables(named.queries, "queries", limits)
        labels = named._tables(named.qrels, "labels", limits)
        labelled = [(each, each.layout) for each in (*labels, *queries) if each.layout is not None]
        documents: CollectionPart | str
        if isinstance(named.documents, str) and named.documents in known:
            documents = named.documents
        elif named.documents is not None:
            tables = named._tables(named.documents, "documents", limits)
            documents = CollectionPart(tables, (document_of,) * len(tables))
        else:
            layouts = [each.layout for each in queries]
            whole = [each for each in layouts if isinstance(each, Lists) and each.are_whole]
            if len(whole) < len(queries):
                raise SourceError(
                    f"{queries[0].where}: its rows have no documents; give documents="
                )
            made_of = tuple(layout.documents for layout in whole)
            documents = CollectionPart(queries, made_of, repeat=True)
        repeat = len(labelled) > len(labels)
        part = CollectionPart(queries, (query_of,) * len(queries), repeat=repeat)
        if named.documents is not None:  # rows name these instead of containing texts
            labelled = [
                (table, replace(layout, are_whole=False) if isinstance(layout, Lists) else layout)
                for table, layout in labelled
            ]
        return Parts(named._name or part.default_name(), documents, part, labelled)

    def _tables(self, tables: Any, role: str, limits: Limits) -> tuple[RawTable, ...]:
        if tables is None:
            return ()
        by_split = tables if isinstance(tables, Mapping) else {None: tables}
        if isinstance(tables, (str, os.PathLike)) and role == "labels":
            folder = Path(tables).expanduser()
            by_split = _files_of(folder) if folder.is_dir() else by_split
        return tuple(
            RawTable.of(each, role, limits, None if name is None else self._split(name, each))
            for name, each in by_split.items()
        )

    def _split(self, name: Any, table: Any) -> str:
        found = (self.splits or {}).get(name) or _SPLITS.get(name)
        if found is None:
            where = "/".join(Path(table).parts[-2:]) if isinstance(table, (str, Path)) else "qrels"
            raise SplitError(
                f"{shown(where, 80)}: {shown(repr(name), 40)} is no split; say which it is: "
                f"splits={{{shown(repr(name), 40)}: 'test'}}"
            )
        return found

    def _named(self) -> Collection:
        """Return the collection that ``rows`` names or contains."""
        is_path = isinstance(self.rows, (str, os.PathLike))
        found = _named_by(os.fspath(self.rows), self.splits) if is_path else None
        return found or replace(self, rows=None, queries=self.rows)


def collection_of(source: Any, arguments: dict[str, Any]) -> Collection | None:
    """Return the collection that ``ingest`` was given; None for any other source."""
    if isinstance(source, Collection):
        for name in arguments:
            raise SourceError(f"{name}= is not for a collection; its columns tell its parts")
        return source
    if not isinstance(source, (str, os.PathLike)) or arguments.keys() - {"splits"}:
        return None
    return _named_by(os.fspath(source), **arguments)


def _named_by(path: str, splits: Any = None) -> Collection | None:
    """Return the collection of a folder, a file or a data set that names its tables."""
    is_hub = path.startswith(HUB_MARK)
    found = _of_hub(path) if is_hub else _of_path(Path(path).expanduser())
    if found is None:
        return None
    made = Collection(**found, splits=splits)
    name = path.removeprefix(HUB_MARK).strip("/").replace("/", "--") if is_hub else None
    object.__setattr__(made, "_name", name or paths.default_name(path.rstrip("/")))
    return made


def evaluation_sets(folder: Path, limits: Limits) -> list[tuple[str, str, CollectionPart]]:
    """Return the queries of test of BEIR folders at or below a folder: name, split, queries."""
    found = []
    for each in sorted({file.parent for file in folder.rglob("corpus.*")}):
        if (parts := _of_path(each)) is None:
            continue
        files = {_SPLITS.get(name, name): file for name, file in (parts["qrels"] or {}).items()}
        split = next((name for name in ("test", "validation") if name in files), None)
        if files and split is None:
            raise SourceError(
                f"{shown(each, 80)}: qrels are of {listed(files)}; give test.tsv, or the queries "
                f"alone: {shown(parts['queries'].name, 40)}"
            )
        known = None if split is None else _labelled_queries(files[split], limits)
        table = RawTable.of(parts["queries"], "queries", limits)
        name = each.name if each == folder else each.relative_to(folder).as_posix()
        part = CollectionPart((table,), (partial(_query_among, known),))
        found.append((name, split or "all", part))
    return found


def _labelled_queries(file: Path, limits: Limits) -> set[str | None]:
    table = RawTable.of(file, "labels", limits)
    layout: Any = table.layout
    with closing(FileReader.within(limits)) as reader:
        blocks: Any = table.blocks(reader).batches
        rows = (row for block in blocks for row in block.rows if isinstance(row, dict))
        return {said.query for row in rows for said in layout.said(plain_names(row))}


def _query_among(known: Set[str | None] | None, row: Row) -> Iterator[dict[str, Any] | Fault]:
    if known is None or query_id(row) in known:
        yield from query_of(row)


def _files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by the first part of their names."""
    return {
        file.name.split(".")[0]: file
        for file in sorted(folder.iterdir())
        if file.is_file() and paths.inner_suffix(file) in _TABLES
    }


def _of_path(path: Path) -> dict[str, Any] | None:
    """Return the parts of a BEIR folder, or of a training file of Automodel."""
    if path.is_dir():
        found, qrels = _files_of(path), path / "qrels"
        corpus = found.get("corpus")
        if corpus is None or paths.inner_suffix(corpus) not in OF_SUFFIX or corpus.suffix == ".txt":
            return None
        if "queries" not in found:
            raise SourceError(
                f"{shown(path, 80)}: {corpus.name} exists and queries.jsonl does not; a BEIR "
                f"folder has both, or read it as documents: --text text --id _id"
            )
        labels = _files_of(qrels) if qrels.is_dir() else None
        return {"documents": corpus, "queries": found["queries"], "qrels": labels}
    if path.suffix != ".json" or not path.is_file():
        return None
    with paths.open_text(path) as text:
        if not _AUTOMODEL.match(text.read(1024)):
            return None
    with closing(FileReader.within(Limits())) as reader:
        try:
            blocks: Any = raw(JsonSource(path, rows="corpus")).open(reader).batches
            rows = [row for block in blocks for row in block.rows]
        except SourceError:
            return None
    folders = [row["path"] for row in rows if isinstance(row, dict) and "path" in row]
    here = [path.parent / each if (path.parent / each).exists() else each for each in folders]
    if not here:
        raise SourceError(f'{shown(path, 80)}: "corpus" names no folder: give [{{"path": …}}]')
    documents = source_at([str(each) for each in here], "parquet", {})
    return {"documents": documents, "queries": JsonSource(path, rows="data")}


def _of_hub(line: str) -> dict[str, Any] | None:
    """Return the parts of a data set that MTEB describes."""
    from duckplets.sources.remote.grammar import parse_uri
    from duckplets.sources.remote.hub import configurations

    if len(line.split()) > 1:  # with keys it is one source
        return None
    uri = parse_uri(line.strip())
    if uri.split is not None or uri.config != "default":
        return None
    found = configurations(str(uri))
    queries = next((name for name in ("queries", "query") if name in found), None)
    if "corpus" not in found or queries is None:
        return None
    labels = next((name for name in ("qrels", "default") if name in found), "")
    return {
        "documents": f"{uri}/corpus",
        "queries": f"{uri}/{queries}",
        "qrels": {split: f"{uri}/{labels}/{split}" for split in found.get(labels, ())},
    }
