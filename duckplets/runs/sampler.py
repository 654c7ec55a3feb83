"""A run: iterate its batches, get any of them by number, save its position.

The state of a run is the position of its next batch and the weights set during it; all the rest
follows from its settings. Served samples are counted by source.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.columns import column
from duckplets.base.fork_guard import HomeLock, alone
from duckplets.base.sanitize import html_lines
from duckplets.base.settings import SlashedName, checked
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.order.mixture import Event
from duckplets.order.ranks import RankPart
from duckplets.runs import forecast as forecasts
from duckplets.runs import metrics as figures
from duckplets.runs import passes, state, versions
from duckplets.runs.metrics import Losses, Metrics, checked_losses, checked_samples
from duckplets.runs.reader import BatchReader
from duckplets.runs.settings import RunSettings, as_saved
from duckplets.runs.state import Fingerprint, refuse_mismatch
from duckplets.samples.batch import Batch

if TYPE_CHECKING:
    from duckplets.base.progress import Progress
    from duckplets.db.database import Database
    from duckplets.mining.pins import Pins
    from duckplets.order.mixture import Mixture
    from duckplets.order.schedule import RunSchedule
    from duckplets.proof.certificate import Certificate
    from duckplets.runs.forecast import Forecast
    from duckplets.runs.reader import FetchesSamples
    from duckplets.samples.plan import Planner

log = logging.getLogger("duckplets")

_trainers = partial(import_module, "duckplets.adapters.huggingface")
_proof = partial(import_module, "duckplets.proof.certificate")

_MEMORY_MB = 128
_ROWS = 1 << 16  # ids computed at a time
_MOST_ROWS = 1 << 24  # most ids in one table: a few GB

_IN_EACH_PROCESS = (
    "each would take the same batches: open a sampler in every process, with rank= and "
    "world_size=, or let duckplets.torch.SamplerDataset do so for the workers of a DataLoader"
)


class Sampler:
    """A run over a corpus: iterate it for batches.

    ``Corpus.sampler`` and ``duckplets.resume`` make it. Taking a batch moves the position;
    prepared blocks do not. Several threads may share a sampler: each batch goes to one of them. A
    forked process must open its own.

    Attributes:
        settings: The settings of the run.
        notes: Notes that are logged as warnings before the first batch.
    """

    def __init__(
        self,
        settings: RunSettings,
        planner: Planner,
        fetcher: FetchesSamples,
        state_path: Path,
        open_source: Callable[[str], None],
        # reads the minings of a run from a step on; a run of tokens has none
        read_minings: Callable[[Sampler, int, Pins | None], Any] | None = None,
    ) -> None:
        self.settings, self.planner = settings, planner
        self.reader = BatchReader(
            planner,
            fetcher,
            RankPart(settings.batch_size, settings.rank, settings.world_size),
            end=planner.end(settings.end),
            prefetch=settings.prefetch,
            # the block in use, one in preparation and the waiting ones share the memory
            block_bytes=((settings.memory_mb or _MEMORY_MB) << 20) // (settings.prefetch + 2),
        )
        self._position, self._batch = 0, settings.global_batch
        self.notes: list[str] = []
        self.unused: list[tuple[str, str, int]] = []  # source, recipe and anchors of later minings
        self.alone = HomeLock("this sampler", _IN_EACH_PROCESS)
        self._state_path = state_path
        self._saves: list[dict[str, Any]] | None = None  # saves in the file, once read
        self._open_source, self.read_minings = open_source, read_minings
        self.minings: tuple[tuple[int, Pins], ...] = ()  # minings taken during the run, by step
        self._skipped: tuple[tuple[int, int], ...] = ()  # steps, and the number skipped there
        self.owned: Any = None  # closed with the sampler, such as the corpus
        self.database: Database | None = None  # of the corpus; None for token shards
        self._drifted_from: Fingerprint | None = None  # fingerprint it was resumed from
        self.changed_from: int | None = None  # first position changed by another mixture
        self._taken: int | None = None  # step of the last batch taken
        self._losses = Losses()
        self._before: tuple[state.Save, state.Ways] | None = None  # last save, and its shares
        self._phase, self._is_quiet = 0, settings.rank > 0  # other ranks would repeat the log

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        with self.alone:
            start = self._position
            if self.reader.stop_of(start) <= start:
                raise StopIteration
            while self.notes:
                log.warning("%s", self.notes.pop(0))
            batch = self.reader.take(start)
            self._position = self.reader.bounded(self.reader.part.after(start))
            self._taken = batch.step
            phase = self.planner.schedule.mixture.phase(batch.step)
            if phase != self._phase:
                self._phase = phase
                self._log_phase("Phase transition at", batch.step, batch.step)
            return batch

    def _log_phase(self, prefix: str, step: int, shares_of: int) -> None:
        if not self._is_quiet:
            schedule = self.planner.schedule
            log.info("%s step %d: %s", prefix, step, forecasts.phase_words(schedule, shares_of))

    def __len__(self) -> int:
        """Return the number of batches of a bounded run, the same for all ranks."""
        if self.reader.end is None:
            raise TypeError("an endless sampler has no length; bound it with steps= or epochs=")
        return -(-self.reader.end // self._batch)

    def __bool__(self) -> bool:
        return True  # endless runs have no length

    @property
    def run_id(self) -> str:
        """Name and fingerprint digest of the run, for a log: equal for equal samples."""
        return f"{self.settings.run}-{state.digest(self.settings.fingerprint())}"

    @property
    def mixture(self) -> Mixture:
        """Current weights, or shares if proportional; the temperature, and all phases."""
        return self.planner.schedule.at(self.step).in_force(self.step)

    @property
    def epoch_length(self) -> int:
        """Samples of a nominal epoch: the anchors of all active streams, in the newest version."""
        return self.planner.epoch_length

    @property
    def text_columns(self) -> list[str]:
        """The text columns of a batch, or its columns of messages, in order."""
        return [name for name in self.settings.columns if name in self.reader.fetcher.slots]

    @property
    def _steps_taken(self) -> int:
        """Number of steps before the position; the last of a run may be short."""
        return -(-self._position // self._batch)

    @property
    def graded(self) -> bool:
        """Whether labels of pairs are floats: a source has labels other than 0 and 1."""
        return self.planner.newest.is_graded

    @property
    def message_shape(self) -> Sequence[Any]:
        """Shape of messages for DuckDB's ``from_json``; empty for other kinds."""
        parse = getattr(self.reader.fetcher, "parse", None)
        return () if parse is None else parse.shape

    @property
    def position(self) -> int:
        """First position, over all ranks, of the next batch."""
        return self._position

    @property
    def step(self) -> int:
        """Number of the next batch."""
        return self._position // self._batch

    @property
    def epoch(self) -> int:
        """Nominal epoch of the position."""
        return self.planner.epoch_at(self._position)

    @property
    def lr_scale(self) -> float:
        """Learning rate factor of the last batch taken, or of the next one before any."""
        mixture = self.planner.schedule.mixture
        return mixture.lr_scale(self.step if self._taken is None else self._taken)

    def set_epoch(self, epoch: int) -> None:
        """Move to the first batch that begins in a nominal epoch, or after it if none does."""
        epoch = integer("epoch", epoch, 0, self.planner.epoch_at(MAX_POSITION))
        position = self.planner.epoch_start(epoch)
        self.move(max(position, self.reader.bounded(position + -position % self._batch)))

    def batch_at(self, step: int) -> Batch:
        """Return the batch of any step, past or future; the position stays."""
        step = integer("step", step, 0, MAX_POSITION // self._batch)
        start = step * self._batch
        if self.reader.stop_of(start) <= start:
            steps = -(-self.reader.bounded(MAX_POSITION) // self._batch)
            there = f"steps 0 to {steps - 1}" if steps else "no step"
            raise SamplerError(f"step {step}: this run has {there}")
        return next(self.reader.between(start, self.reader.stop_of(start)))

    def peek(self, steps: int) -> Iterator[Batch]:
        """Yield the batches of the next steps, read block by block; the position stays."""
        steps, part = integer("steps", steps, 0, MAX_POSITION), self.reader.part
        stop = part.after(self._position) + (steps - 1) * part.stride
        return self.reader.between(self._position, stop)

    @alone
    def move(self, position: int) -> None:
        """Move to a position; inside a batch, the rest of the batch is the next one."""
        position = integer("position", position, 0, MAX_POSITION)
        if position > self.reader.bounded(position):
            raise SamplerError(
                f"position {position} is beyond the end of this run ({self.reader.end}); give it "
                f"more steps= or epochs="
            )
        self._position, self._taken = position, None
        self._losses.begin(self._steps_taken)
        self.reader.forget()

    @alone
    def skip(self, steps: int) -> int:
        """Skip the next steps, and mark them in ``served``; return the next step."""
        steps = integer("steps", steps, 0, MAX_POSITION // self._batch)
        first = self.step
        self.move(min(self._position + steps * self._batch, self.reader.bounded(MAX_POSITION)))
        if passed := self._steps_taken - first:
            self._skipped = (*self._skipped, (first, passed))
        return self.step

    @alone
    def stride(self, worker: int, workers: int) -> None:
        """Take every ``workers``-th batch from now on; the first one is the ``worker``-th."""
        if not 0 <= worker < workers:
            raise SamplerError(f"worker={worker}: give an integer from 0 to {workers - 1}")
        self.reader.share(workers)
        self._is_quiet |= worker > 0
        within = self.reader.part.within(self._position) if worker else 0
        self._position = self.reader.bounded(self._position - within + worker * self._batch)

    def first_change(self, before: RunSchedule) -> int:
        """Return the first position that differs from an earlier schedule, or one beyond all."""
        changed = self.planner.first_change(before, replace(self.settings, steps=None).end)
        return MAX_POSITION + 1 if changed is None else changed

    def served(self, start: int, stop: int) -> pa.Table:
        """Return the ids of positions ``start … stop-1`` of all ranks, computed again.

        Columns: ``step``, ``position``, ``source``, ``recipe`` and ``swapped``. Each text has
        ``anchor_record_id``, ``anchor_section``, ``anchor_window`` and so on; messages have
        ``record_id``, and pairs ``label``. If later ones joined, there is the ``version`` of the
        corpus or the ``generation`` of minings. With ``no_duplicates=True``, ``displaced`` is the
        source of the sample that left this position, null for most. If steps were skipped, there
        is ``skipped``.
        """
        last = self.reader.bounded(MAX_POSITION)
        start = integer("start", start, -MAX_POSITION, MAX_POSITION)
        stop = integer("stop", stop, -MAX_POSITION, MAX_POSITION)
        if not 0 <= start <= stop <= last:
            end = "any" if self.reader.end is None else self.reader.end
            raise SamplerError(f"positions {start} to {stop}: give two in order, from 0 to {end}")
        if stop - start > _MOST_ROWS:
            raise SamplerError(
                f"positions {start} to {stop}: request at most {_MOST_ROWS:,} of them at once"
            )
        lows = range(start, max(stop, start + 1), _ROWS)
        parts = [self.reader.identities([(low, min(low + _ROWS, stop))]) for low in lows]
        table = pa.concat_tables(parts).combine_chunks()
        if not self._skipped:
            return table
        steps = table["step"].to_numpy()
        found = [(step <= steps) & (steps < step + number) for step, number in self._skipped]
        return table.append_column("skipped", column(np.logical_or.reduce(found)))

    def plan(self, steps: int) -> pa.Table:
        """Return the ids of the next steps; columns as in ``served``."""
        stop = self._position + integer("steps", steps, 0, MAX_POSITION) * self._batch
        return self.served(self._position, self.reader.bounded(stop))

    def forecast(self, steps: int | None = None) -> Forecast:
        """Return the forecast of the run from step 0 on, from counts alone, at any position.

        Args:
            steps: Number of steps, cut at the end of a bounded run. Default: to this end, or one
                nominal epoch from the last phase or joined version on.
        """
        if steps is not None:
            steps = integer("steps", steps, 0, MAX_POSITION // self._batch)
        return forecasts.forecast(self.settings, self.reader, self.unused, steps)

    def describe(self) -> str:
        """Return a short description of the run from here on: a line a recipe, swap, warnings."""
        run = self.settings, self.planner
        notes = dict.fromkeys([*self.notes, *forecasts.warnings(*run, self.unused)])
        return "\n".join(
            [*forecasts.described(*run, self.step), *(f"note: {note}" for note in notes)]
        )

    def metrics(self, step: int | None = None) -> Metrics:
        """Return the counters of every source, and the time spent waiting for blocks.

        Before the next batch, by all ranks: ``data/NAME/samples``; ``data/NAME/tokens`` of their
        texts, without prefixes; ``data/NAME/epochs``, samples over anchors. If negatives can be
        missing, ``data/NAME/fallbacks``: negatives from random draws, other records or sources.
        With ``no_duplicates=True``, ``data/NAME/displaced``: samples that fit in no batch, so
        others have their positions. Counting takes a second for two million samples.

        This sampler also has ``prefetch/blocks_ready``, ``prefetch/waits`` for a block that was not
        ready, and ``prefetch/seconds_waited``: if these grow, training waits for data. If texts
        were read ahead, ``read_ahead/reads``, ``…/bytes``, ``…/seconds``, ``…/bytes_dropped``.

        Args:
            step: An earlier step than the next: a trainer takes batches before it uses them.
        """
        return figures.metrics(self.planner, self.reader, self._used_up_to(step))

    @alone
    def worst(self, count: int = 32) -> pa.Table:
        """Return the samples with the highest reported losses of steps before the position.

        Columns: as in ``served``, and ``loss``; the highest first. A save retains the 4,096
        highest. Look there for wrong labels and false negatives.
        """
        found = self._losses.samples(0, self._steps_taken).slice(0, integer("count", count, 0))
        table = self.reader.identities([(at, at + 1) for at in found["position"].to_pylist()])
        return table.append_column("loss", found["loss"])

    loss_by_source = figures.loss_by_source
    diagnostics = figures.diagnostics

    @alone
    def report_loss(
        self,
        losses: Mapping[str, float] = MappingProxyType({}),
        *,
        step: int | None = None,
        per_sample: Any = None,
    ) -> None:
        """Report the losses of sources, or of samples, at a step, to be written with the next save.

        They stay in memory, 24 bytes each, until a save writes them into the table ``losses`` of
        the state file. It has one row for each step and source; the last report counts. If weights
        depend on losses, every rank must report the same.

        Args:
            losses: A finite number by the name of each source, as from ``loss_by_source``.
            step: The step of the batch. Default: the batch taken last.
            per_sample: A number for each sample of this rank's batch, shape (samples,). The 32
                highest are stored, for ``worst`` and the table ``sample_losses``.

        Raises:
            SamplerError: A source is unknown, a loss is not a number, or the step was not taken.
        """
        if not losses and per_sample is None:
            raise SamplerError("report_loss: give the losses of sources, or per_sample=")
        if step is None:
            step = self._taken
        if step is None or not self._position:
            raise SamplerError("report_loss: no batch was taken yet; take one, or give its step=")
        step = integer("step", step, 0, self._steps_taken - 1)
        if losses:
            self._losses.report(step, checked_losses(losses, self.planner.schedule.numbers))
        if per_sample is not None:
            start = step * self._batch
            low, high = self.reader.part.slice(start, self.reader.stop_of(start))
            self._losses.report_samples(step, low, checked_samples(per_sample, high - low))

    @alone
    def losses(self) -> pa.Table:
        """Return the reported losses of steps before the position, by step and source.

        Columns: ``step``, ``source``, ``loss``. A resumed run begins with the saved losses.
        """
        return self._losses.table(0, self._steps_taken)

    def take_losses(self, losses: Losses) -> None:
        """Add losses that were reported to another sampler of this run."""
        self._losses.add(losses)

    def to_hf(
        self,
        start_step: int | None = None,
        *,
        dataset_name: bool = False,
        label: Literal["margin", "scores"] | None = None,
    ) -> Any:
        """Return a ``datasets.IterableDataset`` of this run's texts; see ``huggingface.to_hf``."""
        return _trainers().to_hf(self, start_step, dataset_name=dataset_name, label=label)

    def to_hf_dataset(self, steps: int, *, label: Literal["margin", "scores"] | None = None) -> Any:
        """Return a ``datasets.Dataset`` of the next steps; see ``huggingface.to_hf_dataset``."""
        return _trainers().to_hf_dataset(self, steps, label=label)

    def hf_batch_sampler(self) -> Any:
        """Return a class that preserves our batches; see ``huggingface.hf_batch_sampler``."""
        figures.need_texts(self, "hf_batch_sampler")
        return _trainers().hf_batch_sampler(self)

    def hf_callback(self) -> Any:
        """Return a callback that saves the run with trainer checkpoints; see ``huggingface``."""
        return _trainers().hf_callback(self)

    def hf_logger(self, trainer: Any, *, every: int = 100) -> Any:
        """Return a callback that logs the run through a trainer; see ``huggingface``."""
        return _trainers().hf_logger(self, trainer, every=every)

    @alone
    def set_weights(self, weights: Mapping[str, float], *, temperature: float | None = None) -> int:
        """Give sources other weights from the next step on, until the mixture's next phase.

        Like a phase, they override the declared weights of the named sources. Every rank must set
        the same weights at the same step. A save stores them with the run.

        Args:
            weights: A weight by the name of each source.
            temperature: Replaces the mixture's to the end of the run. None: no change.

        Returns:
            The first step with these weights. With ``no_duplicates=True`` it is the first step of
            the next block of up to 64 batches.

        Raises:
            MixtureError: A source is unknown, a weight or the temperature is wrong, or all are 0.
            RecipeError: With ``no_duplicates``, too few different texts remain for a batch.
        """
        step = self.planner.next_change(self._position)
        schedule = self.planner.schedule.with_event(step, Event(weights, temperature))
        self.open_sources(schedule)
        self.planner.check(schedule, [step], self.reader.end)
        self.check_checkpoints(step)
        self.reader.change_schedule(schedule, step * self._batch)
        passes.update_end(self)
        return step

    take_minings = versions.take_minings

    def check_checkpoints(self, step: int) -> None:
        """Refuse a change from a step on if a later checkpoint exists."""
        settings = self.settings
        if self._saves is None and not settings.rank:
            own = settings.fingerprint()
            self._saves = state.cursors(self._state_path, settings.run, fingerprint=own)
        state.refuse_beyond(settings.run, self._saves or [], step * self._batch, self._batch)

    def open_sources(self, schedule: RunSchedule) -> None:
        """Read the pools of sources that were not drawn before."""
        known = {stream.name for stream in self.planner.streams}
        for name in sorted(schedule.drawn - known):
            self._open_source(name)

    @alone
    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the position of the run, or of an earlier step, as values that all ranks share."""
        at = self._standing(step)
        return {"position": at.position, **at.plain()}

    def _standing(self, step: int | None) -> state.RunPosition:
        position = self._used_up_to(step)
        return state.RunPosition(
            position=position,
            fingerprint=self.settings.fingerprint(),
            events=self.planner.schedule.events,
            counts=self.reader.counter.known(position),
            minings=self.minings,
            skipped=self._skipped,
            change=self.planner.schedule.last_change(position),
        )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow_drift: Collection[str] = ()
    ) -> None:
        """Move to the position of a ``state_dict`` from a sampler with the same settings.

        Args:
            state_dict: The result of ``Sampler.state_dict``.
            allow_drift: Names of fingerprint fields that may differ.

        Raises:
            StateMismatchError: It belongs to another run; names every differing field.
        """
        at, now = state.RunPosition.of_plain(state_dict), self.settings.fingerprint()
        refuse_mismatch(at.fingerprint, now, allow_drift=allow_drift)
        self.continue_from(at)
        self.notes[:] = state.not_of_saving(self.notes)  # the caller stores states elsewhere

    @alone
    def continue_from(self, at: state.RunPosition) -> None:
        """Continue a run with these settings from a position, with its events."""
        if self.minings != at.minings:
            versions.restore_minings(self, at.minings)
        self._skipped = at.skipped
        schedule = self.planner.schedule.with_events(at.events)
        self.open_sources(schedule)
        if at.change is not None and at.fingerprint == self.settings.fingerprint():
            schedule.at(at.change[0]).know(at.change)
        self.planner.deal_by(schedule)
        passes.update_end(self)
        self.move(at.position)
        self.reader.counter.load(at.counts)
        if at.losses is not None:
            self._losses = Losses(at.losses, self._steps_taken, at.sample_losses)
        self._phase = schedule.mixture.phase(self.step - 1)
        if self.step:  # the previous phase was logged before
            self._log_phase("Resumed at", self.step, self.step - 1)
        if at.fingerprint != self.settings.fingerprint() or self._drifted_from is None:
            self._drifted_from = at.fingerprint

    @alone
    def save(
        self, tag: str | None = None, path: str | Path | None = None, *, step: int | None = None
    ) -> Path:
        """Write the position to the state file, on one rank only; return the path of the file.

        Args:
            tag: Name of a checkpoint to add. Default: replace the latest save of the run.
            path: A new state file to write instead, with its folders.
            step: An earlier step to continue with: a trainer takes batches before it uses them.

        Raises:
            StateMismatchError: The tag or the path exists, or another run has the name.
        """
        target = Path(path) if path is not None else self._state_path
        if path is not None and target.exists():
            raise StateMismatchError(f"{target} exists; give the path of a new file")
        saved = self._as_saved(tag, step)
        schedule = self.planner.schedule
        state.save(target, saved, self._losses, schedule, self._before)
        self._saves = None
        if path is None:
            self._losses.written(saved.steps)
            self._before = saved, schedule.ways
        return target

    def refuse_save(self, tag: str | None = None) -> None:
        """Refuse a save that ``save`` would refuse, before hours of work."""
        state.unsavable(self._state_path, required=True)
        state.refuse_save(self._state_path, self._as_saved(tag, None))

    def certificate(self, *, progress: Progress | bool | None = None) -> Certificate:
        """Return a certificate of the samples so far, for others to check; see ``proof``."""
        return _proof().certificate(self, self._as_saved(None, None), progress)  # type: ignore[no-any-return]

    def _as_saved(self, tag: str | None, step: int | None) -> state.Save:
        if tag is not None:
            checked("tag", tag, SlashedName, SamplerError)
        found = {"drifted_from": self._drifted_from, "changed_from": self.changed_from}
        return as_saved(self.settings, self.planner, self._standing(step), tag=tag, **found)

    def _used_up_to(self, step: int | None) -> int:
        """Return the position of a step, or of the sampler."""
        steps = self._steps_taken if step is None else integer("step", step, 0, self._steps_taken)
        return min(steps * self._batch, self._position)  # the last batch may be short

    def close(self) -> None:
        """Stop preparing, and close the files of this run."""
        self.reader.close()
        owned, self.owned = self.owned, None
        if owned is not None:
            owned.close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise SamplerError(
            "a sampler cannot be pickled or copied: it has a file open. Open one in each process, "
            "by the path of the corpus and the same arguments, or give PyTorch's DataLoader a "
            "duckplets.torch.SamplerDataset"
        )

    def __repr__(self) -> str:
        s = self.settings
        who = f"Sampler({s.kind!r}, split={s.split!r}, run={s.run!r}, position={self._position})"
        return f"{who}\n{self.describe()}"

    def _repr_html_(self) -> str:
        return html_lines(repr(self))
