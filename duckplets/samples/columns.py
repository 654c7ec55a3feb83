"""Columns of a batch: names, kinds of samples that have them, and how each is made."""

# To add one, add a line to ``_OF_SAMPLES`` (one per sample), ``OF_TEXTS`` (one per text) or
# ``_OF_NEGATIVES``. Columns that ``sql/samples/fetch`` selects need their name only.

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Floats, Integers
from duckplets.base.columns import column, text_column
from duckplets.base.sanitize import listed, shown
from duckplets.errors import SamplerError, nearest
from duckplets.recipes.recipes import SqlStrategy, TripletRecipe
from duckplets.samples.candidates import Candidates
from duckplets.samples.negatives import AT_RANDOM, BY_CHANCE, FILLED, FROM_SPLIT, LACKING, OWN
from duckplets.samples.plan import SINGLE, Plan, without_negative
from duckplets.samples.prefixes import META_TYPE, Prefixed
from duckplets.samples.stream import Stream
from duckplets.serving.texts import ChunkTexts
from duckplets.vectors.columns import VECTOR


@dataclass
class Samples:
    """The samples of a plan, from which columns are made."""

    plan: Plan
    streams: Sequence[Stream]  # streams of the plan
    slots: Sequence[str]  # the text columns, in order
    texts: ChunkTexts  # texts of all chunks of the corpus
    # Returns facts about chunks, or records of conversations: one row for each key.
    look_up: Callable[[Samples], pa.Table]
    # Returns the labels of texts for anchors, given the chunks of both and the stream of each.
    look_up_labels: Callable[[Integers, Integers, Integers], pa.Array]
    # Returns the scores of positives for anchors, given the chunks of both and files of a mining.
    look_up_scores: Callable[[Integers, Integers, Sequence[str]], Floats]
    prefixed: Prefixed | None = None  # prefixes of their texts
    parsed: Mapping[str, pa.Array] | None = None  # parsed conversations
    padded_from: float = np.inf  # first position of samples that only fill the last batch

    @cached_property
    def origins(self) -> list[str | None]:
        """Possible origins of negatives, from best to worst; fallbacks are last."""
        mined = {one.scorer for stream in self.streams for one in stream.candidates}
        fallbacks = {_fallback(stream) for stream in self.streams if stream.candidates}
        found = [None, "random", *sorted(mined), "same_record", "given", *sorted(fallbacks)]
        return [*found, "random", "random_split"]

    @cached_property
    def keys(self) -> Integers:
        """The chunk keys, slot by slot."""
        return self.plan.chunks.reshape(-1)

    @cached_property
    def details(self) -> pa.Table:
        """Further facts about the chunks, slot by slot."""
        return self.look_up(self)

    @cached_property
    def documents(self) -> tuple[Integers, Integers]:
        """The start of each list and the end, and the index in ``keys`` of each document."""
        present = self.plan.present
        if present is None:
            raise AssertionError(self.plan)
        samples, slots = np.nonzero(present[1:].T)
        offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(present[1:], axis=0))])
        return offsets, (slots + 1) * len(self.plan) + samples

    @property
    def first_negative(self) -> int:
        """The slot of the first negative of lists."""
        drawn = self.plan.candidates
        return len(self.plan.chunks) - (0 if drawn is None else len(drawn))

    def lists(self, values: pa.Array) -> pa.Array:
        """Return the values of all documents as a list for each sample."""
        return pa.ListArray.from_arrays(pa.array(self.documents[0], pa.int32()), values)

    def of_slot(self, values: pa.Array, slot: int) -> pa.Array:
        """Return the values of one slot."""
        return values.slice(slot * len(self.plan), len(self.plan))

    def by_stream(self, name: str) -> pa.Array:
        """Return an attribute of each sample's stream, such as ``recipe.name``."""
        texts = text_column([*map(attrgetter(name), self.streams)])
        return texts.take(column(self.plan.streams))

    def proximity(self) -> Floats:
        """Return 1/distance of anchor and positive windows in one section; otherwise NaN."""
        found = np.full(len(self.plan), np.nan)
        if len(self.slots) > 1:
            keys = self.plan.chunks[:2].reshape(-1)
            found_columns = self.texts.columns(["section_key", "window_index"], keys)
            sections, windows = (values.reshape(2, -1) for values in found_columns.values())
            near = (sections[0] == sections[1]) & (windows.min(axis=0) >= 0)
            found[near] = 1 / np.maximum(np.abs(windows[0] - windows[1]), 1)[near]
        return found


Make: TypeAlias = Callable[[Samples], Any]  # an Arrow array, or numbers or flags

_ALL = ("triplets", "pairs", "labelled_pairs", "lists", "texts", "messages")
_PAIRED = ("triplets", "pairs", "labelled_pairs")
_LISTS = ("lists",)


@dataclass(frozen=True, slots=True)
class _Column:
    make: Make
    kinds: Collection[str] = _ALL  # kinds of samples that have it
    by_default: Collection[str] = ()  # kinds that have it by default


def _weight(samples: Samples) -> Floats:
    """Recipe weight × mean over slots of trust × position (× proximity), as specified."""
    weights = samples.texts.columns(["weight"], samples.keys)["weight"].reshape(
        samples.plan.chunks.shape
    )
    if len(samples.slots) > 1:
        weights[:2] *= np.nan_to_num(samples.proximity(), nan=1.0)
    by_recipe, present = np.array([s.recipe.weight for s in samples.streams]), samples.plan.present
    means = np.mean(weights, axis=0, where=True if present is None else present)
    product: Floats = means * by_recipe[samples.plan.streams]
    return product


def _positive_label(samples: Samples) -> pa.Array:
    """Return the label of each sample's positive; null for a pair with a negative."""
    plan = samples.plan
    anchors, positives = np.where(plan.swapped, plan.chunks[1::-1], plan.chunks[:2])
    labels = samples.look_up_labels(anchors, positives, plan.streams)
    if plan.labels is None or plan.labelled:
        return labels
    return pc.if_else(pa.array(plan.labels == 0), None, labels)


def _labels(samples: Samples) -> pa.Array:
    """Return the labels of documents: 1 for an unlabelled positive, 0 for a negative."""
    plan, (_, places) = samples.plan, samples.documents
    slots, owners = np.divmod(places, len(plan))
    known = samples.look_up_labels(
        plan.chunks[0, owners], samples.keys[places], plan.streams[owners]
    )
    found = known.to_numpy(zero_copy_only=False)
    drawn = slots >= samples.first_negative
    found = np.where(np.isnan(found), ~drawn, found)
    found[drawn] = np.minimum(found[drawn], 0)  # the label of a record is its positive's
    return samples.lists(column(found))


def _scores(samples: Samples) -> pa.Array:
    """Return the scores of documents by the scorer of the negatives in their list."""
    plan, size = samples.plan, len(samples.plan)
    found = np.full(plan.chunks.shape, np.nan)
    _, places = samples.documents
    slots, owners = np.divmod(places, size)
    by = np.full(size, -1)  # number of the candidates of each sample's stream
    for number, stream in enumerate(samples.streams):
        if len(stream.candidates) == 1:
            by[plan.streams == number] = 0
    for slot in range(len(plan.chunks) - samples.first_negative):
        for stream, rows, one, drawn in _mined(slot, samples):
            by[rows] = stream.candidates.index(one)
            if one.scores is not None:
                found[samples.first_negative + slot, rows] = one.scores[drawn]
    for number, stream in enumerate(samples.streams):
        for which, files in enumerate(stream.ranked):
            mine = (plan.streams == number) & (by == which)
            at = np.flatnonzero(mine[owners] & (slots < samples.first_negative))
            pair = plan.chunks[0, owners[at]], samples.keys[places[at]]
            found[slots[at], owners[at]] = samples.look_up_scores(*pair, files)
    values = pa.array(found.reshape(-1), pa.float64(), from_pandas=True)
    return samples.lists(values.take(column(places)))


def _of_documents(make: Callable[[int, Samples], pa.Array], samples: Samples) -> pa.Array:
    slots = [make(slot, samples) for slot in range(len(samples.plan.chunks))]
    return samples.lists(pa.concat_arrays(slots).take(column(samples.documents[1])))


def _document_by(slot: int, samples: Samples) -> pa.Array:
    """Return the origins of drawn documents; null for positives."""
    if slot < samples.first_negative:
        return pa.nulls(len(samples.plan), pa.string())
    return _by(slot - samples.first_negative, samples).cast(pa.string())


def _reason(samples: Samples) -> pa.Array:
    def reason(recipe: Any) -> str:
        if isinstance(recipe, TripletRecipe):
            return "sql" if isinstance(recipe.strategy, SqlStrategy) else str(recipe.strategy)
        return ""

    plan = samples.plan
    reasons = [None, *("given" if plan.labelled else reason(s.recipe) for s in samples.streams)]
    which = np.where(without_negative(plan) & (not plan.labelled), 0, plan.streams + 1)
    return text_column(reasons).take(column(which))


def _parsed(name: str, samples: Samples) -> pa.Array:
    return (samples.parsed or {})[name]


def _detail(name: str, slot: int, samples: Samples) -> pa.Array:
    return samples.of_slot(samples.details[name].combine_chunks(), slot)


def _prefix(name: str, slot: int, samples: Samples) -> pa.Array:
    if samples.prefixed is None:  # no text has any
        size = len(samples.plan)
        return pa.array([[]] * size, META_TYPE) if name == "meta" else pa.nulls(size, pa.string())
    return samples.of_slot(getattr(samples.prefixed, name), slot)


_OF_SAMPLES = {
    "labels": _Column(_labels, _LISTS, _LISTS),
    "scores": _Column(_scores, _LISTS, _LISTS),
    "documents_by": _Column(partial(_of_documents, _document_by), _LISTS),
    "label": _Column(lambda samples: samples.plan.labels, ("labelled_pairs",), ("labelled_pairs",)),
    "reason": _Column(_reason, ("labelled_pairs",), ("labelled_pairs",)),
    **{
        name: _Column(partial(_parsed, name), ("messages",))
        for name in ("rejected_messages", "messages_json", "rejected_messages_json")
    },
    "weight": _Column(_weight, by_default=_ALL),
    "instruction": _Column(lambda samples: samples.by_stream("recipe.instruction"), _ALL, _ALL),
    "recipe": _Column(lambda samples: samples.by_stream("recipe.name"), _ALL, _ALL),
    "source": _Column(lambda samples: samples.by_stream("source"), _ALL, _ALL),
    "position": _Column(lambda samples: samples.plan.positions),
    "padded": _Column(lambda samples: samples.plan.positions >= samples.padded_from),
    "swapped": _Column(lambda samples: samples.plan.swapped, _PAIRED),
    "positive_label": _Column(_positive_label, _PAIRED),
}
_OF_RECORDS = ("record_id", "trust", "date", "meta")
OF_TEXTS: dict[str, Callable[[int, Samples], pa.Array]] = {
    **{
        name: partial(_detail, name)
        for name in (
            *("record_id", "section", "heading", "window", "tokens", "trust", "date", "meta"),
            *("kind", "overlap", "start", "length", "start_ratio"),
        )
    },
    "prefix": partial(_prefix, "lines"),
    "prefix_meta": partial(_prefix, "meta"),
}


_SLOTS: dict[str, tuple[str, ...]] = {
    "messages": ("messages",),
    "texts": ("text",),
    "labelled_pairs": ("anchor", "other"),
    "pairs": ("anchor", "positive"),
    "lists": ("anchor", "documents"),
}


def slot_names(kind: str, negatives: int) -> list[str]:
    """Return the text columns of a kind of sample, in order."""
    numbers = [""] if negatives == 1 else [f"_{i + 1}" for i in range(negatives)]
    default = ("anchor", "positive", *(f"negative{i}" for i in numbers))
    return [*_SLOTS.get(kind, default)]


def default_columns(kind: str, negatives: int, also: Collection[str] = ()) -> list[str]:
    """Return the default columns of a batch, with columns of ``also`` that the kind has."""
    found = slot_names(kind, negatives)
    for name, made in _OF_SAMPLES.items():
        if kind in made.by_default or (name in also and kind in made.kinds):
            found.append(name)
    return found


def known_columns(kind: str, negatives: int) -> dict[str, Make | None]:
    """Return all columns of a kind and how to make each; None if the block contains it."""
    slots = slot_names(kind, negatives)
    found: dict[str, Make | None] = dict.fromkeys(slots)
    found |= {name: made.make for name, made in _OF_SAMPLES.items() if kind in made.kinds}
    if kind == "messages":
        return found | {name: partial(_detail, name, 0) for name in _OF_RECORDS}
    for number, slot in enumerate(slots):
        if slot == "documents":
            found |= {f"{slot}_{n}": partial(_of_documents, make) for n, make in OF_TEXTS.items()}
            continue
        found |= {f"{slot}_{name}": partial(make, number) for name, make in OF_TEXTS.items()}
        found[f"{slot}{VECTOR}"] = None
    return found | negative_columns(kind, negatives)


def checked_columns(
    columns: Sequence[str] | None, kind: str, negatives: int, also: Collection[str] = ()
) -> list[str]:
    """Return the checked columns of a batch, in order; by default ``default_columns``."""
    if columns is None:
        return default_columns(kind, negatives, also)
    known = known_columns(kind, negatives)
    if isinstance(columns, str):
        columns = [columns]
    for wanted in columns:
        base, _, name = wanted.partition(":")
        is_of_set = bool(name) and base.endswith(VECTOR)  # ``anchor_vector:NAME``
        if (base if is_of_set else wanted) not in known:
            first = wanted.replace("negative", "negative_1", 1)  # if a sample has several
            hint = f" (did you mean {first!r}?)" if first in known else nearest(wanted, known)
            if kind == "pairs" and wanted in ("other", "label", "reason"):
                hint = "; kind='labelled_pairs' has it"
            raise SamplerError(
                f"columns: {kind} have no {shown(wanted, 40)!r}{hint}; there are {listed(known, 6)}"
            )
    return list(dict.fromkeys(columns))


def parts_of(slot: str, kind: str, negatives: int, *, swap: bool) -> set[str]:
    """Return the parts of pools, such as ``anchors``, from which a slot is drawn."""
    slots = slot_names(kind, negatives)
    at = slots.index(slot)
    parts = {("anchors", "positives", "negatives")[min(at, 2)]}
    if kind == "labelled_pairs" and at == 1:
        parts = {"positives", "negatives"}
    if swap and at < 2 and len(slots) > 1:  # swapped
        parts |= {"anchors", "positives"}
    return parts


def needs_scores(columns: Collection[str]) -> bool:
    """Return whether a column is a score."""
    return "scores" in columns or any(
        name.startswith(("negative_", "positive_")) and name.endswith("_score") for name in columns
    )


def negative_columns(kind: str, negatives: int) -> dict[str, Make]:
    """Return the columns about origins of negatives; ``negative_by`` is the worst origin."""
    if kind in (*SINGLE, "pairs"):
        return {}
    if kind == "lists":
        return {"negative_by": _worst}
    slots = slot_names("triplets", 1 if kind == "labelled_pairs" else negatives)[2:]
    found: dict[str, Make] = {"negative_by": _worst, "positive_score": _positive_score}
    for number, slot in enumerate(slots):
        for name, make in _OF_NEGATIVES.items():
            found.setdefault(f"{slot}_{name}", partial(make, number))
    return found


def _worst(samples: Samples) -> pa.Array:
    slots = range(1 if samples.plan.candidates is None else len(samples.plan.candidates))
    return _named(np.max([_origins(slot, samples) for slot in slots], axis=0), samples)


def _by(slot: int, samples: Samples) -> pa.Array:
    return _named(_origins(slot, samples), samples)


def _score(slot: int, samples: Samples) -> pa.Array:
    scores = np.full(len(samples.plan), np.nan)
    for _, rows, candidates, drawn in _mined(slot, samples):
        if candidates.scores is not None:
            scores[rows] = candidates.scores[drawn]
    return pa.array(scores, pa.float64(), from_pandas=True)


def _positive_score(samples: Samples) -> pa.Array:
    """Return the positive's score by the scorer of the first mined negative."""
    scores = np.full(len(samples.plan), np.nan)
    for slot in range(
        0 if samples.plan.candidates is None else len(samples.plan.candidates) - 1, -1, -1
    ):
        for _, rows, candidates, drawn in _mined(slot, samples):
            scores[rows] = candidates.positive(drawn)
    return pa.array(scores, pa.float64(), from_pandas=True)


def _rank(slot: int, samples: Samples) -> pa.Array:
    ranks = np.zeros(len(samples.plan), dtype=np.int64)
    for _, rows, candidates, drawn in _mined(slot, samples):
        ranks[rows] = candidates.rank(drawn)
    return pa.array(ranks, pa.int64(), mask=ranks == 0)


_OF_NEGATIVES = {"by": _by, "score": _score, "rank": _rank}


def fallbacks(plan: Plan, streams: Sequence[Stream]) -> Integers:
    """Return the number of fallback negatives of each sample."""
    counts = np.zeros(len(plan), dtype=np.int64)
    for origins in () if plan.candidates is None else plan.candidates:
        for number, stream in enumerate(streams):
            if stream.has_fallbacks:
                rows = np.flatnonzero(plan.streams == number)
                counts[rows] += np.isin(origins[rows], LACKING)
    counts[without_negative(plan)] = 0
    return counts


def _mined(slot: int, samples: Samples) -> Iterator[tuple[Stream, Integers, Candidates, Integers]]:
    """Yield stream, samples, candidates and their numbers, for mined negatives in a slot."""
    if samples.plan.candidates is None:
        return
    origins = samples.plan.candidates[slot]
    for number, stream in enumerate(samples.streams):
        for one in stream.candidates:
            within = (origins >= one.first) & (origins < one.first + len(one))
            rows = np.flatnonzero((samples.plan.streams == number) & within)
            yield stream, rows, one, origins[rows] - one.first


def _fallback(stream: Stream) -> str:
    """Return the origin of a random negative that replaces a missing candidate."""
    scorers = [one.scorer for one in stream.candidates]
    if not scorers:
        return "random"
    return f"{scorers[0] if len(scorers) == 1 else 'mined'}_fallback"


def _origins(slot: int, samples: Samples) -> Integers:
    """Return the index in ``Samples.origins`` of every sample."""
    plan, codes = samples.plan, np.zeros(len(samples.plan), np.int64)
    if plan.candidates is not None:
        for number, stream in enumerate(samples.streams):
            rows = np.flatnonzero(plan.streams == number)
            origins = plan.candidates[slot][rows]
            own = "given" if stream.pool.compiled.fills_up else "same_record"
            last, code = len(samples.origins) - 1, samples.origins.index
            by_origin = {0: 0, AT_RANDOM: code(_fallback(stream)), BY_CHANCE: code("random")}
            by_origin |= {FROM_SPLIT: last, OWN: code(own), FILLED: last - 1}
            table = np.array([by_origin[-number] for number in range(len(by_origin))])
            codes[rows] = table[np.maximum(-origins, 0)]
        for _, rows, one, _ in _mined(slot, samples):
            codes[rows] = samples.origins.index(one.scorer)
    codes[without_negative(plan)] = 0
    return codes


def _named(codes: Integers, samples: Samples) -> pa.Array:
    return text_column(samples.origins).take(column(codes))
