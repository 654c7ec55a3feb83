"""Lay out where a run stood at its last save as a page, in terminals of any width."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duckplets.base.shown import counted, shown

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from duckplets.sampling.standing import OfSource, Standing

_NAME = 40  # characters of a name
_CENTURY = 100 * 365 * 86_400  # seconds
_WIDE = 120  # columns from which on numbers are written out


def page(found: Standing, width: int, most: int, notes: Sequence[str] = ()) -> RenderableType:
    """Return the page of a run.

    Args:
        found: Where it stood.
        width: Columns of the terminal.
        most: Lines for its sources.
        notes: What else is to be known.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    most = max(most, 1)
    head = Table.grid(padding=(0, 2))
    for name, told in [*_told(found).items(), *(("note", note) for note in notes)]:
        head.add_row(name, Text(told, overflow="fold"))
    left = len(found.sources) - most
    more = [Text(f"and {counted(left, 'more source')}")] if left > 0 else []
    return Group(head, Text(), _shares(found.sources[:most], width), *more)


def _told(found: Standing) -> dict[str, str]:
    """Return what is told above the sources, by what it is about."""
    age = datetime.now(UTC).replace(tzinfo=None) - found.saved_at
    save = f"{found.saved_at:%Y-%m-%d %H:%M:%S} UTC, {_time(age.total_seconds())} ago"
    step, bounds = f"{found.step:,}", []
    if found.steps is not None:
        step += f" of {found.steps:,} ({100 * found.step / max(found.steps, 1):.1f} %)"
    if found.epochs is not None:
        bounds = [f"ends after {counted(found.epochs, 'epoch')}"]
    places = [step, f"position {found.position:,}", f"epoch {found.epoch:,}", *bounds]
    rate = "known when the run has saved at two steps"
    if found.rate is not None:
        rate = f"{found.rate:,.2f} steps/s, {found.rate * found.batch:,.0f} samples/s"
        rate += " between the last two saves"
        if found.steps is not None and found.steps > found.step:
            rate += f"; {_time((found.steps - found.step) / found.rate)} to go"
    phase = f"{found.phase} of {found.phases}; " if found.phases else ""
    phase += f"these shares since step {found.since:,}"
    if found.lr_scale != 1:
        phase += f", learning rate × {found.lr_scale:g}"
    if found.until is not None:
        steps = counted(found.until - found.step, "step")
        phase += f"; others from step {found.until:,} on, in {steps}"
    told = {"run": f"{shown(found.run, _NAME)}: {shown(found.what)}; as of its last save"}
    told["last save"] = save if found.tag is None else f"{save}, tag {shown(found.tag, _NAME)}"
    told |= {"step": ", ".join(places), "rate": rate, "phase": phase}
    if found.loss_step is not None:
        told["losses"] = f"the last of each source, up to step {found.loss_step:,}"
    return told


def _shares(sources: Sequence[OfSource], width: int) -> Table:
    """Return the shares of sources as a table that is as wide as the terminal."""
    from rich.table import Table
    from rich.text import Text

    wide = width >= _WIDE
    size = min(60, width - 110) if wide else max(6, width - 69)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("source", no_wrap=True, max_width=_NAME if wide else 20)
    table.add_column("█ so far, │ declared" if size >= 20 else "█ so far", no_wrap=True)
    for name in ("so far", "declared", "samples", "tokens", "loss"):
        table.add_column(name, justify="right", no_wrap=True)
    most = max((max(of.share, of.declared) for of in sources), default=1.0) or 1.0
    for of in sources:
        table.add_row(
            Text(shown(of.name, _NAME)),
            Text(_bar(of.share / most, of.declared / most, size)),
            *(f"{100 * share:.2f} %" for share in (of.share, of.declared)),
            *(
                "-" if n is None else f"{n:,}" if wide else _short(n)
                for n in (of.samples, of.tokens)
            ),
            "-" if of.loss is None else f"{of.loss:.4g}",
        )
    return table


def _bar(share: float, declared: float, size: int) -> str:
    """Return a bar as long as a share, with a mark where the declared one ends."""
    bar = list("█" * round(share * size) + " " * (size - round(share * size)))
    bar[min(round(declared * size), size - 1)] = "│"
    return "".join(bar)


def _short(number: int) -> str:
    """Return a count in seven characters at most: 1.23M."""
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= unit:
            size = unit if letter != "k" else 1e3
            return f"{number / size:,.4g}{letter}"
    return f"{number:,}"


def _time(seconds: float) -> str:
    """Return a time in words, whole seconds."""
    if seconds > _CENTURY:
        return "more than a century"
    return str(timedelta(seconds=max(0, round(seconds))))
