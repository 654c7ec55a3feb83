"""Turn names that came from outside into paths below a folder, and never into others.

What a manifest, a note or a listing names was written by somebody else, who may have meant
``../../elsewhere`` or a link that leads there. So a name is looked at, and its path is resolved and
compared, before anything is opened or made.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import quote

from duckplets.errors import DuckpletsError

_LONGEST_PART, _LONGEST = 255, 1024  # bytes that file systems take of a name, and of a path
_LONGEST_QUOTED = 200  # so that something may be put before or after it
# What no name of ours has in it: controls, half characters, what Windows takes for a separator or a
# drive, or leaves off at the end of a name; parts that are empty or lead to another folder.
_NO_NAME = re.compile(r"[\x00-\x1f\x7f\\:\ud800-\udfff]|[ .](?:/|$)|(?:^|/)(?:/|$)|^$")


def inside(folder: Path, name: str, error: type[DuckpletsError]) -> Path:
    """Return the path of a name with ``/`` below a folder, if no link leads it out of there.

    Args:
        folder: May be a link itself.
        name: As it came.
        error: What to raise.

    Raises:
        DuckpletsError: Of the given type: it is no such name, or leads elsewhere.
    """
    is_name = not _NO_NAME.search(name)
    if is_name:
        longest = max(len(part.encode()) for part in name.split("/"))
        is_name = longest <= _LONGEST_PART and len(name.encode()) <= _LONGEST
    if not is_name:
        raise error(f"{folder}: {name!r} is no name of a file in this folder")
    path, root = folder / name, os.path.realpath(folder)
    if not Path(os.path.realpath(path)).is_relative_to(root):
        raise error(
            f"{path} leads out of {folder} through a link; put the file itself there, or let "
            f"{folder} as a whole be a link"
        )
    return path


def quoted(text: str) -> str:
    """Return a text as the name of one folder that is not hidden; other texts have other names."""
    name = quote(text, safe="", errors="surrogatepass")
    name = re.sub(r"^\.|\.$", "%2E", name)
    if not 0 < len(name) <= _LONGEST_QUOTED:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: _LONGEST_QUOTED - 17]}-{digest}"
    return name
