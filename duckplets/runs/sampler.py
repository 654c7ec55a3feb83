"""A run: iterate its batches, get any of them by number, save its position.

The state of a run is the position of its next batch and the weights set on the way; all else
follows from its settings. What was served is counted by source.
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

    Made by ``Corpus.sampler`` and ``duckplets.resume``. Taking a batch is what moves the
    position; blocks prepared ahead do not count. Several threads may take batches of one sampler:
    each batch goes to one of them. A forked process opens its own.

    Attributes:
        settings: What the run follows from.
        notes: What is logged as warnings when the first batch is taken.
    """

    def __init__(
        self,
        settings: RunSettings,
        planner: Planner,
        fetcher: FetchesSamples,
        state_path: Path,
        open_source: Callable[[str], None],
        # reads what a run goes on with from a step on; a run of tokens has none
        read_minings: Callable[[Sampler, int, Pins | None], Any] | None = None,
    ) -> None:
        self.settings, self.planner = settings, planner
        self.reader = BatchReader(
            planner,
            fetcher,
            RankPart(settings.batch_size, settings.rank, settings.world_size),
            end=planner.end(settings.end),
            prefetch=settings.prefetch,
            # the block in use, one in preparation and those waiting share the memory
            block_bytes=((settings.memory_mb or _MEMORY_MB) << 20) // (settings.prefetch + 2),
        )
        self._position, self._batch = 0, settings.global_batch
        self.notes: list[str] = []
        self.unused: list[tuple[str, str, int]] = []  # source, recipe and anchors of later minings
        self.alone = HomeLock("this sampler", _IN_EACH_PROCESS)
        self._state_path = state_path
        self._saves: list[dict[str, Any]] | None = None  # losses in the file, once read
        self._open_source, self.read_minings = open_source, read_minings
        self.minings: tuple[tuple[int, Pins], ...] = ()  # those taken on the way, by step
        self._skipped: tuple[tuple[int, int], ...] = ()  # steps, and how many from each on
        self.owned: Any = None  # closed with it, such as the corpus
        self.database: Database | None = None  # of the corpus; None of token shards
        self._drifted_from: Fingerprint | None = None  # fingerprint it was resumed from
        self.changed_from: int | None = None  # first position changed by another mixture
        self._taken: int | None = None  # step of the last batch taken
        self._losses = Losses()
        self._before: tuple[state.Save, state.Ways] | None = None  # last save, and its shares
        self._phase, self._is_quiet = 0, settings.rank > 0  # ranks would repeat it

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

    def _log_phase(self, what: str, step: int, of: int) -> None:
        """Log the phase and the shares of a step."""
        if not self._is_quiet:
            schedule = self.planner.schedule
            log.info("%s step %d: %s", what, step, forecasts.phase_words(schedule, of))

    def __len__(self) -> int:
        """Return the number of batches of a bounded run, the same for all ranks."""
        if self.reader.end is None:
            raise TypeError("an endless sampler has no length; bound it with steps= or epochs=")
        return -(-self.reader.end // self._batch)

    def __bool__(self) -> bool:
        return True  # truth is not about length: endless runs have none

    @property
    def run_id(self) -> str:
        """Name of the run and digest of its fingerprint: equal where samples are, for a log."""
        return f"{self.settings.run}-{state.digest(self.settings.fingerprint())}"

    @property
    def mixture(self) -> Mixture:
        """Weights in force now, in proportion the shares; the temperature, and all phases."""
        return self.planner.schedule.at(self.step).in_force(self.step)

    @property
    def epoch_length(self) -> int:
        """Samples of a nominal epoch: the anchors of all active streams, in the newest version."""
        return self.planner.epoch_length

    @property
    def text_columns(self) -> list[str]:
        """The text columns of a batch, in order; of messages theirs."""
        return [name for name in self.settings.columns if name in self.reader.fetcher.slots]

    @property
    def _steps_taken(self) -> int:
        """Number of steps before the position; the last of a run may be short."""
        return -(-self._position // self._batch)

    @property
    def graded(self) -> bool:
        """Whether labels of pairs are floats: a source has others than 0 and 1."""
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
        """Go to the first batch that begins in a nominal epoch, or after it if none does."""
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
        """Go to a position up to the end of the run; inside a batch, its rest is the next one."""
        position = integer("position", position, 0, MAX_POSITION)
        if position > self.reader.bounded(position):
            raise SamplerError(
                f"position {position} lies beyond the end of this run ({self.reader.end}); "
                f"give it more steps= or epochs="
            )
        self._position, self._taken = position, None
        self._losses.begin(self._steps_taken)
        self.reader.forget()

    @alone
    def skip(self, steps: int) -> int:
        """Pass over the next steps, which ``served`` marks; return the step gone on with."""
        steps = integer("steps", steps, 0, MAX_POSITION // self._batch)
        first = self.step
        self.move(min(self._position + steps * self._batch, self.reader.bounded(MAX_POSITION)))
        if passed := self._steps_taken - first:
            self._skipped = (*self._skipped, (first, passed))
        return self.step

    @alone
    def stride(self, worker: int, workers: int) -> None:
        """Take every ``workers``-th batch from now on, beginning with the ``worker``-th."""
        if not 0 <= worker < workers:
            raise SamplerError(f"worker={worker}: give an integer from 0 to {workers - 1}")
        self.reader.share(workers)
        self._is_quiet |= worker > 0
        within = self.reader.part.within(self._position) if worker else 0
        self._position = self.reader.bounded(self._position - within + worker * self._batch)

    def first_change(self, before: RunSchedule) -> int:
        """Return the first position whose sample a schedule changes, or one past all."""
        changed = self.planner.first_change(before, replace(self.settings, steps=None).end)
        return MAX_POSITION + 1 if changed is None else changed

    def served(self, start: int, stop: int) -> pa.Table:
        """Return the ids of positions ``start … stop-1`` of all ranks, worked out again.

        Columns: ``step``, ``position``, ``source``, ``recipe``, where the run has taken later ones
        the ``version`` of the corpus that it is drawn from or the ``generation`` of minings, with
        ``no_duplicates=True`` ``displaced`` (the source of the sample that gave its position to
        this one; null for most), ``swapped``, for pairs ``label``, and for each text
        ``anchor_record_id``, ``anchor_section``, ``anchor_window`` and so on; of messages
        ``record_id``; ``skipped``, where the run has skipped some.
        """
        last = self.reader.bounded(MAX_POSITION)
        start = integer("start", start, -MAX_POSITION, MAX_POSITION)
        stop = integer("stop", stop, -MAX_POSITION, MAX_POSITION)
        if not 0 <= start <= stop <= last:
            end = "any" if self.reader.end is None else self.reader.end
            raise SamplerError(f"positions {start} to {stop}: give two in order, from 0 to {end}")
        if stop - start > _MOST_ROWS:
            raise SamplerError(
                f"positions {start} to {stop}: ask for {_MOST_ROWS:,} of them at most at once"
            )
        lows = range(start, max(stop, start + 1), _ROWS)
        parts = [self.reader.identities([(low, min(low + _ROWS, stop))]) for low in lows]
        table = pa.concat_tables(parts).combine_chunks()
        if not self._skipped:
            return table
        steps = table["step"].to_numpy()
        found = [(step <= steps) & (steps < step + many) for step, many in self._skipped]
        return table.append_column("skipped", column(np.logical_or.reduce(found)))

    def plan(self, steps: int) -> pa.Table:
        """Return the ids of what the next steps will serve; columns as of ``served``."""
        stop = self._position + integer("steps", steps, 0, MAX_POSITION) * self._batch
        return self.served(self._position, self.reader.bounded(stop))

    def forecast(self, steps: int | None = None) -> Forecast:
        """Return what the run draws from step 0 on, from counts alone, wherever it stands.

        Args:
            steps: So many steps, but none after the end of a bounded run; by default to that end,
                or one nominal epoch from where the last phase begins, or the last version joins.
        """
        if steps is not None:
            steps = integer("steps", steps, 0, MAX_POSITION // self._batch)
        return forecasts.forecast(self.settings, self.reader, self.unused, steps)

    def describe(self) -> str:
        """Return in short what is drawn from here on, in lines: a recipe each, swap, warnings."""
        of = self.settings, self.planner
        notes = dict.fromkeys([*self.notes, *forecasts.warnings(*of, self.unused)])
        return "\n".join(
            [*forecasts.described(*of, self.step), *(f"note: {note}" for note in notes)]
        )

    def metrics(self, step: int | None = None) -> Metrics:
        """Return what the run has of every source, and how long blocks were waited for.

        Before the next batch, by all ranks: ``data/NAME/samples``; ``data/NAME/tokens`` of their
        texts, without prefixes; ``data/NAME/epochs``, samples over anchors. Where negatives can
        lack, ``data/NAME/fallbacks``: those drawn at random, of other records or sources instead.
        With ``no_duplicates=True``, ``data/NAME/displaced``: samples that fit in no batch and gave
        their positions to others. Counting takes a second for two million samples.

        Of this sampler: ``prefetch/blocks_ready``, ``prefetch/waits`` for a block that was not
        ready, and ``prefetch/seconds_waited``: if these grow, training waits for data. If texts
        were read ahead, ``read_ahead/reads``, ``…/bytes``, ``…/seconds``, ``…/bytes_dropped``.

        Args:
            step: Of an earlier batch than the next: a trainer takes batches before it uses them.
        """
        return figures.metrics(self.planner, self.reader, self._used_up_to(step))

    @alone
    def worst(self, count: int = 32) -> pa.Table:
        """Return the samples with the highest reported losses of steps before the position.

        Columns: as of ``served``, and ``loss``; the highest first. Of steps that were saved the
        4,096 highest are known. Look there for wrong labels and false negatives.
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

        They are kept in memory, 24 bytes each, until a save writes them into the table ``losses``
        of the state file: one row a step and source, of which the last report counts. Where
        weights follow from them, every rank has to report the same.

        Args:
            losses: A finite number by the name of each source, or what ``loss_by_source`` returns.
            step: The step of the batch they are of, where it is not the one taken last.
            per_sample: A number for each sample of this rank's batch, shape (samples,): the 32
                highest are kept, for ``worst`` and the table ``sample_losses``.

        Raises:
            SamplerError: A name is no source, a loss no number, or no batch of the step was taken.
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
        """Return the losses that were reported for steps before the position, by step and source.

        Columns: ``step``, ``source``, ``loss``. A resumed run begins with those that were saved.
        """
        return self._losses.table(0, self._steps_taken)

    def take_losses(self, losses: Losses) -> None:
        """Take losses that were reported in the place of this sampler, for it to save."""
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
        """Return the class that keeps our batches; see ``huggingface.hf_batch_sampler``."""
        figures.need_texts(self, "hf_batch_sampler")
        return _trainers().hf_batch_sampler(self)

    def hf_callback(self) -> Any:
        """Return what saves the run with a trainer's checkpoints; see ``huggingface``."""
        return _trainers().hf_callback(self)

    def hf_logger(self, trainer: Any, *, every: int = 100) -> Any:
        """Return what logs the run through a trainer; see ``huggingface``."""
        return _trainers().hf_logger(self, trainer, every=every)

    @alone
    def set_weights(self, weights: Mapping[str, float], *, temperature: float | None = None) -> int:
        """Give sources other weights from the next step on, until the mixture's next phase.

        As a phase does, they override the declared weights for the names given. Every rank has
        to set the same at the same step. A save keeps it with the run.

        Args:
            weights: By the names of sources.
            temperature: In the place of the mixture's, to the end of the run; None leaves it.

        Returns:
            The step from which on they are in force: with ``no_duplicates=True`` where the next
            block of 64 batches or fewer begins.

        Raises:
            MixtureError: A name is no source, a weight or the temperature is wrong, or all are 0.
            RecipeError: With ``no_duplicates``, too few different texts are left for a batch.
        """
        step = self.planner.next_change(self._position)
        schedule = self.planner.schedule.with_event(step, Event(weights, temperature))
        self.open_sources(schedule)
        self.planner.check(schedule, [step], self.reader.end)
        self.check_checkpoints(step)
        self.reader.go_on_with(schedule, step * self._batch)
        passes.end_anew(self)
        return step

    take_minings = versions.take_minings

    def check_checkpoints(self, step: int) -> None:
        """Refuse weights from a step on if a later checkpoint needs the present ones."""
        settings = self.settings
        if self._saves is None and not settings.rank:
            own = settings.fingerprint()
            self._saves = state.cursors(self._state_path, settings.run, fingerprint=own)
        state.refuse_beyond(settings.run, self._saves or [], step * self._batch, self._batch)

    def open_sources(self, schedule: RunSchedule) -> None:
        """Read the pools of sources that were not drawn from so far."""
        known = {stream.name for stream in self.planner.streams}
        for name in sorted(schedule.drawn - known):
            self._open_source(name)

    @alone
    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return where the run stands, or a ``step`` before it, as a few values of all ranks."""
        at = self._standing(step)
        return {"position": at.position, **at.plain()}

    def _standing(self, step: int | None) -> state.Standing:
        position = self._used_up_to(step)
        return state.Standing(
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
        """Go to where ``state_dict`` was taken, of a sampler of the same settings.

        Args:
            state_dict: What it returned.
            allow_drift: Names of fingerprint fields that may differ.

        Raises:
            StateMismatchError: It is of another run; names every differing field.
        """
        at, now = state.Standing.of_plain(state_dict), self.settings.fingerprint()
        refuse_mismatch(at.fingerprint, now, allow_drift=allow_drift)
        self.go_on(at)
        self.notes[:] = state.not_of_saving(self.notes)  # who keeps states saves elsewhere

    @alone
    def go_on(self, at: state.Standing) -> None:
        """Continue where a run of these settings stood, with its events."""
        if self.minings != at.minings:
            versions.take_up(self, at.minings)
        self._skipped = at.skipped
        schedule = self.planner.schedule.with_events(at.events)
        self.open_sources(schedule)
        if at.change is not None and at.fingerprint == self.settings.fingerprint():
            schedule.at(at.change[0]).know(at.change)
        self.planner.deal_by(schedule)
        passes.end_anew(self)
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
        """Write the position to the state file, for one rank to call; returns the file's path.

        Args:
            tag: Name of a checkpoint to add; without one the run's latest save is replaced.
            path: A new state file to write instead; its folders are made.
            step: The step to go on with, if that is an earlier one than the sampler's: a trainer
                takes batches before it uses them.

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
        """Refuse what ``save`` would refuse, before hours of work."""
        state.unsavable(self._state_path, asked=True)
        state.refuse_save(self._state_path, self._as_saved(tag, None))

    def certificate(self, *, progress: Progress | bool | None = None) -> Certificate:
        """Return what was drawn so far, for others to check; see ``proof.certificate``."""
        return _proof().certificate(self, self._as_saved(None, None), progress)  # type: ignore[no-any-return]

    def _as_saved(self, tag: str | None, step: int | None) -> state.Save:
        if tag is not None:
            checked("tag", tag, SlashedName, SamplerError)
        found = {"drifted_from": self._drifted_from, "changed_from": self.changed_from}
        return as_saved(self.settings, self.planner, self._standing(step), tag=tag, **found)

    def _used_up_to(self, step: int | None) -> int:
        """Return the position at which a step begins; by default the sampler's."""
        steps = self._steps_taken if step is None else integer("step", step, 0, self._steps_taken)
        return min(steps * self._batch, self._position)  # the last batch may be short

    def close(self) -> None:
        """Stop preparing and close what was opened for this run."""
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
