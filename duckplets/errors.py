"""Every error a user can meet.

    DuckpletsError
    ├── SourceError         a source cannot be read, or its rows contradict the stored ones
    │   └── PassingError    a source cannot be read now; try again later
    ├── RecipeError         a recipe, a condition or a recipes file is wrong
    ├── ChunkingError       chunking settings or a tokenizer file are wrong
    ├── SplitError          split ratios are wrong, or splits are missing
    ├── MixtureError        weights of sources are wrong
    ├── QualityError        quality settings, a word file, a gate or a detector are wrong
    ├── SamplerError        an argument of a sampler or an export is wrong
    ├── VectorError         a set of vectors, or a value to store in it, is wrong
    ├── ShardError          token shards, their folder, or an argument is wrong
    ├── EngineError         an engine or its cluster is wrong, or a task fails on its workers
    ├── EmptyPoolError      a recipe finds no anchor
    ├── StateMismatchError  a saved run does not fit the corpus or the settings
    ├── MigrationError      a file has another schema, or is not a duckplets file
    │   └── MissingFileError  a corpus or state file does not exist
    ├── DamagedFileError    a corpus or state file is damaged
    ├── ChangedFileError    a Parquet file with texts in place has changed
    ├── CorpusLockedError   another process writes the file
    ├── ReadOnlyError       a corpus opened with read_only=True cannot be changed
    ├── ExtensionError      a DuckDB extension or an optional package is missing
    └── QueryError          DuckDB refused a statement
        └── DeadlineError   a statement took too long and was stopped

Errors about a wrong argument are also ``ValueError``, and ``MissingFileError`` is also a
``FileNotFoundError``. A message gives the problem, the value, and the correct value or the command
to run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from duckplets.base.sanitize import harmless

__all__ = [
    "ChangedFileError",
    "ChunkingError",
    "CorpusLockedError",
    "DamagedFileError",
    "DeadlineError",
    "DuckpletsError",
    "EmptyPoolError",
    "EngineError",
    "ExtensionError",
    "MigrationError",
    "MissingFileError",
    "MixtureError",
    "PassingError",
    "QualityError",
    "QueryError",
    "ReadOnlyError",
    "RecipeError",
    "SamplerError",
    "ShardError",
    "SourceError",
    "SplitError",
    "StateMismatchError",
    "VectorError",
    "nearest",
    "several",
]

_LISTED = 10  # problems listed before "and N more"


class DuckpletsError(Exception):
    """Base class of every error this package raises on purpose.

    Args:
        message: The text for the user. Control characters are escaped and long quoted values cut
            here, so callers only format values with ``{value!r}``.
    """

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


class SourceError(DuckpletsError, ValueError):
    """A source cannot be read, or its rows contradict the stored ones."""


class PassingError(SourceError):
    """A source cannot be read now, and may be readable later.

    Your own source may raise it too. ``Corpus.ingest`` then waits, reopens the source at its last
    cursor and tries again, up to ``retries`` times.
    """


class RecipeError(DuckpletsError, ValueError):
    """A recipe, one of its conditions, or a recipes file is wrong."""


class ChunkingError(DuckpletsError, ValueError):
    """Chunking settings or a tokenizer file are wrong."""


class SplitError(DuckpletsError, ValueError):
    """Split ratios are wrong, or splits are missing."""


class MixtureError(DuckpletsError, ValueError):
    """Weights of sources are wrong."""


class QualityError(DuckpletsError, ValueError):
    """Quality settings, a word file, a gate or a detector are wrong."""


class SamplerError(DuckpletsError, ValueError):
    """An argument of a sampler is wrong."""


class VectorError(DuckpletsError, ValueError):
    """A vector set is missing or of another model, or a value to store in it is wrong."""


class ShardError(DuckpletsError, ValueError):
    """Token shards are missing or of another run, or an argument about them is wrong."""


class EngineError(DuckpletsError, ValueError):
    """An engine is invalid or unreachable, or a task fails on its workers."""


class EmptyPoolError(DuckpletsError):
    """A recipe finds no anchor for a sample."""


class StateMismatchError(DuckpletsError):
    """A saved run does not fit the corpus or the settings it is opened with."""


class MigrationError(DuckpletsError):
    """A file has another schema, or is not a duckplets file."""


class MissingFileError(MigrationError, FileNotFoundError):
    """A corpus or state file, or its folder, does not exist."""


class DamagedFileError(DuckpletsError):
    """A corpus or state file is damaged."""


class ChangedFileError(DuckpletsError):
    """A Parquet file with texts in place has changed, or does not exist."""


class CorpusLockedError(DuckpletsError):
    """Another process has the file open for writing."""


class ReadOnlyError(DuckpletsError):
    """A corpus opened with ``read_only=True`` cannot be changed."""


class ExtensionError(DuckpletsError):
    """A DuckDB extension, or a package that an extra installs, is missing."""


class QueryError(DuckpletsError):
    """DuckDB refused a statement."""


class DeadlineError(QueryError):
    """A statement over a pool took longer than ``statement_timeout`` and was stopped."""


def several(problems: Sequence[str]) -> str:
    """Return problems one per line: the first ten, and the number of others."""
    more = len(problems) - _LISTED
    rest = [f"… and {more:,} more mistakes"] if more > 0 else []
    return "\n".join([*problems[:_LISTED], *rest])


# Names of the triplets crate, without underscores, and their names here.
_OF_THE_CRATE = {
    "wrongarticle": "other_record",
    "wrongpublicationdate": "other_date",
    "questionanswermismatch": "question_answer_mismatch",
    "paragraph": "position",
    "random": "any_section",
    "temporaloffset": "near_date",
}


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the closest of ``right``, or nothing."""
    if len(wrong) > 200:
        return ""  # a longer word is no typing error, and comparing takes quadratic time
    names = {name.casefold(): name for name in right if name != wrong}
    ours = _OF_THE_CRATE.get(wrong.casefold().replace("_", ""), "")
    if ours in names:
        return f" (did you mean {names[ours]!r}, as the crate's {wrong} is called here?)"
    close = difflib.get_close_matches(wrong.casefold(), names, n=1)
    return f" (did you mean {names[close[0]]!r}?)" if close else ""
