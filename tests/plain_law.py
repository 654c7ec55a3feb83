"""Legal negatives in plain Python, and random corpora to compare statements with it.

For reading: it looks at every chunk for every anchor, and counts no texts by sums.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from plain_text import normalised

DOCUMENTS = "d"
NEVER = float("-inf")
LATER = 2  # a version after the one that is looked at
# marks make other words of kana and Hindi, and the same of others
WORDS = ("red", "Red", "réd", "blue", "blue ", "green", "か", "が", "हनद", "हिन्दी")


@dataclass(frozen=True)
class Record:
    """A record, whether its version is live or not."""

    key: int
    source: str
    group: str | None
    date: date | None
    topic: str | None
    lang: str
    label: float | None
    live: bool
    category: str | None = None

    @property
    def family(self) -> object:
        """Return its group, whatever its source; the record itself without one."""
        return self.group or self.key


@dataclass(frozen=True)
class Chunk:
    """A window, with the text of its section."""

    key: int
    record: Record
    position: int
    role: str
    section: str  # text of its section
    text: str

    @property
    def question(self) -> str:
        """Return the text of the section without case, accents and white space at its ends."""
        return normalised(self.section)


Taken = Callable[[Chunk], bool]


@dataclass(frozen=True)
class Recipe:
    """Selectors as a role or position and a condition; the strategy as a function of a pair."""

    anchor: Taken
    positive: Taken
    negative: Taken
    where: tuple[Taken, Taken, Taken] = (lambda c: True,) * 3
    suits: Callable[[Chunk, Chunk], bool] = lambda a, n: True
    same_selectors: bool = False
    own_negatives: bool = False  # same_record
    filled: bool = False
    near: str = ""  # the side that comes from the nearest record
    labels: str = ""
    split_wide: bool = False
    per_chunk: bool = False
    relabelled: bool = False
    asks_label: bool = False  # a condition of the positive names the label
    documents: bool = False  # its negatives, and positives by label, are of the source "d"


@dataclass(frozen=True)
class Label:
    """What somebody said at a version; a side is a text, or the key of a record."""

    anchor: str | int
    document: str | int
    label: float | None
    version: int


@dataclass
class Corpus:
    """The chunks of one split, and labels of pairs."""

    chunks: list[Chunk]
    labels: list[Label] = field(default_factory=list)


def shelf(draw: random.Random, first: int) -> list[Chunk]:
    """Return documents, which are of every split."""
    chunks = []
    for n in range(8):
        record = Record(
            first + n, DOCUMENTS, draw.choice((None, None, None, "g", "k")),
            draw.choice((None, date(2024, 1, 2))), draw.choice((None, "x", "y")),
            draw.choice(("en", "de")), None, draw.random() < 0.9,
        )  # fmt: skip
        windows = [draw.choice(WORDS) for _ in range(draw.choice((1, 1, 2)))]
        for at, text in enumerate(windows):
            section = "/".join(windows)
            chunks.append(Chunk(16 * record.key + at, record, 0, "context", section, text))
    return chunks


def drawn(draw: random.Random, first: int, documents: Iterable[Chunk] = ()) -> Corpus:
    """Return the records of one split: two sources, few texts, so that everything collides."""
    words, chunks = draw.sample(WORDS, draw.randint(3, len(WORDS))), []
    groups = (None, None, "g", "h") if draw.random() < 0.7 else (None, "g")
    for n in range(draw.randint(2, 9)):
        record = Record(
            first + n, draw.choice("aab"), draw.choice(groups),
            draw.choice((None, *(date(2024, 1, d) for d in (1, 2, 9, 30)))),
            draw.choice((None, "x", "x", "y", "z")), draw.choice(("en", "de")),
            draw.choice((None, None, 0, 1, 0.5, -1)), draw.random() < 0.95,
            draw.choice((None, "c", "d")),
        )  # fmt: skip
        roles = [
            "anchor",
            "context",
            *draw.choices(("anchor", "context", "rejected"), k=draw.randint(0, 3)),
        ]
        for position, role in enumerate(roles if draw.random() < 0.9 else roles[1:]):
            windows = [draw.choice(words) for _ in range(draw.choice((1, 1, 1, 2)))]
            for text in windows:
                key = 16 * record.key + len(chunks) % 16
                chunks.append(Chunk(key, record, position, role, "/".join(windows), text))
    own, documents = [*chunks], [*documents]
    chunks += documents
    said = [
        Label(
            *(draw.choice((c.text, c.text, c.record.key)) for c in ends),
            draw.choice((1, 1, 0.5, 0, 0, -1, 2, None)),
            draw.choice((0, 1, 1, 1, LATER)),
        )
        for ends in [
            *(draw.choices(own, k=2) for _ in range(7)),
            *((draw.choice(own), draw.choice(documents)) for _ in range(5 if documents else 0)),
        ]
    ]
    return Corpus(chunks, said)


class Law:
    """The law over one split, for the anchors of one source."""

    def __init__(self, corpus: Corpus, recipe: Recipe, source: str) -> None:
        self.recipe, self.source = recipe, source
        self.chunks = [c for c in corpus.chunks if c.record.live]
        asking = recipe.split_wide or recipe.documents
        self.askers = [c for c in self.chunks if asking or c.record.source == source]
        self.documents = [c for c in self.chunks if c.record.source == DOCUMENTS]
        self.reach = self.documents if recipe.documents else self.askers
        self.promotable = self.documents if recipe.documents else self.chunks
        self.labels = defaultdict[str | int, list[Label]](list)
        for label in corpus.labels if recipe.relabelled else ():
            if label.version < LATER:
                self.labels[label.anchor].append(label)
        self.told: dict[tuple[str, int], dict[str, float]] = {}
        self.by_record: dict[int, list[Chunk]] = {}
        for chunk in self.chunks:
            self.by_record.setdefault(chunk.record.key, []).append(chunk)

    # ---- who is drawn

    def anchors(self) -> list[Chunk]:
        """Return the chunks of the source that the anchor selector takes."""
        of, where = self.recipe, self.recipe.where[0]
        return [
            c for c in self.chunks if c.record.source == self.source and of.anchor(c) and where(c)
        ]

    def positives(self, anchor: Chunk) -> list[Chunk]:
        """Return the chunks that an anchor may draw for a positive."""
        of = self.recipe
        record = self.nearest(anchor.record) if of.near == "positive" else anchor.record
        found = [c for c in self.chunks if c.record is record and of.positive(c) and of.where[1](c)]
        if of.labels == "binary":
            found = [c for c in found if c.record.label != 0]
        if of.labels == "graded":
            found = [c for c in found if c.record.label is None]
        said = self.said(anchor)
        found = [c for c in found if c.text not in said]
        return found + [
            c for c in self.promotable
            if of.positive(c) and c.text in said and (of.asks_label or said[c.text] >= 1)
            and of.where[1](replace(c, record=replace(c.record, label=said[c.text])))
        ]  # fmt: skip

    def said(self, anchor: Chunk) -> dict[str, float]:
        """Return the label of each text for an anchor window: the newest, then the greatest."""
        if (found := self.told.get((anchor.text, anchor.record.key))) is not None:
            return found
        several = defaultdict[str, list[tuple[int, float]]](list)
        for of in (*self.labels[anchor.text], *self.labels[anchor.record.key]):
            texts = {c.text for c in self.chunks if of.document in (c.text, c.record.key)}
            for text in texts:
                several[text].append((of.version, NEVER if of.label is None else of.label))
        newest = {text: max(every)[1] for text, every in several.items()}
        found = {text: label for text, label in newest.items() if label > NEVER}
        self.told[anchor.text, anchor.record.key] = found
        return found

    def nearest(self, record: Record) -> Record | None:
        """Return the record of the source, or category, whose date is nearest to one day later."""
        if record.date is None:
            return None
        wanted, positive = record.date + timedelta(days=1), self.recipe.near == "positive"
        drawable = self.recipe.where[1 if positive else 2]
        others = {
            c.record for c in self.chunks
            if c.record.date and c.role == "context" and drawable(c)
            and (c.record.source == record.source
                 or (positive and c.record.category and c.record.category == record.category))
        } - {record}  # fmt: skip
        ids = {r: f"{r.source}/{r.key:09}" for r in others}
        return min(others, key=lambda r: (abs(r.date - wanted), ids[r]), default=None)

    def negatives(self, anchor: Chunk) -> Iterator[Chunk]:
        """Yield the chunks that suit an anchor, before the law looks at texts."""
        of = self.recipe
        for chunk in self.reach:
            if not (of.negative(chunk) and of.where[2](chunk) and of.suits(anchor, chunk)):
                continue
            if of.near == "negative" and chunk.record is not self.nearest(anchor.record):
                continue
            own = chunk.record is anchor.record
            if (own and of.own_negatives) or (
                chunk.record.family != anchor.record.family and (of.filled or not of.own_negatives)
            ):
                yield chunk

    # ---- who is an answer

    def asks(self, key: int) -> list[Chunk]:
        """Return the chunks of a record with the role or position of an anchor."""
        return [c for c in self.by_record[key] if self.recipe.anchor(c)]

    def answers(self, key: int, askers: Iterable[Chunk]) -> list[Chunk]:
        """Return the answers of a record, unless a label denies them for each of some askers."""
        of, askers = self.recipe, list(askers)
        found = [
            c
            for c in self.by_record[key]
            if of.positive(c) and (c.record.label is None or c.record.label > 0)
        ]
        if of.near == "positive":
            drawn_for = [
                c for c in self.askers if c.record.key == key and of.anchor(c) and of.where[0](c)
            ]
            other = self.nearest(drawn_for[0].record) if drawn_for else None
            found += [
                c for c in self.chunks if c.record is other and of.positive(c) and of.where[1](c)
            ]
        return [
            c for c in found
            if not askers or any(self.said(a).get(c.text, 1) > 0 for a in askers)
        ]  # fmt: skip

    def excluded(self, family: object) -> list[Chunk]:
        """Return the anchors and answers of a family."""
        keys = {c.record.key for c in self.chunks if c.record.family == family}
        return [c for k in keys for c in (*self.asks(k), *self.answers(k, self.asks(k)))]

    def known(self, question: str) -> list[Chunk]:
        """Return the answers of all records with a question."""
        if self.recipe.same_selectors:  # records of one whole text are written alike anyway
            return []
        keys = {
            c.record.key for c in self.askers if self.recipe.anchor(c) and c.question == question
        }
        asked = {k: [c for c in self.asks(k) if c.question == question] for k in keys}
        return [c for k in keys for c in self.answers(k, asked[k])]

    def stated(self, anchor: Chunk) -> set[str]:
        """Return texts that a label calls an answer, perhaps, of the question or the family."""
        askers = [c for c in self.askers if self.recipe.anchor(c) and c.question == anchor.question]
        askers += [
            c
            for c in self.chunks
            if self.recipe.anchor(c) and c.record.family == anchor.record.family
        ]
        texts = {t for a in askers for t, label in self.said(a).items() if label > 0}
        groups = {c.record.group for c in self.documents if c.text in texts} - {None}
        theirs = [c for c in self.documents if c.record.group in groups]
        others = theirs if self.recipe.documents else []
        return self.alike([c for c in self.chunks if c.text in texts] + others)

    def legal(self, anchor: Chunk) -> set[str]:
        """Return the texts that an anchor may draw."""
        out = [*self.excluded(anchor.record.family), *self.known(anchor.question)]
        texts = self.alike(out) | self.stated(anchor)
        return {c.text for c in self.negatives(anchor)} - texts

    def alike(self, chunks: list[Chunk]) -> set[str]:
        """Return the texts of chunks, and of negatives in sections that are written alike."""
        of, written = self.recipe, {c.question for c in chunks}
        drawable = [c for c in self.reach if of.negative(c) and of.where[2](c)]
        return {c.text for c in (*chunks, *(c for c in drawable if c.question in written))}

    def swapped(self, question: str) -> set[str]:
        """Return the texts of anchors of all records that a positive's question answers."""
        keys = {c.record.key for c in self.askers}
        asked = [k for k in keys if question in {c.question for c in self.answers(k, self.asks(k))}]
        return self.alike([c for k in asked for c in self.asks(k)])

    def pool(self, negatives: int) -> list[tuple[int, list[int]]]:
        """Return the rows of the pool: a record, and the chunks of the anchor."""
        found: dict[Any, tuple[int, list[int]]] = {}
        for a in self.anchors():
            if any(p.text != a.text for p in self.positives(a)) and len(self.legal(a)) >= negatives:
                unit = a.key if self.recipe.per_chunk else a.record.key
                found.setdefault(unit, (a.record.key, []))[1].append(a.key)
        return sorted((key, sorted(chunks)) for key, chunks in found.values())
