"""Search a corpus by vector, exactly, or by text and vectors together."""

# A section is as near as the nearest of its chunks. More of the best texts are looked up while too
# few lie in the scope.

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

QUERY_ROLE = "anchor"  # what is looked for has the prompt of this role

_FUSION = 60  # the constant of reciprocal rank fusion
_DEPTH = 100  # ranks of each list that are fused, at least; more for a large k
_FIRST_TEXTS = 256  # looked up in the corpus, at least; then more
_GROWTH = 32
_AT_ONCE = 1 << 18  # numbers that are compared at once: more of them take several times as long


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
    """Return the sections that fit a text best, by BM25 or by vectors, or by both.

    Args:
        text: What to look for: any text, its distinct terms count. By vectors also a vector
            of the set, (dimension,).
        k: So many sections at most.
        source: In this source only; by default in the whole corpus.
        split: In this split only.
        by: ``bm25``, or the name of a set of vectors: all of them are compared, by cosine,
            and a section is as near as the nearest of its chunks. Or a list of these: the
            score is then the sum of 1 / (60 + rank) over those among whose first 100 (k, if
            that is more) it is, and columns ``rank_NAME`` have its ranks.
        encoder: What makes a vector of the text, as ``embed`` takes it; by default the
            model that the set was made by. The text gets the set's prompt for anchors.

    Returns:
        Columns ``record_id``, ``score``, ``text``, ``source``, ``split``, ``section`` (its
        position), ``role`` and ``snippet``; the best first, equal ones by record id.

    Raises:
        QueryError: An index is missing or stale and the corpus is open read-only.
        VectorError: There is no such set, or text, vector or encoder do not fit it.
    """
    database, k = corpus.database, integer("k", k, 1)
    names = _names(by)
    if source is not None or split is not None:
        index.check_scope(database, source, split)
    if encoder is not None and names == [BM25]:
        raise VectorError(f"encoder= makes vectors of texts, and by={BM25!r} compares none")
    if BM25 in names and not isinstance(text, str):
        raise VectorError(f"by={BM25!r} looks for a text, and a vector is given")
    depth = k if isinstance(by, str) else max(_DEPTH, k)
    scope = {"source": source, "split": split}
    store = VectorStore(corpus.path)
    # All that may be refused comes before an index is built.
    sets = {name: store.need(name) for name in names if name != BM25}
    queries = {name: _unit(_query(of, text, encoder)) for name, of in sets.items()}
    found = {
        name: by_words(database, text, depth, **scope)
        if name == BM25
        else _by_vector(database, sets[name], queries[name], depth, **scope)
        for name in names
    }
    return found[by] if isinstance(by, str) else _fused(found, k)


def _names(by: Any) -> list[str]:
    """Return what to search by, as a list."""
    found = checked("by", by, str | Sequence[str], VectorError)
    names = [found] if isinstance(found, str) else [*found]
    if not names or len(set(names)) < len(names):
        raise VectorError(
            f"by={shown(repr(by), 80)}: give {BM25!r}, the name of a set of vectors, or several; "
            f"name each once"
        )
    return names


# -- one set --------------------------------------------------------------------------------------


def _by_vector(
    database: Database,
    of: VectorSet,
    query: Singles,
    k: int,
    *,
    source: str | None,
    split: str | None,
) -> pa.Table:
    compared = _opened(database, of)
    hashes, scores = compared.vectors.hashes, compared.cosines(query)
    scope = {"source": source, "split": split, "k": k}
    wanted = max(_FIRST_TEXTS, 4 * k)
    while True:
        rows = _best(scores, wanted)
        given = {"text_hash": hashes[rows], "score": scores[rows].astype(np.float64)}
        with database.registered(wanted=pa.table(given)):
            found = database.table("vectors/knn/sections", scope)
        if found.num_rows >= k or len(rows) == len(scores):
            break
        wanted *= _GROWTH
    snippets = pa.array([beginning(text) for text in found["beginning"].to_pylist()], pa.string())
    found = found.drop_columns("beginning").append_column("snippet", snippets)
    return found.cast(SCHEMA)


def _query(of: VectorSet, asked: Any, encoder: Any) -> Floats:
    """Return the vector that is looked for, (dimension,)."""
    if isinstance(asked, str):
        return _encoded(of, asked, encoder)
    if encoder is not None:
        raise VectorError("encoder= makes a vector of a text, and a vector is given")
    try:
        vector = np.asarray(asked, dtype=np.float64)
    except (TypeError, ValueError):
        raise VectorError(
            f"{shown(repr(asked), 80)}: give a text or {of.dimension} numbers"
        ) from None
    if vector.shape != (of.dimension,):
        raise VectorError(
            f"the vector has shape {vector.shape}, and those of {of.name!r} have {of.dimension} "
            f"numbers: give ({of.dimension},)"
        )
    if not np.isfinite(vector).all():
        raise VectorError("the vector has numbers that are not finite")
    return vector


def _encoded(of: VectorSet, text: str, encoder: Any) -> Floats:
    """Return the vector of a text as the set would have it."""
    made_by = of.made_by
    prompts = made_by.get("prompts") or {}
    if encoder is None and "model" not in made_by:
        known = ", ".join(f"{key} {value!r}" for key, value in made_by.items() if value)
        raise VectorError(
            f"the vectors {of.name!r} are of no model that can be loaded by its name "
            f"({shown(known) or 'nothing is known of it'}): give encoder=, the function that made "
            f"them, or a vector"
        )
    model = made_by["model"] if encoder is None else encoder
    tells_itself = isinstance(model, str) or hasattr(model, "encode")
    own = encoder_of(model, prompts=prompts, made_by=None if tells_itself else "query")
    if own.made_by.get("digest") != made_by.get("digest", own.made_by.get("digest")):
        raise VectorError(
            f"the vectors {of.name!r} were made by another state of {made_by.get('model')!r} than "
            f"the one that is there now: give encoder=, what made them, or a vector"
        )
    prompt = prompts.get(QUERY_ROLE, "") if prompts else None
    calls = Calls(own, dtype="float32", dimension=of.dimension)
    return np.asarray(calls.one(text, prompt), np.float64)


def _unit(vector: Floats) -> Singles:
    length = np.linalg.norm(vector)
    if not length:
        raise VectorError("the vector has no direction: all its numbers are 0")
    return np.asarray(vector / length, np.float32)


class _Compared:
    """An opened set, with the lengths of its vectors by row."""

    def __init__(self, path: Path, name: str) -> None:
        self.vectors = opened(path, name)
        found = [np.sqrt(np.einsum("ij,ij->i", m, m)) for m in self._blocks()]
        lengths = np.concatenate([np.zeros(0, np.float32), *found])
        self._lengths = np.where(lengths > 0, lengths, 1)

    def cosines(self, query: Singles) -> Singles:
        """Return the cosine of a vector of length 1 and each of the set, by ``vectors.hashes``."""
        found = np.concatenate([np.zeros(0, np.float32), *(m @ query for m in self._blocks())])
        return np.asarray((found / self._lengths)[self.vectors.order])

    def _blocks(self) -> Iterator[Singles]:
        """Yield the vectors row after row, in blocks in single precision."""
        matrix, step = self.vectors.matrix, max(1, _AT_ONCE // self.vectors.of.dimension)
        for low in range(0, len(matrix), step):
            yield matrix[low : low + step].astype(np.float32, copy=False)


def _opened(database: Database, of: VectorSet) -> _Compared:
    # Kept as long as the corpus is: opening a set takes longer than searching it.
    kept: dict[str, _Compared] = database.kept.setdefault("vectors", {})
    found = kept.get(of.name)
    if found is None or found.vectors.of != of:
        found = kept[of.name] = _Compared(Path(str(database.path)), of.name)
    return found


def _best(scores: Singles, count: int) -> Integers:
    """Return the places of the highest scores, with all that tie with the last of them."""
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
    score = {key: sum(1 / (_FUSION + rank) for rank in of.values()) for key, of in ranks.items()}
    order = sorted(rows, key=lambda key: (-score[key], key))[:k]
    table = pa.Table.from_pylist([rows[key] | {"score": score[key]} for key in order], SCHEMA)
    for name in found:
        own = pa.array([ranks[key].get(name) for key in order], pa.int32())
        table = table.append_column(f"rank_{name}", own)
    return table
