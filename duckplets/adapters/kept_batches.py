"""Keep the batches of a stored data set in a trainer of sentence-transformers."""

# The class is in a module because a checkpoint pickles the trainer's arguments.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sentence_transformers.base.sampler import DefaultBatchSampler

from duckplets.base.checks import integer
from duckplets.errors import SamplerError


class KeptBatches(DefaultBatchSampler):
    """Yield consecutive rows, one batch of the run each; see ``huggingface.hf_batch_sampler``."""

    def __init__(
        self, dataset: Any, batch_size: int, drop_last: bool, *, of_run: int, **others: Any
    ) -> None:
        if batch_size != of_run:
            raise SamplerError(
                f"the trainer's batch size is {batch_size}, and the run's is {of_run}: set "
                f"per_device_train_batch_size={of_run}, or open the sampler with "
                f"batch_size={batch_size}"
            )
        super().__init__(dataset, batch_size=batch_size, drop_last=drop_last, **others)
        self._rows, self._size = len(dataset), of_run
        self._first = 0

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self._first, len(self)):
            start = step * self._size
            yield list(range(start, min(start + self._size, self._rows)))

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self._rows // self._size if self.drop_last else -(-self._rows // self._size)

    def set_epoch(self, epoch: int) -> None:
        """Start another epoch with its first batch."""
        if epoch != self.epoch:
            self._first = 0
        super().set_epoch(epoch)

    def seek(self, step: int) -> None:
        """Start this epoch with a later batch of the dataset."""
        self._first = integer("step", step, 0, len(self))
