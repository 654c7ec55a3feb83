"""Define the settings of an export of shards, and everything that determines the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Annotated, Any, Literal

from duckplets.base.sanitize import shown
from duckplets.base.settings import Bounds, check, to_plain
from duckplets.errors import ShardError
from duckplets.tokens.encode import TokenEncoder
from duckplets.tokens.manifest import Longer
from duckplets.tokens.texts import SplitTexts

Compression = Literal["zstd", "snappy", "gzip", "lz4", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSettings:
    """Settings that determine the bytes of shards, with corpus and tokenizer; see ``shard``."""

    split: Sequence[str] | str = ("train",)
    sources: Sequence[str] | str | None = None
    code: Sequence[str] | str = ()
    buckets: Sequence[Annotated[int, Bounds(1, 1 << 30)]] = (128, 256, 512, 1024)
    longer: Longer = "own"
    shard_mb: Annotated[float, Bounds(0.001, 500)] = 100
    seed: Annotated[int, Bounds(0, (1 << 63) - 1)] = 42
    compression: Compression = "zstd"
    row_group_size: Annotated[int, Bounds(1, 1 << 24)] = 8192
    offsets: bool = False

    def __post_init__(self) -> None:
        check(self, ShardError)
        for name in ("split", "sources", "code"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, (value,))
        if not self.buckets or list(self.buckets) != sorted(set(self.buckets)):
            raise ShardError(
                f"buckets={list(self.buckets)!r}: give ascending boundaries, as 128,256,512,1024"
            )


def inputs_of(texts: SplitTexts, encoder: TokenEncoder, settings: ShardSettings) -> dict[str, Any]:
    """Return everything that determines the bytes of an export, as JSON values."""
    return {
        "corpus": texts.origin(),
        "tokenizer": encoder.entry().sha256,
        "settings": to_plain(asdict(settings) | {"split": texts.splits, "sources": texts.sources}),
        "libraries": libraries(),
    }


def libraries() -> dict[str, str]:
    """Return the versions of libraries that determine the bytes."""
    return {name: version(name) for name in ("duckplets", "numpy", "pyarrow", "tokenizers")}


def differing(before: Any, now: Any, at: str = "") -> str:
    """Return the differences of two JSON values in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [n for n in sorted({*before, *now}) if before.get(n) != now.get(n)]
        return ", ".join(differing(before.get(name), now.get(name), name) for name in names)
    return f"{at} was {shown(str(before), 80)} and is {shown(str(now), 80)}"
