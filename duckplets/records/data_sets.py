"""Describe data sets in a YAML or TOML file or a mapping: what to read, and how much of it.

    faq:                            # names a source
      file_name: faq.json           # beside this file; or hf_hub_url: org/name[/config]
      converter: alpaca             # or which columns hold the texts: anchor, positive, …
      size: 1000                    # the first 1000 records
      weight: 2.0                   # each of them twice

All of it is checked, and all mistakes are reported at once, for every data set and key.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.documents import Form, read_document
from duckplets.base.formats import OF_SUFFIX, READERS, TEXT
from duckplets.base.object_store import address_of
from duckplets.base.sanitize import shown
from duckplets.base.settings import Named, checked
from duckplets.errors import SourceError, nearest, several
from duckplets.records.data_set_gates import JUDGED, judged, tried
from duckplets.records.index_controls import IndexControls
from duckplets.sources import paths
from duckplets.sources.files import reader_of
from duckplets.sources.formats.text_file import TextLinesSource
from duckplets.sources.mapping import TEXTS, Mapped, changed

if TYPE_CHECKING:
    from duckplets.sources import Source

__all__ = ["DataSet", "load_data_sets"]

_SAME = {"tsv": "csv", "jsonl": "json"}
_FORMATS = sorted({_SAME.get(form, form) for form in READERS})
_SUFFIXES = {
    suffix: _SAME.get(form, form)
    for suffix, form in sorted(OF_SUFFIX.items())
    if form != TEXT or suffix == ".txt"
}
_PLACES = ("file_name", "hf_hub_url")
_READING = ("split", "streaming", "format")
_WRITTEN = {  # keys about text files, and the formats they apply to
    "encoding": ("csv", "json", "text"),
    "delimiter": ("csv",),
    "quote": ("csv",),
    "escape": ("csv",),
    "rows": ("json",),
}
_TABS = ("tab", "\\t")
_CONTROLS = ("size", "size_mode", "weight", "seed")
_MAPPING = (
    *("converter", "turns", "on_error", "anchor", "positive", "context", "text", "id", "date"),
    *("group", "taxonomy", "meta", "prefix", "trust", "negative", "sections", "text_of"),
    *("created_at", "updated_at", "date_format", "on_bad_date", "null_values", "label", "labels"),
)
_OF_LINES = ("trust", "on_error")  # of plain text, whose lines have no columns
_KEYS = (*_PLACES, *_READING, *_WRITTEN, *_CONTROLS, *JUDGED, *_MAPPING)
_MESSAGES = "openai"  # without a converter rows hold messages


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set that was described.

    Attributes:
        name: Of the source it becomes.
        files: The files, or the address in a store, it is read from; none for one on the Hub.
        hub: ``hf://org/name/config/split``, or None for files.
        format: ``arrow``, ``csv``, ``json``, ``parquet`` or ``text`` (a record a line); None on
            the Hub.
        streaming: Whether records are stored in pieces as they come, so that an ingest that stops
            goes on there; None for the way of the source.
        mapping: Arguments of the source: converter, or columns by part.
        controls: How an index lists its records.
        written: How the text of files is written: ``encoding``, ``delimiter``, ``quote``,
            ``escape`` and ``rows``, as arguments of the source.
        gates: What is said of its texts: ``quality``, ``where``, ``size_mb`` and ``limit``, as
            arguments of ``Corpus.ingest``.
        clean: What it needs of the corpus, whose preprocessors clean the texts of all sources:
            ``on`` some, ``off`` none, ``text`` or ``code`` a normaliser of that kind; None to take
            them as they are.
    """

    name: str
    files: tuple[Path | str, ...] = ()
    hub: str | None = None
    format: str | None = None
    streaming: bool | None = None
    mapping: dict[str, Any] = field(default_factory=dict)
    controls: IndexControls = field(default_factory=IndexControls)
    written: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    clean: str | None = None

    def source(self) -> Source:
        """Return what reads it."""
        if self.hub is not None:
            from duckplets.sources.remote.hub import HubSource

            made: Source = HubSource(self.hub, source_id=self.name, **self.mapping)
        else:
            made = _reader(self.format or "")(list(self.files), **self.written, **self.mapping)
        wanted = made.in_pieces if self.streaming is None else self.streaming
        return made if wanted == made.in_pieces else changed(made, in_pieces=wanted)


def load_data_sets(
    path: str | PathLike[str] | Mapping[str, Mapping[str, Any]],
    *,
    folder: str | PathLike[str] | None = None,
) -> list[DataSet]:
    """Read a file of data sets, in its order: TOML if it ends in ``.toml``, else YAML.

    A data set has either ``file_name``, a file, folder or glob, relative to this file, or an
    address of a store, or ``hf_hub_url``, ``org/name`` or ``org/name/config``; and any of
    ``format``, ``split`` (of the Hub's), ``streaming``, ``size``, ``size_mode``, ``weight``,
    ``seed``, ``converter``, ``on_error``, and the columns ``anchor``, ``positive``, ``context``,
    ``text``, ``id``, ``date``, ``group``, ``taxonomy``, ``meta``, ``prefix``, ``trust``,
    ``negative``, ``sections``, ``text_of``, ``created_at``, ``updated_at``, ``date_format``,
    ``on_bad_date``, ``null_values``, ``label`` and ``labels``.
    ``quality`` (a preset, a TOML file, a table of settings, or false for no gates), ``domain``
    (``general``, ``medical`` or ``code``: the preset), ``where``, ``size_mb`` and ``limit`` are as
    for ``Corpus.ingest``; ``clean`` is as in ``DataSet``. Where neither a converter nor columns of
    texts are given the rows hold ``messages``. A converter may be a
    function, ``module:function``; its module is imported, with a warning. Of files of text
    ``encoding`` is the name of another one than UTF-8; of CSV files ``delimiter`` is a character
    or ``tab``, ``quote`` a character or, where quotes are plain text, ``""``, and ``escape`` a
    character; of JSON files ``rows`` is the path to the rows.

    Args:
        path: Of the file; or what would stand in one, keys and values by name of the data set.
        folder: What paths in a mapping are relative to; by default the working directory.

    Raises:
        SourceError: The file cannot be read, or something in it is wrong: all of it, or the first
            ten mistakes and how many more there are, a line each, as ``FILE: data set 'NAME':
            what is wrong`` (of a mapping without the file), with key and value.
    """
    if isinstance(path, Mapping):
        return _checked(path, _folder("folder", "." if folder is None else folder), "")
    if folder is not None:
        raise SourceError(
            f"folder={str(folder)!r}: paths in a file are relative to that file; leave it out"
        )
    if not isinstance(path, str | PathLike):
        raise SourceError(f"path={path!r}: give the path of a file of data sets, or a mapping")
    file = _folder("path", path)
    return _checked(_tables_of(file), file.parent, f"{file}: ")


def _folder(what: str, given: Any) -> Path:
    """Return a given path with ``~`` expanded."""
    try:
        return Path(os.path.expanduser(given))
    except TypeError as error:
        raise SourceError(f"{what}={str(given)!r}: {error}") from error


def _checked(tables: Mapping[Any, Any], folder: Path, where: str) -> list[DataSet]:
    """Return the described data sets by name."""
    if not tables:
        raise SourceError(f"{where}no data sets are given; give keys such as file_name by name")
    problems: list[str] = []
    found = []
    for name, table in tables.items():
        checks = _Checks(folder.absolute(), problems, f"{where}data set {name!r}: ")
        found.append(checks.data_set(name, table))
    if problems:
        raise SourceError(several(problems))
    return [data_set for data_set in found if data_set is not None]


# -- the file -----------------------------------------------------------------------------------


def _tables_of(file: Path) -> dict[Any, Any]:
    """Return the tables of a file by name: TOML by suffix, else YAML or JSON."""
    form: Form = "TOML" if file.suffix.lower() == ".toml" else "YAML"
    content = read_document(file, form, SourceError)
    if not isinstance(content, dict) or not content:
        raise SourceError(
            f"{file} lists no data sets; write the name of each, and below it its keys, such as "
            f"file_name"
        )
    return content


# -- one of its data sets ------------------------------------------------------------------------


class _Checks:
    """Check the keys of one data set, collecting mistakes."""

    def __init__(self, folder: Path, problems: list[str], what: str) -> None:
        self._folder = folder
        self._problems = problems
        self._what = what

    def data_set(self, name: Any, table: Any) -> DataSet | None:
        """Return the data set of a table; None if it has mistakes."""
        before = len(self._problems)
        tried(self._note, partial(checked, "name", name, Named, SourceError))
        if not isinstance(table, Mapping):
            self._note(f"its keys and values are wanted, such as file_name, not {table!r}")
            return None
        for key in table:
            if key not in _KEYS:
                hint = nearest(str(key), _KEYS)
                self._note(f"unknown key {key!r}{hint}; keys: {', '.join(_KEYS)}")
        values = {key: value for key, value in table.items() if key in _KEYS and value is not None}
        places = [key for key in _PLACES if key in values]
        if len(places) != 1:
            which = "both are given" if places else "neither is given"
            self._note(f"give file_name or hf_hub_url; {which}")
        files, form = self._files(values)
        hub = self._hub(values) if "hf_hub_url" in values else None
        streaming = values.get("streaming")
        if not isinstance(streaming, bool | None):
            self._note(f"streaming={streaming!r}: give true or false")
        controls = self._each(IndexControls, {k: values[k] for k in _CONTROLS if k in values}, {})
        written = self._written({k: values[k] for k in _WRITTEN if k in values}, hub, form)
        judging = {k: values[k] for k in JUDGED if k in values}
        gates, clean = judged(judging, self._folder, self._note)
        mapping = self._mapping({k: values[k] for k in _MAPPING if k in values}, form)
        if len(self._problems) > before:
            return None
        known = controls or IndexControls()
        return DataSet(name, files, hub, form, streaming, mapping, known, written, gates, clean)

    def _note(self, problem: str) -> None:
        self._problems.append(self._what + problem)

    def _files(self, values: Mapping[str, Any]) -> tuple[tuple[Path | str, ...], str | None]:
        """Return files and their format, as far as they are right."""
        form = values.get("format")
        if form is not None and form not in _FORMATS:
            hint = nearest(form, _FORMATS) if isinstance(form, str) else ""
            self._note(f"format={form!r}: give one of {', '.join(_FORMATS)}{hint}")
            return (), None
        if "file_name" not in values:
            if form is not None:
                self._note(f"format={form!r} is for files; that of the Hub's is known")
            return (), None
        if values.get("split", "train") != "train":
            self._note(
                f"split={values['split']!r}: a file has no splits of its own, only 'train'; "
                f"corpus.split() deals records to splits, whatever file they come from"
            )
        try:
            files = self._found(values["file_name"])
            return tuple(files), form or _format_of(files)
        except SourceError as error:
            self._note(f"file_name={values['file_name']!r}: {error}")
        except (OSError, RuntimeError, ValueError) as error:  # an impossible path
            self._note(f"file_name={shown(repr(values['file_name']))}: {_reason(error)}")
        return (), form

    def _written(self, values: dict[str, Any], hub: str | None, form: str | None) -> dict[str, Any]:
        """Return how text files are written, as arguments of the source."""
        what = "hub" if hub else form
        if what is None:  # wrong, and reported
            return values
        for key, value in values.items():
            if what not in _WRITTEN[key]:
                forms, these = " and ".join(_WRITTEN[key]), "the Hub's" if hub else what
                self._note(
                    f"{key}={shown(repr(value))}: is for {forms} files, and these are {these}"
                )
        known = {key: value for key, value in values.items() if what in _WRITTEN[key]}
        if known.get("delimiter") in _TABS:
            known["delimiter"] = "\t"
        if known.get("quote") == "":
            known["quote"] = None
        mapping = {} if what == "text" else {"text": "x"}
        if known:
            self._each(lambda **given: _reader(what)("x", **mapping, **given), known, {})
        return known

    def _found(self, given: Any) -> Sequence[Path | str]:
        name = os.fspath(given) if isinstance(given, PathLike) else given
        if not isinstance(name, str) or not name:
            raise SourceError("give the path of a file, a folder or a glob")
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
            raise SourceError(f"{place} holds no file of a known form ({', '.join(_SUFFIXES)})")
        return paths.local_files(found)

    def _hub(self, values: Mapping[str, Any]) -> str | None:
        from duckplets.sources.remote.grammar import parse_uri

        given, split = values["hf_hub_url"], values.get("split")
        if split is not None and (not isinstance(split, str) or not split or "/" in split):
            self._note(f"split={split!r}: give the name of a split")
            return None
        try:
            if not isinstance(given, str):
                raise SourceError("write org/name or org/name/config")
            bare = given.removeprefix("hf://").strip("/")
            if bare.count("/") not in (1, 2):
                raise SourceError("write org/name or org/name/config, and split: beside it")
            config = "" if split is None or bare.count("/") == 2 else "/default"
            return str(parse_uri(f"hf://{bare}{config}" + (f"/{split}" if split else "")))
        except SourceError as error:
            self._note(f"hf_hub_url={given!r}: {error}")
            return None

    def _mapping(self, values: dict[str, Any], form: str | None) -> dict[str, Any]:
        """Return arguments of the source, checked one by one and then together."""
        needs: dict[str, Any] = {"positive": {"anchor": "x"}, "negative": {"anchor": "x"}}
        needs["label"] = {"anchor": "x", "positive": "y"}
        needs["labels"] = needs["label"] | {"label": "z"}
        if form == "text":
            for key in values:
                if key not in _OF_LINES:
                    self._note(f"{key}: lines of text have no columns; leave it out")
            known = {key: values[key] for key in values if key in _OF_LINES}
            self._each(lambda **given: TextLinesSource("x", **given), known, {})
            return values
        if "converter" not in values and not any(part in values for part in TEXTS):
            values = {"converter": _MESSAGES} | values
        self._each(Mapped, values, needs)
        return values

    def _each(
        self, make: Callable[..., Any], values: Mapping[str, Any], needs: Mapping[str, Any]
    ) -> Any:
        """Return what ``make`` makes of each value, tried alone so that every mistake is found."""
        before = len(self._problems)
        for key, value in values.items():
            tried(self._note, partial(make, **(needs.get(key, {}) | {key: value})))
        if len(self._problems) > before:
            return None
        return tried(self._note, partial(make, **values))


def _reader(form: str) -> Callable[..., Source]:
    """Return the class that reads a format; here each line of text is a record."""
    found: Callable[..., Source] = TextLinesSource if form == TEXT else reader_of(form)
    return found


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _is_data(file: Path) -> bool:
    hidden = file.name.startswith((".", "_"))
    return file.is_file() and not hidden and paths.inner_suffix(file) in _SUFFIXES


def _format_of(files: Sequence[Path | str]) -> str:
    """Return the format of files by suffix."""
    found = {paths.inner_suffix(Path(file)) for file in files}
    for suffix in sorted(found.difference(_SUFFIXES)):
        known = ", ".join(_SUFFIXES)
        raise SourceError(f"{suffix or 'no suffix'} is no known form ({known}); give format=")
    forms = sorted({_SUFFIXES[suffix] for suffix in found})
    if len(forms) > 1:
        raise SourceError(f"files of several forms ({', '.join(forms)}); name those of one")
    return forms[0]
