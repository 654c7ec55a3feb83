"""Options by which several commands name a run, and how they open it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from duckplets.cli import completion
from duckplets.cli.app import say
from duckplets.cli.verbs import names, option, optional, options_of, with_options

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.order.mixture import Mixture
    from duckplets.runs.sampler import Sampler

NORMALISE = Annotated[
    Literal["text", "code"] | None,
    option("text: one form of white space, quotes and punctuation; code: of line ends only."),
]
PRESET = Annotated[
    Literal["crate"] | None,
    option(
        "Defaults as the triplets crate has them: also the recipe anchor_anchor, --swap, "
        "and all sources alike. What is given holds."
    ),
]


# -- what a new run draws, where it is written otherwise than in Python ----------------------------

_SPELLED: dict[str, Any] = {
    "recipes": Annotated[
        list[str] | None,
        option(
            "Names of recipes, or recipes files.",
            "NAME,…|FILE.toml",
            autocompletion=completion.several_recipes,
        ),
    ],
    "mixture": Annotated[
        list[str] | None,
        option(
            "What is not named is left out. proportional: as many samples an epoch as there "
            "are anchors, which holds where nothing else was declared; equal: all sources alike; a "
            "file may have phases. With --resume it may change what comes, not what was.",
            "SOURCE=WEIGHT,…|proportional|equal|FILE.toml",
        ),
    ],
    "by": Annotated[
        list[str] | None,
        option(
            "Where negatives come from in recipes that leave it open. [default: mined where "
            "there are some, else random]",
            "bm25|random|bm25=SHARE,random=SHARE",
        ),
    ],
    "apart": Annotated[
        str | None,
        option(
            "No sample beside one whose anchor it has a positive of, or a candidate of this "
            "scorer above such a part of the positive's score.",
            "SCORER=PART",
        ),
    ],
    "no_duplicates": Annotated[
        bool | None, typer.Option("--no-duplicates", help="No text twice in a batch.")
    ],
}
_NOT_HERE = {"steps", "prefetch", "run", "state", "tokenizer", "seq_length", "pack"}
_OF_SAMPLES = {
    "columns",
    "vectors",
    "rank",
    "prefixes",
    "memory_mb",
}  # no influence on a forecast

# -- which run ------------------------------------------------------------------------------------

TEMPERATURE = Annotated[
    float | None,
    option(
        "Temperature of the weights of --mixture: above 1 flattens, below 1 sharpens. [default: 1]"
    ),
]
NO_DUPLICATES_OF = Annotated[
    str | None,
    option(
        "What no batch has twice: negatives of other texts only, or besides texts families "
        "(group), or a value of records.",
        "negatives|group|meta['KEY']|…",
    ),
]
RUN = Annotated[str, option("Name of the run. [default: default]", autocompletion=completion.runs)]
RESUME = Annotated[bool, typer.Option("--resume", help="Go on where the run was saved.")]
TAG = Annotated[str | None, option("Checkpoint to resume from.", autocompletion=completion.tags)]
STATE = Annotated[
    Path | None,
    option("The state file. [default: beside the corpus]", "FILE"),
]
VERSION = Annotated[
    str | None,
    option(
        "With --resume: text that arrived since joins, in each recipe from the end of the "
        "epoch it is in; or the number of a corpus version.",
        "newest",
    ),
]
ALLOW_DRIFT = Annotated[
    list[str] | None,
    option("What may differ from the run that is resumed.", "FIELD,…"),
]
OUT = Annotated[
    Path | None,
    option("FILE.jsonl or FILE.parquet. [default: stdout]", "FILE"),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to open a run: new, or as saved.

    Attributes:
        run: Its name.
        resume: Whether to resume a saved run.
        tag: Checkpoint to resume from.
        state: The state file, or None for the one beside the corpus.
        arguments: Further arguments of ``Corpus.sampler``.
    """

    run: str
    resume: bool
    tag: str | None
    state: Path | None
    arguments: Mapping[str, Any]

    def need_saved(self) -> None:
        """Refuse options about a saved run without ``--resume``.

        Raises:
            typer.BadParameter: One was given.
        """
        named = {"--run": self.run != "default", "--tag": self.tag, "--state": self.state}
        for written, given in named.items():
            if given and not self.resume:
                raise typer.BadParameter(f"{written} is about a saved run: give --resume with it")

    def open(self, corpus: Corpus, *, save: bool = False) -> Sampler:
        """Return the run's sampler.

        Args:
            corpus: The corpus.
            save: Whether it will be saved; if not, notes about saving are dropped.
        """
        from duckplets.runs.state import not_of_saving

        if self.resume:
            sampler = corpus.resume(self.run, self.tag, self.state, **self.arguments)
        else:
            sampler = corpus.sampler(run=self.run, state=self.state, **self.arguments)
        if not save:
            sampler.notes[:] = not_of_saving(sampler.notes)
        return sampler

    def state_path(self, corpus: Path) -> Path:
        """Return the state file of a corpus."""
        from duckplets.runs import state

        return self.state or state.state_path(corpus)


def opening(
    *,
    run: RUN = "default",
    resume: RESUME = False,
    tag: TAG = None,
    state: STATE = None,
    version: VERSION = None,
    allow_drift: ALLOW_DRIFT = None,
    temperature: TEMPERATURE = None,
    no_duplicates_of: NO_DUPLICATES_OF = None,
    **given: Any,
) -> RunOptions:
    """Return how to open the run that options describe; ``given`` are those of ``Corpus.sampler``.

    Raises:
        typer.BadParameter: Options contradict each other.
        RecipeError, MixtureError: A file is wrong.
    """
    of_saved = {"--allow-drift": allow_drift, "--version": version}
    if not resume and (misplaced := [name for name, value in of_saved.items() if value]):
        raise typer.BadParameter(f"{misplaced[0]} is about a saved run: give --resume with it")
    fresh = [name for name in ("empty", "preset", "allow_stale") if given.get(name)]
    if resume and fresh:
        written = fresh[0].replace("_", "-")
        raise typer.BadParameter(f"--{written} is about a new run: leave it out with --resume")
    if given.get("remainder") and not (resume or given.get("epochs") is not None):
        raise typer.BadParameter("--remainder is about the end of a run: give --epochs with it")
    if no_duplicates_of and given.get("no_duplicates"):
        raise typer.BadParameter("give --no-duplicates or --no-duplicates-of, not both")
    read: dict[str, Any] = {
        "recipes": _recipes(given.pop("recipes", None)),
        "mixture": mixture_of(given.pop("mixture", None), temperature),
        "by": _by(names(given.pop("by", None)) or []),
        "version": int(version) if version is not None and version.isdecimal() else version,
        "allow_drift": names(allow_drift),
    }
    if (apart := given.pop("apart", None)) is not None:
        read["apart"] = next(iter(_weights([apart], "--apart", "SCORER=PART: dense=0.95").items()))
    if no_duplicates_of:
        read["no_duplicates"] = no_duplicates_of
    arguments = given | {name: value for name, value in read.items() if value is not None}
    return RunOptions(run=run, resume=resume, tag=tag, state=state, arguments=arguments)


def names_run(
    without: Collection[str] = _OF_SAMPLES,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of ``Corpus.sampler`` for its ``**given``.

    Args:
        without: Options that it does not have.
    """
    options = options_of("corpus.runs:sampler", without=_NOT_HERE | {*without}, **_SPELLED)
    how = [p for p in signature(opening, eval_str=True).parameters.values() if p.name != "given"]
    return with_options([*map(optional, options), *how])


def introduce(sampler: Sampler) -> None:
    """Print what a run draws, in short, with its notes."""
    say(*sampler.describe().split("\n"))
    sampler.notes.clear()  # they are printed


def command(*words: str | Path, **options: str | Path | None) -> str:
    """Return a command line to show, with the options that are not None."""
    given = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    return shlex.join(["duckplets", *map(str, words), *chain.from_iterable(given)])


def _recipes(values: Sequence[str] | None) -> list[Recipe | str] | None:
    """Return recipe names, and the recipes of files."""
    from duckplets.recipes.files import load_recipes

    found: list[Recipe | str] = []
    for value in names(values) or []:
        is_file = value.lower().endswith((".toml", ".json"))
        found += load_recipes(value) if is_file else [value]
    return found or None


def mixture_of(
    values: Sequence[str] | None, temperature: float | None, name: str = "--mixture"
) -> Mixture | None:
    """Return the mixture of a file, or of weights and a temperature."""
    from duckplets.order.kinds import Word
    from duckplets.order.mixture import Mixture

    parts = names(values) or []
    if not any(part.lower().endswith(".toml") for part in parts):
        if not parts and temperature is not None:
            raise typer.BadParameter(
                "--temperature is about weights: give --mixture with it, as in --mixture "
                "proportional"
            )
        if not parts:
            return None
        is_word = len(parts) == 1 and parts[0] in get_args(Word)
        weights = cast("Word", parts[0]) if is_word else _weights(parts, name)
        return Mixture(weights, temperature=1.0 if temperature is None else temperature)
    if len(parts) > 1:
        raise typer.BadParameter(f"{name} {','.join(parts)}: give one file, or weights")
    if temperature is not None:
        raise typer.BadParameter(
            f"--temperature: write it into {parts[0]}, as mix_temperature in [data]"
        )
    return Mixture.from_toml(parts[0])


def _by(parts: Sequence[str]) -> str | dict[str, float] | None:
    if not parts:
        return None
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    return _weights(parts, "--by", "KIND=SHARE, each kind once, or the name of one")


def _weights(
    parts: Sequence[str],
    name: str = "--mixture",
    form: str = "SOURCE=WEIGHT, each source once, proportional, equal or FILE.toml",
) -> dict[str, float]:
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
