"""Choose the files of a repository that form a configuration and a split.

If the card, the YAML at the top of the README, lists ``configs`` with ``data_files``, it decides.
Otherwise names do:

    data/train-00000-of-00003.parquet   train/shard-00001.parquet   train.jsonl
    config/train-00000-of-00003.parquet   config/train/shard-00001.parquet

A single-file table is requested by its exact stem. A name without a match is an error that lists
the names there are; no other file is read instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.documents import LARGEST, Unreadable, parse
from duckplets.base.formats import OF_SUFFIX, READERS, TEXT
from duckplets.base.sanitize import counted, listed, shown
from duckplets.errors import SourceError, nearest
from duckplets.sources.remote.grammar import HubUri
from duckplets.sources.remote.stores import Remote, matching, suffix_of

_NO_DATA = {
    *("dataset_info.json", "dataset_infos.json"),
    *("config.json", "dataset_dict.json", "state.json"),
}
_PAPERS = (
    *(".md", ".py", ".ipynb", ".yaml", ".yml", "license", "license.txt"),
    *(".png", ".svg", ".bib"),
)
_GENERIC = re.compile(r"(shard|part|data|file|chunk)?[-_.]?\d*")
_COUNTED = re.compile(r"[-_.]\d+([-_.]of[-_.]\d+)?.*")


_Parted = tuple[list[Remote], list[Remote]]  # files that are read, and others


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of a data set, in reading order."""

    config: str  # name of the configuration
    files: Sequence[Remote]  # data files in reading order
    others: Sequence[Remote] = ()  # files of other formats

    def notes(self) -> list[str]:
        """Return a note on the files that are not read."""
        count, paths = counted(len(self.others), "file"), [file.path for file in self.others]
        return [f"not read, for the format: {count} ({listed(paths, 3)})"] if paths else []


def form_of(path: str) -> str | None:
    """Return the format of a file; None for text, or a format that ``datasets`` reads."""
    suffix = suffix_of(path)
    inner = suffix.removesuffix(".gz").removesuffix(".zst")
    form = OF_SUFFIX.get(inner)
    return None if form == TEXT or (inner != suffix and form in ("parquet", "arrow")) else form


def stem_of(path: str) -> str:
    """Return a file name without its suffix."""
    name = path.rsplit("/", 1)[-1]
    return name[: len(name) - len(suffix_of(path))]


def choose(uri: HubUri, files: Sequence[Remote], card: Card) -> HubFiles:
    """Return the files that a URI refers to."""
    data = [file for file in files if _is_data(file.path)]
    if not data:
        script = f"{uri.name}.py"
        has = "has no data files"
        if any(file.path == script for file in files):
            has = f"is made by a script, {script}, and scripts are never run; it {has}"
        raise SourceError(f"{uri} {has}")
    config = _card_config(uri, card, data)
    if config is None:
        within = _of_folder(uri, data)
        return HubFiles(uri.config, *_ordered(_of_split(uri, within, uri.config)))
    within = [file for file in data if file.path.startswith(config.folder)]
    if config.splits:
        found, others = _of_patterns(uri, config, within)
    else:
        found, others = _ordered(_of_split(uri, within, config.name))
    if not found:
        where = f" in {config.folder}" if config.folder else ""
        raise SourceError(f"{uri}: its card lists no file of {config.name!r}{where}")
    return HubFiles(config.name, found, others)


def _card_config(uri: HubUri, card: Card, data: list[Remote]) -> CardConfig | None:
    """Return the card's configuration of that name; None if file names decide."""
    if not card.configs:
        return None
    named = {config.name: config for config in card.configs}
    if uri.config in named:
        return named[uri.config]
    shown = ", ".join(named)
    if uri.config != "default":
        raise SourceError(
            f"{uri}: no configuration {uri.config!r}{nearest(uri.config, named)}; "
            f"there are: {shown}"
        )
    defaults = [config for config in card.configs if config.is_default]
    if len(defaults) == 1 or len(named) == 1:
        return (defaults or list(named.values()))[0]
    if any(stem_of(file.path) == uri.split for file in data):
        return None
    raise SourceError(
        f"{uri} has several configurations; name one of {shown}, as in "
        f"hf://{uri.repo}/{next(iter(named))}"
    )


def _of_patterns(uri: HubUri, config: CardConfig, files: list[Remote]) -> _Parted:
    wanted = [uri.split] if uri.split is not None else list(config.splits)
    if uri.split is not None and uri.split not in config.splits:
        table = [file for file in files if stem_of(file.path) == uri.split]
        if table:
            return _ordered(table)
        raise _unknown_split(uri, list(config.splits))
    found: dict[str, Remote] = {}
    for pattern in [pattern for split in wanted for pattern in config.splits[split]]:
        matched = _matching(uri, pattern, files)
        if not matched:
            raise SourceError(f"{uri}: its card lists {pattern!r}, and there is no such file")
        found |= {file.path: file for file in matched}
    return [found[path] for path in sorted(found)], []


def _of_folder(uri: HubUri, files: list[Remote]) -> list[Remote]:
    """Return the files in a folder named after the configuration."""
    within = [file for file in files if uri.config in file.path.split("/")[:-1]]
    if within or uri.config == "default":
        return within or files
    folders = sorted({part for file in files for part in file.path.split("/")[:-1]} - {"data"})
    there = f"there are: {listed(folders)}" if folders else "it has none: write 'default'"
    raise SourceError(
        f"{uri}: no configuration {uri.config!r}{nearest(uri.config, folders)}; {there}"
    )


def _of_split(uri: HubUri, files: list[Remote], config: str) -> list[Remote]:
    """Return files whose stem is the split, or whose path contains it."""
    if uri.split is None:
        return files
    named = [file for file in files if stem_of(file.path) == uri.split]
    found = (
        named
        or [  # a folder, or a part of a stem between hyphens
            file
            for file in files
            if uri.split in (*file.path.split("/")[:-1], *stem_of(file.path).split("-"))
        ]
    )
    if not found:
        raise _unknown_split(uri, sorted({_split_name(file.path, config) for file in files}))
    return found


def _unknown_split(uri: HubUri, splits: list[str]) -> SourceError:
    known = nearest(str(uri.split), splits)
    shown = ", ".join(splits[:40]) + (", …" if len(splits) > 40 else "")
    return SourceError(f"{uri}: no split or table {uri.split!r}{known}; there are: {shown}")


def _split_name(path: str, config: str) -> str:
    """Return the split or table a file name refers to, for messages."""
    stem = stem_of(path)
    folders = [part for part in path.split("/")[:-1] if part not in ("data", config)]
    if _GENERIC.fullmatch(stem.split("-of-")[0]) and folders:
        return folders[-1]
    return _COUNTED.sub("", stem) or stem


def _ordered(files: Sequence[Remote]) -> _Parted:
    """Return the files of the preferred format, by path, and the others."""
    kinds = [form_of(file.path) or suffix_of(file.path) for file in files]
    known = [form for form in READERS if form in kinds]
    count = Counter(kinds)
    best = known[0] if known else min(count, key=lambda kind: (-count[kind], kind), default="")
    pairs = sorted(zip(files, kinds, strict=True), key=lambda pair: pair[0].path)
    return [f for f, kind in pairs if kind == best], [f for f, kind in pairs if kind != best]


def _is_data(path: str) -> bool:
    parts = path.split("/")
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and parts[-1] not in _NO_DATA and not parts[-1].lower().endswith(_PAPERS)


def _matching(uri: HubUri, glob: str, files: list[Remote]) -> list[Remote]:
    """Return the files that match a pattern, or lie in the folder it names."""
    folder = glob.rstrip("/") + "/"
    try:
        fits = matching(glob, [file.path for file in files])
    except SourceError as error:
        raise SourceError(f"{uri}: its card lists {glob!r}, which is no pattern") from error
    pairs = zip(files, fits, strict=True)
    return [file for file, fit in pairs if fit or file.path.startswith(folder)]


# -- the card -------------------------------------------------------------------------------------

_OPEN = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n")
_FRONT = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CardConfig:
    """A configuration described by a card."""

    name: str
    is_default: bool
    splits: dict[str, tuple[str, ...]]  # patterns of files; empty if file names decide
    folder: str  # ends with ``/``; empty for anywhere


@dataclass(frozen=True, slots=True)
class Card:
    """The facts of a card about files and columns."""

    configs: tuple[CardConfig, ...] = ()  # its configurations, if it names any
    where: str = ""  # prefix of error messages
    _facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def labels(self, config: str) -> dict[str, tuple[str, ...]]:
        """Return the class names of a configuration's columns."""
        try:
            return of_card(self._of(config).get("features"))
        except ValueError as error:
            raise SourceError(f"{self.where}: the card in its README.md: {error}") from error

    def rows(self, config: str, split: str | None) -> int | None:
        """Return the expected rows of a split, or of all."""
        splits = _listed(self._of(config).get("splits"))
        counts = [one.get("num_examples") for one in splits if split in (None, one.get("name"))]
        known = [count for count in counts if isinstance(count, int) and 0 <= count < 1 << 63]
        return sum(known) if counts and len(known) == len(counts) else None

    def _of(self, config: str) -> Mapping[str, Any]:
        alone = next(iter(self._facts.values())) if len(self._facts) == 1 else {}
        return self._facts.get(config, alone)


def parse_card(readme: str, where: str) -> Card:
    """Parse the card of a README; empty without one."""
    front = _FRONT.match(readme)
    if not front and len(readme) >= LARGEST and _OPEN.match(readme):
        raise SourceError(
            f"{where}: the card in its README.md does not end within {LARGEST:,} characters"
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
    """Return the mappings of a list, or of a single mapping."""
    values = [value] if isinstance(value, Mapping) else value
    return [one for one in values if isinstance(one, Mapping)] if isinstance(values, list) else []


def _name(config: Mapping[str, Any]) -> str:
    return str(config.get("config_name", "default"))


def _config(one: Mapping[str, Any]) -> CardConfig:
    folder = str(one.get("data_dir") or "").strip("/").removeprefix("./")
    folder = f"{folder}/" if folder else ""
    splits: dict[str, tuple[str, ...]] = {}
    listed_files = one.get("data_files")
    if isinstance(listed_files, Mapping):
        listed_files = [{"split": split, "path": path} for split, path in listed_files.items()]
    for part in _several(listed_files, one):
        split, path = "train", part
        if isinstance(part, Mapping):
            split, path = str(part.get("split", "train")), part.get("path")
        splits.setdefault(split, ())
        for pattern in _several(path, one):
            if isinstance(pattern, Mapping | list | None):
                raise _odd(pattern, one)
            splits[split] = (*splits[split], folder + str(pattern).removeprefix("./"))
    return CardConfig(_name(one), one.get("default") is True, splits, folder)


def _several(value: Any, config: Mapping[str, Any]) -> list[Any]:
    """Return the values of a list, or a single value as a list."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if isinstance(value, list):
        return value
    raise _odd(value, config)


def _odd(value: Any, config: Mapping[str, Any]) -> ValueError:
    return ValueError(
        f"data_files of configuration {_name(config)!r} has {shown(repr(value), 80)} where paths "
        f"are wanted"
    )


def of_card(features: Any) -> dict[str, tuple[str, ...]]:
    """Return the class names of the columns a card lists."""
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
