"""Recipes to SQL: golden statements, runnable text, what is refused, a sealed corpus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from corpora import odd_corpus, samples
from sqlglot import exp, parse

import duckplets as dp
from duckplets.pools.compile import Part, compile_pool
from duckplets.recipes.recipes import default_recipes, long_section_recipe

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")

RECIPES: dict[str, dp.TripletRecipe | dp.TextRecipe] = {
    **{f"{kind}_{r.name}": r for kind in ("roles", "text", "dated") for r in default_recipes(kind)},
    "long_section": long_section_recipe("context"),
    "equality": dp.TripletRecipe(
        "equality",
        ANCHOR,
        CONTEXT,
        CONTEXT,
        strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic'] and negative.trust > 0.3"),
    ),
    "inequality": dp.TripletRecipe(
        "inequality",
        ANCHOR,
        dp.position(1),
        CONTEXT,
        per="chunk",
        strategy=dp.sql("negative.meta['topic'] is distinct from anchor.meta['topic']"),
    ),
    "comparison": dp.TripletRecipe(
        "comparison", ANCHOR, CONTEXT, CONTEXT, strategy=dp.sql("negative.date > anchor.date")
    ),
    "question": dp.TripletRecipe(
        "question", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"
    ),
    "near_positive": dp.TripletRecipe(
        "near_positive", ANCHOR, dp.near_date(7, where="trust >= 0.5"), CONTEXT
    ),
    "near_negative": dp.TripletRecipe("near_negative", ANCHOR, CONTEXT, dp.near_date(-30)),
    "condition": dp.TripletRecipe(
        "condition",
        dp.role("anchor", where="date >= '2024-01-01' and meta['lang'] = 'it''s'"),
        dp.any_section(where="heading like '%;--%' or length(text) > 10"),
        CONTEXT,
    ),
    "mined": dp.TripletRecipe("mined", ANCHOR, CONTEXT, CONTEXT, by="bm25"),
    "mined_other_date": dp.TripletRecipe(
        "mined", ANCHOR, CONTEXT, CONTEXT, by="bm25", strategy="other_date"
    ),
    "mined_comparison": dp.TripletRecipe(
        "mined_comparison",
        ANCHOR,
        dp.near_date(3),
        CONTEXT,
        by=dp.bm25(range_max=3),
        strategy=dp.sql("negative.date > anchor.date"),
    ),
    "texts": dp.TextRecipe("texts", dp.any_section(where="kind = 'window'"), per="chunk"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    with odd_corpus(tmp_path_factory.mktemp("compile") / "c.duckdb", 40, 1) as corpus:
        yield corpus


# One of each strategy, selector and law; the others differ in a word.
SHOWN = [
    *("roles_anchor_context", "text_simcse", "dated_anchor_context_other_date", "equality"),
    *("inequality", "question", "near_positive", "near_negative", "condition", "mined"),
    *("mined_comparison", "texts"),
]
TAILS = ["counts", "anchors", "positives", "negatives", "pairs", "sizes"]
MINED_TAILS = [
    *("anchors", "negatives", "illegal_texts"),
    *("mined_anchors", "mined_askers", "mined_documents", "mined_positives"),
]


@pytest.mark.parametrize("name", SHOWN)
def test_statements_are_golden(name: str, golden: Callable[[str, str], None]) -> None:
    compiled = compile_pool(RECIPES[name], source="it's", split="train", version=3)
    golden(f"sql/{name}.sql", compiled.sql() + ";\n")


def test_last_parts_are_golden(golden: Callable[[str, str], None]) -> None:
    parts = [("comparison", tail) for tail in TAILS] + [("mined", tail) for tail in MINED_TAILS]
    parts += [("texts", "counts"), ("texts", "anchors")]
    ends = []
    for name, tail in parts:
        compiled = compile_pool(RECIPES[name], source="it's", split="train", version=3)
        end = compiled.sql(cast("Part", tail)).rpartition("\n)\n")[2]
        ends.append(f"-- {tail} of {name}\n{end};\n")
    golden("sql/last_parts.sql", "\n".join(ends))


@pytest.mark.parametrize("name", RECIPES)
def test_statements_are_for_reading(name: str) -> None:
    recipe = RECIPES[name]
    compiled = compile_pool(recipe, source="it's", split="train", version=3)
    for text in (compiled.sql(), compiled.runnable()):
        lines = text.splitlines()
        nearest = (
            "near_date" in (recipe.positive.kind, recipe.negative.kind)
            if isinstance(recipe, dp.TripletRecipe)
            else False
        )
        short = name in ("roles_anchor_context", "long_section", "texts")
        assert len(lines) <= (41 if short else 153 + 40 * nearest)
        assert max(map(len, lines)) <= 100
        (tree,) = parse(text, dialect="duckdb")
        assert tree is not None
        written = re.findall(r"^(?:WITH )?(\w+) AS (?:MATERIALIZED )?\($", text, re.MULTILINE)
        assert written == [step.alias for step in tree.find(exp.With).expressions]


def test_nothing_written_in_a_condition_is_taken_for_a_part_of_the_statement(
    corpus: dp.Corpus,
) -> None:
    odd = "heading = '$source FROM verdicts -- if mined kin_key, anchor_columns ''\" slot.evil'"
    long = " or ".join(f"text = 'one of many {i}'" for i in range(30))
    recipe = dp.TripletRecipe("r", ANCHOR, CONTEXT, dp.role("context", f"not ({odd}) or {long}"))
    plain = dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT)
    found = []
    for one in (recipe, plain):
        compiled = compile_pool(one, source="odd0", split="train", version=1)
        assert max(map(len, compiled.sql().splitlines())) <= 100
        found.append(corpus.database.arrow(*compiled.statement("pool", staged=False)))
        assert corpus.database.arrow(compiled.runnable()).equals(found[-1])
    assert found[0].num_rows <= found[1].num_rows
    assert list(samples(corpus.sampler(recipes=[recipe]), 20))


@pytest.mark.parametrize("name", RECIPES)
def test_runnable_text_is_the_statement(name: str, corpus: dp.Corpus) -> None:
    recipe = RECIPES[name]
    compiled = compile_pool(recipe, source="odd0", split="train", version=1)
    rows = corpus.database.arrow(*compiled.statement("pool", staged=False))
    assert rows.equals(corpus.database.arrow(compiled.runnable()))
    keys = rows["record_key"].to_pylist()
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
    ],
)
def test_a_corpus_is_sealed(statement: str, corpus: dp.Corpus) -> None:
    with pytest.raises(dp.QueryError):
        corpus.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE records",
        "SELECT 1; SELECT 2",
        "COPY records TO 'x.csv'",
        "ATTACH 'x'",
        "SET enable_external_access = true",
        "EXPLAIN ANALYZE DELETE FROM records",
        "",
        "selct 1",
        "INSERT INTO splits VALUES (1, 'x')",
        "LOAD fts",
    ],
)
def test_sql_reads_only(statement: str, corpus: dp.Corpus) -> None:
    with pytest.raises(dp.QueryError):
        corpus.sql(statement)


def test_a_strategy_that_compares_too_much_is_refused(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = dp.TripletRecipe(
        "r", ANCHOR, CONTEXT, CONTEXT, strategy=dp.sql("negative.text > anchor.text")
    )
    corpus.sampler(recipes=[recipe])
    monkeypatch.setattr("duckplets.pools.read._MOST_COMPARISONS", 10)
    with pytest.raises(dp.RecipeError, match="add an equality"):
        corpus.sampler(recipes=[recipe])


def test_recipes_are_stored_and_limited_to_sources(tmp_path: Path) -> None:
    with odd_corpus(tmp_path / "c.duckdb", 30, 1, sources=2) as corpus:
        limited = dp.TripletRecipe("one", ANCHOR, CONTEXT, CONTEXT, sources=["odd0"])
        corpus.add_recipe(limited)
        assert corpus.recipes() == [limited]
        assert not corpus.add_recipe(limited)
        assert corpus.recipes() == [limited]
        with pytest.raises(dp.RecipeError, match="another recipe 'one' already"):
            corpus.add_recipe(dp.TextRecipe("one", ANCHOR))
        with pytest.raises(dp.EmptyPoolError, match="'odd1' has no recipe"):
            corpus.sampler(empty="error")
        assert any("'odd1' has no recipe" in note for note in corpus.sampler().notes)
        batch = next(corpus.sampler(mixture=dp.Mixture({"odd1": 0}, omitted=1)))
        assert set(batch["source"]) == {"odd0"}
        with pytest.raises(dp.RecipeError, match="no source 'odd2'"):
            corpus.sampler(
                recipes=[dp.TripletRecipe("x", ANCHOR, CONTEXT, CONTEXT, sources=["odd2"])]
            )
        sql, parameters = corpus.recipe_sql("one")
        assert parameters["source"] == "odd0"
        assert corpus.sql(sql, parameters).num_rows == corpus.pool("one").num_rows
        corpus.remove_recipe("one")
        assert corpus.recipes() == []
        with pytest.raises(dp.RecipeError, match="did you mean 'anchor_context'"):
            corpus.pool("anchor_contex")
