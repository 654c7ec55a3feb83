"""Compare the catalog of a file with its migrations before the file can run anything."""

# DuckDB looks functions up in the file first: a macro ``count`` in it would run in every statement.

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import duckdb

from duckplets.base.sanitize import listed, shown
from duckplets.db import files
from duckplets.db.files import FileId
from duckplets.db.queries import bound, identifier, migrations, query
from duckplets.errors import MigrationError

Kind = Literal["corpus", "state", "vectors"]
Row = tuple[Any, ...]
Entry = tuple[str, str, str]  # kind, schema, name
Entries = dict[Entry, frozenset[str]]  # with the SQL of each; a macro may have several

_MADE_AGAIN: dict[str, str] = {
    "corpus": "make it again: duckplets ingest",
    "state": "let runs begin anew",
    "vectors": "make it again: duckplets embed",
}
FileState = tuple[FileId, tuple[tuple[tuple[int, ...], ...], bytes]]
_CHECKED: dict[FileId, tuple[Any, Checked]] = {}
_HEADER = 12_288  # bytes: three headers, of which each commit writes one

_MADE: dict[tuple[str, ...], Entries] = {}  # by the statements that make it
_BUILT_IN = ("TYPE", "SCHEMA")  # kinds that every file has some of
_COPY = "put a copy of the file in its place"

# Table macros of recipes. No statement finds them by a bare name, so they are compared when a
# corpus is open, by duckplets/pools/macros.py.
RECIPE_MACROS = {("MACRO TABLE", "pools"), ("MACRO TABLE", "left_out")}

# DuckDB prints one definition with other brackets, quotes and truth values in memory, from a file,
# and by 1.5 and 2.0. Its words and signs stay the same.
_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|[^\w\s()]""")
_SPELLINGS = (
    (re.compile(r"CAST\('t' AS BOOLEAN\)"), "true"),
    (re.compile(r"CAST\('f' AS BOOLEAN\)"), "false"),
    (re.compile(r"\bmain\.(?=[\w\"]+\()|\bMATERIALIZED\b|(?<=\bBIT)\(1\)"), ""),
    (  # as DuckDB 1.5 prints it
        re.compile(r"list_sort\(list\((\w+)\), 'ORDER_DEFAULT', 'ORDER_DEFAULT'\)"),
        r"list(\1 ORDER BY \1)",
    ),
)
_OF_A_SET = re.compile(r"\b((?:packed_)?vectors)_\d+\b")  # tables and views of one set of vectors

# Views that follow from data: where texts are, what was mined, which vectors there are. They may
# read these tables, and call these functions.
_FOLLOWING = re.compile(r"sections|minings|candidates|mined_positives|vectors_0")
_FUNCTIONS = {
    *(
        "||",
        "+",
        "-",
        "beside_corpus",
        "floats_of_float16",
        "floats_of_float32",
        "from_json",
        "in_texts",
    ),
    *("list_apply", "list_extract", "list_filter", "list_transform", "list_value"),
    *("parse_filename", "read_parquet", "regexp_matches", "struct_extract", "struct_pack"),
    "unnest",
}
_TABLES = {"stored_sections", "minings", "packed_vectors_0"}
_NODES = {"SELECT_NODE", "SET_OPERATION_NODE"}
_FROM = {"BASE_TABLE", "EMPTY", "JOIN", "SUBQUERY", "TABLE_FUNCTION"}


@dataclass(slots=True)
class Checked:
    """A file that holds only what duckplets made."""

    kind: Kind | None = None  # None: it is empty
    placed: tuple[Row, ...] = ()  # path, size, time and footer of Parquet files that texts are in
    macros: Entries | None = None  # those of recipes, until somebody has compared them


def state_of(path: Path) -> FileState | None:
    """Return size, time and header of a file and its WAL, which change with each commit."""
    # Closing a file that this process has open would release DuckDB's lock.
    try:
        with path.open("rb") as file:
            facts, header = os.fstat(file.fileno()), file.read(_HEADER)
    except OSError:
        return None
    try:
        wal = files.wal_of(path).stat()
    except OSError:
        wal = None
    times = [(f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in (facts, wal) if f is not None]
    return (facts.st_dev, facts.st_ino), (tuple(times), header)


def known(state: FileState | None) -> Checked | None:
    """Return what a check found in a file that has not changed since."""
    if state is None:
        return None
    found = _CHECKED.get(state[0])
    return found[1] if found is not None and found[0] == state[1] else None


def note(state: FileState | None, checked: Checked) -> None:
    """Remember what a check found in a file."""
    if state is not None:
        _CHECKED[state[0]] = state[1], checked


def note_own_changes(path: Path, checked: Checked | None) -> None:
    """Remember the state of a checked file that only this process has changed since."""
    # A corpus is checked again: its rows say which files statements may read.
    if checked is not None and checked.kind in ("state", "vectors"):
        note(state_of(path), checked)


@contextmanager
def aside(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a second connection, in which names mean DuckDB's own, whatever the file has."""
    other = connection.cursor()
    try:
        other.execute(query("db/catalog/aside"))
        yield other
    finally:
        other.close()


def check(connection: duckdb.DuckDBPyConnection, name: str) -> Checked:
    """Refuse a file that holds anything that duckplets did not make."""
    ((database,),) = connection.execute(query("db/catalog/database")).fetchall()
    if not _has_record(connection, database):
        theirs = _entries(connection)[database]
        if all(kind in _BUILT_IN for kind, _, _ in theirs):
            return Checked()
        raise _foreign(theirs, name)
    kind, texts = _made_by(_rows(connection, "db/catalog/applied", database), name)
    theirs, ours = _both(connection, database, texts)
    macros = {e: theirs.pop(e) for e in [*theirs] if kind == "corpus" and e[:2] in RECIPE_MACROS}
    for entry, definitions in theirs.items():
        if not _is_ours(connection, entry, definitions, ours):
            raise _refusal(entry, definitions, name, is_known=entry in ours)
    if lacking := sorted(ours.keys() - theirs.keys() - {("TABLE", "main", "packed_vectors_0")}):
        raise MigrationError(f"{name} lacks the {_named(lacking[0])}; {_COPY}")
    placed = _rows(connection, "db/catalog/files", database) if kind == "corpus" else []
    return Checked(kind, tuple(placed), macros)


def applied(rows: list[Row], name: str) -> tuple[Kind, set[int]]:
    """Return the kind of a file and the numbers of its migrations."""
    kind: Kind = rows[0][2] if rows and rows[0][2] in _MADE_AGAIN else "corpus"
    known = {number: text for number, _, text in migrations(kind)}
    for number, migration, _, checksum in rows:
        if number not in known:
            raise MigrationError(
                f"{name} has a newer schema ({shown(migration, 40)}) than this duckplets knows; "
                f"upgrade with: pip install -U duckplets"
            )
        if checksum != checksum_of(known[number]):
            raise MigrationError(
                f"{name} was made by an earlier duckplets, before 0.1, whose files are "
                f"not read; move it away and {_MADE_AGAIN[kind]}"
            )
    return kind, {row[0] for row in rows}


def checksum_of(text: str) -> str:
    """Return the checksum of a migration."""
    return hashlib.sha256(text.encode()).hexdigest()


def check_macros(name: str, found: Entries, made: Entries) -> None:
    """Refuse macros that differ from the file's recipes."""
    for entry in sorted(found.keys() | made.keys()):
        if entry not in made:
            raise _refusal(entry, found[entry], name, is_known=False)
        theirs = found.get(entry)
        if not (_is_equal(theirs, made[entry]) or _means_the_same(theirs, made[entry])):
            raise MigrationError(
                f"{name}: the {_named(entry)} is not what this duckplets makes of its recipe; "
                f"{_COPY}, or {_MADE_AGAIN['corpus']}"
            )


def parts_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]] | None:
    """Return all parts of a query as DuckDB's parser reads it, or None; nothing is bound or run."""
    parts: list[dict[str, Any]] = []
    statement = bound(query("db/catalog/reading"), {"text": sql})
    ((reading,),) = connection.execute(statement).fetchall()

    def noted(part: dict[str, Any]) -> dict[str, Any]:
        parts.append(part)
        return part

    return None if json.loads(reading, object_hook=noted)["error"] else parts


def _made_by(rows: list[Row], name: str) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of a file and the statements that made it."""
    kind, numbers = applied(rows, name)
    texts = [text for number, _, text in migrations(kind) if number in numbers]
    of_a_set = [query("vectors/store/create")] if kind == "vectors" else []
    return kind, (query("db/migrate/create_table"), *texts, *of_a_set)


def _both(
    connection: duckdb.DuckDBPyConnection, database: str, texts: tuple[str, ...]
) -> tuple[Entries, Entries]:
    """Return the entries of a file, and the entries that statements make in an empty database."""
    if texts in _MADE:
        return _entries(connection)[database], _MADE[texts]
    reference = f"{database}_"  # in the same instance, so that both are listed at once
    connection.execute(_naming("db/catalog/attach", reference))
    connection.execute(_naming("db/catalog/use", reference))
    connection.execute(texts[0])
    connection.execute(query("db/sessions/names"))
    for statement in connection.extract_statements("\n;".join(texts[1:])):
        is_view_of_a_set = "floats_of_dtype" in statement.query
        if "COMMENT ON" not in statement.query and not is_view_of_a_set:
            connection.execute(statement)
    connection.execute(query("db/catalog/aside"))
    found = _entries(connection)
    connection.execute(_naming("db/catalog/detach", reference))
    _MADE[texts] = found[reference]
    return found[database], found[reference]


def _entries(connection: duckdb.DuckDBPyConnection) -> dict[str, Entries]:
    """Return what each database of an instance holds."""
    rows = connection.execute(query("db/catalog/entries")).fetchall()
    if int(duckdb.__version__.partition(".")[0]) >= 2:
        rows += connection.execute(query("db/catalog/triggers")).fetchall()
    found: dict[str, dict[Entry, set[str]]] = {}
    for where, kind, schema, name, sql in rows:
        entry = kind, schema, _OF_A_SET.sub(r"\1_0", name)
        definitions = found.setdefault(where, {}).setdefault(entry, set())
        definitions.add(_OF_A_SET.sub(r"\1_0", sql or ""))
    return {
        where: {entry: frozenset(definitions) for entry, definitions in entries.items()}
        for where, entries in found.items()
    }


def _has_record(connection: duckdb.DuckDBPyConnection, database: str) -> bool:
    """Return whether a file has the table of applied migrations, just as it is made."""
    _, made, *_ = query("db/migrate/create_table").split(";")
    words = _words(made.replace("IF NOT EXISTS ", ""))
    rows = connection.execute(query("db/catalog/record")).fetchall()
    return any(_words(sql.rstrip(";")) == words for where, sql in rows if where == database)


def _is_ours(
    connection: duckdb.DuckDBPyConnection, entry: Entry, definitions: frozenset[str], ours: Entries
) -> bool:
    if _is_equal(definitions, ours.get(entry)):
        return True
    kind, schema, name = entry
    if (kind, schema) != ("VIEW", "main") or not _FOLLOWING.fullmatch(name):
        return False
    return all(_follows(connection, sql) for sql in definitions)


def _is_equal(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    if one is None or other is None:
        return False
    return one == other or {_words(sql) for sql in one} == {_words(sql) for sql in other}


def _means_the_same(one: frozenset[str] | None, other: frozenset[str]) -> bool:
    """Return whether macros differ only in the spelling of a DuckDB version."""
    if one is None or len(one) != len(other):
        return False
    return {_simplified(sql) for sql in one} == {_simplified(sql) for sql in other}


def _simplified(sql: str) -> str:
    """Return a macro as DuckDB prints it, with negated comparisons in one form."""
    from sqlglot import ErrorLevel, parse_one
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.simplify import simplify

    for spelling, usual in _SPELLINGS:
        sql = spelling.sub(usual, sql)
    begin = re.search(r"\(?\b(?:WITH|SELECT|FROM)\b", sql)
    at = begin.start() if begin else 0
    try:
        tree = parse_one(sql[at:], dialect=DuckDB, error_level=ErrorLevel.RAISE)
        meant: str = simplify(tree, dialect=DuckDB).sql(dialect=DuckDB)
    except (SqlglotError, RecursionError):
        return sql
    return sql[:at] + meant


@lru_cache(maxsize=512)  # of views that follow from data each has a text of its own
def _words(sql: str) -> tuple[str, ...]:
    for spelling, usual in _SPELLINGS:
        sql = spelling.sub(usual, sql)
    return tuple(word.strip('"') for word in _WORD.findall(sql))


def _follows(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Return whether a view reads only what such views do."""
    parts = parts_of(connection, sql.partition(" AS ")[2].strip().rstrip(";"))
    return parts is not None and all(map(_is_bounded, parts))


def _is_bounded(node: dict[str, Any]) -> bool:
    kind = str(node.get("type"))
    if kind == "BASE_TABLE":
        return _OF_A_SET.sub(r"\1_0", node["table_name"]) in _TABLES
    if kind == "JOIN":
        return bool(node["ref_type"] == "REGULAR")
    if "function_name" in node:  # of a window, too
        return node["function_name"] in _FUNCTIONS
    if kind.endswith("_NODE"):
        return kind in _NODES
    return kind in _FROM if "sample" in node else True  # what follows FROM can be sampled


def _rows(connection: duckdb.DuckDBPyConnection, name: str, database: str) -> list[Row]:
    """Read a table of a file."""
    return connection.execute(_naming(name, database)).fetchall()


def _naming(name: str, database: str) -> str:
    """Return a statement with the name of a database instead of ``file``."""
    lines = [line for line in query(name).splitlines() if not line.startswith("--")]
    return re.sub(r"\bfile\b", lambda _: identifier(database), "\n".join(lines))


def _refusal(
    entry: Entry, definitions: frozenset[str], name: str, *, is_known: bool
) -> MigrationError:
    if is_known:
        return MigrationError(f"{name}: the {_named(entry)} is not as duckplets made it; {_COPY}")
    kind, schema, own = entry
    what = _quoted(schema, own)
    if kind == "TRIGGER":
        what = f"{_quoted(own)} ON {_quoted(schema, *definitions)}"
    return MigrationError(
        f"{name} has a {_named(entry)} that duckplets did not make, and nothing of a file runs "
        f"unknown. Remove it: DROP {kind} {what}"
    )


def _foreign(theirs: Entries, name: str) -> MigrationError:
    """Return the refusal of a file without our migrations."""
    found = [entry for entry in theirs if entry[0] not in _BUILT_IN]
    if any(entry[2] == "schema_migrations" for entry in found):
        return MigrationError(
            f"{name} is a DuckDB file of another tool, or of a duckplets before 0.1, "
            f"which is not read; give another path"
        )
    return MigrationError(
        f"{name} is a DuckDB file of something else: it has {listed(sorted(map(_named, found)), 3)}"
        f", but none of duckplets; give another path"
    )


def _named(entry: Entry) -> str:
    kind, schema, name = entry
    dotted = name if schema in ("", "main") else f"{schema}.{name}"
    return f"{kind.lower()} {shown(repr(dotted), 60)}"


def _quoted(*parts: str) -> str:
    """Return a name as SQL."""
    return identifier(*(shown(part, 60) for part in parts if part))
