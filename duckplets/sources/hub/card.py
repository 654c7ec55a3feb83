"""Parse the card of a data set, the YAML at the top of its README, into what it says of files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duckplets.errors import SourceError
from duckplets.sources.hub.download import imported
from duckplets.sources.labels import Labels, of_card

_FRONT = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CardConfig:
    """A configuration that a card describes.

    Attributes:
        name: Of the configuration.
        is_default: Whether it is the one meant where none is named.
        splits: The patterns of each split's files; nothing where the card leaves that to names.
        folder: Where its files lie, ending with ``/``; nothing for anywhere.
    """

    name: str
    is_default: bool
    splits: dict[str, tuple[str, ...]]
    folder: str


@dataclass(frozen=True, slots=True)
class Card:
    """What a card says about files and columns.

    Attributes:
        configs: Its configurations, none where it names none.
    """

    configs: tuple[CardConfig, ...] = ()
    _facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def labels(self, config: str) -> Labels:
        """Return the names of the classes of a configuration's columns."""
        return of_card(self._of(config).get("features"))

    def rows(self, config: str, split: str | None) -> int | None:
        """Return how many rows a split, or all, should have."""
        splits = _listed(self._of(config).get("splits"))
        counts = [one.get("num_examples") for one in splits if split in (None, one.get("name"))]
        known = [count for count in counts if isinstance(count, int)]
        return sum(known) if counts and len(known) == len(counts) else None

    def _of(self, config: str) -> Mapping[str, Any]:
        alone = next(iter(self._facts.values())) if len(self._facts) == 1 else {}
        return self._facts.get(config, alone)


def parse_card(readme: str, where: str) -> Card:
    """Return what the card in a README says; one without a card says nothing.

    Raises:
        SourceError: The card is no YAML.
    """
    front = _FRONT.match(readme)
    if not front:
        return Card()
    yaml = imported("yaml")
    try:
        data = yaml.safe_load(front[1])
    except yaml.YAMLError as error:
        raise SourceError(f"{where}: the card in its README.md is broken YAML") from error
    if not isinstance(data, Mapping):
        return Card()
    facts = {_name(one): one for one in _listed(data.get("dataset_info"))}
    return Card(tuple(_config(one) for one in _listed(data.get("configs"))), facts)


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list that may be anything, or be one mapping without a list."""
    values = [value] if isinstance(value, Mapping) else value
    return [one for one in values if isinstance(one, Mapping)] if isinstance(values, list) else []


def _name(config: Mapping[str, Any]) -> str:
    return str(config.get("config_name", "default"))


def _config(one: Mapping[str, Any]) -> CardConfig:
    folder = str(one.get("data_dir") or "").strip("/").removeprefix("./")
    folder = f"{folder}/" if folder else ""
    splits: dict[str, tuple[str, ...]] = {}
    given = one.get("data_files")
    if isinstance(given, Mapping):
        given = [{"split": split, "path": path} for split, path in given.items()]
    for part in [given] if isinstance(given, str) else given or ():
        split, path = "train", part
        if isinstance(part, Mapping):
            split, path = str(part.get("split", "train")), part.get("path")
        paths = [path] if isinstance(path, str) else path or ()
        patterns = tuple(folder + str(pattern).removeprefix("./") for pattern in paths)
        splits[split] = splits.get(split, ()) + patterns
    return CardConfig(_name(one), one.get("default") is True, splits, folder)
