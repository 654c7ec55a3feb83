"""Say what is odd about a run, a sentence each: what its user has likely not meant."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.sanitize import listed, shown
from duckplets.db import migrate
from duckplets.errors import DuckpletsError, SamplerError
from duckplets.runs import state
from duckplets.runs.forecast import figure, percent
from duckplets.runs.settings import BehindNote, SavingNote

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.plan import Planner
    from duckplets.samples.stream import Stream

TOLD = 10  # names in a sentence
_APART = 10  # times as often: streams of one source are told apart from there on

_TOO_FEW = {
    "mined": "mined negatives than a sample takes, and fall back on random ones",
    "given": "ready negatives than a sample takes, and fall back on random ones",
    "random": "legal negatives in their source than a sample takes, and draw from all sources",
}

Unused = tuple[str, str, int]  # source, recipe, anchors


def oddities(planner: Planner) -> Iterator[str]:
    """Yield what is odd about the streams of a run."""
    yield from rates_apart(planner)
    yield from mixed_labels(planner)


def rates_apart(planner: Planner) -> Iterator[str]:
    """Yield which streams of a source come to their anchors far more often than others of it."""
    rates = planner.recipe_parts() / np.array([len(stream) for stream in planner.streams])
    sources = planner.sources
    for source in dict.fromkeys(sources.tolist()):
        of_source = np.flatnonzero((sources == source) & (rates > 0))
        if not len(of_source):
            continue
        least = of_source[np.argmin(rates[of_source])]
        other = planner.streams[least]
        for number in of_source[rates[of_source] > _APART * rates[least]]:
            stream = planner.streams[number]
            yield (
                f"source {stream.source!r}: recipe {stream.recipe.name!r} comes to each of its "
                f"{len(stream):,} anchors {figure(rates[number] / rates[least])} times as often as "
                f"recipe {other.recipe.name!r} to each of its {len(other):,}; give it less weight="
            )


def mixed_labels(planner: Planner) -> Iterator[str]:
    """Yield that labels are of two kinds, where some sources have grades and others do not."""
    graded = dict.fromkeys(s.source for s in planner.streams if s.graded)
    others = dict.fromkeys(s.source for s in planner.streams if s.source not in graded)
    if graded and others:
        yield (
            f"labels are floats, for there are grades in {listed(map(repr, graded), TOLD)}; 1 and "
            f"0 of {listed(map(repr, others), TOLD)} are 1.0 and 0.0 beside them"
        )


def omitted(mixture: Mixture, sources: Sequence[str]) -> Iterator[str]:
    """Yield which sources a mixture leaves out, for it does not name them."""
    left = [repr(name) for name in sources if name not in mixture.named]
    if left and not (isinstance(mixture.weights, str) or mixture.omitted):
        yield (
            f"the mixture does not name {listed(left, TOLD)}: nothing is drawn from there; "
            f"omitted=1 gives sources that it does not name a weight"
        )


def left_alone(minings: Sequence[Unused]) -> Iterator[str]:
    """Yield which mined negatives a run does not draw."""
    for source, recipe, anchors in minings:
        yield (
            f"source {source!r}, recipe {recipe!r} draws at random, and the mined negatives of "
            f"{anchors:,} anchors are not used: they came after this run was opened; a new run "
            f"takes them"
        )


def falling_back(streams: Sequence[Stream]) -> Iterator[str]:
    """Yield which streams lack negatives of their kind for some of their anchors."""
    for stream in streams:
        if stream.fallback_anchors:
            yield (
                f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
                f"{percent(stream.fallback_anchors / len(stream))} of the anchors "
                f"({stream.fallback_anchors:,} of {len(stream):,}) have fewer "
                f"{_TOO_FEW[stream.negatives_from or '']}"
            )


def behind(corpus: Path, settings: RunSettings, path: Path, position: int) -> list[str]:
    """Return that a run begins before its latest save, which a save would replace, if it does.

    Args:
        corpus: The corpus, or the folder of token shards.
        settings: Of the run.
        path: The state file.
        position: Where the run begins.
    """
    try:
        saved = state.saves_of(path, settings.run, settings.fingerprint())
    except DuckpletsError as error:  # whoever saves is stopped by that; others need not be
        return [SavingNote(f"this run cannot be saved in {shown(path)}: {error}")]
    latest = [(at, step) for tag, at, step in saved if tag is None and at > position]
    if not latest:
        return []
    of_run, options = [shown(repr(str(corpus)))], ["--resume"]
    if settings.run != "default":
        of_run.append(shown(repr(settings.run)))
        options += ["--run", shlex.quote(settings.run)]
    if path != state.state_path(corpus):
        of_run.append(f"state={shown(repr(str(path)))}")
        options += ["--state", shlex.quote(str(path))]
    ways = f"duckplets.resume({', '.join(of_run)})"
    if corpus.is_file():
        ways += f", or run: duckplets sample {' '.join([shlex.quote(str(corpus)), *options])}"
    return [
        BehindNote(
            f"run {settings.run!r} was saved at step {latest[0][1]:,}; this run begins at step "
            f"{position // settings.global_batch:,}, and saving it replaces that save. To go on "
            f"from there call {ways}"
        )
    ]


def unsavable(path: Path, *, asked: bool) -> list[str]:
    """Return why a run cannot be saved in a file, if it cannot, where only reading may be meant.

    Raises:
        SamplerError: It was asked for.
    """
    why = migrate.unwritable(path)
    told: list[str] = (
        [SavingNote(f"this run cannot be saved in {shown(path)}: {why}")] if why else []
    )
    if told and asked:
        raise SamplerError(f"{told[0]}; name another file")
    return told
