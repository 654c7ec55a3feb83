"""Every error a user can meet.

    DuckpletsError
    ├── SourceError         a source cannot be read, or its rows contradict what is stored
    │   └── PassingError    a source cannot be read at the moment, and perhaps later
    ├── RecipeError         a recipe, a condition or a recipes file is wrong
    ├── ChunkingError       chunking settings, a tokenizer file
    ├── SplitError          split ratios, missing splits
    ├── MixtureError        weights of sources
    ├── QualityError        settings of quality, a word file, a gate or a detector is wrong
    ├── SamplerError        an argument of a sampler
    ├── VectorError         a set of vectors, or what is to go into one
    ├── ShardError          token shards, their folder, or an argument about them
    ├── EngineError         an engine, its cluster, or a part that fails on its workers
    ├── EmptyPoolError      no anchor is left to draw from
    ├── StateMismatchError  a saved run does not fit what it is opened with
    ├── MigrationError      a file of another schema, or not ours at all
    │   └── MissingFileError  a corpus or state file that is not there
    ├── DamagedFileError    something in a corpus or state file is not as it was written
    ├── ChangedFileError    a Parquet file that texts were left in is not as it was
    ├── CorpusLockedError   another process writes the file
    ├── ReadOnlyError       a corpus that was opened to read is to be changed
    ├── ExtensionError      a DuckDB extension or an optional package is missing
    └── QueryError          a statement DuckDB refused
        └── DeadlineError   a statement that took too long was stopped

Those about a wrong argument are ``ValueError`` as well, and the one about a file that is not there
is a ``FileNotFoundError``. A message says what is wrong, which value, and what would be right or
which command to run.
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

_SAID = 10  # problems listed before "and N more"


class DuckpletsError(Exception):
    """Base class of every error this package raises on purpose.

    Args:
        message: What the user reads. Control characters in it are escaped and long quoted values
            cut here, so callers format values with ``{value!r}`` and nothing more.
    """

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


class SourceError(DuckpletsError, ValueError):
    """A source cannot be read, or its rows contradict what is stored."""


class PassingError(SourceError):
    """A source cannot be read at the moment, and perhaps later.

    A source of your own may raise it too: ``Corpus.ingest`` then waits, reopens the source at its
    last mark and tries again, up to ``retries`` times.
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
    """Settings of quality, a word file, a gate or a detector is wrong."""


class SamplerError(DuckpletsError, ValueError):
    """An argument of a sampler is wrong."""


class VectorError(DuckpletsError, ValueError):
    """A vector set is missing or of another model, or a value to store in it is wrong."""


class ShardError(DuckpletsError, ValueError):
    """Token shards are missing or of another run, or an argument about them is wrong."""


class EngineError(DuckpletsError, ValueError):
    """An engine is invalid or unreachable, or a task fails on its workers."""


class EmptyPoolError(DuckpletsError):
    """A recipe finds no anchor it can draw a sample for."""


class StateMismatchError(DuckpletsError):
    """A saved run does not fit the corpus or the settings it is opened with."""


class MigrationError(DuckpletsError):
    """A file has another schema, or is not a file of ours."""


class MissingFileError(MigrationError, FileNotFoundError):
    """A corpus or state file, or the folder of one, is not there."""


class DamagedFileError(DuckpletsError):
    """Something in a corpus or state file is not as it was written."""


class ChangedFileError(DuckpletsError):
    """A Parquet file whose texts stay in place has changed, or is gone."""


class CorpusLockedError(DuckpletsError):
    """Another process has the file open for writing."""


class ReadOnlyError(DuckpletsError):
    """A corpus opened with ``read_only=True`` would have to be changed."""


class ExtensionError(DuckpletsError):
    """A DuckDB extension, or a package that an extra installs, is missing."""


class QueryError(DuckpletsError):
    """A statement that DuckDB refused."""


class DeadlineError(QueryError):
    """A statement over a pool took longer than ``statement_timeout`` and was stopped."""


def several(problems: Sequence[str]) -> str:
    """Return problems one per line: the first ten, and how many more there are."""
    more = len(problems) - _SAID
    rest = [f"… and {more:,} more mistakes"] if more > 0 else []
    return "\n".join([*problems[:_SAID], *rest])


# Names of the triplets crate, without underscores, and ours.
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
        return ""  # longer words are no typing error, and comparing is quadratic in length
    names = {name.casefold(): name for name in right if name != wrong}
    ours = _OF_THE_CRATE.get(wrong.casefold().replace("_", ""), "")
    if ours in names:
        return f" (did you mean {names[ours]!r}, as the crate's {wrong} is called here?)"
    close = difflib.get_close_matches(wrong.casefold(), names, n=1)
    return f" (did you mean {names[close[0]]!r}?)" if close else ""
