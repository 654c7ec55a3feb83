"""Records by number: indexes of a corpus, their order, and samplers over them."""

from __future__ import annotations

from duckplets.order.copies import IndexControls
from duckplets.records.data_index import DataIndex
from duckplets.records.order import (
    IndexOrder,
    IndexSampler,
    RecordMetadata,
    SequentialSampler,
    ShardOptions,
)

__all__ = [
    "DataIndex",
    "IndexControls",
    "IndexOrder",
    "IndexSampler",
    "RecordMetadata",
    "SequentialSampler",
    "ShardOptions",
]
