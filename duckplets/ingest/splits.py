"""Assign every record a split, train, validation or test, once, and store it.

``u = first 8 bytes of MD5(seed 0x1f key) / 2^64``, where the key is the record's group if it has
one, else its id: a family of records shares a split, and neither the order of an ingest nor the
rows around a record matter. The ratios are kept in ``settings``; later ingests assign only what
is new.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from duckplets.base.plain import Stored
from duckplets.db.database import Database
from duckplets.errors import SplitError

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitSettings:
    """Ratios and seed of the splits.

    Attributes:
        train: Share of training records, from 0 to 1.
        validation: Share of validation records.
        test: Share of test records; the three add up to 1 (within 1e-9).
        seed: Another seed gives another assignment.
    """

    train: float
    validation: float
    test: float
    seed: int

    def __post_init__(self) -> None:
        ratios = {"train": self.train, "validation": self.validation, "test": self.test}
        for name, ratio in ratios.items():
            if isinstance(ratio, bool) or not isinstance(ratio, int | float):
                raise SplitError(f"{name}={ratio!r}: give a number from 0 to 1")
            if not 0 <= ratio <= 1 + 1e-9:
                raise SplitError(f"{name}={ratio!r}: a ratio lies between 0 and 1")
        if abs(sum(ratios.values()) - 1) > 1e-9:
            raise SplitError(
                f"train={self.train}, validation={self.validation}, test={self.test} add up to "
                f"{sum(ratios.values()):.12g}; they must add up to 1"
            )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise SplitError(f"seed={self.seed!r}: give an integer")


def split(database: Database, settings: SplitSettings, *, reassign: bool = False) -> None:
    """Set the splits; records that have one keep it unless ``reassign``.

    Raises:
        SplitError: The corpus has splits of other settings.
    """
    stored = current_splits(database)
    if stored is not None and stored != settings and not reassign:
        raise SplitError(
            f"the corpus is split with {_spelled(stored)}, not with {_spelled(settings)}; "
            f"keep those, or move records between splits with reassign=True"
        )
    with database.transaction():
        if stored != settings:
            database.run("ingest/splits/clear")
            database.run("ingest/splits/set", {"value": json.dumps(asdict(settings))})
        assign_missing(database, 0)


def current_splits(database: Database) -> SplitSettings | None:
    """Return the settings of the stored splits, or None before ``split``.

    Raises:
        DamagedFileError: They are none.
    """
    rows = database.run("ingest/splits/get")
    if not rows:
        return None
    place = Stored(database.path, "settings", "splits")
    found = place.read("value", rows[0][0], dict.fromkeys(SPLITS, float) | {"seed": int})
    with place.making("value"):
        return SplitSettings(**{name: found[name] for name in (*SPLITS, "seed")})


def need_splits(database: Database, what: str = "") -> SplitSettings:
    """Return the settings of the stored splits; an error begins with what needs them.

    Raises:
        SplitError: The corpus has none.
    """
    settings = current_splits(database)
    if settings is None:
        raise SplitError(
            f"{what}the corpus has no splits yet; call corpus.split(…), or run: "
            f"duckplets split {database.path}"
        )
    return settings


def assign_missing(database: Database, first_record_key: int) -> None:
    """Give records from a key on their split, if the corpus has splits."""
    settings = current_splits(database)
    if settings is not None:
        database.run(
            "ingest/splits/assign",
            {
                "seed": str(settings.seed),
                "train": settings.train,
                "validation": settings.train + settings.validation,
                "test": settings.test,
                "first_record_key": first_record_key,
            },
        )


def checked_split(name: Any) -> str:
    """Return the name of a split, or refuse what is none."""
    if name not in SPLITS:
        raise SplitError(f"split={name!r}: give one of {', '.join(SPLITS)}")
    return str(name)


def _spelled(settings: SplitSettings) -> str:
    return ", ".join(f"{name}={value}" for name, value in asdict(settings).items())
