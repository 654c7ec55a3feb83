"""Let text that arrived since join a run: its settings, schedule and streams by corpus version.

    resume(version=) ─joining→ era ─settled→ RunSettings.eras ─┬→ Schedule
                                                               └→ streams by version → Courses

An era is what a run takes of a later version from a step on: what its settings say of records,
minings, prefixes and vectors there, recipes of the sources that came with it, and what a mixture in
proportion to anchors means there. All else stays as the run was opened: recipes of its sources and
their shares, mixture, length of a nominal epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.sanitize import listed
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records
from duckplets.order.mixture import Mixture
from duckplets.order.schedule import Events, Schedule
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.runs import messages, mining_pins, negative_policy
from duckplets.runs.default_mixture import shares
from duckplets.runs.settings import RunSettings
from duckplets.samples.pairs import samples_per_draw
from duckplets.samples.vector_columns import pinned, pinned_again
from duckplets.serving.snapshot import fingerprint

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import Recipe, SourceRecipes
    from duckplets.runs.pool_loading import Left
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.plan import Planner
    from duckplets.samples.stream import Stream
    from duckplets.samples.vector_columns import Missing, RunVectors
    from duckplets.samples.version_switch import ByVersion

Version: TypeAlias = int | Literal["newest"] | None
Found: TypeAlias = "tuple[list[Stream], list[Left]]"
Read: TypeAlias = Callable[..., Found]


def schedule_of(settings: RunSettings, events: Events | None) -> Schedule:
    """Return the schedule of a run."""
    return Schedule(
        Mixture.from_dict(settings.mixture),
        settings.versions[-1].sources,
        seed=settings.seed,
        batch=settings.global_batch,
        samples_per_draw=samples_per_draw(settings.kind, settings.negatives),
        events=events,
        joined={name: era["step"] for era in settings.eras for name in era["sources"]},
        lengths={era["step"]: era["lengths"] for era in settings.eras},
    )


def checked_version(
    database: Database, settings: RunSettings, version: Version, position: int
) -> int | None:
    """Return the number of the version that is to join a run at a position; None for none.

    Raises:
        SamplerError: It is no version of the corpus, or one before those that the run has.
    """
    newest = records.current_version(database)
    if version is None:
        return None
    if version == "newest":
        return newest
    if isinstance(version, str):
        raise SamplerError(f"version={version!r}: give 'newest', a number, or leave it out")
    found, last = integer("version", version, 0, newest), _begun(settings, position).versions[-1]
    if found < last.corpus_version:
        raise SamplerError(
            f"version={found}: run {settings.run!r} draws from corpus version "
            f"{last.corpus_version} where it stands; give one from there to {newest}, or leave it "
            f"out"
        )
    return found


def sources_with(database: Database, settings: RunSettings, version: int | None) -> list[str]:
    """Return the names of the sources of a run, with those of a version that joins it."""
    names = settings.versions[-1].sources
    if version is None:
        return names
    return [*names, *(n for n in recipe_store.sources_of(database, version) if n not in names)]


def joined(
    database: Database,
    settings: RunSettings,
    version: int,
    *,
    position: int,
    events: Events,
    recipes: Sequence[Recipe | str] | None,
) -> RunSettings:
    """Return settings of a run that takes a later version, from a step on that is left open.

    Eras of which nothing was served yet give way to it.

    Args:
        database: The corpus.
        settings: Of the run.
        version: The same that it has where it stands, or a later one.
        position: Where it stands.
        events: Weights that were set during the run.
        recipes: Given for the sources that came since; else they take what a new run would.

    Raises:
        StateMismatchError: Negatives that the run takes from a mining are not mined for it.
    """
    settings = _begun(settings, position)
    last = settings.versions[-1]
    if version == last.corpus_version:
        return settings
    fresh = _fresh(database, last, version, recipes)
    names = [of_source.source for of_source in fresh]
    found = recipe_store.sources_of(database, version)
    came = {name: found[name] for name in names}
    limits = shares(database, Mixture(), came, split=settings.split, version=version)
    era = {
        "step": _open_step(settings),
        "corpus_version": version,
        "records": fingerprint(database, version),
        "declared_prefixes": _prefixes(database, last, version, names),
        "candidates": {},
        "sources": names,
        "recipes": {s.source: [to_dict(recipe) for recipe in s.recipes] for s in fresh},
        "optional": {s.source: sorted(s.optional) for s in fresh if s.optional},
        "index": limits.index,
        "vectors": _vectors(database, last),
        "lengths": {},
    }
    made = replace(settings, eras=[*settings.eras, era])
    drawn = dict(negative_policy.drawn_by(last))
    of_fresh = {s.source: [r for r in s.recipes if r.weight] for s in fresh}
    drawn |= negative_policy.with_mined(database, made, of_fresh)
    needed = schedule_of(made, events).drawn_in(position // settings.global_batch)
    pins = mining_pins.pins(database, made.versions[-1], drawn, needed, allow_stale=False)
    return replace(settings, eras=[*settings.eras, {**era, "candidates": pins}])


def _open_step(settings: RunSettings) -> int:
    return MAX_POSITION // settings.global_batch


def _begun(settings: RunSettings, position: int) -> RunSettings:
    """Return settings without the eras of which nothing comes before a position."""
    eras = [era for era in settings.eras if era["step"] * settings.global_batch < position]
    return replace(settings, eras=eras)


def settled(
    settings: RunSettings, planner: Planner, events: Events | None, position: int
) -> RunSettings:
    """Return settings whose last era begins as soon after a position as it may, if it was open.

    The planner is told of all steps.
    """
    if settings.eras and settings.eras[-1]["step"] == _open_step(settings):
        *eras, last = settings.eras
        last = {**last, "step": planner.next_change(position)}
        settings = replace(settings, eras=[*eras, last])
        planner.schedule = schedule_of(settings, events)
    planner.steps = [era["step"] for era in settings.eras]
    return settings


def in_shares(settings: RunSettings, planner: Planner, events: Events | None) -> RunSettings:
    """Return settings that keep what the words of a mixture mean, for each version of the corpus.

    The planner, which has all streams, is told of it.
    """
    mixture = Mixture.from_dict(settings.mixture)
    if not isinstance(mixture.weights, str):
        return settings
    lengths = mixture.lengths or planner.lengths(settings.sources)
    eras = [
        era if era["lengths"] else {**era, "lengths": planner.lengths(version.sources, number)}
        for number, (era, version) in enumerate(
            zip(settings.eras, settings.versions[1:], strict=True), 1
        )
    ]
    mixture = replace(mixture, lengths=lengths)
    settings = replace(settings, mixture=mixture.to_dict(), eras=eras)
    planner.schedule = schedule_of(settings, events)
    return settings


def _fresh(
    database: Database,
    last: RunSettings,
    version: int,
    recipes: Sequence[Recipe | str] | None,
) -> list[SourceRecipes]:
    """Return the recipes of sources that a run does not know."""
    if last.kind == "messages":
        found = messages.resolve(database, Mixture.from_dict(last.mixture), version)
    else:
        tokens = last.chunking["max_tokens"]
        found = negative_policy.resolved(database, recipes, vars(last), version, max_tokens=tokens)
    return [of_source for of_source in found if of_source.source not in last.sources]


def _prefixes(
    database: Database, last: RunSettings, version: int, fresh: Sequence[str]
) -> dict[str, Any]:
    """Return what identifies the prefixes of a version in a run: its sources keep theirs."""
    found = prefix_store.digest(database, version)
    of_fresh = {n: d for n, d in found.get("sources", {}).items() if n in fresh}
    of_sources = last.declared_prefixes.get("sources", {}) | of_fresh
    of_records = {"records": found["records"]} if "records" in found else {}
    return ({"sources": of_sources} if of_sources else {}) | of_records


def _vectors(database: Database, last: RunSettings) -> dict[str, Any]:
    """Return the vectors of a version: those there are now."""
    missing = last.vectors.get("missing")
    return {} if missing is None else pinned(Path(str(database.path)), last.columns, missing)


def prefixes_of(database: Database, settings: RunSettings) -> list[tuple[int, str]]:
    """Return the id and prefix of every source that a run shows one of."""
    first, *later = settings.versions
    found = [(of[0], of[2]) for of in prefix_store.of_sources(database, first.corpus_version)]
    for era, version in zip(settings.eras, later, strict=True):
        all_of = prefix_store.of_sources(database, version.corpus_version)
        found += [(key, definition) for key, name, definition in all_of if name in era["sources"]]
    return found


def as_found(database: Database, settings: RunSettings, missing: Missing | None) -> RunSettings:
    """Return settings of a saved run with what the corpus says of its versions now."""
    path, first = Path(str(database.path)), settings.corpus_version
    now = replace(
        settings,
        records=fingerprint(database, first),
        declared_prefixes=prefix_store.digest(database, first),
        vectors=pinned_again(path, settings, missing),
        eras=[],
    )
    for era, version in zip(settings.eras, settings.versions[1:], strict=True):
        number, names = version.corpus_version, era["sources"]
        found = {
            "records": fingerprint(database, number),
            "declared_prefixes": _prefixes(database, now.versions[-1], number, names),
            "vectors": pinned_again(path, version, missing),
        }
        now = replace(now, eras=[*now.eras, {**era, **found}])
    return now


def first_streams(
    settings: RunSettings, schedule: Schedule, sources: Sequence[str], read: Read, *, skip: bool
) -> Found:
    """Return the streams of sources of the version that a run was opened with.

    Those that are drawn from only after another version has joined need not have an anchor in it.

    Args:
        settings: Of the run.
        schedule: Of the run.
        sources: Which.
        read: Returns the streams of a version's settings and some sources; with ``skip`` those that
            there are.
        skip: Whether what has no anchor is left out.

    Returns:
        The streams, and which recipes and sources were left out that somebody asked for, and why.
    """
    first, *_ = settings.versions
    known = [name for name in sources if name in first.sources]
    if not settings.eras:
        return read(first, known, skip=skip)
    sure = schedule.drawn_in(0, settings.eras[0]["step"])
    streams, _ = read(first, [name for name in known if name in sure])
    rest = [name for name in known if name not in sure]
    return [*streams, *(read(first, rest, skip=True)[0] if rest else [])], []


def later_streams(
    settings: RunSettings, schedule: Schedule, sources: Sequence[str], read: Read
) -> ByVersion:
    """Return the streams of sources of all versions but the first, where they are drawn from."""
    found: list[list[Stream]] = [[]]
    for era, version in zip(settings.eras, settings.versions[1:], strict=True):
        drawn = schedule.drawn_in(era["step"])
        needed = [name for name in sources if name in drawn and name in version.sources]
        found.append(read(version, needed)[0])
    return found


def streams_of(settings: RunSettings, read: Read, source: str) -> ByVersion:
    """Return the streams of a source of every version, of which the last must have some."""
    *earlier, last = settings.versions
    found = [read(v, [source], skip=True)[0] for v in earlier if source in v.sources]
    before: list[list[Stream]] = [[] for version in earlier if source not in version.sources]
    return [*before, *found, read(last, [source])[0]]


def vectors_of(
    database: Database, settings: RunSettings, newest: RunVectors | None
) -> RunVectors | None:
    """Return the vectors of a run, those of the newest version, as it serves them at each step."""
    if newest is not None:
        steps = [0, *(era["step"] for era in settings.eras)]
        for version, step in zip(settings.versions, steps[1:], strict=False):
            newest.before(version, step * settings.global_batch)
    return newest


def tell(database: Database, sampler: Sampler, before: RunSettings) -> None:
    """Note what has joined a run, and from which position on its samples may be others.

    Args:
        database: The corpus.
        sampler: Of the run.
        before: Its settings as they were.
    """
    settings = sampler.settings
    for one, other in zip_longest(before.eras, settings.eras):
        if one != other:
            steps = [era["step"] for era in (one, other) if era is not None]
            changed = min(steps) * settings.global_batch
            known = sampler.changed_from
            sampler.changed_from = changed if known is None else min(known, changed)
            break
    else:
        number = settings.versions[-1].corpus_version
        sampler.notes.append(f"run {settings.run!r} has corpus version {number} already")
        return
    if settings.eras and not settings.rank:
        sampler.notes += _told(database, settings)


def _told(database: Database, settings: RunSettings) -> list[str]:
    """Return what a user should know of the version that has just joined."""
    era = settings.eras[-1]
    notes = [
        f"from step {era['step']:,} on run {settings.run!r} draws from corpus version "
        f"{era['corpus_version']}: each recipe of a source ends the epoch that is under way with "
        f"the anchors it had, and takes the new ones from the next on"
    ]
    return [*notes, *_told_of_sources(database, settings, era)] if era["sources"] else notes


def _told_of_sources(
    database: Database, settings: RunSettings, era: dict[str, Any]
) -> Iterator[str]:
    """Yield what a user should know of the sources that came with a version."""
    mixture, version = Mixture.from_dict(settings.mixture), era["corpus_version"]
    weights = replace(mixture, lengths=era["lengths"]).declared(settings.versions[-1].sources)
    weighed = listed(
        f"{name!r} {float(weights[name]):g} ({listed(recipe['name'] for recipe in recipes)})"
        for name, recipes in era["recipes"].items()
    )
    yield (
        f"sources that came since, with their weights in the mixture and recipes: {weighed}; give "
        f"other weights with mixture="
    )
    found = recipe_store.sources_of(database, version)
    came = {name: found[name] for name in era["sources"]}
    own = listed(f"{name} {of.weight:g}" for name, of in came.items() if of.weight is not None)
    if own:
        yield f"a saved run keeps its mixture, so weights declared with sources do not hold: {own}"
    yield from shares(database, mixture, came, split=settings.split, version=version).notes


def refuse_older(database: Database, settings: RunSettings) -> None:
    """Refuse a run that is pinned to a version that the corpus has not reached.

    Raises:
        StateMismatchError: It is.
    """
    pinned_to, newest = settings.versions[-1].corpus_version, records.current_version(database)
    if pinned_to > newest:
        raise StateMismatchError(
            f"run {settings.run!r} is pinned to corpus version {pinned_to}, but "
            f"{database.path} is at {newest}: it is another file"
        )
