"""Embed the texts of a corpus that have no vector yet."""

# Committed texts are done, so continuing needs no state. Texts are sorted by the quantile of their
# hash within their split, so each split has its share at any time. A kill costs ten seconds.

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckplets.base.arrays import Integers, Words, places, stretches
from duckplets.base.locks import alone
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted
from duckplets.base.settings import Name, checked
from duckplets.base.stages import stage
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import Work, working
from duckplets.errors import VectorError
from duckplets.ingest.splits import SPLITS, checked_split, need_splits
from duckplets.recipes.mined import BM25
from duckplets.vectors.encoders import (
    BatchSize,
    Calls,
    Encoder,
    Prompts,
    Retries,
    Share,
    checked_prompts,
    encoder_of,
)
from duckplets.vectors.store import Dtype, VectorSet, VectorStore, refuse_other

_BATCHES = 64  # of a block, whose texts are sorted by length
_MOST_CHARACTERS = 1 << 26  # of a block
_SECONDS, _MOST_NUMBERS = 10.0, 1 << 24  # of a commit


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedReport(Reported):
    """Report one call of ``embed``.

    Attributes:
        name: Name of the set.
        path: File of the set.
        dimension: Dimension of its vectors; None without vectors.
        dtype: Type of their numbers.
        made_by: Identity of the function or model that makes the set.
        texts: Distinct texts of the chunks of live records, of one split if you named it.
        there: Texts that had a vector before.
        embedded: Texts that got a vector.
        failed: Texts on which the function failed; the table ``vector_failures`` has the reasons.
        reasons: Failed texts by reason.
        prompted: Texts with a prompt that also occur in other roles, and have the prompt there.
        seconds: Wall time, with the loading of a model.
        rate: Texts embedded per second, without the loading.
    """

    name: str
    path: Path
    dimension: int | None
    dtype: str
    made_by: dict[str, Any]
    texts: int
    there: int
    embedded: int
    failed: int
    reasons: dict[str, int] = field(default_factory=dict)
    prompted: int
    seconds: float
    rate: float


@stage("embed the texts of")
def embed(
    corpus: CorpusFile,
    /,
    model: Any,
    name: str = "default",
    *,
    split: str | None = None,
    batch_size: int = 256,
    retries: int = 2,
    max_failures: float = 0.05,
    dtype: Dtype = "float32",
    prompts: Mapping[str, str] | None = None,
    made_by: str | None = None,
    progress: Progress | bool | None = None,
) -> EmbedReport:
    """Make a vector for every chunk text without one, in the file next to the corpus.

    If a call is stopped, interrupted or killed, the next call continues: committed vectors stay,
    and no text is embedded twice. Every split gets its share at any time. The corpus itself is
    only read.

    Args:
        model: A function of a list of texts that returns their vectors, (texts, dimension),
            as an array, a tensor or lists; an object with such an ``encode``; the name or
            folder of a sentence-transformers model; or ``module:function``.
        name: Name of the set. A corpus may have several sets.
        split: Embed the texts of this split only. Default: all.
        batch_size: Largest number of texts in a call. They have about the same length.
        retries: Number of repetitions of a failed call. Then its texts are halved until the
            failing texts are alone. Those are stored with the reason in ``vector_failures``; the
            next call of ``embed`` tries them again.
        max_failures: Stop when more than this share of the last 200 texts fails.
        dtype: Type of the stored numbers: ``float32`` or ``float16``.
        prompts: Prompt before texts of each role (``anchor``, ``context``, ``rejected``).
            A text in several roles has the prompt of the first in this order.
        made_by: Identity of the function, instead of its qualified name. A sentence-transformers
            model is identified by its name, a digest of its weights and its longest text. Prompts
            are part of the identity.
        progress: A function of texts done and their number; True or False for a bar on stderr
            or none. Default: a bar if stderr is a terminal.

    Raises:
        VectorError: An argument is wrong, the set exists and has another maker, another process
            embeds it, or too many texts fail. Finished vectors are stored.
        SplitError: There is no such split, or there are no splits yet.
        ExtensionError: You named a model, and sentence-transformers is missing.
    """
    database, begun = corpus.database, time.monotonic()
    if name == BM25:
        raise VectorError(f"name={name!r} is reserved for the text search; give another name")
    name = checked("name", name, Annotated[str, Name()], VectorError)
    batch_size = checked("batch_size", batch_size, BatchSize, VectorError)
    retries = checked("retries", retries, Retries, VectorError)
    share = checked("max_failures", max_failures, Share, VectorError)
    dtype = checked("dtype", dtype, Dtype, VectorError)
    prompts = checked_prompts(prompts)
    if split is not None:
        checked_split(split)
        need_splits(database)
    store = VectorStore(corpus.path)
    with alone(_lock_file(store.path, name)) as is_alone:
        if not is_alone:
            raise VectorError(
                f"another process embeds into the set {name!r} of {store.path}; wait for its end, "
                f"or give another name="
            )
        encoder = encoder_of(model, prompts=prompts, made_by=made_by)
        known = _stored(store, name, dtype, encoder)
        wanted = known or VectorSet(name, encoder.dimension or 0, dtype, encoder.made_by)
        calls = Calls(
            encoder,
            dtype=dtype,
            dimension=wanted.dimension or None,
            retries=retries,
            max_failures=share,
        )
        queue = _work(database, split, prompts, store.known(known) if known else None)
        job = _Embedding(database, store, wanted, calls)
        started = time.monotonic()
        with working(INLINE, progress, "texts", rate=True) as work:
            job.run(queue, batch_size, work)
    ended = time.monotonic()
    return EmbedReport(
        name=name,
        path=store.path,
        dimension=calls.dimension,
        dtype=dtype,
        made_by=encoder.made_by,
        texts=queue.texts,
        there=queue.texts - len(queue.hashes),
        embedded=job.embedded,
        failed=job.failed,
        reasons=dict(calls.reasons.most_common()),
        prompted=queue.prompted,
        seconds=round(ended - begun, 3),
        rate=round(job.embedded / max(ended - started, 1e-9), 1) if job.embedded else 0.0,
    )


def _lock_file(path: Path, name: str) -> Path:
    mark = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return path.with_name(f".{path.stem}.{mark}.lock")


def _stored(store: VectorStore, name: str, dtype: Dtype, encoder: Encoder) -> VectorSet | None:
    """Return the set of a name; refuse one of another maker."""
    found = store.find(name)
    if found is None:
        return None
    made_by = encoder.made_by
    if "digest" in made_by and found.made_by.get("digest") == made_by["digest"]:
        made_by["model"] = found.made_by.get("model", made_by["model"])  # its path may differ
    refuse_other(found, replace(found, dtype=dtype, made_by=made_by))
    return found


# -- the queue ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedQueue:
    """List the texts without a vector, in the order of embedding."""

    hashes: Words
    keys: Integers  # a chunk with each text
    characters: Integers
    prompts: Integers  # number of each text's prompt in ``prompt_texts``
    prompt_texts: tuple[str | None, ...]  # the last for other roles, None without prompts
    texts: int  # number of texts, with or without a vector
    prompted: int  # texts with a prompt that also occur in other roles

    def batches(self, block: slice, size: int) -> Iterator[Integers]:
        """Yield the places in a block that are embedded together, the longest first."""
        characters, prompts = self.characters[block], self.prompts[block]
        order = np.lexsort((-characters, prompts))
        for prompt in np.unique(prompts).tolist():
            same = order[prompts[order] == prompt]
            yield from (same[at : at + size] for at in range(0, len(same), size))


def _work(
    database: Database, split: str | None, prompts: Prompts, known: Words | None
) -> EmbedQueue:
    """Return the texts without a vector, in order."""
    parameters = {"split": split, "splits": [*SPLITS], "roles": [*prompts]}
    found = database.table("vectors/embed/distinct_texts", parameters)
    columns = {name: found[name].to_numpy() for name in found.column_names}
    hashes, roles = columns["text_hash"], columns["role"]
    new = np.arange(len(hashes)) if known is None else np.flatnonzero(places(known, hashes) < 0)
    return EmbedQueue(
        hashes=hashes[new],
        keys=columns["chunk_key"][new],
        characters=columns["characters"][new].astype(np.int64),
        prompts=roles[new].astype(np.int64) - 1,
        prompt_texts=(*prompts.values(), "" if prompts else None),
        texts=len(hashes),
        prompted=int((columns["last_role"] != roles).sum()),
    )


# -- the work -------------------------------------------------------------------------------------


class _Embedding:
    """Run one call of ``embed``."""

    def __init__(
        self, database: Database, store: VectorStore, vector_set: VectorSet, calls: Calls
    ) -> None:
        self.embedded = 0  # texts with a committed vector
        self.failed = 0
        self._database, self._store, self._set, self._calls = database, store, vector_set, calls
        self._found: list[tuple[Words, NDArray[Any]]] = []  # not committed yet
        self._failed: dict[int, str] = {}

    def run(self, queue: EmbedQueue, batch_size: int, work: Work) -> None:
        """Embed all texts; raise after too many failures."""
        blocks = stretches(queue.characters, rows=_BATCHES * batch_size, total=_MOST_CHARACTERS)
        done, committed = 0, time.monotonic()
        try:
            try:
                for batch in chain.from_iterable(
                    self._texts(queue, block, batch_size) for block in blocks
                ):
                    done += self._embed(*batch)
                    work.tell(done, len(queue.hashes))
                    numbers = sum(vectors.size for _, vectors in self._found)
                    if numbers > _MOST_NUMBERS or time.monotonic() - committed > _SECONDS:
                        self._commit()
                        committed = time.monotonic()
            finally:
                self._commit()
        except KeyboardInterrupt:
            self._commit()  # the interrupt may have stopped the last commit
            remaining = len(queue.hashes) - self.embedded
            raise KeyboardInterrupt(
                f"interrupted: {counted(self.embedded, 'text')} embedded and stored in "
                f"{self._store.path}; call embed again for the remaining {remaining:,}"
            ) from None

    def _texts(
        self, queue: EmbedQueue, block: slice, batch_size: int
    ) -> Iterator[tuple[Words, list[str], str | None]]:
        """Yield the batches of a block: hashes, texts, and their common prompt."""
        hashes = queue.hashes[block]
        places = np.arange(len(hashes))
        wanted = pa.table({"place": places, "chunk_key": queue.keys[block], "text_hash": hashes})
        with self._database.registered(wanted=wanted):
            found = self._database.table("vectors/embed/texts")
        texts = np.full(len(hashes), None, dtype=object)
        texts[found["place"].to_numpy()] = found["text"].to_numpy(zero_copy_only=False)
        for batch in queue.batches(block, batch_size):
            stored = batch[texts[batch] != None]  # noqa: E711 - elementwise; None: removed since
            if len(stored):
                prompt = queue.prompt_texts[int(queue.prompts[block][stored[0]])]
                yield hashes[stored], texts[stored].tolist(), prompt

    def _embed(self, hashes: Words, texts: list[str], prompt: str | None) -> int:
        """Embed a batch; return its number of texts."""
        done = self._calls.embed(texts, prompt)
        if len(done.rows):
            self._found.append((hashes[done.rows], done.vectors))
        self._failed |= {int(hashes[row]): reason for row, reason in done.failed.items()}
        self.failed += len(done.failed)
        if self._calls.is_enough:
            self._commit()
            raise self._calls.stopped(
                f"{counted(self.embedded, 'text')} embedded and stored in {self._store.path}; "
                f"repair the function and call embed again to continue"
            )
        return len(texts)

    def _commit(self) -> None:
        """Write the waiting vectors and failures."""
        if self._found:
            hashes, vectors = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
            self._set = replace(self._set, dimension=vectors.shape[1])
            self.embedded += self._store.append(self._set, [(hashes, vectors)])
            self._found = []
        if self._failed and (self._set.set_id or self.embedded):  # the set exists
            failed = np.fromiter(self._failed, np.uint64, len(self._failed))
            self._store.fail(self._set.name, failed, list(self._failed.values()))
            self._failed = {}
