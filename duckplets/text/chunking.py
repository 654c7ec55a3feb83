"""Define the settings of chunking, and their stored form.

Chunking(max_tokens=512) ─to_json→ settings table ─from_json→ Chunking ─windows()→ chunks

A tokenizer is stored as path and SHA-256. Windows are exact in its tokens, so a changed file would
cut new sections differently from old ones. ``from_json`` refuses it. ``fingerprint`` omits the
path, since a moved file cuts the same.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duckplets.base.settings import Bounds, check, from_plain, to_plain
from duckplets.errors import ChunkingError
from duckplets.text import chunkers, preprocessors
from duckplets.text.chunkers import Chunker
from duckplets.text.denoiser import Denoiser
from duckplets.text.normaliser import Normaliser
from duckplets.text.preprocessors import AnyPreprocessor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MOST = 2**31 - 1  # positions and counts are INTEGER in the corpus file
_SUMMARY = 512  # tokens

Count = Annotated[int, Bounds(0, MOST)]
Part = Annotated[float, Bounds(0, 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenizerFile:
    """The stored form of a tokenizer."""

    path: Any
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunking:
    """Rules for cutting sections into windows, and the weights of the windows.

    Attributes:
        max_tokens: Largest number of tokens of a window. A section with at most this number is one
            window.
        overlap: Number of tokens that a window shares with the window before. Several numbers give
            several sets of windows.
        summary_tokens: Number of tokens of the summary chunk of a longer section. 0 turns it off,
            and so does the value of ``max_tokens``, since the first window equals that summary.
            Default: 512 or half of ``max_tokens``, the smaller; 0 with a chunker.
        chunker: The function that cuts every section instead of windows: ``"sentences"``,
            ``"markdown"``, ``"code"``, or a name registered by ``register_chunker``. Spans of more
            than ``max_tokens`` are cut into windows.
        summary_weight: Weight of a summary chunk.
        weight_floor: Least weight of a chunk.
        position_weight: ``"window"``, 1/(window_index + 1), or ``"start_ratio"``,
            1 - start_token/tokens.
        tokenizer: Path of a Hugging Face tokenizers JSON file. None counts words between white
            space, and letters of scripts without spaces by weight. A window has at most
            ``max_tokens`` tokens when it is encoded alone: its end is cut if necessary.
        preprocessors: Functions that clean the text of a section first, in this order:
            ``Denoiser``, ``Normaliser``, or functions registered by ``register_preprocessor``.
        denoise: Adds a ``Denoiser``: True, or a ``Denoiser`` with other settings; False takes it
            off.
        normalise: Adds a ``Normaliser``: True or ``"text"``, ``"code"``, or a ``Normaliser``;
            False takes it off.
    """

    max_tokens: Annotated[int, Bounds(1, MOST)] = 1024
    overlap: tuple[Count, ...] = (64,)
    summary_tokens: Count | None = None
    chunker: str | Chunker | None = None
    summary_weight: Part = 0.35
    weight_floor: Part = 0.1
    position_weight: Literal["window", "start_ratio"] = "window"
    tokenizer: str | None = None
    preprocessors: tuple[AnyPreprocessor, ...] = ()
    denoise: InitVar[bool | Denoiser | None] = None
    normalise: InitVar[bool | str | Normaliser | None] = None

    def __post_init__(
        self, denoise: bool | Denoiser | None, normalise: bool | str | Normaliser | None
    ) -> None:
        def set_to(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        set_to("chunker", chunkers.checked(self.chunker))
        cleaners = preprocessors.checked(self.preprocessors)
        set_to("preprocessors", preprocessors.with_cleaners(cleaners, denoise, normalise))
        if self.tokenizer is not None:
            set_to("tokenizer", _absolute(self.tokenizer))
        if not isinstance(self.overlap, list | tuple):
            set_to("overlap", (self.overlap,))
        check(self, ChunkingError)
        if not self.overlap or len(set(self.overlap)) < len(self.overlap):
            raise ChunkingError(f"overlap={self.overlap!r}: give at least one number, each once")
        if self.summary_tokens is None:
            default = self.summary_of(self.max_tokens) if self.chunker is None else 0
            set_to("summary_tokens", default)
        if self.chunker is not None and self.summary_tokens:
            raise ChunkingError(
                f"summary_tokens={self.summary_tokens}: a chunker makes its own summaries; omit "
                f"summary_tokens, or set it to 0"
            )
        if self.tokenizer is not None:
            open_tokenizer(self.tokenizer)

    @staticmethod
    def summary_of(max_tokens: int) -> int:
        """Return the default length of summaries."""
        return min(_SUMMARY, max_tokens // 2)

    @property
    def summary_length(self) -> int:
        """Tokens of the summary of a longer section; 0 if it is off or would equal a window."""
        return 0 if self.summary_tokens == self.max_tokens else self.summary_tokens or 0

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, the tokenizer as path and SHA-256.

        ``chunker`` and ``preprocessors`` appear only if set.
        """
        settings: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        settings["overlap"] = list(self.overlap)
        if (chunker := settings.pop("chunker")) is not None:
            settings["chunker"] = to_plain(chunker)
        if self.tokenizer is not None:
            settings["tokenizer"] = {"path": self.tokenizer, "sha256": _sha256(self.tokenizer)}
        if cleaners := settings.pop("preprocessors"):
            settings["preprocessors"] = [preprocessors.to_json(cleaner) for cleaner in cleaners]
        return settings

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Chunking:
        """Return the settings that ``to_json`` returned, or that a file contains.

        Args:
            settings: Fields by name; omitted fields have their defaults. ``tokenizer`` is a path or
                an object of ``path`` and ``sha256``. ``preprocessors`` are objects with a
                ``name``, which need not be registered.

        Raises:
            ChunkingError: A field is unknown, a value is wrong, or the tokenizer file has changed.
        """
        if not isinstance(settings, Mapping):
            raise ChunkingError(f"chunking={settings!r}: give an object of settings")
        settings, stored = dict(settings), None
        if isinstance(cleaners := settings.get("preprocessors"), list | tuple):
            settings["preprocessors"] = [preprocessors.from_json(item) for item in cleaners]
        if isinstance(settings.get("tokenizer"), Mapping):
            found = from_plain(_TokenizerFile, settings["tokenizer"], ChunkingError, "tokenizer")
            settings["tokenizer"], stored = found.path, found.sha256
        chunking = from_plain(cls, settings, ChunkingError, "chunking")
        if stored is not None and stored != (now := _sha256(str(chunking.tokenizer))):
            raise ChunkingError(
                f"tokenizer={chunking.tokenizer!r}: the file has changed, its SHA-256 begins with "
                f"{now[:16]} and did with {stored[:16]}; restore the old file, or chunk the corpus "
                f"again"
            )
        return chunking

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that determines chunks and weights; the tokenizer by SHA-256 alone."""
        settings = self.to_json()
        if settings["tokenizer"] is not None:
            settings["tokenizer"] = settings["tokenizer"]["sha256"]
        return settings


def open_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a file, which is parsed again only after a change."""
    content = _read(path)
    try:
        return _parse(content)
    except ModuleNotFoundError as error:
        raise ChunkingError(
            f"tokenizer={path!r} needs the package 'tokenizers': "
            "pip install 'duckplets[tokenizers]'"
        ) from error
    except Exception as error:  # the binding raises bare Exception for any bad file
        raise ChunkingError(
            f"tokenizer={path!r} is not a Hugging Face tokenizers JSON file ({error}); "
            "expected a file of Tokenizer.save(), such as tokenizer.json"
        ) from error


@functools.lru_cache(maxsize=2)
def _parse(content: bytes) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    # Files saved for training often truncate and pad. Both would falsify counts and lose text.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ChunkingError(
            f"tokenizer={path!r} cannot be read ({error.strerror}); expected the path of a "
            "Hugging Face tokenizers JSON file, such as tokenizer.json"
        ) from error


def _sha256(path: str) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _absolute(path: object) -> str:
    # absolute: the corpus may be opened from another directory
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise ChunkingError(f"tokenizer={path!r}: expected the path of a file, or None for words")
    return str(Path(path).absolute())
