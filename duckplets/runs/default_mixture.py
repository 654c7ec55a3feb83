"""Say in which shares sources are drawn: as given, as declared, as index controls list, or default.

Index controls (size and weight of a source) say what ``Corpus.data_index`` lists of it. A sampler
takes its anchors from the listed records only, and draws sources in the ratio of their entries;
what is given as a mixture, or was declared with the sources, takes the place of these shares.
Where there is none of these, sources are drawn in proportion to their anchors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import listed
from duckplets.order.copies import listing
from duckplets.order.mixture import Mixture

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import SourceDefaults

Control = dict[str, Any]  # size, size_mode, weight and seed, as ``listing`` takes them
_CONTROL = ("size", "size_mode", "weight", "seed")


@dataclass(frozen=True, slots=True)
class Shares:
    """How the sources of a run are drawn.

    Attributes:
        mixture: Their weights.
        index: What limits their records, by source; see ``RunSettings.index``.
        notes: What a user should know of that, a sentence each.
    """

    mixture: Mixture
    index: dict[str, Control]
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
    own: dict[str, float] = {}
    limited: list[str] = []
    for name, offers in sources.items():
        if offers.weight is not None:
            own[name] = offers.weight
        if offers.controlled:
            limited.append(name)
    declared = Mixture(own, omitted=1) if own else None
    index, notes = dict[str, Control](), list[str]()
    if limited:
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


Counts = Mapping[str, tuple[int, Control | None]]


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
