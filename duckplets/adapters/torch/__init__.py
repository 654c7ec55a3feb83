"""Serve a run's batches to PyTorch, as a dataset that any number of workers and ranks can read."""

# Every process opens the corpus for itself, so nothing is open across a fork. Worker w of W takes
# every W-th batch; a DataLoader asks its workers in turn, so the order is that of one process.

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
    check_taken,
    put,
    standing,
)

__all__ = ["SamplerDataset", "TokenDataset"]


class SamplerDataset(IterableDataset[dict[str, Any]]):
    """The batches of a run, for ``DataLoader(dataset, batch_size=None, num_workers=…)``.

    A batch is a dict: every column of the sampler, texts and names as lists of str, numbers as a
    tensor of shape (samples,), where -1 stands for an integer that is missing; and ``step``, an
    int. The order is the same for any number of workers.

    Without workers iterate the dataset itself: a DataLoader would go through every string of every
    batch, which takes longer than all else, unless it gets a ``collate_fn`` that returns what it
    is given. What workers yield it passes over; a ``collate_fn`` that runs in a worker may read
    that as the dict that arrives: ``{**batch, "lengths": …}``.

    Each iteration is a pass as long as the run's ``epochs=`` or ``steps=``, and continues with the
    epoch after the last: iterate a run of ``epochs=1`` once for each epoch of a trainer. A pass of
    an endless run begins with an epoch. ``set_epoch`` and ``load_state_dict`` say where the next
    iteration begins. ``step`` counts over passes; a pass that ends within a batch ends with a short
    one. For evaluation call ``set_epoch(0)`` before each pass, which then has the same samples.

    Args:
        corpus_path: The corpus file. It is opened where and when the dataset is iterated.
        kind: As for ``Corpus.sampler``.
        rank: Which of the ranks this is; by default that of ``torch.distributed``, else 0.
        world_size: Number of ranks; by default that of ``torch.distributed``, else 1.
        memory_limit: What DuckDB may use in each worker; by default 1 GB for all workers of the
            machine together (those of ``LOCAL_WORLD_SIZE`` ranks), but 256 MB each at least.
        threads: Threads of DuckDB in each worker; by default all have as many as there are cores.
        arguments: All others are those of ``Corpus.sampler``.

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
        check_taken(type(self).__name__, opening.kind.sampler, opening.arguments)
        self._opening = opening
        self._passes = Passes()
        self._run: tuple[Pass, RunStates] | None = None
        self._stands: State | None = None  # where this process's own iteration is
        self._sampler: ReferenceType[Sampler] | None = None  # that of this iteration
        self._counting: tuple[Pass, Sampler] | None = None  # what metrics of steps are counted by
        self._losses = Losses(first=MAX_POSITION)  # that were reported in this process

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
        **given: Any,
    ) -> Self:
        """Return the batches of a saved run from where it was saved; see ``duckplets.resume``.

        The batch of all ranks stays what it was and is divided among ``world_size`` ranks.

        Args:
            path: The corpus file, or a folder of token shards.
            run: Name it was saved under.
            tag: A named checkpoint instead of the latest save.
            state: The state file; by default beside the corpus.
            allow_drift: Fingerprint fields that may differ from what was saved, by name.
            rank: As for the class.
            world_size: As for the class.
            given: Those of the class about its opening, such as ``threads``; others are arguments
                of the sampler to change.
        """
        how = {
            name: given.pop(name) for name in ("memory_limit", "threads", "cache") & given.keys()
        }
        check_overrides(name for name in given if name != "snapshot")
        dataset = cls(path, rank=rank, world_size=world_size, **how)
        saved = {"run": run, "tag": tag, "state": state, "allow_drift": tuple(allow_drift)}
        arguments = {**given, **saved}
        dataset._opening = replace(dataset._opening, arguments=arguments, resumed=True)
        return dataset

    # -- iteration ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            return self._begun()
        except DuckpletsError as error:
            if get_worker_info() is None:
                raise
            return _failing(error)  # here it would end a persistent worker, and say nothing

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
        self._stands = standing(sampler, worker, workers, number)
        self._sampler = ref(sampler)
        return Batches(sampler, self._stands, hands_over=info is not None)

    def __len__(self) -> int:
        """Return the number of batches of a pass over a bounded run.

        It is the same for every pass. With ``no_duplicates`` or ``batch_by`` a pass may have one
        more: the batch where two epochs meet is in both.

        Raises:
            TypeError: The run is endless.
        """
        return self._known_run().steps

    def __bool__(self) -> bool:
        return True  # not a question of length: an endless run has none

    # -- state --------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """Name of the run and digest of its fingerprint; see ``Sampler.run_id``."""
        return self._known_run().run_id

    @property
    def step(self) -> int:
        """Step of the first batch of this pass: that of the loaded state, or of its start."""
        run = self._known_run()
        return int(run.start["position"] // run.batch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be a pass of this number; the one after it continues.

        A loaded state within that pass keeps its place, until an iteration has begun there. Call it
        in the process that makes the iterators; workers see it.

        Args:
            epoch: Number of the pass from 0, as trainers count their epochs: with ``epochs=1`` the
                nominal epoch of the run.

        Raises:
            SamplerError: It is no such number.
        """
        self._passes.ask(integer("epoch", epoch, 0, MOST_PASSES - 2))
        self._stands = self._sampler = None

    def state_dict(self, step: int | None = None) -> State:
        """Return where the run stands: ``position``, and ``run``, JSON of what else there is.

        It is the same for all ranks. Any number of ranks and workers may load it, and so may
        ``Sampler.load_state_dict``. Counters are not in it. ``torch.distributed.checkpoint`` takes
        nested values apart and restores those that it finds in the new process as well: so there
        are none.

        Args:
            step: Step of the next batch: ``batch["step"] + 1`` of the last one used. It can be
                left out only where the dataset is iterated in this very process; workers are
                ahead with batches that nobody has used yet.

        Raises:
            SamplerError: It is left out though workers iterate, or there is no such step.
        """
        return folded(self._state(step))

    def _state(self, step: int | None) -> State:
        if step is not None:
            return self._known_run().at(step)
        if get_worker_info() is None and self._passes.by_workers:
            raise SamplerError(
                "state_dict(): the workers of the DataLoader are ahead of what was used; give the "
                'step after the last batch used, state_dict(step=batch["step"] + 1), or use '
                "torchdata's StatefulDataLoader"
            )
        return dict(self._known_run().start if self._stands is None else self._stands)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow_drift: Collection[str] = ()
    ) -> None:
        """Let the next iteration begin where ``state_dict`` was taken.

        Whether it fits is checked when the corpus is opened. The next iteration ends where the pass
        ends that the state is of; the one after it continues.

        Args:
            state_dict: Of this dataset, or of a ``Sampler`` of the same run.
            allow_drift: Names of fingerprint fields that may differ.
        """
        state = unfolded(state_dict)
        self._passes.replaced(get_worker_info(), state)
        self._passes = Passes(state, tuple(allow_drift))
        self._run = self._stands = self._sampler = None
        self._stop_counting()

    def save(
        self, tag: str | None = None, path: str | Path | None = None, *, step: int | None = None
    ) -> Path:
        """Write where the run stands to its state file; see ``Sampler.save``.

        For one rank to call. The counters of a run that is resumed from there begin anew.

        Args:
            tag: Name of a checkpoint to add; without one the run's latest save is replaced.
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
        """Return what was used of every source, by all ranks; see ``Sampler.metrics``.

        It is counted from where the last state was loaded on, from what that had counted if it was
        a ``Sampler``'s, else from the start of the run. With a step it is worked out in this
        process, which opens the run once more for that: two million samples a second.

        Args:
            step: Step of the next batch, ``batch["step"] + 1`` of the last one used. It can be
                left out only where the dataset is iterated in this very process.

        Raises:
            SamplerError: It is left out though workers iterate, or there is no such step.
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
        counted = self._counting[1].metrics()  # which has prepared nothing: workers do
        return {name: of for name, of in counted.items() if name.startswith("data/")}

    def _stop_counting(self) -> None:
        counting, self._counting = self._counting, None
        if counting is not None:
            counting[1].close()

    def forecast(self, steps: int | None = None) -> Forecast:
        """Return what the run draws from step 0 on; see ``Sampler.forecast``."""
        with self._opening.open() as sampler:
            return sampler.forecast(steps)

    def lightning_callback(self, *, every: int = 100) -> Any:
        """Return what logs this run and keeps its place in Lightning's checkpoints.

        For ``Trainer(callbacks=[…])``: the forecast at the start and the metrics of what was used
        go to every logger of the trainer, as ``duckplets.log_run`` has them, and the run's id into
        their hyperparameters as ``data_run``. A checkpoint has the step that is used next, whatever
        was read ahead; ``trainer.fit(…, ckpt_path=…)`` goes on there with any number of workers
        and ranks. A batch has to keep ``step`` through ``collate_fn`` and transfers.

        Args:
            every: Batches from one logging of metrics to the next.

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
            batch: As it was yielded, with the column ``source``.
            losses: One number a sample: a list, an array or a tensor of shape (samples,).

        Raises:
            SamplerError: There are more or fewer losses, or ``columns=`` left out ``source``.
        """
        if "source" not in batch:
            raise SamplerError(
                f"losses by source need the column 'source', which columns= left out; this batch "
                f"has {', '.join(batch)}"
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

        For the process that saves: workers, who have the samplers, know nothing of losses. Of
        samples it has those of its own rank.

        Args:
            losses: As for ``Sampler.report_loss``.
            step: The step of the batch they are of.
            per_sample: As for ``Sampler.report_loss``.

        Raises:
            SamplerError: There is no such step, a name is no source, or a loss no number.
        """
        run = self._known_run()
        start = run.at(step)["position"]  # refuses what is no step
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
        ranks = self._opening.resolved()  # others once torch.distributed has been started
        due, known = self._passes.now, self._run
        if known is None or known[0] != due or known[1].world_size != (ranks.world_size or 1):
            with self._opening.open() as sampler:
                self._run = known = due, put(sampler, self._passes, due, 0, 1)[1]
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        # A worker that is spawned knows nothing of torch.distributed.
        here = dict.fromkeys(("_stands", "_sampler", "_counting"))
        return {**self.__dict__, "_opening": self._opening.resolved(), **here}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._opening.path)!r})"


class TokenDataset(SamplerDataset):
    """The batches of a run over token shards, for ``DataLoader(dataset, batch_size=None, …)``.

    As ``SamplerDataset``, of ``TokenShards``: a batch is a dict of int32 tensors of shape (rows,
    width), ``input_ids``, ``attention_mask``, ``position_ids`` and ``document_ids``, with
    ``source``, a list of str, ``row``, a tensor (and ``bucket`` with ``by_bucket=True``), and
    ``step``.

    Args:
        folder: Of token shards. It is opened where and when the dataset is iterated.
        split: As for ``TokenShards.sampler``.
        rank: Which of the ranks this is; by default that of ``torch.distributed``, else 0.
        world_size: Number of ranks; by default that of ``torch.distributed``, else 1.
        cache: As for ``TokenShards``.
        arguments: All others are those of ``TokenShards.sampler``.

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
