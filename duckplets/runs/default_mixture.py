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
    """Return how sources are drawn.

    Args:
        database: The corpus.
        given: The mixture that was asked for, or None.
        sources: Those of the run.
        split: The split.
        version: Of the corpus.
        usual: What holds where nothing else says how; by default in proportion to anchors.
    """
    own = {name: of.weight for name, of in sources.items() if of.weight is not None}
    limited = any(of.controlled for of in sources.values())
    found = counted(database, split, version) if limited else {}
    found = {name: said for name, said in found.items() if name in sources}
    controls = {name: control for name, (_, control) in found.items() if control is not None}
    entries = {n: listing(n, count, **(c or {})).entries for n, (count, c) in found.items()}
    if given is None and not own and controls:
        told = listed(f"{n} {e:,}{'' if e else ' (never)'}" for n, e in entries.items())
        note = (
            f"no mixture= is given, so sources are drawn in the ratio of what their index controls "
            f"list, and anchors are of the listed records: {told}"
        )
        return Shares(Mixture({n: float(e) for n, e in entries.items()}), controls, [note])
    notes = []
    sizes = {n: {**c, "weight": 1.0} for n, c in controls.items() if c["size"] is not None}
    if controls:
        what = "mixture=" if given is not None else "the mixture declared with the sources"
        note = f"{what} takes the place of the shares that index controls give"
        if sizes:
            sized = [
                f"{n} {len(listing(n, found[n][0], **c).rows):,} of {found[n][0]:,}"
                for n, c in sizes.items()
            ]
            note += f"; their sizes hold, so anchors are of the listed records: {listed(sized)}"
        notes.append(note)
    if given is not None:
        return Shares(given, sizes, notes)
    if not own:
        return Shares(usual or Mixture(), sizes, notes)
    told = listed(f"{name} {weight:g}" for name, weight in own.items())
    told += "; each of the others counts 1" * (len(own) < len(sources))
    notes.append(f"no mixture= is given, so the one declared with the sources holds: {told}")
    return Shares(Mixture(own, omitted=1), sizes, notes)


def counted(database: Database, split: str, version: int) -> dict[str, tuple[int, Control | None]]:
    """Return of every source how many records a split has, and what was said about its index."""
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    return {
        name: (records, None if size_mode is None else _control(size, size_mode, weight, seed))
        for name, _, records, size, size_mode, weight, seed in rows
    }


def _control(size: int | None, size_mode: str, weight: float, seed: int) -> Control:
    return {"size": size, "size_mode": size_mode, "weight": weight, "seed": seed}
