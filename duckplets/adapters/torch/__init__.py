"""Serve a run's batches to PyTorch, as a dataset for any number of workers and ranks."""

# Every process opens the corpus itself, so a fork inherits no open file. Worker w of W takes every
# W-th batch; a DataLoader reads its workers in turn, so the order is the same as in one process.

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from weakref import ReferenceType, ref

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.corpus.corpus import Corpus
from duckplets.errors import DuckpletsError, ExtensionError, SamplerError
from duckplets.order.mixture import Mixture
from duckplets.order.ranks import RankPart
from duckplets.runs.forecast import Forecast
from duckplets.runs.metrics import Losses, checked_losses, checked_samples, mean_by_source
from duckplets.runs.sampler import Sampler
from duckplets.runs.settings import check_overrides
from duckplets.runs.state import folded, unfolded
from duckplets.tokens.dataset import TokenShards

try:
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as error:
    raise ExtensionError("duckplets.torch needs PyTorch: pip install 'duckplets[torch]'") from error

from duckplets.adapters.torch.batches import Batches
from duckplets.adapters.torch.opening import (
    MOST_PASSES,
    Pass,
    Passes,
    RunOpening,
    RunStates,
    State,
    check_arguments,
    put,
    state_of,
)

__all__ = ["SamplerDataset", "TokenDataset"]


class SamplerDataset(IterableDataset[dict[str, Any]]):
    """Yield the batches of a run, for ``DataLoader(dataset, batch_size=None, num_workers=…)``.

    A batch is a dict of the sampler's columns. Texts and names are lists of str. Numbers are
    tensors of shape (samples,), with -1 for a missing integer. ``step`` is an int. The order is the
    same for any number of workers.

    Without workers, iterate the dataset itself. A DataLoader would walk through every string of
    every batch, which is slow, unless its ``collate_fn`` returns the batch unchanged. It does not
    walk through batches of workers. A ``collate_fn`` in a worker may read the batch as a dict:
    ``{**batch, "lengths": …}``.

    Each iteration is a pass of the run's ``epochs=`` or ``steps=``, and continues with the next
    epoch. Iterate a run of ``epochs=1`` once for each epoch of a trainer. A pass of an endless run
    starts with an epoch. ``set_epoch`` and ``load_state_dict`` set the start of the next iteration.
    ``step`` counts over passes. A pass that ends within a batch ends with a short batch. For
    evaluation call ``set_epoch(0)`` before each pass to get the same samples.

    Args:
        corpus_path: The corpus file. The process that iterates the dataset opens it.
        kind: As for ``Corpus.sampler``.
        rank: Number of this rank. Default: from ``torch.distributed``, otherwise 0.
        world_size: Number of ranks. Default: from ``torch.distributed``, otherwise 1.
        memory_limit: Memory of DuckDB in each worker. Default: 1 GB for all workers of the machine
            (of ``LOCAL_WORLD_SIZE`` ranks), and at least 256 MB each.
        threads: Threads of DuckDB in each worker. Default: the cores, divided among the workers.
        arguments: Further arguments of ``Corpus.sampler``.

    Raises:
        SamplerError: ``Corpus.sampler`` has no such argument.
    """

    def __init__(
        self,
        corpus_path: str | Path,
        kind: str = "triplets",
        *,
        rank: int | None = None,
        world_size: int | None = None,
        memory_limit: str | None = None,
        threads: int | None = None,
        **arguments: Any,
    ) -> None:
        arguments, path = {"kind": kind, **arguments}, Path(corpus_path)
        how = {"memory_limit": memory_limit, "threads": threads}
        self._open_with(RunOpening(Corpus, path, arguments, rank, world_size, how))

    def _open_with(self, opening: RunOpening) -> None:
        super().__init__()
        check_arguments(type(self).__name__, opening.kind.sampler, opening.arguments)
        self._opening = opening
        self._passes = Passes()
        self._run: tuple[Pass, RunStates] | None = None
        self._current: State | None = None  # the state of this process's own iteration
        self._sampler: ReferenceType[Sampler] | None = None  # the sampler of this iteration
        self._counting: tuple[Pass, Sampler] | None = None  # counts the metrics of steps
        self._losses = Losses(first=MAX_POSITION)  # reported in this process

    @classmethod
    def resume(
        cls,
        path: str | Path,
        run: str = "default",
        tag: str | None = None,
        state: str | Path | None = None,
        *,
        allow_drift: Collection[str] = (),
        rank: int | None = None,
        world_size: int | None = None,
        **settings: Any,
    ) -> Self:
        """Return the batches of a saved run from its saved position; see ``duckplets.resume``.

        The global batch stays the same, and is divided among ``world_size`` ranks.

        Args:
            path: The corpus file, or a folder of token shards.
            run: Name of the saved run.
            tag: A named checkpoint. Default: the latest save.
            state: The state file. Default: next to the corpus.
            allow_drift: Names of fingerprint fields that may differ from the saved values.
            rank: As for the class.
            world_size: As for the class.
            settings: Arguments of the class for opening, such as ``threads``, and arguments of the
                sampler to change.
        """
        opening = {"memory_limit", "threads", "cache"} & settings.keys()
        how = {name: settings.pop(name) for name in opening}
        check_overrides(name for name in settings if name != "snapshot")
        dataset = cls(path, rank=rank, world_size=world_size, **how)
        saved = {"run": run, "tag": tag, "state": state, "allow_drift": tuple(allow_drift)}
        arguments = {**settings, **saved}
        dataset._opening = replace(dataset._opening, arguments=arguments, resumed=True)
        return dataset

    # -- iteration ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            return self._begun()
        except DuckpletsError as error:
            if get_worker_info() is None:
                raise
            return _failing(error)  # raised here it would end a persistent worker silently

    def _begun(self) -> Batches:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        due = self._passes.take(info)
        sampler = self._opening.open(workers if info else None)
        try:
            number, run = put(sampler, self._passes, due, worker, workers)
        except BaseException:
            sampler.close()
            raise
        self._run = self._passes.now, run
        self._current = state_of(sampler, worker, workers, number)
        self._sampler = ref(sampler)
        return Batches(sampler, self._current, hands_over=info is not None)

    def __len__(self) -> int:
        """Return the number of batches in a pass over a bounded run.

        It is the same for every pass. With ``no_duplicates`` or ``batch_by`` a pass may have one
        more batch: the batch at the border of two epochs is in both.

        Raises:
            TypeError: The run is endless.
        """
        return self._known_run().steps

    def __bool__(self) -> bool:
        return True  # without it Python calls __len__, which an endless run refuses

    # -- state --------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """Return the name of the run and the digest of its settings; see ``Sampler.run_id``."""
        return self._known_run().run_id

    @property
    def step(self) -> int:
        """Return the step of the first batch in this pass, from a loaded state if any."""
        run = self._known_run()
        return int(run.start["position"] // run.batch)

    def set_epoch(self, epoch: int) -> None:
        """Set the pass of the next iteration; later iterations continue from there.

        A loaded state within this pass keeps its position for the first iteration. Call it in the
        process that makes the iterators; workers see the value.

        Args:
            epoch: Number of the pass from 0, like the epoch of a trainer. With ``epochs=1`` it is
                the nominal epoch of the run.

        Raises:
            SamplerError: The number is out of range.
        """
        self._passes.ask(integer("epoch", epoch, 0, MOST_PASSES - 2))
        self._current = self._sampler = None

    def state_dict(self, step: int | None = None) -> State:
        """Return the state of the run: its ``position``, and ``run``, the rest as JSON.

        The state is the same for all ranks. Any number of ranks and workers may load it, and
        ``Sampler.load_state_dict`` too. It has no counters. It has no nested values, because
        ``torch.distributed.checkpoint`` restores only the nested values that the new process
        already has.

        Args:
            step: Step of the next batch: ``batch["step"] + 1`` of the last used batch. You can omit
                it only if this process iterates the dataset: workers are ahead of the used batch.

        Raises:
            SamplerError: The step does not exist, or is missing while workers iterate.
        """
        return folded(self._state(step))

    def _state(self, step: int | None) -> State:
        if step is not None:
            return self._known_run().at(step)
        if get_worker_info() is None and self._passes.by_workers:
            raise SamplerError(
                "state_dict(): DataLoader workers are ahead of the used batch; use "
                'state_dict(step=batch["step"] + 1), or torchdata\'s StatefulDataLoader'
            )
        return dict(self._known_run().start if self._current is None else self._current)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow_drift: Collection[str] = ()
    ) -> None:
        """Set the position of the next iteration to a saved state.

        The state is checked when the corpus is opened. The next iteration ends at the end of the
        pass of the state; later iterations continue.

        Args:
            state_dict: The state of this dataset, or of a ``Sampler`` of the same run.
            allow_drift: Names of fingerprint fields that may differ.
        """
        state = unfolded(state_dict)
        self._passes.replaced(get_worker_info(), state)
        self._passes = Passes(state, tuple(allow_drift))
        self._run = self._current = self._sampler = None
        self._stop_counting()

    def save(
        self, tag: str | None = None, path: str | Path | None = None, *, step: int | None = None
    ) -> Path:
        """Save the position of the run to its state file; see ``Sampler.save``.

        Call it on one rank. A run resumed from this save counts from 0 again.

        Args:
            tag: Name of a checkpoint to add. Default: replace the run's latest save.
            path: A new state file to write instead.
            step: As for ``state_dict``.
        """
        state = self._state(step)
        with self._opening.open() as sampler:
            put(sampler, self._passes, self._passes.now, 0, 1)
            sampler.move(state["position"])
            sampler.take_losses(self._losses)
            saved = sampler.save(tag, path)
            if path is None:
                self._losses.written(-(-sampler.position // sampler.settings.global_batch))
            return saved

    # -- metrics ------------------------------------------------------------------------------

    def metrics(self, step: int | None = None) -> dict[str, float]:
        """Return the used samples of every source, by all ranks; see ``Sampler.metrics``.

        Counting starts at the loaded state, with its counts if it came from a ``Sampler``. Without
        a loaded state it starts with the run. With a step, this process opens the run again to
        count, at two million samples a second.

        Args:
            step: Step of the next batch, ``batch["step"] + 1`` of the last used batch. You can omit
                it only if this process iterates the dataset.

        Raises:
            SamplerError: The step does not exist, or is missing while workers iterate.
        """
        taken = None if self._sampler is None else self._sampler()
        if step is None and taken is not None:
            return taken.metrics()
        position = self._state(step)["position"]
        due, counting = self._passes.now, self._counting
        if counting is not None and (counting[0] != due or counting[1].position > position):
            self._stop_counting()
        if self._counting is None:
            self._counting = due, self._opening.open()
            put(self._counting[1], self._passes, due, 0, 1)
        self._counting[1].move(position)
        counted = self._counting[1].metrics()  # other metrics are zero: workers prepare batches
        return {name: value for name, value in counted.items() if name.startswith("data/")}

    def _stop_counting(self) -> None:
        counting, self._counting = self._counting, None
        if counting is not None:
            counting[1].close()

    def forecast(self, steps: int | None = None) -> Forecast:
        """Return the forecast of the run from step 0; see ``Sampler.forecast``."""
        with self._opening.open() as sampler:
            return sampler.forecast(steps)

    def lightning_callback(self, *, every: int = 100) -> Any:
        """Return a callback that logs this run and stores its position in Lightning's checkpoints.

        Use it in ``Trainer(callbacks=[…])``. Every logger of the trainer gets the forecast at the
        start and the metrics of used samples, as in ``duckplets.log_run``. It gets the run's id as
        the hyperparameter ``data_run``. A checkpoint has the step of the next batch to use, not to
        read. ``trainer.fit(…, ckpt_path=…)`` continues there with any number of workers and ranks.
        A batch must keep ``step`` through ``collate_fn`` and transfers.

        Args:
            every: Batches between two logs of metrics.

        Raises:
            ExtensionError: Lightning is not installed.
            SamplerError: ``every`` is no number of batches.
        """
        from duckplets.adapters.lightning import callback

        return callback(self, integer("every", every, 1))

    def lr_scale(self, step: int) -> float:
        """Return the factor for the learning rate at a step, ``batch["step"]``."""
        return Mixture.from_dict(self._known_run().mixture).lr_scale(step)

    def loss_by_source(self, batch: Mapping[str, Any], losses: Any) -> dict[str, float]:
        """Return ``loss/NAME``: the mean loss of the samples of every source in a batch.

        Args:
            batch: A batch of this dataset with the column ``source``.
            losses: One number a sample: a list, an array or a tensor of shape (samples,).

        Raises:
            SamplerError: The number of losses is wrong, or the batch has no column ``source``.
        """
        if "source" not in batch:
            raise SamplerError(
                f"losses by source need the column 'source': add it to columns=; this batch has "
                f"{', '.join(batch)}"
            )
        return mean_by_source(batch["source"], losses)

    def report_loss(
        self,
        losses: Mapping[str, float] = MappingProxyType({}),
        *,
        step: int,
        per_sample: Any = None,
    ) -> None:
        """Report losses at a step, ``batch["step"]``; see ``Sampler.report_loss``.

        Call it in the process that saves: workers have the samplers, and do not see losses.
        ``per_sample`` has the losses of this rank.

        Args:
            losses: As for ``Sampler.report_loss``.
            step: The step of the batch.
            per_sample: As for ``Sampler.report_loss``.

        Raises:
            SamplerError: The step, a source name or a loss is wrong.
        """
        run = self._known_run()
        start = run.at(step)["position"]  # refuses a wrong step
        if not losses and per_sample is None:
            raise SamplerError("report_loss: give the losses of sources, or per_sample=")
        if losses:
            self._losses.report(step, checked_losses(losses, run.sources))
        if per_sample is not None:
            ranks = self._opening.resolved()
            size = ranks.world_size or 1
            stop = start + run.batch if run.end is None else min(start + run.batch, run.end)
            low, high = RankPart(run.batch // size, ranks.rank or 0, size).slice(start, stop)
            self._losses.report_samples(step, low, checked_samples(per_sample, high - low))

    def _known_run(self) -> RunStates:
        ranks = self._opening.resolved()  # they change when torch.distributed starts
        due, known = self._passes.now, self._run
        if known is None or known[0] != due or known[1].world_size != (ranks.world_size or 1):
            with self._opening.open() as sampler:
                self._run = known = due, put(sampler, self._passes, due, 0, 1)[1]
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no torch.distributed.
        reset = dict.fromkeys(("_current", "_sampler", "_counting"))
        return {**self.__dict__, "_opening": self._opening.resolved(), **reset}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._opening.path)!r})"


class TokenDataset(SamplerDataset):
    """Yield the batches of a run over token shards, as ``SamplerDataset`` does for a corpus.

    A batch is a dict. ``input_ids``, ``attention_mask``, ``position_ids`` and ``document_ids`` are
    int32 tensors of shape (rows, width). ``source`` is a list of str, ``row`` a tensor, and
    ``step`` an int. ``by_bucket=True`` adds ``bucket``.

    Args:
        folder: The folder of token shards. The process that iterates the dataset opens it.
        split: As for ``TokenShards.sampler``.
        rank: Number of this rank. Default: from ``torch.distributed``, otherwise 0.
        world_size: Number of ranks. Default: from ``torch.distributed``, otherwise 1.
        cache: As for ``TokenShards``.
        arguments: Further arguments of ``TokenShards.sampler``.

    Raises:
        SamplerError: ``TokenShards.sampler`` has no such argument.
    """

    def __init__(
        self,
        folder: str | Path,
        split: str = "train",
        *,
        rank: int | None = None,
        world_size: int | None = None,
        cache: str | Path | None = None,
        **arguments: Any,
    ) -> None:
        arguments, path, how = {"split": split, **arguments}, Path(folder), {"cache": cache}
        self._open_with(RunOpening(TokenShards, path, arguments, rank, world_size, how))


def _failing(error: Exception) -> Iterator[dict[str, Any]]:
    raise error
    yield
