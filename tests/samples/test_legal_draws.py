"""No negative is an answer, however it is drawn: compared with the law in plain Python."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import law_corpora
import numpy as np
import plain_law as law
import pyarrow.parquet as pq
import pytest
from corpora import rows_of
from effort import often, some
from law_corpora import ANCHOR, CONTEXT, KINDS, REJECTED
from prebuilt import prebuilt

import duckplets as dp
from duckplets.mining.guards import Guards
from duckplets.pools.arrays import Pool
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import NoAnchorError, PoolReader
from duckplets.samples.stream import Stream

SPLITS = often(40, less=16)


# A source has labels of one kind, and of others a recipe draws positives that are answers.
LABELS: dict[str | None, dict[float, float | None]] = {
    "binary": {-1: 0, 0.5: 1}, "graded": {}, None: dict.fromkeys((-1, 0, 0.5, 1))
}  # fmt: skip


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return corpora by the labels they have, and what they are made of."""
    folder, found = tmp_path_factory.mktemp("law"), {}
    for kind, labels in LABELS.items():
        drawn = law_corpora.drawn(SPLITS)
        for of in drawn:
            records = {
                c.record: replace(c.record, label=labels.get(c.record.label, c.record.label))
                for c in of.chunks
            }
            of.chunks = [replace(c, record=records[c.record]) for c in of.chunks]
        path = folder / f"{kind}.duckdb"
        found[kind] = law_corpora.filled(path, folder / "empty.duckdb", drawn), drawn
    yield found
    for corpus, _ in found.values():
        corpus.close()


def read(corpus: dp.Corpus, name: str, place: int, **options: Any) -> Any:
    """Return the pool of a kind of recipe, or None, and the guards of mining for it."""
    recipe, how, _ = KINDS[name]
    where: dict[str, Any] = {"source": "ab"[place % 2], "split": f"r{place // 2}", "version": 1}
    compiled = compile_pool(recipe, **where, **how, **options)
    try:
        with PoolReader(corpus.database, [compiled]) as reader:
            guards = None
            if recipe.minable and not options.get("swaps"):
                guards = Guards(corpus.database, reader, compiled)
            return reader.read(compiled, spare=place % 2 == 0), guards
    except NoAnchorError:
        return None, None


def drawn(pool: Pool, negatives: int, count: int = 60) -> Any:
    """Yield anchor, positive and negatives of the first samples: keys, keys and hashes."""
    draw = Stream("a", pool, 7, negatives).draw_at(np.arange(count))
    return zip(*(c.tolist() for c in (*draw.chunks[:2], *draw.hashes[2:])), strict=True)


@pytest.mark.parametrize("name", some(KINDS, less=8))
def test_every_negative_is_legal(corpora: Any, name: str) -> None:
    corpus, of_splits = corpora[KINDS[name][1].get("labels")]
    rows = corpus.sql("SELECT chunk_key, text_hash FROM chunks").to_pylist()
    hashes = {row["chunk_key"]: row["text_hash"] for row in rows}
    draw, seen = random.Random(name), 0
    laws = [law.Law(of, KINDS[name][2], source) for of in of_splits for source in ("a", "b")]
    places = [place for place, told in enumerate(laws) if told.pool(1)]
    for turn, place in enumerate(draw.sample(places, min(len(places), often(40, less=3)))):
        told, by_key = laws[place], {c.key: c for c in of_splits[place // 2].chunks}
        text_of = {hashes[c.key]: c.text for c in by_key.values()}
        negatives, swaps = 1 + (len(told.pool(2)) > 0), turn % 2 > 0
        pool, guards = read(corpus, name, place, negatives=negatives, swaps=swaps)
        if guards is not None:
            _check(corpus, guards, told)
        for anchor, positive, *others in () if pool is None else drawn(pool, negatives):
            legal = told.legal(by_key[anchor])
            if swaps:
                legal -= told.swapped(by_key[positive].question)
            texts = [text_of[other] for other in others]
            pair = {by_key[anchor].text, by_key[positive].text}
            assert {*texts} <= legal - pair, (place, by_key[anchor])
            assert len({*texts}) == negatives
            seen += 1
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


PAIRED = ("overlap", "plain", "relabelled", "position", "documents, conditions", "documents")


@pytest.mark.parametrize("name", some(PAIRED, less=2))
def test_pairs_come_once_an_epoch_and_lists_have_positives_in_turn(corpora: Any, name: str) -> None:
    corpus, of_splits = corpora[None]
    rows = corpus.sql("SELECT chunk_key, text_hash FROM chunks").to_pylist()
    hashes, seen = {row["chunk_key"]: row["text_hash"] for row in rows}, 0
    recipe, how, plain = KINDS[name]
    laws = [law.Law(of, plain, source) for of in of_splits for source in ("a", "b")]
    places = [place for place, told in enumerate(laws) if told.pool(1)]
    for place in random.Random(name).sample(places, min(len(places), often(40, less=2))):
        told, by_key = laws[place], {c.key: c for c in of_splits[place // 2].chunks}
        anchors = [by_key[key] for _, chunks in told.pool(1) for key in chunks]
        wanted: dict[tuple[int, int], set[int]] = {}
        for a in anchors:
            for p in told.positives(a):
                if p.text != a.text:
                    wanted.setdefault((a.record.key, hashes[p.key]), set()).add(a.key)
        where = {"source": "ab"[place % 2], "split": f"r{place // 2}", "version": 1}
        compiled = compile_pool(replace(recipe, per="pair"), **where, **how)
        with PoolReader(corpus.database, [compiled]) as reader:
            pool = reader.read(compiled)
        listed = corpus.database.arrow(*compiled.statement("pool", staged=False)).to_pylist()
        draw = Stream("a", pool, 7, 1).draw_at(np.arange(len(pool.anchors)))
        pairs = [
            (by_key[a].record.key, p)
            for a, p in zip(draw.chunks[0].tolist(), draw.hashes[1].tolist(), strict=True)
        ]
        assert {*pairs} == wanted.keys()
        assert [row["record_key"] for row in listed] == pool.anchors.records.tolist()
        for row in listed:
            pair = row["record_key"], hashes[row["positive_key"]]
            assert {*row["anchors"]} == wanted[pair]
        compiled = compile_pool(recipe, **where, **how)
        with PoolReader(corpus.database, [compiled]) as reader:
            pool = reader.read(compiled)
        stream, came = Stream("a", pool, 7, 1, listed=2), set()
        draw = stream.draw_at(np.arange(40 * len(pool.anchors)))
        assert draw.counts is not None
        parts = (draw.chunks[0], *draw.hashes, draw.counts[0])
        columns = zip(*(part.tolist() for part in parts), strict=True)
        for anchor, *texts, negative, count in columns:
            positives = texts[1 : 1 + count]
            assert 1 <= len({*positives}) == count <= 2
            assert texts[1 + count :] == texts[:1] * (2 - count)
            mine = {(by_key[anchor].record.key, text) for text in positives}
            assert all(anchor in wanted[pair] for pair in mine)
            assert negative in {
                hashes[c.key] for c in told.reach if c.text in told.legal(by_key[anchor])
            }
            came |= mine
            seen += 1
        assert came == wanted.keys()
    assert seen


QUESTIONS = ("capital of France", "colour of grass", "height of trees", "speed of sound")


@prebuilt
def questions(path: Any, group: str | None = None) -> dp.Corpus:
    """Return four questions of five rows each, one of whose ready negatives is an answer."""
    rows = [
        {
            "id": f"r{n}",
            "q": QUESTIONS[n // 5],
            "a": f"answer {n // 5} in {n} words of {QUESTIONS[n % 4]}",
            "wrong": f"wrong {n}",
            "g": QUESTIONS[n // 5],
        }
        for n in range(20)
    ]
    for n in range(0, 20, 5):
        rows[n]["wrong"] = rows[n + 1]["a"]
    corpus = dp.Corpus(path)
    names = {"id": "id", "anchor": "q", "positive": "a", "negative": "wrong", "group": group}
    corpus.ingest(rows, name="faq", **names)
    corpus.split(1, 0, 0)
    corpus.add_recipe(dp.TripletRecipe("mined", ANCHOR, CONTEXT, CONTEXT))
    corpus.mine("mined")
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
    "swap": (None, {"options": dp.Options(swap=True)}),
    "random": (None, {"recipes": ["mined"], "negatives": dp.Negatives(by="random")}),
    "mined": (None, {"recipes": ["mined"], "negatives": dp.Negatives(by="bm25")}),
    "mixed": (
        None,
        {"recipes": ["mined"], "negatives": dp.Negatives(by={"bm25": 0.5, "random": 0.5})},
    ),
    "pairs": (None, {"kind": "labelled_pairs", "negatives": 2}),
    "filled": (None, {"recipes": [FILLED], "negatives": 2}),
    "split": (None, {"recipes": [WIDE]}),
    "mismatch": (None, {"recipes": [MISMATCH]}),
    "apart": (
        None,
        {
            "no_duplicates": "negatives",
            "recipes": ["mined"],
            "negatives": dp.Negatives(by="random"),
        },
    ),
    "apart, mined": (
        None,
        {"no_duplicates": "negatives", "recipes": ["mined"], "negatives": dp.Negatives(by="bm25")},
    ),
}


def asked(text: str) -> int:
    """Return the number of the question that a text asks or answers."""
    if text.startswith("wrong"):
        return -1
    return QUESTIONS.index(text) if text in QUESTIONS else int(text.split()[1])


@pytest.mark.parametrize("name", some(ARMS, less=6))
def test_no_answer_of_its_question_is_a_negative(tmp_path: Any, name: str) -> None:
    group, how = ARMS[name]
    with questions(tmp_path / "c.duckdb", group) as corpus:
        arm = {"seed": 1, "batch_size": 3 if how.get("kind") == "labelled_pairs" else 4} | how
        with corpus.sampler(arm.pop("kind", "triplets"), **arm) as sampler:
            rows = rows_of(sampler, 40)
            if name == "default":
                (shared,) = {*sampler.forecast().table["shared_questions"].to_pylist()}
                assert shared == 20
                assert "20 anchors share a question with other records" in sampler.describe()
        wrong = [(row["anchor"], row[c]) for row in rows for c in row if c.startswith("negative")]
        wrong += [(row["anchor"], row["other"]) for row in rows if row.get("label") == 0]
        assert wrong
        assert not [(one, other) for one, other in wrong if asked(one) == asked(other)]


def test_no_answer_of_its_question_is_exported(tmp_path: Any) -> None:
    with questions(tmp_path / "c.duckdb") as corpus:
        for short in (None, "random"):
            path = tmp_path / f"{short}.parquet"
            how: dict[str, Any] = {"format": "sentence-transformers"}
            corpus.export(
                path,
                negatives=dp.Negatives(8, when_short=short),
                recipe="mined",
                shape="n-tuple",
                **how,
            )
            rows = pq.read_table(path).to_pylist()
            wrong = [(r["anchor"], r[c]) for r in rows for c in r if c.startswith("negative")]
            assert wrong
            assert not [of for of in wrong if of[1] and asked(of[0]) == asked(of[1])]
