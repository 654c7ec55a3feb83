"""Search a corpus by vector, exactly, or by text and vectors together."""

# The nearest chunk of a section gives its score. The lookup of the best texts grows until enough
# sections are in the scope.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.base.arrays import Floats, Integers
from duckplets.base.checks import integer
from duckplets.base.sanitize import shown
from duckplets.base.settings import checked
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.errors import VectorError
from duckplets.recipes.mined import BM25
from duckplets.search import index
from duckplets.search.search import SCHEMA, beginning
from duckplets.search.search import search as by_words
from duckplets.vectors.encoders import Calls, encoder_of
from duckplets.vectors.opened import opened
from duckplets.vectors.store import VectorSet, VectorStore

SearchBy = str | Sequence[str]
Singles = NDArray[np.float32]

QUERY_ROLE = "anchor"  # a query gets the prompt of this role

_FUSION = 60  # the constant of reciprocal rank fusion
_DEPTH = 100  # fused ranks of each list; k if that is more
_FIRST_TEXTS = 256  # texts of the first lookup, at least
_GROWTH = 32
_AT_ONCE = 1 << 18  # numbers compared at once; larger blocks are several times as slow


def search(
    corpus: CorpusFile,
    /,
    text: Any,
    k: int = 10,
    source: str | None = None,
    split: str | None = None,
    *,
    by: SearchBy = "bm25",
    encoder: Any = None,
) -> pa.Table:
    """Return the sections that fit a text best, by BM25, by vectors, or by both.

    Args:
        text: The query: a text, whose distinct terms count. A search by vectors also takes a
            vector of the set, (dimension,).
        k: Number of sections, at most.
        source: Search this source only. Default: the whole corpus.
        split: Search this split only.
        by: ``bm25``, or the name of a set of vectors. All vectors of a set are compared by
            cosine, and the nearest chunk of a section gives its score. Or a list of these: the
            score is the sum of 1 / (60 + rank) over the lists that have the section among their
            first 100 (or k, if that is more). Columns ``rank_NAME`` have its ranks.
        encoder: The function or model that makes the vector of the text, as in ``embed``.
            Default: the model of the set. The text gets the set's prompt for anchors.

    Returns:
        Columns ``record_id``, ``score``, ``text``, ``source``, ``split``, ``section`` (its
        position), ``role`` and ``snippet``; the best first, equal scores by record id.

    Raises:
        QueryError: An index is missing or stale and the corpus is open read-only.
        VectorError: There is no such set, or the text, vector or encoder does not fit it.
    """
    database, k = corpus.database, integer("k", k, 1)
    names = _names(by)
    if source is not None or split is not None:
        index.check_scope(database, source, split)
    if encoder is not None and names == [BM25]:
        raise VectorError(f"by={BM25!r} compares no vectors; remove encoder=")
    if BM25 in names and not isinstance(text, str):
        raise VectorError(f"by={BM25!r} needs a text, not a vector")
    depth = k if isinstance(by, str) else max(_DEPTH, k)
    scope = {"source": source, "split": split}
    store = VectorStore(corpus.path)
    # all checks come before an index is built
    sets = {name: store.need(name) for name in names if name != BM25}
    queries = {name: _unit(_query(each, text, encoder)) for name, each in sets.items()}
    found = {
        name: by_words(database, text, depth, **scope)
        if name == BM25
        else _by_vector(database, sets[name], queries[name], depth, **scope)
        for name in names
    }
    return found[by] if isinstance(by, str) else _fused(found, k)


def _names(by: Any) -> list[str]:
    """Return the names in ``by`` as a list."""
    checked("by", by, str | Sequence[str], VectorError)
    names = [by] if isinstance(by, str) else [*by]
    if not names or len(set(names)) < len(names):
        raise VectorError(
            f"by={shown(repr(by), 80)}: give {BM25!r}, the name of a set of vectors, or several; "
            f"name each once"
        )
    return names


# -- one set --------------------------------------------------------------------------------------


def _by_vector(
    database: Database,
    vector_set: VectorSet,
    query: Singles,
    k: int,
    *,
    source: str | None,
    split: str | None,
) -> pa.Table:
    compared = _opened(database, vector_set)
    hashes, scores = compared.vectors.hashes, compared.cosines(query)
    scope = {"source": source, "split": split, "k": k}
    count = max(_FIRST_TEXTS, 4 * k)
    while True:
        rows = _best(scores, count)
        best = {"text_hash": hashes[rows], "score": scores[rows].astype(np.float64)}
        with database.registered(wanted=pa.table(best)):
            found = database.table("vectors/knn/sections", scope)
        if found.num_rows >= k or len(rows) == len(scores):
            break
        count *= _GROWTH
    snippets = pa.array([beginning(text) for text in found["beginning"].to_pylist()], pa.string())
    found = found.drop_columns("beginning").append_column("snippet", snippets)
    return found.cast(SCHEMA)


def _query(vector_set: VectorSet, query: Any, encoder: Any) -> Floats:
    """Return the vector of a query, (dimension,)."""
    if isinstance(query, str):
        return _encoded(vector_set, query, encoder)
    if encoder is not None:
        raise VectorError("encoder= needs a text, not a vector")
    dimension = vector_set.dimension
    try:
        vector = np.asarray(query, dtype=np.float64)
    except (TypeError, ValueError):
        raise VectorError(f"{shown(repr(query), 80)}: give a text or {dimension} numbers") from None
    if vector.shape != (dimension,):
        raise VectorError(
            f"the vector has shape {vector.shape}, but vectors of {vector_set.name!r} have "
            f"{dimension} numbers: give ({dimension},)"
        )
    if not np.isfinite(vector).all():
        raise VectorError("the vector has numbers that are not finite")
    return vector


def _encoded(vector_set: VectorSet, text: str, encoder: Any) -> Floats:
    """Return the vector of a text, made like the vectors of the set."""
    name, made_by = vector_set.name, vector_set.made_by
    prompts = made_by.get("prompts") or {}
    if encoder is None and "model" not in made_by:
        known = ", ".join(f"{key} {value!r}" for key, value in made_by.items() if value)
        raise VectorError(
            f"the vectors {name!r} have no model that can be loaded by name "
            f"({shown(known) or 'unknown maker'}): give encoder=, the function that made them, or "
            f"a vector"
        )
    model = made_by["model"] if encoder is None else encoder
    has_name = isinstance(model, str) or hasattr(model, "encode")
    own = encoder_of(model, prompts=prompts, made_by=None if has_name else "query")
    if own.made_by.get("digest") != made_by.get("digest", own.made_by.get("digest")):
        raise VectorError(
            f"the vectors {name!r} were made by another state of {made_by.get('model')!r} than the "
            f"current one: give their model as encoder=, or a vector"
        )
    prompt = prompts.get(QUERY_ROLE, "") if prompts else None
    calls = Calls(own, dtype="float32", dimension=vector_set.dimension)
    return np.asarray(calls.one(text, prompt), np.float64)


def _unit(vector: Floats) -> Singles:
    length = np.linalg.norm(vector)
    if not length:
        raise VectorError("the vector has no direction: all its numbers are 0")
    return np.asarray(vector / length, np.float32)


class _Compared:
    """Hold an opened set, with the lengths of its vectors by row."""

    def __init__(self, path: Path, name: str) -> None:
        self.vectors = opened(path, name)
        parts = [np.sqrt(np.einsum("ij,ij->i", m, m)) for m in self._blocks()]
        lengths = np.concatenate([np.zeros(0, np.float32), *parts])
        self._lengths = np.where(lengths > 0, lengths, 1)

    def cosines(self, query: Singles) -> Singles:
        """Return the cosine of a unit vector and each vector of the set, by ``vectors.hashes``."""
        products = np.concatenate([np.zeros(0, np.float32), *(m @ query for m in self._blocks())])
        return np.asarray((products / self._lengths)[self.vectors.order])

    def _blocks(self) -> Iterator[Singles]:
        """Yield the vectors row after row, in blocks in single precision."""
        matrix, step = self.vectors.matrix, max(1, _AT_ONCE // self.vectors.vector_set.dimension)
        for low in range(0, len(matrix), step):
            yield matrix[low : low + step].astype(np.float32, copy=False)


def _opened(database: Database, vector_set: VectorSet) -> _Compared:
    # cached while the corpus is open, because opening a set takes longer than searching it
    cache: dict[str, _Compared] = database.kept.setdefault("vectors", {})
    found = cache.get(vector_set.name)
    if found is None or found.vectors.vector_set != vector_set:
        found = _Compared(Path(str(database.path)), vector_set.name)
        cache[vector_set.name] = found
    return found


def _best(scores: Singles, count: int) -> Integers:
    """Return the places of the highest scores, with all ties of the last one."""
    if count >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least)


# -- several --------------------------------------------------------------------------------------


def _fused(found: dict[str, pa.Table], k: int) -> pa.Table:
    """Return the k best by the sum of 1 / (60 + rank), with the rank in each list."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    ranks: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for name, table in found.items():
        for rank, row in enumerate(table.to_pylist(), start=1):
            key = (row["record_id"], row["section"])
            rows.setdefault(key, row)
            ranks[key][name] = rank
    score = {key: sum(1 / (_FUSION + rank) for rank in r.values()) for key, r in ranks.items()}
    order = sorted(rows, key=lambda key: (-score[key], key))[:k]
    table = pa.Table.from_pylist([rows[key] | {"score": score[key]} for key in order], SCHEMA)
    for name in found:
        own = pa.array([ranks[key].get(name) for key in order], pa.int32())
        table = table.append_column(f"rank_{name}", own)
    return table
