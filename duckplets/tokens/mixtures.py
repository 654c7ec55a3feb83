"""Write a mixture next to shards: phases, with the weight and shards of each source."""

# The phases are for other programs. This package reads the stored mixture.

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from duckplets.errors import MixtureError, ShardError
from duckplets.order.mixture import Anneal, Mixture, Phase
from duckplets.tokens.documents import read_document, write_document
from duckplets.tokens.manifest import MIXTURES, ShardManifest

_KIND = "duckplets mixtures"


def write_mixtures(folder: Path, manifest: ShardManifest, mixture: Mixture | None = None) -> None:
    """Write the mixture of a folder; ``"proportional"`` counts tokens in the first split."""
    split = manifest.splits[0]
    sources: dict[str, dict[str, Any]] = {}
    for shard in manifest.shards:
        if shard.split == split:
            facts = sources.setdefault(shard.source, {"shards": [], "records": 0, "tokens": 0})
            facts["shards"].append(shard.shard_id)
            facts["records"] += shard.records
            facts["tokens"] += shard.tokens
    mixture = mixture or Mixture()
    if isinstance(mixture.weights, str):
        is_equal = mixture.weights == "equal"
        weights = {n: 1.0 if is_equal else float(facts["tokens"]) for n, facts in sources.items()}
        mixture = replace(mixture, weights=weights)
    mixture.check(list(sources))
    values = {"split": split, "mixture": mixture.to_dict(), "phases": _phases(mixture, sources)}
    write_document(folder / MIXTURES, _KIND, values | {"sources": sources})


def _phases(mixture: Mixture, sources: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first step, weights by source and learning rate factor of every phase."""
    names = list(sources)
    changes: list[Phase | Anneal] = [*mixture.phases]
    if mixture.anneal is not None:
        changes.append(mixture.anneal)
    found: list[dict[str, Any]] = []
    if not changes or changes[0].start_step > 0:
        found.append({"start_step": 0, "lr_scale": 1.0, "weights": mixture.declared(names)})
    for change in changes:
        phase = {
            "start_step": change.start_step,
            "lr_scale": change.lr_scale,
            "weights": mixture.changed(names, change.weights),
        }
        end = getattr(change, "end_step", None)
        found.append(phase | ({"reached_at_step": end} if end is not None else {}))
    for number, phase in enumerate(found, 1):
        is_last = number == len(found) > 1
        phase["name"] = "final" if is_last else f"phase_{number}"
        phase["temperature"] = mixture.temperature
    return found


def load_mixture(path: str | Path) -> Mixture:
    """Return the mixture of a folder of shards, or of a ``mixtures.json``.

    Raises:
        MixtureError: It is missing or damaged.
    """
    file = Path(path) / MIXTURES if Path(path).is_dir() else Path(path)
    try:
        stored = read_document(file, _KIND)
    except ShardError as error:
        raise MixtureError(str(error)) from error
    if stored is None:
        raise MixtureError(f"{file}: there is no such file; give another path")
    return Mixture.from_dict(stored["mixture"])
