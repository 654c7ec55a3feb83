"""Clean the sections of new records with preprocessors before they are stored.

sections (role, heading, text) ─clean→ (role, heading, text or null, original where changed)

The decision that matters: a dropped section stays in its record's list with a null text. So the
others keep their positions, and position 0 remains the anchor. The original is stored: ``chunk``
can clean a corpus with other settings without its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.errors import ChunkingError
from duckplets.sources.values import is_utf8
from duckplets.text.chunking import Chunking
from duckplets.text.preprocessors import (
    REGISTRY,
    AnyPreprocessor,
    Cleaner,
    Preprocessor,
    name_of,
)

NOTHING_LEFT = "nothing left after preprocessing"


class Cleaned(NamedTuple):
    """Texts after preprocessing, arrays of strings."""

    text: pa.Array  # null if nothing is left
    original: pa.Array  # the original, if it differs; else null
    dropped: pa.Array  # reason naming the preprocessor; null if a text is left


def preprocess(batch: pa.RecordBatch, chunking: Chunking) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Clean the sections of rows, and count dropped ones by reason.

    Sections get the fields ``original``, the text before a change, and ``dropped``, the reason. A
    row without remaining text gets a ``skip``. Ids and hashes follow from the original content.
    Rows that were cleaned before pass unchanged.
    """
    if not chunking.preprocessors:
        return batch, {}
    sections = batch["sections"]
    if is_cleaned(batch):
        return batch, _dropped(sections)
    row = pc.list_parent_indices(sections).to_numpy(zero_copy_only=False)
    flat = sections.flatten()
    usable = pc.is_null(batch["skip"]).to_numpy(zero_copy_only=False)[row]
    texts = flat.field("text")
    places = np.flatnonzero(usable)

    def label(at: int) -> str:
        place = int(places[at])
        position = place - int(np.searchsorted(row, row[place]))
        record = batch.slice(int(row[place]), 1)
        return f"record {record['key'][0]} (row {record['row'][0]}), section {position}"

    mask, nothing = pa.array(usable), pa.nulls(len(texts), texts.type)
    found = clean(texts.filter(mask), chunking.preprocessors, label)
    fields = {name: flat.field(name) for name in ("role", "heading")}
    for name, before in (("text", texts), ("original", nothing), ("dropped", nothing)):
        fields[name] = pc.replace_with_mask(before, mask, getattr(found, name))
    left = np.bincount(row, fields["text"].is_valid(), minlength=batch.num_rows)
    sections = lists_like(sections, fields)
    empty = pa.array((left == 0) & (np.bincount(row, usable, minlength=batch.num_rows) > 0))
    skip = pc.if_else(empty, pa.scalar(NOTHING_LEFT), batch["skip"])
    names = batch.schema.names
    batch = batch.set_column(names.index("sections"), "sections", sections)
    return batch.set_column(names.index("skip"), "skip", skip), _dropped(sections)


def is_cleaned(batch: pa.RecordBatch) -> bool:
    """Return whether rows went through ``preprocess``, perhaps in another process."""
    return bool(batch.schema.field("sections").type.value_type.get_field_index("original") >= 0)


def _dropped(sections: pa.ListArray) -> dict[str, int]:
    """Count dropped sections by reason."""
    reasons = sections.flatten().field("dropped").drop_null()
    return {pair["values"]: pair["counts"] for pair in pc.value_counts(reasons).to_pylist()}


def clean(
    texts: pa.Array,
    preprocessors: Sequence[AnyPreprocessor],
    label: Callable[[int], str],
) -> Cleaned:
    """Apply preprocessors in order; ``label`` names a text by index in errors."""
    cleaned, dropped = texts, pa.nulls(len(texts), pa.string())
    for preprocessor in preprocessors:
        before = cleaned
        if isinstance(preprocessor, Preprocessor):
            cleaned = _called(cleaned, preprocessor, label)
        else:
            cleaned = preprocessor.apply(cleaned)
        if cleaned.null_count > before.null_count:
            gone = pc.and_(pc.is_null(cleaned), pc.is_valid(before))
            dropped = pc.if_else(gone, f"section dropped by {name_of(preprocessor)}", dropped)
    same = pc.fill_null(pc.equal(cleaned, texts), False).to_numpy(zero_copy_only=False)
    original = texts.take(pa.array(np.arange(len(texts)), mask=same))
    return Cleaned(cleaned, original, dropped)


def _called(texts: pa.Array, preprocessor: Preprocessor, label: Callable[[int], str]) -> pa.Array:
    """Apply a function to every text; blank results are dropped."""
    name = preprocessor.name
    function = REGISTRY.find(name, preprocessor.version)
    originals = texts.to_pylist()
    cleaned = [
        None if text is None else _call(function, text, name, label, at)
        for at, text in enumerate(originals)
    ]
    try:
        return pa.array(cleaned, texts.type)
    except UnicodeEncodeError:
        at = next(i for i, text in enumerate(cleaned) if text and not is_utf8(text))
        raise ChunkingError(
            f"preprocessor {name!r} returned half a surrogate pair for {label(at)}: {cleaned[at]!r}"
        ) from None


def _call(
    function: Cleaner, text: str, name: str, label: Callable[[int], str], at: int
) -> str | None:
    try:
        cleaned = function(text)
    except Exception as error:
        raise ChunkingError(
            f"preprocessor {name!r} failed on {label(at)}: {type(error).__name__}: {error}; "
            f"nothing was stored"
        ) from error
    if cleaned is not None and not isinstance(cleaned, str):
        raise ChunkingError(
            f"preprocessor {name!r} returned {type(cleaned).__name__} for {label(at)}: expected "
            f"a text or None"
        )
    return cleaned if cleaned and not cleaned.isspace() else None


def lists_like(like: pa.ListArray, fields: dict[str, pa.Array]) -> pa.ListArray:
    """Return structs in lists with the lengths of others."""
    lengths = pc.fill_null(pc.list_value_length(like), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(like) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    values = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pc.is_null(like))
