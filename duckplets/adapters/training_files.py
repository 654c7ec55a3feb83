"""Read the mixture of a training configuration: the ``[data]`` table of a TOML file.

It is as KempnerForge has it; ``Mixture.from_toml`` says what it may hold, and makes it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from duckplets.base.documents import read_document
from duckplets.base.sanitize import listed, shown
from duckplets.base.settings import Bounds, check, from_plain
from duckplets.errors import MixtureError, nearest
from duckplets.order.kinds import Factor, Shares, Step, Word

log = logging.getLogger("duckplets")

# What else that framework keeps in [data]: a single dataset, where none are listed, and reading.
_ONE = ("dataset_path", "hf_dataset_name", "hf_dataset_config")
_READING = (
    *("file_pattern", "tokenizer_path", "num_workers", "pin_memory", "prefetch_factor"),
    *("hf_dataset_split", "hf_dataset_text_field", "hf_streaming", "pack_sequences"),
    *("hf_dataset_image_field", "hf_dataset_prompt_field", "hf_image_size"),
)
_ENDING = re.compile(r"\.(npy|bin|parquet|jsonl?|csv|tsv|txt|arrow)(\.(gz|zst))?$", re.IGNORECASE)


def read_mixture(file: Path) -> tuple[Any, ...]:
    """Return weights, temperature, and arguments of phases and an anneal; log what is ignored."""
    content = read_document(file, "TOML", MixtureError)
    try:
        arguments, notes = _of_data(_data_table(content))
    except MixtureError as error:
        raise MixtureError(f"{file}: {error}") from None
    for note in notes:
        log.warning("%s: %s", shown(file), note)
    return arguments


class _Table:
    __slots__ = ()

    def __post_init__(self) -> None:
        check(self, MixtureError)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dataset(_Table):
    name: str = ""
    path: str = ""
    hf_name: str = ""
    hf_config: str = ""
    weight: Annotated[float, Bounds(0)] = 1.0

    @property
    def whole(self) -> str:
        """What a phase may call it by, too."""
        return self.path or self.hf_name

    def source(self) -> str:
        """Return the name of its source: its own, or one from ``path``, else from ``hf_name``."""
        if self.name:
            return self.name
        if self.path:
            name = _ENDING.sub("", re.split(r"[/\\]", self.path.rstrip("/\\"))[-1])
        else:  # as ``hf://hf_name`` with its configuration is ingested
            *org, last = self.hf_name.strip("/").split("/")
            config = self.hf_config if org and self.hf_config != "default" else ""
            kept = [part for part in (*org, last, config) if part]
            name = "--".join(re.sub(r"[^\w.-]", "_", part) for part in kept)[:200]
        if not name or re.search(r"[*?\[]", name):
            why = f"none can be made of {self.whole!r}" if self.whole else "no path or hf_name"
            raise MixtureError(f"no name, and {why}; give the name of a source")
        return name


@dataclass(frozen=True, kw_only=True, slots=True)
class _Phase(_Table):
    start_step: Step = 0
    dataset_weights: Shares = field(default_factory=dict)
    lr_scale: Factor = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Data:
    mix_temperature: Factor = 1.0
    datasets: tuple[_Dataset, ...] = ()
    phases: tuple[_Phase, ...] = ()
    anneal_start_step: Step | None = None
    anneal_weights: Shares = field(default_factory=dict)
    anneal_end_step: Step | None = None
    anneal_lr_scale: Factor | None = None
    mixture: Word | None = None

    def __post_init__(self) -> None:
        check(self, MixtureError, "data")
        if self.mixture and self.datasets:
            raise MixtureError("data: mixture and datasets; give one of the two")


def _data_table(content: Mapping[str, Any]) -> Any:
    """Return ``[data]``; other tables are not ours."""
    known = {part.name for part in fields(_Data)}
    for key in content:
        if key in known:
            raise MixtureError(f"{key} stands outside of [data]; move it there")
    if "data" not in content:
        raise MixtureError(
            "there is no [data] table; write [[data.datasets]] tables with name and weight"
        )
    return content["data"]


def _of_data(table: Any) -> tuple[tuple[Any, ...], list[str]]:
    """Return the arguments of a mixture by ``[data]``, and notes of what has no effect."""
    notes = []
    if isinstance(table, Mapping):
        one = _ONE if table.get("datasets") else ()
        if ignored := [key for key in table if key in _READING or key in one]:
            notes.append(
                f"of [data] these have no effect on a mixture, for text is read when it is "
                f"ingested, a tokenizer is given to shard, and packing to the sampler: "
                f"{', '.join(ignored)}"
            )
        if alone := [key for key in table if key in _ONE and key not in one]:
            raise MixtureError(
                f"data: unknown key {alone[0]!r}; give each dataset as [[data.datasets]], with the "
                f"name of its source"
            )
        table = {key: value for key, value in table.items() if key not in ignored}
    data = from_plain(_Data, table, MixtureError, "data")
    weights: dict[str, float] = {}
    called: dict[str, str] = {}  # names of sources by what else phases may call them
    for i, dataset in enumerate(data.datasets):
        try:
            name = dataset.source()
            if name in weights:
                raise MixtureError(f"a second dataset {name!r}; give each a name of its own")
        except MixtureError as error:
            raise MixtureError(f"data: datasets[{i}]: {error}") from None
        weights[name] = dataset.weight
        called |= {} if dataset.name else {dataset.whole: name}

    def named(given: Mapping[str, float], what: str) -> dict[str, float]:
        """Return weights by the names of sources; any will do where no datasets are listed."""
        found: dict[str, float] = {}
        for name, weight in given.items():
            source = name if name in weights else called.get(name, name)
            if weights and source not in weights:
                raise MixtureError(
                    f"data: {what}: no dataset {name!r}{nearest(name, weights)}; there are: "
                    f"{listed(weights)}"
                )
            if source in found:
                raise MixtureError(f"data: {what}: {source!r} is there twice, also as {name!r}")
            found[source] = weight
        return found

    phases = [
        (
            phase.start_step,
            named(phase.dataset_weights, f"phases[{i}]: dataset_weights"),
            phase.lr_scale,
        )
        for i, phase in enumerate(data.phases)
    ]
    anneal = _anneal(data, named(data.anneal_weights, "anneal_weights"), notes)
    drawn = data.mixture or weights or "proportional"
    return (drawn, data.mix_temperature, phases, anneal), notes


def _anneal(data: _Data, weights: Mapping[str, float], notes: list[str]) -> tuple[Any, ...] | None:
    """Return the arguments of an anneal; step 0 is that framework's way to say there is none."""
    start, end, rate = data.anneal_start_step, data.anneal_end_step, data.anneal_lr_scale
    given = {"anneal_weights": weights, "anneal_end_step": end, "anneal_lr_scale": rate}
    also = [key for key, value in given.items() if value]
    if start == 0 and also:
        notes.append(
            f"anneal_start_step = 0 means no annealing, so without effect: {', '.join(also)}; for "
            f"other weights from the start on write a phase with start_step = 0"
        )
    if start == 0 or (start is None and not also):
        return None
    if not weights:
        there = also[0] if start is None else "anneal_start_step"
        raise MixtureError(f"data: {there} without anneal_weights; give both")
    if start is None:
        raise MixtureError("data: anneal_weights without anneal_start_step; give both")
    return start, weights, end, 1.0 if rate is None else rate
