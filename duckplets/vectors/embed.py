"""Embed the texts of a corpus that have no vector yet."""

# Committed texts are done, so continuing needs no state. Texts come by the quantile of their hash
# within their split: each split has its share at any time. A kill costs at most ten seconds.

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
    """What ``embed`` did.

    Attributes:
        name: Of the set.
        path: The file that it lies in.
        dimension: Of its vectors; None while it has none.
        dtype: Of their numbers.
        made_by: What the set is tied to.
        texts: Distinct texts of the chunks of live records, of the split if one was named.
        there: Those that had a vector before.
        embedded: Those that have got one.
        failed: Those that the function fails on; why is in the table ``vector_failures``.
        reasons: How many of them by reason.
        prompted: Texts with a prompt that occur in other roles too, and have it for all.
        seconds: Wall time, with that of loading a model.
        rate: Texts embedded a second, while embedding.
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
    """Give a vector to every chunk's text that has none yet, in the file beside the corpus.

    Stopped, interrupted or killed, it goes on where it was when it is called again: what is
    committed stays, and no text is embedded twice. Texts come so that each split has its
    share of what is done. The corpus itself is only read.

    Args:
        model: A function of a list of texts that returns their vectors, (texts, dimension),
            as an array, a tensor or lists; an object with such an ``encode``; or the name or
            folder of a sentence-transformers model, or ``module:function``.
        name: Name of the set. A corpus may have several, side by side.
        split: Texts that this split has; by default all.
        batch_size: Texts of a call, at most. They are of about one length.
        retries: How often a call that fails is made again. Then it is halved, until the
            texts that fail are alone; they are kept with the reason in ``vector_failures``,
            and tried again when this is called again.
        max_failures: When more than this share of the last 200 texts fail, it stops.
        dtype: Type of the numbers that are kept: ``float32`` or ``float16``.
        prompts: What stands before texts of a role (``anchor``, ``context``, ``rejected``).
            A text in several roles has the prompt of the first in this order.
        made_by: What the set is tied to in the place of the function's qualified name. Of a
            sentence-transformers model that is its name, a digest of its weights and its
            longest text. Prompts belong to it.
        progress: Called with texts done and their number; True or False for a bar on stderr
            or none, by default a bar if stderr is a terminal.

    Raises:
        VectorError: An argument is wrong, the set is there and was made by something else,
            another process embeds it, or too many texts fail; what was done is kept.
        SplitError: There is no such split, or there are no splits yet.
        ExtensionError: A model is named, and sentence-transformers is missing.
    """
    database, begun = corpus.database, time.monotonic()
    if name == BM25:
        raise VectorError(f"name={name!r} means the text search in search(by=…); give another one")
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
                f"another one embeds into the set {name!r} of {store.path} at this moment; wait "
                f"for its end, or embed into a set of another name="
            )
        encoder = encoder_of(model, prompts=prompts, made_by=made_by)
        known = _joined(store, name, dtype, encoder)
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


def _joined(store: VectorStore, name: str, dtype: Dtype, encoder: Encoder) -> VectorSet | None:
    """Return the set of that name, if it is there and was made by the same."""
    found = store.find(name)
    if found is None:
        return None
    told = encoder.made_by
    if "digest" in told and found.made_by.get("digest") == told["digest"]:
        told["model"] = found.made_by.get("model", told["model"])  # the same one, elsewhere
    refuse_other(found, replace(found, dtype=dtype, made_by=told))
    return found


# -- what is to be done, and in which order -------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedQueue:
    """Texts that have no vector, in the order in which they are to get one."""

    hashes: Words
    keys: Integers  # a chunk that has the text, of each
    characters: Integers
    prompts: Integers  # the prompt of each, by its number in ``told``
    told: tuple[str | None, ...]  # the last for all other roles, None where nobody has given any
    texts: int  # with those that have a vector
    prompted: int  # how many of these have a prompt and occur in other roles too

    def batches(self, block: slice, size: int) -> Iterator[Integers]:
        """Yield the places in a block that are embedded together, the longest first."""
        characters, prompts = self.characters[block], self.prompts[block]
        order = np.lexsort((-characters, prompts))
        for prompt in np.unique(prompts).tolist():
            of = order[prompts[order] == prompt]
            yield from (of[at : at + size] for at in range(0, len(of), size))


def _work(
    database: Database, split: str | None, prompts: Prompts, known: Words | None
) -> EmbedQueue:
    """Return the texts that have no vector, in order."""
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
        told=(*prompts.values(), "" if prompts else None),
        texts=len(hashes),
        prompted=int((columns["last_role"] != roles).sum()),
    )


# -- doing it -------------------------------------------------------------------------------------


class _Embedding:
    """One call of ``embed`` under way."""

    def __init__(self, database: Database, store: VectorStore, of: VectorSet, calls: Calls) -> None:
        self.embedded = 0  # texts that have got a vector and are committed
        self.failed = 0
        self._database, self._store, self._set, self._calls = database, store, of, calls
        self._found: list[tuple[Words, NDArray[Any]]] = []  # that is not committed yet
        self._failed: dict[int, str] = {}

    def run(self, queue: EmbedQueue, batch_size: int, work: Work) -> None:
        """Embed all texts; stop after too many failures, and say how to continue."""
        blocks = stretches(queue.characters, rows=_BATCHES * batch_size, total=_MOST_CHARACTERS)
        done, committed = 0, time.monotonic()
        try:
            try:
                for batch in chain.from_iterable(
                    self._texts(queue, block, batch_size) for block in blocks
                ):
                    done += self._embed(*batch)
                    work.tell(done, len(queue.hashes))
                    held = sum(vectors.size for _, vectors in self._found)
                    if held > _MOST_NUMBERS or time.monotonic() - committed > _SECONDS:
                        self._commit()
                        committed = time.monotonic()
            finally:
                self._commit()
        except KeyboardInterrupt:
            self._commit()  # it may have come while that was done
            left = len(queue.hashes) - self.embedded
            raise KeyboardInterrupt(
                f"interrupted: {counted(self.embedded, 'text')} embedded and kept in "
                f"{self._store.path}; embed again to go on with the {left:,} that are left"
            ) from None

    def _texts(
        self, work: EmbedQueue, block: slice, batch_size: int
    ) -> Iterator[tuple[Words, list[str], str | None]]:
        """Yield the batches of a block: hashes, texts, and the prompt of all of them."""
        hashes = work.hashes[block]
        places = np.arange(len(hashes))
        wanted = pa.table({"place": places, "chunk_key": work.keys[block], "text_hash": hashes})
        with self._database.registered(wanted=wanted):
            found = self._database.table("vectors/embed/texts")
        texts = np.full(len(hashes), None, dtype=object)
        texts[found["place"].to_numpy()] = found["text"].to_numpy(zero_copy_only=False)
        for batch in work.batches(block, batch_size):
            there = batch[texts[batch] != None]  # noqa: E711 - each of them; removed meanwhile
            if len(there):
                prompt = work.told[int(work.prompts[block][there[0]])]
                yield hashes[there], texts[there].tolist(), prompt

    def _embed(self, hashes: Words, texts: list[str], prompt: str | None) -> int:
        """Embed a batch; returns how many texts that were."""
        done = self._calls.embed(texts, prompt)
        if len(done.rows):
            self._found.append((hashes[done.rows], done.vectors))
        self._failed |= {int(hashes[row]): reason for row, reason in done.failed.items()}
        self.failed += len(done.failed)
        if self._calls.is_enough:
            self._commit()
            raise self._calls.stopped(
                f"{counted(self.embedded, 'text')} embedded and kept in {self._store.path}; mend "
                f"what embeds and call embed again to go on"
            )
        return len(texts)

    def _commit(self) -> None:
        """Put what has been found into the set, and failures beside it."""
        if self._found:
            hashes, vectors = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
            self._set = replace(self._set, dimension=vectors.shape[1])
            self.embedded += self._store.append(self._set, [(hashes, vectors)])
            self._found = []
        if self._failed and (self._set.set_id or self.embedded):  # there is such a set
            failed = np.fromiter(self._failed, np.uint64, len(self._failed))
            self._store.fail(self._set.name, failed, list(self._failed.values()))
            self._failed = {}
