"""Open folders of token shards, and runs over them: ``duckplets.TokenShards``."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.live_set import LiveSet
from duckplets.base.locks import alone
from duckplets.base.object_store import is_address
from duckplets.base.sanitize import counted, listed
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import (
    ChunkingError,
    EmptyPoolError,
    MixtureError,
    SamplerError,
    StateMismatchError,
    nearest,
)
from duckplets.order.apportion import Apportionment, Share, exact_weights
from duckplets.order.mixture import Mixture, mixture_of
from duckplets.order.permute import key
from duckplets.order.schedule import Events, RunSchedule, Schedule
from duckplets.runs import state as states
from duckplets.runs.forecast import omitted
from duckplets.runs.opening import closed_on_error, continue_saved, edited_in
from duckplets.runs.settings import RunSettings, saved_settings
from duckplets.runs.state import behind, unsavable
from duckplets.samples.plan import PartPlanner, Planner
from duckplets.tokens.fetch import TokenFetcher
from duckplets.tokens.locations import mirror
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.memmap import TokenFile
from duckplets.tokens.mixtures import load_mixture
from duckplets.tokens.rows import (
    PackedRows,
    RowRecipe,
    SingleRows,
    TextSpan,
    TokenRows,
    TokenStream,
)
from duckplets.tokens.sampler import TokenSampler, new_settings, overridden, rows_of
from duckplets.tokens.settings import ShardSettings
from duckplets.tokens.shards import MEMORY, shard_by

if TYPE_CHECKING:
    from duckplets.base.progress import Progress
    from duckplets.tokens.verify import VerifyReport

log = logging.getLogger("duckplets")


class TokenShards:
    """A folder of token shards, opened for reading.

    The first sampler decodes the shards into ``NAME.tokens`` next to the folder, 4 bytes a token.
    Every process maps this file. Packed rows with another ``eos`` have a separate file. Runs are
    saved in ``NAME.state.duckdb`` next to the folder.

    Args:
        folder: A folder that ``Corpus.shard`` has written, or ``s3://bucket/prefix``. Files of a
            store that are missing in ``cache`` are downloaded first.
        cache: A folder for the decoded tokens, if they cannot be next to the shards.

    Attributes:
        path: The folder; for shards in a store, the folder in ``cache``.
        manifest: The manifest of the folder.

    Raises:
        ShardError: The folder has no token shards.
        DamagedFileError: The manifest is damaged.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        cache: str | Path | None = None,
    ) -> None:
        self.path = mirror(str(folder), cache) if is_address(folder) else Path(folder)
        self._cache = None if cache is None else Path(cache)
        self.manifest = ShardManifest.read(self.path)
        self._files: dict[int | None, TokenFile] = {}
        self._samplers: LiveSet[TokenSampler] = LiveSet()

    @property
    def file(self) -> TokenFile:
        """The decoded tokens, with the end token after each text; created if missing."""
        return self._file(self.manifest.tokenizer.eos_id)

    def _file(self, end: int | None) -> TokenFile:
        if end not in self._files:
            self._files[end] = TokenFile.of(self.path, self.manifest, end, self._cache)
        return self._files[end]

    def sources(self, split: str = "train") -> list[str]:
        """Return the names of the sources that have texts in a split."""
        names = (shard.source for shard in self.manifest.shards if shard.split == split)
        return list(dict.fromkeys(names))

    def sampler(
        self,
        split: str = "train",
        *,
        mixture: Mixture | Mapping[str, float] | str | Path | None = None,
        batch_size: int = 8,
        seq_length: int = 1024,
        pack: bool = False,
        by_bucket: bool = False,
        eos: str | None = "</s>",
        seed: int = 42,
        steps: int | None = None,
        epochs: int | None = None,
        remainder: str = "keep",
        rank: int = 0,
        world_size: int = 1,
        prefetch: int = 2,
        memory_mb: int | None = None,
        run: str = "default",
        state: str | Path | None = None,
    ) -> TokenSampler:
        """Open a new run at its first position.

        Args:
            split: The split to draw from.
            mixture: Shares of the sources, counted in rows: weights by name, a ``Mixture``,
                ``"equal"``, or the path of a file, such as ``mixtures.json`` in the folder.
                Default: ``"proportional"``; then an epoch is one pass over the rows of each source.
            batch_size: Rows of a batch on each rank.
            seq_length: Tokens of a row.
            pack: Whether to lay the texts of a source end to end, in the order of its shards, and
                cut rows from them. Only the last row is padded. If False, a row is one text, cut
                or padded.
            by_bucket: Whether each batch has texts of one length class of the folder. Its rows are
                as wide as the longest texts of the class, or ``seq_length`` with ``pack``.
            eos: Name of the token after each text of packed rows, or None.
            seed: Another seed gives another order.
            steps: Number of batches. Without ``steps`` and ``epochs`` the run is endless.
            epochs: Number of epochs. An epoch draws as many rows as there are.
            remainder: How to handle a last batch that is not full: ``keep``, ``drop`` or ``pad``.
            rank: Number of this rank, from 0.
            world_size: Number of ranks.
            prefetch: Number of blocks to prepare in the background.
            memory_mb: Megabytes for these blocks. Default: 128.
            run: Name of the saved run.
            state: The state file. Default: next to the folder.

        Raises:
            EmptyPoolError: There is no text to draw from.
            SamplerError, MixtureError: An argument is wrong.
            ShardError: The disk has no room for the token file.
        """
        path = self._state_path(state)
        notes = unsavable(path, required=state is not None)
        arguments: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "steps": steps}
        arguments |= {"remainder": remainder, "rank": rank, "world_size": world_size}
        arguments |= {"epochs": epochs, "prefetch": prefetch, "memory_mb": memory_mb}
        arguments |= {"run": run, "split": split}
        rows = {"seq_length": seq_length, "pack": pack, "eos": eos, "by_bucket": by_bucket}
        sources = self.sources(self._checked_split(split))
        shares = self._mixture(mixture)
        shares.check(sources)
        settings = new_settings(
            arguments,
            rows,
            sources=sorted(sources),
            mixture=shares,
            shards=self.manifest.fingerprint,
            version=int(self.manifest.corpus.get("version", 0)),
        )
        return self._opened(settings, path, [*notes, *omitted(shares, sources)], None)

    def resume(
        self,
        run: str = "default",
        tag: str | None = None,
        state: str | Path | None = None,
        save_to: str | Path | None = None,
        *,
        allow_drift: Collection[str] = (),
        **overrides: Any,
    ) -> TokenSampler:
        """Open a saved run at its saved position; see ``duckplets.resume``."""
        path = self._state_path(state)
        saved = states.load(path, run, tag)
        if saved.kind != "tokens":
            raise StateMismatchError(
                f"run {run!r} of {path} serves {saved.kind}, not tokens: resume it from its corpus"
            )
        before = saved_settings(saved)
        if "mixture" in overrides:
            mixture = self._mixture(overrides["mixture"])
            mixture.check(before.sources)
            overrides["mixture"] = mixture
        now = replace(overridden(before, overrides), shards=self.manifest.fingerprint)
        self._checked_split(now.split)
        target = path if save_to is None else Path(save_to)
        notes = unsavable(target, required=save_to is not None)
        edited = edited_in(saved, before, now, allow_drift)
        sampler = self._opened(now, target, notes, saved.events, saved.position)
        with closed_on_error(sampler):
            was = replace(now, mixture=before.mixture)
            continue_saved(sampler, saved, edited, partial(self.schedule, was))
        return sampler

    def schedule(self, settings: RunSettings, events: Events | None) -> RunSchedule:
        """Return the schedule of a run from its settings and weight events."""
        mixture = settings.mixture
        if mixture.unit == "tokens":
            raise MixtureError("unit='tokens': token shards are drawn by rows; omit unit")
        order: dict[str, Any] = {"seed": settings.seed, "batch": settings.global_batch}
        if not rows_of(settings)["by_bucket"]:
            return RunSchedule([Schedule(mixture, settings.sources, events=events, **order)])
        buckets = range(len(self.manifest.buckets) + 1)
        items = {}
        for source in settings.sources:
            rows = self._rows(settings, source)
            items[source] = [len(rows.get(bucket, ())) for bucket in buckets]
        return RunSchedule([BucketSchedule(mixture, items, events=events, **order)])

    # -- opening ------------------------------------------------------------------------------

    def _opened(
        self,
        settings: RunSettings,
        path: Path,
        notes: Sequence[str],
        events: Events | None,
        position: int = 0,
    ) -> TokenSampler:
        schedule = self.schedule(settings, events)
        streams = self._streams(settings, sorted(schedule.drawn))
        part = PartPlanner(
            streams, schedule.parts[0], kind="tokens", seed=settings.seed, swap=False
        )
        planner = Planner([part], settings.end)
        mixture = schedule.mixture
        if isinstance(mixture.weights, str) and not mixture.lengths:
            lengths = {name: part.length_of(name) for name in settings.sources}
            mixture = replace(mixture, lengths=lengths)
            settings = replace(settings, mixture=mixture)
            planner.deal_by(self.schedule(settings, events))

        def open_source(name: str) -> None:
            more = self._streams(settings, [name])
            streams.extend(more)
            planner.add(part, more)

        fetcher = TokenFetcher(
            streams,
            streams[0].rows.text_span.file,
            self.path,
            self.manifest,
            padded_from=settings.padded_from(planner.epoch_start),
            pads=settings.remainder == "pad",
        )
        sampler = TokenSampler(settings, planner, fetcher, path, open_source)
        if not settings.rank:
            saved = behind(settings.run, settings.fingerprint(), path, position)
            sampler.notes += [*notes, *saved, *_cut(streams)]
        self._samplers.add(sampler)
        return sampler

    def _streams(self, settings: RunSettings, sources: Sequence[str]) -> list[TokenStream]:
        found: list[TokenStream] = []
        for source in sources:
            name, count = settings.recipes[source][0]["name"], len(found)
            for bucket, rows in self._rows(settings, source).items():
                if len(rows):
                    recipe = RowRecipe(name if bucket is None else f"{name}, bucket {bucket}")
                    found.append(TokenStream(source, bucket, rows, recipe, settings.seed))
            if len(found) == count:
                raise EmptyPoolError(
                    f"source {source!r} has no tokens in split {settings.split!r} of {self.path}; "
                    f"omit it in mixture="
                )
        return found

    def _rows(self, settings: RunSettings, source: str) -> dict[int | None, TokenRows]:
        """Return the rows of a source by bucket, or under None without buckets."""
        layout, tokenizer = rows_of(settings), self.manifest.tokenizer
        pad = tokenizer.pad_id if tokenizer.pad_id is not None else tokenizer.eos_id or 0
        end = tokenizer.eos_id
        if layout["pack"]:
            end = None if layout["eos"] is None else tokenizer.id_of(layout["eos"], self.path)
        found, file = dict[int | None, TokenRows](), self._file(end)
        spans = self._texts(file, settings.split, source, layout["by_bucket"])
        for bucket, texts in spans.items():
            width = layout["seq_length"]
            if layout["pack"]:
                found[bucket] = PackedRows(texts, width, pad)
            else:
                if bucket is not None and bucket < len(self.manifest.buckets):
                    width = min(width, self.manifest.buckets[bucket])
                found[bucket] = SingleRows(texts, width, pad)
        return found

    def _texts(
        self, file: TokenFile, split: str, source: str, by_bucket: bool
    ) -> dict[int | None, TextSpan]:
        """Return the span of the texts of a source in a token file, by bucket or as a whole."""
        found, first = dict[int | None, TextSpan](), 0

        def place(shard: Any) -> tuple[str, str, int | None]:
            return shard.split, shard.source, shard.bucket if by_bucket else None

        for at, shards in groupby(self.manifest.shards, place):
            stop = first + sum(shard.records for shard in shards)
            if at[:2] == (split, source):
                found[at[2]] = TextSpan(file, first, stop)
            first = stop
        return found

    # -- arguments ----------------------------------------------------------------------------

    def _checked_split(self, split: str) -> str:
        known = [name for name in self.manifest.splits if self.sources(name)]
        if split in self.manifest.splits and split not in known:
            raise EmptyPoolError(f"split {split!r} has no text in {self.path}")
        if split not in known:
            raise SamplerError(
                f"split={split!r}{nearest(str(split), known)}: give a split of {self.path}: "
                f"{listed(known) or 'none'}"
            )
        return split

    def _mixture(self, value: Mixture | Mapping[str, float] | str | Path | None) -> Mixture:
        if isinstance(value, str | Path) and Path(value).suffix == ".json":
            return load_mixture(value)
        mixture = mixture_of(value)
        if mixture.columns or mixture.order_by is not None:
            raise MixtureError("token shards have no values of records; omit column and order_by")
        return mixture

    def _state_path(self, path: str | Path | None) -> Path:
        return states.state_path(self.path) if path is None else Path(path)

    def verify(self, *, progress: Progress | bool | None = None) -> VerifyReport:
        """Compare every file with the manifest, and search for unlisted shards.

        Returns:
            The counts, and the problems: damaged or missing files, unlisted shards, or a manifest
            of another run.
        """
        from duckplets.tokens.verify import verify

        return verify(self.path, progress=progress)

    def close(self) -> None:
        """Close the samplers of this folder."""
        for sampler in self._samplers:
            sampler.close()

    def __enter__(self) -> TokenShards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = self.manifest.shards
        texts, tokens = sum(s.records for s in counts), sum(s.tokens for s in counts)
        return f"TokenShards({str(self.path)!r}): {texts:,} texts, {tokens:,} tokens"


def token_sampler(
    corpus: CorpusFile, /, tokenizer: str | Path, split: str = "train", **arguments: Any
) -> TokenSampler:
    """Open a run over the texts of records as rows of tokens.

    The call first writes token shards next to the corpus, unless they exist. The name of their
    folder contains the version, the split and the tokenizer. The run is saved next to that folder
    and continues with ``duckplets.resume(FOLDER)``.

    Args:
        tokenizer: A Hugging Face tokenizers file, or the folder of ``train_tokenizer``.
        split: The split to draw from.
        arguments: Other arguments of ``TokenShards.sampler``.

    Raises:
        ChunkingError: The tokenizer cannot be used.
        SamplerError, MixtureError, ShardError, SplitError: An argument is wrong.
    """
    file = Path(tokenizer)
    file = file / "tokenizer.json" if file.is_dir() else file
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise ChunkingError(f"tokenizer={str(tokenizer)!r}: {error.strerror}") from error
    version = corpus.version
    name = f"{corpus.path.stem}.shards-v{version}-{split}-{digest}"
    folder = corpus.path.with_name(name)
    waiting = f"waiting for another process, which writes {folder}"
    with (
        alone(folder.with_name(f".{name}.lock"), lambda: log.warning(waiting)),
        working(INLINE, None, "records") as work,
        corpus.database.frugal(MEMORY),
    ):
        shard_by(corpus, folder, file, ShardSettings(split=split), work)
    return TokenShards(folder).sampler(split, **arguments)


def _cut(streams: Sequence[TokenStream]) -> list[str]:
    """Return a note for each source with texts longer than a row."""
    found = Counter[str]()
    for stream in streams:
        if isinstance(stream.rows, SingleRows) and stream.rows.cut:
            found[stream.source] += stream.rows.cut
    return [
        f"source {name!r}: {counted(cut, 'text')} longer than a row are cut; pack=True serves all "
        f"tokens"
        for name, cut in found.items()
    ]


# -- batches of one length class ------------------------------------------------------------------


class BucketSchedule(Schedule):
    """Deals the batches of a run to buckets; ``rows`` counts them by source and bucket."""

    def __init__(
        self,
        mixture: Mixture,
        rows: Mapping[str, Sequence[int]],
        *,
        seed: int,
        batch: int,
        events: Events | None = None,
    ) -> None:
        if mixture.anneal and mixture.anneal.end_step is not None:
            raise MixtureError(
                f"anneal: end_step={mixture.anneal.end_step} changes shares at each step, and "
                f"batches of one length class cannot follow; omit end_step, give phases, or omit "
                f"by_bucket"
            )
        if mixture.max_epochs or mixture.stop:
            raise MixtureError("max_epochs and stop do not work with by_bucket: omit by_bucket")
        self._rows = [rows[name] for name in sorted(rows)]
        super().__init__(mixture, [*rows], seed=seed, batch=batch, events=events)

    def _dealer(self, shares: tuple[int, ...], purpose: int, step: int) -> Buckets:
        return Buckets(shares, self._rows, key(self._seed, "buckets", step), self.batch)


class Buckets:
    """Deals whole batches to buckets, and draws of a bucket to sources, by constant shares."""

    # The weight of bucket b is the sum over sources of share times the part of the source's items
    # in b. Within b the weight of a source is its term of that sum. So each source gets its share.
    # A leaf is the number of the bucket times the number of sources, plus the number of the source.

    def __init__(
        self, shares: Sequence[int], items: Sequence[Sequence[int]], purpose: int, batch: int
    ) -> None:
        self._shares, self._batch = shares, batch
        scales = [Fraction(s, max(1, sum(n))) for s, n in zip(shares, items, strict=True)]
        parts = [
            [scale * count for scale, count in zip(scales, counts, strict=True)]
            for counts in zip(*items, strict=True)
        ]
        weights = exact_weights([sum(terms, Fraction(0)) for terms in parts])
        self._steps = Apportionment(weights, purpose)
        self._within = [  # a bucket without shares gets no batch
            Apportionment(exact_weights(terms), key(purpose, bucket)) if any(terms) else None
            for bucket, terms in enumerate(parts)
        ]

    def deal(self, positions: Integers) -> Iterator[Share]:
        """Yield the share of each leaf; positions ascend, with or without gaps."""
        if len(positions) == 0:
            return
        steps, within = np.divmod(positions, self._batch)
        first = np.diff(steps, prepend=-1) > 0
        number = np.cumsum(first) - 1
        for share in self._steps.deal(steps[first]):
            begins = np.full(number[-1] + 1, -1)
            begins[share.offsets] = share.indexes * self._batch
            at = np.flatnonzero(begins[number] >= 0)
            dealt: Any = self._within[share.leaf]
            for part in dealt.deal(begins[number[at]] + within[at]):
                leaf = share.leaf * len(self._shares) + part.leaf
                yield Share(leaf, at[part.offsets], part.indexes)

    def counts(self, positions: int) -> list[int]:
        """Return how many of the first ``positions`` positions go to each leaf."""
        steps, rest = divmod(positions, self._batch)
        before, after = (self._steps.counts(n) for n in (steps, steps + (rest > 0)))
        found: list[int] = []
        for dealt, batches, upto in zip(self._within, before, after, strict=True):
            draws = batches * self._batch + (upto - batches) * rest
            found += [0] * len(self._shares) if dealt is None else dealt.counts(draws)
        return found

    def parts(self) -> list[float]:
        """Return the share of every source; together 1."""
        return [share / sum(self._shares) for share in self._shares]
