"""Make tokens of texts: the verbs of a corpus that write token shards, and runs over them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.locks import in_turn
from duckplets.base.stages import stage
from duckplets.engine.work import working
from duckplets.errors import ChunkingError, SamplerError
from duckplets.ingest import records

if TYPE_CHECKING:
    from duckplets.base.progress import Progress
    from duckplets.corpus.corpus import Corpus
    from duckplets.order.mixture import Mixture
    from duckplets.tokens.manifest import Longer
    from duckplets.tokens.sampler import TokenSampler
    from duckplets.tokens.shards import ShardReport


log = logging.getLogger("duckplets")

# What a sampler of texts has besides, as it stands where nobody has given it.
_OF_TEXTS = {
    **dict.fromkeys(("recipes", "columns", "by", "swap", "preset"), None),
    **dict.fromkeys(("no_duplicates", "structural_negatives"), False),
    "prefixes": True,
    "negatives": 1,
    "vectors": "error",
    "kind": "texts",
}


@stage("shard")
def shard(
    corpus: Corpus,
    /,
    out: str | Path,
    *,
    tokenizer: str | Path,
    split: str | Sequence[str] = "train",
    sources: Sequence[str] | None = None,
    code: Sequence[str] = (),
    buckets: Sequence[int] = (128, 256, 512, 1024),
    longer: Longer = "own",
    shard_mb: float = 100,
    seed: int = 42,
    compression: str = "zstd",
    row_group_size: int = 8192,
    offsets: bool = False,
    mixture: Mixture | None = None,
    overwrite: bool = False,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> ShardReport:
    """Write the texts of the newest version as token shards: Parquet files of like lengths.

    A row is a record: ``text``, ``tokens``, and ``meta`` with record id, source, domain, number
    of tokens and what gates measured. The text is the record's sections but rejected ones, with
    one space in the place of any white space but in code. Beside each shard lies a TSV with
    index, length, sum of the ids, and SHA-256 of the text as it is stored. ``manifest.json``
    lists every file with its checksum, ``mixtures.json`` has the weights of sources by phases.

    The same corpus, tokenizer, settings and libraries give the same bytes. Interrupted or
    killed, it goes on where it was when it is called again. Called again when it is finished,
    it compares every file with its checksum (objects in a store with their ETags, without
    reading them), and writes again what is damaged or missing: the report counts ``damaged``.

    Args:
        out: A folder, made if it is not there, or ``s3://bucket/prefix``: then each shard is
            sent when it is whole, the manifest last. One of another run is refused.
        tokenizer: A Hugging Face tokenizers file, or the folder of ``train_tokenizer``.
        split: Name of a split, or several.
        sources: Names; None for all.
        code: Names of sources whose white space stays, besides records that gates took for
            code.
        buckets: Boundaries in tokens: bucket i has lengths above the one before and up to the
            i-th.
        longer: What becomes of longer texts: a bucket of their ``own``, ``cut`` at the last
            boundary, or ``drop``; both are counted.
        shard_mb: Size in 10^6 bytes, of four a token; exceeded by one record at most. What is
            left, if less than a quarter of it, goes into the last shard.
        seed: Of the order of rows.
        compression: zstd, snappy, gzip, lz4 or none.
        row_group_size: Rows of a row group at most; of about 4 million tokens there are fewer.
        offsets: Also write which characters of the text each token is of.
        mixture: For ``mixtures.json``; by default a source weighs as many as it has tokens.
        overwrite: Replace the shards of another run.
        engine: What encodes texts and writes shards, as for ``mine``; its workers see ``out``.
        progress: Called with what is done of all; True for a bar, None for one on a terminal.

    Raises:
        ShardError: An argument is wrong, ``out`` has something else in it, or another process
            writes there.
        ChunkingError: The tokenizer cannot be used.
        SplitError, SourceError: There is no such split or source, or there are no splits yet.
        MixtureError: The mixture names a source that has no shard.
    """
    from duckplets.tokens import shards
    from duckplets.tokens.settings import ShardSettings

    settings = ShardSettings(
        split=split,
        sources=sources,
        code=code,
        buckets=buckets,
        longer=longer,
        shard_mb=shard_mb,
        seed=seed,
        compression=compression,
        row_group_size=row_group_size,
        offsets=offsets,
    )
    with working(engine, progress, "records") as work:
        return shards.shard(
            corpus.database,
            out,
            name=corpus.path.stem,
            tokenizer=tokenizer,
            settings=settings,
            mixture=mixture,
            overwrite=overwrite,
            work=work,
        )


def token_sampler(
    corpus: Corpus, /, tokenizer: str | Path, split: str = "train", **arguments: Any
) -> TokenSampler:
    """Open a run over the texts of records as rows of tokens.

    They are written as token shards beside the corpus first, in a folder that is named after
    the version, the split and the tokenizer, and kept for the next time. The run is one over
    that folder: it is saved beside it, and goes on with ``duckplets.resume(FOLDER)``.

    Args:
        tokenizer: A Hugging Face tokenizers file, or the folder of ``train_tokenizer``.
        split: Texts of this split.
        arguments: Of ``TokenShards.sampler``.

    Raises:
        ChunkingError: The tokenizer cannot be used.
        SamplerError, MixtureError, ShardError, SplitError: An argument is wrong.
    """
    from duckplets.tokens import shards
    from duckplets.tokens.dataset import TokenShards
    from duckplets.tokens.settings import ShardSettings

    file = Path(tokenizer)
    file = file / "tokenizer.json" if file.is_dir() else file
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise ChunkingError(f"tokenizer={str(tokenizer)!r}: {error.strerror}") from error
    version = records.current_version(corpus.database)
    name = f"{corpus.path.stem}.shards-v{version}-{split}-{digest}"
    folder = corpus.path.with_name(name)
    waiting = f"waiting for another process, which makes {folder}"
    with (
        in_turn(folder.with_name(f".{name}.lock"), lambda: log.warning(waiting)),
        working(None, None, "records") as work,
    ):
        shards.shard(
            corpus.database,
            folder,
            name=corpus.path.stem,
            tokenizer=file,
            settings=ShardSettings(split=split),
            work=work,
            compare=False,  # a run compares what it reads
        )
    return TokenShards(folder).sampler(split, **arguments)


def tokens_of(
    corpus: Corpus,
    /,
    told: Mapping[str, Any],
    tokenizer: str | Path | None,
    seq_length: int,
    pack: bool,
    mixture: Any,
    state: str | Path | None,
) -> TokenSampler:
    """Open a run of tokens by the arguments of ``Corpus.sampler``."""
    if tokenizer is None:
        raise SamplerError("pack=True: rows of tokens need tokenizer=, a tokenizers file")
    for name, usual in _OF_TEXTS.items():
        if told[name] != usual:
            raise SamplerError(
                f"{name}={told[name]!r}: a run of tokens is of texts, and has no such choice; "
                f"with tokenizer= leave it out, and give kind='texts'"
            )
    rows = {"seq_length": seq_length, "pack": pack, "mixture": mixture, "state": state}
    same = {name: value for name, value in told.items() if name not in _OF_TEXTS}
    return token_sampler(corpus, tokenizer, **same, **rows)
