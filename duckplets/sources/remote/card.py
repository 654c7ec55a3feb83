"""Parse the card of a data set, the YAML at the top of its README, into what it says of files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.documents import DEFAULT, DocumentLimits, Unreadable, parse
from duckplets.base.sanitize import shown
from duckplets.errors import SourceError

_OPEN = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n")
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
        where: What is begun with in errors.
    """

    configs: tuple[CardConfig, ...] = ()
    where: str = ""
    _facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def labels(self, config: str) -> dict[str, tuple[str, ...]]:
        """Return the names of the classes of a configuration's columns."""
        try:
            return of_card(self._of(config).get("features"))
        except ValueError as error:
            raise SourceError(f"{self.where}: the card in its README.md: {error}") from error

    def rows(self, config: str, split: str | None) -> int | None:
        """Return how many rows a split, or all, should have."""
        splits = _listed(self._of(config).get("splits"))
        counts = [one.get("num_examples") for one in splits if split in (None, one.get("name"))]
        known = [count for count in counts if isinstance(count, int) and 0 <= count < 1 << 63]
        return sum(known) if counts and len(known) == len(counts) else None

    def _of(self, config: str) -> Mapping[str, Any]:
        alone = next(iter(self._facts.values())) if len(self._facts) == 1 else {}
        return self._facts.get(config, alone)


def parse_card(
    readme: str, where: str, limits: DocumentLimits = DEFAULT, *, whole: bool = True
) -> Card:
    """Return what the card in a README says; one without a card says nothing.

    Args:
        readme: Its text, or the beginning of it.
        where: Which data set, for errors.
        limits: How large the card may be.
        whole: Whether it is all of the README.

    Raises:
        SourceError: The card is no YAML, exceeds a limit, or says of files what means nothing.
    """
    front = _FRONT.match(readme)
    if not front and not whole and _OPEN.match(readme):
        raise SourceError(
            f"{where}: the card in its README.md does not end within {limits.max_bytes:,} bytes; "
            f"to read it all the same give limits=DocumentLimits(max_bytes=…)"
        )
    if not front:
        return Card()
    try:
        data = parse(front[1], "YAML")
    except Unreadable as error:
        raise SourceError(
            f"{where}: the card in its README.md is broken YAML: it {error}"
        ) from error
    if not isinstance(data, Mapping):
        return Card()
    facts = {_name(one): one for one in _listed(data.get("dataset_info"))}
    try:
        configs = tuple(_config(one) for one in _listed(data.get("configs")))
    except ValueError as error:
        raise SourceError(f"{where}: the card in its README.md: {error}") from error
    return Card(configs, where, facts)


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
    for part in _several(given, one):
        split, path = "train", part
        if isinstance(part, Mapping):
            split, path = str(part.get("split", "train")), part.get("path")
        patterns = (folder + _pattern(pattern, one) for pattern in _several(path, one))
        splits[split] = splits.get(split, ()) + tuple(patterns)
    return CardConfig(_name(one), one.get("default") is True, splits, folder)


def _several(value: Any, config: Mapping[str, Any]) -> list[Any]:
    """Return the values of a list, of which one may stand alone."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if isinstance(value, list):
        return value
    raise _odd(value, config)


def _pattern(value: Any, config: Mapping[str, Any]) -> str:
    if isinstance(value, Mapping | list | None):
        raise _odd(value, config)
    return str(value).removeprefix("./")


def _odd(value: Any, config: Mapping[str, Any]) -> ValueError:
    return ValueError(
        f"data_files of configuration {_name(config)!r} has {shown(repr(value), 80)} where paths "
        f"are wanted"
    )


def of_card(features: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of the columns a card lists.

    Raises:
        ValueError: They are no list, or by what is no number.
    """
    found: dict[str, tuple[str, ...]] = {}
    for feature in features if isinstance(features, Sequence) else ():
        if not isinstance(feature, Mapping):
            continue
        kind = feature.get("dtype")
        for inner in ("sequence", "list"):
            kind = feature.get(inner) if kind is None else kind
        while isinstance(kind, Mapping) and "dtype" in kind:
            kind = kind["dtype"]
        if isinstance(kind, Mapping) and isinstance(kind.get("class_label"), Mapping):
            names = kind["class_label"].get("names") or []
            if isinstance(names, Mapping):
                names = [names[key] for key in sorted(names, key=lambda key: int(str(key)))]
            if not isinstance(names, list):
                raise ValueError(f"names of a class_label are {shown(repr(names), 80)}, no list")
            found[str(feature.get("name"))] = tuple(map(str, names))
    return {name: names for name, names in found.items() if names}
