"""Serve the rows of a folder of token shards by the rules of every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from duckplets.base.checks import integer
from duckplets.errors import SamplerError, nearest
from duckplets.order.permute import ORDER_VERSION
from duckplets.order.ranks import batch_size_of
from duckplets.runs.fingerprint import Fingerprint, digest
from duckplets.runs.sampler import Sampler
from duckplets.runs.settings import RunSettings, checked_arguments, checked_ranks
from duckplets.tokens.batches import ARRAYS, TokenBatch

_OVERRIDES = (  # arguments that may be given anew where a run is resumed
    *("mixture", "batch_size", "steps", "epochs", "rank", "world_size", "remainder", "prefetch"),
    *("seed", "split"),
)
_LONGEST_ROW = 1 << 20  # tokens
# What runs over a corpus have besides: rows of tokens are neither texts nor pairs.
_FIXED: Mapping[str, Any] = {"no_duplicates": False, "negatives": 1, "swap": False}


@dataclass(frozen=True, kw_only=True)
class TokenSettings(RunSettings):
    """What the order and the batches of a run over token shards follow from.

    Attributes:
        folder: Of the shards: ``name``, and the ``fingerprint`` of the manifest.
    """

    folder: dict[str, Any] = field(default_factory=dict)

    def fingerprint(self) -> Fingerprint:
        """Return what must agree for a position to mean the same row."""
        found: Fingerprint = {
            name: getattr(self, name) for name in ("kind", "split", "seed", "corpus_version")
        }
        found |= {"batch_size": self.global_batch, "order_version": ORDER_VERSION}
        found["shards"] = self.folder["fingerprint"][:12]
        return found | {name: digest(getattr(self, name)) for name in ("recipes", "mixture")}

    @property
    def rows(self) -> dict[str, Any]:
        """How sources become rows: ``seq_length``, ``pack``, ``eos``, ``by_bucket``."""
        return next(iter(self.recipes.values()))[0]


def new_settings(
    arguments: Mapping[str, Any],
    rows: Mapping[str, Any],
    *,
    sources: Sequence[str],
    mixture: Mapping[str, Any],
    folder: Mapping[str, Any],
    version: int,
) -> TokenSettings:
    """Return the settings of a new run.

    Args:
        arguments: Of the sampler, those that every run has.
        rows: How sources become rows.
        sources: Names of those of the split.
        mixture: As plain values.
        folder: Name and fingerprint of the folder.
        version: Of the corpus that its shards were made from.

    Raises:
        SamplerError: One is wrong.
    """
    recipe = {"name": "packed" if rows["pack"] else "records", **checked_rows(rows)}
    columns = [*ARRAYS, "source", *(["bucket"] if rows["by_bucket"] else []), "row"]
    columns += ["padded"] if arguments["remainder"] == "pad" else []
    return TokenSettings(
        **checked_arguments("texts", {**arguments, **_FIXED}),
        kind="tokens",
        recipes={source: [recipe] for source in sources},
        optional={},
        sources=list(sources),
        mixture=dict(mixture),
        columns=columns,
        corpus_version=version,
        records=[],
        splits={},
        chunking={},
        folder=dict(folder),
    )


def checked_rows(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return how sources become rows, if that is right.

    Raises:
        SamplerError: It is not.
    """
    for name in ("pack", "by_bucket"):
        if not isinstance(rows[name], bool):
            raise SamplerError(f"{name}={rows[name]!r}: give True or False")
    if rows["eos"] is not None and not isinstance(rows["eos"], str):
        raise SamplerError(f"eos={rows['eos']!r}: give the name of a token, or None for none")
    length = integer("seq_length", rows["seq_length"], 1, _LONGEST_ROW)
    return {**rows, "seq_length": length} | ({} if rows["pack"] else {"eos": None})


def overridden(settings: TokenSettings, given: Mapping[str, Any]) -> TokenSettings:
    """Return the settings of a saved run with arguments that are given anew.

    Raises:
        SamplerError: One is wrong.
    """
    for name in given:
        if name not in _OVERRIDES:
            raise SamplerError(f"resume: no argument {name!r}{nearest(name, _OVERRIDES)}")
    made = replace(settings, **given)
    if "world_size" in given and "batch_size" not in given:
        checked_ranks(made.rank, made.world_size)
        made = replace(made, batch_size=batch_size_of(settings.global_batch, made.world_size))
    plain = checked_arguments("texts", {**vars(made), "by": None})
    return replace(made, **{**plain, "kind": settings.kind})


class TokenSampler(Sampler):
    """A run over a folder of token shards: iterate it for batches of NumPy arrays.

    Made by ``TokenShards.sampler`` and ``resume``. All that a ``Sampler`` says of positions,
    ranks, weights and saving holds: a row of tokens is its sample.
    """

    def __next__(self) -> TokenBatch:
        return cast(TokenBatch, super().__next__())

    def __iter__(self) -> Iterator[TokenBatch]:
        return self

    def batch_at(self, step: int) -> TokenBatch:
        """Return the batch of any step, past or future; the position stays.

        Raises:
            SamplerError: A bounded run has no such step.
        """
        return cast(TokenBatch, super().batch_at(step))

    def peek(self, steps: int) -> Iterator[TokenBatch]:
        """Yield the batches of the next steps, read block by block; the position stays."""
        return cast(Iterator[TokenBatch], super().peek(steps))
