"""Turn the SOURCE arguments of ``ingest`` into sources: by format, name and options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.formats import DATA_SETS, FORMATS, HUB, HUB_MARK, STDIN, TEXT
from duckplets.base.sanitize import without_secrets
from duckplets.errors import DuckpletsError, SourceError, nearest, several

if TYPE_CHECKING:
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source

_TABS = ("tab", "\\t")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|\Z)|([^,]+))')


def names(values: Sequence[str] | None) -> list[str] | None:
    """Return the columns of an option that may be repeated and may hold commas.

    A name with a comma in it is written in double quotes, as in CSV; in these, and alone, one keeps
    the spaces around it.
    """
    found = []
    for value in values or ():
        named = [(q.replace('""', '"'), plain) for q, plain in _NAME.findall(value)]
        alone = len(named) == 1 and "," not in value
        found += [quoted or (value if alone else plain.strip()) for quoted, plain in named]
    return [name for name in found if name.strip()] or None


def integers(option: str, values: Sequence[str] | None) -> tuple[int, ...] | None:
    """Return the integers of an option that may be repeated and may hold commas.

    Raises:
        typer.BadParameter: One is none.
    """
    try:
        return tuple(int(value) for value in names(values) or []) or None
    except ValueError:
        raise typer.BadParameter(f"{option} {','.join(values or [])}: give integers") from None


def is_data_sets(given: str) -> bool:
    """Return whether an argument is a file that describes data sets."""
    return Path(given).suffix.lower() in DATA_SETS


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the options of ``ingest`` say about the rows.

    Attributes:
        columns: Column or columns of each part of a mapping, or the converter of the rows; None
            where not given.
        trust: A number or a column, as typed.
        delimiter: Of CSV files.
        no_quote: Whether quotes in CSV files are plain text.
        pattern: Of the files of a folder, one or several.
        by_heading: Whether sections of text are records.
        encoding: Of text, or None for UTF-8.
    """

    columns: Mapping[str, Any]
    trust: str | None
    delimiter: str | None
    no_quote: bool
    pattern: Sequence[str] | None
    by_heading: bool
    encoding: str | None

    def arguments(self) -> dict[str, Any]:
        """Return all that is said, as arguments of a source."""
        tab = "\t" if self.delimiter in _TABS else self.delimiter
        pattern = tuple(self.pattern) if self.pattern else None
        given: dict[str, Any] = {"delimiter": tab, "pattern": pattern, "encoding": self.encoding}
        given |= {"by_heading": self.by_heading or None}
        given = {name: value for name, value in given.items() if value is not None}
        return self.mapping() | given | ({"quote": None} if self.no_quote else {})

    def mapping(self) -> dict[str, Any]:
        """Return the arguments all columnar sources share."""
        given = {part: value for part, value in self.columns.items() if value is not None}
        trust = _number(self.trust)
        return given if trust is None else {**given, "trust": trust}


class Inputs:
    """The SOURCE arguments.

    Args:
        given: As typed. What follows the URI of a data set on the Hub in the form ``key=value``
            belongs to it.
        form: Format of all of them, or None to go by the suffix.
        name: Of the one source they make together, or None for a source each.
        options: What the rows hold.
    """

    def __init__(
        self, given: Sequence[str], *, form: str | None, name: str | None, options: Options
    ) -> None:
        self._given = _with_keys(given)
        self._form = form
        self._name = name
        self._options = options

    def sources(self, problems: list[str] | None = None) -> list[tuple[str, Source]]:
        """Return every source with its name.

        Args:
            problems: Takes why an argument is none, and the others go on; by default that is an
                error. Of arguments that together make one source it always is.

        Raises:
            SourceError: Something does not exist, is of no known format, or has no name of its
                own; or two have one name.
        """
        from duckplets.sources.by_path import format_of, source_at

        if self._name is None:
            found = []
            for given in self._given:
                with _passed_over(problems, given):
                    form = format_of(given, self._form)
                    source = source_at(given, form, self._options.arguments())
                    found.append((source.default_name(), source, given))
            _refuse_namesakes([(name, given) for name, _, given in found])
            return [(name, source) for name, source, _ in found]
        inputs = [(given, format_of(given, self._form)) for given in self._given]
        arguments = self._options.arguments()
        return [
            (self._name, source_at(members if members[1:] else members[0], form, arguments))
            for form, members in _groups(inputs)
        ]


@contextmanager
def _passed_over(problems: list[str] | None, given: str | Path) -> Iterator[None]:
    """Note an error about what was given, where errors are noted, and go on after it."""
    try:
        yield
    except DuckpletsError as error:
        if problems is None:
            raise
        where = without_secrets(str(given))
        problems.append(str(error) if where in str(error) else f"{where}: {error}")


def _with_keys(given: Sequence[str]) -> list[str]:
    """Return the arguments, the keys of a data set on the Hub as one with its URI."""
    whole: list[str] = []
    for argument in given:
        is_key = "=" in argument and not Path(argument).exists()
        if is_key and whole and whole[-1].startswith(HUB_MARK):
            whole[-1] += f" {argument}"
        else:
            whole.append(argument)
    return whole


def _groups(inputs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Put arguments of one format together: they are stored as one, whole or not at all."""
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


def _refuse_namesakes(named: Iterable[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for name, given in named:
        if name in seen:
            raise SourceError(
                f"{seen[name]} and {given} would both be source {name!r}; make them one with "
                f"--name {name}, or ingest one at a time, each with its --name"
            )
        seen[name] = given


def _number(trust: str | None) -> float | str | None:
    """Return a number where one was typed, else the name of a column."""
    try:
        return None if trust is None else float(trust)
    except ValueError:
        return trust


# -- lists of sources ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundSource:
    """A source to ingest.

    Attributes:
        name: That it is to have.
        source: What reads it.
        where: What a failure of it is told by.
        data_set: That it is, in a file of data sets.
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
    options: Options,
    *,
    keep_going: bool,
) -> tuple[list[FoundSource], list[str]]:
    """Return all sources that arguments and lists name, and what is wrong with the others.

    Raises:
        typer.BadParameter: There is none, or an option is about what a file says itself.
        DuckpletsError: Something is wrong, and it is not to be passed over.
    """
    if form is not None and form not in FORMATS:
        known = f"{nearest(form, FORMATS)}: give one of {', '.join(FORMATS)}"
        raise typer.BadParameter(f"--format {form}{known}")
    files = [Path(each) for each in given if is_data_sets(each)]
    others = [each for each in given if not is_data_sets(each)]
    if not (files or others or lists):
        raise typer.BadParameter("give a SOURCE, or a --list of them")
    said = name or form or any(options.arguments().values()) or options.no_quote
    if said and (own := [*files, *lists]):
        raise typer.BadParameter(f"{own[0]} says itself what its data sets are named and hold")
    from duckplets.sources.converters.registry import search_first

    with suppress(OSError):  # the folder was deleted
        search_first(os.getcwd())
    inputs = Inputs(others, form=form, name=name, options=options)
    problems: list[str] = []
    passed = problems if keep_going else None
    found = [FoundSource(each, source, each) for each, source in inputs.sources(passed)]
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


def _listed(file: Path, problems: list[str]) -> list[FoundSource]:
    """Return the sources of a list, and note what is wrong with its lines."""
    from duckplets.sources.remote.hub import read_hub_lines

    sources, wrong = read_hub_lines(file)
    problems += wrong
    return [FoundSource(s.default_name(), s, f"{file}:{line}") for line, s in sources]


def _data_sets(file: Path) -> list[FoundSource]:
    """Return the sources that a file of data sets describes."""
    from duckplets.records.data_sets import load_data_sets

    sets = load_data_sets(file)
    return [FoundSource(each.name, each.source(), f"{file}: {each.name}", each) for each in sets]
