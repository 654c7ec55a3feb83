"""Resolve the recipes, minings and shares of the sources of a run.

    recipes=, stored, the source's own, or default ──────────────→ SourceRecipes
    negatives of a recipe, of by=, mined, or random ─────────────→ pinned minings
    mixture=, declared, by index controls, or the usual mixture ─→ Shares

Index controls (size and weight of a source) define the entries of ``Corpus.data_index``. A sampler
takes anchors from these records only. It draws sources in the ratio of their entries, unless a
mixture is given or declared. The settings of a run pin the minings of recipes that leave the source
of negatives open, so a resumed run draws as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.mining import store as mining_store
from duckplets.mining.near import refuse_unknown
from duckplets.mining.pins import InBatch, Pin, Pins
from duckplets.mining.store import Mining, as_drawn
from duckplets.order.copies import IndexControls
from duckplets.order.mixture import Mixture
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import BM25, Mined, Negatives, no_scorer, policy_for, policy_of
from duckplets.recipes.recipes import USUAL, Recipe, TripletRecipe, role
from duckplets.runs import messages

if TYPE_CHECKING:
    from duckplets.recipes.store import SourceDefaults, SourceRecipes
    from duckplets.runs.settings import Pairs, RunSettings
    from duckplets.samples.stream import Stream

Drawn: TypeAlias = Mapping[str, Sequence[Recipe]]  # recipes by source
Counts = Mapping[str, tuple[int, IndexControls | None]]


def resolved(
    database: Database,
    recipes: Sequence[Recipe | str] | None,
    run: Mapping[str, Any],  # fields of the settings
    version: int,
    *,
    long_sections: bool = True,
    also: Sequence[Recipe] = (),
    sources: Mapping[str, SourceDefaults] | None = None,
) -> list[SourceRecipes]:
    """Return the recipes of every source at a version; ``also`` has recipes no longer stored."""
    if run["kind"] == "messages":
        if recipes is not None:
            raise SamplerError("recipes: messages have no recipes; leave it out")
        return messages.resolve(database, run["mixture"] or Mixture(), version)
    found = recipe_store.resolve(
        database,
        recipes,
        kind=run["kind"],
        split=run["split"],
        version=version,
        max_tokens=run["chunking"]["max_tokens"],
        long_sections=long_sections,
        preset=run["preset"],
        also=also,
        sources=sources,
    )
    if run["pairs"] == "labelled":
        there = labels_of(database, version).judged
        found = [
            replace(one, recipes=_without_negatives(one, one.optional), optional=frozenset())
            for one in found
            if one.source in there
        ]
    elif run["kind"] == "pairs":
        found = [replace(one, recipes=_without_negatives(one)) for one in found]
    if by := run["consistent"]:
        of_pairs = [[r for r in one.recipes if isinstance(r, TripletRecipe)] for one in found]
        filtered = (tuple(recipe.filtered(by) for recipe in some) for some in of_pairs)
        found = [replace(one, recipes=made) for one, made in zip(found, filtered, strict=True)]
    return found


def which_pairs(database: Database, drawn: Collection[str], version: int) -> Pairs:
    """Return whether the pairs of sources are labelled or drawn; refuse a mix."""
    kinds = labels_of(database, version)
    there, documents = kinds.judged, {*kinds.documents.values()}
    judged, others = (sorted(names) for names in ({*drawn} & there, {*drawn} - there - documents))
    if judged and others:
        raise SamplerError(
            f"kind='labelled_pairs': source {judged[0]!r} has labels, and source {others[0]!r} has "
            f"none; leave out one kind of source with mixture="
        )
    return "labelled" if judged else "drawn"


def check_labelled(
    database: Database, run: Mapping[str, Any], mixture: Mixture | None, version: int
) -> None:
    """Refuse arguments that a run of labelled pairs cannot have."""
    there = labels_of(database, version).judged
    for name in () if mixture is None or mixture.columns else mixture.weighed - {*there}:
        raise SamplerError(
            f"kind='labelled_pairs': source {name!r} has no labels; give it no weight in mixture="
        )
    wrong = {"negatives": run["negatives"] != Negatives(), "consistent": run["consistent"]}
    wrong["no_duplicates"] = run["no_duplicates"] == "negatives"
    if bad := next((name for name, is_wrong in wrong.items() if is_wrong), None):
        raise SamplerError(
            f"{bad}={run[bad]!r}: nothing is drawn for labelled pairs; leave it out, or use "
            f"sources without labels"
        )


def _without_negatives(
    found_recipes: SourceRecipes, skip: Collection[str] = ()
) -> tuple[Recipe, ...]:
    """Return recipes without negatives; equal ones merged, with their weights added."""
    found: dict[Any, TripletRecipe] = {}
    for recipe in found_recipes.recipes:
        # optional recipes pair two windows of a section, which no label judges
        if not isinstance(recipe, TripletRecipe) or not recipe.weight or recipe.name in skip:
            continue
        plain: dict[str, Any] = {"negative": role("context"), "strategy": "other_record"}
        plain |= {"negatives_from": "source", "when_short": "drop", "by": "random", "share": None}
        bare = replace(recipe, **plain)
        alike = replace(bare, name="pairs", weight=1.0)
        if before := found.get(alike):
            first = bare if bare.name == USUAL else before  # not a recipe of ready negatives
            bare = replace(first, weight=before.weight + bare.weight)
        found[alike] = bare
    return tuple(found.values())


def is_open(recipe: Recipe) -> bool:
    """Return whether a recipe leaves the choice of negatives to the run."""
    if not isinstance(recipe, TripletRecipe):
        return False
    return recipe.by is None and recipe.strategy != "same_record"


def drawn_by(settings: RunSettings) -> Drawn:
    """Return the recipes of a run, with the cut of its minings where it uses them."""
    found = dict[str, Sequence[Recipe]]()
    for source, recipes in settings.recipes.items():
        found[source] = drawn = [recipe for recipe in recipes if recipe.weight]
        if taken := settings.candidates.by_source.get(source):
            scorers = {name: next(iter(pins)) for name, pins in taken.items()}
            policy = settings.negatives.policy
            found[source] = [as_drawn(recipe, scorers.get(recipe.name), policy) for recipe in drawn]
    return found


def shares_of(settings: RunSettings, source: str, recipe: str) -> dict[str, float] | None:
    """Return the shares of mixed scorers for a recipe's negatives, or None."""
    taken = settings.candidates.of(source, recipe)
    (of_run,) = (r for r in settings.recipes[source] if r.name == recipe)
    by = settings.negatives.by
    if not isinstance(by, Mapping) or not taken or not is_open(of_run):
        return None
    found = {way: share for way, share in by.items() if way in ("random", *taken)}
    return found if len(found) > 1 else None


def notes_on_mined(database: Database, settings: RunSettings) -> list[str]:
    """Return notes on missing mined negatives that a run requests; refuse a run without any."""
    requested = [way for way in settings.negatives.ways if way != "random"]
    of_open: dict[tuple[str, str], list[str]] = defaultdict(list)
    needed, there = settings.mixture.needed(settings.sources), set[str]()
    for source, recipes in settings.recipes.items():
        for recipe in recipes:
            taken = settings.candidates.of(source, recipe.name)
            there |= taken.keys()
            for scorer in requested if source in needed and is_open(recipe) else ():
                if scorer not in taken:
                    of_open[recipe.name, scorer].append(source)
    for scorer in requested:
        if scorer in there:
            continue
        way = ", and none leaves the choice of negatives open; leave out by="
        if name := next((name for name, by in of_open if by == scorer), None):
            command = mining_store.mine_command(database, name)
            way = f"; mine them: corpus.mine({name!r}), or run: {command}"
            if scorer != BM25:
                way = f"; add them: corpus.add_negatives(…, name={name!r}, scorer={scorer!r})"
        known = {one.scorer for one in mining_store.Minings(database).found(split=settings.split)}
        raise StateMismatchError(
            f"by={scorer!r}: no recipe of this run has mined negatives of it in split "
            f"{settings.split!r} ({no_scorer(scorer, known)}){way}"
        )
    notes = list[str]()
    for (name, scorer), sources in of_open.items():
        has_others = bool(settings.candidates.of(sources[0], name))
        notes.append(
            f"recipe {name!r} has no mined negatives of {scorer} in source {listed(sources)}, "
            f"split {settings.split!r}, so it draws {'others' if has_others else 'at random'} "
            f"there; to mine them: {mining_store.mine_command(database, name)}"
        )
    return notes


def ranked_pins(database: Database, settings: RunSettings, *, allow_stale: bool) -> Pins:
    """Return number and digest of each mining that ranks the positives of a run.

    Raises:
        StateMismatchError: A scorer has not ranked the positives of a recipe, or they are stale.
    """
    minings, found = mining_store.Minings(database), dict[str, dict[str, dict[str, Pin]]]()
    needed = settings.mixture.needed(settings.sources)
    for source, recipes in settings.recipes.items():
        for recipe in recipes if source in needed else ():
            if not isinstance(recipe, TripletRecipe) or recipe.consistent is None:
                continue
            if recipe.weight:
                where: dict[str, Any] = {"source": source, "split": settings.split}
                where |= {"version": settings.corpus_version, "allow_stale": allow_stale}
                mining = minings.ranking(recipe, **where)
                pinned = {mining.scorer: Pin(mining.key, mining.digest)}
                found.setdefault(source, {})[recipe.name] = pinned
    return Pins(found)


def near_pins(database: Database, settings: RunSettings, *, allow_stale: bool) -> InBatch:
    """Return the scorer and margin of texts near an anchor, with their minings."""
    in_batch = settings.in_batch
    if in_batch is None:
        in_batch = InBatch(*cast("tuple[str, float]", settings.negatives.in_batch_margin))
    found = pins(database, settings, allow_stale=allow_stale, near=in_batch.scorer)
    if not found:
        refuse_unknown(database, in_batch, settings.split)
    return replace(in_batch, minings=found)


def pins(
    database: Database,
    settings: RunSettings,
    needed: Collection[str] | None = None,
    *,
    at_random: Collection[tuple[str, str]] = (),
    allow_stale: bool,
    instead: str = "",
    near: str | None = None,
) -> Pins:
    """Return number and digest of each mining a run draws from; refuse stale ones.

    ``at_random`` are sources and recipes that must draw at random. ``near`` is a scorer: return its
    minings instead of the minings that negatives come from.
    """
    minings, found = mining_store.Minings(database), dict[str, dict[str, dict[str, Pin]]]()
    take = partial(
        minings.current,
        split=settings.split,
        version=settings.corpus_version,
        allow_stale=allow_stale,
        instead=instead,
    )
    if minings.damaged and (near is not None or settings.negatives.by != "random"):
        raise minings.damaged[0]
    for source, recipes in settings.recipes.items():
        for recipe in recipes:
            if not (isinstance(recipe, TripletRecipe) and recipe.weight):
                continue
            is_plain = not minings.finished and (near is not None or recipe.by is None)
            if is_plain or (source, recipe.name) in at_random:
                continue
            there = minings.serving(recipe, source, settings.split)
            scorers: list[Any] = [near] if near in there else []
            if near is None:
                before = settings.candidates.of(source, recipe.name)
                scorers = _scorers(recipe, settings.negatives, there, before)
            try:
                mined = [take(recipe, source=source, scorer=scorer) for scorer in scorers]
            except StateMismatchError:
                if needed is None:
                    needed = settings.mixture.needed(settings.sources)
                if source in needed:
                    raise
                continue
            if mined:
                pinned = {m.scorer: Pin(m.key, m.digest) for m in mined}
                found.setdefault(source, {})[recipe.name] = pinned
    return Pins(found)


def _scorers(
    recipe: TripletRecipe, negatives: Negatives, there: Collection[str], before: Collection[str]
) -> list[str | None]:
    """Return the scorers of a recipe's negatives among the known; None means the only one."""
    if own := policy_of(recipe.by):
        is_run = bool(negatives.cuts) and isinstance(negatives.by, str) and negatives.by in there
        return [negatives.by if is_run and isinstance(negatives.by, str) else own.scorer]
    if not (is_open(recipe) and recipe.minable) or negatives.by == "random" or not there:
        return []
    ways = [*before] if negatives.by is None else [*negatives.ways]
    return [way for way in ways if way in there] or ([None] if negatives.by is None else [])


def pinned_minings(
    minings: mining_store.Minings | None, settings: RunSettings, source: str, recipe: TripletRecipe
) -> list[tuple[Mining, Mined]]:
    """Return the minings of a recipe's negatives in a run, each with its policy."""
    pinned = settings.candidates.of(source, recipe.name)
    if minings is None or not pinned:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe.name!r}: there were no mined negatives when run "
            f"{settings.run!r} was opened; call corpus.mine({recipe.name!r}), and open another run"
        )
    policy = settings.negatives.policy
    return [
        (
            pinned_mining(minings, settings, named, recipe.name),
            policy(scorer) or policy_for(recipe.by, scorer),
        )
        for scorer, named in pinned.items()
    ]


def pinned_mining(
    minings: mining_store.Minings, settings: RunSettings, named: Pin, recipe: str
) -> Mining:
    """Return a mining that a run is pinned to; refuse a changed one."""
    mining = minings.by_key(named.mining)
    if mining.digest != named.digest:
        raise StateMismatchError(
            f"source {mining.source!r}, recipe {recipe!r}: mining {mining.key} has changed since "
            f"run {settings.run!r} was opened (digest then: {named.digest}, now: "
            f"{mining.digest}). It is another corpus"
        )
    return mining


def unused_minings(
    database: Database, settings: RunSettings, streams: Sequence[Stream]
) -> list[tuple[str, str, int]]:
    """Return source, recipe and anchors of minings since a run was opened."""
    if settings.versions[-1].negatives.by == "random":
        return []
    some = (stream for stream in streams if not stream.candidates and is_open(stream.recipe))
    alone = {(stream.source, stream.recipe.name): stream.recipe for stream in some}
    if not alone:
        return []
    minings, found = mining_store.Minings(database), list[tuple[str, str, int]]()
    for (source, name), recipe in sorted(alone.items()):
        if there := minings.serving(recipe, source, settings.split):
            found.append((source, name, max(stream.anchors for stream in there.values())))
    return found


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a run's sources, with notes for the user."""

    mixture: Mixture
    index: dict[str, IndexControls]  # limits of their records; see ``RunSettings.index``
    notes: list[str]


def shares(
    database: Database,
    mixture: Mixture | None,
    sources: Mapping[str, SourceDefaults],
    *,
    split: str,
    version: int,
    usual: Mixture | None = None,
) -> Shares:
    """Return the shares of sources: by the mixture, as declared or listed, or as usual."""
    own, is_controlled = dict[str, float](), False
    for name, offers in sources.items():
        is_controlled |= offers.controlled
        own |= {} if offers.weight is None else {name: offers.weight}
    declared = Mixture(own, omitted=1) if own else None
    index, notes = dict[str, IndexControls](), list[str]()
    if is_controlled:
        there = counted(database, split, version)
        counts = {name: count for name, count in there.items() if name in sources}
        if mixture is None and declared is None:
            return _as_listed(counts)
        basis = "mixture=" if mixture else "the mixture declared with the sources"
        index, note = _as_sized(counts, basis)
        notes.append(note)
    if mixture is None and declared is not None:
        words = listed(f"{name} {weight:g}" for name, weight in own.items())
        words += "; each of the others counts 1" * (len(own) < len(sources))
        notes.append(f"no mixture= is given, so the declared weights of sources apply: {words}")
    return Shares(mixture or declared or usual or Mixture(), index, notes)


def _as_listed(counts: Counts) -> Shares:
    """Return shares in the ratio of the entries that index controls list."""
    every = {name: controls or IndexControls() for name, (_, controls) in counts.items()}
    entries = {
        name: controls.listing(name, counts[name][0]).entries for name, controls in every.items()
    }
    words = listed(f"{n} {e:,}{'' if e else ' (never)'}" for n, e in entries.items())
    note = (
        f"no mixture= is given, so sources are drawn in the ratio of the entries of their index "
        f"controls, and anchors come from the listed records: {words}"
    )
    controls = {name: control for name, (_, control) in counts.items() if control is not None}
    return Shares(Mixture({n: float(e) for n, e in entries.items()}), controls, [note])


def _as_sized(counts: Counts, basis: str) -> tuple[dict[str, IndexControls], str]:
    """Return the controls of sources with a size, and a note that their weights do not apply."""
    sizes = {
        name: replace(control, weight=1.0)
        for name, (_, control) in counts.items()
        if control is not None and control.size is not None
    }
    note = f"{basis} replaces the shares of index controls"
    if sizes:
        sized = [
            f"{name} {len(control.listing(name, counts[name][0]).rows):,} of {counts[name][0]:,}"
            for name, control in sizes.items()
        ]
        note += f"; their sizes apply, so anchors come from the listed records: {listed(sized)}"
    return sizes, note


def counted(
    database: Database, split: str, version: int
) -> dict[str, tuple[int, IndexControls | None]]:
    """Return the number of records in a split and the index controls of each source."""
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    return {
        name: (records, None if control[1] is None else IndexControls(*control))
        for name, _, records, *control in rows
    }
