"""Check the arguments of a sampler, and keep what determines its order and batches.

A saved run keeps its settings, so that resuming resolves nothing again. State files store them as
JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import Bounds, Name, checked, misfit
from duckplets.errors import MixtureError, RecipeError, SamplerError, StateMismatchError, nearest
from duckplets.ingest import families
from duckplets.mining import near
from duckplets.order.mixture import Mixture
from duckplets.order.permute import ORDER_VERSION, key
from duckplets.order.ranks import batch_size_of
from duckplets.order.schedule import Events, RunSchedule, Schedule
from duckplets.pools.batch_keys import check_batch_by
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.mined import Mined, Scorer
from duckplets.recipes.recipes import Preset, Recipe, checked_preset
from duckplets.runs.state import Fingerprint, Save, digest
from duckplets.samples.columns import checked_columns, default_columns
from duckplets.samples.no_duplicates import NoDuplicates
from duckplets.samples.plan import SINGLE

Kind = Literal["triplets", "pairs", "texts", "messages"]
Remainder = Literal["keep", "drop", "pad"]
Empty = Literal["error", "skip"]
Pairs = Literal["labelled", "drawn"]
By: TypeAlias = str | Mined | dict[str, float]

_MOST_SAMPLES = 1 << 22  # samples of a global batch, planned together
_MOST_RANKS = 1 << 20
_ARGUMENTS: dict[str, Any] = {
    "kind": Kind,
    "batch_size": Annotated[int, Bounds(1, 1 << 20)],
    "negatives": Annotated[int, Bounds(1, 1024)],
    "prefetch": Annotated[int, Bounds(0, 64)],
    "memory_mb": Annotated[int, Bounds(1, 1 << 20)] | None,
    "steps": Annotated[int, Bounds(0, MAX_POSITION)] | None,
    "epochs": Annotated[int, Bounds(0, MAX_POSITION)] | None,
    "seed": Annotated[int, Bounds(-(1 << 63), (1 << 64) - 1)],
    "remainder": Remainder,
    "no_duplicates": NoDuplicates,
    **dict.fromkeys(("prefixes", "long_sections", "allow_stale"), bool),
    "swap": bool | None,
    "empty": Empty | None,
    "run": Annotated[str, Name(slash=True)],
    "rank": Annotated[int, Bounds(0, _MOST_RANKS)],
    "world_size": Annotated[int, Bounds(1, _MOST_RANKS)],
}
_OVERRIDES = (  # arguments that may change when a run is resumed
    *("kind", "split", "recipes", "mixture", "batch_size", "seed", "steps", "epochs", "rank"),
    *("world_size", "remainder", "no_duplicates", "negatives", "swap", "prefixes", "prefetch"),
    *("memory_mb", "columns", "by", "pairs", "vectors"),
)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything a run's order and batches follow from: sampler arguments, and the following."""

    kind: Kind | Literal["tokens"]
    split: str
    recipes: dict[str, Sequence[Any]]  # by source; for tokens how they become rows, as plain values
    optional: dict[str, list[str]]  # names of recipes left out if they find no anchor
    sources: list[str]  # all sources of the pinned version
    mixture: Mixture
    batch_size: int  # samples of each rank
    seed: int
    steps: int | None
    epochs: int | None
    remainder: Remainder
    no_duplicates: NoDuplicates
    negatives: int
    swap: bool
    columns: list[str]
    prefetch: int
    rank: int
    world_size: int
    run: str
    corpus_version: int
    records: list[int]  # fingerprint of the records of that version
    splits: dict[str, Any]
    chunking: dict[str, Any]
    # By source, mined recipe and scorer: number and digest of its mining.
    candidates: dict[str, dict[str, dict[str, dict[str, Any]]]] = field(default_factory=dict)
    prefixes: bool = True
    declared_prefixes: dict[str, Any] = field(default_factory=dict)  # their digest
    # By source: size, size_mode, weight and seed of its index controls.
    index: dict[str, dict[str, Any]] = field(default_factory=dict)
    by: By | None = None
    # Texts near an anchor that are kept from its batch: scorer, above, and minings as candidates.
    apart: dict[str, Any] = field(default_factory=dict)
    batch_by: str | None = None  # what the samples of a batch share
    preset: Preset | None = None  # preset for recipes of sources that join
    pairs: Pairs | None = None
    # Vector columns: columns, the set of each; sets, commit and digest of each; missing.
    vectors: dict[str, Any] = field(default_factory=dict)
    # Later versions that joined: step, changed settings, new sources, recipes and index,
    # lengths of the mixture.
    joins: list[dict[str, Any]] = field(default_factory=list)
    shards: dict[str, str] = field(default_factory=dict)  # token shards: name and fingerprint
    memory_mb: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        joins = [
            {**join, "recipes": _definitions(join["recipes"]), "by": _plain_by(join["by"])}
            for join in self.joins
        ]
        made = {"recipes": _definitions(self.recipes), "mixture": self.mixture.to_dict()}
        return {**vars(self), **made, "by": _plain_by(self.by), "joins": joins}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> RunSettings:
        """Return the settings from ``plain``."""
        made = {**plain, "mixture": Mixture.from_dict(plain["mixture"])}
        made["by"] = checked_by(plain["by"])
        if plain["kind"] != "tokens":
            joins = [
                {**join, "recipes": _recipes(join["recipes"]), "by": checked_by(join["by"])}
                for join in plain["joins"]
            ]
            made |= {"recipes": _recipes(plain["recipes"]), "joins": joins}
        return cls(**made)

    @property
    def versions(self) -> list[RunSettings]:
        """The settings at each version it is pinned to."""
        found = [self if not self.joins else replace(self, joins=[])]
        for join in self.joins:
            last, number = found[-1], join["corpus_version"]
            came: dict[str, Any] = {
                n: {**getattr(last, n), **join[n]} for n in ("recipes", "index")
            }
            came["sources"] = [*last.sources, *join["sources"]]
            came["optional"] = every_recipe(came["recipes"])
            came["mixture"] = replace(last.mixture, lengths=join["lengths"])
            came["seed"] = key(self.seed, "version", number)
            others = {n: v for n, v in join.items() if n not in (*came, "step", "lengths")}
            found.append(replace(last, **others, **came))
        return found

    def fingerprint(self) -> Fingerprint:
        """Return what must agree for a position to mean the same sample."""
        plain = self.plain()
        mined = {
            source: {name: [of["digest"] for of in taken.values()] for name, taken in of.items()}
            for source, of in self.candidates.items()
        }
        joins = [[join["step"], join["corpus_version"], digest(join)] for join in plain["joins"]]
        shows = self.prefixes and self.declared_prefixes and self.kind != "messages"
        sets, drops = self.vectors.get("sets"), self.vectors.get("missing") == "drop"
        found: Fingerprint = {"batch_size": self.global_batch}
        for name in ("kind", "split", "seed", "negatives", "swap", "no_duplicates"):
            found[name] = getattr(self, name)
        if self.no_duplicates:  # the block in which the last epoch ends is arranged up to there
            found["bounds"] = [self.epochs, self.remainder]
        found |= {"corpus_version": self.corpus_version, "order_version": ORDER_VERSION}
        for name in ("recipes", "mixture", "records", "splits", "chunking"):
            found[name] = digest(plain[name])
        some = {
            "candidates": mined and digest(mined),
            "by": plain["by"] if self.by != "random" else None,
            "apart": self.apart and digest(self.apart),
            "batch_by": self.batch_by,
            "pairs": self.pairs,
            "prefixes": shows and digest(self.declared_prefixes),
            "index": self.index and digest(self.index),
            # if texts without vectors are left out, vectors determine the samples
            "vectors": sets and {"sets": sets, **({"missing": "drop"} if drops else {})},
            "shards": self.shards and self.shards["fingerprint"][:12],
            "versions": joins,
        }
        return found | {name: value for name, value in some.items() if value}

    @property
    def prefixed(self) -> bool:
        """Whether some text may have a prefix."""
        declared = [self.declared_prefixes, *(join["declared_prefixes"] for join in self.joins)]
        return self.prefixes and any(declared) and self.kind != "messages"

    @property
    def global_batch(self) -> int:
        """Samples per global batch."""
        return self.batch_size * self.world_size

    @property
    def samples_per_draw(self) -> int:
        """Positions filled by one draw: more than one for drawn pairs only."""
        return 1 + self.negatives if self.kind == "pairs" and self.pairs != "labelled" else 1

    def padded_from(self, epoch_start: Callable[[int], int]) -> int | None:
        """Return the first position of samples that only fill the last batch."""
        is_padded = self.remainder == "pad" and self.epochs is not None
        return epoch_start(self.epochs or 0) if is_padded else None

    def end(self, epoch_start: Callable[[int], int]) -> int | None:
        """Return the end position of a bounded run; None if endless."""
        ends = [] if self.steps is None else [self.steps * self.global_batch]
        if self.epochs is not None:
            end = epoch_start(self.epochs)
            if self.remainder == "drop":
                end = end // self.global_batch * self.global_batch
            elif self.remainder == "pad":
                end = -(-end // self.global_batch) * self.global_batch
            ends.append(end)
        if ends and min(ends) > MAX_POSITION:
            raise SamplerError(
                f"steps={self.steps}, epochs={self.epochs}: this run would end at position "
                f"{min(ends)}, and there are {MAX_POSITION}; give less"
            )
        return min(ends, default=None)


# thousands of sources may share recipes: each is made once
def _definitions(recipes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    each = {id(recipe): recipe for recipe in chain.from_iterable(recipes.values())}
    plain = {at: of if isinstance(of, dict) else to_dict(of) for at, of in each.items()}
    return {source: [plain[id(recipe)] for recipe in of] for source, of in recipes.items()}


def _recipes(definitions: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Sequence[Any]]:
    each = {repr(plain): plain for plain in chain.from_iterable(definitions.values())}
    made = {text: from_dict(plain) for text, plain in each.items()}
    return {source: [made[repr(plain)] for plain in of] for source, of in definitions.items()}


def every_recipe(recipes: Mapping[str, Sequence[Recipe]]) -> dict[str, list[str]]:
    """Return the names of all optional recipes by source."""
    return {source: sorted(recipe.name for recipe in of) for source, of in recipes.items()}


def checked_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return sampler arguments as settings: plain integers, swap by the preset."""
    kind = given["kind"]
    declared = _ARGUMENTS.items()
    plain = {n: checked(n, given[n], of, SamplerError) for n, of in declared if n in given}
    if plain["rank"] >= (ranks := plain["world_size"]):
        raise SamplerError(
            f"rank={plain['rank']}: with world_size={ranks} give one from 0 to {ranks - 1}"
        )
    if plain["batch_size"] * plain["world_size"] > _MOST_SAMPLES:
        raise SamplerError(
            f"batch_size={plain['batch_size']} of each of world_size={plain['world_size']} ranks: "
            f"a batch of all ranks has at most {_MOST_SAMPLES:,} samples; give less of one of them"
        )
    if isinstance(apart := plain["no_duplicates"], str) and apart not in ("negatives", "group"):
        families.statement(apart)  # refuses what is no value of records
    plain["by"], pairs = checked_by(given.get("by")), given.get("pairs")
    plain["apart"] = {} if given.get("apart") is None else given["apart"]
    if plain["apart"] != {}:
        plain["apart"] = near.checked_apart(plain["apart"], plain["no_duplicates"])
        plain["no_duplicates"] = plain["no_duplicates"] or True
        if kind in SINGLE or pairs == "labelled":
            what = kind if kind in SINGLE else "labelled pairs"
            raise SamplerError(f"apart=: {what} have no mined candidates; leave it out")
    if kind in SINGLE:
        if plain["by"] is not None:
            raise SamplerError(f"by={plain['by']!r}: {kind} have no negatives; leave it out")
        if plain["no_duplicates"] == "negatives":
            raise SamplerError(f"no_duplicates='negatives': {kind} have none; give False or True")
        if given["negatives"] != 1:
            raise SamplerError(f"negatives: {kind} have none; leave it at 1")
        if given.get("swap") and given.get("preset") is None:
            raise SamplerError(f"swap=True: {kind} have no two places; leave it out")
    if pairs is not None and (kind != "pairs" or pairs not in get_args(Pairs)):
        what = "give 'labelled' or 'drawn', or" if kind == "pairs" else f"{kind} are no pairs;"
        raise SamplerError(f"pairs={pairs!r}: {what} leave it out")
    if given.get("batch_by") is not None:
        draws = 1 + plain["negatives"] if kind == "pairs" and pairs != "labelled" else 1
        check_batch_by(given["batch_by"], plain["batch_size"], draws)
    plain["preset"], swap = checked_preset(given.get("preset")), given.get("swap")
    plain["swap"] = plain["preset"] == "crate" if swap is None else bool(swap)
    return {**given, **plain}


def checked_by(by: Any) -> By | None:
    """Return how negatives are chosen: a way, a policy, shares of several ways, or None."""
    if by is None or isinstance(by, Mined):
        return by
    if isinstance(by, Mapping) and any(isinstance(part, Mapping) for part in by.values()):
        return Mined.from_dict(by, "sampler")
    if not isinstance(by, Mapping):
        kind = Annotated[Scorer, "'random', the name of a scorer such as 'bm25', or dp.mined(…)"]
        found: str = checked("by", by, kind, SamplerError)
        return found
    given = checked("by", by, Mapping[str, Annotated[float, Bounds(0)]], SamplerError)
    ways = sorted(given, key=lambda way: (way == "random", way))
    shares = {way: given[way] for way in ways if given[way]}
    if not shares:
        raise SamplerError(f"by={by!r}: give at least one of them more than 0")
    return shares if len(shares) > 1 else next(iter(shares))


def _plain_by(by: By | None) -> Any:
    return by.to_dict() if isinstance(by, Mined) else by


def saved_settings(saved: Save) -> RunSettings:
    """Return the settings of a saved run, unless another version of duckplets saved it."""
    if saved.order_version != ORDER_VERSION:
        raise StateMismatchError(
            f"run {saved.run!r} was saved with order version {saved.order_version}; this duckplets "
            f"draws in order version {ORDER_VERSION} and cannot continue it. Finish it with the "
            f"version it was started with"
        )
    shape = get_type_hints(RunSettings) | {"recipes": {str: [dict]}, "mixture": dict}
    shape |= {"by": (str | None, dict)}
    differ = sorted(shape.keys() ^ saved.settings)
    wrong = f"settings differ in {', '.join(differ)}" if differ else misfit(saved.settings, shape)
    if not wrong and sorted(saved.settings["recipes"]) != sorted(saved.settings["sources"]):
        wrong = "it has recipes of other sources"
    try:
        if not wrong:
            return RunSettings.of_plain(saved.settings)
    except (RecipeError, MixtureError, KeyError, TypeError) as error:
        wrong = str(error)
    raise StateMismatchError(
        f"run {saved.run!r} was saved by another version of duckplets, or its state file is "
        f"damaged: {wrong}. Finish it with that version, put back an earlier copy, or forget it: "
        f"duckplets runs … {saved.run} --reset"
    )


def check_overrides(given: Iterable[str], known: Sequence[str] = _OVERRIDES) -> None:
    """Refuse the name of an argument that resuming does not have."""
    for name in given:
        if name not in known and name in RunSettings.__dataclass_fields__:
            raise SamplerError(
                f"resume: a saved run keeps its {name}=; leave it out, or open another"
            )
        if name not in known:
            raise SamplerError(f"resume: no argument {name!r}{nearest(name, known)}")


def overridden(saved: RunSettings, given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a saved run with changed arguments."""
    made = replace(saved, **given)
    if "world_size" in given and "batch_size" not in given:
        ranks = checked("world_size", made.world_size, _ARGUMENTS["world_size"], SamplerError)
        made = replace(made, batch_size=batch_size_of(saved.global_batch, ranks))
    arguments = vars(made) | ({"kind": "texts"} if made.kind == "tokens" else {})
    made = replace(made, **{**checked_arguments(arguments), "kind": made.kind})
    return made if made.kind == "tokens" else replace(made, columns=_columns(saved, made, given))


def _columns(saved: RunSettings, made: RunSettings, given: Mapping[str, Any]) -> list[str]:
    """Return the columns of a resumed run: given, else saved; defaults follow other arguments."""
    also = {"padded", "rejected_messages"} & {*saved.columns}
    default = default_columns(saved.kind, saved.negatives, also)
    if made.remainder == "pad":
        also.add("padded")
    columns = given.get("columns", None if saved.columns == default else saved.columns)
    if columns is saved.columns and given.get("remainder") == "pad":
        columns = [*columns, "padded"]
    return checked_columns(columns, made.kind, made.negatives, also)


def schedule_of(settings: RunSettings, events: Events) -> RunSchedule:
    """Return the schedule of a run."""
    parts = range(len(settings.joins) + 1)
    return RunSchedule([schedule_of_part(settings, number, events) for number in parts])


def schedule_of_part(settings: RunSettings, number: int, events: Events) -> Schedule:
    """Return the schedule of a part of a run; of the whole run unless versions joined."""
    version, begin = settings.versions[number], 0
    mixture = version.mixture
    if settings.joins:
        begins = [0, *(join["step"] for join in settings.joins), MAX_POSITION]
        begin, stop = begins[number : number + 2]
        mixture = mixture.of_known(version.sources)
        # events that name later sources belong to later parts
        known = {s: e for s, e in events.items() if {*e.weights} <= {*version.sources}}
        events = {step: event for step, event in known.items() if step < stop}
    return Schedule(
        mixture,
        version.sources,
        seed=version.seed,
        batch=settings.global_batch,
        samples_per_draw=settings.samples_per_draw,
        events=events,
        begin=begin,
        batch_by=settings.batch_by,
    )
