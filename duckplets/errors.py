"""Every error a user can meet.

    DuckpletsError
    ├── SourceError         a source cannot be read, or its rows contradict what is stored
    ├── RecipeError         a recipe, a condition or a recipes file is wrong
    ├── ChunkingError       chunking settings, a tokenizer file
    ├── SplitError          split ratios, missing splits
    ├── MixtureError        weights of sources
    ├── SamplerError        an argument of a sampler
    ├── EmptyPoolError      no anchor is left to draw from
    ├── StateMismatchError  a saved run does not fit what it is opened with
    ├── MigrationError      a file of another schema, or not ours at all
    ├── CorpusLockedError   another process writes the file
    ├── ExtensionError      a DuckDB extension or an optional package is missing
    └── QueryError          a statement DuckDB refused

Those about a wrong argument are ``ValueError`` as well. A message says what is wrong, which
value, and what would be right or which command to run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ChunkingError",
    "CorpusLockedError",
    "DuckpletsError",
    "EmptyPoolError",
    "ExtensionError",
    "MigrationError",
    "MixtureError",
    "QueryError",
    "RecipeError",
    "SamplerError",
    "SourceError",
    "SplitError",
    "StateMismatchError",
    "nearest",
]


class DuckpletsError(Exception):
    """The root: catching it catches everything this package raises on purpose."""


class SourceError(DuckpletsError, ValueError):
    """A source cannot be read, or its rows contradict what is stored."""


class RecipeError(DuckpletsError, ValueError):
    """A recipe, one of its conditions, or a recipes file is wrong."""


class ChunkingError(DuckpletsError, ValueError):
    """Chunking settings or a tokenizer file are wrong."""


class SplitError(DuckpletsError, ValueError):
    """Split ratios are wrong, or splits are missing."""


class MixtureError(DuckpletsError, ValueError):
    """Weights of sources are wrong."""


class SamplerError(DuckpletsError, ValueError):
    """An argument of a sampler is wrong."""


class EmptyPoolError(DuckpletsError):
    """A recipe finds no anchor it can draw a sample for."""


class StateMismatchError(DuckpletsError):
    """A saved run does not fit the corpus or the settings it is opened with."""


class MigrationError(DuckpletsError):
    """A file has another schema, or is not a file of ours."""


class CorpusLockedError(DuckpletsError):
    """Another process has the file open for writing."""


class ExtensionError(DuckpletsError):
    """A DuckDB extension, or a package that an extra installs, is missing."""


class QueryError(DuckpletsError):
    """A statement that DuckDB refused."""


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the closest of ``right``, or nothing."""
    names = {name.casefold(): name for name in right}
    close = difflib.get_close_matches(wrong.casefold(), names, n=1)
    return f" (did you mean {names[close[0]]!r}?)" if close else ""
