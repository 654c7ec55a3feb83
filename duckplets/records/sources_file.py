"""Describe sources in a TOML or YAML file: the files, how to read them, and how much.

    version = 1

    [[source]]
    path = "faq.json"               # from the folder of this file: a file, folder or glob; or hf://…
    name = "faq"                    # default: the name of the file
    columns = { anchor = "question", positive = "answer" }      # or converter = "alpaca"
    size = 1000                     # the index lists the first 1000 records
    weight = 2.0                    # each of them twice
    gates = { quality = "general", limit = 5000 }

The whole file is checked, and one error reports the mistakes of every source and key.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.documents import Form, read_document
from duckplets.base.formats import HUB_MARK, OF_SUFFIX, READERS, TEXT
from duckplets.base.object_store import address_of
from duckplets.base.sanitize import shown
from duckplets.base.settings import Named, checked
from duckplets.errors import DuckpletsError, SourceError, nearest, several
from duckplets.order.copies import IndexControls
from duckplets.quality.intake import QualityGates
from duckplets.quality.settings import Quality
from duckplets.sources import paths
from duckplets.sources.files import reader_of
from duckplets.sources.formats.text_file import TextLinesSource
from duckplets.sources.mapping import TEXTS, Mapped, changed

if TYPE_CHECKING:
    from duckplets.sources import Source

_SAME = {"tsv": "csv", "jsonl": "json"}
_FORMATS = sorted({_SAME.get(form, form) for form in READERS})
_SUFFIXES = {
    suffix: _SAME.get(form, form)
    for suffix, form in sorted(OF_SUFFIX.items())
    if form != TEXT or suffix == ".txt"
}
_TEXT_KEYS = {  # keys of text files, and their formats
    "encoding": ("csv", "json", "text"),
    "delimiter": ("csv",),
    "quote": ("csv",),
    "escape": ("csv",),
    "rows": ("json",),
}
_TABS = ("tab", "\\t")
_CONTROLS = ("size", "size_mode", "weight", "seed")
_OF_ROWS = ("converter", "turns", "on_error", "trust", "prefix")  # of the mapping, without columns
_COLUMNS = tuple(each.name for each in fields(Mapped) if each.name not in _OF_ROWS)
_OF_LINES = ("trust", "on_error")  # of plain text, whose lines have no columns
_GATES = ("quality", "where", "limit", "size_mb")
_READING = ("name", "path", "format", "split", "streaming", "in_place", "columns", "gates")
_KEYS = (*_READING, *_OF_ROWS, *_CONTROLS, *_TEXT_KEYS)
_MESSAGES = "openai"  # rows without a converter or columns are messages


@dataclass(frozen=True, slots=True)
class DescribedSource:
    """One source that a file describes.

    Attributes:
        label: Its name in the file; None for the default name of the source.
        files: The files, or the address in a store; none for a source on the Hub.
        hub: ``hf://org/name/config/split``, or None for files.
        format: ``arrow``, ``csv``, ``json``, ``parquet`` or ``text`` (a record a line); None on
            the Hub.
        streaming: Whether an ingest stores records in pieces, and continues there after a stop.
            None: the default of the source.
        in_place: Whether texts stay in their Parquet files.
        mapping: Arguments of the source: converter, or columns by part.
        controls: Size and weight of its records in an index.
        written: Arguments for text files: ``encoding``, ``delimiter``, ``quote``, ``escape`` and
            ``rows``.
        gates: ``quality``, ``where``, ``size_mb`` and ``limit``, as for ``Corpus.ingest``.
    """

    label: str | None = None
    files: tuple[Path | str, ...] = ()
    hub: str | None = None
    format: str | None = None
    streaming: bool | None = None
    in_place: bool = False
    mapping: dict[str, Any] = field(default_factory=dict)
    controls: IndexControls = field(default_factory=IndexControls)
    written: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return its name in the file, or the default name of the source."""
        return self.label or self.source().default_name()

    def source(self) -> Source:
        """Return the source."""
        if self.hub is not None:
            from duckplets.sources.remote.hub import HubSource

            made: Source = HubSource(self.hub, source_id=self.label, **self.mapping)
        else:
            made = _reader(self.format or "")(list(self.files), **self.written, **self.mapping)
        in_pieces = made.in_pieces if self.streaming is None else self.streaming
        return made if in_pieces == made.in_pieces else changed(made, in_pieces=in_pieces)


def load_sources(path: str | PathLike[str]) -> list[DescribedSource]:
    """Read a file of sources, in its order: TOML if it ends in ``.toml``, otherwise YAML.

    Args:
        path: The file.

    Raises:
        SourceError: The file cannot be read or is wrong. The message has the first ten mistakes
            and the number of others, one a line, as ``FILE: source 'NAME': the mistake``.
    """
    file = Path(os.path.expanduser(path))
    form: Form = "TOML" if file.suffix.lower() == ".toml" else "YAML"
    content = read_document(file, form, SourceError)
    tables = content.get("source") if isinstance(content, dict) else None
    if not isinstance(tables, list) or not tables:
        raise SourceError(f"{file} describes no source: write [[source]] tables, each with a path")
    for key in content:
        if key not in ("version", "source"):
            raise SourceError(f"{file}: unknown key {shown(repr(key))}: sources are [[source]]")
    if (version := content.get("version", 1)) != 1:
        raise SourceError(f"{file}: version={shown(repr(version))}: this duckplets reads version 1")
    problems: list[str] = []
    found = []
    for number, table in enumerate(tables, 1):
        name = table.get("name", number) if isinstance(table, dict) else number
        checks = _Checks(file.parent.absolute(), problems, f"{file}: source {shown(repr(name))}: ")
        found.append(checks.described(table))
    if problems:
        raise SourceError(several(problems))
    return [source for source in found if source is not None]


def _tried(note: Callable[[str], None], make: Callable[[], Any]) -> Any:
    """Return the result of ``make``; collect its mistake."""
    try:
        return make()
    except DuckpletsError as error:
        note(str(error))
        return None


# -- one source ------------------------------------------------------------------------------------


class _Checks:
    """Check the keys of one source, and collect mistakes."""

    def __init__(self, folder: Path, problems: list[str], start: str) -> None:
        self._folder = folder
        self._problems = problems
        self._start = start  # of a message

    def described(self, table: Any) -> DescribedSource | None:
        """Return the source of a table; None if it has mistakes."""
        before = len(self._problems)
        values = self._known(table, _KEYS, "keys")
        if values is None:
            return None
        name = values.get("name")
        if name is not None:
            _tried(self._note, partial(checked, "name", name, Named, SourceError))
        path = values.get("path")
        if isinstance(path, PathLike):
            path = os.fspath(path)
        if not isinstance(path, str) or not path:
            self._note(f"path={shown(repr(path))}: give a file, a folder, a glob or hf://org/name")
            path = ""
        is_hub = path.startswith(HUB_MARK)
        hub = self._hub(path, values.get("split")) if is_hub else None
        files, form = self._files(path, values, is_hub=is_hub)
        for key in ("streaming", "in_place"):
            if not isinstance(values.get(key), bool | None):
                self._note(f"{key}={values[key]!r}: give true or false")
        controls = self._each(IndexControls, {k: values[k] for k in _CONTROLS if k in values}, {})
        text_keys = {k: values[k] for k in _TEXT_KEYS if k in values}
        written = self._text_arguments(text_keys, is_hub, form)
        gates = self._gates(self._known(values.get("gates", {}), _GATES, "keys of gates") or {})
        columns = self._known(values.get("columns", {}), _COLUMNS, "columns") or {}
        rows = {k: values[k] for k in _OF_ROWS if k in values}
        mapping = self._mapping(rows | columns, form)
        if len(self._problems) > before:
            return None
        return DescribedSource(
            *(name, files, hub, form, values.get("streaming"), bool(values.get("in_place"))),
            *(mapping, controls or IndexControls(), written, gates),
        )

    def _known(self, table: Any, keys: Sequence[str], kind: str) -> dict[str, Any] | None:
        if not isinstance(table, Mapping):
            self._note(f"give a table of {kind}, not {shown(repr(table))}")
            return None
        for key in table:
            if key not in keys:
                hint = nearest(str(key), keys)
                is_column = key in _COLUMNS and keys is _KEYS
                where = "; write columns = { … }" if is_column else ""
                where = "; write gates = { … }" if key in _GATES and keys is _KEYS else where
                self._note(f"unknown key {shown(repr(key))}{where or hint}")
        return {key: value for key, value in table.items() if key in keys and value is not None}

    def _gates(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of an ingest; quality files are relative to the file of sources."""
        gates = {key: value for key, value in values.items() if key != "quality"}
        for key, value in gates.items():
            _tried(self._note, partial(QualityGates, **{key: value}))
        if "quality" in values:
            quality = values["quality"]
            if isinstance(quality, str) and quality.endswith(".toml"):
                quality = self._folder / os.path.expanduser(quality)
            made = partial(Quality.of, quality)
            gates["quality"] = None if quality is False else _tried(self._note, made)
        return gates

    def _note(self, problem: str) -> None:
        self._problems.append(self._start + problem)

    def _files(
        self, path: str, values: Mapping[str, Any], *, is_hub: bool
    ) -> tuple[tuple[Path | str, ...], str | None]:
        form = values.get("format")
        if form is not None and form not in _FORMATS:
            hint = nearest(form, _FORMATS) if isinstance(form, str) else ""
            self._note(f"format={form!r}: give one of {', '.join(_FORMATS)}{hint}")
            return (), None
        if is_hub or not path:
            if form is not None and is_hub:
                self._note(f"format={form!r} is for files; the Hub knows the format")
            return (), None
        if values.get("split", "train") != "train":
            self._note(
                f"split={values['split']!r}: a file has only 'train'; corpus.split() assigns "
                f"records to splits"
            )
        try:
            files = self._found(path)
            return tuple(files), form or _format_of(files)
        except SourceError as error:
            self._note(f"path={path!r}: {error}")
        except (OSError, RuntimeError, ValueError) as error:  # an impossible path
            self._note(f"path={shown(repr(path))}: {_reason(error)}")
        return (), form

    def _text_arguments(
        self, values: dict[str, Any], is_hub: bool, form: str | None
    ) -> dict[str, Any]:
        kind = "hub" if is_hub else form
        if kind is None:  # wrong, and reported
            return values
        for key, value in values.items():
            if kind not in _TEXT_KEYS[key]:
                forms, actual = " and ".join(_TEXT_KEYS[key]), "the Hub's" if is_hub else kind
                self._note(
                    f"{key}={shown(repr(value))}: is for {forms} files, and these are {actual}"
                )
        known = {key: value for key, value in values.items() if kind in _TEXT_KEYS[key]}
        if known.get("delimiter") in _TABS:
            known["delimiter"] = "\t"
        if known.get("quote") == "":
            known["quote"] = None
        mapping = {} if kind == "text" else {"text": "x"}
        if known:
            self._each(partial(_reader(kind), "x", **mapping), known, {})
        return known

    def _found(self, name: str) -> Sequence[Path | str]:
        if "://" in name and address_of(name, SourceError):
            return [name]
        name = os.path.expanduser(name)
        place = self._folder / name
        if not place.is_dir():
            # Only the value itself is a pattern, not the folder's name.
            is_glob = glob.has_magic(name) and not place.exists()
            return paths.local_files(
                Path(glob.escape(str(self._folder)), name) if is_glob else place
            )
        found = [file for file in sorted(place.iterdir()) if _is_data(file)]
        if not found:
            raise SourceError(f"{place} has no file of a known format ({', '.join(_SUFFIXES)})")
        return paths.local_files(found)

    def _hub(self, path: str, split: Any) -> str | None:
        from duckplets.sources.remote.grammar import parse_uri

        if split is not None and (not isinstance(split, str) or not split or "/" in split):
            self._note(f"split={split!r}: give the name of a split")
            return None
        try:
            bare = path.removeprefix(HUB_MARK).strip("/")
            if split is not None and bare.count("/") > 2:
                raise SourceError("it already names a split: remove split=")
            config = "" if split is None or bare.count("/") == 2 else "/default"
            return str(parse_uri(f"hf://{bare}{config}" + (f"/{split}" if split else "")))
        except SourceError as error:
            self._note(f"path={path!r}: {error}")
            return None

    def _mapping(self, values: dict[str, Any], form: str | None) -> dict[str, Any]:
        """Return the arguments of the source, checked one by one and then together."""
        needs: dict[str, Any] = {"positive": {"anchor": "x"}, "negative": {"anchor": "x"}}
        needs["label"] = {"anchor": "x", "positive": "y"}
        needs["labels"] = needs["label"] | {"label": "z"}
        if form == "text":
            for key in values:
                if key not in _OF_LINES:
                    self._note(f"{key}: lines of text have no columns; remove it")
            known = {key: values[key] for key in values if key in _OF_LINES}
            self._each(partial(TextLinesSource, "x"), known, {})
            return values
        if "converter" not in values and not any(part in values for part in TEXTS):
            values = {"converter": _MESSAGES} | values
        self._each(Mapped, values, needs)
        return values

    def _each(
        self, make: Callable[..., Any], values: Mapping[str, Any], needs: Mapping[str, Any]
    ) -> Any:
        """Return the result of ``make``; each value is first tried alone, to find all mistakes."""
        before = len(self._problems)
        for key, value in values.items():
            _tried(self._note, partial(make, **(needs.get(key, {}) | {key: value})))
        if len(self._problems) > before:
            return None
        return _tried(self._note, partial(make, **values))


def _reader(form: str) -> Callable[..., Source]:
    """Return the class that reads a format; in text, each line is a record."""
    found: Callable[..., Source] = TextLinesSource if form == TEXT else reader_of(form)
    return found


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _is_data(file: Path) -> bool:
    hidden = file.name.startswith((".", "_"))
    return file.is_file() and not hidden and paths.inner_suffix(file) in _SUFFIXES


def _format_of(files: Sequence[Path | str]) -> str:
    found = {paths.inner_suffix(Path(file)) for file in files}
    for suffix in sorted(found.difference(_SUFFIXES)):
        known = ", ".join(_SUFFIXES)
        raise SourceError(f"{suffix or 'no suffix'} is no known format ({known}); give format=")
    forms = sorted({_SUFFIXES[suffix] for suffix in found})
    if len(forms) > 1:
        raise SourceError(f"files of several formats ({', '.join(forms)}); name files of one")
    return forms[0]
