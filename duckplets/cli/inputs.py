"""Turn the SOURCE arguments and options of ``ingest`` into sources.

The options are the fields of the source classes, documented there; the tables below name what is
written otherwise on a command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from duckplets.base.formats import DATA_SETS, FORMATS, HUB, HUB_MARK, STDIN, TEXT
from duckplets.base.sanitize import without_secrets
from duckplets.cli.verbs import COLUMNS, option, optional, options_of
from duckplets.errors import DuckpletsError, SourceError, nearest, several

if TYPE_CHECKING:
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source

_TABS = ("tab", "\\t")
_SOURCES = ("mapping:Mapped", "formats.csv_file:CsvSource", "formats.text_file:TextFileSource")
_NOT_HERE = {"path", "folder", "prefix", "on_error", "quote", "trust_by_folder", "in_pieces"}
_WRITTEN = {  # placeholders of values that are not columns; formats and globs may contain commas
    "trust": "NUMBER|COLUMN",
    "labels": "NAME:NUMBER,…",
    "null_values": "NAME,…",
    "converter": "NAME|MODULE:FUNCTION",
    "date_format": "FORM",
    "pattern": "GLOB",
    "encoding": "NAME",
    "delimiter": "CHARACTER|tab",
}
_LIMITS = {
    "row": "max_row",
    "field": "max_field",
    "columns": "max_columns",
    "memory": "reader_memory",
}
_OF_COMMAND = {
    "list": Annotated[list[Path] | None, option("A file of hf:// lines, each a source.", "FILE")],
    "format": Annotated[
        str | None, option(f"{', '.join(FORMATS)}. [default: of the suffix]", "FORMAT")
    ],
    "no_quote": Annotated[
        bool | None, typer.Option("--no-quote", help="In CSV files a quote is plain text.")
    ],
}


def source_options() -> list[Parameter]:
    """Return the options that say what to read, and how."""
    options: dict[str, Parameter] = {}
    for place in _SOURCES:
        without = _NOT_HERE | options.keys()
        for each in options_of(f"sources.{place}", without=without):
            options[each.name] = _as_written(optional(each))
    own = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OF_COMMAND.items()
    ]
    return [*own, *options.values(), *map(_limit, options_of("sources.limits:Limits"))]


def _as_written(parameter: Parameter) -> Parameter:
    kind, how = get_args(parameter.annotation)
    named = {str | None: "COLUMN", list[str] | None: COLUMNS}
    how.metavar = _WRITTEN.get(parameter.name, named.get(kind))
    return parameter


def _limit(parameter: Parameter) -> Parameter:
    return optional(parameter).replace(name=_LIMITS[parameter.name])


def is_data_sets(given: str) -> bool:
    """Return whether an argument is a file that describes data sets."""
    return Path(given).suffix.lower() in DATA_SETS


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row options as arguments of a source."""
    found = {name: value for name, value in given.items() if value not in (None, False)}
    if "trust" in found:
        with suppress(ValueError):  # otherwise a column
            found["trust"] = float(found["trust"])
    if found.get("delimiter") in _TABS:
        found["delimiter"] = "\t"
    if "pattern" in found:
        found["pattern"] = tuple(found["pattern"])
    return found | ({"quote": None} if found.pop("no_quote", False) else {})


def limits_of(given: Mapping[str, Any]) -> Any:
    """Return the limits of reading."""
    from duckplets.sources.limits import Limits

    sizes = {name: given.get(written) for name, written in _LIMITS.items()}
    return Limits(**{name: size for name, size in sizes.items() if size})


# -- sources --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundSource:
    """A source to ingest.

    Attributes:
        name: Its name in the corpus.
        source: Its reader.
        where: Where it was named, for messages.
        data_set: Its entry in a data-set file, if any.
    """

    name: str
    source: Source
    where: str
    data_set: DataSet | None = None


def found_in(
    given: Sequence[str],
    lists: Sequence[Path],
    form: str | None,
    name: str | None,
    arguments: Mapping[str, Any],
    *,
    keep_going: bool,
) -> tuple[list[FoundSource], list[str]]:
    """Return the sources that arguments and lists name, and the problems of the others.

    Args:
        given: The SOURCE arguments as typed. ``key=value`` arguments after a Hub URI belong to it.
        lists: Files with one source per line.
        form: Format of all files, or None to use their suffixes.
        name: Name of one source made of all, or None for a source each.
        arguments: Arguments of the sources.
        keep_going: Whether to collect problems instead of raising.

    Raises:
        typer.BadParameter: There is no source, or an option contradicts a data-set file.
        DuckpletsError: A source is wrong, and ``keep_going`` is off.
    """
    if form is not None and form not in FORMATS:
        known = f"{nearest(form, FORMATS)}: give one of {', '.join(FORMATS)}"
        raise typer.BadParameter(f"--format {form}{known}")
    files = [Path(each) for each in given if is_data_sets(each)]
    others = _with_keys([each for each in given if not is_data_sets(each)])
    if not (files or others or lists):
        raise typer.BadParameter("give a SOURCE, or a --list of them")
    if (name or form or arguments) and (own := [*files, *lists]):
        raise typer.BadParameter(f"{own[0]} says itself what its data sets are named and hold")
    from duckplets.sources.converters.registry import search_first

    with suppress(OSError):  # the working folder was deleted
        search_first(os.getcwd())
    problems: list[str] = []
    passed = problems if keep_going else None
    found = list(_named(others, form, name, arguments, passed))
    listed: list[str] = []
    for file in lists:
        with _passed_over(passed, file):
            found += _listed(file, listed)
    if listed and not keep_going:
        raise SourceError(several(listed))
    for file in files:
        with _passed_over(passed, file):
            found += _data_sets(file)
    return found, problems + listed


def _named(
    given: Sequence[str],
    form: str | None,
    name: str | None,
    arguments: Mapping[str, Any],
    problems: list[str] | None,
) -> Iterator[FoundSource]:
    """Yield the sources of arguments; an error in one of a named group is an error of the group.

    Raises:
        SourceError: A source is missing, of unknown format or without a name; or two share a name.
    """
    from duckplets.sources.by_path import format_of, source_at

    if name is not None:
        for of, members in _groups([(each, format_of(each, form)) for each in given]):
            whole = members if members[1:] else members[0]
            yield FoundSource(name, source_at(whole, of, dict(arguments)), name)
        return
    seen: dict[str, str] = {}
    for each in given:
        with _passed_over(problems, each):
            source = source_at(each, format_of(each, form), dict(arguments))
            own = source.default_name()
            if own in seen:
                raise SourceError(
                    f"{seen[own]} and {each} would both be source {own!r}; make them one with "
                    f"--name {own}, or ingest one at a time, each with its --name"
                )
            seen[own] = each
            yield FoundSource(own, source, own)


@contextmanager
def _passed_over(problems: list[str] | None, given: str | Path) -> Iterator[None]:
    """Collect an error about an argument if problems are collected."""
    try:
        yield
    except DuckpletsError as error:
        if problems is None:
            raise
        where = without_secrets(str(given))
        problems.append(str(error) if where in str(error) else f"{where}: {error}")


def _with_keys(given: Sequence[str]) -> list[str]:
    """Join the keys of a Hub data set to its URI."""
    whole: list[str] = []
    for argument in given:
        is_key = "=" in argument and not Path(argument).exists()
        if is_key and whole and whole[-1].startswith(HUB_MARK):
            whole[-1] += f" {argument}"
        else:
            whole.append(argument)
    return whole


def _groups(inputs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Group arguments of one format: they are stored together or not at all."""
    groups: list[tuple[str, list[str]]] = []
    together: dict[str, list[str]] = {}
    for given, form in inputs:
        is_folder = form == TEXT and Path(given).expanduser().is_dir()
        if form == HUB or is_folder or given == STDIN:
            groups.append((form, [given]))
        elif form in together:
            together[form].append(given)
        else:
            together[form] = [given]
            groups.append((form, together[form]))
    return groups


def _listed(file: Path, problems: list[str]) -> list[FoundSource]:
    """Return the sources of a list, collecting problems of its lines."""
    from duckplets.sources.remote.hub import read_hub_lines

    sources, wrong = read_hub_lines(file)
    problems += wrong
    return [FoundSource(s.default_name(), s, f"{file}:{line}") for line, s in sources]


def _data_sets(file: Path) -> list[FoundSource]:
    """Return the sources of a data-set file."""
    from duckplets.records.data_sets import load_data_sets

    sets = load_data_sets(file)
    return [FoundSource(each.name, each.source(), f"{file}: {each.name}", each) for each in sets]
