"""Recipes to SQL: golden statements, runnable text, what is refused, a sealed corpus."""

import re
from typing import cast

import numpy as np
import pytest
from corpora import odd_corpus
from effort import some

import duckplets as dp
from duckplets.pools.compile import Part, compile_pool
from duckplets.pools.read import PoolReader
from duckplets.recipes.recipes import default_recipes, long_section_recipe

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")


def triplet(positive=CONTEXT, negative=CONTEXT, *, anchor=ANCHOR, where=None, **options):
    if where:
        options["strategy"] = dp.sql(where)
    return dp.TripletRecipe(options.pop("name", "r"), anchor, positive, negative, **options)


TOPICS = "negative.meta['topic'] = anchor.meta['topic'] and negative.trust > 0.3"
OTHERS = "negative.meta['topic'] is distinct from anchor.meta['topic']"
LATER = "negative.date > anchor.date"
IN_2024 = dp.role("anchor", where="date >= '2024-01-01' and meta['lang'] = 'it''s'")
PARTS = "heading = '$source FROM verdicts -- if mined kin_key, anchor_columns ''\" slot.evil'"
MANY = " or ".join(f"text = 'one of many {i}'" for i in range(30))
HEADED = dp.any_section(where="heading like '%;--%' or length(text) > 10")
RECIPES = {
    **{f"{kind}_{r.name}": r for kind in ("roles", "text", "dated") for r in default_recipes(kind)},
    "long_section": long_section_recipe("context"),
    "equality": triplet(name="equality", where=TOPICS),
    "inequality": triplet(dp.position(1), name="inequality", per="chunk", where=OTHERS),
    "comparison": triplet(name="comparison", where=LATER),
    "question": triplet(name="question", strategy="question_answer_mismatch"),
    "near_positive": triplet(dp.near_date(7, where="trust >= 0.5"), name="near_positive"),
    "near_negative": triplet(negative=dp.near_date(-30), name="near_negative"),
    "condition": triplet(HEADED, anchor=IN_2024, name="condition"),
    "mined": triplet(name="mined", by="bm25"),
    "mined_other_date": triplet(name="mined", by="bm25", strategy="other_date"),
    "mined_comparison": triplet(
        dp.near_date(3),
        name="mined_comparison",
        by=dp.Negatives(by="bm25", range_max=3),
        where=LATER,
    ),
    "texts": dp.TextRecipe("texts", dp.any_section(where="kind = 'window'"), per="chunk"),
    # Nothing written in a condition is taken for a part of the statement.
    "parts": triplet(negative=dp.role("context", f"not ({PARTS}) or {MANY}")),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with odd_corpus(tmp_path_factory.mktemp("compile") / "c.duckdb", 40, 1) as corpus:
        yield corpus


# One of each strategy, selector and law; the others differ in a word.
SHOWN = [
    *("roles_anchor_context", "text_simcse", "dated_anchor_context_other_date", "equality"),
    *("inequality", "question", "near_positive", "near_negative", "condition", "mined"),
    *("mined_comparison", "texts"),
]
TAILS = ["counts", "left_out", "anchors", "positives", "negatives", "pairs", "sizes"]
MINED_TAILS = [
    *("anchors", "negatives", "illegal"),
    *("mined_anchors", "mined_documents", "mined_positives"),
]


@pytest.mark.parametrize("name", SHOWN)
def test_statements_are_golden(name, golden):
    compiled = compile_pool(RECIPES[name], source="it's", split="train", version=3)
    golden(f"sql/{name}.sql", compiled.sql() + ";\n")


# words of the house that a reader of SQL would have to learn
HOUSE = re.compile(r"\b(scope|kin|ledger|askers|stock|doubts|told|beyond)\b")


@pytest.mark.parametrize("relabelled", [False, True])
@pytest.mark.parametrize("labels", [None, "binary", "graded"])
def test_statements_use_the_words_of_the_field(labels, relabelled):
    for name in RECIPES.keys() - {"parts", "condition"}:
        how = {"source": "s", "split": "train", "version": 1, "relabelled": relabelled}
        statement = compile_pool(RECIPES[name], **how, labels=labels).sql("pool")
        assert not HOUSE.search(statement), name


def test_last_parts_are_golden(golden):
    parts = [("comparison", tail) for tail in TAILS] + [("mined", tail) for tail in MINED_TAILS]
    parts += [("texts", "counts"), ("texts", "anchors")]
    ends = []
    for name, tail in parts:
        compiled = compile_pool(RECIPES[name], source="it's", split="train", version=3)
        end = compiled.sql(cast("Part", tail)).rpartition("\n)\n")[2]
        ends.append(f"-- {tail} of {name}\n{end};\n")
    golden("sql/last_parts.sql", "\n".join(ends))


@pytest.mark.parametrize("name", some(RECIPES, less=9))
def test_runnable_text_is_the_statement(name, corpus):
    recipe = RECIPES[name]
    compiled = compile_pool(recipe, source="odd0", split="train", version=1)
    assert max(map(len, compiled.sql().splitlines())) <= 100
    rows = corpus.database.arrow(*compiled.statement("pool", staged=False))
    assert rows.equals(corpus.database.arrow(compiled.runnable()))


SEALED = """
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM glob('/*')
DROP TABLE records
SELECT 1; SELECT 2
COPY records TO 'x.csv'
ATTACH 'x'
SET enable_external_access = true
EXPLAIN ANALYZE DELETE FROM records
selct 1
INSERT INTO splits VALUES (1, 'x', FALSE)
LOAD fts
""".strip().splitlines()


def test_sql_reads_only_and_only_the_corpus(corpus):
    for statement in ("", *SEALED):
        with pytest.raises(dp.errors.QueryError):
            corpus.sql(statement)


def test_a_strategy_that_compares_too_much_is_refused(corpus, monkeypatch):
    recipe = triplet(where="negative.text > anchor.text")
    corpus.sampler(recipes=[recipe])
    monkeypatch.setattr("duckplets.pools.read._MOST_COMPARISONS", 10)
    with pytest.raises(dp.RecipeError, match="add an equality"):
        corpus.sampler(recipes=[recipe])


def test_recipes_are_stored_and_limited_to_sources(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", 30, 1, sources=2) as corpus:
        limited = dp.TripletRecipe("one", ANCHOR, CONTEXT, CONTEXT, sources=["odd0"])
        corpus.add_recipe(limited)
        assert corpus.recipes() == [limited]
        assert not corpus.add_recipe(limited)
        assert corpus.recipes() == [limited]
        with pytest.raises(dp.RecipeError, match="another recipe 'one' already"):
            corpus.add_recipe(dp.TextRecipe("one", ANCHOR))
        with pytest.raises(dp.EmptyPoolError, match="'odd1' has no recipe"):
            corpus.sampler(options=dp.Options(empty="error"))
        assert any("'odd1' has no recipe" in note for note in corpus.sampler().notes)
        with pytest.raises(dp.RecipeError, match="no source 'odd2'"):
            corpus.sampler(
                recipes=[dp.TripletRecipe("x", ANCHOR, CONTEXT, CONTEXT, sources=["odd2"])]
            )
        assert "odd0" in (statement := corpus.pool("one", sql=True))
        assert corpus.sql(statement).num_rows == corpus.pool("one").num_rows
        assert corpus.pool(limited).equals(corpus.pool("one"))
        corpus.remove(recipe="one")
        assert corpus.recipes() == []
        with pytest.raises(dp.RecipeError, match="did you mean 'anchor_context'"):
            corpus.pool("anchor_contex")


def test_the_statement_runs_in_duckdb_and_one_group_has_its_reason(tmp_path):
    rows = [{"id": f"r{n}", "t": f"it's {n}", "b": f"text {n}", "g": "all"} for n in range(5)]
    columns = {"id": "id", "anchor": "t", "positive": "b"}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.sources.MemorySource(rows, **columns, group="g"), name="it's")
        corpus.ingest(dp.sources.MemorySource(rows, **columns), name="free")
        corpus.split(1, 0, 0)
        text = corpus.pool("anchor_context", source="free", sql=True)
        assert text.endswith(";\n")
        rows = corpus.sql(text.removesuffix(";\n")).to_pylist()
        assert rows == corpus.pool("anchor_context", source="free").to_pylist()
        assert sorted(row["anchor"] for row in rows) == [f"it's {n}" for n in range(5)]
        assert "'it''s'" in corpus.pool("anchor_context", source="it's", sql=True)
        with pytest.raises(dp.EmptyPoolError, match=r"5 one family; .*group=None"):
            corpus.sampler(mixture={"it's": 1}, options=dp.Options(empty="error"))


def test_texts_that_are_not_drawn_still_count_as_answers(tmp_path):
    pairs = [("ask", "Blue"), ("ask", "red"), ("other", "blue"), ("third", "green")]
    rows = [{"id": f"r{n}", "t": t, "b": b} for n, (t, b) in enumerate(pairs)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.sources.MemorySource(rows, id="id", anchor="t", positive="b"), name="s")
        corpus.split(1, 0, 0)
        pool = compile_pool(RECIPES["roles_anchor_context"], source="s", split="train", version=1)
        hashes = dict(corpus.database.rows("SELECT text, md5_number_lower(text) FROM sections"))
        kept = np.sort(np.array([h for t, h in hashes.items() if t != "Blue"], np.uint64))
        with PoolReader(corpus.database, [pool], kept) as reader:
            drawn = reader.list(pool, "negatives")["text_hash"].to_pylist()
            known = reader.illegal(pool)[1][1].tolist()
    assert sorted(drawn) == sorted(hashes[text] for text in ("red", "blue", "green"))
    assert sorted(known) == sorted(hashes[text] for text in ("red", "blue"))  # as "Blue" is


@pytest.mark.parametrize("given", [3, None, ["anchor_context"]], ids=str)
def test_values_that_are_no_recipes_are_refused(given, corpus):
    rows = {"anchor_id": ["a"], "negative_id": ["b"], "score": [1.0]}
    with pytest.raises(dp.RecipeError, match="give a recipe, or the name of one"):
        corpus.pool(given)
    with pytest.raises(dp.DuckpletsError, match=r"give (a recipe, or )?the name of"):
        corpus.remove(recipe=given)
    with pytest.raises(dp.RecipeError, match="give a recipe, or the name of one"):
        corpus.add_negatives(rows, name=given)
