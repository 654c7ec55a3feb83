"""Dates that are written in the names of files and folders."""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePath

_YEAR_FIRST = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)")
_YEAR_LAST = re.compile(r"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4})")
_IN_YEAR = re.compile(r"(?P<year>\d{4})/(?P<month>\d\d)-(?P<day>\d\d)")


def path_date(path: PurePath) -> date | None:
    """Return the date that the innermost dated part of a path spells.

    A part is dated when the whole of it, up to ``--``, is YYYY-MM-DD or MM-DD-YYYY, or MM-DD
    under a folder YYYY; ``_`` counts as ``-``. The last part is taken without its suffix.
    """
    parts = [_plain(part) for part in (*path.parts[:-1], path.stem)]
    for place in reversed(range(len(parts))):
        part = parts[place]
        pair = "/".join(parts[max(place - 1, 0) : place + 1])
        found = (
            _YEAR_FIRST.fullmatch(part) or _YEAR_LAST.fullmatch(part) or _IN_YEAR.fullmatch(pair)
        )
        if found:
            try:
                return date(int(found["year"]), int(found["month"]), int(found["day"]))
            except ValueError:
                continue  # a thirteenth month: a number of another kind
    return None


def _plain(part: str) -> str:
    return part.split("--", 1)[0].replace("_", "-")
