"""A file from anybody: what it holds is compared, and runs nothing before or after."""

import re
import shutil
from contextlib import closing, suppress
from functools import cache
from itertools import product

import duckdb
import pytest
from commands import cli
from effort import some, thorough
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.db import catalog, migrate, queries
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError, MigrationError, QueryError
from duckplets.search.index import index as build_index
from duckplets.testing import toy_corpus as build

SECRET = "TOPSECRET"
KINDS = {"corpus": "a.duckdb", "state": "a.state.duckdb", "vectors": "a.vectors.duckdb"}
IS_NEW = int(duckdb.__version__.split(".")[0]) >= 2


def filled(path):
    """A corpus with candidates, a saved run and vectors."""
    corpus = build(path, 12)
    build_index(corpus, dp.Terms(stemmer="none"), progress=False)  # needs no extension
    corpus.mine()
    with corpus.sampler("triplets", batch_size=2, seed=1) as sampler:
        next(iter(sampler))
        sampler.save()
    corpus.embed(lambda texts: [[float(len(text)), 1.0] for text in texts], name="lengths")
    return corpus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "a.duckdb"
    filled(path).close()
    return path.parent


@pytest.fixture
def files(made, tmp_path):
    """A copy of the files of every kind, beside a canary that nobody may read."""
    folder = tmp_path / "files"
    shutil.copytree(made, folder)
    (folder / "canary.txt").write_text(SECRET)
    return {kind: folder / name for kind, name in KINDS.items()}


def change(path, *statements):
    with duckdb.connect(str(path)) as file:
        for statement in statements:
            file.execute(statement)


def listing(folder):
    return {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*")}


@cache
def called():
    """The built-in functions that a statement or migration of ours has in it."""
    texts = [file.read_text() for file in queries.SQL.rglob("*.sql")]
    texts += [text for kind in KINDS for *_, text in queries.migrations(kind)]
    words = set(re.findall(r"\b([a-z]\w*)\s*\(", "\n".join(texts)))
    with duckdb.connect() as connection:
        found = connection.execute("SELECT function_name, function_type FROM duckdb_functions()")
        kinds = dict(found.fetchall())
    return sorted((name, kinds[name] == "table") for name in words & kinds.keys())


def shadow(name, canary, is_table):
    """The statements of macros of a name that read, write and log, whatever they are given."""
    read = f"(SELECT error(content) FROM read_text('{canary}'))"
    if is_table:
        return [
            f"CREATE MACRO \"{name}\"() AS TABLE SELECT error(content) FROM read_text('{canary}')"
        ]
    forms = ", ".join(f"({', '.join('abcd'[:count])}) AS {read}" for count in range(5))
    return [f'CREATE MACRO "{name}" {forms}']


def refusal(path):
    with pytest.raises(MigrationError) as refused:
        Database.open(path, read_only=True)
    with pytest.raises(MigrationError):
        Database.open(path)
    return str(refused.value)


# ---- nothing that is not ours is opened


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_that_we_call_may_not_be_shadowed(files, kind):
    path, canary = files[kind], files["corpus"].with_name("canary.txt")
    whole = path.read_bytes()
    for name, is_table in some(called(), less=5):
        path.write_bytes(whole)
        try:
            change(path, *shadow(name, canary, is_table))
        except duckdb.Error:  # a word of the grammar, such as coalesce
            continue
        before = listing(path.parent)
        said = refusal(path)
        assert f"macro{' table' if is_table else ''} '{name}'" in said
        assert f'DROP MACRO{" TABLE" if is_table else ""} "main"."{name}"' in said
        assert SECRET not in said
        assert len(said) - len(str(path)) < 240
        assert listing(path.parent) == before


@pytest.mark.parametrize("kind", KINDS)
def test_no_verb_runs_what_a_file_shadows(files, kind):
    shadow_all(files, kind)
    before = listing(files[kind].parent)
    for verb, failed, said in attempts(files["corpus"], kind):
        assert failed, verb
        assert SECRET not in said
    assert listing(files[kind].parent) == before


@thorough
@pytest.mark.parametrize("kind", KINDS)
def test_the_seal_holds_without_the_comparison(files, kind, monkeypatch):
    monkeypatch.setattr(catalog, "check", lambda connection, name: catalog.Checked(kind))
    shadow_all(files, kind)
    for _, _, said in attempts(files["corpus"], kind):
        assert SECRET not in said


def shadow_all(files, kind):
    canary = files["corpus"].with_name("canary.txt")
    with duckdb.connect(str(files[kind])) as file:
        for name, is_table in called():
            with suppress(duckdb.Error):  # a word of the grammar, such as coalesce
                for statement in shadow(name, canary, is_table):
                    file.execute(statement)


def attempts(corpus, kind):
    """Yield each verb on a file, whether it failed, and what it said."""
    for line in some(COMMANDS[kind], less=5):
        verb, *rest = line.split()
        result = cli(verb, corpus, *rest)
        yield line, result.exit_code != 0, result.output
    for verb in VERBS[kind]:
        try:
            verb(corpus)
        except DuckpletsError as error:
            yield verb, True, str(error)
        else:
            yield verb, False, ""


def resumed(path):
    dp.resume(path).close()


def saved(path):
    with dp.Corpus(path, read_only=True) as corpus, corpus.sampler(batch_size=2) as sampler:
        sampler.save()


def with_vectors(path):
    with dp.Corpus(path, read_only=True) as corpus:
        corpus.vectors("lengths")


VERBS = {
    "corpus": (dp.Corpus, lambda path: dp.Corpus(path, read_only=True), resumed),
    "state": (resumed, saved),
    "vectors": (with_vectors,),
}


COMMANDS = {
    "corpus": (
        *("show", "status", "sample --steps 1", "sql x", "mine", "search x", "doctor", "split"),
        *("forecast", "prepare --compact", "prepare", "remove toy --yes", "show --recipes"),
        *("quality", "deduplicate", "export x", "doctor --migrate", "embed"),
    ),
    "state": ("runs", "runs default", "sample --resume --steps 1", "forecast --resume"),
    "vectors": ("mine --by lengths", "doctor"),
}


OTHERS = {
    "CREATE VIEW more AS SELECT 1 AS i": "DROP VIEW",
    "CREATE TABLE more (i INTEGER DEFAULT (random()))": "DROP TABLE",
    "CREATE TYPE more AS ENUM ('a')": "DROP TYPE",
    "CREATE SEQUENCE more": "DROP SEQUENCE",
    "CREATE SCHEMA more": "DROP SCHEMA",
    "CREATE SCHEMA other; CREATE VIEW other.more AS SELECT 1 AS i": "DROP VIEW",
    'CREATE MACRO "it\'s; more"() AS 1': "DROP MACRO",
    "CREATE MACRO more() AS TABLE SELECT 1 AS i": "DROP MACRO TABLE",
}


@pytest.mark.parametrize(("statement", "kind"), some(product(OTHERS, KINDS), less=8))
def test_what_else_a_file_holds_is_named_with_the_drop_that_helps(files, statement, kind):
    change(files[kind], statement)
    said = refusal(files[kind])
    assert "did not make" in said
    drop = said[said.index("DROP") :]
    assert drop.startswith(OTHERS[statement])
    change(files[kind], drop)
    if "other" in statement:  # a schema can go when it is empty
        change(files[kind], "DROP SCHEMA other")
    Database.open(files[kind]).close()


CHANGED = {
    "CREATE INDEX more ON records (record_key)": "index 'more'",
    "ALTER TABLE records ALTER trust SET DEFAULT (random())": "table 'records'",
    "ALTER TABLE records ALTER trust TYPE FLOAT": "table 'records'",
    "ALTER TABLE records DROP label": "table 'records'",
    "ALTER TABLE records ADD COLUMN more INTEGER": "table 'records'",
    "DROP TABLE quarantine": "table 'quarantine'",
    "DROP TABLE quarantine; CREATE VIEW quarantine AS SELECT 1": "view 'quarantine'",
    "DROP TABLE quarantine; CREATE TABLE quarantine (source VARCHAR, CHECK (random() > 2))":
        "table 'quarantine'",
    "DROP TABLE quarantine; CREATE TABLE quarantine (a INT, b INT GENERATED ALWAYS AS (a + 1))":
        "table 'quarantine'",
    "CREATE OR REPLACE MACRO only_one(x) AS min(x)": "macro 'only_one'",
    "CREATE OR REPLACE MACRO only_one(x) AS CASE WHEN min(x) = max(x) THEN max(x) END":
        "macro 'only_one'",
    "CREATE OR REPLACE VIEW split_counts AS SELECT 1 AS records": "view 'split_counts'",
    "CREATE OR REPLACE VIEW sections AS FROM read_text('{folder}/canary.txt')": "view 'sections'",
    "CREATE OR REPLACE VIEW sections AS SELECT * FROM '{folder}/canary.csv'": "view 'sections'",
    "CREATE OR REPLACE VIEW sections AS SELECT * FROM records, records AS more": "view 'sections'",
    "CREATE OR REPLACE VIEW minings AS WITH RECURSIVE more AS (SELECT 1 AS i UNION ALL "
    "SELECT i FROM more) SELECT i FROM more": "view 'minings'",
    "CREATE OR REPLACE VIEW minings AS SELECT getvariable('x'), repeat('x', 9)": "view 'minings'",
    "CREATE OR REPLACE VIEW minings AS SELECT max(text) OVER () FROM _internal.stored_sections":
        "view 'minings'",
    "UPDATE _internal.schema_migrations SET checksum = 'x'": "earlier duckplets",
}  # fmt: skip


@pytest.mark.parametrize("statements", CHANGED)
def test_what_duckplets_made_is_as_it_made_it(files, statements):
    folder = files["corpus"].parent
    (folder / "canary.csv").write_text("a,b\n1,2\n")
    change(files["corpus"], *statements.replace("{folder}", str(folder)).split("; "))
    said = refusal(files["corpus"])
    assert CHANGED[statements] in said
    assert len(said) - len(str(files["corpus"])) < 240


@pytest.mark.skipif(not IS_NEW, reason="DuckDB has triggers from 2.0 on")
def test_a_trigger_is_refused(tmp_path):
    path = tmp_path / "new.duckdb"
    with duckdb.connect() as file:  # only the newest format of files stores triggers
        file.execute(f"ATTACH '{path}' AS new (STORAGE_VERSION 'v2.0.0')")
    with closing(Database.open(path)) as database:
        migrate.migrate(database, "corpus")
    Database.open(path).close()
    change(
        path, "CREATE TRIGGER more AFTER INSERT ON quarantine FOR EACH STATEMENT DELETE FROM splits"
    )
    said = refusal(path)
    assert "trigger 'more'" in said
    change(path, said[said.index("DROP") :])
    Database.open(path).close()


def test_a_table_of_vectors_is_compared_too(files):
    change(
        files["vectors"],
        "DROP VIEW vectors_1",
        "CREATE VIEW vectors_1 AS SELECT * FROM packed_vectors_1, packed_vectors_1 AS more",
    )
    assert "view 'vectors_0'" in refusal(files["vectors"])


def test_what_a_wal_brings_is_compared_too(files, tmp_path):
    path, copy = files["corpus"], tmp_path / "copy.duckdb"
    with duckdb.connect(str(path), config={"checkpoint_threshold": "1TB"}) as file:
        file.execute("CREATE MACRO more(x) AS 1")
        for ending in ("", ".wal"):
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    assert "macro 'more'" in refusal(copy)


# ---- what is ours opens


def test_files_of_every_kind_open_and_views_that_follow_from_data(files):
    for path in files.values():
        for read_only in (True, False):
            with closing(Database.open(path, read_only=read_only)) as database:
                assert database.run("db/migrate/applied")
    with dp.Corpus(files["corpus"], read_only=True) as corpus:
        assert corpus.sql("SELECT count(*) AS n FROM candidates")["n"][0].as_py() > 0
        assert corpus.vectors("lengths").num_rows


def test_a_file_is_compared_once_until_somebody_changes_it(files, monkeypatch):
    checks = []
    check = catalog.check

    def counting(connection, name):
        checks.append(name)
        return check(connection, name)

    monkeypatch.setattr(catalog, "check", counting)
    Database.open(files["corpus"], read_only=True).close()
    Database.open(files["corpus"], read_only=True).close()
    assert len(checks) == 1
    with (
        dp.Corpus(files["corpus"], read_only=True) as corpus,
        corpus.sampler(batch_size=2, seed=3, run="other") as sampler,
    ):
        for step in range(4):
            next(iter(sampler))
            sampler.save(tag=f"step-{step}")
    assert len(checks) == 2  # the state file, before its first save
    change(files["state"], "CREATE VIEW more AS SELECT 1 AS i")
    assert "DROP VIEW" in refusal(files["state"])


def test_a_compacted_corpus_opens_though_it_has_the_inode_of_a_state_file(files):
    inode = files["state"].stat().st_ino
    Database.open(files["state"], read_only=True).close()
    with dp.Corpus(files["corpus"]) as corpus:
        files["state"].unlink()
        corpus.compact()
    if files["corpus"].stat().st_ino != inode:
        pytest.skip("this file system gives a free inode to another file")
    with dp.Corpus(files["corpus"], read_only=True) as corpus:
        assert corpus.version


# ---- links


@pytest.mark.parametrize("what", ["folder", "file"])
def test_links_in_the_place_of_candidates_are_refused(files, tmp_path, what):
    folder = files["corpus"].with_name("a.candidates")
    place = folder if what == "folder" else next(folder.glob("part-*"))
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert f"{place} is a link" in refusal(files["corpus"])


def test_a_link_in_the_place_of_a_snapshot_is_refused(files, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    files["corpus"].with_name("a.snapshot").symlink_to(tmp_path / "elsewhere")
    with dp.Corpus(files["corpus"]) as corpus, pytest.raises(DuckpletsError, match="is a link"):
        corpus.prepare()
    assert not list((tmp_path / "elsewhere").iterdir())


# ---- what users ask in SQL


REFUSED = [
    "SELECT * FROM enable_logging('QueryLog', storage='file', storage_path='x')",
    "FROM Enable_Profiling()",
    "SELECT (SELECT count(*) FROM checkpoint())",
    "EXPLAIN ANALYZE SELECT * FROM truncate_duckdb_logs()",
    "WITH a AS (FROM system.main.force_checkpoint()) FROM a",
    "FROM query('SELECT 1')",
    "FROM pandas_scan(1)",
    "FROM range(3) AS t (i), LATERAL (FROM disable_logging())",
    "PIVOT records ON source_id USING count(*)",
    "SELECT 1; SELECT 2",
    "SELECT 1 /* EXPLAIN (FORMAT */, * FROM enable_logging() /* ) */",
]
READ = [
    "FROM records",
    "DESCRIBE records",
    "SHOW TABLES",
    "EXPLAIN (FORMAT json) SELECT 1",
    "SUMMARIZE FROM records",
    "FROM query_table('records')",
    "SELECT unnest([1, 2]), * FROM duckdb_tables() LIMIT 1",
    "FROM search('river')",
    "FROM pools.anchor_context('toy')",
    "SELECT 'from enable_logging()' AS text",
]


def test_statements_of_users_call_table_functions_that_only_read(tmp_path):
    with toy_corpus(tmp_path / "a.duckdb", 5) as corpus:
        for statement in REFUSED:
            with pytest.raises(QueryError) as refused:
                corpus.sql(statement)
            assert len(str(refused.value)) <= 240, statement
        build_index(corpus, dp.Terms(stemmer="none"), progress=False)
        for statement in READ:
            corpus.sql(statement)
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]
