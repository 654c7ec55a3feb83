"""Runs over a folder of token shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duckplets.base.checks import integer
from duckplets.errors import SamplerError
from duckplets.order.mixture import Mixture
from duckplets.runs.request import Options, RunRequest
from duckplets.runs.sampler import Sampler
from duckplets.runs.settings import RunSettings, check_overrides
from duckplets.runs.settings import overridden as with_overrides
from duckplets.tokens.batches import ARRAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckplets.tokens.batches import TokenBatch

_OVERRIDES = (  # arguments that may change when a run is resumed
    *("mixture", "batch_size", "steps", "epochs", "rank", "world_size", "remainder", "prefetch"),
    *("memory_mb", "seed", "split"),
)
_OPTIONS = ("remainder", "prefetch", "memory_mb")
_LONGEST_ROW = 1 << 20  # tokens


def new_settings(
    arguments: Mapping[str, Any],
    rows: Mapping[str, Any],
    *,
    sources: Sequence[str],
    mixture: Mixture,
    shards: str,
    version: int,
) -> RunSettings:
    """Return the settings of a new run; those of runs over a corpus stay empty."""
    recipe = {"name": "packed" if rows["pack"] else "records", **_checked_rows(rows)}
    options = {name: arguments[name] for name in _OPTIONS}
    own = {name: value for name, value in arguments.items() if name not in options}
    request = RunRequest(kind="texts", **own, options=Options(**options))
    return RunSettings(
        **{**request.settings(), "kind": "tokens"},
        recipes={source: [recipe] for source in sources},
        optional={},
        sources=list(sources),
        mixture=mixture,
        columns=_columns(rows, arguments["remainder"]),
        corpus_version=version,
        records=[],
        splits=None,
        chunking={},
        shards=shards,
    )


def _checked_rows(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Check how texts become rows."""
    for name in ("pack", "by_bucket"):
        if not isinstance(rows[name], bool):
            raise SamplerError(f"{name}={rows[name]!r}: give True or False")
    if rows["eos"] is not None and not isinstance(rows["eos"], str):
        raise SamplerError(f"eos={rows['eos']!r}: give the name of a token, or None for none")
    length = integer("seq_length", rows["seq_length"], 1, _LONGEST_ROW)
    return {**rows, "seq_length": length} | ({} if rows["pack"] else {"eos": None})


def rows_of(settings: RunSettings) -> dict[str, Any]:
    """Return how texts become rows: ``seq_length``, ``pack``, ``eos``, ``by_bucket``."""
    rows: dict[str, Any] = next(iter(settings.recipes.values()))[0]
    return rows


def overridden(settings: RunSettings, given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a saved run with changed arguments."""
    check_overrides(given, _OVERRIDES)
    options = {name: given[name] for name in _OPTIONS if name in given}
    given = {name: value for name, value in given.items() if name not in options}
    made = with_overrides(settings, {**given, "options": Options(**options)})
    return replace(made, columns=_columns(rows_of(made), made.remainder))


def _columns(rows: Mapping[str, Any], remainder: str) -> list[str]:
    """Return the columns of a batch."""
    bucket = ["bucket"] if rows["by_bucket"] else []
    return [*ARRAYS, "source", *bucket, "row", *(["padded"] if remainder == "pad" else [])]


class TokenSampler(Sampler):
    """A run over a folder of token shards: iterate it for batches of NumPy arrays.

    Made by ``TokenShards.sampler`` and ``resume``. All that a ``Sampler`` says of positions,
    ranks, weights and saving holds: a row of tokens is its sample, and a batch a ``TokenBatch``.
    """

    if TYPE_CHECKING:  # only the type of a batch differs

        def __next__(self) -> TokenBatch: ...

        def __iter__(self) -> Iterator[TokenBatch]: ...

        def batch_at(self, step: int) -> TokenBatch:
            """Return the batch of any step."""
            ...

        def peek(self, steps: int) -> Iterator[TokenBatch]:
            """Yield the batches of the next steps."""
            ...
