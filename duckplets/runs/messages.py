"""Draw and fetch messages: from the sources that have conversations to blocks of whole ones.

The unit is the record: one sample is the whole conversation of one. What a pool lists is
therefore record keys, where that of another kind of samples lists chunks. What is stored as JSON
is taken apart by DuckDB, so that no row passes through Python.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.artifacts.array_bundle import key_of
from duckplets.base.arrays import Integers
from duckplets.errors import EmptyPoolError, StateMismatchError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.pools.arrays import Anchors, Pool
from duckplets.pools.compile import compile_pool
from duckplets.recipes.recipes import TextRecipe
from duckplets.recipes.selectors import any_section
from duckplets.recipes.store import SourceRecipes
from duckplets.runs.pool_loading import AnchorRecords, Left
from duckplets.samples.batch import Block
from duckplets.samples.columns import OF_MESSAGES
from duckplets.samples.fetch import Fetcher, as_array, facts_of
from duckplets.samples.stream import Stream
from duckplets.serving.facts import ChunkFacts, FactSlice
from duckplets.serving.texts import ChunkTexts, Segment

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.order.mixture import Mixture
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.planned import Plan
    from duckplets.serving.snapshot import Snapshot

_FUNCTION = {"name": "VARCHAR", "arguments": "VARCHAR"}
_TOOLS: dict[str, Any] = {
    "tool_calls": [{"id": "VARCHAR", "type": "VARCHAR", "function": _FUNCTION}],
    "tool_call_id": "VARCHAR",
    "name": "VARCHAR",
}
_TEXTS, _DETAILS = OF_MESSAGES[:4], OF_MESSAGES[4:]
_RECIPE = TextRecipe("messages", any_section())
# Record keys of a range that a snapshot keeps at once, and that is held in memory then. A record is
# never changed, so a range that is full stays as it is; the last one is kept anew with what comes.
_RANGE = 65_536


def resolve(database: Database, mixture: Mixture, version: int) -> list[SourceRecipes]:
    """Return the sources that messages are drawn from: those that have some, and those named.

    Raises:
        EmptyPoolError: No source has a conversation.
    """
    rows = database.run("runs/messages/sources", {"version": version})
    if rows and not any(conversations for _, conversations, _ in rows):
        names = ", ".join(repr(name) for name, _, _ in rows)
        raise EmptyPoolError(
            f"no source has conversations to draw messages from; there are {names}. Ingest "
            f"instruction data with a converter, as in converter='alpaca'"
        )
    return [
        SourceRecipes(name, (_RECIPE,)) for name, held, _ in rows if held or name in mixture.named
    ]


def shape_of(database: Database, version: int, part: str = "text") -> list[Any]:
    """Return the shape of messages of a version, as DuckDB's ``from_json`` takes it.

    They have keys for tools only where some conversation calls one: chat templates ask whether a
    message has such a key, and Arrow gives a null one to all. ``part`` is the key of a part's text.
    """
    ((tools,),) = database.run("runs/messages/calls_tools", {"version": version})
    said: dict[str, Any] = {"role": "VARCHAR", "content": [{"type": "VARCHAR", part: "VARCHAR"}]}
    return [said | (_TOOLS if tools else {}) | {"loss_weight": "DOUBLE"}]


def type_of(shape: Any) -> pa.DataType:
    """Return the Arrow type of a shape."""
    if isinstance(shape, list):
        return pa.list_(type_of(shape[0]))
    if isinstance(shape, dict):
        return pa.struct([(name, type_of(of)) for name, of in shape.items()])
    return pa.float64() if shape == "DOUBLE" else pa.string()


def has_pairs(database: Database, sources: Collection[str], version: int) -> bool:
    """Return whether some of the sources have preference pairs."""
    rows = database.run("runs/messages/sources", {"version": version})
    return any(pairs for name, _, pairs in rows if name in sources)


def open_streams(
    database: Database, settings: RunSettings, sources: Sequence[str], snapshot: Snapshot | None
) -> tuple[list[Stream], list[Left]]:
    """Read which conversations can be drawn of some sources; return also which have none."""
    anchored = AnchorRecords(database, settings)
    streams, empty = [], []
    for source in sources:
        pool = _pool(database, settings, source, anchored, snapshot)
        if len(pool.anchors):
            streams.append(Stream(source, pool, settings.seed, settings.negatives))
        else:
            listed = " that its index controls list" if source in settings.index else ""
            why = f"source {source!r} has no conversation in split {settings.split!r}{listed}"
            empty.append(Left(source, None, why))
    return streams, empty


def conversations(
    database: Database, settings: RunSettings, snapshot: Snapshot | None
) -> tuple[ChunkFacts, ChunkTexts | None]:
    """Return what every conversation of a corpus is, and their messages if a snapshot has them."""
    version, chunking = settings.corpus_version, settings.chunking
    texts = _mapped(database, snapshot, version, chunking) if snapshot else None
    if texts is not None:
        return texts.facts, texts
    everything = {"low": 0, "high": 1 << 62, "weight_floor": chunking["weight_floor"]}
    return facts_of(database.table("serving/conversation_facts", everything)), None


class MessageFetcher(Fetcher):
    """Turn plans of messages into blocks; its arguments are those of ``Fetcher``."""

    shape: Sequence[Any] = ()  # of the messages of the run's version

    def fetch(self, plan: Plan, *, start: int, stop: int) -> Block:
        """Return the samples of a plan as the block of batches from ``start`` to ``stop``."""
        keys = plan.chunks[0]
        rows = self._messages(plan, keys)
        place = np.empty(len(keys), dtype=np.int64)
        place[rows["request"].to_numpy()] = np.arange(len(keys), dtype=np.int64)
        found = self._basics(plan, self._facts[keys]) | self._details(plan, keys, self._columns)
        order = pa.array(place)
        for name in _TEXTS[1:]:
            if name in self._columns:
                found[name] = rows[name].combine_chunks().take(order)
        columns = {c: None if c in self.slots else as_array(found[c]) for c in self._columns}
        texts = rows["messages"].combine_chunks()
        return Block(start, stop, columns, texts, {"messages": place})

    @property
    def _identifying(self) -> list[str]:
        return ["record_id"]

    def _messages(self, plan: Plan, keys: Integers) -> pa.Table:
        which = ("chosen", "rejected", "chosen_json", "rejected_json")
        wanted: dict[str, Any] = {"shape": json.dumps(self.shape)}
        wanted |= {w: name in self._columns for w, name in zip(which, _TEXTS, strict=True)}
        if self._mapped is None:
            stored = self._of_records("stored", keys)
        else:
            with self._lock:  # refuses a forked process, as reading from the corpus does
                stored = _gathered(self._mapped, keys)
        if stored.num_rows != len(keys):
            raise StateMismatchError(
                f"{len(keys) - stored.num_rows} conversations of positions "
                f"{int(plan.positions[0])} to {int(plan.positions[-1])} are not in the corpus any "
                f"more; it is another file"
            )
        with self._lock, self._database.registered(stored_messages=stored):
            return self._database.table("runs/messages/parsed", wanted)

    def _details(self, plan: Plan, keys: Integers, columns: Sequence[str]) -> dict[str, Any]:
        """Return those of the columns that tell of the record."""
        wanted = [name for name in columns if name in _DETAILS]
        if not wanted:
            return {}
        rows = self._of_records("details", keys)
        return {name: rows[name].combine_chunks() for name in wanted}

    def _of_records(self, name: str, keys: Integers) -> pa.Table:
        """Run a statement of ``sql/runs/messages`` over records."""
        asked = pa.table({"request": np.arange(len(keys), dtype=np.int64), "record_key": keys})
        with self._lock, self._database.registered(asked_messages=asked):
            return self._database.table(f"runs/messages/{name}")


def _gathered(texts: ChunkTexts, keys: Integers) -> pa.Table:
    """Return the messages of conversations as they are stored, from a snapshot."""
    request = np.arange(len(keys), dtype=np.int64)
    spans = texts.spans(keys, "rejected_")
    there = np.flatnonzero(spans.lengths >= 0)
    places = np.full(len(keys), -1, dtype=np.int64)
    places[there] = np.arange(len(there))
    rejected = spans.take(there).take(pa.array(places, mask=places < 0))
    chosen = texts.spans(keys).take(request)
    return pa.table({"request": request, "messages": chosen, "rejected_messages": rejected})


def _pool(
    database: Database,
    settings: RunSettings,
    source: str,
    anchored: AnchorRecords,
    snapshot: Snapshot | None,
) -> Pool:
    """Return the conversations of a source that a run may draw."""
    split, version = settings.split, settings.corpus_version
    compiled = compile_pool(_RECIPE, source=source, split=split, version=version)
    where = {"source": source, "split": split, "version": version}
    where |= {"hashed": bool(settings.no_duplicates)}
    key = key_of("conversations", where, settings.index.get(source))
    if snapshot is not None and (kept := snapshot.find([key])):
        return Pool(compiled, kept[key].get(key, Anchors), None, None)
    rows = database.table("runs/messages/pool", where)
    if (of := anchored.keys(source)) is not None:
        rows = rows.filter(pa.array(np.isin(rows["record_key"].to_numpy(), of)))
    keys, count = rows["record_key"].to_numpy(), rows.num_rows
    zeros, starts = np.zeros(count, np.int64), np.arange(count + 1)
    anchors = Anchors(keys, rows["text_hash"].to_numpy(), zeros, keys, starts)
    if snapshot is not None:
        snapshot.keep(version, {key: anchors})
    return Pool(compiled, anchors, None, None)


# -- in a snapshot, by ranges of record keys -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conversations:
    """The messages of a range of records, as JSON.

    Attributes:
        keys: Of the records, ascending.
        tokens: Of the sections of each.
        weight: Of each as a sample.
        span: First byte in ``data`` of the messages of each.
        bytes: How many they are.
        rejected_span: The same of the rejected messages of a preference pair.
        rejected_bytes: The same; -1 where there are none.
        data: The bytes of all.
    """

    keys: Integers
    tokens: Integers
    weight: np.ndarray[Any, np.dtype[np.float64]]
    span: Integers
    bytes: Integers
    rejected_span: Integers
    rejected_bytes: Integers
    data: np.ndarray[Any, np.dtype[np.uint8]]

    @classmethod
    def read(cls, database: Database, low: int, high: int, weight_floor: float) -> Conversations:
        """Read those of a range of records."""
        where = {"low": low, "high": high}
        rows = database.table("serving/conversations", where)
        facts = database.table("serving/conversation_facts", where | {"weight_floor": weight_floor})
        chosen, rejected = (_bytes(rows[n]) for n in ("messages", "rejected_messages"))
        return cls(
            keys=facts["record_key"].to_numpy(),
            tokens=facts["tokens"].to_numpy(),
            weight=facts["weight"].to_numpy(),
            span=chosen[0][:-1],
            bytes=np.diff(chosen[0]),
            rejected_span=rejected[0][:-1] + len(chosen[1]),
            rejected_bytes=np.where(
                rows["rejected_messages"].is_null().to_numpy(), -1, np.diff(rejected[0])
            ),
            data=np.concatenate([chosen[1], rejected[1]]),
        )

    def segment(self) -> Segment:
        """Return them as what texts are gathered from."""
        names = ("tokens", "weight", "span", "bytes", "rejected_span", "rejected_bytes")
        columns = {name: getattr(self, name) for name in names}
        return Segment(FactSlice(self.keys, columns), pa.py_buffer(self.data))


def _bytes(texts: pa.ChunkedArray) -> tuple[Integers, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return where in their bytes texts begin, and the end; and the bytes."""
    whole = texts.combine_chunks().cast(pa.large_string())
    if not len(whole):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset :][: len(whole) + 1]
    data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
    return ends - ends[0], data


def _mapped(
    database: Database, snapshot: Snapshot, version: int, chunking: Mapping[str, Any]
) -> ChunkTexts | None:
    """Return the messages of all conversations, with what else is known of them.

    What the snapshot does not keep yet is added to it.

    Args:
        database: The corpus.
        snapshot: Valid for the version.
        version: Of the run.
        chunking: Fingerprint of its chunks.

    Returns:
        None where they cannot be kept.
    """
    floor = chunking["weight_floor"]
    ranges = database.run(
        "serving/conversation_ranges", {"size": _RANGE, "unpublished": UNPUBLISHED}
    )
    keys = {part: key_of("conversations", _RANGE, floor, part, last) for part, last in ranges}
    there = snapshot.find([*keys.values()])
    for part, last in ranges:
        if keys[part] not in there:
            found = Conversations.read(database, part * _RANGE, last, floor)
            if snapshot.keep(version, {keys[part]: found}):
                return None
    there = snapshot.find([*keys.values()])
    return ChunkTexts([there[key].get(key, Conversations).segment() for key in keys.values()])
