"""DataLoaders of whole batches, and views of what they yield."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

Batches = list[dict[str, Any]]


def loader(dataset: Any, workers: int = 0, **options: Any) -> Any:
    return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, **options)


def plain(batches: Iterable[dict[str, Any]]) -> Batches:
    """Turn tensors into lists, so that batches can be compared."""
    return [
        {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        for batch in batches
    ]


def steps(batches: Iterable[dict[str, Any]]) -> list[int]:
    return [batch["step"] for batch in batches]


def anchors(batches: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [batch["anchor"] for batch in batches]


def assert_refused(loader: Any, error: type[Exception], match: str) -> None:
    """Check that a loader raises before its first batch.

    Left to the garbage collector, as happens after an exception, torch 2.13 waits five seconds
    for each worker.
    """
    if not loader.num_workers:
        with pytest.raises(error, match=match):
            next(iter(loader))
        return
    batches = iter(loader)
    with pytest.raises(error, match=match):
        next(batches)
    batches._shutdown_workers()
