"""Turn a user's encoder into one kind of call, check its results, and find its failures."""

# A set is tied to its maker: a sentence-transformers model by name, by a digest of weights and
# vocabulary, and by its longest text. A folder and the object are the same model; training changes
# it.

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duckplets.base.arrays import Flags, Integers
from duckplets.base.sanitize import shown
from duckplets.base.settings import Bounds, checked
from duckplets.errors import DuckpletsError, ExtensionError, VectorError
from duckplets.sources.converters.registry import imported

WINDOW = 200  # texts that decide whether too many fail
_REASON = 300  # characters

BatchSize = Annotated[int, Bounds(1, 1 << 20)]
Retries = Annotated[int, Bounds(0, 1000)]
Share = Annotated[float, Bounds(0, 1)]
Prompts = Mapping[str, str]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """What turns texts into vectors."""

    # Takes texts and the prompt before them, or None where nobody has given prompts; returns
    # whatever the user's function does.
    call: Callable[[list[str], str | None], Any]
    made_by: dict[str, Any]  # what a set of its vectors is tied to
    dimension: int | None = None  # where that is known before the first call


def encoder_of(
    model: Any,
    *,
    prompts: Prompts,
    made_by: str | None = None,
) -> Encoder:
    """Return what calls a function or a model; see ``embed`` for both and the arguments."""
    if isinstance(model, str | Path):
        named = str(model)
        is_function = ":" in named and not Path(named).exists()
        model = imported(named, "model", "batch", VectorError) if is_function else _loaded(named)
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(model, library.SentenceTransformer):
        found = _of_sentence_transformers(model, prompts)
    elif callable(encode := getattr(model, "encode", None)):
        found = _of_function(encode, name_of(type(model)))
    elif callable(model):
        found = _of_function(model, None if made_by is not None else name_of(model))
    else:
        raise VectorError(
            f"model={shown(repr(model), 80)}: give a function of a list of texts, an object with "
            f"encode(), or the name or folder of a sentence-transformers model"
        )
    given = checked("made_by", made_by, str | None, VectorError)
    maker = found.made_by if given is None else {"function": given}
    return replace(found, made_by=maker | {"prompts": prompts})


def checked_prompts(prompts: Any) -> dict[str, str]:
    """Return prompts by role, those that are not empty."""
    kind = Mapping[Literal["anchor", "context", "rejected"], str] | None
    found = checked("prompts", prompts, kind, VectorError)
    return {role: prompt for role, prompt in (found or {}).items() if prompt}


def _of_function(function: Callable[[list[str]], Any], name: str | None) -> Encoder:
    def call(texts: list[str], prompt: str | None) -> Any:
        return function([prompt + text for text in texts] if prompt else texts)

    return Encoder(call=call, made_by={"function": name})


def name_of(function: Any, error: type[DuckpletsError] = VectorError) -> str:
    """Return the qualified name of a function or class."""
    if isinstance(function, partial):
        raise error("a partial function has no name to tie its results to; give made_by='NAME'")
    named = function if hasattr(function, "__qualname__") else type(function)
    module = named.__module__.replace("__mp_main__", "__main__")  # as children call it
    return f"{module}.{named.__qualname__}"


@lru_cache(maxsize=1)  # searches by text come one after the other
def _loaded(name: str) -> Any:
    """Return the sentence-transformers model of a name or in a folder."""
    try:
        library = import_module("sentence_transformers")
    except ImportError:
        raise ExtensionError(
            f"model={name!r} is loaded by sentence-transformers, which is not installed: "
            f"pip install 'duckplets[hf]'"
        ) from None
    try:
        return library.SentenceTransformer(name)
    except Exception as error:
        raise VectorError(
            f"model={name!r} cannot be loaded: {type(error).__name__}: {shown(error, 500)}"
        ) from error


def _of_sentence_transformers(model: Any, prompts: Prompts) -> Encoder:
    def call(texts: list[str], prompt: str | None) -> Any:
        own = {} if prompt is None else {"prompt": prompt}  # "" keeps its default prompt away
        return model.encode(texts, batch_size=len(texts), show_progress_bar=False, **own)

    parts = [type(part).__name__ for part in model]
    by_default = None if prompts else model.default_prompt_name
    maker = {
        "model": _model_name(model),
        "digest": _digest(model, parts),
        "max_tokens": model.max_seq_length,
        "normalised": parts[-1] == "Normalize" and model.truncate_dim is None,
    }
    if by_default is not None:
        maker["default_prompt"] = model.prompts.get(by_default, "")
    return Encoder(call=call, made_by=maker, dimension=model.get_embedding_dimension())


def _model_name(model: Any) -> str:
    """Return the name that a model was loaded by; of a folder its whole path."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    name = str(getattr(config, "_name_or_path", "") or name_of(type(model)))
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _digest(model: Any, parts: list[str]) -> str:
    """Return a digest of what was loaded: 32 hexadecimal digits."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16)
    vocabulary: dict[str, int] = getattr(model.tokenizer, "get_vocab", dict)()
    digest.update(json.dumps(sorted(vocabulary.items())).encode())
    for parameter in model.parameters():
        flat = parameter.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(sys.modules["torch"].uint8).numpy().data)
    return digest.hexdigest()


# -- calls --------------------------------------------------------------------------------------


class UnfitError(Exception):
    """What was returned is not what it should be."""


class Embedded(NamedTuple):
    """What became of a batch: a text may be in neither, where too many have failed."""

    rows: Integers  # numbers of the texts that have a vector now, ascending
    vectors: Array  # theirs, (rows, dimension)
    failed: dict[int, str]  # why not, by the numbers of texts that failed


class Calls:
    """Calls of one encoder, made again up to ``retries`` times; finite vectors are kept."""

    made, of, wanted = "vector", "text", "an array (texts, dimension)"  # words of its messages
    error: type[DuckpletsError] = VectorError

    def __init__(
        self,
        encoder: Encoder,
        *,
        dtype: str,
        dimension: int | None,
        retries: int = 0,
        max_failures: float = 1.0,
    ) -> None:
        self.dimension = dimension  # of vectors, once it is known
        self.reasons: Counter[str] = Counter()  # how many texts have failed, by reason
        self._encoder, self._dtype = encoder, np.dtype(dtype)
        self._retries, self._max_failures = retries, max_failures
        self._last: deque[bool] = deque(maxlen=WINDOW)

    @property
    def is_enough(self) -> bool:
        """Whether too many of the last 200 texts have failed."""
        return sum(self._last) > self._max_failures * WINDOW

    def stopped(self, what: str) -> DuckpletsError:
        """Return the error of too many failures; ``what`` says what is kept, and how to go on."""
        reason, count = self.reasons.most_common(1)[0]
        return self.error(
            f"stopped, for {sum(self._last):,} of the last {WINDOW} {self.of}s failed, more than "
            f"max_failures={self._max_failures:g}; {count:,} of all so: {reason}. {what}"
        )

    def embed(self, texts: Sequence[str], prompt: str | None) -> Embedded:
        """Embed a batch; if too many texts fail, stop before the last of them."""
        found, failed = [(np.zeros(0, np.int64), self._none(0))], dict[int, str]()
        left = [np.arange(len(texts))]
        while left and not self.is_enough:
            rows = left.pop()
            vectors, reason = self._tried([texts[row] for row in rows.tolist()], prompt)
            fits: Flags = np.asarray(np.isfinite(vectors).all(axis=1))
            if len(rows) > 1 and not fits.any():
                left += np.array_split(rows, 2)[::-1]
                continue
            found.append((rows[fits], vectors[fits]))
            for row in rows[~fits].tolist():
                failed[row] = reason
                self.reasons[reason] += 1
            self._last.extend((~fits).tolist())
        some = [part for part in found if len(part[0])] or found
        every, matrix = (np.concatenate(parts) for parts in zip(*some, strict=True))
        return Embedded(every, matrix, failed)

    def one(self, text: str, prompt: str | None) -> Array:
        """Return the vector of one text, (dimension,)."""
        (found,), reason = self._tried([text], prompt)
        if not np.isfinite(found).all():
            raise VectorError(f"the text cannot be embedded: {reason}")
        return np.asarray(found)

    def _tried(self, texts: list[str], prompt: str | None) -> tuple[Array, str]:
        """Return vectors, NaN where the call fails, and why those that are not finite fail."""
        reason = ""
        for _ in range(1 + self._retries):
            try:
                found = self._encoder.call(texts, prompt)
            except Exception as error:
                reason = shown(f"{type(error).__name__}: {error}", _REASON)
                continue
            try:
                found = self._checked(found, len(texts))
            except UnfitError as error:
                reason = shown(error, _REASON)
                continue
            reason = f"its {self.made} is not finite in {self._dtype}"
            if np.isfinite(found).all(axis=1).any():
                self.dimension = found.shape[1]
                return found, reason
        return self._none(len(texts)), reason

    def _none(self, count: int) -> Array:
        return np.full((count, self.dimension or 1), np.nan, self._dtype)

    def _checked(self, returned: Any, count: int) -> Array:
        """Return what a call has returned as (count, dimension) of the type that is kept."""
        found = _array_of(returned, self.wanted)
        if found.ndim == 1 and self.dimension == 1:
            found = found[:, None]
        if found.ndim != 2:
            raise UnfitError(f"it returned an array of shape {found.shape}, not ({count}, d)")
        if len(found) == 1 and count > 2:  # each text alone would look as it should
            raise self.error(
                f"it returned one {self.made} for {count:,} {self.of}s: give {self.wanted}, a "
                f"{self.made} for each {self.of} in their order"
            )
        if len(found) != count:
            raise UnfitError(f"it returned {len(found):,} {self.made}s for {count:,} {self.of}s")
        if found.shape[1] != (self.dimension or found.shape[1] or 1):
            raise UnfitError(
                f"it returned {self.made}s of {found.shape[1]:,} numbers, not of "
                f"{self.dimension or 1:,}"
            )
        with np.errstate(all="ignore"):
            return found.astype(self._dtype, copy=False)


def _array_of(returned: Any, wanted: str) -> Array:
    """Return numbers of NumPy, of a tensor or of lists of either as an array."""
    if isinstance(returned, list | tuple):
        returned = [_untensored(each) for each in returned]
    kind = type(returned).__name__
    try:
        found = np.asarray(_untensored(returned))
    except (ValueError, TypeError):
        raise UnfitError(f"it returned a {kind} of vectors that differ in length") from None
    if found.dtype.kind not in "fiu":
        of = f" of {found.dtype}" if found.ndim else ""
        raise UnfitError(f"it returned a {kind}{of}, no numbers: give {wanted}")
    return found


def _untensored(value: Any) -> Any:
    """Return a tensor as an array of the main memory; other values as they are."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return (value if value.dtype.itemsize > 2 else value.float()).numpy()  # NumPy has no bfloat16
