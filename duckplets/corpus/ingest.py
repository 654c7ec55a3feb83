"""Take text in, clean it, cut it and split it: the verbs of a corpus from ingest to data_index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.corpus.acquire import gates_of, told_of
from duckplets.corpus.writes import changes
from duckplets.engine.work import working
from duckplets.ingest import chunks, records, splits
from duckplets.text.chunking import Chunking

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport
    from duckplets.ingest.splits import KeepTogether, SplitReport
    from duckplets.ingest.store import OnConflict
    from duckplets.order.copies import SizeMode
    from duckplets.quality.settings import Quality
    from duckplets.records.data_index import DataIndex
    from duckplets.sources.limits import Limits
    from duckplets.sources.mapping_checks import OnError
    from duckplets.text.denoiser import Denoiser
    from duckplets.text.normaliser import Normaliser
    from duckplets.text.prefix import Prefix


@changes("ingest")
def ingest(
    corpus: Corpus,
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

    An ingest of a ``HubSource``, a custom source or a ``Resumable`` one that stops half-way
    goes on there when it is called again. With ``quality``, ``where``, ``size_mb`` or ``limit``
    all files do, what became of every row is noted in the table ``judgements``, and the same
    call again reads only what was appended.

    Args:
        source: What to read: a path as the command line takes it (a file, whose suffix
            says its format, a folder of text, a glob, ``s3://bucket/key``, an ``hf://`` line),
            one of the sources of this package, or any object with a ``name`` and
            ``batches(cursor)``.
        name: Name of the source; by default that of the file. Ingesting again under a name
            adds what is new.
        trust: Of the source, in [0,1]; 0.5 if never given. Of a path also a column.
        on_conflict: For known ids with other content: ``error``, ``skip``, or ``replace``.
        prefix: Metadata prefix of all its records, as for ``set_prefix``.
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
        arguments: Of the source of a path, such as ``anchor="question", positive="answer"``,
            ``pattern="*.md"`` or ``delimiter=";"``; ``format="csv"`` where the suffix does not
            tell it.

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
    told = None if gates is None else partial(told_of, [gates])
    with (
        working(engine, progress, told=told) as work,
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


def sources(corpus: Corpus, /) -> pa.Table:
    """Return the sources with their counts, by name."""
    return corpus.database.table("corpus/status/sources")


@changes("split")
def split(
    corpus: Corpus,
    /,
    train: float | None = None,
    validation: float | None = None,
    test: float | None = None,
    seed: int = 42,
    *,
    keep_together: KeepTogether = "group",
    reassign: bool = False,
) -> SplitReport:
    """Assign every record to a split, for good.

    Args:
        train: Share of training records, 0.8 if no share is given. The three add up to 1;
            those that are not given divide what is left as usual, 8 : 1 : 1.
        validation: Share of validation records, 0.1 if no share is given.
        test: Share of test records, 0.1 if no share is given.
        seed: Another seed gives another assignment.
        keep_together: What shares a split: records of a ``group``; or by ``text`` all that
            groups or equal anchors connect (of a record without anchor its first section; but
            for case, accents, composition and white space). Records that come later take the
            split of their family.
        reassign: Allow other settings than the corpus was split with.

    Returns:
        The records of each split, as a mapping; ``asked`` and ``got`` have the shares, which
        differ where families are large, and ``shared_anchors`` how many anchors of validation
        and test train has as well.

    Raises:
        SplitError: The shares are wrong, or settings others than before.
    """
    settings = splits.settings_of(train, validation, test, seed=seed, keep_together=keep_together)
    return splits.split(corpus.database, settings, reassign=reassign)


@changes("chunk")
def chunk(corpus: Corpus, /, chunking: Chunking | None = None) -> int:
    """Chunk the corpus with other settings; returns how many sections were done again.

    Ingest chunks what it adds, so this is needed only to change settings. They are taken
    whole: what is left out is set to its default, and without preprocessors texts are again
    as they came. A record that preprocessors leave nothing of stays, without sections.

    Raises:
        ChunkingError: A setting is wrong, a preprocessor or chunker is not registered or
            failed, or texts would be cleaned otherwise while an ingest is unfinished.
    """
    return chunks.chunk(corpus.database, chunking or Chunking())


def chunking(corpus: Corpus, /, **changes: Any) -> Chunking:
    """Return the settings the corpus is chunked with, some of them changed, for ``chunk``.

    The length of a summary follows that of a window, unless it was chosen.

    Args:
        changes: Fields of ``Chunking``.

    Raises:
        ChunkingError: A setting is unknown or wrong, or the tokenizer file has changed.
    """
    return chunks.chunking_with(corpus.database, changes)


@changes("set a prefix in")
def set_prefix(corpus: Corpus, /, source: str, prefix: Prefix | str | None) -> None:
    """Set the metadata prefix of all records of a source that have none of their own.

    It holds from a new version of the corpus on: runs that are under way keep theirs.

    Args:
        source: Its name.
        prefix: What to show, or columns of a record to show, such as ``"source, date"``; None
            for no prefix.

    Raises:
        SourceError: There is no such source, or no record of it has such a column.
    """
    from duckplets.ingest import prefixes
    from duckplets.text.prefix import prefix_of

    wanted = prefix_of(prefix)
    source_id = records.source_id_of(corpus.database, source)
    with corpus.database.transaction():
        if wanted is not None:
            prefixes.check_columns(corpus.database, source_id, wanted)
        version = records.current_version(corpus.database) + 1
        prefixes.set_source(corpus.database, source_id, version, wanted)
        records.commit_version(corpus.database, version, "prefix", source, {})


@changes("ingest")
def ingest_data_sets(
    corpus: Corpus,
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
    from duckplets.records import index_controls
    from duckplets.records.data_set_gates import check_cleaning
    from duckplets.records.data_sets import load_data_sets

    reports = {}
    described = load_data_sets(path)
    check_cleaning([(d.name, d.clean) for d in described], chunking(corpus))
    for data_set in described:
        reports[data_set.name] = ingest(
            corpus,
            data_set.source(),
            name=data_set.name,
            on_conflict=on_conflict,
            prefix=prefix,
            on_error=on_error,
            remap=remap,
            restart=restart,
            limits=limits,
            progress=progress,
            **data_set.gates,
        )
        index_controls.keep_controls(corpus.database, data_set.name, data_set.controls)
    return reports


@changes("set index controls in")
def set_index_controls(
    corpus: Corpus,
    /,
    source: str,
    *,
    size: int | None = None,
    size_mode: SizeMode = "first",
    weight: float = 1.0,
    seed: int = 42,
) -> None:
    """Set how many of a source's records ``data_index`` lists, and how often.

    Args:
        source: Its name.
        size: So many records, by ``size_mode`` the first or a sample of them; more than there
            are: whole copies and a remainder. None for all.
        size_mode: ``first`` or ``sample``.
        weight: Copies of each record; a fraction of a copy is a sample. Applied after size.
        seed: Of what is sampled.

    Raises:
        SourceError: There is no such source.
        SamplerError: A value is wrong.
    """
    from duckplets.records import index_controls

    source_id = records.source_id_of(corpus.database, source)
    with corpus.database.transaction():
        index_controls.set_controls(corpus.database, source_id, size, size_mode, weight, seed)


def data_index(corpus: Corpus, /, split: str | None = None) -> DataIndex:
    """Return the index of all sources, each with its size and weight; ``read`` takes it.

    Args:
        split: Of the records of this split only.
    """
    from duckplets.records import index_controls

    return index_controls.of_corpus(
        corpus.database, split=split, version=records.current_version(corpus.database)
    )


@changes("denoise")
def denoise(corpus: Corpus, /, denoiser: Denoiser | None = None) -> int:
    """Clean the texts, those that are there and those to come; returns sections done again.

    All other settings of ``chunk`` stay as they are.

    Args:
        denoiser: How; by default ``Denoiser()``.
    """
    from duckplets.text.denoiser import Denoiser

    return _clean_by(corpus, denoiser or Denoiser())


@changes("normalise")
def normalise(corpus: Corpus, /, normaliser: Normaliser | None = None) -> int:
    """Bring the texts into one form, those that are there and those to come, likewise.

    Args:
        normaliser: How; by default ``Normaliser()``; ``Normaliser(code=True)`` for code.
    """
    from duckplets.text.normaliser import Normaliser

    return _clean_by(corpus, normaliser or Normaliser())


def _clean_by(corpus: Corpus, /, cleaner: Denoiser | Normaliser) -> int:
    """Clean texts by one more preprocessor, the last; another of its kind goes."""
    before = chunks.current_chunking(corpus.database)
    others = [p for p in before.preprocessors if not isinstance(p, type(cleaner))]
    return chunks.chunk(corpus.database, replace(before, preprocessors=(*others, cleaner)))
