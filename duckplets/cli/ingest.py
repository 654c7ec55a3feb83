"""The commands `ingest` and `split`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.formats import DATA_SETS, FORMATS, STDIN
from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import as_typed, corpus_at, say, search_here, tell
from duckplets.cli.verbs import command
from duckplets.errors import ChunkingError, SourceError, nearest

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport
    from duckplets.sources.collection import Collection

_GATES = ("quality", "where", "limit")
_INTAKE = ("on_conflict", "on_error", "remap", "restart")
_PARTS = ("documents", "queries", "qrels")  # of a collection
_CHUNKING = ("max_tokens", "tokenizer")
_COLUMNS = (
    *("anchor", "positive", "negative", "context", "text", "sections", "label", "id", "group"),
    *("date", "meta", "converter", "pattern", "by_heading"),
)


@command(
    *("corpus.ingest:ingest", "sources.mapping:Mapped"),
    *("sources.formats.text_file:TextFileSource", "text.chunking:Chunking"),
    only=" ".join(("name", *_GATES, *_INTAKE, *_COLUMNS, *_CHUNKING)),
    places={"inputs": "SOURCE"},
    written={"pattern": "GLOB"},
)
def ingest(
    corpus: Path,
    inputs: list[str],
    format: str | None = None,  # noqa: A002 - it is the option's name
    in_place: bool = False,
    preview: int | None = None,
    json: bool = False,
    **settings: Any,
) -> None:
    """Store the records of files, with or without quality gates.

    The command creates a new corpus file if none exists. Each SOURCE becomes one source, named
    after its file; --name makes all of them one source. A source that fails stores nothing.
    Ingesting a source again adds new records. An interrupted ingest from the Hub continues with
    the same command.

    With --quality, --where or --limit texts pass through gates. The outcome of every row is stored
    with its reason. Several sources are read at the same time, and stored in the order of the
    arguments. Among equal texts the corpus comes first, then the first source. Reading a finished
    source again adds only appended rows.

    A BEIR folder becomes queries, documents and labels. The same is true of documents=FILE
    queries=FILE qrels=SPLIT:FILE. See the page on sources.

    Rare settings (encodings, delimiters, trust, weights, gates of one source, …) are keys of a
    file of sources. `duckplets.records.sources_file` describes it.

    Args:
        inputs (SOURCE): Files, globs, folders of text, hf://org/name/config/split, s3://bucket/key
            (gs:// or az:// too; a glob, or a folder ending with /), files of sources (.toml,
            .yaml), or - for JSON lines on stdin.
        format (FORMAT): csv, json, jsonl, parquet, …. [default: by the suffix]
        in_place: Leave the texts in their Parquet files, which must stay unchanged.
        preview: Show the first N rows as records, and store nothing.

    Example:
        duckplets ingest faq.duckdb faq.csv --anchor question --positive answer
        duckplets ingest faq.duckdb 'news/*.parquet' --name news --text body --date day
        duckplets ingest faq.duckdb hf://org/faq/default/train --anchor question --positive answer
        duckplets ingest faq.duckdb chats.jsonl --converter sharegpt --on-error quarantine
        duckplets ingest faq.duckdb docs --pattern '*.md' --pattern '*.txt' --preview 3
        duckplets ingest faq.duckdb documents=d.tsv queries=q.tsv qrels=dev:dev.trec --name marco
        duckplets ingest web.duckdb pages.jsonl --text text --quality code
        duckplets ingest web.duckdb pages.jsonl --name few --text text --quality c4 --limit 9
        duckplets ingest all.duckdb sources.toml
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.ingest import ingest_several
    from duckplets.db.files import wal_of
    from duckplets.ingest.options import IngestOptions
    from duckplets.sources.limits import Limits

    if corpus.suffix[1:].lower() in FORMATS:
        raise typer.BadParameter(f"{corpus} is no corpus: give the corpus first, NAME.duckdb")
    columns = {name: settings[name] for name in _COLUMNS if name in settings}
    if "pattern" in columns:
        columns["pattern"] = tuple(columns["pattern"])
    search_here()
    collection = None if format else _collection(inputs, columns)
    found: dict[str, Any] = {}
    if collection is None:
        found = _sources(inputs, format, settings.get("name"), columns)
    elif preview is not None:
        parts = collection.parts(Limits())
        named = () if isinstance(parts.documents, str) else (("documents", parts.documents),)
        found = dict([*named, ("queries", parts.queries)])
    if preview is not None:
        _preview(found, preview, settings.get("on_error"), json=json)
        return
    gates = {name: settings.get(name) for name in _GATES}
    intake = {name: settings[name] for name in _INTAKE if name in settings}
    reports: dict[str, IngestReport] = {}

    def each(name: str, report: Any) -> None:
        reports[name] = report
        say(*f"{shown(name)}: {report}".splitlines())

    is_new = not corpus.exists()
    with as_typed(Corpus(corpus), corpus) as opened:
        try:
            _set_chunking(opened, {name: settings[name] for name in _CHUNKING if name in settings})
            options = IngestOptions(in_place=in_place)
            if collection is None:
                ingest_several(opened, found, {}, gates, intake, options=options, each=each)
            else:
                own = {**gates, **intake, "name": settings.get("name")}
                report = opened.ingest(collection, options=options, **own)
                say(*str(report).splitlines())
                reports.update(report.parts)
        except KeyboardInterrupt:
            for unfinished in opened.unfinished():
                say(
                    f"stored {counted(unfinished['rows'], 'row')} of {unfinished['source']}; the "
                    f"same command continues there, and --restart discards them"
                )
            raise
        finally:
            output.show_ingested(reports, json=json)
            if is_new and opened.version == 0 and not opened.unfinished():
                for file in (opened.path, wal_of(opened.path)):  # a full disk leaves the second
                    file.unlink(missing_ok=True)  # while the lock is still held


def _collection(inputs: Sequence[str], columns: Mapping[str, Any]) -> Collection | None:
    """Return the collection named by its parts or its folder; None for other sources."""
    from duckplets.sources.collection import Collection, collection_of

    parts: dict[str, Any] = {}
    others = []
    for argument in inputs:
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
    if not parts:
        return (
            collection_of(inputs[0], dict(columns))
            if len(inputs) == 1 and inputs[0] != STDIN
            else None
        )
    if others:
        raise typer.BadParameter(
            f"{others[0]}: give documents=, queries= and qrels= without other sources"
        )
    if columns:
        raise typer.BadParameter(f"{next(iter(columns))}: a collection has fixed columns")
    alone = {name: parts[name][None] for name in ("documents", "queries") if name in parts}
    return Collection(**alone, qrels=parts.get("qrels"))


def _sources(
    inputs: Sequence[str], form: str | None, name: str | None, columns: Mapping[str, Any]
) -> dict[str, Any]:
    from duckplets.records.sources_file import load_sources
    from duckplets.sources.by_path import format_of, source_at

    if form is not None and form not in FORMATS:
        known = f"{nearest(form, FORMATS)}: give one of {', '.join(FORMATS)}"
        raise typer.BadParameter(f"--format {form}{known}")
    files = [path for path in inputs if Path(path).suffix.lower() in DATA_SETS]
    if files and (name or form or columns):
        raise typer.BadParameter(f"{files[0]} has the names, formats and columns of its sources")
    is_text = "pattern" in columns
    if name is not None:
        forms = {format_of(path, form, is_text=is_text) for path in inputs}
        if len(forms) > 1:
            raise SourceError(
                f"--name {name}: the files have several formats, {', '.join(sorted(forms))}; "
                f"ingest one format at a time"
            )
        place = inputs[0] if len(inputs) == 1 else [*inputs]
        return {name: source_at(place, forms.pop(), dict(columns))}
    found: dict[str, Any] = {}
    for path in inputs:
        made: list[Any] = load_sources(path) if path in files else []
        if path not in files:
            made = [source_at(path, format_of(path, form, is_text=is_text), dict(columns))]
        for source in made:
            own = source.name if path in files else source.default_name()
            if own in found:
                raise SourceError(
                    f"two sources have the name {own!r}; make them one with --name {own}, or "
                    f"ingest one at a time, each with its --name"
                )
            found[own] = source
    return found


def _set_chunking(corpus: Corpus, fields: Mapping[str, Any]) -> None:
    """Set the chunking of a new corpus; a corpus with records keeps its settings."""
    if not fields:
        return
    from duckplets.ingest.chunks import changed_chunking, fingerprint

    is_same = changed_chunking(corpus.database, fields).fingerprint() == fingerprint(
        corpus.database
    )
    if corpus.version and not is_same:
        raise ChunkingError(
            "--max-tokens and --tokenizer are for new corpora; to chunk this one again, call "
            f"Corpus.chunk({', '.join(f'{name}={value!r}' for name, value in fields.items())})"
        )
    if not is_same:
        corpus.chunk(**fields)


def _preview(found: Mapping[str, Any], rows: int, on_error: Any, *, json: bool) -> None:
    from duckplets.ingest.preview import preview
    from duckplets.records.sources_file import DescribedSource

    for name, one in found.items():
        source = one.source() if isinstance(one, DescribedSource) else one
        seen = preview(source, rows, on_error=on_error)
        if json:
            output.print_lines([{"source": name, **asdict(seen)}])
        else:
            tell(*f"{shown(name)}: {seen}".splitlines())


@command("ingest.splits:split", without={"given"})
def split(corpus: Path, **settings: Any) -> None:
    """Assign every record to train, validation or test.

    Later records get a split by the same shares and seed. With --keep-together text, anchors of
    validation and test are not in train. Case, accents and white space are ignored.

    Example:
        duckplets split faq.duckdb --train 0.9
        duckplets split faq.duckdb --keep-together text --reassign
    """
    from duckplets.corpus.status_text import shared_anchors

    with corpus_at(corpus) as opened:
        report = opened.split(**settings)
    output.show_table(("split", "records"), report.items())
    say(report.shares)
    for name, anchors in report.anchors.items():
        say(shared_anchors(name, anchors, report.shared_anchors[name]))
    if any(report.shared_anchors.values()) and settings.get("keep_together") != "text":
        say("to keep equal texts together: duckplets split … --keep-together text --reassign")
    if report.spanning:
        say(f"{counted(report.spanning, 'family', 'families')} with records in more than one split")
