"""Macros of recipes: any DuckDB reads pools by them, and each change of recipes writes them."""

import duckdb
import pytest
from prebuilt import toy_corpus

import duckplets as dp
from duckplets import role, sql
from duckplets.db import catalog
from duckplets.errors import DuckpletsError
from duckplets.pools import macros

ANCHOR, CONTEXT = role("anchor"), role("context")
TITLES = dp.TripletRecipe("titles", ANCHOR, CONTEXT, ANCHOR)
ROWS = [{"q": f"question {i}", "a": f"answer {i}", "n": i} for i in range(8)]
NAMES = """
    SELECT schema_name, function_name, comment FROM duckdb_functions()
    WHERE schema_name IN ('pools', 'left_out') ORDER BY ALL
"""


def filled(path, *names, **mapped):
    corpus = dp.Corpus(path)
    for name in names or ("faq",):
        corpus.ingest(ROWS, name=name, anchor="q", positive="a", **mapped)
    corpus.split(train=1.0, validation=0.0, test=0.0)
    return corpus


def asked(path, statement):
    """Rows in the bare duckdb, which knows nothing of this package."""
    return answers(path, [statement])[0]


def answers(path, statements):
    with duckdb.connect(str(path), read_only=True, config={"threads": 1}) as plain:
        return [plain.execute(statement).fetchall() for statement in statements]


def stored(path):
    return [(schema, name) for schema, name, _ in asked(path, NAMES)]


def of(*names):
    return sorted([*(("pools", n) for n in names), *(("left_out", n) for n in names)])


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


# ---- what they answer

RECIPES = [
    TITLES,
    dp.TripletRecipe('odd "name', ANCHOR, CONTEXT, CONTEXT, strategy="other_date"),
    dp.TripletRecipe("x(); DROP TABLE records; --\"'$source", ANCHOR, CONTEXT, CONTEXT),
    dp.TripletRecipe("own", CONTEXT, CONTEXT, CONTEXT, allow_same_anchor_positive=True),
    dp.TripletRecipe(
        "of_recipe", role("anchor", where="heading <> 'of_recipe $split'"), CONTEXT, CONTEXT
    ),
    dp.TripletRecipe(
        "near", ANCHOR, CONTEXT, CONTEXT, strategy=sql("negative.meta['n'] <> anchor.meta['n']")
    ),
    dp.TripletRecipe("split", ANCHOR, CONTEXT, CONTEXT, negatives_from="split"),
]


def test_a_macro_has_the_rows_of_the_pool_with_texts(tmp_path):
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, 30) as corpus:
        for recipe in RECIPES:
            corpus.add_recipe(recipe)
        expected = {
            (recipe.name, split): corpus.pool(recipe.name, split=split)["anchors"].to_pylist()
            for recipe in RECIPES
            for split in ("train", "test")
        }
        texts = dict(
            zip(*corpus.sql("SELECT chunk_key, t.text FROM chunks JOIN (SELECT section_key, text "
                            "FROM sections) AS t USING (section_key)").to_pydict().values(),
                strict=True)
        )  # fmt: skip
    assert stored(path) == of("anchor_context", *(recipe.name for recipe in RECIPES))
    statements = [
        statement
        for name, split in expected
        for statement in (
            f"SELECT record_id, anchors, anchor FROM pools.{quoted(name)}('toy', '{split}')",
            f"FROM pools.{quoted(name)}('nobody', '{split}')",
            f"FROM left_out.{quoted(name)}('toy', '{split}', at_least := 999)",
        )
    ]
    found = iter(answers(path, statements))
    for (name, _), anchors in expected.items():
        rows, nobody, left = next(found), next(found), next(found)
        assert [row[1] for row in rows] == anchors, name
        assert [row[2] for row in rows] == [texts[first] for first, *_ in anchors]
        assert all(row[0].startswith("toy/") for row in rows)
        assert nobody == []
        assert len(left) >= len(anchors)
        assert {reason for *_, reason in left} <= {"no negative", "same text", "no positive"}


def test_a_version_and_reasons(tmp_path):
    path = tmp_path / "c.duckdb"
    with filled(path) as corpus:
        corpus.ingest([{"q": "same", "a": "same"}], name="faq", anchor="q", positive="a")
        corpus.split(train=1.0, validation=0.0, test=0.0)
    count = "SELECT count(*) FROM pools.anchor_context('faq'{})"
    assert asked(path, count.format("")) == asked(path, count.format(", at_version := 1")) == [(8,)]
    assert asked(path, "SELECT anchor, reason FROM left_out.anchor_context('faq')") == [
        ("same", "same text")
    ]
    assert asked(path, "FROM left_out.anchor_context('faq', at_version := 1)") == []


def test_with_all_records_of_one_group_the_anchors_are_in_one_of_both(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        rows = [{**row, "g": "one"} for row in ROWS]
        corpus.ingest(rows, name="faq", anchor="q", positive="a", group="g")
        corpus.split(train=1.0, validation=0.0, test=0.0)
        found = [
            corpus.sql(f"SELECT DISTINCT record_id FROM {schema}.anchor_context('faq')").num_rows
            for schema in ("pools", "left_out")
        ]
    assert sum(found) == len(ROWS)


GRADED = [
    ("binary", lambda n: n % 2),
    ("graded", lambda n: n / 10),
    ("plain", lambda n: None),
]


def test_sources_with_labels_of_different_kinds_share_a_macro(tmp_path):
    path = tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        for name, label in GRADED:
            rows = [{**row, "label": label(row["n"])} for row in ROWS]
            given = {} if name == "plain" else {"label": "label"}
            corpus.ingest(rows, name=name, anchor="q", positive="a", **given)
        corpus.split(train=1.0, validation=0.0, test=0.0)
        expected = {}
        for name, _ in GRADED:
            expected[name] = corpus.pool("anchor_context", source=name).num_rows
        found = {
            name: corpus.sql(f"FROM pools.anchor_context('{name}')").num_rows for name in expected
        }
        assert found == expected == {"binary": 4, "graded": 0, "plain": 8}
        reasons = corpus.sql("SELECT DISTINCT reason FROM left_out.anchor_context('graded')")
        assert reasons["reason"].to_pylist() == ["grade without a condition"]
        corpus.remove("graded")
    definition = asked(path, "SELECT macro_definition FROM duckdb_functions() "
                             "WHERE schema_name = 'pools'")[0][0]  # fmt: skip
    assert "list_contains" not in definition
    dp.Corpus(path).close()


# ---- when they are made anew


def test_each_verb_that_changes_what_they_follow_from_makes_them_anew(tmp_path, monkeypatch):
    path, written = tmp_path / "c.duckdb", []
    write = macros.write

    def noting(database, changed=None):
        written.extend(sorted({name for _, name in changed or {}}))
        write(database, changed)

    monkeypatch.setattr(macros, "write", noting)

    def expected(*names):
        found, written[:] = [*written], []
        dp.Corpus(path, read_only=True).close()  # compares them
        assert stored(path) == of(*every)
        return found == sorted(names)

    every = ["anchor_context"]
    with filled(path):
        pass
    assert expected("anchor_context")
    with dp.Corpus(path) as corpus:
        corpus.ingest(ROWS, name="more", anchor="q", positive="a")
        corpus.mine()
    assert expected()  # nothing changes in their texts
    every += ["titles"]
    with dp.Corpus(path) as corpus:
        corpus.add_recipe(TITLES)
    assert expected("titles")
    with dp.Corpus(path) as corpus:
        corpus.relabel([{"anchor": "question 1", "text": "answer 2", "verdict": "positive"}])
    assert expected("anchor_context", "titles")
    every.remove("titles")
    with dp.Corpus(path) as corpus:
        corpus.remove(recipe="titles")
        corpus.compact()
    assert expected()
    every.clear()
    with dp.Corpus(path) as corpus:
        corpus.remove("faq")
        corpus.remove("more")
    assert expected()


def test_a_transaction_that_fails_leaves_them(tmp_path, monkeypatch):
    path = tmp_path / "c.duckdb"
    with filled(path) as corpus:
        monkeypatch.setattr(macros, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            corpus.add_recipe(TITLES)
        monkeypatch.undo()
        assert corpus.recipes() == []
    assert stored(path) == of("anchor_context")
    dp.Corpus(path).close()


def test_they_have_comments_that_name_their_columns(tmp_path):
    filled(tmp_path / "c.duckdb").close()
    for _, _, comment in asked(tmp_path / "c.duckdb", NAMES):
        assert "record_id" in comment
        assert "of_source" in comment


# ---- names


class Bringing:
    def __init__(self, name, recipes):
        self.name, self.recipes = name, recipes

    def batches(self, cursor):
        yield [{"anchor": row["q"], "positive": row["a"]} for row in ROWS], None


def bring(corpus, *recipes, name="third"):
    corpus.ingest(Bringing(name, list(recipes)))


def test_recipes_of_a_source_have_a_macro_for_it(tmp_path):
    path = tmp_path / "c.duckdb"
    with filled(path) as corpus:
        bring(corpus, TITLES, name="own")
        corpus.split(train=1.0, validation=0.0, test=0.0)
    assert stored(path) == of("anchor_context", "titles")
    found = [
        asked(path, f"SELECT count(*) FROM pools.{name}('{source}')")[0][0]
        for name in ("titles", "anchor_context")
        for source in ("own", "faq")
    ]
    assert found == [8, 0, 0, 8]


def test_names_that_differ_in_case_alone_are_refused(tmp_path):
    other = dp.TripletRecipe("TITLES", ANCHOR, CONTEXT, CONTEXT)
    usual = dp.TripletRecipe("Anchor_Context", ANCHOR, CONTEXT, CONTEXT)
    with filled(tmp_path / "c.duckdb") as corpus:
        bring(corpus, TITLES, name="own")
        for refused in (other, usual):
            with pytest.raises(dp.RecipeError, match="SQL ignores case") as error:
                corpus.add_recipe(refused)
            assert len(str(error.value)) <= 240
            with pytest.raises(dp.RecipeError, match="SQL ignores case"):
                bring(corpus, refused)
        with pytest.raises(dp.RecipeError, match="SQL ignores case"):
            bring(corpus, TITLES, other)
        with pytest.raises(
            dp.RecipeError, match=r"'third' and 'own' have different.*role.*and"
        ) as error:
            bring(corpus, dp.TripletRecipe("titles", ANCHOR, CONTEXT, CONTEXT))
        assert len(str(error.value)) <= 240
        bring(corpus, dp.TripletRecipe("titles", ANCHOR, CONTEXT, ANCHOR, weight=2))
    assert stored(tmp_path / "c.duckdb") == of("anchor_context", "titles")


# ---- files from anybody


def changed(path, *statements):
    with duckdb.connect(str(path)) as file:
        for statement in statements:
            file.execute(statement)


PARAMETERS = "of_source, of_split := 'train', at_version := NULL, at_least := 1"
HEAD = f"CREATE OR REPLACE MACRO {{}}({PARAMETERS}) AS TABLE"
HOSTILE = {
    HEAD.format("pools.anchor_context") + " SELECT 1 AS record_key": "pools.anchor_context",
    HEAD.format("pools.anchor_context") + " FROM read_text('/etc/passwd')":
        "pools.anchor_context",
    HEAD.format("left_out.more") + " SELECT 1": "left_out.more",
    HEAD.format('pools."it\'s; more"') + " SELECT 1": 'pools."it\'s; more"',
    "CREATE MACRO pools.anchor_context(a) AS TABLE (SELECT a), (a, b) AS TABLE (SELECT b)":
        "pools.anchor_context",
    "DROP MACRO TABLE left_out.anchor_context": "left_out.anchor_context",
    "CREATE MACRO pools.more(a) AS a": "DROP MACRO",
    "CREATE TABLE pools.more (i INTEGER)": "DROP TABLE",
    "CREATE VIEW left_out.more AS SELECT 1": "DROP VIEW",
    "UPDATE recipes SET definition = replace(definition, '\"titles\"', '\"others\"')": "others",
    "DELETE FROM recipes": "DROP MACRO TABLE",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("macros") / "c.duckdb"
    with filled(path) as corpus:
        corpus.add_recipe(TITLES)
    return path.read_bytes()


@pytest.mark.parametrize("statement", HOSTILE)
def test_a_macro_that_does_not_follow_from_its_recipe_is_refused(whole, tmp_path, statement):
    path = tmp_path / "c.duckdb"
    path.write_bytes(whole)
    if "(a, b)" in statement:
        changed(path, "DROP MACRO TABLE pools.anchor_context")
    changed(path, statement)
    for read_only in (True, False):
        with pytest.raises(dp.errors.MigrationError) as refused:
            dp.Corpus(path, read_only=read_only)
        said = str(refused.value)
        assert len(said) - len(str(path)) <= 240
    if "DROP MACRO TABLE" in said:
        changed(path, said[said.index("DROP") :])


def test_beside_damaged_defaults_no_macro_runs(whole, tmp_path):
    path = tmp_path / "c.duckdb"
    path.write_bytes(whole)
    changed(path, "UPDATE sources SET defaults = 'x'")
    with dp.Corpus(path, read_only=True) as corpus:
        with pytest.raises(DuckpletsError, match="defaults='x'"):
            corpus.sql("FROM pools.anchor_context('faq')")
        assert corpus.sql("FROM records").num_rows == 8


def test_a_damaged_definition_can_be_removed(whole, tmp_path):
    path = tmp_path / "c.duckdb"
    path.write_bytes(whole)
    changed(
        path,
        "UPDATE recipes SET definition = '{}'",
        HEAD.format("pools.titles") + " FROM enable_logging('QueryLog')",
    )
    with dp.Corpus(path, read_only=True) as corpus:
        for macro in ("pools.titles", "POOLS.anchor_context", "left_out.x"):
            with pytest.raises(dp.errors.DamagedFileError, match=r"remove\(recipe="):
                corpus.sql(f"FROM {macro}('faq')")
        assert corpus.sql("FROM records").num_rows == 8
    with dp.Corpus(path) as corpus:
        corpus.remove(recipe="titles")
        assert corpus.sql("FROM pools.anchor_context('faq')").num_rows == 8
    assert stored(path) == of("anchor_context")
    dp.Corpus(path).close()


def test_what_another_version_of_duckdb_prints_is_the_same_macro():
    entry, head = ("MACRO TABLE", "pools", "r"), "[of_source][NULL](SELECT "

    def check(theirs, ours):
        texts = ({entry: frozenset([head + text])} for text in (theirs, ours))
        catalog.check_macros("c.duckdb", *texts)

    ours = "list(k ORDER BY k) AS keys FROM chunks WHERE (NOT (heading = 'x')))"
    sort = "list_sort(list(k), 'ORDER_DEFAULT', 'ORDER_DEFAULT')"
    for theirs in (ours, f"{sort} AS keys FROM chunks WHERE (heading != 'x'))"):
        check(theirs, ours)
        check(ours, theirs)
    for wrong in (
        ours.replace("'x'", "'y'"),
        ours.replace("NOT ", ""),
        ours.replace("chunks", "glob('*')"),
        "no statement",
    ):
        with pytest.raises(DuckpletsError, match="not what this duckplets makes of its recipe"):
            check(wrong, ours)
