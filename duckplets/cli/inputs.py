"""Turn the SOURCE arguments and options of ``ingest`` into sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.formats import DATA_SETS, FORMATS, HUB_MARK, STDIN
from duckplets.base.sanitize import without_secrets
from duckplets.cli.app import search_here
from duckplets.errors import DuckpletsError, SourceError, nearest, several

if TYPE_CHECKING:
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source
    from duckplets.sources.collection import Collection

SOURCES = (
    *("sources.mapping:Mapped", "sources.formats.csv_file:CsvSource"),
    *("sources.formats.json_file:JsonSource", "sources.formats.text_file:TextFileSource"),
)
"""The classes whose fields are options."""
_OF_INGEST = ("prefix", "on_error")  # which a mapping has for itself, too
_TABS = ("tab", "\\t")
_PARTS = ("documents", "queries", "qrels")  # of a collection


def is_data_sets(given: str) -> bool:
    """Return whether an argument is a file that describes data sets."""
    return Path(given).suffix.lower() in DATA_SETS


def row_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that are arguments of a source."""
    from duckplets.sources.formats.csv_file import CsvSource
    from duckplets.sources.formats.json_file import JsonSource
    from duckplets.sources.formats.text_file import TextFileSource

    known = {of.name for kind in (CsvSource, JsonSource, TextFileSource) for of in fields(kind)}
    found = {name: given[name] for name in given if name in known and name not in _OF_INGEST}
    if "trust" in found:
        with suppress(ValueError):  # otherwise a column
            found["trust"] = float(found["trust"])
    if found.get("delimiter") in _TABS:
        found["delimiter"] = "\t"
    if "pattern" in found:
        found["pattern"] = tuple(found["pattern"])
    return found


def collection_in(given: Sequence[str], arguments: Mapping[str, Any]) -> Collection | None:
    """Return the collection that arguments name by parts, or a folder; None for other sources."""
    from duckplets.sources.collection import Collection, collection_of

    parts: dict[str, Any] = {}
    others = []
    for argument in given:
        part, sign, place = argument.partition("=")
        if not sign or part not in _PARTS or Path(argument).exists():
            others.append(argument)
            continue
        split, colon, file = place.partition(":")
        name = split if part == "qrels" and split.isalnum() and not file.startswith("//") else None
        found = parts.setdefault(part, {})
        if (name := name if colon else None) in found:
            raise typer.BadParameter(f"{argument}: {part}= is given twice")
        found[name] = place if name is None else file
    own = {name: value for name, value in arguments.items() if name != "trust"}
    if not parts:
        return collection_of(given[0], own) if len(given) == 1 and given[0] != STDIN else None
    if others:
        raise typer.BadParameter(
            f"{others[0]}: documents=, queries=, qrels= are all of a collection"
        )
    if own:
        raise typer.BadParameter(f"{next(iter(own))}: the columns of a collection tell its layout")
    alone = {name: parts[name][None] for name in ("documents", "queries") if name in parts}
    return Collection(**alone, qrels=parts.get("qrels"))


def found_in(
    given: Sequence[str],
    lists: Sequence[str],
    form: str | None,
    name: str | None,
    arguments: Mapping[str, Any],
    *,
    keep_going: bool,
) -> tuple[dict[str, Source | DataSet], list[str]]:
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
    from duckplets.records.data_sets import load_data_sets
    from duckplets.sources.by_path import format_of, source_at
    from duckplets.sources.remote.hub import read_hub_lines

    if form is not None and form not in FORMATS:
        known = f"{nearest(form, FORMATS)}: give one of {', '.join(FORMATS)}"
        raise typer.BadParameter(f"--format {form}{known}")
    files = [each for each in given if is_data_sets(each)]
    others = _with_keys([each for each in given if not is_data_sets(each)])
    if not (files or others or lists):
        raise typer.BadParameter("give a SOURCE, or a --list of them")
    if (name or form or arguments) and (own := [*files, *lists]):
        raise typer.BadParameter(f"{own[0]} says itself what its data sets are named and hold")
    search_here()
    found: dict[str, Source | DataSet] = {}
    problems: list[str] = []

    @contextmanager
    def passed_over(where: str) -> Iterator[None]:
        try:
            yield
        except DuckpletsError as error:
            if not keep_going:
                raise
            where = without_secrets(where)
            problems.append(str(error) if where in str(error) else f"{where}: {error}")

    def add(own: str, source: Source | DataSet) -> None:
        if own in found:
            raise SourceError(
                f"two sources would be {own!r}; make them one with --name {own}, or ingest one at "
                f"a time, each with its --name"
            )
        found[own] = source

    if name is not None:
        forms = {format_of(each, form, is_text="pattern" in arguments) for each in others}
        if len(forms) > 1:
            raise SourceError(
                f"--name {name}: these are of several formats, {', '.join(sorted(forms))}; ingest "
                f"those of one at a time"
            )
        add(name, source_at(others if others[1:] else others[0], forms.pop(), dict(arguments)))
        return found, problems
    for each in others:
        with passed_over(each):
            source = source_at(
                each, format_of(each, form, is_text="pattern" in arguments), dict(arguments)
            )
            add(source.default_name(), source)
    wrong: list[str] = []
    for file in lists:
        with passed_over(file):
            sources, of_file = read_hub_lines(Path(file))
            wrong += of_file
            for _, source in sources:
                add(source.default_name(), source)
    if wrong and not keep_going:
        raise SourceError(several(wrong))
    for file in files:
        with passed_over(file):
            for data_set in load_data_sets(file):
                add(data_set.name, data_set)
    return found, problems + wrong


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
