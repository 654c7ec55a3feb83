"""The commands `ingest`, with and without gates, and `split`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.formats import FORMATS
from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say
from duckplets.cli.inputs import (
    FoundSource,
    arguments_of,
    found_in,
    is_data_sets,
    limits_of,
    source_options,
)
from duckplets.cli.options import NORMALISE
from duckplets.cli.verbs import names, of_verb, option, optional, options_of, with_options
from duckplets.errors import DuckpletsError, SourceError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport

_GATES = ("quality", "where", "size_mb", "limit", "jsonl")
_READING = ("readers", "retries")  # options of concurrent reading
_ONE_BY_ONE = ("remap", "in_place")
_FROM_PATHS = {"source", "sources", "each", "trust", "limits", "keep_going"}

_INTAKE = options_of("corpus.ingest:ingest", without=_FROM_PATHS)
_SIDE_BY_SIDE = options_of(
    "corpus.quality:acquire", without={p.name for p in _INTAKE} | _FROM_PATHS
)
_SOURCE = source_options()


@with_options([*_SOURCE, *_INTAKE, *map(optional, _SIDE_BY_SIDE)])
def ingest(
    corpus: CORPUS,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files, globs, text files or folders of them, s3://bucket/key, gs:// or az:// so "
            "(also a glob, or a folder ending with /), hf://org/name/config/split with its keys, "
            "data-set files (.yaml, .toml), or - for JSON lines on stdin.",
        ),
    ] = None,
    license: Annotated[  # noqa: A002 - it is the option's name
        list[str] | None,
        option("Only rows with one of these in the column license. Repeat it.", "NAME"),
    ] = None,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Clean texts from now on, as chunk --denoise does.")
    ] = False,
    normalise: NORMALISE = None,
    preview: Annotated[
        int | None,
        option("Only show the first N rows as records; nothing is stored.", "N"),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="After a source that fails, or is not there, go on with the others.",
        ),
    ] = False,
    json: JSON = False,
    **given: Any,
) -> None:
    """Store the records of files, through gates or without.

    The corpus is created if it is new. Each SOURCE becomes a source of its own, named after its
    file; with --name all are one. Nothing of a source is stored if it fails. Ingesting it again
    adds what is new. From the Hub texts come in pieces: what was interrupted goes on where it
    stopped, by the same command.

    With --quality, --where, --size-mb, --limit or --license texts go through gates, and what
    became of every row is noted and why. Several sources are then read at the same time, and
    stored in the order in which they are given: of equal texts the first is kept, those of the
    corpus come before. A finished source gives only what was appended to it. What a data-set file
    says of quality, where, size_mb and limit holds for its data set instead of these options.

    Example:
        duckplets ingest faq.duckdb faq.csv --anchor question --positive answer
        duckplets ingest faq.duckdb 'news/*.parquet' --name news --text body --date day
        duckplets ingest faq.duckdb hf://org/faq/default/train anchor=question positive=answer
        duckplets ingest faq.duckdb chats.jsonl --converter sharegpt --on-error quarantine
        duckplets ingest faq.duckdb docs --pattern '*.md' --pattern '*.rst' --preview 3
        duckplets ingest web.duckdb pages.jsonl --text text --quality code --size-mb 50
        duckplets ingest web.duckdb pages.jsonl --name few --text text --quality c4 --limit 9
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    from duckplets.corpus.corpus import Corpus

    if corpus.suffix[1:].lower() in FORMATS:
        raise typer.BadParameter(f"{corpus} is no corpus: give the corpus first, NAME.duckdb")
    of_source = {p.name for p in _SOURCE}
    how = {n: v for n, v in given.items() if n not in of_source and n != "name"}
    how |= {"limits": limits_of(given)}
    gated = license is not None or any(how.get(name) is not None for name in _GATES)
    if gated and (wrong := [name for name in _ONE_BY_ONE if how.get(name)]):
        raise typer.BadParameter(f"--{wrong[0].replace('_', '-')} is for an ingest without gates")
    if not gated and (wrong := [name for name in _READING if how.get(name) is not None]):
        raise typer.BadParameter(f"--{wrong[0]} is for an ingest through gates: give --quality")
    rows = {n: v for n, v in given.items() if n in of_source - _NO_COLUMNS}
    if license:
        from duckplets.quality.settings import Quality

        wanted = Quality.of(how.get("quality") or Quality())
        how["quality"] = Quality.of({**wanted.to_dict(), "licenses": names(license)})
        if not any(map(is_data_sets, sources or ())):
            rows["meta"] = list(dict.fromkeys([*rows.get("meta", ()), "license"]))
    found, problems = found_in(
        sources or [],
        given.get("list", []),
        given.get("format"),
        given.get("name"),
        arguments_of(rows),
        keep_going=keep_going,
    )
    say(*(f"failed: {problem}" for problem in problems))
    if preview is not None:
        for each in found:
            try:
                output.show_records(each, preview, how.get("on_error"), how["limits"], json=json)
            except SourceError as error:
                if not keep_going:
                    raise
                problems.append(str(error))
                say(f"failed: {each.name}: {error}")
        if problems:
            raise typer.Exit(1)
        return
    is_new = not corpus.exists()
    with Corpus(corpus) as opened:
        try:
            if denoise:
                opened.denoise()
            if normalise is not None:
                from duckplets.text.normaliser import Normaliser

                opened.normalise(Normaliser(code=normalise == "code"))
            _store(opened, found, problems, how, gated=gated, keep_going=keep_going, json=json)
        finally:
            if is_new and opened.version == 0 and not opened.unfinished():
                opened.path.unlink(missing_ok=True)  # while the lock is still held


_NO_COLUMNS = {"list", "format", "max_row", "max_field", "max_columns", "reader_memory"}


def _store(
    corpus: Corpus,
    found: Sequence[FoundSource],
    problems: list[str],
    how: Mapping[str, Any],
    *,
    gated: bool,
    keep_going: bool,
    json: bool,
) -> None:
    """Store sources, concurrently through gates, and report each."""
    reports: list[tuple[str, IngestReport]] = []

    def each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            problems.append(str(report))
            say(f"failed: {report}")
        else:
            reports.append((name, report))
            say(*f"{shown(name)}: {report}".splitlines())

    before = corpus.acquisitions()["acquisition_id"].to_pylist()
    try:
        if gated:
            asked = {name: value for name, value in how.items() if name not in _ONE_BY_ONE}
            asked.setdefault("quality", None)
            corpus.acquire(_by_name(found), each=each, keep_going=keep_going, **asked)
            found = ()
        for one in found:
            try:
                each(one.name, _ingested(corpus, one, how))
            except DuckpletsError as error:
                if not keep_going:
                    raise
                each(one.name, SourceError(f"{one.where}: {error}"))
    except KeyboardInterrupt:
        output.say_kept(corpus.unfinished())
        raise
    except DuckpletsError:
        if not keep_going or not problems:  # each was reported already
            raise
    finally:
        output.show_ingested(reports, json=json)
        with suppress(DuckpletsError):  # a failed corpus may be unreadable
            _summarise(corpus, before)
    if problems:
        say(f"{counted(len(reports), 'source')} stored, {len(problems):,} failed")
        raise typer.Exit(1)


def _by_name(found: Sequence[FoundSource]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for one in found:
        if one.name in wanted:
            raise SourceError(f"two sources would be {one.name!r}: ingest them one at a time")
        wanted[one.name] = one.data_set or one.source
    return wanted


def _summarise(corpus: Corpus, before: Sequence[int]) -> None:
    """Print the counts of the intakes that began with this command."""
    for row in corpus.acquisitions().to_pylist():
        if row["acquisition_id"] in before or row["ended_at"] is None:
            continue
        seconds = max((row["ended_at"] - row["started_at"]).total_seconds(), 1e-3)
        counts = ", ".join(
            f"{row[name]:,} {name}" for name in ("accepted", "filtered", "rejected", "unreadable")
        )
        share, size = row["accepted"] / max(row["read"], 1), row["accepted_bytes"] / 1e6
        say(
            f"{shown(row['source'])}: {row['read']:,} rows: {counts}; {share:.1%} and "
            f"{size:,.3f} MB accepted, {row['read'] / seconds:,.0f} rows/s"
        )


def _ingested(corpus: Corpus, found: FoundSource, arguments: Mapping[str, Any]) -> IngestReport:
    own = {}
    if found.data_set:
        from duckplets.records.data_set_gates import check_cleaning

        check_cleaning([(found.name, found.data_set.clean)], corpus.chunking())
        own = found.data_set.gates
    report = corpus.ingest(found.source, name=found.name, **{**arguments, **own})
    if found.data_set and found.name in corpus.sources()["name"].to_pylist():
        corpus.set_index_controls(found.name, **asdict(found.data_set.controls))
    return report


@of_verb("ingest.splits:split")
def split(corpus: CORPUS, **given: Any) -> None:
    """Assign every record to train, validation or test.

    Records ingested later get theirs by the same shares and seed. With --keep-together text no
    anchor of validation or test is one of train, but for case, accents and white space.

    Example:
        duckplets split faq.duckdb --train 0.9
        duckplets split faq.duckdb --keep-together text --reassign
    """
    with corpus_at(corpus) as opened:
        report = opened.split(**given)
    if 0 < sum(name in given for name in ("train", "validation", "test")) < 3:
        used = report.settings
        say(f"shares: train {used.train:g}, validation {used.validation:g}, test {used.test:g}")
    output.show_split(report, given["keep_together"])
