"""Describe a run as one frozen value: ``RunRequest``, with ``Options`` for rare settings.

arguments of Corpus.sampler ─┐
run.toml, --config, --set ───┼→ RunRequest ─opening→ RunSettings, with everything resolved
a saved run, with changes ───┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import Bounds, Name, check, from_plain
from duckplets.errors import SamplerError
from duckplets.ingest import families
from duckplets.order.mixture import Mixture, mixture_of
from duckplets.pools.batch_keys import check_batch_by
from duckplets.recipes.mined import Negatives, consistent_of, negatives_of
from duckplets.recipes.recipes import Preset
from duckplets.samples.no_duplicates import NoDuplicates
from duckplets.samples.plan import SINGLE
from duckplets.vectors.columns import Missing

Kind = Literal["triplets", "pairs", "labelled_pairs", "lists", "texts", "messages"]
Remainder = Literal["keep", "drop", "pad"]
Empty = Literal["error", "skip"]

_MOST_SAMPLES = 1 << 22  # samples of a global batch, planned together
_MOST_RANKS = 1 << 20
_Recipes = Annotated[Sequence[Any] | None, "a list of recipes, or of names of stored ones"]
_Many = Annotated[int, Bounds(0, MAX_POSITION)] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Rare settings of a run: ``options=dp.Options(remainder="drop")``.

    Attributes:
        remainder: Handling of a last batch that is not full: ``keep`` it, ``drop`` it, or ``pad``
            it with further samples. Default: ``keep``.
        swap: Let anchor and positive change places half of the time. Default: off.
        preset: ``crate`` for the defaults of the triplets crate: the recipe ``anchor_anchor``,
            ``swap``, and the same weight for every source. Explicit keys override it.
        prefixes: Show metadata before texts, where records or sources have prefixes.
        long_sections: Include the long-section recipe in the defaults where it applies.
        missing_vectors: Handling of texts without a vector, where columns have vectors: ``error``
            stops, ``drop`` leaves them out of every part of a sample, ``null`` serves null.
        empty: Handling of recipes and sources without an anchor: ``error`` stops, ``skip`` leaves
            them out and prints a note. Default: ``error`` for named ones, ``skip`` for others.
        prefetch: Blocks to prepare ahead in the background.
        memory_mb: Megabytes of texts that are read ahead, where the snapshot is larger than the
            memory of the machine. Default: 128.
        snapshot: Folder of the snapshot that serves a large corpus. Default: ``NAME.snapshot``
            next to it, where ``prepare`` makes it.
        state: The state file. Default: next to the corpus. A save makes it and its folders.

    Raises:
        SamplerError: A value is wrong.
    """

    remainder: Remainder = "keep"
    swap: bool | None = None
    preset: Preset | None = None
    prefixes: bool = True
    long_sections: bool = True
    missing_vectors: Missing = "error"
    empty: Empty | None = None
    prefetch: Annotated[int, Bounds(0, 64)] = 2
    memory_mb: Annotated[int, Bounds(1, 1 << 20)] | None = None
    snapshot: Path | None = None
    state: Path | None = None

    def __post_init__(self) -> None:
        check(self, SamplerError, "options")


def options_of(value: Any) -> Options:
    """Return ``Options`` from a table of its fields, or from None for the defaults."""
    if value is None or isinstance(value, Options):
        return value or Options()
    return from_plain(Options, value, SamplerError, "options")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The checked arguments of ``Corpus.sampler``; see there for their meaning."""

    kind: Kind = "triplets"
    split: Any = "train"
    recipes: _Recipes = None
    mixture: Mixture | None = None
    batch_size: Annotated[int, Bounds(1, 1 << 20)] = 128
    negatives: Negatives = Negatives()  # noqa: RUF009 - it is frozen
    no_duplicates: NoDuplicates = False
    batch_by: Any = None
    consistent: Any = None
    columns: str | Sequence[str] | None = None
    seed: Annotated[int, Bounds(-(1 << 63), (1 << 64) - 1)] = 42
    steps: _Many = None
    epochs: _Many = None
    rank: Annotated[int, Bounds(0, _MOST_RANKS)] = 0
    world_size: Annotated[int, Bounds(1, _MOST_RANKS)] = 1
    run: Annotated[str, Name(slash=True)] = "default"
    options: Options = Options()

    def __post_init__(self) -> None:
        made = {"negatives": negatives_of(self.negatives), "options": options_of(self.options)}
        made["consistent"] = consistent_of(self.consistent, SamplerError)
        if self.mixture is not None:
            made["mixture"] = mixture_of(self.mixture)
        for name, value in made.items():
            object.__setattr__(self, name, value)
        check(self, SamplerError)
        if self.rank >= (ranks := self.world_size):
            raise SamplerError(
                f"rank={self.rank}: with world_size={ranks} give one from 0 to {ranks - 1}"
            )
        if self.batch_size * ranks > _MOST_SAMPLES:
            raise SamplerError(
                f"batch_size={self.batch_size} of each of world_size={ranks} ranks: a batch of "
                f"all ranks has at most {_MOST_SAMPLES:,} samples; give less of one of them"
            )
        if isinstance(unique := self.no_duplicates, str) and unique not in ("negatives", "group"):
            families.statement(unique)  # refuses other words than values of records
        self._check_negatives()
        if self.batch_by is not None:
            draws = 1 + (self.negatives.num or 0) if self.kind == "labelled_pairs" else 1
            check_batch_by(self.batch_by, self.batch_size, draws)

    def _check_negatives(self) -> None:
        """Refuse negatives for kinds without any, and settings that exclude each other."""
        kind, negatives = self.kind, self.negatives
        if kind in (*SINGLE, "pairs"):
            if negatives != Negatives():
                raise SamplerError(
                    f"negatives={negatives!r}: {kind} have no negatives; leave it out"
                )
            if self.no_duplicates == "negatives":
                raise SamplerError(
                    f"no_duplicates='negatives': {kind} have no negatives; give False or True"
                )
        if kind in SINGLE and self.consistent is not None:
            raise SamplerError(
                f"consistent='{self.consistent}': {kind} have no pairs; leave it out"
            )
        if kind in (*SINGLE, "lists") and self.options.swap and self.options.preset is None:
            raise SamplerError(
                f"swap=True: {kind} have no anchor and positive to swap; leave it out"
            )
        if not negatives.num or negatives.when_short == "keep":
            wrong = f"num={negatives.num}" if not negatives.num else "when_short='keep'"
            raise SamplerError(
                f"negatives: {wrong} is for export; give a run 1 to 1024 negatives and "
                f"when_short='random' or 'drop', or use kind='pairs' without negatives"
            )
        if negatives.in_batch_margin is not None and self.no_duplicates == "negatives":
            raise SamplerError(
                "in_batch_margin= moves samples, and no_duplicates='negatives' does not; give "
                "no_duplicates=True"
            )

    def settings(self) -> dict[str, Any]:
        """Return the fields that ``RunSettings`` copies."""
        options, resolved = self.options, ("recipes", "mixture", "columns", "options")
        names = [field.name for field in fields(self) if field.name not in resolved]
        found = {name: getattr(self, name) for name in names}
        if self.negatives.in_batch_margin is not None:
            found["no_duplicates"] = self.no_duplicates or True
        for name in ("remainder", "prefixes", "prefetch", "memory_mb", "preset"):
            found[name] = getattr(options, name)
        swap = options.preset == "crate" if options.swap is None else options.swap
        return found | {"swap": swap and self.kind != "lists"}


def renewed(saved: Negatives, value: Any) -> Negatives:
    """Return the negatives of a resumed run; a number or a table changes only its fields."""
    if not isinstance(value, Negatives):
        table = value if isinstance(value, Mapping) else {"num": negatives_of(value).num}
        value = {**saved.to_dict(), **table}
    made = negatives_of(value)
    if made.in_batch_margin not in (None, saved.in_batch_margin):
        raise SamplerError(
            f"resume: a saved run cannot change in_batch_margin={saved.in_batch_margin}; leave it "
            f"out, or open another run"
        )
    return replace(made, in_batch_margin=saved.in_batch_margin)
