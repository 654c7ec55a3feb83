"""Choose the source for a path as a user writes it, by suffix or a given format.

path ─there→ what it names ─format_of→ csv, jsonl, text, … ─source_at→ a source
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from duckplets.base.formats import (
    ALIASES,
    DATA_SETS,
    FORMATS,
    HUB,
    HUB_MARK,
    OF_SUFFIX,
    READERS,
    STDIN,
    TEXT,
)
from duckplets.base.object_store import address_of
from duckplets.base.sanitize import shown
from duckplets.errors import SourceError, nearest
from duckplets.sources import paths
from duckplets.sources.custom import adapted
from duckplets.sources.files import reader_of
from duckplets.sources.formats.text_file import is_hidden, listed
from duckplets.sources.mapping import Mapped
from duckplets.sources.memory import DatasetSource, MemorySource

if TYPE_CHECKING:
    from duckplets.sources import Source as AnySource

_MAPPED = [part.name for part in fields(Mapped)]
_MEANT_FOR = {  # files that an argument of single formats is for
    "delimiter": "CSV files",
    "quote": "CSV files",
    "escape": "CSV files",
    "rows": "JSON files",
    "encoding": "files of text",
    "pattern": "folders of text",
    "by_heading": "files of text",
    "titles": "files of text",
    **dict.fromkeys(_MAPPED, "files with columns"),
}
_ANCHORS = (
    " (the anchor of a text is its title, its first heading or the name of the file, and the rest "
    "is the context)"
)


def are_several(source: Any, arguments: Mapping[str, Any]) -> bool:
    """Return whether ``ingest`` was given several sources: a list, a mapping, or a file of them."""
    if isinstance(source, (str, os.PathLike)):
        is_file = PurePath(os.fspath(source)).suffix.lower() in DATA_SETS
        return is_file and "format" not in arguments
    if isinstance(source, (list, tuple)) and source:
        return not isinstance(source[0], Mapping)
    return isinstance(source, Mapping)


def Source(what: Any, **columns: Any) -> AnySource:  # noqa: N802 - it stands for the readers
    """Return the source of a path, several paths, or data, with the reader for its type.

    Args:
        what: As ``source`` of ``Corpus.ingest``; several files of one format make one source.
        columns: Arguments of the reader, such as ``anchor="question", positive="answer"``;
            ``format="csv"`` if the suffix does not tell it.

    Raises:
        SourceError: There is no such file, its format is unknown, or an argument does not fit.
    """
    is_list = isinstance(what, (list, tuple)) and len(what) > 0
    if not is_list or not isinstance(what[0], (str, os.PathLike)):
        return given_source(what, columns)
    places = [os.fspath(place) for place in what]
    wanted = columns.pop("format", None)
    forms = {format_of(place, wanted, is_text="pattern" in columns) for place in places}
    if len(forms) > 1:
        raise SourceError(
            f"files of several formats, {', '.join(sorted(forms))}: give files of one format"
        )
    return source_at(places, forms.pop(), columns)


def given_source(source: Any, arguments: dict[str, Any]) -> AnySource:
    """Return the source of a path by its format, of data by its columns; wrap a user's source."""
    if isinstance(source, (str, os.PathLike)):
        return source_of(source, **arguments)
    kind = type(source).__name__
    if takes_columns(source):
        _check(f"data of {kind}", "in memory", arguments, _MAPPED)
        of_datasets = hasattr(source, "with_format")  # of the package datasets
        return (DatasetSource if of_datasets else MemorySource)(source, **arguments)
    made: AnySource = adapted(source)
    for name in arguments:
        raise SourceError(
            f"{name}= is for a path or data; give it to the source: {kind}(…, {name}=…)"
        )
    return made


def takes_columns(source: Any) -> bool:
    """Return whether a source is a path or data, whose columns are arguments of ``ingest``."""
    if isinstance(source, (str, os.PathLike)) or hasattr(source, "__arrow_c_stream__"):
        return True
    is_own = isinstance(source, type) or hasattr(source, "open") or hasattr(source, "batches")
    return isinstance(source, Iterable) and not is_own


def source_of(
    place: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    **arguments: Any,
) -> AnySource:
    """Return the source that reads a file, a folder, a glob, an object or an ``hf://`` line."""
    path = os.fspath(place)
    if not isinstance(path, str):
        raise SourceError(f"{place!r} is not a path")
    if PurePath(path).suffix.lower() in DATA_SETS and format is None:
        raise SourceError(
            f"{path} describes sources: call corpus.ingest({path!r}) for it alone, or give format="
        )
    return source_at(path, format_of(path, format, is_text="pattern" in arguments), arguments)


def source_at(place: str | list[str], form: str, arguments: dict[str, Any]) -> AnySource:
    """Return the source of a path, or of several paths that form one."""
    first = place if isinstance(place, str) else place[0]
    if form == HUB:
        from duckplets.sources.remote.hub import HubSource

        _check(first, form, arguments, _MAPPED)
        return HubSource(first, **arguments)
    if form != TEXT:
        place = _files_at([place] if isinstance(place, str) else place, form)
    kind = reader_of(form)
    _check(first, form, arguments, [part.name for part in fields(kind) if part.kw_only])
    arguments = {**READERS[form].arguments, **arguments}
    folder = Path(os.path.expanduser(first))
    if form == TEXT and "pattern" not in arguments and folder.is_dir():
        there = listed(folder, "*.txt")  # without any, the only other suffix of texts is read
        others = {paths.inner_suffix(file) for file in there.others if not is_hidden(file)}
        found = others.intersection(READERS[TEXT].suffixes)
        if len(found) == 1 and not there.files:
            arguments = {"pattern": f"*{found.pop()}", **arguments}
    source: AnySource = kind(place, **arguments)
    return source


def _files_at(places: list[str], form: str) -> str | list[str]:
    """Return paths, with globs of the files of a format instead of folders."""
    found: list[str] = []
    forms = {name for name, each in READERS.items() if each.reader == READERS[form].reader}
    for place in places:
        folder = Path(os.path.expanduser(place))
        if not folder.is_dir():
            found.append(place)
            continue
        files = listed(folder, "*").files
        there = (f for f in files if OF_SUFFIX.get(paths.inner_suffix(f)) in forms)
        packed = paths.COMPRESSED
        ends = sorted({"".join(f.suffixes[-1 - (f.suffix.lower() in packed) :]) for f in there})
        if not ends:
            raise SourceError(f"{place} is a folder without files of the format {form}")
        found += [f"{glob.escape(place)}/**/*{end}" for end in ends]
    return found[0] if len(found) == 1 else found


def _of_folder(place: str) -> str:
    """Return the format of a folder's files: text, unless all known files have another."""
    suffixes = set(map(paths.inner_suffix, listed(Path(os.path.expanduser(place)), "*").files))
    found = {OF_SUFFIX[suffix] for suffix in suffixes.intersection(OF_SUFFIX)}
    if TEXT in found or not found:
        return TEXT
    if len({READERS[form].reader for form in found}) > 1:
        raise SourceError(
            f"{place} holds files of several formats: give format= (--format): one of "
            f"{', '.join(sorted(found))}"
        )
    return min(found)


def _check(first: str, form: str, arguments: dict[str, Any], known: Sequence[str]) -> None:
    for name, value in arguments.items():
        if name in known:
            continue
        if name not in _MEANT_FOR:
            there = nearest(name, known) or f"; it takes {', '.join(sorted(known))}"
            raise SourceError(f"{shown(first)} is {form}, whose source takes no {name}={there}")
        argument = f"{name}={value}" if value is None else f"{name}="
        more = _ANCHORS if form == TEXT and name in _MAPPED else ""
        raise SourceError(f"{shown(first)} is {form}: {argument} is for {_MEANT_FOR[name]}{more}")


def format_of(place: str, wanted: str | None = None, *, is_text: bool = False) -> str:
    """Return the format of a path or of the files it names; ``is_text``: a folder is text."""
    if wanted is not None and wanted not in FORMATS:
        raise SourceError(
            f"format={wanted!r}{nearest(str(wanted), FORMATS)}: give one of {', '.join(FORMATS)}"
        )
    if place.startswith(HUB_MARK):
        if wanted is not None:
            raise SourceError(
                f"format={wanted!r}: the files of {place.split()[0]} tell their format; leave it "
                f"out"
            )
        return HUB
    if place == STDIN:
        if ALIASES.get(wanted or "", wanted) not in (None, "jsonl"):
            raise SourceError(f"format={wanted!r}: stdin is read as JSON lines; leave it out")
        return "jsonl"
    if not place:
        raise SourceError(f"{place!r} is not a path")
    if "://" in place:
        address_of(place, SourceError)
    is_folder = Path(os.path.expanduser(place)).is_dir()
    files = [] if is_folder else paths.files(place)
    if wanted is not None or is_folder:
        return ALIASES.get(wanted, wanted) if wanted else TEXT if is_text else _of_folder(place)
    formats = set()
    for path in map(PurePosixPath, map(str, files)):
        suffix = paths.inner_suffix(path)
        if suffix not in OF_SUFFIX:
            raise SourceError(
                f"{path}: its format is not clear from {suffix or 'a name without suffix'!r}; "
                f"give format= (--format): one of {', '.join(FORMATS)}"
            )
        formats.add(OF_SUFFIX[suffix])
    if len(formats) > 1:
        raise SourceError(f"{place} matches files of several formats: {', '.join(sorted(formats))}")
    return formats.pop()
