"""Columns of a batch: names, kinds of samples that have them, and how each is made."""

# To add one, add a line to ``_OF_SAMPLES`` (one per sample), ``OF_TEXTS`` (one per text) or
# ``_OF_NEGATIVES``. Columns that ``sql/samples/fetch`` selects need their name only.

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
    streams: Sequence[Stream]  # streams the plan refers to
    slots: Sequence[str]  # the text columns, in order
    texts: ChunkTexts  # texts of all chunks of the corpus
    # Returns further facts about chunks, or records of conversations: a row a key.
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
        """Possible origins of negatives, the worst of which names a sample's: fallbacks last."""
        mined = {of.scorer for stream in self.streams for of in stream.candidates}
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
        """Of lists where each begins, and the end; and of each document its index in ``keys``."""
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

    def by_stream(self, texts: Iterable[str | None]) -> pa.Array:
        """Return for every sample the text of its stream."""
        return text_column([*texts]).take(column(self.plan.streams))

    def proximity(self) -> Floats:
        """Return 1/distance of the windows of anchor and positive in one section, else NaN."""
        found = np.full(len(self.plan), np.nan)
        if len(self.slots) > 1:
            keys = self.plan.chunks[:2].reshape(-1)
            of = self.texts.columns(["section_key", "window_index"], keys)
            sections, windows = (values.reshape(2, -1) for values in of.values())
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


def _weight(of: Samples) -> Floats:
    """Recipe weight × mean over slots of trust × position (× proximity), as specified."""
    weights = of.texts.columns(["weight"], of.keys)["weight"].reshape(of.plan.chunks.shape)
    if len(of.slots) > 1:
        weights[:2] *= np.nan_to_num(of.proximity(), nan=1.0)
    by_recipe, present = np.array([s.recipe.weight for s in of.streams]), of.plan.present
    means = np.mean(weights, axis=0, where=True if present is None else present)
    product: Floats = means * by_recipe[of.plan.streams]
    return product


def _positive_label(of: Samples) -> pa.Array:
    """Return the label of each sample's positive; null for a pair with a negative."""
    plan = of.plan
    anchors, positives = np.where(plan.swapped, plan.chunks[1::-1], plan.chunks[:2])
    labels = of.look_up_labels(anchors, positives, plan.streams)
    if plan.labels is None or plan.given:
        return labels
    return pc.if_else(pa.array(plan.labels == 0), None, labels)


def _labels(of: Samples) -> pa.Array:
    """Return the labels of documents; without one 1 for a positive and 0 for a negative."""
    plan, (_, places) = of.plan, of.documents
    slots, samples = np.divmod(places, len(plan))
    asked = of.look_up_labels(plan.chunks[0, samples], of.keys[places], plan.streams[samples])
    found = asked.to_numpy(zero_copy_only=False)
    drawn = slots >= of.first_negative
    found = np.where(np.isnan(found), ~drawn, found)
    found[drawn] = np.minimum(found[drawn], 0)  # the label of a record is its positive's
    return of.lists(column(found))


def _scores(of: Samples) -> pa.Array:
    """Return the scores of documents by what mined the negatives of their list."""
    plan, size = of.plan, len(of.plan)
    found = np.full(plan.chunks.shape, np.nan)
    _, places = of.documents
    slots, samples = np.divmod(places, size)
    by = np.full(size, -1)  # of each sample which of its stream's candidates
    for number, stream in enumerate(of.streams):
        if len(stream.candidates) == 1:
            by[plan.streams == number] = 0
    for slot in range(len(plan.chunks) - of.first_negative):
        for stream, rows, one, drawn in _mined(slot, of):
            by[rows] = stream.candidates.index(one)
            if one.scores is not None:
                found[of.first_negative + slot, rows] = one.scores[drawn]
    for number, stream in enumerate(of.streams):
        for which, files in enumerate(stream.ranked):
            mine = (plan.streams == number) & (by == which)
            at = np.flatnonzero(mine[samples] & (slots < of.first_negative))
            asked = plan.chunks[0, samples[at]], of.keys[places[at]]
            found[slots[at], samples[at]] = of.look_up_scores(*asked, files)
    values = pa.array(found.reshape(-1), pa.float64(), from_pandas=True)
    return of.lists(values.take(column(places)))


def _of_documents(make: Callable[[int, Samples], pa.Array], of: Samples) -> pa.Array:
    """Return a column of each document."""
    slots = [make(slot, of) for slot in range(len(of.plan.chunks))]
    return of.lists(pa.concat_arrays(slots).take(column(of.documents[1])))


def _origins_of_documents(of: Samples) -> pa.Array:
    """Return the origin of each negative among documents; null for positives."""
    positives = [pa.nulls(len(of.plan), pa.string())] * of.first_negative
    drawn = range(len(of.plan.chunks) - of.first_negative)
    negatives = [_by(slot, of).cast(pa.string()) for slot in drawn]
    return of.lists(pa.concat_arrays(positives + negatives).take(column(of.documents[1])))


def _reason(of: Samples) -> pa.Array:
    def reason(recipe: Any) -> str:
        if isinstance(recipe, TripletRecipe):
            return "sql" if isinstance(recipe.strategy, SqlStrategy) else str(recipe.strategy)
        return ""

    plan = of.plan
    reasons = [None, *("given" if plan.given else reason(s.recipe) for s in of.streams)]
    which = np.where(without_negative(plan) & (not plan.given), 0, plan.streams + 1)
    return text_column(reasons).take(column(which))


def _parsed(name: str, of: Samples) -> pa.Array:
    return (of.parsed or {})[name]


def _detail(name: str, slot: int, of: Samples) -> pa.Array:
    return of.of_slot(of.details[name].combine_chunks(), slot)


def _prefix(name: str, slot: int, of: Samples) -> pa.Array:
    if of.prefixed is None:  # no text has any
        size = len(of.plan)
        return pa.array([[]] * size, META_TYPE) if name == "meta" else pa.nulls(size, pa.string())
    return of.of_slot(getattr(of.prefixed, name), slot)


_OF_SAMPLES = {
    "labels": _Column(_labels, _LISTS, _LISTS),
    "scores": _Column(_scores, _LISTS, _LISTS),
    "documents_by": _Column(_origins_of_documents, _LISTS),
    "label": _Column(lambda of: of.plan.labels, ("labelled_pairs",), ("labelled_pairs",)),
    "reason": _Column(_reason, ("labelled_pairs",), ("labelled_pairs",)),
    **{
        name: _Column(partial(_parsed, name), ("messages",))
        for name in ("rejected_messages", "messages_json", "rejected_messages_json")
    },
    "weight": _Column(_weight, by_default=_ALL),
    "instruction": _Column(
        lambda of: of.by_stream(s.recipe.instruction for s in of.streams), _ALL, _ALL
    ),
    "recipe": _Column(lambda of: of.by_stream(s.recipe.name for s in of.streams), _ALL, _ALL),
    "source": _Column(lambda of: of.by_stream(s.source for s in of.streams), _ALL, _ALL),
    "position": _Column(lambda of: of.plan.positions),
    "padded": _Column(lambda of: of.plan.positions >= of.padded_from),
    "swapped": _Column(lambda of: of.plan.swapped, _PAIRED),
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


def slot_names(kind: str, negatives: int) -> list[str]:
    """Return the text columns of a kind of sample, in order."""
    if kind == "messages":
        return ["messages"]
    if kind == "texts":
        return ["text"]
    if kind == "labelled_pairs":
        return ["anchor", "other"]
    if kind == "pairs":
        return ["anchor", "positive"]
    if kind == "lists":
        return ["anchor", "documents"]
    if negatives == 1:
        return ["anchor", "positive", "negative"]
    return ["anchor", "positive", *(f"negative_{i + 1}" for i in range(negatives))]


def default_columns(kind: str, negatives: int, also: Collection[str] = ()) -> list[str]:
    """Return the default columns of a batch; ``also``: further ones where the kind has them."""
    found = slot_names(kind, negatives)
    for name, of in _OF_SAMPLES.items():
        if kind in of.by_default or (name in also and kind in of.kinds):
            found.append(name)
    return found


def known_columns(kind: str, negatives: int) -> dict[str, Make | None]:
    """Return all columns of a kind of sample and how each is made; None if the block has it."""
    slots = slot_names(kind, negatives)
    found: dict[str, Make | None] = dict.fromkeys(slots)
    found |= {name: of.make for name, of in _OF_SAMPLES.items() if kind in of.kinds}
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
    for asked in columns:
        base, _, name = asked.partition(":")
        is_of_set = bool(name) and base.endswith(VECTOR)  # ``anchor_vector:NAME``
        if (base if is_of_set else asked) not in known:
            first = asked.replace("negative", "negative_1", 1)  # of several
            hint = f" (did you mean {first!r}?)" if first in known else nearest(asked, known)
            if kind == "pairs" and asked in ("other", "label", "reason"):
                hint = "; kind='labelled_pairs' has it"
            raise SamplerError(
                f"columns: {kind} have no {shown(asked, 40)!r}{hint}; there are {listed(known, 6)}"
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
    """Return the columns on the origin of negatives; ``negative_by`` names the worst one."""
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


def _worst(of: Samples) -> pa.Array:
    slots = range(1 if of.plan.candidates is None else len(of.plan.candidates))
    return _named(np.max([_origins(slot, of) for slot in slots], axis=0), of)


def _by(slot: int, of: Samples) -> pa.Array:
    return _named(_origins(slot, of), of)


def _score(slot: int, of: Samples) -> pa.Array:
    scores = np.full(len(of.plan), np.nan)
    for _, rows, candidates, drawn in _mined(slot, of):
        if candidates.scores is not None:
            scores[rows] = candidates.scores[drawn]
    return pa.array(scores, pa.float64(), from_pandas=True)


def _positive_score(of: Samples) -> pa.Array:
    """Return the positive's score by what ranked the first mined negative."""
    scores = np.full(len(of.plan), np.nan)
    for slot in range(0 if of.plan.candidates is None else len(of.plan.candidates) - 1, -1, -1):
        for _, rows, candidates, drawn in _mined(slot, of):
            scores[rows] = candidates.positive(drawn)
    return pa.array(scores, pa.float64(), from_pandas=True)


def _rank(slot: int, of: Samples) -> pa.Array:
    ranks = np.zeros(len(of.plan), dtype=np.int64)
    for _, rows, candidates, drawn in _mined(slot, of):
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


def _mined(slot: int, of: Samples) -> Iterator[tuple[Stream, Integers, Candidates, Integers]]:
    """Yield the samples with a mined negative by scorer: which, candidates and their numbers."""
    if of.plan.candidates is None:
        return
    origins = of.plan.candidates[slot]
    for number, stream in enumerate(of.streams):
        for one in stream.candidates:
            within = (origins >= one.first) & (origins < one.first + len(one))
            rows = np.flatnonzero((of.plan.streams == number) & within)
            yield stream, rows, one, origins[rows] - one.first


def _fallback(stream: Stream) -> str:
    """Return the name of a random negative drawn for want of a candidate."""
    scorers = [of.scorer for of in stream.candidates]
    if not scorers:
        return "random"
    return f"{scorers[0] if len(scorers) == 1 else 'mined'}_fallback"


def _origins(slot: int, of: Samples) -> Integers:
    """Return the index in ``Samples.origins`` of every sample."""
    plan, codes = of.plan, np.zeros(len(of.plan), np.int64)
    if plan.candidates is not None:
        for number, stream in enumerate(of.streams):
            rows = np.flatnonzero(plan.streams == number)
            origins = plan.candidates[slot][rows]
            own = "given" if stream.pool.compiled.fills_up else "same_record"
            last, code = len(of.origins) - 1, of.origins.index
            by_origin = {0: 0, AT_RANDOM: code(_fallback(stream)), BY_CHANCE: code("random")}
            by_origin |= {FROM_SPLIT: last, OWN: code(own), FILLED: last - 1}
            table = np.array([by_origin[-number] for number in range(len(by_origin))])
            codes[rows] = table[np.maximum(-origins, 0)]
        for _, rows, one, _ in _mined(slot, of):
            codes[rows] = of.origins.index(one.scorer)
    codes[without_negative(plan)] = 0
    return codes


def _named(codes: Integers, of: Samples) -> pa.Array:
    return text_column(of.origins).take(column(codes))
