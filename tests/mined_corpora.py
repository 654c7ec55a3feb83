"""Corpora full of what guards are for, candidates written by hand, and the guards in Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from plain_text import normalised
from prebuilt import prebuilt

import duckplets as dp
from duckplets.ingest.chunks import content_of
from duckplets.mining import store
from duckplets.mining.views import show

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


@dataclass(frozen=True)
class Piece:
    """A window with what guards look at."""

    key: int
    section: int
    record: int
    record_id: str
    source: str
    split: str
    role: str
    position: int
    group: str | None
    topic: str
    text: str
    normal: str


@prebuilt
def guarded_corpus(path: Path, count: int, seed: int, *, sources: int = 2) -> dp.Corpus:
    """Records in groups, with titles and bodies that differ in case, accents and space only."""
    draw = random.Random(seed)
    corpus = dp.Corpus(path)
    for n in range(sources):
        records = [_record(draw, i) for i in range(count)]
        source = dp.sources.MemorySource(
            records, id="id", anchor="title", positive="body", context="notes", group="g",
            meta=["topic"],
        )  # fmt: skip
        corpus.ingest(source, name=f"s{n}")
    corpus.split(0.6, 0.2, 0.2, seed=seed)
    corpus.chunk(dp.Chunking(max_tokens=9, overlap=(2,), summary_tokens=4))
    return corpus


def _record(draw: random.Random, i: int) -> dict[str, Any]:
    def words(most: int) -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, most)))

    def written(text: str) -> str:
        return draw.choice(
            [text, text.upper(), text.replace("e", "é"), text.replace("e", "e\u0301"),
             f"  {text} ", text.replace(" ", " \n ")]
        )  # fmt: skip

    kana = draw.choice("かが")  # the mark makes another word
    title = written(f"title {i // 3} {kana}") if draw.random() < 0.5 else f"title {i} {words(3)}"
    body = written(f"the body {draw.randint(0, 3)}") if draw.random() < 0.4 else words(24)
    return {
        "id": f"r{i}",
        "title": title,
        "body": body,
        "notes": [body.lower() if draw.random() < 0.2 else words(6)],
        "g": f"g{draw.randint(0, 4)}" if draw.random() < 0.4 else None,
        "topic": draw.choice(["news", "law"]),
    }


def pieces_of(corpus: dp.Corpus) -> list[Piece]:
    """Every window of the newest version."""
    rows = corpus.sql(
        """
        SELECT c.chunk_key, c.section_key, c.record_key, r.record_id, r.source, r.split, s.role,
            s.position, r.group_key, r.meta['topic'] AS topic,
            substring(s.text, c.start + 1, c.length), s.text AS whole
        FROM chunks c JOIN sections s USING (section_key)
        JOIN live_records r ON r.record_key = c.record_key
        ORDER BY c.chunk_key
        """
    )
    return [
        Piece(*list(row.values())[:-1], normal=normalised(row["whole"])) for row in rows.to_pylist()
    ]


Matches = Callable[[Piece], bool]


@dataclass
class Rules:
    """Who may be a negative of whom, over the windows of one source and split.

    Families are of all sources: ``others`` are the windows of those.
    """

    pieces: list[Piece]
    is_anchor: Matches
    is_positive: Matches
    is_negative: Matches
    strategy: Callable[[Piece, Piece], bool] = lambda a, n: True
    others: list[Piece] = field(default_factory=list)
    texts: dict[str, set[str]] = field(init=False)
    known: dict[str, list[Piece]] = field(init=False)
    members: dict[int, list[Piece]] = field(init=False)
    own: dict[int, tuple[set[str], set[str]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.texts, self.known = defaultdict(set), defaultdict(list)
        self.members = defaultdict(list)
        for p in self.pieces:
            self.members[p.record].append(p)
            if self.is_negative(p):
                self.texts[p.text].add(p.normal)
        for a in self.pieces:
            if self.is_anchor(a):
                self.known[a.normal] += filter(self.is_positive, self.members[a.record])

    def may(self, a: Piece, n: Piece) -> bool:
        """Whether a window is a legal negative of an anchor window."""
        texts, normals = self._own(a)
        return (
            self.is_negative(n)
            and n.record != a.record
            and (a.group is None or a.group != n.group)
            and self.strategy(a, n)
            and n.text not in texts
            and normals.isdisjoint(self.texts[n.text])
        )

    def _own(self, a: Piece) -> tuple[set[str], set[str]]:
        if a.key not in self.own:
            family = self.members[a.record]
            if a.group is not None:
                family = [w for w in (*self.pieces, *self.others) if w.group == a.group]
            own = [w for w in family if self.is_anchor(w) or self.is_positive(w)]
            own += self.known[a.normal]
            self.own[a.key] = {w.text for w in own}, {w.normal for w in own}
        return self.own[a.key]

    def legal_texts(self, a: Piece) -> int:
        """How many different texts an anchor window's negative can have."""
        return len({n.text for n in self.pieces if self.may(a, n)})

    def paired(self) -> list[Piece]:
        """The anchor windows that have a positive of another text."""
        return [
            a
            for a in self.pieces
            if self.is_anchor(a)
            and any(self.is_positive(p) and p.text != a.text for p in self.members[a.record])
        ]

    def pool(self, negatives: int, dropped: Iterable[int] = ()) -> dict[int, list[Piece]]:
        """The anchor windows a sample exists for, by record."""
        gone = set(dropped)
        found: dict[int, list[Piece]] = defaultdict(list)
        for a in self.paired():
            if a.section not in gone and self.legal_texts(a) >= negatives:
                found[a.record].append(a)
        return dict(found)


def rules_of(corpus: dp.Corpus, case: dict[str, Any], source: str, split: str) -> Rules:
    """The rules of one of ``CASES``."""
    pieces = [p for p in pieces_of(corpus) if p.split == split]
    others = [p for p in pieces if p.source != source]
    return Rules([p for p in pieces if p.source == source], others=others, **case["plain"])


def _is(role: str) -> Matches:
    return lambda p: p.role == role


CASES: dict[str, dict[str, Any]] = {
    "plain": {
        "recipe": dict(anchor=ANCHOR, positive=CONTEXT, negative=CONTEXT),
        "plain": dict(
            is_anchor=_is("anchor"), is_positive=_is("context"), is_negative=_is("context")
        ),
    },
    "any": {
        "recipe": dict(anchor=ANY, positive=CONTEXT, negative=ANY),
        "plain": dict(
            is_anchor=lambda p: True, is_positive=_is("context"), is_negative=lambda p: True
        ),
    },
    "question": {
        "recipe": dict(
            anchor=ANCHOR, positive=CONTEXT, negative=CONTEXT, strategy="question_answer_mismatch"
        ),
        "plain": dict(
            is_anchor=_is("anchor"), is_positive=_is("context"), is_negative=_is("context")
        ),
    },
    "topic": {
        "recipe": dict(
            anchor=CONTEXT,
            positive=ANCHOR,
            negative=CONTEXT,
            strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
        ),
        "plain": dict(
            is_anchor=_is("context"),
            is_positive=_is("anchor"),
            is_negative=_is("context"),
            strategy=lambda a, n: a.topic == n.topic,
        ),
    },
    "other topic": {
        "recipe": dict(
            anchor=ANCHOR,
            positive=dp.position(1),
            negative=CONTEXT,
            strategy=dp.sql("negative.meta['topic'] <> anchor.meta['topic']"),
        ),
        "plain": dict(
            is_anchor=_is("anchor"),
            is_positive=lambda p: p.position == 1,
            is_negative=_is("context"),
            strategy=lambda a, n: a.topic != n.topic,
        ),
    },
}

Rows = dict[int, list[tuple[int, float]]]  # anchor section → negative section, score


def write_mining(
    corpus: dp.Corpus,
    recipe: dp.TripletRecipe,
    rows: Rows,
    *,
    source: str = "s0",
    split: str = "train",
    scorer: str = "bm25",
    positives: Mapping[int, float] | None = None,
    block: int = 1 << 20,
) -> int:
    """Store candidates, and scores of positives, as a finished mining; returns its number.

    Anchors with an empty list have no candidates; a part of the mining has ``block`` rows.
    """
    database, scores = corpus.database, positives or {}
    found = {name: list[Any]() for name in store.SCHEMA.names}
    ranks = dict[int, tuple[float, int]]()
    for anchor, of in sorted(rows.items()):
        best = scores.get(anchor)
        rank = None if best is None else 1 + sum(score > best for _, score in of)
        if best is not None and rank is not None:
            ranks[anchor] = best, rank
        for place, (negative, score) in enumerate(of or [(0, 0.0)], 1 if of else 0):
            values = (anchor, place, negative, score, best, rank)
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
    table = pa.table(found, schema=store.SCHEMA)
    target = store.Mining(
        recipe=recipe.name,
        source=source,
        split=split,
        scorer=scorer,
        definition=store.definition_of(recipe),
        settings={"depth": 2048},
        content=content_of(database, source, split, corpus.version),
        corpus_version=corpus.version,
        anchors=len(rows),
        searched=0,
    )
    with store.writing(database) as folder:
        opened = store.OpenMining(folder, target, fresh=True)
        for start in range(0, table.num_rows, block):
            part = table.slice(start, block)
            anchors = part["anchor_section_key"].unique().to_pylist()
            ranked = [(a, 0, *ranks[a]) for a in anchors if a in ranks]
            known = zip(*ranked, strict=True) if ranked else [[]] * len(store.POSITIVES)
            positives = pa.table([*map(list, known)], schema=store.POSITIVES)
            opened.append(part, positives, len(anchors), {})
            opened.flush()
        key = opened.finish().key
    show(database)
    return key


def some_candidates(
    rules: Rules, seed: int, *, most: int = 7, careless: Iterable[Piece] = ()
) -> Rows:
    """Candidates for most anchor sections: legal sections, and careless ones among them."""
    draw = random.Random(seed)
    anchors: dict[int, list[Piece]] = defaultdict(list)
    for p in rules.pieces:
        if rules.is_anchor(p):
            anchors[p.section].append(p)
    careless = [p.section for p in careless]
    rows: Rows = {}
    for number, (section, windows) in enumerate(anchors.items()):
        if number % 5 == 1:
            continue
        legal = {
            n.section
            for n in rules.pieces
            if all(rules.may(a, m) for a in windows for m in rules.pieces if m.section == n.section)
        }
        found = draw.sample(sorted(legal), min(len(legal), draw.randint(0, most)))
        found += draw.sample(careless, min(len(careless), draw.randint(0, 6)))
        draw.shuffle(found)
        if found:
            rows[section] = [(n, 9.0 - i / 7) for i, n in enumerate(dict.fromkeys(found))]
    return rows
