"""Fitting a prefix and its text into the window: the text gives way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows


def may_exceed(lines: pa.Array, tokens: Integers, chunking: Chunking) -> Integers:
    """Return which lines may be too long together with texts of so many tokens.

    With words that is exact. The tokens of a line and a text together are not those of each:
    a tokenizer file may cut both anew where they meet, so whatever comes within a quarter of the
    limit (and 16 tokens) is counted as it is served. A line has no more tokens than bytes.
    """
    size = pc.binary_length(lines).to_numpy(zero_copy_only=False)
    if chunking.tokenizer is not None:
        return np.flatnonzero(tokens * 5 // 4 + 16 + size > chunking.max_tokens)
    near = np.flatnonzero(tokens + (size + 1) // 2 > chunking.max_tokens)  # a word and a blank
    words = windows(lines.take(pa.array(near)), _single(chunking))[0] if len(near) else near
    return near[words + tokens[near] > chunking.max_tokens]


def fitted(texts: pa.Array, chunking: Chunking) -> pa.Array:
    """Cut what is too long after the last token that fits.

    With a tokenizer file, what was cut is counted again, and cut further while it is too long.
    """
    over, cut = _beginnings(texts, chunking.max_tokens, chunking)
    if len(over) == 0:
        return texts
    kept = texts.to_pylist()
    _put(kept, over, cut)
    for limit in range(chunking.max_tokens - 1, -1, -1):
        over = over[_too_long(kept, over, chunking)]
        if len(over) == 0:
            break
        part = texts.take(pa.array(over))
        _put(kept, over, _beginnings(part, limit, chunking)[1] if limit else [""] * len(over))
    return pa.array(kept, texts.type)


def _too_long(texts: list[str], rows: Integers, chunking: Chunking) -> np.ndarray[Any, Any]:
    """Return which of some texts are still too long: of words none, for they stay what they are."""
    if chunking.tokenizer is None:
        return np.zeros(len(rows), dtype=bool)
    again = pa.array([texts[row] for row in rows.tolist()], pa.string())
    return windows(again, _single(chunking))[0] > chunking.max_tokens


def _put(kept: list[str], rows: Integers, texts: list[str]) -> None:
    for row, text in zip(rows.tolist(), texts, strict=True):
        kept[row] = text


def _beginnings(texts: pa.Array, tokens: int, chunking: Chunking) -> tuple[Integers, list[str]]:
    """Return which texts have more than so many tokens, and the first of each of them."""
    counts, found = windows(texts, replace(_single(chunking), max_tokens=tokens))
    long = np.flatnonzero(counts > tokens)
    first = np.searchsorted(found.section, long)
    ends = (found.start[first] + found.length[first]).tolist()
    whole = texts.take(pa.array(long)).to_pylist()
    return long, [text[:end] for text, end in zip(whole, ends, strict=True)]


def _single(chunking: Chunking) -> Chunking:
    return replace(chunking, overlap=(0,), summary_tokens=0)
