"""Say in a few values what a run follows from, and refuse where a saved one differs.

What must agree for a cursor to be valid is kept field by field, so a mismatch says what differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from duckplets.base.sanitize import shown
from duckplets.errors import StateMismatchError, nearest
from duckplets.order.mixture import Mixture, differences
from duckplets.order.ranks import world_sizes

Fingerprint = dict[str, Any]

_SHOWN = 5  # recipes that differ


def digest(value: Any) -> str:
    """Return a short name of a plain value: equal values have equal ones."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def refuse_mismatch(
    saved: Fingerprint,
    now: Fingerprint,
    *,
    allow_drift: Collection[str] = (),
    told: Mapping[str, str] = {},
    edited: Mapping[str, str] = {},
) -> None:
    """Refuse a fingerprint that differs in a field that may not, with all that differs.

    ``told`` says what differs in fields that are digests, and ``edited`` so for those that others
    judge: they are shown where another field is refused.
    """
    for name in sorted(set(allow_drift) - now.keys()):
        raise StateMismatchError(
            f"allow_drift: no field {name!r}{nearest(name, now)}; there are {', '.join(now)}"
        )
    differing = [
        name
        for name in {**saved, **now}
        if saved.get(name) != now.get(name) and name not in allow_drift
    ]
    if set(differing) - edited.keys():
        said = {
            name: f"{name} (saved: {saved.get(name)!r}, now: {now.get(name)!r})"
            for name in differing
        }
        said |= {name: words for name, words in {**told, **edited}.items() if name in said}
        hint = ""
        if "batch_size" in differing:
            hint = (
                " (batch_size is that of all ranks together; world sizes that divide it: "
                f"{world_sizes(int(saved.get('batch_size', 0)))})"
            )
        raise StateMismatchError(
            f"the saved run does not fit: {'; '.join(said.values())}{hint}. Open it with what it "
            f"was saved with, or accept another order with allow_drift=(…)"
        )


def differing(saved: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return in words what differs in the recipes and the mixture of settings as plain values."""
    mixtures = [Mixture.from_dict(settings.get("mixture", {})) for settings in (saved, now)]
    told = {"mixture": differences(*mixtures)}
    one, other = (
        {
            (source, of.get("name")): of
            for source, some in settings["recipes"].items()
            for of in some
        }
        for settings in (saved, now)
    )
    places = [place for place in {**one, **other} if one.get(place) != other.get(place)]
    told["recipes"] = "; ".join(
        f"source {source!r}, recipe {name!r}: {_fields(one.get(at, {}), other.get(at, {}))}"
        for at in places[:_SHOWN]
        for source, name in [at]
    )
    if len(places) > _SHOWN:
        told["recipes"] += f"; and {len(places) - _SHOWN:,} recipes more"
    return {field: f"{field}: {words}" for field, words in told.items() if words}


def _fields(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return which fields of a recipe differ, with both values."""
    if not (saved and now):
        return "saved only" if saved else "now only"
    fields = [field for field in {**saved, **now} if saved.get(field) != now.get(field)]
    return ", ".join(
        f"{field} (saved: {shown(repr(saved.get(field)), 80)}, now: "
        f"{shown(repr(now.get(field)), 80)})"
        for field in fields
    )
