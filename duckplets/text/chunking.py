"""Check the settings by which sections are cut, and turn them into their stored form and back.

    Chunking(max_tokens=512) ─to_json→ settings table ─from_json→ Chunking ─windows()→ chunks

The decision that matters: a tokenizer is stored as path and SHA-256. Windows are exact in its
tokens, so a file that has changed in place would cut new sections otherwise than the old ones;
``from_json`` refuses it. ``fingerprint`` leaves the path out: a moved file cuts the same.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.errors import ChunkingError, nearest
from duckplets.text import chunkers
from duckplets.text.chunkers import Chunker
from duckplets.text.preprocessors import AnyPreprocessor, checked, from_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Chunking", "open_tokenizer"]

MOST = 2**31 - 1  # positions and counts are INTEGER in the corpus file
_SUMMARY = 512  # tokens
POSITION_WEIGHTS = ("window", "start_ratio")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunking:
    """How long sections are cut into windows, and how much each window weighs.

    Attributes:
        max_tokens: A section of at most so many tokens is one window; no window has more.
        overlap: Tokens a window shares with the one before; several give several sets of windows.
        summary_tokens: Length of the summary chunk of a longer section; 0 turns it off, and so
            does ``max_tokens``, for the first window is that summary. By default 512 or half of
            ``max_tokens``, whichever is less; with a chunker 0, for it gives its own.
        chunker: What cuts every section in place of windows: ``"sentences"``, ``"markdown"``,
            ``"code"``, or what ``register_chunker`` has given a name. Spans of more than
            ``max_tokens`` are cut into windows.
        summary_weight: Weight of a summary chunk.
        weight_floor: No chunk weighs less.
        position_weight: ``"window"``, 1/(window_index + 1), or ``"start_ratio"``,
            1 - start_token/tokens.
        tokenizer: Path of a Hugging Face tokenizers JSON file; None counts words between
            white space. Windows have at most ``max_tokens`` of its tokens when encoded alone: the
            end of one that would have more gives way.
        preprocessors: What cleans the text of a section first, in this order: ``Denoiser``,
            ``Normaliser``, or functions that were given a name by ``register_preprocessor``.
    """

    max_tokens: int = 1024
    overlap: tuple[int, ...] = (64,)
    summary_tokens: int | None = None
    chunker: str | Chunker | None = None
    summary_weight: float = 0.35
    weight_floor: float = 0.1
    position_weight: str = "window"
    tokenizer: str | None = None
    preprocessors: tuple[AnyPreprocessor, ...] = ()

    def __post_init__(self) -> None:
        """Check every field, and bring overlap, weights and the path into one form."""
        _check_int("max_tokens", self.max_tokens, 1)
        object.__setattr__(self, "chunker", chunkers.checked(self.chunker))
        if self.summary_tokens is None:
            usual = self.summary_of(self.max_tokens) if self.chunker is None else 0
            object.__setattr__(self, "summary_tokens", usual)
        _check_int("summary_tokens", self.summary_tokens, 0)
        if self.chunker is not None and self.summary_tokens:
            raise ChunkingError(
                f"summary_tokens={self.summary_tokens}: a chunker gives its own summaries; leave "
                f"it out, or set it to 0"
            )
        object.__setattr__(self, "overlap", _overlaps(self.overlap))
        for name in ("summary_weight", "weight_floor"):
            object.__setattr__(self, name, _weight(name, getattr(self, name)))
        if self.position_weight not in POSITION_WEIGHTS:
            close = nearest(str(self.position_weight), POSITION_WEIGHTS)
            raise ChunkingError(
                f"position_weight={self.position_weight!r}: expected 'window' or "
                f"'start_ratio'{close}"
            )
        if self.tokenizer is not None:
            object.__setattr__(self, "tokenizer", _absolute(self.tokenizer))
            open_tokenizer(str(self.tokenizer))
        object.__setattr__(self, "preprocessors", checked(self.preprocessors))

    @staticmethod
    def summary_of(max_tokens: int) -> int:
        """Return the tokens of a summary where none are given."""
        return min(_SUMMARY, max_tokens // 2)

    @property
    def summary_length(self) -> int:
        """Tokens of a longer section's summary; 0 where it has none, or would be a window again."""
        return 0 if self.summary_tokens == self.max_tokens else self.summary_tokens or 0

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, the tokenizer as path and SHA-256.

        ``chunker`` and ``preprocessors`` are there only if there are any.
        """
        settings: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        settings["overlap"] = list(self.overlap)
        if isinstance(chunker := settings.pop("chunker"), Chunker):
            settings["chunker"] = chunker.to_json()
        if self.tokenizer is not None:
            settings["tokenizer"] = {"path": self.tokenizer, "sha256": _sha256(self.tokenizer)}
        if found := [preprocessor.to_json() for preprocessor in settings.pop("preprocessors")]:
            settings["preprocessors"] = found
        return settings

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Chunking:
        """Return the settings that ``to_json`` wrote, or a user put in a file.

        Args:
            settings: Fields by name; those left out keep their defaults. ``tokenizer`` is a path
                or an object of ``path`` and ``sha256``; ``preprocessors`` are objects with a
                ``name``, those of the user's own need not be registered.

        Raises:
            ChunkingError: An unknown field, a wrong value, or a tokenizer file that has changed.
        """
        if not isinstance(settings, Mapping):
            raise ChunkingError(f"chunking={settings!r}: expected an object of settings")
        _refuse_unknown(settings, [field.name for field in fields(cls)], "chunking setting")
        if isinstance(cleaners := settings.get("preprocessors"), list | tuple):
            settings = {**settings, "preprocessors": [from_json(one) for one in cleaners]}
        tokenizer = settings.get("tokenizer")
        if not isinstance(tokenizer, Mapping):
            return cls(**settings)
        _refuse_unknown(tokenizer, ["path", "sha256"], "key of tokenizer")
        if "path" not in tokenizer:
            raise ChunkingError(f"tokenizer={dict(tokenizer)!r}: expected a 'path' in it")
        chunking = cls(**{**settings, "tokenizer": tokenizer["path"]})
        stored, found = tokenizer.get("sha256"), chunking.fingerprint()["tokenizer"]
        if stored is not None and stored != found:
            raise ChunkingError(
                f"tokenizer={chunking.tokenizer!r}: the file has changed, its SHA-256 is {found} "
                f"and was {stored}; put the old file back, or chunk the corpus anew"
            )
        return chunking

    def fingerprint(self) -> dict[str, Any]:
        """Return what decides chunks and weights: all settings, the tokenizer by SHA-256 alone."""
        settings = self.to_json()
        if settings["tokenizer"] is not None:
            settings["tokenizer"] = settings["tokenizer"]["sha256"]
        return settings


def open_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer in a file; read anew on each call, parsed only when it has changed.

    Args:
        path: A Hugging Face tokenizers JSON file.

    Raises:
        ChunkingError: No such file, not a tokenizer, or the package is not installed.
    """
    content = _read(path)
    try:
        return _parse(content)
    except ModuleNotFoundError as error:
        raise ChunkingError(
            f"tokenizer={path!r} needs the package 'tokenizers': "
            "pip install 'duckplets[tokenizers]'"
        ) from error
    except Exception as error:  # the binding raises bare Exception for every kind of bad file
        raise ChunkingError(
            f"tokenizer={path!r} is not a Hugging Face tokenizers JSON file ({error}); "
            "expected what Tokenizer.save() writes, usually called tokenizer.json"
        ) from error


@functools.lru_cache(maxsize=2)
def _parse(content: bytes) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    # Files saved for training often cut and pad: here both would falsify counts and lose text.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ChunkingError(
            f"tokenizer={path!r} cannot be read ({error.strerror}); expected the path of a "
            "Hugging Face tokenizers JSON file, usually called tokenizer.json"
        ) from error


def _sha256(path: str) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _absolute(path: object) -> str:
    # Absolute, because the corpus may be opened from another directory.
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise ChunkingError(f"tokenizer={path!r}: expected the path of a file, or None for words")
    return str(Path(path).absolute())


def _check_int(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise ChunkingError(f"{name}={value!r}: expected an integer from {least} to {MOST}")


def _overlaps(value: object) -> tuple[int, ...]:
    overlaps = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not overlaps:
        raise ChunkingError(f"overlap={value!r}: expected at least one number, such as (64,)")
    for overlap in overlaps:
        _check_int("overlap", overlap, 0)
    if len(set(overlaps)) < len(overlaps):
        raise ChunkingError(f"overlap={value!r}: expected every number once")
    return overlaps


def _weight(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ChunkingError(f"{name}={value!r}: expected a number from 0 to 1")
    return float(value)


def _refuse_unknown(given: Mapping[str, Any], known: list[str], what: str) -> None:
    for name in given:
        if name not in known:
            close = nearest(str(name), known)
            raise ChunkingError(f"unknown {what} {name!r}{close}; known: {', '.join(known)}")
