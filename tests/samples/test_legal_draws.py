"""No negative is an answer, however it is drawn: compared with the law in plain Python."""

from __future__ import annotations

import random
from typing import Any

import law_corpora
import numpy as np
import plain_law as law
import pyarrow.parquet as pq
import pytest
from effort import often
from law_corpora import ANCHOR, CONTEXT, KINDS, REJECTED
from prebuilt import prebuilt

import duckplets as dp
from duckplets.mining.guards import Guards
from duckplets.pools.arrays import Pool
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import NoAnchorError, PoolReader
from duckplets.samples.stream import Stream

SPLITS = often(40, less=12)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, drawn = tmp_path_factory.mktemp("law"), law_corpora.drawn(SPLITS)
    with law_corpora.filled(folder / "c.duckdb", folder / "empty.duckdb", drawn) as corpus:
        yield corpus, drawn


def read(corpus: dp.Corpus, name: str, place: int, source: str, **options: Any) -> Any:
    """Return the pool of a kind of recipe, and its reader; None if it has no anchor."""
    recipe, how, _ = KINDS[name]
    where = {"source": source, "split": f"r{place}", "version": 1}
    compiled = compile_pool(recipe, **where, **how, **options)
    try:
        with PoolReader(corpus.database, [compiled]) as reader:
            guards = None
            if recipe.minable and not options.get("swaps"):
                guards = Guards(corpus.database, reader, compiled)
            return reader.read(compiled, spare=place % 2 == 0), guards
    except NoAnchorError:
        return None, None


def asking(told: law.Law, positive: law.Chunk) -> set[str]:
    """Return the texts that ask for a positive: those of all records that have it."""
    keys = {
        c.record.key
        for c in told.reach
        if c.question == positive.question and c in told.answers(c.record.key, ())
    }
    found = [c for key in keys for c in told.asks(key)]
    alike = {c.question for c in found}
    return {c.text for c in found} | {c.text for c in told.chunks if c.question in alike}


def drawn(pool: Pool, negatives: int, count: int = 60) -> Any:
    """Yield anchor, positive and negatives of the first samples: keys, keys and hashes."""
    draw = Stream("a", pool, 7, negatives).draw_at(np.arange(count))
    return zip(*(c.tolist() for c in (*draw.chunks[:2], *draw.hashes[2:])), strict=True)


@pytest.mark.parametrize("name", KINDS)
def test_every_negative_is_legal(corpora: Any, name: str) -> None:
    corpus, of_splits = corpora
    hashes = dict(corpus.database.run_hashes) if hasattr(corpus.database, "run_hashes") else {}
    rows = corpus.sql("SELECT chunk_key, text_hash FROM chunks").to_pylist()
    hashes = {row["chunk_key"]: row["text_hash"] for row in rows}
    draw, seen = random.Random(name), 0
    for place in draw.sample(range(SPLITS), often(SPLITS, less=3)):
        by_key = {c.key: c for c in of_splits[place].chunks}
        text_of = {hashes[c.key]: c.text for c in by_key.values()}
        for source in ("a", "b"):
            told = law.Law(of_splits[place], KINDS[name][2], source)
            negatives, swaps = draw.choice(((1, False), (1, True), (2, False), (2, True)))
            pool, guards = read(corpus, name, place, source, negatives=negatives, swaps=swaps)
            if pool is None:
                continue
            for anchor, positive, *others in drawn(pool, negatives):
                legal = told.legal(by_key[anchor])
                if swaps:
                    legal -= asking(told, by_key[positive])
                texts = [text_of[other] for other in others]
                assert {*texts} <= legal, (place, source, by_key[anchor])
                assert len({by_key[anchor].text, by_key[positive].text, *texts}) == len(texts) + (
                    2 if by_key[anchor].text != by_key[positive].text else 1
                )
                seen += 1
            if guards is not None:
                _check(corpus, guards, told)
    assert seen


def _check(corpus: dp.Corpus, guards: Guards, told: law.Law) -> None:
    """Check that guards leave an anchor the documents with a legal window, and no other."""
    sections: dict[int, list[law.Chunk]] = {}
    of_chunks = corpus.sql("SELECT chunk_key, section_key FROM chunks").to_pylist()
    by_chunk = {row["chunk_key"]: row["section_key"] for row in of_chunks}
    for chunk in told.chunks:
        sections.setdefault(by_chunk[chunk.key], []).append(chunk)
    keys, whole = guards.sections.keys, slice(0, len(guards.anchors))
    excluded = guards.exclude(whole)
    for row, anchor in enumerate(keys[guards.anchors].tolist()):
        for number in guards.documents.tolist():
            found = excluded.reasons_of(np.array([row]), np.array([number]))[0]
            windows = [c for c in sections[int(keys[number])] if told.recipe.negative(c)]
            asked = [c for c in sections[anchor] if told.recipe.anchor(c)]
            legal = told.legal(asked[0])
            suited = all(told.recipe.suits(a, n) for a in asked for n in windows)
            illegal = not suited or not any(
                c.text in legal and c in told.negatives(asked[0]) for c in windows
            )
            assert (found >= 0) == illegal, (anchor, number)


QUESTIONS = ("capital of France", "colour of grass", "height of trees", "speed of sound")


@prebuilt
def questions(path: Any, group: str | None = None) -> dp.Corpus:
    """Return four questions of five rows each, one of whose ready negatives is an answer."""
    rows = [
        {
            "id": f"r{n}",
            "q": QUESTIONS[n // 5],
            "a": f"answer {n // 5} in {n} words of {QUESTIONS[n % 4]}",
            "wrong": f"answer {(n // 5 + (n % 5 > 0)) % 4} of a model {n}",
            "g": QUESTIONS[n // 5],
        }
        for n in range(20)
    ]
    for n in range(0, 20, 5):
        rows[n]["wrong"] = rows[n + 1]["a"]
    corpus = dp.Corpus(path)
    names = {"id": "id", "anchor": "q", "positive": "a", "negative": "wrong", "group": group}
    corpus.ingest(dp.MemorySource(rows, **names), name="faq", progress=False)
    corpus.split(1, 0, 0)
    corpus.add_recipe(dp.TripletRecipe("mined", ANCHOR, CONTEXT, CONTEXT))
    corpus.mine("mined", progress=False)
    return corpus


FILLED = dp.TripletRecipe(
    "filled", ANCHOR, CONTEXT, REJECTED, strategy="same_record", when_short="random"
)
MISMATCH = dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch")
WIDE = dp.TripletRecipe("wide", ANCHOR, CONTEXT, CONTEXT, negatives_from="split")
ARMS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "default": (None, {}),
    "group": ("g", {}),
    "three": (None, {"negatives": 3}),
    "swap": (None, {"swap": True}),
    "random": (None, {"recipes": ["mined"], "by": "random"}),
    "mined": (None, {"recipes": ["mined"], "by": "bm25"}),
    "mixed": (None, {"recipes": ["mined"], "by": {"bm25": 0.5, "random": 0.5}}),
    "pairs": (None, {"kind": "pairs", "negatives": 2}),
    "filled": (None, {"recipes": [FILLED], "negatives": 2}),
    "split": (None, {"recipes": [WIDE]}),
    "mismatch": (None, {"recipes": [MISMATCH]}),
    "apart": (None, {"no_duplicates": "negatives", "recipes": ["mined"], "by": "random"}),
    "apart, mined": (None, {"no_duplicates": "negatives", "recipes": ["mined"], "by": "bm25"}),
}


def asked(text: str) -> int:
    """Return the number of the question that a text asks or answers."""
    return QUESTIONS.index(text) if text in QUESTIONS else int(text.split()[1])


@pytest.mark.parametrize("name", ARMS)
def test_no_answer_of_its_question_is_a_negative(tmp_path: Any, name: str) -> None:
    group, how = ARMS[name]
    with questions(tmp_path / "c.duckdb", group) as corpus:
        arm = {"seed": 1, "batch_size": 3 if how.get("kind") == "pairs" else 4} | how
        with corpus.sampler(arm.pop("kind", "triplets"), **arm) as sampler:
            rows = [row for step in range(40) for row in sampler.batch_at(step).to_pylist()]
            if name == "default":
                (shared,) = {*sampler.forecast().table["shared_questions"].to_pylist()}
                assert shared == 20
                assert "20 anchors share a question with other records" in sampler.describe()
        wrong = [(row["anchor"], row[c]) for row in rows for c in row if c.startswith("negative")]
        wrong += [(row["text_a"], row["text_b"]) for row in rows if row.get("label") == 0]
        assert wrong
        assert not [(one, other) for one, other in wrong if asked(one) == asked(other)]


def test_no_answer_of_its_question_is_exported(tmp_path: Any) -> None:
    with questions(tmp_path / "c.duckdb") as corpus:
        for short in (None, "random"):
            path = tmp_path / f"{short}.parquet"
            how: dict[str, Any] = {"format": "sentence-transformers", "negatives": 8}
            corpus.export_negatives(path, recipe="mined", shape="n-tuple", when_short=short, **how)
            rows = pq.read_table(path).to_pylist()
            wrong = [(r["anchor"], r[c]) for r in rows for c in r if c.startswith("negative")]
            assert wrong
            assert not [of for of in wrong if of[1] and asked(of[0]) == asked(of[1])]
