"""Put lines before texts, and cut texts that are too long for a window."""

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
    """Put lines before texts, and cut texts and lines to the length of a window."""
    whole = pc.binary_join_element_wise(lines, texts, "\n", null_handling="skip")
    size = pc.binary_length(lines).fill_null(0).to_numpy(zero_copy_only=False)
    most = tokens + (size + 1) // 2
    if chunking.tokenizer is not None:
        most = tokens * 5 // 4 + 16 + size
    mask = (size > 0) & (most > chunking.max_tokens)
    if not mask.any():
        return whole, lines
    cut, heads = _cut(whole.filter(pa.array(mask)), chunking), lines.filter(pa.array(mask))
    heads = pc.if_else(pc.less(pc.binary_length(cut), pc.binary_length(heads)), cut, heads)
    return pc.replace_with_mask(whole, mask, cut), pc.replace_with_mask(lines, mask, heads)


def _cut(texts: pa.Array, chunking: Chunking) -> pa.Array:
    """Cut texts at the end of their first window; they do not begin with white space."""
    found = windows(texts, replace(chunking, overlap=(0,), summary_tokens=0))[1]
    first = np.searchsorted(found.section, np.arange(len(texts)))
    ends = (found.start[first] + found.length[first]).tolist()
    cut = [text[:end] for text, end in zip(texts.to_pylist(), ends, strict=True)]
    return pa.array(cut, texts.type)
