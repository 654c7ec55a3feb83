"""Open and resume runs over a folder of token shards."""

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
    """Return the settings of a new run; settings of runs over a corpus stay empty."""
    recipe = {"name": "packed" if rows["pack"] else "records", **_checked_rows(rows)}
    options = {name: arguments[name] for name in _OPTIONS}
    others = {name: value for name, value in arguments.items() if name not in options}
    request = RunRequest(kind="texts", **others, options=Options(**options))
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
    """Check the layout of rows."""
    for name in ("pack", "by_bucket"):
        if not isinstance(rows[name], bool):
            raise SamplerError(f"{name}={rows[name]!r}: give True or False")
    if rows["eos"] is not None and not isinstance(rows["eos"], str):
        raise SamplerError(f"eos={rows['eos']!r}: give the name of a token, or None")
    length = integer("seq_length", rows["seq_length"], 1, _LONGEST_ROW)
    return {**rows, "seq_length": length} | ({} if rows["pack"] else {"eos": None})


def rows_of(settings: RunSettings) -> dict[str, Any]:
    """Return the layout of rows: ``seq_length``, ``pack``, ``eos``, ``by_bucket``."""
    rows: dict[str, Any] = next(iter(settings.recipes.values()))[0]
    return rows


def overridden(settings: RunSettings, arguments: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a saved run with changed arguments."""
    check_overrides(arguments, _OVERRIDES)
    options = {name: arguments[name] for name in _OPTIONS if name in arguments}
    others = {name: value for name, value in arguments.items() if name not in options}
    changed = with_overrides(settings, {**others, "options": Options(**options)})
    return replace(changed, columns=_columns(rows_of(changed), changed.remainder))


def _columns(rows: Mapping[str, Any], remainder: str) -> list[str]:
    bucket = ["bucket"] if rows["by_bucket"] else []
    return [*ARRAYS, "source", *bucket, "row", *(["padded"] if remainder == "pad" else [])]


class TokenSampler(Sampler):
    """A run over a folder of token shards: iterate it for batches of NumPy arrays.

    ``TokenShards.sampler`` and ``resume`` return it. Positions, ranks, weights and saving work as
    in ``Sampler``: a row of tokens is a sample, and a batch is a ``TokenBatch``.
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
