"""DuckDB's own full-text index, to compare with: ``create_fts_index`` and ``match_bm25``."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.db import extensions
from duckplets.db.database import Database
from duckplets.search.analyzer import words_of
from duckplets.search.analyzer_settings import Terms

ODD_WORDS = [
    *("fox", "Foxes", "FOXING", "running", "runs", "ran", "café", "cafe", "CAFÉ", "cafe\u0301"),
    *("naïve", "Straße", "İstanbul", "ﬁne", "don't", "e-mail", "a", "I", "the", "The", "of"),
    *("日本語", "テキスト", "한국어", "русский", "ЕЩЁ", "ещё", "العربية", "हिन्दी", "ไทย", "Ελλάδα"),
    *(
        "が",
        "か\u3099",
        "ハン",
        "パン",
        "ｶﾞ",
        "ＧＰＵ",
        "GPU加速",
        "第3章",
        "ที่นี่",
        "ខ្មែរ",
        "ພາສາ",
        "မြန်မာ",
    ),
    *(
        "42",
        "3.14",
        "1,000",
        "x86_64",
        "C++",
        "v2",
        "²",
        "Ⅻ",
        "٣",
        "🦊",
        "👩‍🚀",
        "...",
        "—",
        "\u00a0",
    ),
    *("loooong" * 40, "x" * 3000, "generalization", "oscillators", "national", "nationality"),
]
SPACES = [" ", " ", " ", "  ", "\n", "\t", "\r\n", ", ", "-", "\u3000", ""]


def odd_texts(count: int, seed: int) -> list[str]:
    """Texts of many scripts: empty ones, of one word, repeated, long."""
    draw = random.Random(seed)
    texts = ["", " ", "🦊", "...", "fox", "the", "The the THE", " fox fox\tfox\n"]
    while len(texts) < count:
        if draw.random() < 0.1:
            texts.append(draw.choice(texts))
            continue
        size = draw.choice([1, 1, 2, 5, 20, 60])
        texts.append("".join(draw.choice(ODD_WORDS) + draw.choice(SPACES) for _ in range(size)))
    return texts[:count]


@dataclass(frozen=True)
class Peer:
    """An index made by the extension over texts by name.

    Attributes:
        database: Where it lies.
        terms: How texts are split first.
        lengths: Tokens of every text.
        document_counts: Texts that have each term.
        frequencies: How often a text has a term.
    """

    database: Database
    terms: Terms
    lengths: dict[Any, int]
    document_counts: dict[str, int]
    frequencies: dict[tuple[Any, str], int]

    def scores(self, text: str) -> dict[Any, float]:
        """What ``match_bm25`` gives every text that has a score."""
        rows = self.database.rows(
            "SELECT name, fts_main_texts.match_bm25(name, $text) AS score FROM texts",
            {"text": spaced(self.terms, [text])[0]},
        )
        return {name: score for name, score in rows if score is not None}


def spaced(terms: Terms, texts: Sequence[str]) -> list[str]:
    """Folded texts whose terms stand between blanks."""
    words = words_of(terms, pa.array(texts, pa.string())).to_pylist()
    return [" ".join(of) for of in words]


def peer(texts: Mapping[Any, str], terms: Terms) -> Peer:
    """Have the extension index folded texts, whose terms stand between blanks."""
    database = extensions.stemming()
    plain = pa.array(spaced(terms, list(texts.values())), pa.string())
    table = pa.table({"name": list(texts), "text": plain})
    stop_words = terms.stop_words if isinstance(terms.stop_words, str) else "words_to_stop"
    words: Sequence[str] = () if isinstance(terms.stop_words, str) else terms.stop_words
    given = pa.table({"word": pa.array([word.lower() for word in words], pa.string())})
    with database.registered(given_texts=table, given_words=given):
        database.rows("CREATE TABLE texts AS FROM given_texts")
        database.rows("CREATE TABLE words_to_stop AS FROM given_words")
    database.rows(
        f"PRAGMA create_fts_index('texts', 'name', 'text', stemmer = '{terms.stemmer}', "
        f"stopwords = '{stop_words}', ignore = ' ', strip_accents = 0, lower = 0)"
    )
    frequencies = database.rows(
        """
        SELECT docs.name, dict.term, count(*)
        FROM fts_main_texts.terms
        JOIN fts_main_texts.docs USING (docid)
        JOIN fts_main_texts.dict USING (termid)
        GROUP BY ALL
        """
    )
    return Peer(
        database,
        terms,
        dict(database.rows("SELECT name, len FROM fts_main_texts.docs")),
        dict(database.rows("SELECT term, df FROM fts_main_texts.dict")),
        {(name, term): count for name, term, count in frequencies},
    )
