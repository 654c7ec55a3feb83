"""The verbs of a corpus that take text in: one source, or several through gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
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

    from duckplets.ingest.collection import CollectionReport
    from duckplets.ingest.options import IngestOptions
    from duckplets.ingest.prepare import OnConflict, PreparedIngest
    from duckplets.ingest.records import IngestReport
    from duckplets.quality.intake import QualityGates
    from duckplets.quality.settings import Quality
    from duckplets.records.sources_file import DescribedSource
    from duckplets.serving.along import LaidAlong
    from duckplets.sources import Source
    from duckplets.sources.collection import Collection
    from duckplets.sources.mapping import OnError


@changes("ingest")
def ingest(
    corpus: CorpusFile,
    /,
    source: Any,
    *,
    name: str | None = None,
    quality: Quality | Any = None,
    where: str | None = None,
    limit: int | None = None,
    on_error: OnError | None = None,
    on_conflict: OnConflict = "error",
    trust: float | str | None = None,
    remap: bool = False,
    restart: bool = False,
    options: IngestOptions | None = None,
    progress: Progress | bool | None = None,
    **columns: Any,
) -> Any:
    """Store the records of a source, or of several, each whole or not at all.

    An ingest of a ``HubSource``, a custom source or one with ``in_pieces=True`` that stops half-way
    continues when it is called again. With gates (``quality``, ``where``, ``limit``, ``size_mb``)
    all files do, the outcome of every row is in the table ``judgements``, and the same call again
    reads only appended rows.

    Several sources are stored in their order; with gates they are read side by side. The first
    source keeps a text that several have. A source that fails by an error that may pass is
    continued from its last mark. A source that fails for good ends the call; the same call
    continues there.

    Args:
        source: A path (a file, whose suffix says its format, a folder of text, a glob, an
            ``hf://`` line, ``s3://``, ``gs://`` or ``az://``), dictionaries in a list or any
            iterable, a frame, an Arrow table or reader, a relation of DuckDB, a data set of
            ``datasets``, a source of ``duckplets.sources``, a ``Collection``, a folder of BEIR, or
            any object with a ``name`` and ``batches(cursor)``. Several: a list of these, a mapping
            of names to these, or a ``sources.toml`` file.
        name: Name of the source. Default: the name of the file. Ingesting again under a name adds
            new records.
        quality: Gates for texts: settings, a preset or a TOML file; see ``Quality``. Of equal texts
            only the first is accepted; records of the corpus come first.
        where: A condition on rows in SQL, over record_id, source, date, group_key, taxonomy,
            meta, trust, created_at, updated_at and text. Other rows are skipped before any gate.
        limit: Stop after N accepted records of each source.
        on_error: How to handle unusable rows. ``raise``: stop at the first. ``skip``: count them.
            ``quarantine``: count them and store them in the table ``quarantine``.
        on_conflict: For known ids with other content: ``error``, ``skip``, or ``replace``.
        trust: Trust in the source, from 0 to 1. A column name is allowed too. Default: 0.5.
        remap: Allow another mapping than the earlier one. The new rows replace all records of the
            source, in one version. The last of several rows with one id counts.
        restart: Discard the stored rows of an unfinished ingest of this name, and start again.
        options: Rare settings; see ``IngestOptions``.
        progress: Called with rows read and their number if known; True or False for a bar
            on stderr or none. Default: a bar if stderr is a terminal.
        columns: Arguments of the source of a path or of data, such as ``anchor="question",
            positive="answer"``, ``pattern="*.md"`` or ``delimiter=";"``; ``format="csv"`` where
            the suffix does not say it.

    Returns:
        An ``IngestReport``: rows read, added, skipped and failed, by reason. Several sources give
        reports by name, and a collection a ``CollectionReport``.

    Raises:
        SourceError: A source cannot be read, exceeds a limit, has no usable row, or ids that
            conflict; it was read with another mapping; another ingest of that name is
            unfinished; or ``jsonl`` cannot be written.
        QualityError: A setting of the gates is wrong.
        ChangedFileError: Records are gone from files that texts were left in.
    """
    from duckplets.ingest import ingest
    from duckplets.ingest.options import IngestOptions
    from duckplets.sources.by_path import are_several, given_source, takes_columns
    from duckplets.sources.collection import collection_of
    from duckplets.text.prefix import prefix_of

    options = options or IngestOptions()
    asked: dict[str, Any] = {"on_conflict": on_conflict, "on_error": on_error}
    asked |= {"remap": remap, "restart": restart}
    judged = {"quality": quality, "where": where, "limit": limit, "size_mb": options.size_mb}
    if (collection := collection_of(source, columns)) is not None:
        asked |= {"name": name, "trust": trust}
        return _of_collection(corpus, collection, judged, options, progress, **asked)
    if are_several(source, columns):
        if name is not None or trust is not None:
            raise SourceError(
                "name= and trust= are for one source; for several, give {name: source, …}"
            )
        return ingest_several(
            corpus, source, columns, judged, asked, options=options, progress=progress
        )
    if isinstance(trust, str) and takes_columns(source):
        columns, trust = {**columns, "trust": trust}, None
    source = given_source(source, columns)
    gates = _gates(judged)
    with (
        working(options.engine, progress, note=_note([gates])) as work,
        _lines_after(corpus, options.jsonl),
        _along(corpus, options) as along,
    ):
        report = ingest.ingest(
            corpus.database,
            source,
            along=along,
            name=name,
            trust=trust,
            prefix=prefix_of(options.prefix),
            limits=options.limits,
            gates=gates,
            in_place=options.in_place,
            inside=int(options.inside_mb * 1e6),
            work=work,
            **asked,
        )
        report.notes.extend(_prepared(corpus, options, along))
        return report


@changes("ingest")
def ingest_several(
    corpus: CorpusFile,
    /,
    sources: Any,
    columns: Mapping[str, Any],
    judged: Mapping[str, Any],
    asked: Mapping[str, Any],
    *,
    options: IngestOptions,
    each: Callable[[str, IngestReport | DuckpletsError], None] | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, IngestReport]:
    """Store several sources, as ``ingest`` of one after the other stores them.

    Rows that were read before their turn wait in memory: some 32 MB a source.

    Args:
        sources: As for ``ingest``.
        columns: Columns of each path, as for ``ingest``.
        judged: Arguments of the gates, by name; a file of sources overrides them.
        asked: Other arguments of ``ingest``, by name.
        options: As for ``ingest``.
        each: Called with the name and report of every source when it is stored, and with
            ``keep_going`` with the error of one that failed.
        progress: As for ``ingest``, of the source that is being stored.
    """
    from duckplets.ingest.ingest import ingest_all
    from duckplets.ingest.prepare import prepare, refuse_shuffled
    from duckplets.records.index_controls import keep_controls
    from duckplets.text.prefix import prefix_of

    asked = {**asked, "prefix": prefix_of(options.prefix), "limits": options.limits}
    wanted = _wanted(sources, columns)
    gates = {name: _gates({**judged, **one.gates}) for name, one in wanted.items()}
    reports: dict[str, IngestReport] = {}
    failed: list[str] = []

    def report_each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            report = _naming(name, report)
            if not options.keep_going:
                raise report
            failed.append(str(report))
        else:
            if (described := wanted[name].described) is not None:
                keep_controls(corpus.database, name, described.controls)
            reports[name] = report
        if each is not None:
            each(name, report)

    ready: list[PreparedIngest] = []
    with (
        working(options.engine, progress, note=_note([*gates.values()])) as work,
        _lines_after(corpus, options.jsonl),
        _along(corpus, options) as along,
    ):
        for name, one in wanted.items():
            try:
                refuse_shuffled(one.source)
                in_place = options.in_place or bool(one.described and one.described.in_place)
                own: dict[str, Any] = {"name": name, "gates": gates[name], "in_place": in_place}
                own["inside"] = int(options.inside_mb * 1e6)
                ready.append(prepare(corpus.database, one.source, **asked, **own))
            except DuckpletsError as error:
                report_each(name, error)
        usual = (4, 5) if any(gates.values()) else (1, 0)
        given = options.readers, options.retries
        readers, retries = (u if g is None else g for g, u in zip(given, usual, strict=True))
        with closing(
            ingest_all(corpus.database, ready, work, along, readers=readers, retries=retries)
        ) as stored:
            for prepared, report in stored:
                report_each(prepared.name, report)
        if reports:
            reports[[*reports][-1]].notes.extend(_prepared(corpus, options, along))
    if failed:
        said = f"{counted(len(failed), 'source')} of {len(wanted):,} failed"
        raise SourceError("\n".join([said, several(failed)]))
    return reports


def sources(corpus: CorpusFile, /) -> pa.Table:
    """Return the sources with their counts, by name."""
    return corpus.database.table("corpus/status/sources")


class _Wanted(NamedTuple):
    """A source to take in, with its settings in a file of sources."""

    source: Source
    gates: dict[str, Any]
    described: DescribedSource | None


def _wanted(sources: Any, columns: Mapping[str, Any]) -> dict[str, _Wanted]:
    """Return several sources by name, in order."""
    from duckplets.records.sources_file import DescribedSource, load_sources
    from duckplets.sources.by_path import given_source, takes_columns

    if isinstance(sources, str | PathLike):
        if columns:
            raise SourceError(f"{min(columns)}=: {sources} says the columns of its sources itself")
        sources = load_sources(sources)
    by_name = sources.items() if isinstance(sources, Mapping) else ((None, s) for s in sources)
    found: dict[str, _Wanted] = {}
    for name, each in by_name:
        if isinstance(each, DescribedSource):
            one, own = _Wanted(each.source(), each.gates, each), each.name
        else:
            given = dict(columns) if takes_columns(each) else {}
            one = _Wanted(given_source(each, given), {}, None)
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


def _gates(judged: Mapping[str, Any]) -> QualityGates | None:
    """Return the gates of an ingest; None without any."""
    if all(value is None for value in judged.values()):
        return None
    from duckplets.quality.intake import QualityGates

    return QualityGates(**judged)


def _lines_after(
    corpus: CorpusFile, jsonl: str | PathLike[str] | None
) -> AbstractContextManager[None]:
    """Return a context that writes the records as JSON lines at its end, if asked."""
    if jsonl is None:
        return nullcontext()
    from duckplets.export.record_lines import exported_at_the_end

    return exported_at_the_end(corpus.database, jsonl)


@contextmanager
def _along(corpus: CorpusFile, options: IngestOptions) -> Iterator[LaidAlong | None]:
    """Yield the layout of texts as they are stored; None without a snapshot."""
    from duckplets.ingest.chunks import fingerprint
    from duckplets.ingest.splits import splits_in_use
    from duckplets.serving.along import LaidAlong

    asked = options.prepare
    if asked is None:
        asked = splits_in_use(corpus.database) is not None
    if not asked:
        yield None
        return
    with LaidAlong(corpus.database, fingerprint(corpus.database)) as along:
        yield along


def _prepared(corpus: CorpusFile, options: IngestOptions, along: LaidAlong | None) -> list[str]:
    """Make the snapshot of the stored texts if it is wanted; return notes."""
    from duckplets.ingest.chunks import fingerprint
    from duckplets.ingest.splits import split, splits_in_use
    from duckplets.serving import snapshot

    if along is None or not (options.prepare or along.chunks > snapshot.LARGE):
        return []
    notes, database = list[str](), corpus.database
    if splits_in_use(database) is None:
        notes.append(f"split: {split(corpus)}")
    chunking = fingerprint(database)
    try:
        made = snapshot.prepare(database, corpus.version, chunking, progress=False, along=along)
    except (OSError, DuckpletsError) as error:
        if options.prepare:
            return [*notes, *_pool_missing(corpus)]  # makes it once more, or says why it cannot
        why = getattr(error, "strerror", None) or str(error)
        return [f"look: no snapshot was made: {shown(why, 400)}; the first run makes it"]
    if options.prepare:
        notes += _pool_missing(corpus)
    size = f"{made.manifest.size:,} bytes"
    of = made.manifest.segments["chunks"]
    what = "serves texts from their files" if any(s["files"] for s in of) else "has all texts"
    return [*notes, f"the snapshot {shown(made.folder)} {what} ({size}); it may be deleted"]


def _pool_missing(corpus: CorpusFile) -> list[str]:
    """Make the snapshot with its pools; return a note if there is none for train."""
    from duckplets.corpus.maintenance import prepare

    why = prepare(corpus, progress=False).left_out.get("train")
    return [] if why is None else [f"look: no pool of split train was made: {shown(why, 400)}"]


def _of_collection(
    corpus: CorpusFile,
    collection: Collection,
    judged: Mapping[str, Any],
    options: IngestOptions,
    progress: Progress | bool | None,
    **asked: Any,
) -> CollectionReport:
    from duckplets.ingest.collection import ingest_collection

    is_judged = any(value is not None for value in judged.values())
    if is_judged or options.in_place or options.prefix is not None:
        raise SourceError(
            "a collection is read without quality=, where=, size_mb=, limit=, in_place= and "
            "prefix=: give them to a source of its documents, read before, and name that: "
            "dp.Collection(…, documents='NAME')"
        )
    with (
        working(options.engine, progress) as work,
        _lines_after(corpus, options.jsonl),
    ):
        asked |= {"limits": options.limits, "work": work, "keep": partial(_candidates, corpus)}
        asked["inside"] = int(options.inside_mb * 1e6)
        return ingest_collection(corpus.database, collection, **asked)


def _candidates(corpus: CorpusFile, source: str, table: pa.Table) -> str:
    """Keep the candidates of a collection, and say so; without splits they cannot be kept."""
    from duckplets.mining.external import add_negatives
    from duckplets.recipes.recipes import USUAL

    rows = counted(len(table), "candidate")
    try:
        report = add_negatives(corpus, table, name=USUAL, source=source, progress=False)
    except DuckpletsError as error:
        return f"look: {rows} not kept: {error}"
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in report.counts.items() if n)
    return f"{rows} given: {reasons}"


def _note(several: Sequence[QualityGates | None]) -> Callable[[], str] | None:
    """Return what says, for a bar, how much gates accepted so far; None without gates."""
    every = [gates for gates in several if gates is not None]
    return partial(_accepted, every) if every else None


def _accepted(every: Sequence[QualityGates]) -> str:
    read, accepted, size = (sum(gates.size[i] for gates in every) for i in range(3))
    share = f"{accepted / read:.1%} accepted, " if read else ""
    return f"{share}{size / 10**6:,.1f} MB"
