"""Turn names from outside into paths below a folder, and refuse all other paths.

Names in manifests, notes and listings come from outside. They may be ``../../elsewhere``, or a link
to another folder. Each is checked, resolved and compared before a file is opened or created.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import quote

from duckplets.errors import DuckpletsError

_LONGEST_PART, _LONGEST = 255, 1024  # bytes that file systems allow for a name, and for a path
_LONGEST_QUOTED = 200  # room for a prefix or suffix
# Refused in names: control characters, surrogates, separators and drives of Windows, trailing
# characters that Windows drops, and parts that are empty or ``..``.
_NO_NAME = re.compile(r"[\x00-\x1f\x7f\\:\ud800-\udfff]|[ .](?:/|$)|(?:^|/)(?:/|$)|^$")


def inside(folder: Path, name: str, error: type[DuckpletsError]) -> Path:
    """Return the path of a ``/``-separated name below a folder."""
    is_name = not _NO_NAME.search(name)
    if is_name:
        longest = max(len(part.encode()) for part in name.split("/"))
        is_name = longest <= _LONGEST_PART and len(name.encode()) <= _LONGEST
    if not is_name:
        raise error(f"{folder}: {name!r} is no name of a file in this folder; rename it")
    path, root = folder / name, os.path.realpath(folder)
    if not Path(os.path.realpath(path)).is_relative_to(root):
        raise error(
            f"{path} leads out of {folder} through a link; replace the link by the file, or make "
            f"{folder} itself the link"
        )
    return path


def quoted(text: str) -> str:
    """Return a text as the name of one visible folder; distinct texts give distinct names."""
    name = quote(text, safe="", errors="surrogatepass")
    name = re.sub(r"^\.|\.$", "%2E", name)
    if not 0 < len(name) <= _LONGEST_QUOTED:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: _LONGEST_QUOTED - 17]}-{digest}"
    return name
