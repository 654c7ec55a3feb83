"""The command `mix-diff`: say what another mixture alters, and from which step on.

Nothing is drawn: it compares how two schedules deal positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import listed
from duckplets.cli import output
from duckplets.cli.app import JSON, as_written, say, tell
from duckplets.cli.inputs import names
from duckplets.cli.options import STATE

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.order.schedule import Schedule
    from duckplets.runs.settings import RunSettings
    from duckplets.runs.state import Save

_OR_RUN = "A mixture file, FILE.toml, or the name of a saved run of --corpus."
_BATCH = 128  # samples, where no run says how many


def mix_diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_OR_RUN)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_OR_RUN)],
    corpus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The corpus: its sources, and the runs beside it."),
    ] = None,
    state: STATE = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="All sources. [default: those of run or corpus]"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Samples a step of all ranks. [default: of a run its own, else {_BATCH}]"
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Print what another mixture alters: shares before and after, and the first step that differs.

    Where neither is a run and no corpus is given, the sources are those that the files name.
    Weights that were set during a run are part of it, and of a file that is compared with it: so
    it would be taken by `sample --resume --mixture`.

    Example:
        duckplets mix-diff old.toml new.toml --sources faq,web
        duckplets mix-diff default new.toml --corpus faq.duckdb
    """
    one, two = (_side(value, corpus, state) for value in (old, new))
    if batch_size is not None and (one.run or two.run):
        raise typer.BadParameter("--batch-size: a saved run has its own; leave it out")
    known = names(sources) or _sources(one, two, corpus)
    found = _Difference(one, two, *_schedules(one, two, known, batch_size or _BATCH))
    if json:
        output.print_document(found.plain())
    else:
        found.show()


@dataclass(frozen=True)
class _Side:
    """What stands on one side of a comparison.

    Attributes:
        mixture: Of the file or the run.
        run: The saved run, or None.
        settings: Of the run.
    """

    mixture: Mixture
    run: Save | None = None
    settings: RunSettings | None = None


def _side(value: str, corpus: Path | None, state: Path | None) -> _Side:
    """Return what an argument means.

    Raises:
        typer.BadParameter: It is no file, and it is not said where runs are.
        MixtureError, StateMismatchError: The file is wrong, or there is no such run.
    """
    from duckplets.order.mixture import Mixture
    from duckplets.runs import state as states
    from duckplets.runs.settings import saved_settings

    if value.lower().endswith(".toml"):
        with as_written():
            return _Side(Mixture.from_toml(value))
    if corpus is None and state is None:
        raise typer.BadParameter(
            f"{value} is no FILE.toml, so it names a saved run: give --corpus or --state with it"
        )
    run = states.load(state or states.state_path(corpus or Path()), value, None)
    settings = saved_settings(run)
    return _Side(Mixture.from_dict(settings.mixture), run, settings)


def _sources(one: _Side, two: _Side, corpus: Path | None) -> list[str]:
    """Return the sources of a comparison: those of a run, of the corpus, or those named."""
    from duckplets.corpus.corpus import Corpus

    for side in (one, two):
        if side.settings is not None:
            return side.settings.sources
    if corpus is not None:
        with Corpus(corpus, read_only=True) as opened:
            return list(opened.sources()["name"].to_pylist())
    found = sorted(one.mixture.named | two.mixture.named)
    if not found:
        raise typer.BadParameter("no mixture names a source: give --sources or --corpus")
    say(f"note: these are taken for all sources: {listed(found)}; --sources or --corpus say others")
    return found


def _schedules(one: _Side, two: _Side, sources: list[str], batch: int) -> Iterator[Schedule]:
    """Yield how both deal: what is not a run's own is that of the run it is compared with."""
    from duckplets.order.schedule import Schedule
    from duckplets.samples.planned import samples_per_draw

    for side, other in ((one, two), (two, one)):
        run, settings = side.run or other.run, side.settings or other.settings
        side = replace(side, mixture=_in_shares(side.mixture, other.mixture, sources))
        side.mixture.check(sources if settings is None else settings.sources)
        if run is None or settings is None:
            yield Schedule(side.mixture, sources, seed=0, batch=batch)
            continue
        yield Schedule(
            side.mixture,
            settings.sources,
            seed=settings.seed,
            batch=settings.global_batch,
            samples_per_draw=samples_per_draw(settings.kind, settings.pairs, settings.negatives),
            events=run.events,
        )


def _in_shares(mixture: Mixture, other: Mixture, sources: list[str]) -> Mixture:
    """Return a mixture with what its word means, which a run may know that it is compared with.

    Raises:
        typer.BadParameter: No run knows it.
    """
    if mixture.weights != "proportional" or mixture.lengths:
        return mixture
    if not other.lengths:
        raise typer.BadParameter(
            "shares in proportion to anchors are known of a run that was opened with them: "
            "compare two such runs, or look at: duckplets forecast CORPUS --mixture …"
        )
    return replace(mixture, lengths={name: other.lengths.get(name, 0) for name in sources})


@dataclass(frozen=True, slots=True)
class _Shares:
    """A source whose share is another by another schedule.

    Attributes:
        start: The first step.
        stop: After the last, or None.
        source: Its name.
        before: Its shares at the first and the last of these steps.
        after: The same by the other schedule.
    """

    start: int
    stop: int | None
    source: str
    before: tuple[float, float]
    after: tuple[float, float]


@dataclass(frozen=True)
class _Difference:
    """What a mixture alters.

    Attributes:
        old: Before.
        new: After.
        before: How the old one deals.
        after: How the new one does.
    """

    old: _Side
    new: _Side
    before: Schedule
    after: Schedule

    @property
    def others(self) -> list[str]:
        """What two runs differ in besides, so that no position is dealt alike."""
        if self.old.run is None or self.new.run is None:
            return []
        one, two = self.old.run.fingerprint, self.new.run.fingerprint
        return sorted(n for n in {*one, *two} - {"mixture"} if one.get(n) != two.get(n))

    @property
    def position(self) -> int | None:
        """The first position whose sample may be another, if there is one."""
        if self.others:
            return 0
        settings = self.old.settings or self.new.settings
        if settings is None or settings.no_duplicates is not True:
            return self.before.first_change(self.after)
        from duckplets.samples.no_duplicates import BLOCK_BATCHES

        length = settings.global_batch * BLOCK_BATCHES
        return self.before.first_change_of_blocks(self.after, length, None, None)

    @property
    def end_moves(self) -> bool:
        """Whether a run of so many epochs may end elsewhere, as it draws from other sources.

        Their anchors would tell, and only an opened run knows these.
        """
        settings = self.old.settings or self.new.settings
        bounded = settings is not None and settings.epochs is not None
        return bounded and not self.others and self.before.planned != self.after.planned

    @property
    def step(self) -> int | None:
        """The step that begins there or holds it."""
        return None if self.position is None else self.position // self.before.batch

    def scales(self) -> list[dict[str, Any]]:
        """Return from which steps lr_scale is another."""
        steps = {0, *(step for one in (self.before, self.after) for step, _ in one.changes)}
        one, two = self.old.mixture, self.new.mixture
        return [
            {"start_step": step, "before": one.lr_scale(step), "after": two.lr_scale(step)}
            for step in sorted(steps)
            if one.lr_scale(step) != two.lr_scale(step)
        ]

    def differing(self) -> Iterator[_Shares]:
        """Yield for which steps and sources the shares are others.

        The two may be of other sources: one that is not there has no share.
        """
        schedules = (self.before, self.after)
        names = sorted({name for schedule in schedules for name in schedule.sources})
        steps = sorted({step for schedule in schedules for step, _ in schedule.changes})
        for start, stop in zip_longest(steps, steps[1:]):
            one, two = (_at_ends(schedule, start, stop) for schedule in schedules)
            for name in names:
                before, after = one.get(name, (0.0, 0.0)), two.get(name, (0.0, 0.0))
                if before != after:
                    yield _Shares(start, stop, name, before, after)

    def plain(self) -> dict[str, Any]:
        """Return all of it as plain values; shares are those of the first and the last step."""
        rows = [asdict(row) for row in self.differing()]
        at: dict[str, Any] = {"first_step": self.step, "first_position": self.position}
        at |= {"end_may_move": self.end_moves, "other_settings": self.others}
        return at | {"shares": rows, "lr_scale": self.scales()}

    def show(self) -> None:
        """Print all of it."""
        rows = [
            (row.start, row.source, _shares(row.before), _shares(row.after))
            for row in self.differing()
        ]
        if rows:
            output.show_table(["from step", "source", "before", "after"], rows)
        for row in self.scales():
            tell(f"lr_scale from step {row['start_step']:,}: {row['before']:g}, {row['after']:g}")
        if self.others:
            tell(f"two runs that differ in {listed(self.others)}: all samples are others")
        elif self.position is None:
            tell("nothing changes" + ", but lr_scale" * bool(self.scales()))
        elif self.position == 0:
            tell("samples are others from step 0 on")
        else:
            tell(f"nothing changes before step {self.step:,} (position {self.position:,})")
        if self.end_moves:
            tell(*self._of_the_end())

    def _of_the_end(self) -> Iterator[str]:
        """Yield what is to be said where the end of a run may move."""
        settings = self.old.settings or self.new.settings
        yield (
            "but the run ends after a number of epochs, and other sources make up an epoch: its "
            "end may move"
        )
        if settings is not None and settings.no_duplicates is True:
            yield (
                "and with no_duplicates= samples change places up to the end, so those shortly "
                "before the earlier end may be others too: sample --resume --mixture checks it"
            )


def _shares(ends: tuple[float, float]) -> str:
    """Return the share of the first and of the last step of some, if that is another."""
    from duckplets.runs.forecast import percent

    one, other = map(percent, ends)
    return one if one == other else f"{one} to {other}"


def _at_ends(schedule: Schedule, start: int, stop: int | None) -> dict[str, tuple[float, float]]:
    """Return the shares of all sources at the first and the last of some steps."""
    ends = [(start, start + 1), (start if stop is None else stop - 1, stop or start + 1)]
    shares = zip(*(schedule.parts(*end) for end in ends), strict=True)
    return dict(zip(schedule.sources, shares, strict=True))
