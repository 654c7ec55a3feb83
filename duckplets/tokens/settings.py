"""Settings of an export of shards: what is asked for, and everything that decides the bytes.

arguments ─checked→ ShardSettings ─with corpus, tokenizer, libraries→ inputs ─SHA-256→ fingerprint
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, get_args

from duckplets.base.checks import integer
from duckplets.base.sanitize import shown
from duckplets.errors import ShardError, nearest
from duckplets.tokens.encode import TokenEncoder
from duckplets.tokens.manifest import Longer
from duckplets.tokens.texts import SplitTexts

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSettings:
    """How shards are made: everything besides corpus and tokenizer that decides their bytes.

    Attributes:
        split: Names of splits, in order.
        sources: Names; None for all.
        code: Names of sources whose white space stays.
        buckets: Boundaries of lengths in tokens, rising.
        longer: ``own``, ``cut`` or ``drop``.
        shard_mb: Size of a shard in 10^6 bytes, of four a token.
        seed: Of the order of rows.
        compression: Of Parquet.
        row_group_size: Rows of a row group at most; long ones are fewer.
        offsets: Whether there is a column with the characters of each token.
    """

    split: Sequence[str] = ("train",)
    sources: Sequence[str] | None = None
    code: Sequence[str] = ()
    buckets: Sequence[int] = (128, 256, 512, 1024)
    longer: Longer = "own"
    shard_mb: float = 100
    seed: int = 42
    compression: str = "zstd"
    row_group_size: int = 8192
    offsets: bool = False

    def __post_init__(self) -> None:
        """Check every field, and bring it into one form."""
        bounds = _boundaries(self.buckets)
        _one_of("longer", self.longer, get_args(Longer))
        _one_of("compression", self.compression, COMPRESSIONS)
        size = self.shard_mb
        is_number = isinstance(size, int | float) and not isinstance(size, bool)
        if not is_number or not 0.001 <= size <= 500:
            raise ShardError(f"shard_mb={size!r}: give a number from 0.001 to 500")
        for name, value in (
            ("split", (self.split,) if isinstance(self.split, str) else tuple(self.split)),
            ("sources", None if self.sources is None else _names(self.sources)),
            ("code", _names(self.code)),
            ("buckets", bounds),
            ("shard_mb", float(size)),
            ("seed", integer("seed", self.seed, 0, (1 << 63) - 1)),
            ("row_group_size", integer("row_group_size", self.row_group_size, 1, 1 << 24)),
            ("offsets", bool(self.offsets)),
        ):
            object.__setattr__(self, name, value)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _boundaries(given: Sequence[int]) -> tuple[int, ...]:
    bounds = tuple(integer("buckets", each, 1, 1 << 30) for each in given)
    if not bounds or list(bounds) != sorted(set(bounds)):
        raise ShardError(f"buckets={list(given)!r}: give boundaries that rise, as 128,256,512,1024")
    return bounds


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        hint = nearest(str(value), allowed)
        raise ShardError(f"{name}={shown(str(value))!r}{hint}: give one of {', '.join(allowed)}")


def inputs_of(texts: SplitTexts, encoder: TokenEncoder, settings: ShardSettings) -> dict[str, Any]:
    """Return everything that decides the bytes of an export, as JSON."""
    chosen = asdict(settings) | {"split": texts.splits, "sources": texts.sources}
    return {
        "corpus": texts.origin(),
        "tokenizer": encoder.entry().sha256,
        "settings": {key: _listed(value) for key, value in chosen.items()},
        "libraries": libraries(),
    }


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def libraries() -> dict[str, str]:
    """Return the versions of what makes the bytes."""
    return {name: version(name) for name in ("duckplets", "numpy", "pyarrow", "tokenizers")}


def differing(before: Any, now: Any, at: str = "") -> str:
    """Return what differs between two JSON values, with both."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted({*before, *now})
        parts = [
            differing(before.get(name), now.get(name), name)
            for name in names
            if before.get(name) != now.get(name)
        ]
        return ", ".join(parts)
    return f"{at} was {shown(str(before), 80)} and is {shown(str(now), 80)}"
