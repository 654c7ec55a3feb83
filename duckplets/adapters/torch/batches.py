"""Hand batches from workers to who trains: as Arrow, made into lists and tensors over there.

    worker: Batch ─HandedOver→ Arrow IPC ─the DataLoader's queue→ who trains: WholeBatch

A DataLoader goes through every string of a dict or a list that a worker yields, which takes longer
than all else; what is neither it passes over. A tensor would go by shared memory, with a connection
to the worker for each, so numbers go as Arrow too.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Sequence, ValuesView
from typing import Any, NoReturn

import pyarrow as pa
import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from duckplets.base.columns import numbers_of, packed, unpacked
from duckplets.errors import SamplerError
from duckplets.runs.sampler import Sampler
from duckplets.samples.batch import Batch

_LATER = object()  # stands for a column that nobody has asked for


class WholeBatch(dict[str, Any]):
    """A batch as a dict, which makes a list or a tensor of a column when it is asked for.

    A DataLoader may not make batches of it.
    """

    __slots__ = ("_batch",)

    _batch: Batch

    @classmethod
    def of(cls, batch: Batch) -> WholeBatch:
        """Return a batch as such a dict."""
        made = cls(dict.fromkeys(batch.keys(), _LATER), step=batch.step)
        made._batch = batch
        return made

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is _LATER:
            value = self[key] = _values(self._batch, key)
        return value

    def _all(self) -> dict[str, Any]:
        """Make what is left, and return a dict that nothing is left to make of."""
        return {key: self[key] for key in self}

    # The methods of a dict read its values by none of ours, so each that tells values is here.

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # a dict that has its own is copied key by key: f(**batch)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a column, or something else if there is none."""
        value = super().get(key, default)
        return self[key] if value is _LATER else value

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return all columns with their names."""
        self._all()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return all columns."""
        self._all()
        return super().values()

    def pop(self, key: str, *default: Any) -> Any:
        """Take a column out."""
        self.get(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Take the last column out."""
        self._all()
        return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a column, which is added if there is none."""
        self.get(key)
        return super().setdefault(key, default)

    def copy(self) -> dict[str, Any]:
        """Return a plain dict of the same columns."""
        return self._all()

    def __or__(self, other: Any) -> Any:
        return self._all() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, WholeBatch) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return WholeBatch, (self._all(),)

    def pin_memory(self) -> WholeBatch:
        """Return the batch with its tensors in memory that is pinned; a DataLoader asks for it."""
        return WholeBatch(
            {k: v.pin_memory() if isinstance(v, torch.Tensor) else v for k, v in self.items()}
        )


class HandedOver:
    """A batch that a worker yields: it arrives as a dict.

    A ``collate_fn``, which runs in the worker, may use it as the dict that it will be.

    Args:
        batch: Of the sampler.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._opened: WholeBatch | None = None
        self._rows = batch.table  # gathered now: what pickles it is another thread, and later

    @property
    def _dict(self) -> WholeBatch:
        if self._opened is None:
            self._opened = WholeBatch.of(self._batch)
        return self._opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dict, name)

    def __getitem__(self, key: str) -> Any:
        return self._dict[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._dict[key] = value

    def __delitem__(self, key: str) -> None:
        del self._dict[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict)

    def __contains__(self, key: object) -> bool:
        return key in self._dict

    def __len__(self) -> int:
        return len(self._dict)

    def __eq__(self, other: object) -> bool:
        return self._dict == (other._dict if isinstance(other, HandedOver) else other)

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        return self._dict | other

    def __ror__(self, other: Any) -> Any:
        return other | self._dict

    def __repr__(self) -> str:
        return repr(self._dict)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opened is not None:  # and changed, perhaps
            return self._opened.__reduce_ex__(2)
        return _arrived, (*packed(self._rows), self._batch.step, self._batch.position)


def _arrived(schema: bytes, rows: list[bytes], step: int, position: int) -> WholeBatch:
    return WholeBatch.of(Batch(unpacked(schema, rows), step, position))


class Batches(Iterator[Any]):
    """One iteration. At its end, or when it is dropped, nothing of it stays open."""

    def __init__(self, sampler: Sampler, stands: dict[str, Any], *, hands_over: bool) -> None:
        self._sampler = sampler
        self._stands = stands
        self._hands_over = hands_over

    def __next__(self) -> WholeBatch | HandedOver:
        try:
            batch = next(self._sampler)
        except BaseException:
            self._sampler.close()
            raise
        self._stands["position"] = self._sampler.position
        return HandedOver(batch) if self._hands_over else WholeBatch.of(batch)


def _values(batch: Batch, name: str) -> Any:
    """Return a column as a tensor if it is of numbers, else as a list."""
    column = batch.column(name)
    if pa.types.is_fixed_size_list(column.type) and len(column):
        # Arrow hands its memory over as it is: these are vectors, and a batch has its own.
        return torch.from_dlpack(numbers_of(column)).view(len(column), -1)
    if pa.types.is_integer(column.type):
        column = column.fill_null(-1)
    elif not (pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        return batch[name]
    numbers = column.to_numpy(zero_copy_only=False)
    return torch.from_numpy(numbers.copy())  # Arrow's own memory is read-only


def _refuse_to_collate(batches: Sequence[Any], **_: Any) -> NoReturn:
    raise SamplerError(
        f"SamplerDataset yields whole batches, and this DataLoader makes batches of "
        f"{len(batches)} of them: give it batch_size=None, as in DataLoader(dataset, "
        f"batch_size=None), and the size to SamplerDataset(…, batch_size=…)"
    )


# How torch is told of types that it does not know (torch.utils.data.default_collate says it).
default_collate_fn_map.update(dict.fromkeys((WholeBatch, HandedOver), _refuse_to_collate))
