"""Layouts of the rows of collections: the query, the document and the label that a row names.

The names of the columns tell a layout. A row of a document or a query becomes a record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from typing import Any, NamedTuple

from duckplets.sources.values import Fault, cell_text, identifier, is_filled, is_utf8

Row = Mapping[str, Any]

_DOCUMENT_IDS = ("_id", "id", "docid", "doc_id", "document_id", "passage_id", "pid", "corpus_id")
_DOCUMENT_TEXTS = ("text", "passage", "document")
QUERY_IDS = ("query_id", "qid", "question_id", "_id", "id")
_QUERY_TEXTS = ("query", "query_text", "question", "text")


class Said(NamedTuple):
    """The label or score of a query and a document in a row."""

    query: str | None
    document: str | None
    label: Any = None
    score: Any = None  # of a candidate, which has no label


@dataclass(frozen=True, slots=True)
class Grades:
    """A query, a document and a number a row."""

    document: str
    number: str
    are_scores: bool = False

    def fits(self, names: Set[str]) -> bool:
        """Return whether columns are of this layout."""
        return {self.document, self.number} <= names and not names.isdisjoint(QUERY_IDS[:3])

    def said(self, row: Row) -> Iterator[Said]:
        """Yield the pair of a row."""
        name = "score" if self.are_scores else "label"
        yield Said(query_id(row), id_of(row.get(self.document)), **{name: row.get(self.number)})


@dataclass(frozen=True, slots=True)
class Lists:
    """A query and documents a row: positives, and candidates with scores or in order."""

    positives: str
    candidates: str = ""
    scores: str = ""
    positive_scores: str = ""
    grades: str = ""  # labels of the positives, which are 1 without
    known_by: str = ""  # a column that is always there, if positives may be missing
    are_whole: bool = False  # documents are texts, or objects with texts

    def fits(self, names: Set[str]) -> bool:
        """Return whether columns are of this layout."""
        is_asked = not names.isdisjoint(QUERY_IDS[:3] + _QUERY_TEXTS * self.are_whole)
        return {self.known_by or self.positives, self.grades} - {""} <= names and is_asked

    def said(self, row: Row) -> Iterator[Said]:
        """Yield the pairs of a row."""
        query, named = query_id(row), partial(_document_id, are_texts=self.are_whole)
        positives = [named(value) for value in _items(row.get(self.positives))]
        grades = _items(row.get(self.grades)) if self.grades else [1] * len(positives)
        for document, label in zip_longest(positives, grades):
            yield Said(query, document, label)
        for document, score in zip(positives, _items(row.get(self.positive_scores)), strict=False):
            yield Said(query, document, score=score)
        candidates = [named(value) for value in _items(row.get(self.candidates))]
        scores = _items(row.get(self.scores)) or [-place for place, _ in enumerate(candidates, 1)]
        for document, score in zip_longest(candidates, scores):
            yield Said(query, document, score=score)

    def documents(self, row: Row) -> Iterator[dict[str, Any] | Fault]:
        """Yield the records of the documents of a row."""
        for value in (*_items(row.get(self.positives)), *_items(row.get(self.candidates))):
            whole = plain_names(value) if isinstance(value, Mapping) else {"text": value}
            yield from document_of({**whole, "_id": _document_id(value, are_texts=True)})


LAYOUTS: tuple[Grades | Lists, ...] = (
    Grades("corpus_id", "score"),  # BEIR, MTEB
    # TREC, ir_datasets, the view qrels
    *(Grades(name, of) for name in _DOCUMENT_IDS[2:] for of in ("label", "relevance")),
    Grades("passage_id", "score", are_scores=True),  # sentence-transformers
    Lists("doc_ids", grades="labels"),
    Lists("positive_id", "negative_id"),
    Lists("positive_ids", "document_ids", "scores", known_by="document_ids"),  # LightOn, PyLate
    Lists("positive_document_ids", "negative_document_ids"),  # Tevatron 2
    Lists("positive_passages", "negative_passages", are_whole=True),  # Tevatron 1
    Lists("pos_doc", "neg_doc", "neg_scores", "pos_scores", are_whole=True),  # NeMo Automodel
    Lists("pos", "neg", "neg_scores", "pos_scores", are_whole=True),  # FlagEmbedding
)


@cache
def plain_name(name: str) -> str:
    """Return a name in lower case, with ``_`` for ``-``."""
    return name.strip().lower().replace("-", "_")


def plain_names(row: Row) -> dict[str, Any]:
    """Return a row by names in lower case, with ``_`` for ``-``."""
    return {plain_name(str(name)): value for name, value in row.items()}


def _first(row: Row, names: tuple[str, ...]) -> Any:
    for name in names:
        if (value := row.get(name)) is not None:
            return value
    return None


def _items(value: Any) -> list[Any]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in values if each is not None]


def id_of(value: Any) -> str | None:
    """Return an id as text, or None for none."""
    text = value if type(value) is str else cell_text(identifier(value))
    return text if text and not text.isspace() and is_utf8(text) else None


def _hashed(text: Any) -> str | None:
    """Return the id of a text without one: 16 hex digits of its SHA-256."""
    if not isinstance(text, str) or not is_filled(text):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def query_id(row: Row) -> str | None:
    """Return the id of the query of a row."""
    return id_of(_first(row, QUERY_IDS)) or _hashed(_first(row, _QUERY_TEXTS))


def _document_id(value: Any, *, are_texts: bool) -> str | None:
    if isinstance(value, Mapping):
        row = plain_names(value)
        return id_of(_first(row, _DOCUMENT_IDS)) or _hashed(_first(row, _DOCUMENT_TEXTS))
    return _hashed(value) if are_texts else id_of(value)


def document_of(row: Row) -> Iterator[dict[str, Any] | Fault]:
    """Yield the record of a document: title and text are one text, and meta keeps the title."""
    title, text = _first(row, ("title",)), _first(row, _DOCUMENT_TEXTS)
    has_title = isinstance(title, str) and is_filled(title)
    if text is None or (isinstance(text, str) and not is_filled(text)):
        text = title if has_title else None
    elif has_title and isinstance(text, str):
        text = f"{title} {text}"
    yield from _record(row, "text", _first(row, _DOCUMENT_IDS), text, {"title": title})


def query_of(row: Row) -> Iterator[dict[str, Any] | Fault]:
    """Yield the record of a query; meta keeps the prompt."""
    more = {"instruction": row.get("prompt")}
    yield from _record(row, "anchor", query_id(row), _first(row, _QUERY_TEXTS), more)


def _record(
    row: Row, part: str, own: Any, text: Any, more: dict[str, Any]
) -> Iterator[dict[str, Any] | Fault]:
    if text is None or (isinstance(text, str) and not is_filled(text)):
        what = "document" if part == "text" else "query"
        yield Fault(f"{what} without text", id_of(own))
        return
    meta = row.get("metadata")
    yield {"id": own, part: text, "meta": {**(meta if isinstance(meta, dict) else {}), **more}}


def fits(role: str, names: Set[str]) -> bool:
    """Return whether a table with such columns can be documents, queries or labels."""
    if role == "labels":
        return any(layout.fits(names) for layout in LAYOUTS)
    if role == "queries":
        return not names.isdisjoint(_QUERY_TEXTS)
    return not names.isdisjoint(_DOCUMENT_IDS) and not names.isdisjoint(_DOCUMENT_TEXTS)
