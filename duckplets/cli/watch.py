"""Show on a page of the terminal where a run stands: `status --watch`.

A run writes its position to the state file when it saves. The file is read, within some hundredths
of a second, when it has changed, and the page shows the last save.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from duckplets.base.sanitize import counted, shown, text_table
from duckplets.cli.app import existing, tell
from duckplets.errors import CorpusLockedError, StateMismatchError

if TYPE_CHECKING:
    from duckplets.order.schedule import RunSchedule
    from duckplets.runs.state import Save

_SECOND = 1.0  # seconds between two reads
_SOURCES = 60  # sources shown by --once
_HEAD = 12  # lines of a page besides its sources
_NAME = 40  # characters of a name
_BAR = 40  # characters
_CENTURY = 100 * 365 * 86_400  # seconds


def watch(corpus: Path, run: str, state: Path | None, *, once: bool) -> None:
    """Show where a run stands, once a second, as of its last save; or ``once``, in plain text.

    ``corpus`` may be a folder of token shards. Where nothing is saved yet, it is waited for.
    """
    from rich.console import Console
    from rich.text import Text

    watched = _Watched(existing(corpus), run, state)
    if once:
        tell(*page(watched.look(), _SOURCES))
        return
    console = Console(highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        raise typer.BadParameter("stdout is no terminal that can show a page: give --once")
    with console.screen():
        while True:
            lines = watched.lines(console.height - _HEAD)
            fitting = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
            console.update_screen(fitting)
            time.sleep(_SECOND)


class _Watched:
    """A run, read again when its state file has changed."""

    def __init__(self, corpus: Path, run: str, state: Path | None) -> None:
        from duckplets.runs.state import state_path

        self._corpus, self._run, self._path = corpus, run, state or state_path(corpus)
        self._seen = 0  # when the file that was read was written, in ns
        self._standing: RunStatus | None = None
        self._saves: set[tuple[datetime, int]] = set()  # including saves replaced since

    def lines(self, most: int) -> list[str]:
        """Return the page, or what is being waited for."""
        waiting = ""
        try:
            if self._standing is None or self._seen != self._path.stat().st_mtime_ns:
                self._standing = self.look()
        except FileNotFoundError:  # the last state is as good as any
            pass
        except CorpusLockedError:  # keep showing the last state
            waiting = "a save is under way; looking again"
        except StateMismatchError as error:
            self._standing, waiting = None, str(error)
            self._saves.clear()
        if self._standing is None:
            return [f"waiting for run {shown(repr(self._run))} to be saved: {waiting}"]
        return page(self._standing, most)

    def look(self) -> RunStatus:
        """Read the state file.

        Raises:
            StateMismatchError: The run is not saved there, or is of something else.
            CorpusLockedError: The file was being written all the time.
        """
        from duckplets.runs import state

        if not self._path.exists():
            raise StateMismatchError(
                f"{self._path} does not exist: no run was saved yet (sampler.save(), or sample "
                f"--save); --state names another file"
            )
        seen = self._path.stat().st_mtime_ns
        saves = state.cursors(self._path, self._run)
        last = max(saves, key=lambda save: (save["saved_at"], save["step"]), default={})
        run = state.load(self._path, self._run, last.get("tag"))
        self._saves |= {(save["saved_at"], save["step"]) for save in saves}
        self._seen = seen
        return RunStatus(run, self._schedule(run), last["saved_at"], sorted(self._saves))

    def _schedule(self, run: Save) -> RunSchedule:
        from duckplets.runs.settings import saved_settings, schedule_of
        from duckplets.tokens.dataset import TokenShards

        of_tokens = run.kind == "tokens"
        if of_tokens is not self._corpus.is_dir():
            what = "a folder of token shards" if of_tokens else "a corpus file"
            raise StateMismatchError(f"run {run.run!r} of {self._path} is over {what}: give that")
        settings = saved_settings(run)
        if of_tokens:
            return TokenShards(self._corpus).schedule(settings, run.events)
        return schedule_of(settings, run.events)


class RunStatus(NamedTuple):
    """A run as of a save, with the times and steps of the saves that were seen, in order."""

    saved: Save
    schedule: RunSchedule
    saved_at: datetime
    saves: Sequence[tuple[datetime, int]]

    def rate(self) -> float | None:
        """Return the steps a second between the last two saves; None if one was seen."""
        now = self.saved_at, self.saved.step
        earlier = [save for save in self.saves if save[0] < now[0] and save[1] < now[1]]
        if not earlier:
            return None
        return (now[1] - earlier[-1][1]) / (now[0] - earlier[-1][0]).total_seconds()

    def sources(self) -> list[dict[str, Any]]:
        """Return what was drawn of each source, the largest first; tokens are estimated."""
        saved, (counted_to, counts) = self.saved, self.saved.counts
        names, of_each = [], []
        if saved.losses is not None:
            names, of_each = (saved.losses[n].to_pylist() for n in ("source", "loss"))
        losses = dict(zip(names, of_each, strict=True))  # the last of each
        samples, before = (self.schedule.samples(at) for at in (saved.position, counted_to))
        declared, found = self.schedule.shares(saved.step), []
        for name in self.schedule.drawn:
            drawn = samples[name]
            tokens = counts.get(name, (0,))[0] * drawn // max(before[name], 1)
            row = {"source": name, "samples": drawn, "share": drawn / max(saved.position, 1)}
            row |= {"declared": declared[name], "loss": losses.get(name)}
            found.append(row | {"tokens": tokens if counted_to or not saved.position else None})
        return sorted(found, key=lambda of: (-max(of["share"], of["declared"]), of["source"]))


# -- the page -------------------------------------------------------------------------------------


def page(found: RunStatus, most: int) -> list[str]:
    """Return the page of a run as lines, with at most so many for sources."""
    facts = [f"{name:<10} {fact}" for name, fact in _facts(found).items()]
    sources, most = found.sources(), max(most, 1)
    left = len(sources) - most
    more = [f"and {counted(left, 'more source')}"] if left > 0 else []
    return [*facts, "", *_shares(sources[:most]), *more]


def _facts(found: RunStatus) -> dict[str, str]:
    """Return the facts above the sources, by label."""
    saved, mixture, changes = found.saved, found.schedule.mixture, found.schedule.changes
    age = datetime.now(UTC).replace(tzinfo=None) - found.saved_at
    save = f"{found.saved_at:%Y-%m-%d %H:%M:%S} UTC, {_time(age.total_seconds())} ago"
    at, steps, epochs = saved.step, saved.settings["steps"], saved.settings["epochs"]
    step, bounds = f"{at:,}", []
    if steps is not None:
        step += f" of {steps:,} ({100 * at / max(steps, 1):.1f} %)"
    if epochs is not None:
        bounds = [f"ends after {counted(epochs, 'epoch')}"]
    places = [step, f"position {saved.position:,}", f"epoch {saved.epoch:,}", *bounds]
    speed, rate = "known when the run has saved at two steps", found.rate()
    if rate is not None:
        speed = f"{rate:,.2f} steps/s, {rate * saved.batch:,.0f} samples/s"
        speed += " between the last two saves"
        if steps is not None and steps > at:
            speed += f"; {_time((steps - at) / rate)} to go"
    phases = len(mixture.phases) or int(mixture.anneal is not None)
    phase = f"{mixture.phase(at)} of {phases}; " if phases else ""
    phase += f"these shares since step {max(of for of in changes if of <= at):,}"
    if mixture.lr_scale(at) != 1:
        phase += f", learning rate × {mixture.lr_scale(at):g}"
    if until := min((of for of in changes if of > at), default=None):
        phase += f"; others from step {until:,} on, in {counted(until - at, 'step')}"
    what = f"{saved.kind} of {saved.settings['split']}"
    facts = {"run": f"{shown(saved.run, _NAME)}: {shown(what)}; as of its last save"}
    facts["last save"] = save if saved.tag is None else f"{save}, tag {shown(saved.tag, _NAME)}"
    facts |= {"step": ", ".join(places), "rate": speed, "phase": phase}
    if saved.losses is not None and saved.losses.num_rows:
        last = saved.losses["step"][-1].as_py()
        facts["losses"] = f"the last of each source, up to step {last:,}"
    return facts


def _shares(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the shares of sources as a table."""
    most = max((max(of["share"], of["declared"]) for of in sources), default=1.0) or 1.0
    columns = ("source", "so far", "declared", "samples", "tokens", "loss", "█ so far, │ declared")
    rows = [
        (
            shown(of["source"], _NAME),
            f"{100 * of['share']:.2f} %",
            f"{100 * of['declared']:.2f} %",
            of["samples"],
            of["tokens"],
            "-" if of["loss"] is None else f"{of['loss']:.4g}",
            _bar(of["share"] / most, of["declared"] / most),
        )
        for of in sources
    ]
    return text_table(columns, rows)


def _bar(share: float, declared: float) -> str:
    """Return a bar of a share with a mark at the declared one."""
    bar = list("█" * round(share * _BAR) + " " * (_BAR - round(share * _BAR)))
    bar[min(round(declared * _BAR), _BAR - 1)] = "│"
    return "".join(bar)


def _time(seconds: float) -> str:
    """Return a duration in words, to the second."""
    if seconds > _CENTURY:
        return "more than a century"
    return str(timedelta(seconds=max(0, round(seconds))))
