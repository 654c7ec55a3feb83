"""The verbs of a corpus that take text in, clean, cut and split it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.corpus.acquire import accepted_note, gates_of
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.work import working

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.ingest.prepare import OnConflict
    from duckplets.ingest.records import IngestReport
    from duckplets.quality.settings import Quality
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
            data with ``__arrow_c_stream__`` (a frame of polars or pandas, an Arrow table or
            reader, a relation of DuckDB), one of the sources of this package, or any object with a
            ``name`` and ``batches(cursor)``.
        name: Name of the source; by default that of the file. Ingesting again under a name
            adds what is new.
        trust: Of the source, in [0,1]; 0.5 if never given. Of a path also a column.
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
        where: A condition on rows in SQL, over ``record_id``, ``source``, ``date``,
            ``group_key``, ``taxonomy``, ``meta``, ``trust``, ``created_at``, ``updated_at``
            and ``text``; others are skipped, before any gate.
        size_mb: Read no further once the accepted texts of the source have so many 10^6 bytes
            of UTF-8; at most one record more.
        limit: Read no further once so many records were accepted.
        jsonl: A file to which ``export_jsonl`` writes all records of the corpus when the ingest
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
    from duckplets.sources.by_path import given_source
    from duckplets.text.prefix import prefix_of

    if isinstance(trust, str) and isinstance(source, str | PathLike):
        arguments, trust = {**arguments, "trust": trust}, None
    source = given_source(source, arguments)
    gates = gates_of(quality, where=where, size_mb=size_mb, limit=limit)
    note = None if gates is None else partial(accepted_note, [gates])
    with (
        working(engine, progress, note=note) as work,
        exported_at_the_end(corpus.database, jsonl, [source]),
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


def sources(corpus: CorpusFile, /) -> pa.Table:
    """Return the sources with their counts, by name."""
    return corpus.database.table("corpus/status/sources")


@changes("ingest")
def ingest_data_sets(
    corpus: CorpusFile,
    /,
    path: str | PathLike[str] | Mapping[str, Mapping[str, Any]],
    *,
    on_conflict: OnConflict = "error",
    prefix: Prefix | str | None = None,
    on_error: OnError | None = None,
    remap: bool = False,
    restart: bool = False,
    limits: Limits | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, IngestReport]:
    """Ingest every data set that a YAML or TOML file or a mapping describes, one by one.

    Their sizes and weights are kept for ``data_index``; ``acquire`` reads them side by side.

    Args:
        path: The file, or what would stand in one; see ``load_data_sets``.
        on_conflict: As for ``ingest``.
        prefix: As for ``ingest``, of all of them.
        on_error: As for ``ingest``, of all of them.
        remap: As for ``ingest``.
        restart: As for ``ingest``.
        limits: As for ``ingest``, of each of them.
        progress: As for ``ingest``.

    Returns:
        The report of each, by its name.

    Raises:
        SourceError: The file is wrong, and then nothing is read; or as for ``ingest``.
    """
    from duckplets.corpus.quality import acquire
    from duckplets.records.data_sets import load_data_sets

    return acquire(
        corpus,
        load_data_sets(path),
        quality=None,
        on_conflict=on_conflict,
        prefix=prefix,
        on_error=on_error,
        remap=remap,
        restart=restart,
        limits=limits,
        readers=1,
        retries=0,
        progress=progress,
    )
