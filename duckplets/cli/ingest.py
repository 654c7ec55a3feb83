"""The commands `ingest`, with and without gates, and `split`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from duckplets.base.formats import FORMATS
from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import as_typed, corpus_at, say, tell
from duckplets.cli.inputs import SOURCES, collection_in, found_in, is_data_sets, row_options
from duckplets.cli.verbs import command
from duckplets.errors import DuckpletsError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source

_GATES = ("quality", "where", "size_mb", "limit")
_OF_INTAKE = (
    *("on_conflict", "prefix", "on_error", "remap", "restart", "in_place", "jsonl", "engine"),
    *("readers", "retries"),
)


@command(
    *("corpus.ingest:ingest", "corpus.ingest:acquire", *SOURCES),
    places={"inputs": "SOURCE"},
    without=(
        "source",
        "sources",
        "each",
        "limits",
        "path",
        "folder",
        "quote",
        "trust_by_folder",
        "in_pieces",
    ),
    written={"date_format": "FORM", "pattern": "GLOB", "labels": "NAME:NUMBER,…"},
)
def ingest(
    corpus: Path,
    inputs: list[str] | None = None,
    lists: list[str] | None = None,
    format: str | None = None,  # noqa: A002 - it is the option's name
    no_quote: bool = False,
    max_row: str | None = None,
    max_field: str | None = None,
    max_columns: int | None = None,
    reader_memory: str | None = None,
    licenses: list[str] | None = None,
    denoise: bool = False,
    normalise: Literal["text", "code"] | None = None,
    preview: int | None = None,
    keep_going: bool = False,
    json: bool = False,
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

    A BEIR folder becomes queries, documents and labels, as do documents=FILE queries=FILE
    qrels=SPLIT:FILE: see the page on sources.

    Args:
        inputs: Files, globs, text files or folders of them, s3://bucket/key, gs:// or az:// so
            (also a glob, or a folder ending with /), hf://org/name/config/split with its keys,
            data-set files (.yaml, .toml), or - for JSON lines on stdin.
        lists (--list FILE): A file of hf:// lines, each a source.
        format (FORMAT): csv, json, jsonl, parquet, …. [default: of the suffix]
        no_quote: In CSV files a quote is plain text.
        max_row (SIZE): The largest row, of a line or a text file. [default: 128MB]
        max_field (SIZE): The largest value of a row. [default: 64MB]
        max_columns: The most columns, or different keys of JSON objects. [default: 10000]
        reader_memory (SIZE): Memory that reading may take. [default: 512MB]
        licenses (--license NAME,…): Only rows with one of these in the column license.
        denoise: Clean texts from now on, as chunk --denoise does.
        normalise: text: one form of white space, quotes and punctuation; code: of line ends only.
        preview: Only show the first N rows as records; nothing is stored.
        keep_going: After a source that fails, or is not there, go on with the others.

    Example:
        duckplets ingest faq.duckdb faq.csv --anchor question --positive answer
        duckplets ingest faq.duckdb 'news/*.parquet' --name news --text body --date day
        duckplets ingest faq.duckdb hf://org/faq/default/train anchor=question positive=answer
        duckplets ingest faq.duckdb chats.jsonl --converter sharegpt --on-error quarantine
        duckplets ingest faq.duckdb docs --pattern '*.md' --pattern '*.rst' --preview 3
        duckplets ingest faq.duckdb documents=d.tsv queries=q.tsv qrels=dev:dev.trec --name marco
        duckplets ingest web.duckdb pages.jsonl --text text --quality code --size-mb 50
        duckplets ingest web.duckdb pages.jsonl --name few --text text --quality c4 --limit 9
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.db.files import wal_of
    from duckplets.sources.limits import Limits

    if corpus.suffix[1:].lower() in FORMATS:
        raise typer.BadParameter(f"{corpus} is no corpus: give the corpus first, NAME.duckdb")
    sizes = {"row": max_row, "field": max_field, "columns": max_columns, "memory": reader_memory}
    given_sizes: dict[str, Any] = {n: size for n, size in sizes.items() if size is not None}
    limits = Limits(**given_sizes)
    how = {name: given[name] for name in (*_GATES, *_OF_INTAKE) if name in given}
    rows = row_options(given) | ({"quote": None} if no_quote else {})
    if licenses:
        from duckplets.quality.settings import Quality

        wanted = Quality.of(how.get("quality") or Quality())
        how["quality"] = Quality.of({**wanted.to_dict(), "licenses": licenses})
        if not any(map(is_data_sets, inputs or ())):
            rows["meta"] = list(dict.fromkeys([*rows.get("meta", ()), "license"]))
    name, problems = given.get("name"), list[str]()
    found: dict[str, Source | DataSet] = {}
    collection = None if lists or format else collection_in(inputs or [], rows)
    if collection is None:
        found, problems = found_in(
            *(inputs or [], lists or [], format, name, rows), keep_going=keep_going
        )
    elif preview is not None:
        parts = collection.parts(limits)
        found = {"queries": parts.queries}
        if not isinstance(parts.documents, str):
            found = {"documents": parts.documents, **found}
    say(*(f"failed: {problem}" for problem in problems))
    if preview is not None:
        _preview(found, preview, how.get("on_error"), limits, json=json)
        if problems:
            raise typer.Exit(1)
        return
    how = {"quality": None, "limits": limits, "keep_going": keep_going, **how}
    if not any(name in how and how[name] is not None for name in _GATES):
        how = {"readers": 1, "retries": 0, **how}
    is_new = not corpus.exists()
    with as_typed(Corpus(corpus), corpus) as opened:
        try:
            if denoise:
                opened.denoise()
            if normalise is not None:
                from duckplets.text.normaliser import Normaliser

                opened.normalise(Normaliser(code=normalise == "code"))
            if collection is not None:
                for left_out in ("keep_going", "readers", "retries"):
                    how.pop(left_out, None)
                how["trust"] = rows.get("trust")
                report: Any = opened.ingest(collection, name=name, **how)
                say(*str(report).splitlines())
                output.show_ingested(report.parts, json=json)
            else:
                _store(opened, found, problems, how, json=json)
        finally:
            if is_new and opened.version == 0 and not opened.unfinished():
                for file in (opened.path, wal_of(opened.path)):  # a full disk leaves the second
                    file.unlink(missing_ok=True)  # while the lock is still held


def _preview(
    found: Mapping[str, Source | DataSet], rows: int, on_error: Any, limits: Any, *, json: bool
) -> None:
    """Print the first records that each source would become."""
    from duckplets.ingest.preview import preview
    from duckplets.records.data_sets import DataSet

    for name, one in found.items():
        source = one.source() if isinstance(one, DataSet) else one
        seen = preview(source, rows, on_error=on_error, limits=limits)
        if json:
            output.print_lines([{"source": name, **asdict(seen)}])
        else:
            tell(*f"{shown(name)}: {seen}".splitlines())


def _store(
    corpus: Corpus,
    found: Mapping[str, Source | DataSet],
    problems: list[str],
    how: Mapping[str, Any],
    *,
    json: bool,
) -> None:
    """Store sources, and report each."""
    reports: dict[str, IngestReport] = {}

    def each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            problems.append(str(report))
            say(f"failed: {report}")
        else:
            reports[name] = report
            say(*f"{shown(name)}: {report}".splitlines())

    try:
        corpus.acquire(found, each=each, **how)
    except KeyboardInterrupt:
        for kept in corpus.unfinished():
            say(
                f"kept of {kept['source']}: {counted(kept['rows'], 'row')}; the same command goes "
                f"on from there, and --restart discards what is kept"
            )
        raise
    except DuckpletsError:
        if not how["keep_going"] or not problems:  # each was reported already
            raise
    finally:
        output.show_ingested(reports, json=json)
    if problems:
        say(f"{counted(len(reports), 'source')} stored, {len(problems):,} failed")
        raise typer.Exit(1)


@command("ingest.splits:split")
def split(corpus: Path, **given: Any) -> None:
    """Assign every record to train, validation or test.

    Records ingested later get theirs by the same shares and seed. With --keep-together text no
    anchor of validation or test is one of train, but for case, accents and white space.

    Example:
        duckplets split faq.duckdb --train 0.9
        duckplets split faq.duckdb --keep-together text --reassign
    """
    from duckplets.corpus.status_text import shared_anchors

    with corpus_at(corpus) as opened:
        report = opened.split(**given)
    output.show_table(("split", "records"), report.items())
    say(report.shares)
    for name, anchors in report.anchors.items():
        say(shared_anchors(name, anchors, report.shared_anchors[name]))
    if any(report.shared_anchors.values()) and given.get("keep_together") != "text":
        say("to keep equal texts together: duckplets split … --keep-together text --reassign")
    if report.spanning:
        say(f"{counted(report.spanning, 'family', 'families')} with records in more than one split")
