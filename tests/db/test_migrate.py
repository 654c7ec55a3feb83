"""Schema versions: created whole, migrated one by one, refused with a way out; the schema."""

import hashlib
import pickle
import shutil
from collections import defaultdict
from contextlib import closing

import duckdb
import pytest
from effort import some

import duckplets as dp
from duckplets.db import catalog, migrate, queries
from duckplets.db.database import Database
from duckplets.errors import DamagedFileError, MigrationError, QueryError

KINDS = ("corpus", "state", "vectors")
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)

Migrations = tuple[tuple[int, str, str], ...]

MORE = (
    (9001, "9001_more", "CREATE TABLE more (i INTEGER); INSERT INTO more VALUES (1)"),
    (9002, "9002_again", "ALTER TABLE more ADD COLUMN j INTEGER"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "faq.duckdb"


@pytest.fixture
def there(path, new_files):
    """Put a file of a kind there, made once and copied."""

    def copy(kind):
        shutil.copyfile(new_files[kind], path)

    return copy


@pytest.fixture
def add(monkeypatch):
    """Make this duckplets know further migrations."""

    def set_migrations(further):
        for module in (migrate, catalog):
            all_of = lambda kind: queries.migrations(kind) + further  # noqa: E731
            monkeypatch.setattr(module, "migrations", all_of)

    return set_migrations


def migrated(path, kind):
    with closing(Database.open(path)) as database:
        return migrate.migrate(database, kind)


def checked(path, kind):
    with closing(Database.open(path, read_only=True)) as database:
        migrate.check(database, kind)


def asked(path, sql):
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def done(path, sql):
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# ---- creating and migrating


@pytest.mark.parametrize("kind", some(KINDS, less=2))
def test_an_older_file_gets_what_it_lacks(kind, path, there, add):
    there(kind)
    add(MORE)
    with pytest.raises(MigrationError) as refusal:
        checked(path, kind)
    assert "9001_more, 9002_again" in str(refusal.value)
    assert f"duckplets doctor --migrate {path}" in str(refusal.value)
    add(MORE[:1])
    assert migrated(path, kind) == ["9001_more"]
    add(MORE)
    assert migrated(path, kind) == ["9002_again"]
    assert migrated(path, kind) == []
    assert asked(path, "SELECT i, j FROM more") == [(1, None)]
    checked(path, kind)


def test_a_failing_migration_leaves_the_version_before_and_no_new_file(path, there, add):
    there("corpus")
    good, bad = MORE[0], "CREATE TABLE half (i INTEGER); INSERT INTO more VALUES ('no number')"
    add((good, (9002, "9002_bad", bad)))
    with pytest.raises(QueryError, match="no number"):
        migrated(path, "corpus")
    numbers = asked(path, "SELECT max(number) FROM _internal.schema_migrations")
    assert numbers == [(9001,)]
    assert asked(path, "SELECT i FROM more") == [(1,)]
    assert asked(path, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'half'") == []
    add(MORE)
    assert migrated(path, "corpus") == ["9002_again"]
    new = path.with_name("new.duckdb")
    add(((9001, "9001_bad", "CREATE TABLE half (i INTEGER); SELECT no_such_column"),))
    with pytest.raises(QueryError, match="no_such_column"):
        migrate.create(new, "corpus")
    assert list(contents(path.parent)) == [path.name]


# ---- refusing


def test_a_newer_file_is_refused(path, add):
    add(MORE)
    migrate.create(path, "corpus")
    before = contents(path.parent)
    add(())
    for attempt in (checked, migrated):
        with pytest.raises(MigrationError) as refusal:
            attempt(path, "corpus")
        assert "9001_more" in str(refusal.value)
        assert "pip install -U duckplets" in str(refusal.value)
    assert contents(path.parent) == before


@EVERY_KIND
def test_a_file_of_an_earlier_duckplets_is_refused(kind, path, there):
    there(kind)
    done(path, "UPDATE _internal.schema_migrations SET checksum = 'abc' WHERE number = 1")
    before = contents(path.parent)
    for attempt in (checked, migrated):
        with pytest.raises(MigrationError) as refusal:
            attempt(path, kind)
        said = str(refusal.value)
        assert f"{path} was made by an earlier duckplets" in said
        assert {"corpus": "duckplets ingest", "vectors": "duckplets embed"}.get(kind, "") in said
    assert contents(path.parent) == before


def test_the_other_kind_of_file_is_refused(path, there):
    for kind, other in zip(KINDS, (*KINDS[1:], KINDS[0]), strict=True):
        there(kind)
        for attempt in (checked, migrated):
            with pytest.raises(MigrationError, match=f"is a {kind} file, not a {other} file"):
                attempt(path, other)


OTHERS = [
    "CREATE TABLE sources (name VARCHAR)",
    'CREATE TABLE "it\'s; DROP TABLE x" (i INTEGER)',
    "CREATE TABLE schema_migrations (version VARCHAR)",
    "CREATE SCHEMA other; CREATE TABLE other.records (i INTEGER)",
    "CREATE VIEW records AS SELECT 1 AS record_key",
]


@pytest.mark.parametrize("sql", OTHERS)
def test_a_duckdb_file_of_something_else_is_refused(sql, path):
    done(path, sql)
    before = contents(path.parent)
    for kind in some(KINDS, less=1):
        for attempt in (checked, migrated):
            with pytest.raises(MigrationError, match=path.name):
                attempt(path, kind)
    assert contents(path.parent) == before


def test_no_duckdb_file_is_refused_and_left_alone_nor_one_cut_short(path, there):
    sqlite, parquet = b"SQLite format 3\x00" + bytes(4080), b"PAR1" + bytes(5000) + b"PAR1"
    for content in (b"", b"question,answer\n" * 1000, b"x", parquet, sqlite, bytes(20_000)):
        path.write_bytes(content)
        for read_only in (False, True):
            with pytest.raises(MigrationError, match=str(path)):
                Database.open(path, read_only=read_only)
            assert contents(path.parent) == {path.name: content}
    there("corpus")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((DamagedFileError, QueryError), match=str(path)):
        checked(path, "corpus")


def test_a_file_that_is_not_there_is_a_file_not_found_error(tmp_path):
    missing = tmp_path / "none.duckdb"
    for opened in (
        lambda: Database.open(tmp_path / "none" / "faq.duckdb"),
        lambda: migrate.create(tmp_path / "none" / "faq.duckdb", "corpus"),
        lambda: dp.Corpus(missing, read_only=True),
        lambda: dp.Corpus(tmp_path / "none" / "x.duckdb"),
        lambda: dp.resume(missing),
    ):
        with pytest.raises(FileNotFoundError, match="does not exist") as raised:
            opened()
        assert isinstance(raised.value, dp.errors.MissingFileError)
        assert isinstance(raised.value, MigrationError)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert list(tmp_path.iterdir()) == []


# ---- the schema

NAME = "if(schema_name = 'main', '', schema_name || '.') || "
RELATIONS = f"""
    SELECT {NAME} table_name AS name, 'table' AS what, comment FROM duckdb_tables()
    WHERE NOT internal
    UNION ALL SELECT {NAME} view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
    ORDER BY ALL
"""
COLUMNS = f"""
    SELECT {NAME} table_name AS name, column_name, data_type, is_nullable, comment
    FROM duckdb_columns() WHERE NOT internal ORDER BY name, column_index
"""
SHOWN = """
    acquisitions candidates chunk_texts chunks clusters contaminations corpus_versions
    hard_negatives judgement_counts judgements labels live_records mined_positives minings
    negatives pairs
    qrels quarantine recipes records rejected_texts section_texts sections source_counts sources
    split_counts splits
"""


@EVERY_KIND
def test_a_new_file_has_every_migration_and_the_golden_schema_with_comments(kind, path, golden):
    migrate.create(path, kind)
    expected = [
        (number, name, kind, hashlib.sha256(text.encode()).hexdigest())
        for number, name, text in queries.migrations(kind)
    ]
    applied = asked(path, "SELECT number, name, kind, checksum FROM _internal.schema_migrations")
    assert applied == expected
    checked(path, kind)
    assert list(contents(path.parent)) == [path.name]
    lines = []
    columns = defaultdict(list)
    for relation, *column in asked(path, COLUMNS):
        columns[relation].append(tuple(column))
    for name, what, comment in asked(path, RELATIONS):
        assert comment, f"{what} {name} has no comment"
        lines.append(f"{what} {name}: {comment}\n")
        for column, of, nullable, remark in columns[name]:
            assert remark, f"{name}.{column} has no comment"
            lines.append(f"    {column} {of}{'' if nullable else ' NOT NULL'}: {remark}\n")
    golden(f"schema/{kind}.txt", "".join(lines))
    if kind == "corpus":  # what users need, and no more
        assert [name for (name,) in asked(path, "SHOW TABLES")] == SHOWN.split()
