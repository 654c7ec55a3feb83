"""Folders of token shards, written as the export does but from any tokens, without a corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from duckplets.tokens.documents import fingerprint_of
from duckplets.tokens.manifest import (
    ShardEntry,
    ShardManifest,
    ShardName,
    TokenizerEntry,
    buckets_of,
)

BUCKETS = (8, 16, 32)
EOS, PAD, OTHER, VOCABULARY = 1, 2, 3, 5000
META = pa.struct([("record_id", pa.string()), ("source", pa.string()), ("token_count", pa.int64())])

Texts = Sequence[Sequence[int]]


def numbered(lengths: Sequence[int], first: int = 10) -> list[list[int]]:
    """Return texts of these lengths whose tokens tell which text and place they are from."""
    ids = np.arange(sum(lengths)) % (VOCABULARY - first) + first
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def lengths_of(count: int, seed: int, most: int = 40) -> list[int]:
    """Return so many lengths from 1 on, most of them short."""
    return np.random.default_rng(seed).geometric(4 / most, count).clip(1, most).tolist()


def write_shards(
    folder: Path,
    splits: Mapping[str, Mapping[str, Texts]],
    *,
    buckets: Sequence[int] = BUCKETS,
    rows_a_shard: int = 50,
) -> Path:
    """Write a folder of shards of the texts of every source of every split, as they come."""
    folder.mkdir(parents=True)
    shards = []
    for split, sources in splits.items():
        for source, texts in sources.items():
            of = buckets_of([len(text) for text in texts], buckets)
            for bucket in range(len(buckets) + 1):
                at = np.flatnonzero(of == bucket)
                for index, low in enumerate(range(0, len(at), rows_a_shard)):
                    which = at[low : low + rows_a_shard].tolist()
                    name = ShardName(split=split, source=source, bucket=bucket, index=index)
                    shards.append(_shard(folder, name, which, [texts[i] for i in which]))
    added = [{"id": EOS, "content": "</s>"}, {"id": OTHER, "content": "<end>"}]
    tokenizer = json.dumps({"model": {"vocab": {"word": 7}}, "added_tokens": added}).encode()
    (folder / "tokenizer.json").write_bytes(tokenizer)
    digest = hashlib.sha256(tokenizer).hexdigest()
    ShardManifest(
        shards=shards,
        tokenizer=TokenizerEntry(
            path="tokenizer.json",
            sha256=digest,
            fingerprint=digest,
            vocab_size=VOCABULARY,
            eos="</s>",
            eos_id=EOS,
            pad="<pad>",
            pad_id=PAD,
        ),
        corpus={"name": "toy", "version": 1},
        splits=list(splits),
        buckets=list(buckets),
        longer="own",
        settings={},
        seed=0,
        libraries={},
        counts={},
        fingerprint=fingerprint_of([shard.sha256 for shard in shards]),
    ).write(folder)
    return folder


def _shard(folder: Path, name: ShardName, numbers: list[int], texts: Texts) -> ShardEntry:
    path = folder / name.path
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = [
        {"record_id": f"{name.source}/{n}", "source": name.source, "token_count": len(text)}
        for n, text in zip(numbers, texts, strict=True)
    ]
    table = pa.table(
        {
            "text": ["" for _ in texts],
            "tokens": pa.array(texts, pa.list_(pa.int32())),
            "meta": pa.array(meta, META),
        }
    )
    pq.write_table(table, path, row_group_size=20)
    data = path.read_bytes()
    return ShardEntry(
        **asdict(name),
        records=len(texts),
        tokens=sum(map(len, texts)),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        seed=0,
        tsv_sha256="",
    )


def laid_out(texts: Texts, buckets: Sequence[int] = BUCKETS) -> list[int]:
    """Return the numbers of texts in the order of their shards."""
    of = buckets_of([len(text) for text in texts], buckets)
    return np.argsort(of, kind="stable").tolist()


def digests(folder: Path) -> dict[str, str]:
    """Return the checksums of what decides the bytes of a run, by path."""
    files = (f for f in folder.rglob("*") if f.is_file() and f.name != "export_state.json")
    return {
        f.relative_to(folder).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in files
    }
