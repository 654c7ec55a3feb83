"""Measures of samples."""

from __future__ import annotations

from duckplets.runs.metrics import lexical_similarity, source_skew

__all__ = [
    "lexical_similarity",
    "source_skew",
]
