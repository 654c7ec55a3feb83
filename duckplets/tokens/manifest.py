"""Define the files of a folder of token shards, and read and write its manifest."""

# The shards are OUT/SPLIT/SOURCE/bBUCKET/shard_bBUCKET_sINDEX.parquet, each with a .tsv file. A
# path follows from the entry of the shard and is compared with it, so no path of a manifest is
# outside the folder. Nothing depends on time or place: equal exports have equal manifests.

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from duckplets.base.documents import from_json
from duckplets.base.names import inside, quoted
from duckplets.base.sanitize import shown
from duckplets.base.settings import Bounds, kinds_of, misfit
from duckplets.errors import DamagedFileError, SamplerError, ShardError
from duckplets.tokens.documents import damaged, read_document, write_document

KIND = "duckplets token shards"
MANIFEST, MIXTURES, STATE, TOKENIZER = (
    "manifest.json",
    "mixtures.json",
    "export_state.json",
    "tokenizer.json",
)
DOCUMENTS = (STATE, TOKENIZER, MIXTURES, MANIFEST)  # in the order they are written

ENDINGS = (".parquet", ".tsv")
_SHARD = re.compile(r"(?:train|validation|test)/[^/]+/(b\d+)/shard_\1_s\d+\.(?:parquet|tsv)")

Longer = Literal["own", "cut", "drop"]
Split = Literal["train", "validation", "test"]
Count = Annotated[int, Bounds(0, (1 << 63) - 1)]

_VOCABULARY = {"model?": {"vocab?": object}, "added_tokens?": [{"id": int, "content": str}]}
_STATE = {
    "stage": str,
    "fingerprint": str,
    "inputs": {str: object},
    "counters": {"records": Count, "buckets": Count, "shards": Count, "tokens": Count},
    "completed_shards": [object],
    "last_updated": str,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardName:
    """The parts of the name of a shard; its id and its paths within the folder follow from them."""

    split: str
    source: str
    bucket: Annotated[int, Bounds(0, (1 << 16) - 1)]  # of lengths, from 0
    index: Count  # of the shards of this split, source and bucket, from 0

    @property
    def shard_id(self) -> str:
        """The id of the shard."""
        return f"{self.split}/{self.source}/b{self.bucket}/s{self.index}"

    @property
    def path(self) -> str:
        """Path of the Parquet file."""
        return f"{self._stem}.parquet"

    @property
    def tsv(self) -> str:
        """Path of the summary: for each row index, length, token_sum and sha256 of the text."""
        return f"{self._stem}.tsv"

    @property
    def _stem(self) -> str:
        bucket = f"b{self.bucket}"
        return f"{self.split}/{quoted(self.source)}/{bucket}/shard_{bucket}_s{self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardEntry(ShardName):
    """A written shard."""

    records: Count
    tokens: Count
    bytes: Count  # of the file
    sha256: str  # of the file
    seed: Count  # of the order of its rows
    tsv_sha256: str  # of the summary

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and SHA-256 of both files."""
        return (self.path, self.sha256), (self.tsv, self.tsv_sha256)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a manifest, with the paths."""
        facts = asdict(self)
        tsv = {"path": self.tsv, "sha256": facts.pop("tsv_sha256")}
        return {"shard_id": self.shard_id, "path": self.path, **facts, "tsv": tsv}


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerEntry:
    """The tokenizer of the shards."""

    path: str  # within the folder
    sha256: str  # of that file
    fingerprint: str  # SHA-256 of its vocabulary and merges as it saves them
    vocab_size: Count  # with added tokens; ids are less
    eos: str | None  # the token that ends a text, if it has a usual name
    eos_id: Count | None
    pad: str | None  # the token that pads rows, if it has a usual name
    pad_id: Count | None

    def id_of(self, name: str, folder: Path) -> int:
        """Return the id of a token, by the tokenizer file in a folder."""
        if name == self.eos and self.eos_id is not None:
            return self.eos_id
        path = inside(folder, self.path, DamagedFileError)
        try:
            content = from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DamagedFileError(f"{path} cannot be read: {error}") from error
        if wrong := misfit(content, _VOCABULARY):
            raise DamagedFileError(f"{path} is damaged: {wrong}")
        added = {token["content"]: token["id"] for token in content.get("added_tokens", ())}
        vocabulary = content.get("model", {}).get("vocab", {})
        found = added.get(name)
        if found is None and isinstance(vocabulary, dict):
            found = vocabulary.get(name)
        if not isinstance(found, int) or not 0 <= found < self.vocab_size:
            advice = f"its end of text is {self.eos!r}" if self.eos else "give eos=None"
            raise SamplerError(f"eos={name!r}: the tokenizer of {folder} has none; {advice}")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardManifest:
    """The content and the origin of a folder of token shards.

    Attributes:
        shards: All shards, in order of split as in ``splits``, source as in the corpus, bucket and
            index.
        tokenizer: The tokenizer.
        corpus: ``name``, ``version``, and digests of the content.
        splits: Names of the splits.
        buckets: Boundaries in tokens: bucket i has lengths above boundary i-1 and up to boundary i.
            The last bucket has all longer texts.
        longer: How texts longer than the last boundary were handled: in a bucket of their ``own``,
            ``cut`` there, or ``drop``.
        settings: All other settings that determine the bytes.
        seed: Seed of the order of rows.
        libraries: Versions of the libraries that determine the bytes.
        counts: ``records``, ``tokens``, ``left_out`` by reason, and texts that were ``cut``.
        fingerprint: SHA-256 of everything that determines the bytes.
    """

    shards: Sequence[ShardEntry]
    tokenizer: TokenizerEntry
    corpus: Mapping[str, Any]
    splits: Sequence[str]
    buckets: Sequence[Annotated[int, Bounds(1, (1 << 31) - 1)]]
    longer: Longer
    settings: Mapping[str, Any]
    seed: Count
    libraries: Mapping[str, str]
    counts: Mapping[str, Any]
    fingerprint: str

    @classmethod
    def read(cls, folder: Path) -> ShardManifest:
        """Return the manifest of a folder.

        Raises:
            ShardError: It is missing, of another kind or of a later version.
            DamagedFileError: It is damaged.
        """
        path = folder / MANIFEST
        content = read_document(path, KIND)
        if content is None:
            raise ShardError(
                f"{folder} has no {MANIFEST}: its export is missing or incomplete; run: "
                f"duckplets shard CORPUS {folder}"
            )
        tokenizer = kinds_of(TokenizerEntry)
        kinds = kinds_of(ShardManifest) | {
            "splits": [Split],
            "shards": [object],
            "tokenizer": tokenizer,
        }
        if wrong := misfit(content, kinds):
            raise damaged(path, wrong)
        content = {name: content[name] for name in kinds}
        content["shards"] = _shards_of(content["shards"], path)
        content["tokenizer"] = TokenizerEntry(**{n: content["tokenizer"][n] for n in tokenizer})
        if content["tokenizer"].path != TOKENIZER:
            raise damaged(path, f"its tokenizer is at {shown(content['tokenizer'].path)}")
        return cls(**content)

    def write(self, folder: Path) -> None:
        """Replace the manifest of a folder."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["shards"] = [shard.to_dict() for shard in self.shards]
        write_document(folder / MANIFEST, KIND, values | {"tokenizer": asdict(self.tokenizer)})


def is_of_export(path: str) -> bool:
    """Return whether an export may write to a path."""
    return path in DOCUMENTS or path.partition("/")[0] in get_args(Split)


def is_of_shard(path: str) -> bool:
    """Return whether a path is the path of a shard."""
    return _SHARD.fullmatch(path) is not None


def buckets_of(lengths: npt.ArrayLike, buckets: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the bucket of each length: i for lengths above boundary i-1 and up to boundary i."""
    found = np.searchsorted(np.asarray(buckets, np.int64), np.asarray(lengths), side="left")
    return np.asarray(found, np.int64)


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state of the export to a folder, or None."""
    path = folder / STATE
    state = read_document(path, KIND)
    if state is None:
        return None
    if wrong := misfit(state, _STATE):
        raise damaged(path, wrong)
    return state | {"completed_shards": _shards_of(state["completed_shards"], path)}


def _shards_of(listed: Any, path: Path) -> list[ShardEntry]:
    """Return the shards that a file lists; refuse repeated ones and wrong paths."""
    names = {"shard_id": str, "path": str, "split": Split, "tsv": {"path": str, "sha256": str}}
    kinds = kinds_of(ShardEntry) | names
    del kinds["tsv_sha256"]
    if wrong := misfit(listed, [kinds]):
        raise damaged(path, wrong)
    found: dict[str, ShardEntry] = {}
    for item in listed:
        facts = {name: item[name] for name in kinds if name not in ("shard_id", "path", "tsv")}
        shard = ShardEntry(**facts, tsv_sha256=item["tsv"]["sha256"])
        paths = item["shard_id"], item["path"], item["tsv"]["path"]
        if paths != (shard.shard_id, shard.path, shard.tsv) or shard.shard_id in found:
            raise damaged(path, f"shard {shown(item['shard_id'])} has a wrong path or is repeated")
        found[shard.shard_id] = shard
    return list(found.values())
