"""Options that name a run in several commands, and how they open it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

NOT_HERE = ("steps", "options", "rank", "world_size", "columns")
"""Arguments of a sampler that only the command ``sample`` has."""
_WEIGHTS = "one file, or weights: SOURCE=WEIGHT, each source once, proportional, equal or FILE.toml"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Settings to open a new or saved run; ``arguments`` are further ones of ``Corpus.sampler``."""

    run: str
    resume: bool
    tag: str | None
    arguments: Mapping[str, Any]

    def open(self, corpus: Corpus, *, save: bool = False) -> Sampler:
        """Return the run's sampler; notes about saving are dropped unless it will be saved."""
        from duckplets.runs.request import Options
        from duckplets.runs.state import not_of_saving

        arguments = dict(self.arguments)
        if self.resume:
            options: Any = arguments.get("options") or Options()
            state, arguments["options"] = options.state, replace(options, state=None)
            sampler = corpus.resume(self.run, self.tag, state, **arguments)
        else:
            sampler = corpus.sampler(run=self.run, **arguments)
        if not save:
            sampler.notes[:] = not_of_saving(sampler.notes)
        return sampler


def opening(
    *,
    config: Path | None = None,
    changes: list[str] | None = None,
    resume: bool = False,
    recipes: list[str] | None = None,
    mixture: list[str] | None = None,
    negatives: int | None = None,
    by: list[str] | None = None,
    no_duplicates: str | None = None,
    consistent: str | None = None,
    **settings: Any,
) -> RunOptions:
    """Return the settings of the run that options and arguments of ``Corpus.sampler`` describe.

    An option overrides ``--set``. Both override the file, and the file overrides the defaults.

    Args:
        config (FILE.toml): A file with settings of the run. `duckplets forecast CORPUS --write
            FILE.toml` writes one with every key and its meaning.
        changes (--set KEY=VALUE): Set a key of that file, such as --set remainder=drop. With
            --resume also tag=NAME (a checkpoint), version=newest (add newer text: each recipe
            begins a new epoch at the saved position), and allow_drift=KEY,….
        resume: Continue at the saved position of the run.
        recipes (NAME,…|FILE.toml): Names of recipes, or files of recipes.
        mixture (SOURCE=WEIGHT,…|proportional|equal|FILE.toml): Weight of each source; a source
            without one is excluded. proportional: each anchor once an epoch. equal: the same
            weight for all sources. A file may have phases. With --resume it changes the next steps.
            [default: declared weights, otherwise proportional]
        negatives: Number of distinct negatives of each triplet. Several are the columns negative_1,
            negative_2, …. [default: 1]
        by (bm25|random|bm25=SHARE,random=SHARE,…): Kind of negatives for recipes that set none.
            [default: mined if they exist, otherwise random]
        no_duplicates (true|negatives|group|meta['KEY']|…): Values that must be unique in a batch.
            true: texts. negatives: only the negatives. group: texts and families. A key: texts and
            a value of records.
        consistent (SCORER=RANK): Draw only pairs whose positive this scorer ranks this high among
            legal negatives, such as dense=20. [default: all pairs]

    Raises:
        typer.BadParameter: Options contradict each other.
        SamplerError, RecipeError, MixtureError: A file, key or value is wrong.
    """
    from duckplets.corpus import run_file
    from duckplets.recipes.files import load_recipes

    tables = run_file.read_tables(config) if config else run_file.no_tables()
    others = run_file.with_sets(tables, changes or ())
    if others and not resume:
        raise typer.BadParameter(f"--set {next(iter(others))} is for saved runs: add --resume")
    if recipes:
        tables.pop("recipe", None)
    unique = {"true": True, "false": False}.get(no_duplicates or "", no_duplicates)
    of_mixture = mixture_of(mixture or ())
    chosen: list[Recipe | str] = []
    for name in recipes or ():
        chosen += load_recipes(name) if name.lower().endswith(".toml") else [name]
    read = {
        "recipes": chosen or None,
        "mixture": None if of_mixture is None else of_mixture.to_dict(),
        "negatives": negatives,
        "by": _by(by),
        "no_duplicates": unique,
        "consistent": consistent,
    }
    wins = {text.partition("=")[0].rpartition(".")[2] for text in changes or ()}
    for name, value in (settings | read).items():
        if value is not None:
            if name in wins or (name == "negatives" and "num" in wins):
                say(f"note: --{name.replace('_', '-')} overrides --set {name}")
            run_file.put(tables, name, value)
    arguments = run_file.opened(tables, config, is_partial=resume)
    name, tag = arguments.pop("run", "default"), others.pop("tag", None)
    return RunOptions(run=name, resume=resume, tag=tag, arguments=arguments | others)


def introduce(sampler: Sampler) -> None:
    """Print a short description of a run, with its notes."""
    say(*sampler.describe().split("\n"))
    sampler.notes.clear()  # they are printed


def command_line(*words: str | Path, **options: str | Path | None) -> str:
    """Return a command line to show, with the options that are not None."""
    pairs = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    return shlex.join(["duckplets", *map(str, words), *chain.from_iterable(pairs)])


def _by(parts: Sequence[str] | None) -> str | dict[str, float] | None:
    if parts and (parts[1:] or "=" in parts[0]):
        return _weights(parts, "--by", "KIND=SHARE, each kind once, or one kind")
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
