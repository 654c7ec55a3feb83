"""Say what each source of a run is drawn by, and how much of it is drawn.

    recipes given ─ or stored ─ or brought ─ or default ────────────────────→ SourceRecipes
    mixture given ─ or declared ─ or as index controls list ─ or as usual ─→ Shares

Index controls (size and weight of a source) say what ``Corpus.data_index`` lists of it. A sampler
takes its anchors from the listed records only, and draws sources in the ratio of their entries,
unless a mixture is given or was declared with the sources. The pairs of a run are either those
that were judged, which come with nothing drawn beside them, or all are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.errors import SamplerError
from duckplets.order.copies import listing
from duckplets.order.mixture import Mixture
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.defaults import USUAL
from duckplets.recipes.recipes import Recipe, TripletRecipe, role
from duckplets.runs import messages

if TYPE_CHECKING:
    from duckplets.recipes.store import SourceDefaults, SourceRecipes
    from duckplets.runs.settings import Pairs

Control = dict[str, Any]  # size, size_mode, weight and seed, as ``listing`` takes them
Counts = Mapping[str, tuple[int, Control | None]]

_CONTROL = ("size", "size_mode", "weight", "seed")


# -- recipes --------------------------------------------------------------------------------------


def resolved(
    database: Database,
    recipes: Sequence[Recipe | str] | None,
    run: Mapping[str, Any],
    version: int,
    *,
    long_sections: bool = True,
    also: Sequence[Recipe] = (),
    sources: Mapping[str, SourceDefaults] | None = None,
) -> list[SourceRecipes]:
    """Return the recipes of every source at a version for a run of some settings.

    ``also`` may be named though they are not stored any more.
    """
    if run["kind"] == "messages":
        if recipes is not None:
            raise SamplerError("recipes: messages have none; leave it out")
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
    return labelled(database, found, version) if run["pairs"] == "labelled" else found


# -- pairs that were judged -----------------------------------------------------------------------


def which_pairs(database: Database, drawn: Collection[str], version: int) -> Pairs:
    """Return whether the pairs of sources are those that were judged; refuse some of each."""
    there = labels_of(database, version)
    judged, others = (sorted(of) for of in ({*drawn} & {*there}, {*drawn} - {*there}))
    if judged and others:
        raise SamplerError(
            f"pairs: those of source {judged[0]!r} come with labels, and those of source "
            f"{others[0]!r} have none; give pairs='labelled' to take only pairs that were judged, "
            f"pairs='drawn' to draw pairs from all sources, or leave out sources with mixture="
        )
    return "labelled" if judged else "drawn"


def check_labelled(
    database: Database, run: Mapping[str, Any], mixture: Mixture | None, version: int
) -> None:
    """Refuse arguments that a run of labelled pairs cannot have."""
    there = labels_of(database, version)
    if not there:
        raise SamplerError("pairs='labelled': no source has labels; leave it out")
    for name in () if mixture is None else mixture.weighed - {*there}:
        raise SamplerError(
            f"pairs='labelled': source {name!r} has no labels; give it no weight in mixture=, "
            f"or pairs='drawn'"
        )
    if run["negatives"] != 1 or run["no_duplicates"] == "negatives":
        what = "negatives" if run["negatives"] != 1 else "no_duplicates"
        raise SamplerError(
            f"{what}={run[what]!r}: pairs that were judged come with nothing drawn beside them; "
            f"leave it out, or give pairs='drawn'"
        )


def labelled(
    database: Database, found: Sequence[SourceRecipes], version: int
) -> list[SourceRecipes]:
    """Return the recipes of the sources with labels, with nothing said of negatives."""
    there, judged = labels_of(database, version), []
    for of_source in found:
        if of_source.source in there:
            # Two windows of a section are no pair that a label judges.
            some = [r for r in of_source.recipes if r.name not in of_source.optional]
            bare = tuple(_without_negatives(some))
            judged.append(replace(of_source, recipes=bare, optional=frozenset()))
    return judged


def _without_negatives(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return recipes with nothing said of negatives; equal ones as one, with their weights."""
    found: dict[Any, TripletRecipe] = {}
    for recipe in recipes:
        if not isinstance(recipe, TripletRecipe) or not recipe.weight:
            continue
        plain: dict[str, Any] = {"negative": role("context"), "strategy": "other_record"}
        plain |= {"negatives_from": "source", "when_short": "drop", "by": "random", "share": None}
        bare = replace(recipe, **plain)
        alike = replace(bare, name="pairs", weight=1.0)
        if before := found.get(alike):
            first = bare if bare.name == USUAL else before  # no pair is one of ready negatives
            bare = replace(first, weight=before.weight + bare.weight)
        found[alike] = bare
    return list(found.values())


def is_graded(database: Database, sources: Collection[str], version: int) -> bool:
    """Return whether some labels of sources are neither 0 nor 1."""
    kinds = labels_of(database, version)
    return any(kinds.get(name) == "graded" for name in sources)


# -- shares ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shares:
    """How the sources of a run are drawn, and what a user should know of that."""

    mixture: Mixture
    index: dict[str, Control]  # what limits their records; see ``RunSettings.index``
    notes: list[str]


def shares(
    database: Database,
    given: Mixture | None,
    sources: Mapping[str, SourceDefaults],
    *,
    split: str,
    version: int,
    usual: Mixture | None = None,
) -> Shares:
    """Return how sources are drawn: by the mixture that is given, or if nothing says, as usual."""
    own = {name: of.weight for name, of in sources.items() if of.weight is not None}
    declared = Mixture(own, omitted=1) if own else None
    index, notes = dict[str, Control](), list[str]()
    if any(of.controlled for of in sources.values()):
        counts = {
            name: of for name, of in counted(database, split, version).items() if name in sources
        }
        if given is None and declared is None:
            return _as_listed(counts)
        index, note = _as_sized(
            counts, "mixture=" if given else "the mixture declared with the sources"
        )
        notes.append(note)
    if given is None and declared is not None:
        told = listed(f"{name} {weight:g}" for name, weight in own.items())
        told += "; each of the others counts 1" * (len(own) < len(sources))
        notes.append(f"no mixture= is given, so the one declared with the sources holds: {told}")
    return Shares(given or declared or usual or Mixture(), index, notes)


def _as_listed(counts: Counts) -> Shares:
    """Return shares in the ratio of what index controls list."""
    entries = {name: listing(name, n, **(of or {})).entries for name, (n, of) in counts.items()}
    told = listed(f"{n} {e:,}{'' if e else ' (never)'}" for n, e in entries.items())
    note = (
        f"no mixture= is given, so sources are drawn in the ratio of what their index controls "
        f"list, and anchors are of the listed records: {told}"
    )
    controls = {name: control for name, (_, control) in counts.items() if control is not None}
    return Shares(Mixture({n: float(e) for n, e in entries.items()}), controls, [note])


def _as_sized(counts: Counts, what: str) -> tuple[dict[str, Control], str]:
    """Return the controls of sources with a size, and what to say where others give shares."""
    sizes = {
        name: {**control, "weight": 1.0}
        for name, (_, control) in counts.items()
        if control is not None and control["size"] is not None
    }
    note = f"{what} takes the place of the shares that index controls give"
    if sizes:
        sized = [
            f"{name} {len(listing(name, counts[name][0], **of).rows):,} of {counts[name][0]:,}"
            for name, of in sizes.items()
        ]
        note += f"; their sizes hold, so anchors are of the listed records: {listed(sized)}"
    return sizes, note


def counted(database: Database, split: str, version: int) -> dict[str, tuple[int, Control | None]]:
    """Return of every source how many records a split has, and what was said about its index."""
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    return {
        name: (records, None if control[1] is None else dict(zip(_CONTROL, control, strict=True)))
        for name, _, records, *control in rows
    }
