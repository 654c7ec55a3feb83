"""Commands from files to records: `ingest` stores them, through gates too, and `split` divides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.cli.inputs import FoundSource, is_data_sets, names
from duckplets.cli.options import NORMALISE
from duckplets.cli.rows import given_of, source_parameters
from duckplets.cli.verbs import of_verb, optional, options_of, with_options
from duckplets.errors import DuckpletsError, SourceError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport

_GATES = ("quality", "where", "size_mb", "limit", "jsonl")
_READING = ("readers", "retries")  # of sources that are read at the same time
_ONE_BY_ONE = ("remap", "in_place")


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
        typer.Option(
            metavar="NAME", help="Only rows with one of these in the column license. Repeat it."
        ),
    ] = None,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Clean texts from now on, as chunk --denoise does.")
    ] = False,
    normalise: NORMALISE = None,
    preview: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only show the first N rows as records; nothing is stored."),
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

    rows = given_of(given)
    gated = license is not None or any(given.get(name) is not None for name in _GATES)
    rows.arguments.update({n: v for n, v in given.items() if n not in source_parameters()})
    meta: Sequence[str] = ()
    if license:
        from duckplets.quality.settings import Quality

        wanted = Quality.of(rows.arguments.get("quality") or Quality())
        rows.arguments["quality"] = Quality.of({**wanted.to_dict(), "licenses": names(license)})
        meta = () if any(map(is_data_sets, sources or ())) else ("license",)
    if gated and (told := [name for name in _ONE_BY_ONE if given.get(name)]):
        raise typer.BadParameter(f"--{told[0].replace('_', '-')} is for an ingest without gates")
    if not gated and (told := [name for name in _READING if given.get(name) is not None]):
        written = told[0].replace("_", "-")
        raise typer.BadParameter(f"--{written} is for an ingest through gates: give --quality")
    found, problems = rows.found(sources or [], keep_going=keep_going, meta=meta)
    say(*(f"failed: {problem}" for problem in problems))
    if preview is not None:
        arguments = rows.arguments
        output.show_records(found, preview, arguments["on_error"], arguments["limits"], json=json)
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
            take = _acquire if gated else _store
            take(opened, found, rows.arguments, problems, keep_going=keep_going, json=json)
        finally:
            if is_new and opened.version == 0 and not opened.unfinished():
                opened.path.unlink(missing_ok=True)  # while nobody else can have it open


def _store(
    corpus: Corpus,
    found: Sequence[FoundSource],
    arguments: Mapping[str, Any],
    problems: list[str],
    *,
    keep_going: bool,
    json: bool,
) -> None:
    """Ingest sources one after the other; those before one that fails are stored, and said so."""
    reports: list[tuple[str, IngestReport]] = []
    try:
        for each in found:
            try:
                reports.append((each.name, _ingested(corpus, each, arguments)))
                _tell(*reports[-1])
            except DuckpletsError as error:
                if not keep_going:
                    raise
                problems.append(f"{each.where}: {error}")
                say(f"failed: {problems[-1]}")
    except KeyboardInterrupt:
        output.say_kept(corpus.unfinished())
        raise
    finally:
        output.show_ingested(reports, json=json)
    _end(len(reports), problems)


def _acquire(
    corpus: Corpus,
    found: Sequence[FoundSource],
    arguments: Mapping[str, Any],
    problems: list[str],
    *,
    keep_going: bool,
    json: bool,
) -> None:
    """Acquire sources side by side; those before one that fails are stored, and said so."""
    how = {name: value for name, value in arguments.items() if name not in _ONE_BY_ONE}
    how.setdefault("quality", None)
    reports: list[tuple[str, IngestReport]] = []

    def each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            problems.append(str(report))
            say(f"failed: {report}")
        else:
            reports.append((name, report))
            _tell(name, report)

    wanted: dict[str, Any] = {}
    for one in found:
        if one.name in wanted:
            raise SourceError(f"two sources would be {one.name!r}: ingest them one at a time")
        wanted[one.name] = one.data_set or one.source
    before = corpus.acquisitions()["acquisition_id"].to_pylist()
    try:
        corpus.acquire(wanted, each=each, keep_going=keep_going, **how)
    except KeyboardInterrupt:
        output.say_kept(corpus.unfinished())
        raise
    except DuckpletsError:
        if not keep_going or not problems:  # else each was said
            raise
    finally:
        output.show_ingested(reports, json=json)
        with suppress(DuckpletsError):  # of a corpus that failed nothing can be read
            _summarise(corpus, before)
    _end(len(reports), problems)


def _tell(name: str, report: IngestReport) -> None:
    say(*f"{shown(name)}: {report}".splitlines())


def _end(stored: int, problems: Sequence[str]) -> None:
    if problems:
        say(f"{counted(stored, 'source')} stored, {len(problems):,} failed")
        raise typer.Exit(1)


def _summarise(corpus: Corpus, before: Sequence[int]) -> None:
    """Say what the intakes of a command have taken in, but those that had begun before."""
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
    from duckplets.corpus.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        report = opened.split(**given)
    if 0 < sum(name in given for name in ("train", "validation", "test")) < 3:
        used = report.settings
        say(f"shares: train {used.train:g}, validation {used.validation:g}, test {used.test:g}")
    output.show_split(report, given["keep_together"])


def _intake() -> list[Any]:
    """Return the options of ``Corpus.ingest`` and, where several are read, ``Corpus.acquire``."""
    without = {"source", "sources", "each", "name", "trust", "prefix", "on_error", "limits"}
    of_ingest = options_of("corpus.ingest:ingest", without=without)
    every = options_of("corpus.quality:acquire", without=without)
    return [*of_ingest, *(optional(each) for each in every if each.name in _READING)]


ingest = with_options([*source_parameters().values(), *_intake()])(ingest)
