"""The verbs of a corpus that take text in: one source, or several through gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, shown
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.work import working
from duckplets.errors import DuckpletsError, SourceError, several

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.ingest.prepare import OnConflict, PreparedIngest
    from duckplets.ingest.records import IngestReport
    from duckplets.quality.intake import QualityGates
    from duckplets.quality.settings import Quality
    from duckplets.records.data_sets import DataSet
    from duckplets.sources import Source
    from duckplets.sources.limits import Limits
    from duckplets.sources.mapping import OnError
    from duckplets.text.prefix import Prefix


@changes("ingest")
def ingest(
    corpus: CorpusFile,
    /,
    source: Any,
    *,
    name: str | None = None,
    trust: float | str | None = None,
    on_conflict: OnConflict = "error",
    prefix: Prefix | str | None = None,
    on_error: OnError | None = None,
    remap: bool = False,
    restart: bool = False,
    limits: Limits | None = None,
    quality: Quality | Any = None,
    where: str | None = None,
    size_mb: float | None = None,
    limit: int | None = None,
    jsonl: str | PathLike[str] | None = None,
    in_place: bool = False,
    engine: Any = None,
    progress: Progress | bool | None = None,
    **arguments: Any,
) -> IngestReport:
    """Store the records of a source, whole or not at all.

    An ingest of a ``HubSource``, a custom source or one with ``in_pieces=True`` that stops half-way
    goes on there when it is called again. With ``quality``, ``where``, ``size_mb`` or ``limit``
    all files do, what became of every row is noted in the table ``judgements``, and the same
    call again reads only what was appended.

    Args:
        source: What to read: a path as the command line takes it (a file, whose suffix
            says its format, a folder of text, a glob, ``s3://bucket/key``, ``gs://`` or ``az://``
            so, an ``hf://`` line),
            dictionaries in a list or any iterable, a frame of polars or pandas, an Arrow table or
            reader, a relation of DuckDB, anything with ``__arrow_c_stream__``, a data set of
            ``datasets``, one of the sources of this package, or any object with a ``name`` and
            ``batches(cursor)``.
        name: Name of the source; by default that of the file. Ingesting again under a name
            adds what is new.
        trust: Trust in the source, from 0 to 1, or for a path or data a column. Default: 0.5.
        on_conflict: For known ids with other content: ``error``, ``skip``, or ``replace``.
        prefix: Metadata that is shown before half of the texts of all its records, such as
            ``"source,date"``; as for ``set_prefix``.
        on_error: What becomes of rows that cannot be used, whatever the source says: ``raise``
            names the first, ``skip`` counts them and tells the first of each reason,
            ``quarantine`` keeps them besides, in the table of that name.
        remap: Allow another mapping than the source was read with: what it has now takes the
            place of all its records, in one version; equal ones stay, and of two rows with
            one id the last holds.
        restart: Discard what an unfinished ingest of this name has stored, and begin anew.
        limits: Of memory, rows and fields; by default ``Limits()``, which no honest file meets.
        quality: Gates for its texts: settings, a preset or a TOML file; see ``Quality``. Equal
            texts are rejected but for the first, records of the corpus come before.
        where: A condition on rows in SQL, over record_id, source, date, group_key, taxonomy,
            meta, trust, created_at, updated_at and text; others are skipped, before any gate.
        size_mb: Read no further once the accepted texts of the source have so many 10^6 bytes
            of UTF-8; at most one record more.
        limit: Read no further once so many records were accepted.
        jsonl: A file of JSON lines, as of ``export``, for all records of the corpus when the ingest
            ends, also by an error or Ctrl-C, in place of what such an export has written there
            before. After a kill the same call writes it.
        in_place: Leave the texts of a ``ParquetSource`` in its files, which must stay as they
            are; the corpus has where each text is, and all else: some 65 bytes a record,
            however long its texts are, which the report's notes say.
        engine: What reads files, cleans and measures, as for ``mine``: workers see files, and
            a folder beside the corpus, by the same paths. Other sources are read here.
        progress: Called with rows read and their number if known; True or False for a bar
            on stderr or none, by default a bar if stderr is a terminal.
        arguments: Of the source of a path or of data, such as ``anchor="question",
            positive="answer"``, ``pattern="*.md"`` or ``delimiter=";"``; ``format="csv"`` where
            the suffix does not tell it.

    Returns:
        Counts of rows read, added, skipped and failed, by reason.

    Raises:
        SourceError: The source cannot be read, exceeds a limit, has no usable row, or ids that
            conflict; it was read with another mapping; another ingest of that name is
            unfinished; or ``jsonl`` cannot be written, or is there and no such export.
        ChangedFileError: Records are gone from files that texts were left in.
    """
    from duckplets.export.record_lines import exported_at_the_end
    from duckplets.ingest import ingest
    from duckplets.sources.by_path import given_source, takes_columns
    from duckplets.text.prefix import prefix_of

    if isinstance(trust, str) and takes_columns(source):
        arguments, trust = {**arguments, "trust": trust}, None
    source = given_source(source, arguments)
    gates = _gates(quality, where=where, size_mb=size_mb, limit=limit)
    with (
        working(engine, progress, note=_note([gates])) as work,
        exported_at_the_end(corpus.database, jsonl),
    ):
        return ingest.ingest(
            corpus.database,
            source,
            name=name,
            trust=trust,
            on_conflict=on_conflict,
            prefix=prefix_of(prefix),
            on_error=on_error,
            remap=remap,
            restart=restart,
            limits=limits,
            gates=gates,
            in_place=in_place,
            work=work,
        )


@changes("ingest")
def acquire(
    corpus: CorpusFile,
    /,
    sources: Sequence[Any] | Mapping[str, Any] | str | PathLike[str],
    *,
    quality: Quality | Any = "general",
    where: str | None = None,
    size_mb: float | None = None,
    limit: int | None = None,
    jsonl: str | PathLike[str] | None = None,
    on_conflict: OnConflict = "error",
    prefix: Prefix | str | None = None,
    on_error: OnError | None = None,
    remap: bool = False,
    restart: bool = False,
    limits: Limits | None = None,
    in_place: bool = False,
    readers: int = 4,
    retries: int = 5,
    keep_going: bool = False,
    engine: Any = None,
    each: Callable[[str, IngestReport | DuckpletsError], None] | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, IngestReport]:
    """Take sources in through gates, reading several at the same time.

    What is stored is what ``ingest`` of one after the other stores, whichever is quicker: of
    equal texts the one of the first source is kept. Of rows that were read before their turn
    some 32 MB a source wait in memory. A source that fails by what may pass (a network, a server,
    a source's own ``OSError``) is read on from its last mark, after 1, 2, 4, … seconds; the
    report tells how often. A source that fails for good ends the call, and those after it are
    not stored, since texts of theirs may be its own; the same call again goes on there.

    Args:
        sources: What to read, in the order of precedence: sources as for ``ingest``, data sets
            of ``load_data_sets``, or such by the names they are to have; or a data-set file.
        quality: Gates, as for ``ingest``. What a data set says itself of ``quality``,
            ``where``, ``size_mb`` and ``limit`` holds for it instead.
        where: As for ``ingest``.
        size_mb: As for ``ingest``, of each source. Rows beyond it are not stored or judged,
            though some may have been read ahead.
        limit: As for ``ingest``, of each source.
        jsonl: As for ``ingest``.
        on_conflict: As for ``ingest``; ``error`` or ``skip`` where there are gates.
        prefix: As for ``ingest``.
        on_error: As for ``ingest``.
        remap: As for ``ingest``, where there are no gates.
        restart: As for ``ingest``, before anything is read.
        limits: As for ``ingest``, of each reader.
        in_place: As for ``ingest``, where there are no gates.
        readers: So many are read at the same time, the one that is being stored included.
        retries: How often a source is read on after an error, without a further row.
        keep_going: Store the sources after one that failed, too. Of equal texts in both they
            then have theirs accepted.
        engine: As for ``ingest``: it reads the files of all sources, one source ahead of the
            other. ``retries`` are of the others, read here.
        each: Called with the name and report of every source when it is stored, and with
            ``keep_going`` with the error of one that failed.
        progress: As for ``ingest``, of the source that is being stored.

    Returns:
        The report of each source, by its name.

    Raises:
        SourceError: As for ``ingest``, naming the source; two have one name; or one is shuffled
            as it streams.
        QualityError: As for ``ingest``.
    """
    from duckplets.export.record_lines import exported_at_the_end
    from duckplets.ingest.chunks import current_chunking
    from duckplets.ingest.ingest import ingest_all
    from duckplets.ingest.prepare import prepare, refuse_shuffled
    from duckplets.records.data_set_gates import check_cleaning
    from duckplets.records.index_controls import keep_controls
    from duckplets.text.prefix import prefix_of

    for what, value, least in (("readers", readers, 1), ("retries", retries, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1000:
            raise SourceError(f"{what}={value!r}: give a whole number from {least} to 999")
    judged = {"quality": quality, "where": where, "size_mb": size_mb, "limit": limit}
    asked: dict[str, Any] = {"on_conflict": on_conflict, "prefix": prefix_of(prefix)}
    asked |= {"on_error": on_error, "remap": remap, "restart": restart, "limits": limits}
    wanted = _wanted(sources)
    gates = {name: _gates(**judged | one.gates) for name, one in wanted.items()}
    reports: dict[str, IngestReport] = {}
    failed: list[str] = []

    def report_each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            report = _naming(name, report)
            if not keep_going:
                raise report
            failed.append(str(report))
        else:
            if (data_set := wanted[name].data_set) is not None:
                keep_controls(corpus.database, name, data_set.controls)
            reports[name] = report
        if each is not None:
            each(name, report)

    ready: list[PreparedIngest] = []
    with (
        working(engine, progress, note=_note([*gates.values()])) as work,
        exported_at_the_end(corpus.database, jsonl),
    ):
        for name, one in wanted.items():
            try:
                if one.data_set is not None:
                    clean = one.data_set.clean
                    check_cleaning(one.data_set.name, clean, current_chunking(corpus.database))
                refuse_shuffled(one.source)
                own: dict[str, Any] = {"name": name, "gates": gates[name], "in_place": in_place}
                ready.append(prepare(corpus.database, one.source, **asked, **own))
            except DuckpletsError as error:
                report_each(name, error)
        how = {"readers": readers, "retries": retries}
        with closing(ingest_all(corpus.database, ready, work, **how)) as stored:
            for prepared, report in stored:
                report_each(prepared.name, report)
    if failed:
        said = f"{counted(len(failed), 'source')} of {len(wanted):,} failed"
        raise SourceError("\n".join([said, several(failed)]))
    return reports


def ingest_data_sets(
    corpus: CorpusFile,
    /,
    path: str | PathLike[str] | Mapping[str, Mapping[str, Any]],
    **how: Any,
) -> dict[str, IngestReport]:
    """Ingest every data set that a YAML or TOML file or a mapping describes, one by one.

    Their sizes and weights are kept for ``data_index``; ``acquire`` reads them side by side.

    Args:
        path: The file, or what would stand in one; see ``load_data_sets``.
        how: Other arguments of ``acquire``.

    Raises:
        SourceError: The file is wrong, and then nothing is read; or as for ``ingest``.
    """
    from duckplets.records.data_sets import load_data_sets

    sets = load_data_sets(path) if isinstance(path, Mapping) else path
    return acquire(corpus, sets, quality=None, readers=1, retries=0, **how)


def sources(corpus: CorpusFile, /) -> pa.Table:
    """Return the sources with their counts, by name."""
    return corpus.database.table("corpus/status/sources")


class _Wanted(NamedTuple):
    """A source to take in, with the settings of its data set."""

    source: Source
    gates: dict[str, Any]
    data_set: DataSet | None


def _wanted(sources: Any) -> dict[str, _Wanted]:
    """Return what is to be taken in by name, in order.

    Raises:
        SourceError: An entry is no source, two share a name, or a file is wrong.
    """
    from duckplets.records.data_sets import DataSet, load_data_sets
    from duckplets.sources.custom.protocol import adapted

    if isinstance(sources, str | PathLike):
        sources = load_data_sets(sources)
    if not isinstance(sources, Iterable):
        kind = type(sources).__name__
        raise SourceError(f"sources={kind}: give several in a list, or by name")
    by_name = sources.items() if isinstance(sources, Mapping) else ((None, s) for s in sources)
    found: dict[str, _Wanted] = {}
    for name, each in by_name:
        if isinstance(each, DataSet):
            one, own = _Wanted(each.source(), each.gates, each), each.name
        else:
            one = _Wanted(adapted(each), {}, None)
            own = one.source.default_name()
        name = own if name is None else name
        if name in found:
            raise SourceError(
                f"two sources would be {shown(repr(name))}: give them by names of their own"
            )
        found[name] = one
    return found


def _naming(name: str, error: DuckpletsError) -> DuckpletsError:
    """Return an error that names its source."""
    if name in str(error):
        return error
    named = type(error)(f"source {name!r}: {error}")
    named.__cause__ = error
    return named


def _gates(quality: Any, **others: Any) -> QualityGates | None:
    """Return the gates of an ingest; None without any."""
    if quality is None and all(value is None for value in others.values()):
        return None
    from duckplets.quality.intake import QualityGates

    return QualityGates(quality, **others)


def _note(several: Sequence[QualityGates | None]) -> Callable[[], str] | None:
    """Return what says, for a bar, how much gates accepted so far; None without gates."""
    every = [gates for gates in several if gates is not None]
    return partial(_accepted, every) if every else None


def _accepted(every: Sequence[QualityGates]) -> str:
    read, accepted, size = (sum(gates.size[i] for gates in every) for i in range(3))
    share = f"{accepted / read:.1%} accepted, " if read else ""
    return f"{share}{size / 10**6:,.1f} MB"
