"""One law: the pools' SQL, what is drawn, and the words of the rule in plain Python agree."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import THOROUGH, often
from mined_corpora import hash_texts, normalised, write_mining

import duckplets as dp
from duckplets.mining import store as minings
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import PoolReader
from duckplets.samples import candidates
from duckplets.samples.negatives import BY_CHANCE, FILLED, FROM_SPLIT, OWN
from duckplets.samples.stream import Stream

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()
WORDS = ["alpha", "beta", "delta", "epsilon"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk with all that the rule looks at."""

    key: int
    section: int
    record: int
    role: str
    position: int
    group: str | None
    topic: str
    day: str | None
    text: str
    source: str
    normalised: str


Matches = Callable[[Chunk], bool]
SELECTORS: dict[str, tuple[dp.Selector, Matches]] = {
    "anchor": (ANCHOR, lambda c: c.role == "anchor"),
    "context": (CONTEXT, lambda c: c.role == "context"),
    "any": (ANY, lambda c: True),
    "second": (dp.position(1), lambda c: c.position == 1),
    "news": (dp.any_section(where="meta['topic'] = 'news'"), lambda c: c.topic == "news"),
}
SHAPES = [
    *(("anchor", "context", "context"), ("anchor", "context", "anchor"), ("any", "context", "any")),
    *(("any", "any", "any"), ("context", "anchor", "context"), ("anchor", "second", "news")),
]
# What a chunk must be to be drawn for another, but for text and kin.
STRATEGIES: dict[str, tuple[Any, Callable[[Chunk, Chunk, set[tuple[int, str]]], bool]]] = {
    "other_record": ("other_record", lambda a, n, asked: True),
    "same_record": ("same_record", lambda a, n, asked: True),
    "other_date": ("other_date", lambda a, n, asked: a.day != n.day),
    "question": ("question_answer_mismatch", lambda a, n, asked: (n.record, a.text) not in asked),
    "equal": (
        dp.sql("negative.meta['topic'] = anchor.meta['topic'] and negative.position > 0"),
        lambda a, n, asked: a.topic == n.topic and n.position > 0,
    ),
    "unequal": (
        dp.sql("negative.meta['topic'] <> anchor.meta['topic'] or negative.position < 1"),
        lambda a, n, asked: a.topic != n.topic or n.position < 1,
    ),
    "elsewhere": (
        dp.sql("negative.position <> anchor.position"),
        lambda a, n, asked: a.position != n.position,
    ),
    "later": (
        dp.sql("negative.date > anchor.date"),
        lambda a, n, asked: bool(a.day and n.day and n.day > a.day),
    ),
}
CASES = [
    (name, mined) for name in STRATEGIES for mined in (False, True) if (name, mined)[0:2]
    != ("same_record", True)
]  # fmt: skip


class Rule:
    """Who is a legal negative of whom, chunk by chunk."""

    def __init__(
        self, chunks: list[Chunk], recipe: dp.TripletRecipe, case: tuple[Any, ...]
    ) -> None:
        shape, self.strategy, self.mined = case
        self.distinct = not recipe.allow_same_anchor_positive
        self.own = self.strategy == "same_record"
        anchor, positive, negative = (SELECTORS[name][1] for name in shape)
        self.anchors = [c for c in chunks if anchor(c)]
        self.negatives = [c for c in chunks if negative(c)]
        self.positives: dict[int, list[Chunk]] = defaultdict(list)
        for chunk in filter(positive, chunks):
            self.positives[chunk.record].append(chunk)
        self.mine: dict[int, list[Chunk]] = defaultdict(list)
        for chunk in self.anchors + [c for of in self.positives.values() for c in of]:
            self.mine[chunk.record].append(chunk)
        self.asked = {(c.record, c.text) for c in self.anchors}
        self.known: dict[str, set[str]] = defaultdict(set)
        for a in self.anchors:
            self.known[a.normalised] |= {p.normalised for p in self.positives[a.record]}
        self.writings: dict[str, set[str]] = defaultdict(set)
        for n in self.negatives:
            self.writings[n.text].add(n.normalised)

    def is_legal(self, a: Chunk, n: Chunk) -> bool:
        if (a.record == n.record) != self.own or n.text in {c.text for c in self.mine[a.record]}:
            return False
        if self.mined and (
            (a.group is not None and a.group == n.group)
            or self.writings[n.text] & {c.normalised for c in self.mine[a.record]}
            or self.writings[n.text] & self.known[a.normalised]
        ):
            return False
        return STRATEGIES[self.strategy][1](a, n, self.asked)

    def legal(self, a: Chunk) -> list[Chunk]:
        return self.legal_anywhere(a)

    def legal_anywhere(self, a: Chunk) -> list[Chunk]:
        return [n for n in self.negatives if self.is_legal(a, n)]

    def pool(self, negatives: int) -> dict[int, list[int]]:
        """Return the anchors of each record: with a usable positive and enough legal texts."""
        found: dict[int, list[int]] = defaultdict(list)
        for a in self.anchors:
            texts = {p.text for p in self.positives[a.record]}
            if self.distinct:
                texts.discard(a.text)
            if texts and len({n.text for n in self.legal(a)}) >= negatives:
                found[a.record].append(a.key)
        return dict(found)


class WiderRule(Rule):
    """The rule where who has too few negatives draws from all sources of the split."""

    def __init__(
        self, chunks: list[Chunk], recipe: dp.TripletRecipe, case: tuple[Any, ...], wanted: int
    ) -> None:
        super().__init__([c for c in chunks if c.source == "s"], recipe, case)
        anchor, _, negative = (SELECTORS[name][1] for name in case[0])
        self.wanted, self.of_source = wanted, self.negatives
        self.negatives = [c for c in chunks if negative(c)]
        self.asked = {(c.record, c.text) for c in chunks if anchor(c)}

    def is_short(self, a: Chunk) -> bool:
        return len({n.text for n in self.of_source if self.is_legal(a, n)}) < self.wanted

    def legal(self, a: Chunk) -> list[Chunk]:
        every = self.negatives if self.is_short(a) else self.of_source
        return [n for n in every if self.is_legal(a, n)]


class FillingRule(Rule):
    """The rule where negatives of other records fill up those of the own."""

    def legal(self, a: Chunk) -> list[Chunk]:
        mine = {c.text for c in self.mine[a.record]}
        return [n for n in self.negatives if n.text not in mine]

    def given(self, a: Chunk) -> list[Chunk]:
        return [n for n in self.legal(a) if n.record == a.record]


def odd_corpus(path: Path, seed: int, others: int = 0) -> dp.Corpus:
    """A small corpus whose texts, groups, days and questions come again and again.

    ``others``: records of a second source.
    """
    draw = random.Random(seed)
    count, crowd, repeats = draw.choice([2, 5, 9, 14]), draw.random(), draw.random()

    def written(text: str) -> str:
        return draw.choice([text, text.upper(), text.replace("e", "é"), f" {text}  "])

    def body() -> str:
        if draw.random() < repeats:
            return written(draw.choice(["the same", "the other", "title 1"]))
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 7)))

    def record(i: int) -> dict[str, Any]:
        title = written(f"title {i // 3}") if draw.random() < repeats else f"title {i}"
        group = draw.choice(["g1", "g1", "g2"]) if draw.random() < crowd else None
        day = draw.choice(["2024-01-01", "2024-01-02", "2024-02-01", None])
        topic = draw.choice(["news", "law"])
        text = body() if draw.random() < 0.9 else title
        return {
            "id": f"r{i}",
            "t": title,
            "b": text,
            "n": body(),
            "g": group,
            "d": day,
            "topic": topic,
        }

    corpus = dp.Corpus(path)
    records = [record(i) for i in range(count)]
    source = dp.MemorySource(
        records, id="id", anchor="t", positive="b", context="n", group="g", date="d", meta=["topic"]
    )
    corpus.ingest(source, name="s", progress=False)
    if others:
        rows = [record(100 + i) for i in range(others)]
        corpus.ingest(replace(source, records=rows), name="t", progress=False)
    corpus.split(1, 0, 0)
    corpus.chunk(dp.Chunking(max_tokens=4, overlap=(1,), summary_tokens=2))
    if seed % 2:
        hash_texts(corpus, share=1 + seed % 3)
    return corpus


def chunks_of(corpus: dp.Corpus) -> list[Chunk]:
    rows = corpus.sql(
        """
        SELECT c.chunk_key, c.section_key, c.record_key, s.role, s.position, r.group_key,
            r.meta['topic'] AS topic, r.date::VARCHAR AS day,
            substring(s.text, c.start + 1, c.length), r.source, s.text AS whole
        FROM chunks c JOIN sections s USING (section_key)
        JOIN live_records r ON r.record_key = c.record_key ORDER BY c.chunk_key
        """
    )
    return [Chunk(*[*row.values()][:-1], normalised(row["whole"])) for row in rows.to_pylist()]


def check_drawn(stream: Stream, rule: Rule, chunks: dict[int, Chunk]) -> None:
    """Check long runs: each negative is legal, of other texts, and all anchors come up.

    So is each that may take its place, and what there is to choose from is all that is legal.
    """
    stop = len(stream) * 12
    columns = stream.draw_at(np.arange(stop)).chunks
    drawn: set[int] = set()
    legal: dict[int, set[int]] = {}
    for keys in zip(*(column.tolist() for column in columns), strict=True):
        a, *negatives = keys[0], *keys[2:]
        drawn.add(chunks[a].record)
        if a not in legal:
            legal[a] = {n.key for n in rule.legal(chunks[a])}
        assert set(negatives) <= legal[a]
        texts = [chunks[n].text for n in negatives]
        assert len(set(texts)) == len(texts)
        assert not {chunks[k].text for k in keys[:2]} & set(texts)
    assert drawn == set(stream.pool.anchors.records.tolist())
    wanting, first = stream.draw_at(np.arange(stop)).wanting, columns[0].tolist()
    assert wanting is not None
    for attempt in range(3):
        found, good = stream.again(wanting, len(columns) - 3, attempt)
        for a, n, is_good in zip(first, found.chunks.tolist(), good.tolist(), strict=True):
            assert not is_good or n in legal[a]
    for row in range(min(len(stream), 9)):
        options = stream.options(wanting.part(np.array([row])))
        sample = {chunks[int(columns[slot][row])].text for slot in (0, 1)}
        texts = [chunks[n].text for n in options.chunks.tolist()]
        assert len(set(texts)) == len(texts)
        choose = rule.legal if stream.pool.short is None else rule.legal_anywhere
        every = choose(chunks[first[row]])
        assert set(texts) == {n.text for n in every} - sample


def mined_stream(corpus: dp.Corpus, rule: Rule, stream: Stream, careless: Iterable[int]) -> Stream:
    """Draw from candidates, of which some are not legal (any more)."""
    draw, every = random.Random(len(rule.anchors)), list(careless)
    rows = {
        a.section: [(n, 1.0) for n in dict.fromkeys(draw.choices(every, k=4))] for a in rule.anchors
    }
    recipe = stream.pool.compiled.recipe
    assert isinstance(recipe, dp.TripletRecipe)
    key = write_mining(corpus, recipe, rows, source="s")
    mining = minings.by_key(corpus.database, key)
    found = candidates.read(corpus.database, stream.pool, mining, scores=False)
    return replace(stream, candidates=found)


@pytest.mark.parametrize("seed", range(often(60, less=1)))
def test_sql_drawing_and_the_rule_agree(seed: int, tmp_path: Path) -> None:
    with odd_corpus(tmp_path / "c.duckdb", seed) as corpus:
        everything = chunks_of(corpus)
        chunks = {chunk.key: chunk for chunk in everything}
        for number, (strategy, mined) in enumerate(CASES):
            shape = SHAPES[(seed + number) % len(SHAPES)]
            slots = [SELECTORS[name][0] for name in shape]
            recipe = dp.TripletRecipe(
                "r", *slots, strategy=STRATEGIES[strategy][0], by="bm25" if mined else "random",
                allow_same_anchor_positive=(seed + number) % 4 == 0,
            )  # fmt: skip
            rule = Rule(everything, recipe, (shape, strategy, mined))
            wanted = (1, 2, 3) if THOROUGH else (1 + (seed + number) % 3,)
            compiled = [
                compile_pool(recipe, source="s", split="train", version=1, negatives=k)
                for k in wanted
            ]
            with PoolReader(corpus.database, compiled) as reader:
                for negatives, pool in zip(wanted, compiled, strict=True):
                    rows = reader.list(pool, "pool").to_pylist()
                    expected = rule.pool(negatives)
                    what = (shape, strategy, mined, negatives)
                    assert {row["record_key"]: row["anchors"] for row in rows} == expected, what
                    assert reader.count(pool).get(None, 0) == len(expected)
                    if not expected:
                        continue
                    stream = Stream("s", reader.read(pool), seed, negatives)
                    if mined and rule.negatives:
                        sections = [n.section for n in rule.negatives]
                        stream = mined_stream(corpus, rule, stream, sections)
                    check_drawn(stream, rule, chunks)


WIDER = [name for name in STRATEGIES if name != "same_record"]


@pytest.mark.parametrize("seed", range(40) if THOROUGH else [1])
def test_of_a_split_who_has_too_few_draws_from_all_sources(seed: int, tmp_path: Path) -> None:
    with odd_corpus(
        tmp_path / "c.duckdb", seed, others=random.Random(seed).randint(1, 9)
    ) as corpus:
        everything = chunks_of(corpus)
        chunks = {chunk.key: chunk for chunk in everything}
        for number, strategy in enumerate(WIDER):
            shape, k = SHAPES[(seed + number) % len(SHAPES)], 1 + (seed + number) % 3
            slots = [SELECTORS[name][0] for name in shape]
            recipe = dp.TripletRecipe(
                "r", *slots, strategy=STRATEGIES[strategy][0], negatives_from="split",
                allow_same_anchor_positive=(seed + number) % 4 == 0,
            )  # fmt: skip
            rule = WiderRule(everything, recipe, (shape, strategy, False), k)
            pool = compile_pool(recipe, source="s", split="train", version=2, negatives=k)
            with PoolReader(corpus.database, [pool]) as reader:
                rows = reader.list(pool, "pool").to_pylist()
                expected = rule.pool(k)
                what = (shape, strategy, k)
                assert {row["record_key"]: row["anchors"] for row in rows} == expected, what
                if not expected:
                    continue
                stream = Stream("s", reader.read(pool), seed, k)
            check_drawn(stream, rule, chunks)
            draw = stream.draw_at(np.arange(4 * len(stream)))
            for slot in range(k):
                told = (
                    draw.candidates[slot].tolist()
                    if stream.tells
                    else [BY_CHANCE] * len(draw.chunks[0])
                )  # type: ignore[index]
                for a, code in zip(draw.chunks[0].tolist(), told, strict=True):
                    assert code == (FROM_SPLIT if rule.is_short(chunks[a]) else BY_CHANCE)


@pytest.mark.parametrize("seed", range(often(40, less=1)))
def test_records_with_too_few_of_their_own_are_filled_up(seed: int, tmp_path: Path) -> None:
    with odd_corpus(tmp_path / "c.duckdb", seed) as corpus:
        everything = chunks_of(corpus)
        chunks = {chunk.key: chunk for chunk in everything}
        for number in range(6):
            shape, k = SHAPES[(seed + number) % len(SHAPES)], 1 + (seed + number) % 4
            slots = [SELECTORS[name][0] for name in shape]
            recipe = dp.TripletRecipe(
                "r", *slots, strategy="same_record", when_short="random",
                per=["record", "chunk"][number % 2],  # type: ignore[arg-type]
            )  # fmt: skip
            rule = FillingRule(everything, recipe, (shape, "same_record", False))
            pool = compile_pool(recipe, source="s", split="train", version=1, negatives=k)
            with PoolReader(corpus.database, [pool]) as reader:
                rows = reader.list(pool, "pool").to_pylist()
                expected = rule.pool(k)
                assert {n for row in rows for n in row["anchors"]} == {
                    n for of in expected.values() for n in of
                }
                if not expected:
                    continue
                stream = Stream("s", reader.read(pool), seed, k)
            check_drawn(stream, rule, chunks)
            draw = stream.draw_at(np.arange(6 * len(stream)))
            assert stream.tells == any(
                len({n.text for n in rule.given(chunks[a])}) < k for a in draw.chunks[0].tolist()
            )
            for row, a in enumerate(draw.chunks[0].tolist()):
                own = {n.text for n in rule.given(chunks[a])}
                negatives = [chunks[int(column[row])] for column in draw.chunks[2:]]
                given = [n.text for n in negatives if n.record == chunks[a].record]
                assert len(set(given)) == len(given) == min(k, len(own))
                if stream.tells:
                    codes = [int(column[row]) for column in draw.candidates or ()]
                    assert codes == [
                        OWN if n.record == chunks[a].record else FILLED for n in negatives
                    ]
