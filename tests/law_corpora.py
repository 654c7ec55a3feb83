"""Random corpora of ``plain_law`` as files, and recipes whose pools are compared with it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import plain_law as law
import pyarrow as pa

import duckplets as dp
from duckplets.pools.compile import CompiledPool, compile_pool

ANCHOR, CONTEXT, REJECTED = dp.role("anchor"), dp.role("context"), dp.role("rejected")
ANY = dp.any_section()

FILL = """
INSERT INTO sources (source_id, name, kind, trust, defaults, added_version)
VALUES (1, 'a', 'csv', .5, 'roles', 1), (2, 'b', 'csv', .5, 'roles', 1),
    (3, 'd', 'csv', .5, 'text', 1);
INSERT INTO corpus_versions VALUES (1, now()::TIMESTAMP, 'ingest', 'a', NULL);
INSERT INTO records BY NAME
SELECT key AS record_key, source || '/' || lpad(key::VARCHAR, 9, '0') AS record_id,
    list_position(['a', 'b', 'd'], source) AS source_id, 1 AS added_version,
    if(live, NULL, 1) AS removed_version,
    date, "group" AS group_key, if(category IS NULL, NULL, [category]) AS taxonomy,
    MAP {'topic': topic, 'lang': lang} AS meta, .5 AS trust, key AS content_hash,
    now()::TIMESTAMP AS created_at, now()::TIMESTAMP AS updated_at, label,
    md5_number_lower(record_id) AS id_hash
FROM given;
INSERT INTO splits (record_key, split) SELECT key, split FROM given;
INSERT INTO _internal.stored_sections BY NAME
SELECT section_key, record_key, position, role, 'h' AS heading, section AS text, 1 AS token_count,
    normalised_hash(section) AS normalised_hash
FROM given_sections;
INSERT INTO chunks BY NAME
SELECT key AS chunk_key, section_key, record_key, 'window' AS kind, 0 AS window_index,
    0 AS overlap, 0 AS start, length(text) AS length, 0 AS start_token, 1 AS token_count,
    md5_number_lower(text) AS text_hash FROM given_chunks;
INSERT INTO labels
SELECT
    if(by_id[1], md5_number_lower(one), _internal.text_side(md5_number_lower(one)::UBIGINT)),
    if(by_id[2], md5_number_lower(other), _internal.text_side(md5_number_lower(other)::UBIGINT)),
    label, NULL, version
FROM said;
CREATE TEMP TABLE all_chunks AS
SELECT found.*, asked.split
FROM (SELECT DISTINCT split FROM splits WHERE split <> 'every') AS asked,
    LATERAL (FROM chunks_of(NULL, asked.split)) AS found
"""


def filled(path: Any, ready: Any, corpora: list[law.Corpus]) -> dp.Corpus:
    """Return a file with random corpora, each as a split, whose labels are of all."""
    if not ready.exists():
        dp.Corpus(ready).close()
    shutil.copy(ready, path)
    corpus = dp.Corpus(path)
    places = {id(c): f"r{n}" for n, of in enumerate(corpora) for c in of.chunks}
    chunks = [*{id(c): c for of in corpora for c in of.chunks}.values()]
    places |= {id(c): "every" for c in chunks if c.record.source == law.DOCUMENTS}
    keys: dict[tuple[int, int], int] = {}
    for c in chunks:
        keys.setdefault((c.record.key, c.position), len(keys) + 1)
    # labels of texts are of all, and of too many nothing is left to draw
    labels = [
        label
        for number, of in enumerate(corpora)
        for label in of.labels
        if number < 16 or isinstance(label.anchor, int)
    ]
    for of in corpora:
        of.labels = labels
    sides = {c.record.key: f"{c.record.source}/{c.record.key:09}" for c in chunks}
    rows = {
        "given": {c.record.key: vars(c.record) | {"split": places[id(c)]} for c in chunks},
        "given_sections": {
            keys[c.record.key, c.position]: {
                "section_key": keys[c.record.key, c.position], "record_key": c.record.key,
                "position": c.position, "role": c.role, "section": c.section,
            } for c in chunks
        },
        "given_chunks": {
            c.key: {
                "key": c.key, "section_key": keys[c.record.key, c.position],
                "record_key": c.record.key, "text": c.text,
            } for c in chunks
        },
        "said": {
            n: {"label": of.label, "version": of.version}
            | {"one": sides.get(of.anchor, of.anchor), "other": sides.get(of.document, of.document)}
            | {"by_id": [of.anchor in sides, of.document in sides]}
            for n, of in enumerate(labels)
        },
    }  # fmt: skip
    tables = {name: pa.Table.from_pylist([*of.values()]) for name, of in rows.items()}
    with corpus.database.registered(**tables):
        for statement in FILL.split(";"):
            corpus.database.rows(statement)
    return corpus


def of_splits(text: str) -> str:
    """Return the statement of a pool for all splits and sources, over ``all_chunks``."""
    here = "(FROM all_chunks WHERE split = asked.split"
    for old, new in {
        "chunks_of($source, $split, $version)": f"{here} AND source = asked.source)",
        "chunks_of(NULL, $split, $version)": f"{here})",
        "chunks_of($documents, $split, $version)": f"{here} AND source = 'd')",
        "$source": "asked.source",
        "$version": "1",
    }.items():
        text = text.replace(old, new)
    return (
        "SELECT asked.split, asked.source, found.* FROM (SELECT DISTINCT splits.split, sources.name"
        " AS source FROM splits, sources WHERE splits.split <> 'every' AND sources.name <> 'd')"
        f" AS asked, LATERAL ({text}) AS found"
    )


def asked(recipe: dp.TripletRecipe, negatives: int = 1, **options: Any) -> CompiledPool:
    """Compile a pool whose source and split are parameters."""
    return compile_pool(recipe, source="a", split="r0", version=1, negatives=negatives, **options)


def role(name: str) -> law.Taken:
    return lambda c: c.role == name


def sections(c: law.Chunk) -> bool:
    return c.role != "rejected"


def compared(
    name: str, holds: Callable[[Any, Any], bool]
) -> Callable[[law.Chunk, law.Chunk], bool]:
    """Return whether a strategy over one value of records suits; NULL on a side never does."""

    def suits(a: law.Chunk, n: law.Chunk) -> bool:
        one, other = getattr(a.record, name), getattr(n.record, name)
        return one is not None and other is not None and holds(one, other)

    return suits


def differs(name: str) -> Callable[[law.Chunk, law.Chunk], bool]:
    return lambda a, n: getattr(a.record, name) != getattr(n.record, name)


def triplet(
    positive: Any = CONTEXT, negative: Any = CONTEXT, *, anchor: Any = ANCHOR, **options: Any
) -> dp.TripletRecipe:
    if "where" in options:
        options["strategy"] = dp.sql(options.pop("where"))
    return dp.TripletRecipe("r", anchor, positive, negative, **options)


def both(*parts: Callable[[law.Chunk, law.Chunk], bool]) -> Callable[[law.Chunk, law.Chunk], bool]:
    return lambda a, n: all(part(a, n) for part in parts)


EQUAL, UNEQUAL, DISTINCT = (
    f"negative.meta['topic'] {sign} anchor.meta['topic']"
    for sign in ("=", "<>", "is distinct from")
)
IN_X = "meta['topic'] in ('x', 'y')"
ROLES = law.Recipe(role("anchor"), role("context"), role("context"))
WHERE = (
    lambda c: c.record.lang == "en",
    lambda c: c.record.label is None or c.record.label >= 0.5,
    lambda c: c.record.topic in ("x", "y"),
)
PLAIN = triplet()
CONDITIONS = triplet(
    dp.role("context", "label is null or label >= .5"),
    dp.role("context", IN_X),
    anchor=dp.role("anchor", "meta['lang'] = 'en'"),
)
SAME = compared("topic", lambda a, n: a == n)
LATER = compared("date", lambda a, n: n > a)
FIRST = dp.position(0)
OF_DOCUMENTS = {"relabelled": True, "documents": "d"}

# Kind of recipe: the recipe, how it is compiled, and what plain Python is told of it.
KINDS: dict[str, tuple[dp.TripletRecipe, dict[str, Any], law.Recipe]] = {
    "plain": (PLAIN, {}, ROLES),
    "conditions": (CONDITIONS, {}, replace(ROLES, where=WHERE)),
    "position": (
        triplet(dp.position(1)), {}, replace(ROLES, positive=lambda c: c.position == 1),
    ),
    "positions": (
        triplet(dp.position(1), anchor=FIRST), {},
        replace(ROLES, anchor=lambda c: c.position == 0, positive=lambda c: c.position == 1),
    ),
    "overlap": (triplet(ANY), {}, replace(ROLES, positive=sections)),
    "binary labels": (PLAIN, {"labels": "binary"}, replace(ROLES, labels="binary")),
    "graded labels": (PLAIN, {"labels": "graded"}, replace(ROLES, labels="graded")),
    "relabelled": (PLAIN, {"relabelled": True}, replace(ROLES, relabelled=True)),
    "relabelled, conditions": (
        CONDITIONS, {"relabelled": True},
        replace(ROLES, relabelled=True, where=WHERE, asks_label=True),
    ),
    "documents": (PLAIN, OF_DOCUMENTS, replace(ROLES, relabelled=True, documents=True)),
    "documents, conditions": (
        CONDITIONS, OF_DOCUMENTS,
        replace(ROLES, relabelled=True, documents=True, where=WHERE, asks_label=True),
    ),
    "documents, per chunk, equality": (
        triplet(where=EQUAL, per="chunk"), OF_DOCUMENTS,
        replace(ROLES, relabelled=True, documents=True, suits=SAME, per_chunk=True),
    ),
    "documents without labels": (PLAIN, {"documents": "d"}, replace(ROLES, documents=True)),
    "split-wide": (triplet(negatives_from="split"), {}, replace(ROLES, split_wide=True)),
    "relabelled, split-wide": (
        triplet(negatives_from="split"), {"relabelled": True},
        replace(ROLES, split_wide=True, relabelled=True),
    ),
    "per chunk": (triplet(per="chunk"), {}, replace(ROLES, per_chunk=True)),
    "same selectors": (
        triplet(ANY, ANY, anchor=ANY), {},
        law.Recipe(sections, sections, sections, same_selectors=True),
    ),
    "equality": (triplet(where=EQUAL), {}, replace(ROLES, suits=SAME)),
    "equality, relabelled": (
        triplet(where=EQUAL), {"relabelled": True},
        replace(ROLES, suits=SAME, relabelled=True),
    ),
    "equality, split-wide": (
        triplet(where=EQUAL, negatives_from="split"), {},
        replace(ROLES, suits=SAME, split_wide=True),
    ),
    "several terms": (
        triplet(where=f"{EQUAL} and negative.meta['lang'] <> anchor.meta['lang']"), {},
        replace(ROLES, suits=both(SAME, differs("lang"))),
    ),
    "equality and comparison": (
        triplet(
            where=f"{EQUAL} and negative.date > anchor.date and negative.date > date '2024-01-01'"
        ), {}, replace(ROLES, suits=both(SAME, LATER)),
    ),
    "inequality": (
        triplet(where=DISTINCT), {}, replace(ROLES, suits=differs("topic")),
    ),
    "unequal": (
        triplet(where=UNEQUAL), {},
        replace(ROLES, suits=compared("topic", lambda a, n: a != n)),
    ),
    "either inequality": (
        triplet(where=f"{DISTINCT} or negative.date is distinct from anchor.date"), {},
        replace(ROLES, suits=lambda a, n: differs("topic")(a, n) or differs("date")(a, n)),
    ),
    "other_date": (triplet(strategy="other_date"), {}, replace(ROLES, suits=differs("date"))),
    "other_date, split-wide": (
        triplet(strategy="other_date", negatives_from="split"), {},
        replace(ROLES, suits=differs("date"), split_wide=True),
    ),
    "inequality, per chunk, relabelled": (
        triplet(where=DISTINCT, per="chunk"), {"relabelled": True},
        replace(ROLES, suits=differs("topic"), per_chunk=True, relabelled=True),
    ),
    "other comparison": (
        triplet(where="negative.date > anchor.date"), {}, replace(ROLES, suits=LATER),
    ),
    "question_answer_mismatch": (triplet(strategy="question_answer_mismatch"), {}, ROLES),
    "same_record": (
        triplet(negative=REJECTED, strategy="same_record"), {},
        replace(ROLES, negative=role("rejected"), own_negatives=True),
    ),
    "same_record, relabelled": (
        triplet(negative=REJECTED, strategy="same_record"), {"relabelled": True},
        replace(ROLES, negative=role("rejected"), own_negatives=True, relabelled=True),
    ),
    "same_record, filled": (
        triplet(strategy="same_record", when_short="random"), {},
        replace(ROLES, own_negatives=True, filled=True),
    ),
    "same_record, filled, relabelled": (
        triplet(negative=REJECTED, strategy="same_record", when_short="random"),
        {"relabelled": True},
        replace(ROLES, negative=role("rejected"), own_negatives=True, filled=True, relabelled=True),
    ),
    "near_date negative": (triplet(negative=dp.near_date(1)), {}, replace(ROLES, near="negative")),
    "near_date positive": (triplet(dp.near_date(1)), {}, replace(ROLES, near="positive")),
    "near_date positive, conditions": (
        triplet(dp.near_date(1, "meta['lang'] = 'en'"), anchor=dp.role("anchor", IN_X)), {},
        replace(ROLES, near="positive", where=(WHERE[2], WHERE[0], lambda c: True)),
    ),
    "near_date positive, relabelled": (
        triplet(dp.near_date(1)), {"relabelled": True},
        replace(ROLES, near="positive", relabelled=True),
    ),
    "near_date positive, split-wide": (
        triplet(dp.near_date(1), negatives_from="split"), {},
        replace(ROLES, near="positive", split_wide=True),
    ),
    "near_date positive, equality": (
        triplet(dp.near_date(1), where=EQUAL), {},
        replace(ROLES, near="positive", suits=SAME),
    ),
}  # fmt: skip


def drawn(corpora: int, first: int = 0) -> list[law.Corpus]:
    """Return random corpora, whose keys do not meet, with documents that all of them share."""
    shelf = law.shelf(random.Random(first), 1 + 20 * (first + corpora))
    numbers = range(first, first + corpora)
    return [law.drawn(random.Random(n), 1 + 20 * n, shelf) for n in numbers]
