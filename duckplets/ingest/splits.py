"""Assign every record a split, train, validation or test, once, and store it.

``u = first 8 bytes of MD5(seed 0x1f key) / 2^64``. The key is the record's group, or its id without
a group. So a family of records shares a split, and the order of an ingest does not matter. With
``keep_together="text"`` groups and equal anchors connect the records of a family. Its key is its
least group, or the hash of the text. The table ``settings`` has the settings; later ingests assign
only new records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import html_lines
from duckplets.base.settings import Bounds, check, from_plain
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import SplitError

SPLITS = ("train", "validation", "test")
KeepTogether = Literal["group", "text"]

_Ratio = Annotated[float, Bounds(0, 1)]
_USUAL = {"train": 0.8, "validation": 0.1, "test": 0.1}


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitSettings:
    """Ratios, which add up to 1 (within 1e-9), and seed of the splits."""

    train: _Ratio
    validation: _Ratio
    test: _Ratio
    seed: int
    keep_together: KeepTogether = "group"

    def __post_init__(self) -> None:
        """Check every field, and the sum of the ratios."""
        check(self, SplitError)
        if abs((total := self.train + self.validation + self.test) - 1) > 1e-9:
            raise SplitError(
                f"train={self.train}, validation={self.validation}, test={self.test} add up to "
                f"{total:.12g}; they must add up to 1"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values; ``keep_together`` only if unusual."""
        found = asdict(self)
        if self.keep_together == "group":
            del found["keep_together"]
        return found


class SplitReport(dict[str, int]):
    """Report of a split: a mapping of each split to its records, by name.

    Attributes:
        settings: Shares, seed and ``keep_together``.
        asked: Share of the records by split, as the settings have it.
        got: Share of the records by split, as it came out: families are not divided.
        largest_family: Records of the family that has most; 1 where there is none.
        anchors: Anchors of validation and of test; the first section of a record without an anchor.
        shared_anchors: Number of these that train has, too, apart from case, accents, composition
            and white space.
        spanning: Families whose records lie in more than one split, because what connects them
            came after they were split; 0 unless ``keep_together="text"``.
    """

    def __init__(
        self,
        records: Mapping[str, int],
        *,
        settings: SplitSettings,
        anchors: Mapping[str, int],
        shared_anchors: Mapping[str, int],
        spanning: int,
        largest_family: int,
    ) -> None:
        super().__init__(records)
        total = sum(records.values())
        self.settings = settings
        self.asked: dict[str, float] = {name: getattr(settings, name) for name in SPLITS}
        self.got = {name: records.get(name, 0) / max(total, 1) for name in SPLITS}
        self.largest_family = largest_family
        self.anchors = dict(anchors)
        self.shared_anchors = dict(shared_anchors)
        self.spanning = spanning

    @property
    def shares(self) -> str:
        """Which shares were asked for and which came out, in words."""
        if not self:
            return "no records yet"
        asked, got = (
            "/".join(f"{round(100 * share, 1):g}" for share in shares.values())
            for shares in (self.asked, self.got)
        )
        largest = f"; the largest family holds {self.largest_family:,} records"
        return f"asked {asked}, got {got}{largest * (self.largest_family > 1)}"

    def __repr__(self) -> str:
        values = (f"{name}={value}" for name, value in vars(self).items() if name != "settings")
        return f"SplitReport({super().__repr__()}, {', '.join(values)})"

    def _repr_html_(self) -> str:
        return html_lines(str(self))

    def __str__(self) -> str:
        counts = [
            f"{shared:,} of the {self.anchors[name]:,} anchors of {name}"
            for name, shared in self.shared_anchors.items()
            if shared
        ]
        shared = f"; {' and '.join(counts)} occur in train" if counts else ""
        return f"{super().__repr__()}; {self.shares}{shared}"


def settings_of(
    train: float | None,
    validation: float | None,
    test: float | None,
    *,
    seed: int,
    keep_together: KeepTogether,
) -> SplitSettings:
    """Return the settings of a split; missing shares divide the rest 8 : 1 : 1."""
    asked = {"train": train, "validation": validation, "test": test}
    named = {name: share for name, share in asked.items() if share is not None}
    shares: dict[str, Any] = _USUAL | named
    if named and all(isinstance(s, int | float) and 0 <= s <= 1 for s in named.values()):
        rest = max(0.0, 1 - sum(named.values()))
        usual = sum(share for name, share in _USUAL.items() if name not in named)
        # Rounded, so that the rest of 0.9 is 0.05 and 0.05.
        shares |= {n: round(rest * s / usual, 12) for n, s in _USUAL.items() if n not in named}
    return SplitSettings(**shares, seed=seed, keep_together=keep_together)


@changes("split")
def split(
    corpus: CorpusFile,
    /,
    train: float | None = None,
    validation: float | None = None,
    test: float | None = None,
    seed: int = 42,
    *,
    keep_together: KeepTogether = "group",
    reassign: bool = False,
    given: bool = True,
) -> SplitReport:
    """Assign every record to a split, for good.

    Args:
        train: Share of training records. The three shares add up to 1. Missing shares divide the
            rest as 8 : 1 : 1. Default without any share: 0.8.
        validation: Share of validation records. Default without any share: 0.1.
        test: Share of test records. Default without any share: 0.1.
        seed: Another seed gives another assignment.
        keep_together: Records that share a split. ``group``: records of a group. ``text``: also
            records with equal anchors, or equal first sections without an anchor. Case, accents,
            composition and white space are ignored. Later records take the split of their family.
        reassign: Allow other settings than the earlier ones.
        given: Keep splits that came with the labels of a collection; ``False`` with ``reassign``
            moves these queries as well.

    Returns:
        The records of each split, as a mapping. ``asked`` and ``got`` have the shares, which
        differ where families are large. ``shared_anchors`` counts the anchors of validation and
        test that train has, too.

    Raises:
        SplitError: The shares are wrong, or settings others than before.
    """
    database = corpus.database
    if not given and not reassign:
        raise SplitError("given=False moves records between splits: give reassign=True as well")
    settings = settings_of(train, validation, test, seed=seed, keep_together=keep_together)
    stored = current_splits(database)
    if stored is not None and stored != settings and not reassign:
        raise SplitError(
            f"the corpus is split with {_spelled(stored)}, not with {_spelled(settings)}; "
            f"keep those, or move records between splits with reassign=True"
        )
    with database.transaction():
        # Families that came to span splits are moved by the original settings.
        if stored != settings or not given or (reassign and settings.keep_together == "text"):
            database.run("ingest/splits/clear", {"given": not given})
            database.run("ingest/records/rearranged")
            database.run("ingest/splits/set", {"value": json.dumps(settings.to_dict())})
        spanning, _, largest = assign_missing(database, 0)
        if settings.keep_together == "group":
            largest = database.run("ingest/splits/largest_group")[0][0]
    counts = shared_anchors(database)
    return SplitReport(
        dict(database.run("ingest/splits/counts")),
        settings=settings,
        anchors={name: anchors for name, (anchors, _) in counts.items()},
        shared_anchors={name: shared for name, (_, shared) in counts.items()},
        spanning=spanning,
        largest_family=int(largest),
    )


def shared_anchors(database: Database) -> dict[str, tuple[int, int]]:
    """Count the anchors of validation and test, and the anchors among them that train has, too."""
    rows = database.run("ingest/splits/shared_anchors")
    return {name: (int(anchors), int(shared)) for name, anchors, shared in rows}


def current_splits(database: Database) -> SplitSettings | None:
    """Return the settings of the stored splits, or None."""
    rows = database.run("ingest/splits/get")
    if not rows:
        return None
    place = StoredJson(database.path, "settings", "splits")
    found = place.read("value", rows[0][0], dict)
    with place.making("value"):
        return from_plain(SplitSettings, found, SplitError)


def splits_in_use(database: Database) -> SplitSettings | None:
    """Return the settings of splits; the usual ones where all splits came with labels."""
    stored = current_splits(database)
    if stored is None and database.run("ingest/splits/all_given")[0][0]:
        return settings_of(None, None, None, seed=42, keep_together="group")
    return stored


def need_splits(database: Database, what: str = "") -> SplitSettings:
    """Return the settings of the stored splits; ``what`` begins the error without any."""
    settings = splits_in_use(database)
    if settings is None:
        raise SplitError(
            f"{what}the corpus has no splits yet; call corpus.split(…), or run: "
            f"duckplets split {database.path}"
        )
    return settings


def assign_missing(database: Database, first_record_key: int) -> tuple[int, int, int]:
    """Assign splits to records from a key on, if the corpus is split.

    Returns the number of families that span several splits, the number of their records from that
    key on, and the size of the largest family. All are 0 for groups, which never span splits.
    """
    settings, first = current_splits(database), {"first_record_key": first_record_key}
    database.run("ingest/splits/documents", first)
    if settings is None:
        return 0, 0, 0
    values: dict[str, Any] = {
        "seed": str(settings.seed),
        "train": settings.train,
        "validation": settings.train + settings.validation,
        "test": settings.test,
    }
    if settings.keep_together == "group":
        database.run("ingest/splits/assign", values | first)
        return 0, 0, 0
    with database.registered(families=_families(database)):
        database.run("ingest/splits/assign_families", values)
        families, records, largest = database.run("ingest/splits/families", first)[0]
    return int(families), int(records), int(largest)


def _families(database: Database) -> pa.Table:
    """Return connected records, each with the least key of its family."""
    ties = database.table("ingest/splits/ties")
    records, families = connected(ties["record_key"].to_numpy(), ties["tie"].to_numpy())
    return pa.table({"record_key": records, "family": families})


def connected(records: Integers, ties: Words) -> tuple[Integers, Integers]:
    """Return the distinct records, ascending, each with the least one it is connected to.

    A record is given once per tie; records of a tie are connected. Every round joins each family
    with its least neighbour, so families at least double every two rounds: a path of 10,000
    records takes 4.
    """
    nodes, node = np.unique(records, return_inverse=True)
    order = np.argsort(ties, kind="stable")
    node = node[order]
    starts = np.flatnonzero(np.r_[True, np.diff(ties[order]) != 0])[: len(ties)]
    sizes = np.diff(np.r_[starts, len(ties)])
    label = np.arange(len(nodes))
    while len(nodes):
        roots = label[node]
        parent = np.arange(len(nodes))
        np.minimum.at(parent, roots, np.repeat(np.minimum.reduceat(roots, starts), sizes))
        while not np.array_equal(above := parent[parent], parent):
            parent = above
        if np.array_equal(after := parent[label], label):
            break
        label = after
    return nodes, nodes[label]


def checked_split(name: Any) -> str:
    """Return the name of a split, or refuse it."""
    if name not in SPLITS:
        raise SplitError(f"split={name!r}: give one of {', '.join(SPLITS)}")
    return str(name)


def _spelled(settings: SplitSettings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.to_dict().items())
