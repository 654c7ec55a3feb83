"""Move batches from workers to the trainer as Arrow; the trainer makes lists and tensors."""

# A DataLoader walks through every string of a dict or list, which is the slowest part. A tensor
# needs a connection to the worker, so numbers are Arrow too.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import pyarrow as pa
import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from duckplets.base.columns import numbers_of, packed, unpacked
from duckplets.errors import SamplerError
from duckplets.runs.sampler import Sampler
from duckplets.samples.batch import Batch


class WholeBatch(dict[str, Any]):
    """A batch as a dict of lists and tensors. A DataLoader must not batch it again."""

    @classmethod
    def of(cls, batch: Batch) -> WholeBatch:
        """Return a batch as a dict."""
        names = batch.keys()
        return cls({name: _values(batch, name) for name in names}, step=batch.step)

    def pin_memory(self) -> WholeBatch:
        """Return the batch with tensors in pinned memory; a DataLoader calls it."""
        return WholeBatch(
            {k: v.pin_memory() if isinstance(v, torch.Tensor) else v for k, v in self.items()}
        )


class HandedOver:
    """A batch of a worker; it arrives as a dict, and a ``collate_fn`` may read it."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._rows = batch.table  # gathered now: another thread pickles it later

    @cached_property
    def _dict(self) -> WholeBatch:
        return WholeBatch.of(self._batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dict, name)

    def __getitem__(self, key: str) -> Any:
        return self._dict[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict)

    def __contains__(self, key: object) -> bool:
        return key in self._dict

    def __len__(self) -> int:
        return len(self._dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (*packed(self._rows), self._batch.step, self._batch.position)


def _arrived(schema: bytes, rows: list[bytes], step: int, position: int) -> WholeBatch:
    return WholeBatch.of(Batch(unpacked(schema, rows), step, position))


class Batches(Iterator[Any]):
    """One iteration; it closes its sampler at the end, and when it is deleted."""

    def __init__(self, sampler: Sampler, state: dict[str, Any], *, hands_over: bool) -> None:
        self._sampler = sampler
        self._state = state
        self._hands_over = hands_over

    def __next__(self) -> WholeBatch | HandedOver:
        try:
            batch = next(self._sampler)
        except BaseException:
            self._sampler.close()
            raise
        self._state["position"] = self._sampler.position
        return HandedOver(batch) if self._hands_over else WholeBatch.of(batch)


def _values(batch: Batch, name: str) -> Any:
    """Return a column of numbers as a tensor, another column as a list."""
    column = batch.column(name)
    if pa.types.is_fixed_size_list(column.type) and len(column):
        # Vectors need no copy: each batch has its own Arrow memory.
        return torch.from_dlpack(numbers_of(column)).view(len(column), -1)
    if pa.types.is_integer(column.type):
        column = column.fill_null(-1)
    elif not (pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        return batch[name]
    numbers = column.to_numpy(zero_copy_only=False)
    return torch.from_numpy(numbers.copy())  # Arrow's own memory is read-only


def _refuse_to_collate(batches: Sequence[Any], **_: Any) -> NoReturn:
    raise SamplerError(
        f"SamplerDataset yields whole batches, and this DataLoader combines {len(batches)} of "
        f"them: use DataLoader(dataset, batch_size=None) and SamplerDataset(…, batch_size=…)"
    )


# Register types with torch, as the documentation of torch.utils.data.default_collate shows.
default_collate_fn_map.update(dict.fromkeys((WholeBatch, HandedOver), _refuse_to_collate))
