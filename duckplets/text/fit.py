"""Put lines before texts, and cut what no longer fits into a window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.text.windows import windows

if TYPE_CHECKING:
    from duckplets.base.arrays import Integers
    from duckplets.text.chunking import Chunking


def with_lines(
    texts: pa.Array, lines: pa.Array, tokens: Integers, chunking: Chunking
) -> tuple[pa.Array, pa.Array]:
    """Put lines before texts, and cut what is too long: also a line, if need be."""
    whole = pc.binary_join_element_wise(lines, texts, "\n", null_handling="skip")
    size = pc.binary_length(lines).fill_null(0).to_numpy(zero_copy_only=False)
    most = tokens + (size + 1) // 2
    if chunking.tokenizer is not None:
        most = tokens * 5 // 4 + 16 + size
    there = np.flatnonzero((size > 0) & (most > chunking.max_tokens))
    if len(there) == 0:
        return whole, lines
    mask = np.zeros(len(texts), dtype=bool)
    mask[there] = True
    cut, shown = _cut(whole.take(pa.array(there)), chunking), lines.take(pa.array(there))
    shown = pc.if_else(pc.less(pc.binary_length(cut), pc.binary_length(shown)), cut, shown)
    return pc.replace_with_mask(whole, mask, cut), pc.replace_with_mask(lines, mask, shown)


def _cut(texts: pa.Array, chunking: Chunking) -> pa.Array:
    """Cut texts, of which none begins with white space, at the end of their first window."""
    found = windows(texts, replace(chunking, overlap=(0,), summary_tokens=0))[1]
    first = np.searchsorted(found.section, np.arange(len(texts)))
    ends = (found.start[first] + found.length[first]).tolist()
    cut = [text[:end] for text, end in zip(texts.to_pylist(), ends, strict=True)]
    return pa.array(cut, texts.type)
