"""Check the arguments of a sampler, and describe the settings of its order and batches.

A saved run has its settings, so resuming resolves nothing again. State files store them as JSON
values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import checked, from_plain, kinds_of, to_plain
from duckplets.errors import DuckpletsError, SamplerError, StateMismatchError, nearest
from duckplets.ingest.prefixes import DeclaredPrefixes
from duckplets.ingest.splits import SplitSettings
from duckplets.mining.pins import InBatch, Pins
from duckplets.order.copies import IndexControls
from duckplets.order.mixture import Mixture
from duckplets.order.permute import ORDER_VERSION, key
from duckplets.order.ranks import batch_size_of
from duckplets.order.schedule import Events, RunSchedule, Schedule
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.mined import Consistent, Negatives
from duckplets.recipes.recipes import Preset
from duckplets.runs.request import Kind, Options, Remainder, RunRequest, options_of, renewed
from duckplets.runs.state import Fingerprint, RunPosition, Save, digest
from duckplets.samples.columns import checked_columns, default_columns
from duckplets.samples.no_duplicates import NoDuplicates
from duckplets.vectors.columns import VectorPins

if TYPE_CHECKING:
    from duckplets.samples.plan import Planner

Pairs = Literal["labelled", "drawn"]

_OF_JOIN = (
    *("corpus_version", "records", "declared_prefixes", "candidates", "ranked", "consistent"),
    *("in_batch", "vectors"),
)
_OF_OPTIONS = ("remainder", "swap", "preset", "prefixes", "prefetch", "memory_mb")
# arguments that a saved run cannot change
_FIXED = ("run", "consistent", "preset", "empty", "long_sections", "state")


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """A later version of the corpus that joins a run at a step."""

    step: int
    corpus_version: int
    records: Sequence[int]
    declared_prefixes: DeclaredPrefixes
    negatives: Negatives
    candidates: Pins
    ranked: Pins
    consistent: Consistent | None
    in_batch: InBatch | None
    vectors: VectorPins
    sources: Sequence[str]  # sources that came with it
    recipes: Mapping[str, Sequence[Any]]  # recipes of these sources
    index: Mapping[str, IndexControls]
    lengths: Mapping[str, int]  # lengths of the mixture
    values: Sequence[str] = ()  # values of the mixture

    def after(self, last: RunSettings) -> RunSettings:
        """Return the settings of a run from its step on, given the settings before."""
        recipes = {**last.recipes, **self.recipes}
        return replace(
            last,
            **{name: getattr(self, name) for name in _OF_JOIN},
            recipes=recipes,
            optional=every_recipe(recipes),
            index={**last.index, **self.index},
            sources=[*last.sources, *self.sources],
            mixture=replace(last.mixture, lengths=self.lengths, values=self.values),
            negatives=replace(self.negatives, num=last.negatives.num),
        )

    def without(self, sources: Collection[str]) -> Join:
        """Return the join without some of its new sources."""
        remaining = [name for name in self.sources if name not in sources]
        return replace(
            self,
            sources=remaining,
            recipes={name: self.recipes[name] for name in remaining},
            index={name: self.index[name] for name in remaining if name in self.index},
            candidates=self.candidates.without(sources),
            ranked=self.ranked.without(sources),
        )


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All settings of a run's order and batches: sampler arguments, and the fields below."""

    kind: Kind | Literal["tokens"]
    split: str
    # by source; for tokens the plain settings of their rows
    recipes: Mapping[str, Sequence[Any]]
    optional: dict[str, list[str]]  # names of recipes left out if they have no anchor
    sources: list[str]  # all sources of the pinned version
    mixture: Mixture
    batch_size: int  # samples of each rank
    seed: int
    steps: int | None
    epochs: int | None
    remainder: Remainder
    no_duplicates: NoDuplicates
    negatives: Negatives
    swap: bool
    columns: list[str]
    prefetch: int
    rank: int
    world_size: int
    run: str
    corpus_version: int
    records: Sequence[int]  # fingerprint of the records of that version
    splits: SplitSettings | None  # None for token shards
    chunking: Mapping[str, Any]  # identifies the chunks, as JSON values
    candidates: Pins = Pins()  # noqa: RUF009 - it is frozen, as all defaults below
    prefixes: bool = True
    declared_prefixes: DeclaredPrefixes = DeclaredPrefixes()  # noqa: RUF009
    index: Mapping[str, IndexControls] = field(default_factory=dict)  # by source
    consistent: Consistent | None = None  # for recipes that leave it open
    ranked: Pins = Pins()  # noqa: RUF009 - minings that rank positives
    in_batch: InBatch | None = None  # excludes texts near an anchor from its batch
    batch_by: str | None = None  # the key that samples of a batch share
    preset: Preset | None = None  # preset for recipes of sources that join
    pairs: Pairs | None = None  # for labelled pairs
    vectors: VectorPins = VectorPins()  # noqa: RUF009
    joins: tuple[Join, ...] = ()
    shards: str = ""  # fingerprint of token shards
    memory_mb: int | None = None

    @property
    def names(self) -> Sequence[str]:
        """The names with a share: all sources, or all values of a column."""
        return self.mixture.values if self.mixture.columns else self.sources

    @property
    def request(self) -> RunRequest:
        """The request of these settings, without recipes, mixture and columns."""
        names = {field.name for field in fields(RunRequest)} - {"recipes", "mixture", "columns"}
        own = {name: getattr(self, name) for name in names - {"options"}}
        options = Options(**{name: getattr(self, name) for name in _OF_OPTIONS})
        own["kind"] = "texts" if self.kind == "tokens" else self.kind
        return RunRequest(**own, options=options)

    @property
    def versions(self) -> list[RunSettings]:
        """The settings at each pinned version."""
        found = [self if not self.joins else replace(self, joins=())]
        for join in self.joins:
            seed = key(self.seed, "version", join.corpus_version)
            found.append(replace(join.after(found[-1]), seed=seed))
        return found

    def fingerprint(self) -> Fingerprint:
        """Return the values that must agree for a position to mean the same sample."""
        plain = plain_of(self)
        joins = [[join["step"], join["corpus_version"], digest(join)] for join in plain["joins"]]
        shows = self.prefixes and self.declared_prefixes and self.kind != "messages"
        vectors = {name: plain["vectors"][name] for name in ("sets", "digests")}
        vectors |= {"missing": "drop"} if self.vectors.missing == "drop" else {}
        found: Fingerprint = {"batch_size": self.global_batch}
        for name in ("kind", "split", "seed", "swap", "no_duplicates"):
            found[name] = getattr(self, name)
        found["negatives"] = self.negatives.num
        if self.no_duplicates:  # the end of the last epoch changes the arrangement of its block
            found["bounds"] = [self.epochs, self.remainder]
        found |= {"corpus_version": self.corpus_version, "order_version": ORDER_VERSION}
        for name in ("recipes", "mixture", "records", "splits", "chunking"):
            found[name] = digest(plain[name])
        some = {
            "candidates": self.candidates and digest(self.candidates.digests()),
            "by": self.negatives.by != "random" and self.negatives.chosen.to_dict(),
            "consistent": self.ranked and digest(self.ranked.digests()),
            "in_batch_margin": self.in_batch and digest(plain["in_batch"]),
            "batch_by": self.batch_by,
            "pairs": self.pairs,
            "prefixes": shows and digest(plain["declared_prefixes"]),
            "index": self.index and digest(plain["index"]),
            # if texts without vectors are left out, vectors determine the samples
            "vectors": self.vectors and vectors,
            "shards": self.shards[:12],
            "versions": joins,
        }
        return found | {name: value for name, value in some.items() if value}

    @property
    def prefixed(self) -> bool:
        """Whether some text may have a prefix."""
        declared = [self.declared_prefixes, *(join.declared_prefixes for join in self.joins)]
        return self.prefixes and any(declared) and self.kind != "messages"

    @property
    def global_batch(self) -> int:
        """Samples per global batch."""
        return self.batch_size * self.world_size

    @property
    def samples_per_draw(self) -> int:
        """Positions filled by one draw: more than one for drawn pairs only."""
        return 1 + self.num if self.pairs == "drawn" else 1

    @property
    def num(self) -> int:
        """Negatives of a draw; 0 for pairs of anchor and positive."""
        return 0 if self.kind == "pairs" else self.negatives.num or 0

    def padded_from(self, epoch_start: Callable[[int], int]) -> int | None:
        """Return the first position of samples that only fill the last batch."""
        is_padded = self.remainder == "pad" and self.epochs is not None
        return epoch_start(self.epochs or 0) if is_padded else None

    def end(self, epoch_start: Callable[[int], int]) -> int | None:
        """Return the end position of a bounded run; None if endless."""
        ends = [] if self.steps is None else [self.steps * self.global_batch]
        stop = self.mixture.stop
        if stop and (ends or self.epochs is not None or self.remainder == "pad"):
            raise SamplerError(
                f"stop={stop!r} sets the end of a run; leave out steps=, epochs=, remainder='pad'"
            )
        if self.epochs is not None or stop:
            end = epoch_start(self.epochs or 0)
            if self.remainder == "drop":
                end = end // self.global_batch * self.global_batch
            elif self.remainder == "pad":
                end = -(-end // self.global_batch) * self.global_batch
            ends.append(end)
        if ends and min(ends) > MAX_POSITION:
            raise SamplerError(
                f"steps={self.steps}, epochs={self.epochs}: this run would end at position "
                f"{min(ends)}, and the last one is {MAX_POSITION}; give less"
            )
        return min(ends, default=None)


# thousands of sources may share recipes: each is made once
def _definitions(recipes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    each = {id(recipe): recipe for recipe in chain.from_iterable(recipes.values())}
    plain = {at: one if isinstance(one, dict) else to_dict(one) for at, one in each.items()}
    return {source: [plain[id(one)] for one in some] for source, some in recipes.items()}


def _recipes(definitions: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Sequence[Any]]:
    each = {repr(plain): plain for plain in chain.from_iterable(definitions.values())}
    made = {text: from_dict(plain) for text, plain in each.items()}
    return {source: [made[repr(plain)] for plain in some] for source, some in definitions.items()}


def plain_of(settings: RunSettings | Join) -> dict[str, Any]:
    """Return settings, or a join, as JSON values."""
    own: dict[str, Callable[[Any], Any]] = {
        "recipes": _definitions,
        "joins": lambda joins: [*map(plain_of, joins)],
    }
    names = [each.name for each in fields(settings)]
    return {name: own.get(name, to_plain)(getattr(settings, name)) for name in names}


def _of_plain(made: Any, plain: Mapping[str, Any], *, is_tokens: bool = False) -> Any:
    """Return settings, or a join, from ``plain_of``; refuse a missing or wrong value."""
    if missing := kinds_of(made).keys() - plain.keys():
        raise StateMismatchError(f"it has no {', '.join(sorted(missing))}")
    values = dict(plain)
    if not is_tokens:
        values["recipes"] = _recipes(plain["recipes"])
    if "joins" in plain:
        values["joins"] = [_of_plain(Join, join) for join in plain["joins"]]
    found = from_plain(made, values, StateMismatchError)
    for name, kind in kinds_of(made).items():
        checked(name, getattr(found, name), kind, StateMismatchError)
    return found


def every_recipe(recipes: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return the names of all optional recipes by source."""
    return {source: sorted(recipe.name for recipe in named) for source, named in recipes.items()}


def as_saved(settings: RunSettings, planner: Planner, at: RunPosition, **others: Any) -> Save:
    """Return a run and its position for a state file; ``others`` has further fields."""
    return Save(
        run=settings.run,
        kind=settings.kind,
        corpus_version=settings.corpus_version,
        order_version=ORDER_VERSION,
        settings=plain_of(replace(settings, rank=0)),
        joins=[[join.step, join.corpus_version] for join in settings.joins],
        step=at.position // settings.global_batch,
        epoch=planner.epoch_at(at.position),
        samples=planner.schedule.samples(at.position),
        **{each.name: getattr(at, each.name) for each in fields(at)},
        **others,
    )


def saved_settings(saved: Save) -> RunSettings:
    """Return the settings of a saved run; refuse a run of another version of duckplets."""
    if saved.order_version != ORDER_VERSION:
        raise StateMismatchError(
            f"run {saved.run!r} was saved with order version {saved.order_version}; this duckplets "
            f"draws in order version {ORDER_VERSION} and cannot continue it. Finish it with the "
            f"duckplets that started it"
        )
    plain = saved.settings
    try:
        found = _of_plain(RunSettings, plain, is_tokens=plain.get("kind") == "tokens")
        if sorted(found.recipes) == sorted(found.sources):
            return cast("RunSettings", found)
        wrong = "it has recipes of other sources"
    except (DuckpletsError, AttributeError, KeyError, TypeError, ValueError) as error:
        wrong = str(error)
    raise StateMismatchError(
        f"run {saved.run!r} was saved by another version of duckplets, or its state file is "
        f"damaged: {wrong}. Finish it with that version, put back an earlier copy, or forget it: "
        f"duckplets runs … {saved.run} --reset"
    )


def check_overrides(names: Iterable[str], known: Sequence[str] | None = None) -> None:
    """Refuse a name that is not an argument of ``resume``."""
    known = [field.name for field in fields(RunRequest)] if known is None else known
    for name in names:
        where = f"; give options=dp.Options({name}=…)" if name in kinds_of(Options) else ""
        is_fixed = name not in known and not where and name in RunSettings.__dataclass_fields__
        if is_fixed or name in _FIXED:
            raise SamplerError(
                f"resume: a saved run cannot change {name}=; leave it out, or open another run"
            )
        if name not in known:
            raise SamplerError(f"resume: no argument {name!r}{where or nearest(name, known)}")


def changed_options(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a resumed run that are not the default."""
    made, default = options_of(overrides.get("options")), Options()
    options = {n: getattr(made, n) for n in kinds_of(Options)}
    options = {n: value for n, value in options.items() if value != getattr(default, n)}
    check_overrides(name for name in options if name in _FIXED)
    return options


def overridden(saved: RunSettings, overrides: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a saved run with changed arguments."""
    request = saved.request
    changed = {name: overrides[name] for name in overrides if name != "columns"}
    options = changed_options(changed)
    changed.pop("options", None)
    mixture, recipes = changed.pop("mixture", saved.mixture), changed.pop("recipes", saved.recipes)
    if "negatives" in changed:
        num = renewed(saved.versions[-1].negatives, changed["negatives"]).num
        changed["negatives"] = replace(saved.negatives, num=num)
    if "world_size" in overrides and "batch_size" not in overrides:
        kind = kinds_of(RunRequest)["world_size"]
        ranks = checked("world_size", overrides["world_size"], kind, SamplerError)
        changed["batch_size"] = batch_size_of(saved.global_batch, ranks)
    request = replace(request, **changed, options=replace(request.options, **options))
    settings = {**request.settings(), "mixture": mixture, "recipes": recipes}
    if saved.kind == "tokens":
        return replace(saved, **{**settings, "kind": "tokens"})
    made = replace(saved, **settings)
    return replace(made, columns=_columns(saved, made, overrides))


def _columns(saved: RunSettings, made: RunSettings, overrides: Mapping[str, Any]) -> list[str]:
    """Return the columns of a resumed run; saved defaults adapt to its other arguments."""
    also = {"padded", "rejected_messages"} & {*saved.columns}
    default = default_columns(saved.kind, saved.num, also)
    if made.remainder == "pad":
        also.add("padded")
    columns = overrides.get("columns", None if saved.columns == default else saved.columns)
    if columns is saved.columns and made.remainder == "pad" != saved.remainder:
        columns = [*columns, "padded"]
    return checked_columns(columns, made.kind, made.num, also)


def schedule_of(settings: RunSettings, events: Events) -> RunSchedule:
    """Return the schedule of a run."""
    parts = range(len(settings.joins) + 1)
    return RunSchedule([schedule_of_part(settings, number, events) for number in parts])


def schedule_of_part(settings: RunSettings, number: int, events: Events) -> Schedule:
    """Return the schedule of a part of a run; of the whole run unless versions joined."""
    version, begin = settings.versions[number], 0
    mixture = version.mixture
    if settings.joins:
        begins = [0, *(join.step for join in settings.joins), MAX_POSITION]
        begin, stop = begins[number : number + 2]
        mixture = mixture.of_known(version.names)
        # events that name later sources belong to later parts
        known = {s: e for s, e in events.items() if {*e.weights} <= {*version.names}}
        events = {step: event for step, event in known.items() if step < stop}
    return Schedule(
        mixture,
        version.names,
        seed=version.seed,
        batch=settings.global_batch,
        samples_per_draw=settings.samples_per_draw,
        events=events,
        begin=begin,
        batch_by=settings.batch_by,
    )
