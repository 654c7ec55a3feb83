"""The sampler: a run's batches, one after the other or any of them by number.

    position ─Planner→ plan ─Fetcher→ Block ─slices→ Batch        (the next block meanwhile)

The sampler's only state is the position; everything else follows from its configuration. Blocks
start small, so that the first batch comes soon, and grow to what the memory allows.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets import state
from duckplets.batch import Batch, Block
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.fetch import Fetcher
from duckplets.order import ORDER_VERSION
from duckplets.plan import Planner
from duckplets.prefetch import Prefetcher
from duckplets.run_settings import RunSettings

if TYPE_CHECKING:
    from types import TracebackType

_FIRST_BLOCK = 256  # positions: a first read of a cold file touches few of its blocks
_GROWTH = 4
_LARGEST_BLOCK = 65_536
_BLOCK_BYTES = 192 << 20  # of text in a block: with those ahead of it well below the limit


class Sampler:
    """A run over a corpus: iterate it for batches.

    Made by ``Corpus.sampler`` and ``duckplets.resume``. Taking a batch is what moves the
    position; blocks prepared ahead do not count. Not safe to share between threads.
    """

    def __init__(
        self,
        settings: RunSettings,
        planner: Planner,
        fetcher: Fetcher,
        state_path: Path,
    ) -> None:
        self._settings = settings
        self._planner = planner
        self._fetcher = fetcher
        self._state_path = state_path
        self._owned: Any = None
        # The fingerprint it was resumed from, which may differ where drift was allowed.
        self.drifted_from: state.Fingerprint | None = None
        self._position = 0
        self._end = settings.end(planner.epoch_length)
        planner.end = self._end
        fetcher.padded_from = settings.padded_from(planner.epoch_length)
        self._block: Block | None = None
        sizes = _BlockSizes(settings.batch_size, self._end)
        self._ahead = Prefetcher(
            _Preparation(planner, fetcher, sizes), sizes.follow, settings.prefetch
        )
        # Dropping a sampler ends its thread and its connection, as closing it does.
        self._dropped = weakref.finalize(self, _let_go, self._ahead, fetcher)
        self._dropped.atexit = False

    # -- iteration ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        stop = self._position + self._settings.batch_size
        if self._end is not None:
            stop = min(stop, self._end)
        if stop <= self._position:
            raise StopIteration
        batch = self._slice(self._position, stop)
        self._position = stop
        return batch

    def _slice(self, start: int, stop: int) -> Batch:
        block = self._block
        if block is None or not block.start <= start < block.stop:
            block = self._block = self._ahead.take(start)
        if block is None or block.stop < stop:
            return self._fetched(start, stop)
        return block.batch(start, stop, self._step_of(start))

    def _fetched(self, start: int, stop: int) -> Batch:
        block = self._fetcher.fetch(self._planner.plan(start, stop))
        return block.batch(start, stop, self._step_of(start))

    def __len__(self) -> int:
        """Return the number of batches of a bounded run.

        Raises:
            TypeError: The run is endless.
        """
        if self._end is None:
            raise TypeError("an endless sampler has no length; bound it with steps= or epochs=")
        return -(-self._end // self._settings.batch_size)

    # -- where it stands ----------------------------------------------------------------------

    @property
    def settings(self) -> RunSettings:
        """What the run follows from."""
        return self._settings

    @property
    def position(self) -> int:
        """First position not yet taken."""
        return self._position

    @property
    def step(self) -> int:
        """Number of the next batch."""
        return self._step_of(self._position)

    @property
    def epoch(self) -> int:
        """Nominal epoch of the position."""
        return self._position // self._planner.epoch_length

    @property
    def epoch_length(self) -> int:
        """Samples of a nominal epoch: the anchors of all active streams."""
        return self._planner.epoch_length

    def set_epoch(self, epoch: int) -> None:
        """Go to the first position of a nominal epoch.

        With ``no_duplicates``, whose batches are arranged as a whole, to the first batch that
        begins in it.
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise SamplerError(f"epoch={epoch!r}: give an integer from 0")
        position = epoch * self._planner.epoch_length
        if self._settings.no_duplicates:
            position = -(-position // self._settings.batch_size) * self._settings.batch_size
        self.move(position)

    def batch_at(self, step: int) -> Batch:
        """Return the batch of any step, past or future; the position stays.

        Raises:
            SamplerError: A bounded run has no such step.
        """
        start = step * self._settings.batch_size
        stop = start + self._settings.batch_size
        stop = stop if self._end is None else min(stop, self._end)
        if step < 0 or stop <= start:
            raise SamplerError(
                f"step {step}: this run has steps 0 to {len(self) - 1}"
                if self._end is not None
                else f"step {step}: give an integer from 0"
            )
        return self._fetched(start, stop)

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the run stands, as a few plain values."""
        return {"position": self._position, "fingerprint": self._settings.fingerprint()}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow_drift: Collection[str] = ()
    ) -> None:
        """Go to where ``state_dict`` was taken.

        Args:
            state_dict: From ``state_dict`` of a sampler of the same settings.
            allow_drift: Names of fingerprint fields that may differ.

        Raises:
            StateMismatchError: It is of another run; names every differing field.
        """
        if not {"position", "fingerprint"} <= set(state_dict):
            raise StateMismatchError(
                f"this is not a sampler's state, with position and fingerprint; it has "
                f"{', '.join(map(str, state_dict)) or 'nothing'}"
            )
        now = self._settings.fingerprint()
        state.refuse_mismatch(state_dict["fingerprint"], now, allow_drift=allow_drift)
        self.drifted_from = state_dict["fingerprint"]
        self.move(int(state_dict["position"]))

    def save(self, tag: str | None = None, path: str | Path | None = None) -> Path:
        """Write the position to the state file and return the file's path.

        Args:
            tag: Name of a checkpoint to add; without one the run's latest save is replaced.
            path: A new state file to write instead.

        Raises:
            StateMismatchError: The tag or the path exists, or another run has the name.
        """
        target = Path(path) if path is not None else self._state_path
        if path is not None and target.exists():
            raise StateMismatchError(f"{target} exists; give the path of a new file")
        run = state.Run(
            name=self._settings.run,
            kind=self._settings.kind,
            corpus_version=self._settings.corpus_version,
            order_version=ORDER_VERSION,
            settings=asdict(self._settings),
            fingerprint=self._settings.fingerprint(),
        )
        cursor = state.Cursor(
            run=run.name, tag=tag, position=self._position, step=self.step, epoch=self.epoch
        )
        weights, drifted_from = self._settings.weights, self.drifted_from
        state.save(target, run, cursor, weights, drifted_from=drifted_from)
        return target

    def _step_of(self, position: int) -> int:
        return position // self._settings.batch_size

    def move(self, position: int) -> None:
        """Go to a position.

        Raises:
            SamplerError: It lies beyond the end of a bounded run.
        """
        if self._end is not None and position > self._end:
            raise SamplerError(
                f"position {position} lies beyond the end of this run ({self._end}); "
                f"give it more steps= or epochs="
            )
        self._position = position
        self._block = None

    # -- the end ------------------------------------------------------------------------------

    def own(self, resource: Any) -> None:
        """Close something, such as the corpus, together with this sampler."""
        self._owned = resource

    def close(self) -> None:
        """Stop preparing and close what was opened for this run."""
        self._block = None
        self._dropped()
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        s = self._settings
        return f"Sampler({s.kind!r}, split={s.split!r}, run={s.run!r}, position={self._position})"


def _let_go(ahead: Prefetcher, fetcher: Fetcher) -> None:
    ahead.close()
    fetcher.close()


@dataclass
class _BlockSizes:
    """How many positions each block has: few at first, then as many as the memory allows."""

    batch_size: int
    end: int | None
    target: int = _FIRST_BLOCK
    largest: int = _LARGEST_BLOCK

    def follow(self, start: int) -> tuple[int, int] | None:
        """Return the block that begins at a position."""
        if self.end is not None and start >= self.end:
            return None
        size = max(1, min(self.target, self.largest) // self.batch_size) * self.batch_size
        self.target = min(self.target * _GROWTH, _LARGEST_BLOCK)
        stop = start + size
        return start, stop if self.end is None else min(stop, self.end)

    def learn(self, block: Block) -> None:
        """Bound the next blocks by the size of this one's texts."""
        each = max(1, block.nbytes // max(1, block.size))
        self.largest = max(1, _BLOCK_BYTES // each)


@dataclass(frozen=True)
class _Preparation:
    """What the background thread does; it holds no reference to the sampler."""

    planner: Planner
    fetcher: Fetcher
    sizes: _BlockSizes = field(repr=False)

    def __call__(self, start: int, stop: int) -> Block:
        block = self.fetcher.fetch(self.planner.plan(start, stop))
        self.sizes.learn(block)
        return block
