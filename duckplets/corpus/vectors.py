"""Turn texts into numbers: vectors in a file beside the corpus, tokens in a folder of shards."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from duckplets.base.locks import in_turn
from duckplets.base.progress import bar
from duckplets.base.stages import stage
from duckplets.db.database import Database
from duckplets.engine import opened
from duckplets.errors import ChunkingError, SamplerError
from duckplets.ingest import records

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.base.progress import Progress
    from duckplets.order.mixture import Mixture
    from duckplets.tokens.manifest import Longer
    from duckplets.tokens.sampler import TokenSampler
    from duckplets.tokens.shards import ShardReport
    from duckplets.vectors.add import AddedVectors
    from duckplets.vectors.embed import Dtype, EmbedReport


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


class TextNumbers:
    """The part of ``Corpus`` that makes numbers of its texts: vectors, and shards of tokens."""

    _database: Database
    path: Path

    @stage("embed the texts of")
    def embed(
        self,
        model: Any,
        name: str = "default",
        *,
        split: str | None = None,
        batch_size: int = 256,
        retries: int = 2,
        max_failures: float = 0.05,
        dtype: Dtype = "float32",
        prompts: Mapping[str, str] | None = None,
        normalise: bool = False,
        made_by: str | Mapping[str, Any] | None = None,
        progress: Progress | bool | None = None,
    ) -> EmbedReport:
        """Give a vector to every chunk's text that has none yet, in the file beside the corpus.

        Stopped, interrupted or killed, it goes on where it was when it is called again: what is
        committed stays, and no text is embedded twice. Texts come so that each split has its
        share of what is done. The corpus itself is only read.

        Args:
            model: A function of a list of texts that returns their vectors, (texts, dimension),
                as an array, a tensor or lists; an object with such an ``encode``; or the name or
                folder of a sentence-transformers model, or ``module:function``.
            name: Of the set. A corpus may have several, side by side.
            split: Texts that this split has; by default all.
            batch_size: Texts of a call, at most. They are of about one length.
            retries: How often a call that fails is made again. Then it is halved, until the
                texts that fail are alone; they are kept with the reason in ``vector_failures``,
                and tried again when this is called again.
            max_failures: When more than this share of the last 200 texts fail, it stops.
            dtype: Of the numbers that are kept: ``float32`` or ``float16``.
            prompts: What stands before texts of a role (``anchor``, ``context``, ``rejected``).
                A text in several roles has the prompt of the first in this order.
            normalise: Whether to divide every vector by its length.
            made_by: What the set is tied to in the place of the function's qualified name. Of a
                sentence-transformers model that is its name, a digest of its weights and its
                longest text. Prompts and whether vectors are normalised belong to it.
            progress: Called with texts done and their number; True or False for a bar on stderr
                or none, by default a bar if stderr is a terminal.

        Raises:
            VectorError: An argument is wrong, the set is there and was made by something else,
                another process embeds it, or too many texts fail; what was done is kept.
            SplitError: There is no such split, or there are no splits yet.
            ExtensionError: A model is named, and sentence-transformers is missing.
        """
        from duckplets.vectors import embed

        with bar(progress, sys.stderr, "texts", rate=True) as advance:
            return embed.embed(
                self._database,
                model,
                name,
                split=split,
                batch_size=batch_size,
                retries=retries,
                max_failures=max_failures,
                dtype=dtype,
                prompts=prompts,
                normalise=normalise,
                made_by=made_by,
                progress=advance,
            )

    @stage("add vectors to")
    def add_vectors(
        self,
        name: str,
        table: Any,
        *,
        on_conflict: Literal["error", "skip"] = "error",
        dtype: Literal["float32", "float16"] = "float32",
        progress: Progress | bool | None = None,
    ) -> AddedVectors:
        """Keep vectors that were made elsewhere, by the texts they are of, whole or not at all.

        They go into ``NAME.vectors.duckdb`` beside the corpus, which may itself be open to read
        only. A vector is that of one text, and all chunks with that text share it.

        Args:
            name: Of the set; all its vectors are of one dimension and from this verb.
            table: An Arrow table or reader of batches, the path of a Parquet file, a
                ``datasets.Dataset``, or a mapping of names to NumPy arrays or lists. Its column
                ``vector`` has lists of numbers or rows of a 2-D array. Which text each is of says
                ``chunk_key``; or ``record_id`` and ``role``, and ``position`` where a record has
                several sections of a role; or ``text``, the bare text of a chunk.
            on_conflict: What becomes of a text that has another vector already, or that comes
                twice with two: an ``error``, or the one there was first stays (``skip``).
            dtype: In which the numbers are kept.
            progress: Called with rows done; True for a bar, None for one on a terminal.

        Raises:
            VectorError: A row names no text of the corpus, or a section of several chunks; its
                vector is null, of another dimension, or has a number that is not finite; or it
                conflicts. It names the row, from 0, and nothing of this call is kept.
        """
        from duckplets.vectors import add

        return add.add_vectors(
            self._database,
            self.path,
            name,
            table,
            on_conflict=on_conflict,
            dtype=dtype,
            progress=progress,
        )

    def vectors(self, name: str = "default") -> pa.Table:
        """Return the vectors of a set, one row for each chunk of the newest version that has one.

        Columns: ``chunk_key``, ``record_id``, ``role``, ``text_hash`` and ``vector``, a fixed-size
        list; by ``chunk_key``. Equal texts have equal vectors. It holds all of them in memory.

        Raises:
            VectorError: There is no such set.
        """
        from duckplets.vectors import add

        return add.table_of(self._database, self.path, name)

    def remove_vectors(self, name: str) -> int:
        """Remove a set of vectors, and return how many it had; runs that are pinned to it end.

        Raises:
            VectorError: There is none of that name.
        """
        from duckplets.vectors.store import VectorStore

        return VectorStore(self.path).remove(name)

    @stage("shard")
    def shard(
        self,
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
        with opened(engine) as by, bar(progress, sys.stderr, "records") as advance:
            return shards.shard(
                self._database,
                out,
                name=self.path.stem,
                tokenizer=tokenizer,
                settings=settings,
                mixture=mixture,
                overwrite=overwrite,
                progress=advance,
                engine=by,
            )

    def token_sampler(
        self, tokenizer: str | Path, split: str = "train", **arguments: Any
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
        version = records.current_version(self._database)
        name = f"{self.path.stem}.shards-v{version}-{split}-{digest}"
        folder = self.path.with_name(name)
        waiting = f"waiting for another process, which makes {folder}"
        with (
            in_turn(folder.with_name(f".{name}.lock"), lambda: log.warning(waiting)),
            bar(None, sys.stderr, "records") as advance,
        ):
            shards.shard(
                self._database,
                folder,
                name=self.path.stem,
                tokenizer=file,
                settings=ShardSettings(split=split),
                progress=advance,
                compare=False,  # a run compares what it reads
            )
        return TokenShards(folder).sampler(split, **arguments)

    def _tokens_of(
        self,
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
        return self.token_sampler(tokenizer, **same, **rows)
