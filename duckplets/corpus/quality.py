"""The verbs of a corpus that judge its texts: gates, near-duplicates, evaluation sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import QualityError

if TYPE_CHECKING:
    from duckplets.quality.decontaminate import DecontaminationReport
    from duckplets.quality.judge import JudgeReport
    from duckplets.quality.near_dedup import Action, NearReport
    from duckplets.quality.settings import Quality


_MEMORY = "300MB"  # bytes of the file kept in memory: texts are read once or twice


def quality(
    corpus: CorpusFile,
    /,
    record: str | None = None,
    *,
    against: str | int | None = None,
    apply: Quality | Any = None,
    dry_run: bool = False,
    examples: int = 5,
    engine: Any = None,
) -> Any:
    """Count what gates accepted and rejected, explain a row, or apply other thresholds.

    With ``apply`` records that fail are removed in a new version, and rejected rows that pass
    become records of it. Runs that are pinned to earlier versions continue. Records that came
    without gates are judged too; rows that ``where=`` left out stay out.

    Args:
        record: Explain one row: a record id, or ``SOURCE:ROW``.
        against: Compare the metrics of all sources with the metrics of this source, or of this
            version.
        apply: Settings, the name of a preset, or a TOML file; see ``Quality``.
        dry_run: With ``apply``: report the changes, and store none.
        examples: Numbers of the first rows of each count.
        engine: Measures texts that lack a metric, as for ``mine``.

    Returns:
        A table of counts by source, outcome, gate and rule. With ``record`` a list of rows, each
        with outcome, gate, rule, metrics and text. With ``against`` a ``Shifts``; with ``apply`` a
        ``JudgeReport``.

    Raises:
        QualityError: An argument or a setting is wrong, there is no such row, source or version,
            or a metric is missing and the text was not stored.
        EngineError: The engine is unknown, cannot be reached, or fails.
    """
    from duckplets.quality import explain

    asked = {"record": record, "against": against, "apply": apply}
    if len(given := [name for name, value in asked.items() if value is not None]) > 1:
        raise QualityError(f"{given[0]}= and {given[1]}=: give one of record, against and apply")
    if dry_run and apply is None:
        raise QualityError("dry_run=True is about apply=: give settings, a preset or a TOML file")
    if record is not None:
        return explain.why(corpus.database, record)
    if against is not None:
        return explain.shifts(corpus.database, against)
    if apply is None:
        return corpus.database.table("quality/explain/counts", {"examples": examples})
    return _judge(corpus, apply, dry_run, engine)


@changes("judge the texts of")
def _judge(corpus: CorpusFile, quality: Any, dry_run: bool, engine: Any) -> JudgeReport:
    from duckplets.quality.judge import judge

    with working(engine, False) as work:
        return judge(corpus.database, quality, dry_run=dry_run, work=work)


@stage("deduplicate")
def deduplicate(
    corpus: CorpusFile,
    /,
    near: float = 0.85,
    *,
    action: Action = "remove",
    dry_run: bool = False,
    ngram: int = 5,
    bands: int | None = None,
    rows: int | None = None,
    seed: int = 42,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> NearReport:
    """Find records whose texts are equal or nearly so, and keep one of each cluster.

    The text of a record is all of its sections but rejected ones, in order. Two texts are near
    if their n-grams of words have a Jaccard similarity of ``near``; a text of fewer words is
    one n-gram. Words are runs of letters, digits and marks in lower case, so case, punctuation and
    white space do not count. In scripts without spaces a character is a word. Candidates
    come from MinHash bands, and are compared exactly. Linked records, also through others, are a
    cluster. Its first record stays, whatever the split: the least ``source_id``, then
    ``record_key``. Sources and splits are compared together.

    Clusters are kept in the table ``clusters``. Removing makes a new version: runs pinned to
    earlier ones keep what they have. A record that was removed comes again if its source is
    ingested again.

    Args:
        near: Least Jaccard similarity of two texts, above 0 and up to 1.
        action: ``remove``: keep one record of each cluster. ``mark``: only store the clusters.
        dry_run: Report without storing. The corpus may be open read-only.
        ngram: Words of an n-gram.
        bands: Bands of a signature: more find more, and take longer. The default bands and rows
            find 99 % of the pairs that are just near enough: 12 of 7 for .85, 35 of 3 for .5. The
            report says the share.
        rows: Hash functions of a band: fewer find more, and propose more wrong pairs.
        seed: Seed of the hash functions.
        engine: The engine that makes the bands of texts, as for ``mine``.
        progress: As for ``ingest``.

    Raises:
        SamplerError: An argument is wrong.
        EngineError: The engine is none, cannot be reached, or fails.
    """
    from duckplets.quality import near_dedup as finding
    from duckplets.quality.minhash import NearSettings

    settings = NearSettings.of(near=near, ngram=ngram, bands=bands, rows=rows, seed=seed)
    look = _looking(corpus, "deduplicate", dry_run)
    with look, working(engine, progress, "records") as work:
        return finding.deduplicate(
            corpus.database,
            settings,
            action=action,
            dry_run=dry_run,
            work=work,
        )


@stage("decontaminate")
def decontaminate(
    corpus: CorpusFile,
    /,
    against: Any,
    *,
    text: str | Sequence[str] | None = None,
    ngram: int = 13,
    action: Action = "mark",
    dry_run: bool = False,
    card: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> DecontaminationReport:
    """Find records that share an n-gram of words with an evaluation set.

    The text of a record, and of a row of a file, is all of its sections, in order, without rejected
    ones. Words are as for ``deduplicate``. An evaluation text of fewer words than ``ngram``
    matches nothing: the report counts these, and says which ``ngram`` reaches most of them. The
    matches are stored in the table ``contaminations``. Removing makes a new version: runs pinned to
    earlier ones keep what they have.

    Args:
        against: The evaluation set. ``test``: compare train and validation with the test split.
            ``validation``: compare train with validation. A source of the corpus: compare all
            other sources with it. A path: a file, such as ``queries.jsonl`` of a BEIR data set, a
            glob, a folder of text files, or ``hf://``. A BEIR folder, or a folder of BEIR folders:
            the test queries of each. Or any other source of ``ingest``. If a name has several
            meanings, the first in this list counts.
        text: Columns of a file to compare, each separately.
        ngram: Number of words in an n-gram.
        action: ``mark``: only store the matches. ``remove``: remove the matching records.
        dry_run: Report without storing. The corpus may be open read-only.
        card: Write a Markdown file that lists every set, the n-gram and the matches.
        progress: As for ``ingest``.

    Raises:
        QualityError: The card cannot be written.
        SourceError: The evaluation set is missing or unreadable, or its texts have too few words.
        SamplerError, SplitError: An argument is wrong, or there are no splits yet.
    """
    from duckplets.quality import decontaminate as finding

    look = _looking(corpus, "decontaminate", dry_run)
    with look, working(INLINE, progress, "records") as work:
        return finding.decontaminate(
            corpus.database,
            against,
            text=text,
            ngram=ngram,
            action=action,
            dry_run=dry_run,
            card=card,
            work=work,
        )


@contextmanager
def _looking(corpus: CorpusFile, /, verb: str, dry_run: bool) -> Iterator[None]:
    """Hold the write lock of the corpus if something changes."""
    with ExitStack() as held:
        if not dry_run:
            held.enter_context(corpus.database.changing(verb))
        held.enter_context(corpus.database.frugal(_MEMORY))
        yield
