"""Export a corpus as token shards, in stages that can be interrupted."""

# ``export_state.json`` is written first, and an export continues only if all inputs are equal. Only
# a complete part or shard has its final name. A folder with a manifest is complete.

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import stretches
from duckplets.base.atomic import remove, written_aside
from duckplets.base.locks import alone
from duckplets.base.names import inside
from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, shown
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import threaded
from duckplets.engine.protocol import Part
from duckplets.engine.work import Work, working
from duckplets.errors import DamagedFileError, ShardError
from duckplets.tokens.documents import fingerprint_of, write_document
from duckplets.tokens.encode import Encoded, TokenEncoder, encoded
from duckplets.tokens.locations import SPOOL, ShardFolder, target_of
from duckplets.tokens.manifest import (
    ENDINGS,
    KIND,
    MANIFEST,
    MIXTURES,
    STATE,
    TOKENIZER,
    Longer,
    ShardEntry,
    ShardManifest,
    is_of_export,
    is_of_shard,
    read_state,
)
from duckplets.tokens.mixtures import write_mixtures
from duckplets.tokens.settings import Compression, ShardSettings, differing, inputs_of
from duckplets.tokens.spool import Spool
from duckplets.tokens.texts import SplitTexts, TextBlock
from duckplets.tokens.write import Shard, ShardJob, plan, writable, write_shard

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture


STAGES = ("tokenizing", "bucketing", "sharding", "manifest", "completed")

_LOCK = ".lock"
# Temporary files of a killed export. The holder of the lock removes them even if a process of
# that number lives: in a container the next one often has it.
_TEMPORARY = re.compile(r"^\..*\.\d+-\d+\.new(\.\w+)?$")
_PART = 32 << 20, 1 << 17  # bytes of text, and records, of a part of the spool
_SAVES = 1.0  # seconds between two saves of the state: at most this much work is repeated
_THREADS = 2  # threads that write shards: each needs three times the memory of a shard
_LARGE = 32 << 20  # tokens; larger shards are written one at a time
MEMORY = "300MB"  # for statements, which read each record once


@dataclass(frozen=True, slots=True)
class ShardReport(Reported):
    """The content of an export of shards.

    Attributes:
        path: The folder, or its address in a store.
        shards: Number of shards.
        records: Number of rows.
        tokens: Number of tokens.
        bytes: Size of all shards.
        left_out: Number of records in no shard, by reason.
        cut: Number of texts that were cut at the last boundary.
        made: Number of shards that this call has written; the others existed.
        fingerprint: SHA-256 of everything that determines the bytes.
        seconds: Wall time.
    """

    path: Path | str
    shards: int
    records: int
    tokens: int
    bytes: int
    left_out: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    made: int = 0
    fingerprint: str = ""
    seconds: float = 0.0


@stage("shard")
def shard(
    corpus: CorpusFile,
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
    compression: Compression = "zstd",
    row_group_size: int = 8192,
    offsets: bool = False,
    mixture: Mixture | None = None,
    overwrite: bool = False,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> ShardReport:
    """Write the texts of the newest version as token shards: Parquet files by length.

    A row is a record: ``text``, ``tokens``, and ``meta`` with record id, source, domain, number
    of tokens and metrics of gates. The text has the sections of the record except rejected ones.
    White space becomes one space, except in code. Each shard has a TSV file with index, length, sum
    of the ids, and SHA-256 of the stored text. ``manifest.json`` lists every file with its
    checksum. ``mixtures.json`` has the weights of sources by phases.

    The same corpus, tokenizer, settings and libraries give the same bytes. After an interruption,
    the same call continues the export. After the end, the same call compares checksums and repairs
    all problems that ``verify`` finds. A Parquet or TSV file that is no shard is an error.

    Args:
        out: A folder, created if missing, or ``s3://bucket/prefix``. For a store, shards are
            written next to the corpus first, and uploaded when all exist, the manifest last. A
            target with shards of another run is an error.
        tokenizer: A Hugging Face tokenizers file, or the folder of ``train_tokenizer``.
        split: Name of a split, or several.
        sources: Names of sources; None for all.
        code: Names of sources whose white space stays. It also stays in records that gates
            classified as code.
        buckets: Boundaries in tokens: bucket i has lengths above boundary i-1 and up to boundary
            i.
        longer: How to handle longer texts: a bucket of their ``own``, ``cut`` at the last
            boundary, or ``drop``. Cut and dropped texts are counted.
        shard_mb: Size of a shard in 10^6 bytes, at four bytes a token. A shard exceeds it by at
            most one record. A remainder of less than a quarter goes into the last shard.
        seed: Seed of the order of rows.
        compression: zstd, snappy, gzip, lz4 or none.
        row_group_size: Largest number of rows in a row group. A group has at most about 4 million
            tokens.
        offsets: Also write the span of characters of each token.
        mixture: The mixture in ``mixtures.json``. Default: the number of tokens is the weight.
        overwrite: Replace the shards of another run.
        engine: The engine that encodes texts and writes shards, as for ``mine``. Its workers must
            see ``out``.
        progress: A function that gets the done and the total work; True for a bar, None for a bar
            on a terminal.

    Raises:
        ShardError: An argument is wrong, ``out`` has other files, or another process writes there.
        ChunkingError: The tokenizer cannot be used.
        SplitError, SourceError: There is no such split or source, or there are no splits yet.
        MixtureError: The mixture names a source without shards.
    """
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
    with working(engine, progress, "records") as work, corpus.database.frugal(MEMORY):
        return shard_by(
            corpus, out, tokenizer, settings, work, mixture=mixture, overwrite=overwrite
        )


def shard_by(
    corpus: CorpusFile,
    out: str | Path,
    tokenizer: str | Path,
    settings: ShardSettings,
    work: Work,
    *,
    mixture: Mixture | None = None,
    overwrite: bool = False,
) -> ShardReport:
    """Write shards by settings; see ``shard``."""
    begun, target = time.monotonic(), target_of(out, corpus.path)
    encoder = TokenEncoder(tokenizer)
    texts = SplitTexts(corpus.database, settings.split, settings.sources, settings.code)
    if mixture is not None:
        mixture.check(texts.first())
    inputs = inputs_of(texts, encoder, settings)
    with writable(target.folder), alone(target.folder / _LOCK) as is_free:
        if not is_free:
            raise ShardError(f"{target.folder}: another process writes shards there; wait for it")
        export = _Export(target, texts, encoder, settings, inputs, corpus.path.stem, work)
        export.prepare(overwrite=overwrite)
        manifest, made = export.run(mixture)
    return ShardReport(
        path=target.name,
        shards=len(manifest.shards),
        records=manifest.counts["records"],
        tokens=manifest.counts["tokens"],
        bytes=sum(entry.bytes for entry in manifest.shards),
        left_out=dict(manifest.counts["left_out"]),
        cut=manifest.counts["cut"],
        made=made,
        fingerprint=manifest.fingerprint,
        seconds=time.monotonic() - begun,
    )


class _Export:
    """An export from a corpus to a folder."""

    def __init__(
        self,
        target: ShardFolder,
        texts: SplitTexts,
        encoder: TokenEncoder,
        settings: ShardSettings,
        inputs: Mapping[str, Any],
        name: str,
        work: Work,
    ) -> None:
        self.target, self.out, self.work = target, target.folder, work
        self.texts, self.encoder, self.settings = texts, encoder, settings
        self.inputs, self.name, self.fingerprint = inputs, name, fingerprint_of(inputs)
        self.stage = STAGES[0]
        self.done: dict[str, ShardEntry] = {}
        self.counters = dict.fromkeys(("records", "buckets", "shards", "tokens"), 0)
        self.saved = 0.0

    # -- existing files ---------------------------------------------------------------------------

    def prepare(self, *, overwrite: bool) -> None:
        """Continue an export, or begin one."""
        self.target.begin(self.fingerprint)
        state = None if overwrite else self._stored_state()
        if state is None:
            self._refuse_foreign(overwrite=overwrite)
            self.target.clear()
        elif state["fingerprint"] != self.fingerprint:
            raise ShardError(
                f"{self.target.name} has shards of another run: "
                f"{differing(state['inputs'], self.inputs)}; "
                f"give another folder, or overwrite=True"
            )
        else:
            self.stage, self.counters = state["stage"], dict(state["counters"])
            self._refuse_unlisted()
            sizes = None if (self.out / MANIFEST).exists() else self.target.written()
            listed = state["completed_shards"]
            self.done = {entry.shard_id: entry for entry in listed if self._is_whole(entry, sizes)}
        self._remove_temporary()
        self._save(at_once=True)

    def _is_whole(self, shard: ShardEntry, sizes: Mapping[str, int] | None) -> bool:
        """Return whether a shard exists, by sizes or checksums; remove files that differ."""
        # An interrupted export is checked by sizes, or each new start would read all shards.
        if sizes is not None:
            return sizes.get(shard.path) == shard.bytes and shard.tsv in sizes
        wrong = [path for path, sha256 in shard.files if not self.target.has(path, sha256)]
        for path in wrong:
            self.target.remove(path)
        return not wrong

    def _stored_state(self) -> dict[str, Any] | None:
        """Return the state of the export; if it is lost, the state that a manifest implies."""
        manifest = self._own_manifest()
        try:
            state = read_state(self.out)
        except DamagedFileError:
            if manifest is None:
                raise
            state = None
        if state is not None or manifest is None:
            return state
        groups = {(entry.split, entry.source, entry.bucket) for entry in manifest.shards}
        counts = {name: manifest.counts[name] for name in ("records", "tokens")}
        return {
            "stage": "completed",
            "fingerprint": self.fingerprint,
            "counters": counts | {"buckets": len(groups), "shards": len(manifest.shards)},
            "completed_shards": manifest.shards,
        }

    def _refuse_unlisted(self) -> None:
        """Refuse Parquet and TSV files that no export has written."""
        for path in self.target.sizes():
            if path.endswith(ENDINGS) and not is_of_shard(path):
                raise ShardError(
                    f"{self.target.name} has {shown(path)} in it, which no export has written; "
                    f"move the file to another folder"
                )

    def _refuse_foreign(self, *, overwrite: bool) -> None:
        """Refuse existing files; with ``overwrite`` only files that no export has written."""
        found = [path for path in self.target.sizes() if not (overwrite and is_of_export(path))]
        if found:
            problem = f"and no {STATE} that says which export has written it"
            advice = ", or overwrite=True to replace shards"
            if overwrite:
                problem, advice = "which no export has written", ", or move the file"
            raise ShardError(
                f"{self.target.name} has {shown(found[0])} in it, {problem}; give another "
                f"folder{advice}"
            )

    def _remove_temporary(self) -> None:
        """Remove temporary files of killed processes and workers."""
        for path in self.out.rglob(".*"):
            if _TEMPORARY.search(path.name):
                remove(path)

    def _save(self, stage: str | None = None, *, at_once: bool = False) -> None:
        """Save the state, unless the last save was less than a second ago."""
        self.stage = stage or self.stage
        now = time.monotonic()
        if not (stage or at_once) and now - self.saved < _SAVES:
            return
        values = {
            "stage": self.stage,
            "fingerprint": self.fingerprint,
            "inputs": self.inputs,
            "counters": self.counters,
            "completed_shards": [entry.to_dict() for entry in self.done.values()],
            "last_updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        write_document(self.out / STATE, KIND, values)
        self.saved = now

    # -- stages -----------------------------------------------------------------------------------

    def run(self, mixture: Mixture | None) -> tuple[ShardManifest, int]:
        """Do the remaining work; return the manifest, and the number of written shards."""
        manifest, made = self._own_manifest(), 0
        if manifest and any(self.done.get(entry.shard_id) != entry for entry in manifest.shards):
            manifest = None
        if is_new := manifest is None:
            manifest, made = self._write_missing()
        with written_aside(self.out / TOKENIZER) as file:
            file.write(self.encoder.content)
        if is_new or mixture is not None or not (self.out / MIXTURES).is_file():
            write_mixtures(self.out, manifest, mixture)
        if is_new:
            manifest.write(self.out)
        remove(self.out / SPOOL)
        self._remove_unlisted(manifest)
        self.target.send(manifest)
        self._save("completed")
        self.target.finish()
        self._remove_temporary()
        return manifest, made

    def _own_manifest(self) -> ShardManifest | None:
        """Return the manifest if it is of this run."""
        try:
            manifest = ShardManifest.read(self.out)
        except (ShardError, DamagedFileError):
            return None
        return manifest if manifest.fingerprint == self.fingerprint else None

    def _remove_unlisted(self, manifest: ShardManifest) -> None:
        """Remove shards of other runs."""
        listed = {path for entry in manifest.shards for path, _ in entry.files}
        for path in self.target.sizes():
            if path.endswith(ENDINGS) and path not in listed:
                self.target.remove(path)

    def _write_missing(self) -> tuple[ShardManifest, int]:
        """Write the missing shards; return the manifest, and their number."""
        remove(self.out / MANIFEST)
        slices = stretches(self.texts.places.sizes, total=_PART[0], rows=_PART[1])
        parts = [(part.start, part.stop) for part in slices]
        spool = Spool(inside(self.out.absolute(), SPOOL, ShardError), parts)
        self._tokenize(spool)
        self._save("bucketing")
        counts = spool.counts()
        left_out, cut = self._left_out(spool, counts)
        shards = list(self._planned(counts))
        self.counters |= {
            "records": sum(len(planned.places) for planned in shards),
            "buckets": len({(planned.split, planned.source, planned.bucket) for planned in shards}),
            "tokens": sum(planned.tokens for planned in shards),
        }
        if not shards:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
            raise ShardError(f"there is no text to write{reasons and ': '}{reasons}")
        self._save("sharding")
        made = self._write(spool, shards)
        self._save("manifest")
        return self._manifest(shards, left_out, cut), made

    def _tokenize(self, spool: Spool) -> None:
        spool.folder.mkdir(exist_ok=True)
        missing, settings = spool.missing(), self.settings
        if not missing:
            return
        self._save("tokenizing")
        total = len(self.texts.places.keys)
        done = total - sum(spool.parts[part][1] - spool.parts[part][0] for part in missing)
        blocks = (block for part in missing for block in self.texts.blocks(*spool.parts[part]))
        most = settings.buckets[-1] if settings.longer == "cut" else None
        waiting, rows = iter(missing), list[tuple[TextBlock, Encoded]]()
        part = next(waiting)
        engine, offsets = self.work.engine, settings.offsets
        with closing(
            encoded(self.encoder, blocks, most=most, offsets=offsets, engine=engine)
        ) as found:
            for block, tokens in found:
                rows.append((block, tokens))
                done += len(block.texts)
                self.work.tell(done, 2 * total)
                if block.low + len(block.texts) == spool.parts[part][1]:
                    spool.write(part, rows)
                    rows = []
                    self.counters["records"] = done
                    self._save()
                    part = next(waiting, -1)

    def _left_out(self, spool: Spool, counts: Any) -> tuple[dict[str, int], int]:
        """Return texts in no shard by reason, and the number of cut ones."""
        blank = spool.total("blank")
        found = {
            "no text": blank + self.texts.without(),
            "no token": int((counts == 0).sum()) - blank,
        }
        if self.settings.longer == "drop":
            found["too long"] = int((counts > self.settings.buckets[-1]).sum())
        return {reason: count for reason, count in found.items() if count}, spool.total("cut")

    def _planned(self, counts: Any) -> Iterator[Shard]:
        places, settings = self.texts.places, self.settings
        if settings.longer == "drop":
            counts = np.where(counts > settings.buckets[-1], 0, counts)
        changes = np.flatnonzero(np.diff(places.sources) | np.diff(places.splits)) + 1
        for group in np.split(np.arange(len(counts)), changes) if len(counts) else ():
            first, end = int(group[0]), int(group[-1]) + 1
            split = self.texts.splits[int(places.splits[first])]
            yield from plan(
                counts[first:end],
                (split, self.texts.names[int(places.sources[first])]),
                first,
                buckets=settings.buckets,
                size=int(settings.shard_mb * 1e6),
                seed=settings.seed,
            )

    def _write(self, spool: Spool, shards: list[Shard]) -> int:
        """Write the missing shards in order and return their number."""
        known = {planned.shard_id for planned in shards}
        self.done = {name: entry for name, entry in self.done.items() if name in known}
        missing = [planned for planned in shards if planned.shard_id not in self.done]
        job = ShardJob(
            folder=self.out.absolute(),
            spool=spool,
            metrics=spool.metrics(),
            offsets=self.settings.offsets,
            compression=self.settings.compression,
            row_group_size=self.settings.row_group_size,
        )
        total = self.counters["records"]
        written = total + sum(entry.records for entry in self.done.values())
        parts = (Part(f"writing shard {planned.shard_id}", planned) for planned in missing)
        largest = max((planned.tokens for planned in missing), default=0)
        engine = threaded(self.work.engine, _THREADS if largest <= _LARGE else 1)
        with closing(engine.map(write_shard, job, parts)) as entries:
            for entry in entries:
                self.done[entry.shard_id] = entry
                self.counters["shards"] = len(self.done)
                written += entry.records
                self.work.tell(written, 2 * total)
                self._save()
        return len(missing)

    def _manifest(self, shards: list[Shard], left_out: dict[str, int], cut: int) -> ShardManifest:
        others = ("split", "buckets", "longer", "seed")  # fields of their own
        settings = {n: value for n, value in self.inputs["settings"].items() if n not in others}
        return ShardManifest(
            shards=[self.done[planned.shard_id] for planned in shards],
            tokenizer=self.encoder.entry(),
            corpus={"name": self.name, **self.inputs["corpus"]},
            splits=self.texts.splits,
            buckets=list(self.settings.buckets),
            longer=self.settings.longer,
            settings=settings,
            seed=self.settings.seed,
            libraries=self.inputs["libraries"],
            counts={
                "records": self.counters["records"],
                "tokens": self.counters["tokens"],
                "left_out": left_out,
                "cut": cut,
            },
            fingerprint=self.fingerprint,
        )
