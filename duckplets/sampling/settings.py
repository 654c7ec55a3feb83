"""Check the arguments of a sampler and keep what its order and batches follow from.

A saved run keeps its settings as they are, so that resuming resolves nothing anew and fields that
recipes or mixtures gain later alter no fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from duckplets.base.checks import integer
from duckplets.errors import SamplerError, nearest
from duckplets.order.permute import ORDER_VERSION
from duckplets.order.ranks import RankPart
from duckplets.sampling import state
from duckplets.sampling.plan import SINGLE

Kind = Literal["triplets", "pairs", "texts", "messages"]
Remainder = Literal["keep", "drop", "pad"]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything a run's order and batches follow from, as plain values.

    Attributes:
        kind: ``triplets``, ``pairs``, ``texts`` or ``messages``.
        split: Every text of the run is of this split.
        recipes: Definitions of the recipes of every source.
        optional: Names of those of them, by source, that are left out if they find no anchor.
        sources: Names of all sources of the pinned version.
        mixture: Weights of the sources and how they change; see ``Mixture.to_dict``.
        batch_size: Samples a batch of each rank.
        seed: Another seed gives another order.
        steps: Number of batches, or None.
        epochs: Number of nominal epochs, or None.
        remainder: What becomes of a last batch that is not full.
        no_duplicates: Whether no text may come twice in a batch.
        negatives: How many a triplet has.
        swap: Whether anchor and positive change places half of the time.
        columns: Columns of a batch.
        prefetch: Blocks to prepare in the background.
        rank: Which of the ranks this is, from 0.
        world_size: Number of ranks.
        log: Folder to write the ids of what is served to, or None.
        run: Name of the run.
        corpus_version: Version it is pinned to.
        records: Fingerprint of the records of that version.
        splits: Settings of the splits.
        chunking: Fingerprint of the chunks.
        candidates: By source and recipe the mining it draws from: ``mining``, its number, and
            ``digest``. Only of recipes whose negatives are mined.
        prefixes: Whether texts have the metadata prefixes of the corpus.
        declared_prefixes: What identifies those of the pinned version: of ``sources`` the
            definitions, of ``records`` their number and lengths. Empty if there are none.
    """

    kind: Kind
    split: str
    recipes: dict[str, list[dict[str, Any]]]
    optional: dict[str, list[str]]
    sources: list[str]
    mixture: dict[str, Any]
    batch_size: int
    seed: int
    steps: int | None
    epochs: int | None
    remainder: Remainder
    no_duplicates: bool
    negatives: int
    swap: bool
    columns: list[str]
    prefetch: int
    rank: int
    world_size: int
    log: str | None
    run: str
    corpus_version: int
    records: list[int]
    splits: dict[str, Any]
    chunking: dict[str, Any]
    candidates: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    prefixes: bool = True
    declared_prefixes: dict[str, Any] = field(default_factory=dict)

    def fingerprint(self) -> state.Fingerprint:
        """Return what must agree for a position to mean the same sample.

        ``batch_size`` is that of all ranks together: so many ranks may share it as divide it.
        """
        same = ("kind", "split", "seed", "negatives", "swap", "no_duplicates")
        found: dict[str, Any] = {name: getattr(self, name) for name in same}
        found["batch_size"] = self.global_batch
        if self.no_duplicates:  # the stretch that the last epoch ends in is arranged up to there
            found["bounds"] = [self.epochs, self.remainder]
        found["corpus_version"] = self.corpus_version
        found["order_version"] = ORDER_VERSION
        for name in ("recipes", "mixture", "records", "splits", "chunking"):
            found[name] = state.digest(getattr(self, name))
        if self.candidates:
            found["candidates"] = state.digest(
                {
                    source: {recipe: named["digest"] for recipe, named in recipes.items()}
                    for source, recipes in self.candidates.items()
                }
            )
        if self.prefixed:
            found["prefixes"] = state.digest(self.declared_prefixes)
        return found

    @property
    def prefixed(self) -> bool:
        """Whether some text may have a prefix."""
        return self.prefixes and bool(self.declared_prefixes) and self.kind != "messages"

    @property
    def global_batch(self) -> int:
        """Samples of a batch of all ranks."""
        return self.batch_size * self.world_size

    def rank_part(self) -> RankPart:
        """Return what this rank takes."""
        return RankPart(self.batch_size, self.rank, self.world_size)

    def padded_from(self, epoch_length: int) -> int | None:
        """Return the position from which samples only fill up the last batch."""
        padded = self.remainder == "pad" and self.epochs is not None
        return epoch_length * (self.epochs or 0) if padded else None

    def end(self, epoch_length: int) -> int | None:
        """Return the position a bounded run ends at; None if it is endless."""
        ends = []
        if self.steps is not None:
            ends.append(self.steps * self.global_batch)
        if self.epochs is not None:
            end = self.epochs * epoch_length
            if self.remainder == "drop":
                end = end // self.global_batch * self.global_batch
            elif self.remainder == "pad":
                end = -(-end // self.global_batch) * self.global_batch
            ends.append(end)
        return min(ends, default=None)


def checked_arguments(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a sampler with plain integers, if all of them are right.

    Raises:
        SamplerError: One is not.
    """
    if kind not in get_args(Kind):
        raise SamplerError(
            f"kind={kind!r}{nearest(str(kind), get_args(Kind))}: give one of "
            f"{', '.join(get_args(Kind))}"
        )
    least = {"batch_size": 1, "negatives": 1, "prefetch": 0, "steps": 0, "epochs": 0, "seed": None}
    plain = {
        name: integer(name, arguments[name], low)
        for name, low in least.items()
        if arguments[name] is not None or name not in ("steps", "epochs")
    }
    plain |= checked_ranks(arguments["rank"], arguments["world_size"])
    if arguments["remainder"] not in get_args(Remainder):
        raise SamplerError(
            f"remainder={arguments['remainder']!r}: give one of {', '.join(get_args(Remainder))}"
        )
    if kind in SINGLE and arguments["negatives"] != 1:
        raise SamplerError(f"negatives: {kind} have none; leave it at 1")
    if not isinstance(arguments.get("prefixes", True), bool):
        raise SamplerError(f"prefixes={arguments['prefixes']!r}: give True or False")
    run = arguments["run"]
    if not isinstance(run, str) or not run.strip() or not run.isprintable():
        raise SamplerError(f"run={run!r}: give a printable name")
    log = arguments["log"]
    if log is not None and not (isinstance(log, str | Path) and str(log)):
        raise SamplerError(f"log={log!r}: give the path of a folder")
    return dict(arguments) | plain | {"log": None if log is None else str(log)}


def checked_ranks(rank: Any, world_size: Any) -> dict[str, int]:
    """Return the two as plain integers, if there is such a rank."""
    world_size, rank = integer("world_size", world_size, 1), integer("rank", rank, 0)
    if rank >= world_size:
        raise SamplerError(
            f"rank={rank}: with world_size={world_size} give one from 0 to {world_size - 1}"
        )
    return {"rank": rank, "world_size": world_size}
