"""Options by which several commands name a run, and how they open it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import typer

from duckplets.cli.app import say

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.order.mixture import Mixture
    from duckplets.runs.sampler import Sampler

NOT_HERE = ("steps", "prefetch", "tokenizer", "seq_length", "pack")
"""Arguments of a sampler that no command has."""
_WEIGHTS = "one file, or weights: SOURCE=WEIGHT, each source once, proportional, equal or FILE.toml"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to open a run, new or as saved; ``arguments`` are further ones of ``Corpus.sampler``."""

    run: str
    resume: bool
    tag: str | None
    state: Path | None
    arguments: Mapping[str, Any]

    def open(self, corpus: Corpus, *, save: bool = False) -> Sampler:
        """Return the run's sampler; notes about saving are dropped unless it will be saved."""
        from duckplets.runs.state import not_of_saving

        if self.resume:
            sampler = corpus.resume(self.run, self.tag, self.state, **self.arguments)
        else:
            sampler = corpus.sampler(run=self.run, state=self.state, **self.arguments)
        if not save:
            sampler.notes[:] = not_of_saving(sampler.notes)
        return sampler


def opening(
    *,
    run: str = "default",
    resume: bool = False,
    tag: str | None = None,
    state: Path | None = None,
    version: str | None = None,
    allow_drift: list[str] | None = None,
    recipes: list[str] | None = None,
    mixture: list[str] | None = None,
    by: list[str] | None = None,
    apart: str | None = None,
    no_duplicates: bool = False,
    no_duplicates_of: str | None = None,
    **given: Any,
) -> RunOptions:
    """Return how to open the run that options describe; ``given`` are those of ``Corpus.sampler``.

    Args:
        run: Name of the run. [default: default]
        resume: Go on where the run was saved.
        tag: Checkpoint to resume from.
        version (newest): With --resume: text that arrived since joins, in each recipe from the end
            of the epoch it is in; or the number of a corpus version.
        allow_drift (FIELD,…): What may differ from the run that is resumed.
        recipes (NAME,…|FILE.toml): Names of recipes, or recipes files.
        mixture (SOURCE=WEIGHT,…|proportional|equal|FILE.toml): What is not named is left out.
            proportional: as many samples an epoch as there are anchors, which holds where nothing
            else was declared; equal: all sources alike; a file may have phases. With --resume it
            may change what comes, not what was.
        by (bm25|random|bm25=SHARE,random=SHARE,…): Where negatives come from in recipes that leave
            it open. [default: mined where there are some, else random]
        apart (SCORER=PART): No sample beside one whose anchor it has a positive of, or a candidate
            of this scorer above such a part of the positive's score.
        no_duplicates: No text twice in a batch.
        no_duplicates_of (negatives|group|meta['KEY']|…): What no batch has twice: negatives of
            other texts only, or besides texts families (group), or a value of records.

    Raises:
        typer.BadParameter: Options contradict each other.
        RecipeError, MixtureError: A file is wrong.
    """
    of_saved = {"--allow-drift": allow_drift, "--version": version}
    if not resume and (misplaced := [name for name, value in of_saved.items() if value]):
        raise typer.BadParameter(f"{misplaced[0]} is about a saved run: give --resume with it")
    if given.get("remainder") and not (resume or given.get("epochs") is not None):
        raise typer.BadParameter("--remainder is about the end of a run: give --epochs with it")
    if no_duplicates and no_duplicates_of:
        raise typer.BadParameter("give --no-duplicates or --no-duplicates-of, not both")
    read: dict[str, Any] = {
        "recipes": _recipes(recipes or ()),
        "mixture": mixture_of(mixture or ()),
        "by": _by(by),
        "version": int(version) if version is not None and version.isdecimal() else version,
        "allow_drift": allow_drift,
        "no_duplicates": no_duplicates_of or no_duplicates or None,
    }
    if apart is not None:
        (read["apart"],) = _weights([apart], "--apart", "SCORER=PART: dense=0.95").items()
    arguments = given | {name: value for name, value in read.items() if value is not None}
    return RunOptions(run=run, resume=resume, tag=tag, state=state, arguments=arguments)


def introduce(sampler: Sampler) -> None:
    """Print what a run draws, in short, with its notes."""
    say(*sampler.describe().split("\n"))
    sampler.notes.clear()  # they are printed


def command_line(*words: str | Path, **options: str | Path | None) -> str:
    """Return a command line to show, with the options that are not None."""
    given = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    return shlex.join(["duckplets", *map(str, words), *chain.from_iterable(given)])


def _recipes(names: Sequence[str]) -> list[Recipe | str] | None:
    """Return recipe names, and the recipes of files."""
    from duckplets.recipes.files import load_recipes

    found: list[Recipe | str] = []
    for name in names:
        is_file = name.lower().endswith(".toml")
        found += load_recipes(name) if is_file else [name]
    return found or None


def _by(parts: Sequence[str] | None) -> str | dict[str, float] | None:
    if parts and (parts[1:] or "=" in parts[0]):
        return _weights(parts, "--by", "KIND=SHARE, each kind once, or the name of one")
    return parts[0] if parts else None


def mixture_of(parts: Sequence[str], name: str = "--mixture") -> Mixture | None:
    """Return the mixture of a file, or of a word or weights."""
    from duckplets.order.kinds import Word
    from duckplets.order.mixture import Mixture

    if not parts:
        return None
    if len(parts) == 1 and parts[0].lower().endswith(".toml"):
        return Mixture.from_toml(parts[0])
    is_word = len(parts) == 1 and parts[0] in get_args(Word)
    return Mixture(cast("Word", parts[0]) if is_word else _weights(parts, name, _WEIGHTS))


def _weights(parts: Sequence[str], name: str, form: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in parts:
        source, equals, weight = part.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            equals = ""
        if not equals or source in weights:
            raise typer.BadParameter(f"{name} {part}: give {form}")
        weights[source] = number
    return weights
