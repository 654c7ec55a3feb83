"""Read the options by which several commands name a run, and open that run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from duckplets.cli import completion
from duckplets.cli.app import as_written, in_options, say

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.order.mixture import Mixture
    from duckplets.runs.sampler import Sampler


NORMALISE = Annotated[
    Literal["text", "code"] | None,
    typer.Option(help="Bring white space, quotes and punctuation into one form; code its ends."),
]

ENGINE = Annotated[
    str | None,
    typer.Option(
        metavar="local:N|dask://HOST:PORT",
        help="Work in N processes of this machine (worth it for work of minutes), or on a cluster "
        "of Dask; the result is the same.",
    ),
]


def option(text: str, metavar: str = "COLUMN") -> typer.models.OptionInfo:
    """Return an option that takes a value, with its help and what stands for the value there."""
    return typer.Option(metavar=metavar, help=text, show_default=False)  # type: ignore[no-any-return]


# -- what a new run draws -------------------------------------------------------------------------

KIND = Annotated[
    Literal["triplets", "pairs", "texts", "messages"] | None,
    typer.Option(help="What a sample is. [default: triplets]"),
]
SPLIT = Annotated[
    Literal["train", "validation", "test"] | None,
    typer.Option(help="Texts of this split. [default: train]"),
]
BATCH_SIZE = Annotated[
    int | None, typer.Option(help="Samples a batch, of each rank. [default: 128]")
]
EPOCHS = Annotated[int | None, typer.Option(min=0, help="Where the run ends. [default: nowhere]")]
REMAINDER = Annotated[
    Literal["keep", "drop", "pad"] | None,
    typer.Option(help="Serve a short last batch, leave it out, or fill it up. [default: keep]"),
]
SEED = Annotated[int | None, typer.Option(help="Another seed, another order. [default: 42]")]
RECIPES = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,…|FILE.toml",
        help="Names of recipes, or recipes files.",
        autocompletion=completion.several_recipes,
    ),
]
MIXTURE = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE=WEIGHT,…|proportional|equal|FILE.toml",
        help="What is not named is left out. proportional: as many samples an epoch as there are "
        "anchors, which holds where nothing else was declared; equal: all sources alike; a file "
        "may have phases. With --resume it may change what comes, not what was.",
    ),
]
TEMPERATURE = Annotated[
    float | None,
    typer.Option(
        help="Of the weights of --mixture: more than 1 flattens, less sharpens. [default: 1]"
    ),
]
NEGATIVES = Annotated[int | None, typer.Option(help="Negatives a triplet. [default: 1]")]
EMPTY = Annotated[
    Literal["error", "skip"] | None,
    typer.Option(
        help="Refuse recipes and sources that find no anchor, or leave them out. [default: those "
        "that were named are refused]"
    ),
]
NO_DUPLICATES = Annotated[bool, typer.Option("--no-duplicates", help="No text twice in a batch.")]
NO_DUPLICATE_NEGATIVES = Annotated[
    bool,
    typer.Option(
        "--no-duplicate-negatives",
        help="Negatives of a batch differ, also from its anchors and positives.",
    ),
]
BY = Annotated[
    list[str] | None,
    typer.Option(
        metavar="bm25|random|bm25=SHARE,random=SHARE",
        help="Where negatives come from in recipes that leave it open. [default: mined where there "
        "are some, else random]",
    ),
]
PAIRS = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="labelled|drawn",
        help="Of pairs: as they were judged, of sources with labels, or drawn.",
    ),
]
SNAPSHOT = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the snapshot that a large corpus is served from. [default: NAME.snapshot "
        "beside it]",
    ),
]
SWAP = Annotated[
    bool | None,
    typer.Option(
        "--swap/--no-swap",
        help="Whether anchor and positive change places in half of the samples.",
        show_default=False,
    ),
]
PRESET = Annotated[
    Literal["crate"] | None,
    typer.Option(
        help="Defaults as the triplets crate has them: also the recipe anchor_anchor, --swap, "
        "and all sources alike. What is given holds."
    ),
]
ALLOW_STALE = Annotated[
    bool,
    typer.Option("--allow-stale", help="Draw mined negatives even if records have changed since."),
]
NO_PREFIXES = Annotated[bool, typer.Option("--no-prefixes", help="Show no metadata before texts.")]
WORLD_SIZE = Annotated[
    int | None,
    typer.Option(
        min=1, help="Ranks that share every batch. With --resume it is divided anew. [default: 1]"
    ),
]

# -- which run ------------------------------------------------------------------------------------

RUN = Annotated[str, typer.Option(help="Name of the run.", autocompletion=completion.runs)]
RESUME = Annotated[bool, typer.Option("--resume", help="Go on where the run was saved.")]
TAG = Annotated[
    str | None, typer.Option(help="Checkpoint to resume from.", autocompletion=completion.tags)
]
STATE = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The state file. [default: beside the corpus]"),
]
VERSION = Annotated[
    str | None,
    typer.Option(
        metavar="newest",
        help="With --resume: text that arrived since joins, in each recipe from the end of the "
        "epoch it is in; or the number of a corpus version.",
    ),
]
ALLOW_DRIFT = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD,…", help="What may differ from the run that is resumed."),
]
OUT = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="FILE.jsonl or FILE.parquet. [default: stdout]"),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is opened: anew, or where it was saved.

    Attributes:
        run: Its name.
        resume: Whether it was saved.
        tag: Checkpoint to resume from.
        state: The state file, or None for the one beside the corpus.
        allow_drift: What may differ from the run that is resumed.
        recipes: Of a new run; of one that is resumed, to be equal.
        mixture: Of the run; of one that is resumed, from where it stands on.
        arguments: Other arguments of ``Corpus.sampler``, those that were given.
    """

    run: str
    resume: bool
    tag: str | None
    state: Path | None
    allow_drift: Sequence[str]
    recipes: Sequence[Recipe | str] | None
    mixture: Mixture | None
    arguments: Mapping[str, Any]

    def also(self, **arguments: Any) -> RunOptions:
        """Return the same with more arguments, those that are None left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return replace(self, arguments={**self.arguments, **given})

    def need_saved(self) -> None:
        """Refuse what names a saved run where none is resumed.

        Raises:
            typer.BadParameter: It was given.
        """
        named = {"--run": self.run != "default", "--tag": self.tag, "--state": self.state}
        for option, given in named.items():
            if given and not self.resume:
                raise typer.BadParameter(f"{option} is about a saved run: give --resume with it")

    def open(self, corpus: Corpus, *, save: bool = False) -> Sampler:
        """Return the run's sampler, at its first position or where it was saved.

        Args:
            corpus: The corpus.
            save: Whether it is going to be saved; else what matters for that is not noted.
        """
        from duckplets.runs.state import not_of_saving

        given: dict[str, Any] = {"recipes": self.recipes, "mixture": self.mixture}
        given |= self.arguments
        if self.resume:
            given["allow_drift"] = self.allow_drift
            sampler = corpus.resume(self.run, self.tag, self.state, **given)
        else:
            sampler = corpus.sampler(run=self.run, state=self.state, **given)
        if not save:
            sampler.notes[:] = not_of_saving(sampler.notes)
        return sampler

    def state_path(self, corpus: Path) -> Path:
        """Return the state file of a corpus."""
        from duckplets.runs import state

        return self.state or state.state_path(corpus)


def opening(
    *,
    kind: KIND = None,
    split: SPLIT = None,
    batch_size: BATCH_SIZE = None,
    epochs: EPOCHS = None,
    remainder: REMAINDER = None,
    seed: SEED = None,
    recipes: RECIPES = None,
    mixture: MIXTURE = None,
    temperature: TEMPERATURE = None,
    negatives: NEGATIVES = None,
    empty: EMPTY = None,
    by: BY = None,
    no_duplicates: NO_DUPLICATES = False,
    no_duplicate_negatives: NO_DUPLICATE_NEGATIVES = False,
    pairs: PAIRS = None,
    swap: SWAP = None,
    preset: PRESET = None,
    allow_stale: ALLOW_STALE = False,
    snapshot: SNAPSHOT = None,
    world_size: WORLD_SIZE = None,
    run: RUN = "default",
    resume: RESUME = False,
    tag: TAG = None,
    state: STATE = None,
    version: VERSION = None,
    allow_drift: ALLOW_DRIFT = None,
) -> RunOptions:
    """Return how to open the run that options mean; arguments that are None were not given.

    Its parameters are the options of every command that names a run so: see ``names_run``.

    Raises:
        typer.BadParameter: Options do not go together.
        RecipeError, MixtureError: A file is wrong.
    """
    if allow_drift and not resume:
        raise typer.BadParameter("--allow-drift is about a saved run: give --resume with it")
    if version is not None and not resume:
        raise typer.BadParameter("--version is about a saved run: give --resume with it")
    fresh = {"--empty": empty, "--preset": preset, "--allow-stale": allow_stale}
    if resume and (told := [name for name, given in fresh.items() if given]):
        raise typer.BadParameter(f"{told[0]} is about a new run: leave it out with --resume")
    if remainder is not None and not (resume or epochs is not None):
        raise typer.BadParameter("--remainder is about the end of a run: give --epochs with it")
    how = RunOptions(
        run=run,
        resume=resume,
        tag=tag,
        state=state,
        allow_drift=_names(allow_drift) or (),
        recipes=_recipes(recipes),
        mixture=mixture_of(mixture, temperature),
        arguments={},
    )
    return how.also(
        kind=kind,
        split=split,
        batch_size=batch_size,
        epochs=epochs,
        remainder=remainder,
        seed=seed,
        negatives=negatives,
        empty=empty,
        by=None if by is None else _by(_names(by) or []),
        no_duplicates=_apart(texts=no_duplicates, negatives=no_duplicate_negatives),
        pairs=pairs,
        swap=swap,
        preset=preset,
        allow_stale=True if allow_stale else None,
        snapshot=snapshot,
        world_size=world_size,
        version=int(version) if version is not None and version.isdecimal() else version,
    )


def names_run(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ``opening`` in the place of its parameter ``how``."""
    return with_options(command, opening, "how")


def with_options(
    command: Callable[..., None], made_of: Callable[..., Any], place: str
) -> Callable[..., None]:
    """Give a command the options of a function in the place of a parameter, which takes its result.

    An option of the same name that the command has itself takes the place of the shared one.
    """
    own = signature(command, eval_str=True).parameters
    shared = signature(made_of, eval_str=True).parameters
    options = {name: own.get(name, option) for name, option in shared.items()}
    rest = {name: option for name, option in own.items() if name not in shared}
    before = list(rest)[: list(rest).index(place)]
    after = [name for name in rest if name not in (*before, place)]
    places = {name: (rest | options)[name] for name in (*before, *options, *after)}

    @wraps(command)
    def named(**given: Any) -> None:
        made = made_of(**{name: given[name] for name in shared})
        command(**{place: made, **{name: value for name, value in given.items() if name in own}})

    del named.__wrapped__  # or Typer would look at its parameters
    named.__signature__ = Signature(  # type: ignore[attr-defined]
        [each.replace(kind=Parameter.KEYWORD_ONLY) for each in places.values()]
    )
    named.__annotations__ = {name: each.annotation for name, each in places.items()}
    return named


def introduce(sampler: Sampler, command: Callable[..., None]) -> None:
    """Say what a run draws, in short, and what is to be known of it, in a command's options."""
    say(*(in_options(line, command) for line in sampler.describe().split("\n")))
    sampler.notes.clear()  # they are said


def command(*words: str | Path, **options: str | Path | None) -> str:
    """Return a command to be shown, with those of the options that are not None."""
    given = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    return shlex.join(["duckplets", *map(str, words), *chain.from_iterable(given)])


def _names(values: Sequence[str] | None) -> list[str] | None:
    from duckplets.cli.inputs import names  # with all that finds sources

    return names(values)


def _recipes(values: Sequence[str] | None) -> list[Recipe | str] | None:
    """Return names as they are, and the recipes of files."""
    from duckplets.recipes.files import load_recipes

    found: list[Recipe | str] = []
    for value in _names(values) or []:
        is_file = value.lower().endswith((".toml", ".json"))
        with as_written():
            found += load_recipes(value) if is_file else [value]
    return found or None


def mixture_of(
    values: Sequence[str] | None, temperature: float | None, name: str = "--mixture"
) -> Mixture | None:
    """Return the mixture of a file, or of weights and a temperature, that an option gives."""
    from duckplets.order.mixture import Mixture
    from duckplets.order.weights import Word

    parts = _names(values) or []
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
    with as_written():
        return Mixture.from_toml(parts[0])


def _apart(*, texts: bool, negatives: bool) -> bool | str | None:
    """Return what two options mean together; None where neither was given."""
    if texts and negatives:
        raise typer.BadParameter(
            "--no-duplicates asks for more: leave --no-duplicate-negatives out"
        )
    return "negatives" if negatives else texts or None


def _by(parts: Sequence[str]) -> str | dict[str, float]:
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    return _weights(parts, "--by", "KIND=SHARE, each kind once, or one of bm25 and random")


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
