"""Turn a user's encoder into one kind of call, check its results, and find its failures."""

# A set remembers its maker. A sentence-transformers model is identified by its name, a digest of
# weights and vocabulary, and its longest text. A folder and its loaded object are the same model;
# training changes the digest.

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
    """Turn texts into vectors."""

    # Takes texts and their prompt (None without prompts); returns the value of the user's function.
    call: Callable[[list[str], str | None], Any]
    made_by: dict[str, Any]  # the identity of the maker
    dimension: int | None = None  # if known before the first call


def encoder_of(model: Any, *, prompts: Prompts, made_by: str | None = None) -> Encoder:
    """Return the encoder of a function or a model; see ``embed`` for the arguments."""
    if isinstance(model, str | Path):
        name = str(model)
        is_function = ":" in name and not Path(name).exists()
        model = imported(name, "model", "batch", VectorError) if is_function else _loaded(name)
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
    made_by = checked("made_by", made_by, str | None, VectorError)
    maker = found.made_by if made_by is None else {"function": made_by}
    return replace(found, made_by=maker | {"prompts": prompts})


def checked_prompts(prompts: Any) -> dict[str, str]:
    """Return the prompts by role, without empty ones."""
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
        raise error("a partial function has no name of its own; give made_by='NAME'")
    owner = function if hasattr(function, "__qualname__") else type(function)
    module = owner.__module__.replace("__mp_main__", "__main__")  # the name in child processes
    return f"{module}.{owner.__qualname__}"


@lru_cache(maxsize=1)  # for several searches by text
def _loaded(name: str) -> Any:
    """Return the sentence-transformers model of a name or in a folder."""
    try:
        library = import_module("sentence_transformers")
    except ImportError:
        raise ExtensionError(
            f"model={name!r} needs sentence-transformers, which is not installed: "
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
        own = {} if prompt is None else {"prompt": prompt}  # "" replaces its default prompt
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
    """Return the name that a model was loaded by, or the whole path of its folder."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    name = str(getattr(config, "_name_or_path", "") or name_of(type(model)))
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _digest(model: Any, parts: list[str]) -> str:
    """Return a digest of parts, vocabulary and weights: 32 hexadecimal digits."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16)
    vocabulary: dict[str, int] = getattr(model.tokenizer, "get_vocab", dict)()
    digest.update(json.dumps(sorted(vocabulary.items())).encode())
    for parameter in model.parameters():
        flat = parameter.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(sys.modules["torch"].uint8).numpy().data)
    return digest.hexdigest()


# -- calls --------------------------------------------------------------------------------------


class UnfitError(Exception):
    """Raised for a returned value of a wrong kind or shape."""


class Embedded(NamedTuple):
    """Hold the outcome of a batch; after too many failures it lacks some texts."""

    rows: Integers  # numbers of the texts with a vector, ascending
    vectors: Array  # (rows, dimension)
    failed: dict[int, str]  # the reason, by the number of a failed text


class Calls:
    """Call one encoder, up to ``retries`` times more after a failure, and check the results."""

    result, item, wanted = "vector", "text", "an array (texts, dimension)"  # words of its messages
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
        self.dimension = dimension  # of vectors, if known
        self.reasons: Counter[str] = Counter()  # number of failed texts by reason
        self._encoder, self._dtype = encoder, np.dtype(dtype)
        self._retries, self._max_failures = retries, max_failures
        self._last: deque[bool] = deque(maxlen=WINDOW)

    @property
    def is_enough(self) -> bool:
        """Whether too many of the last 200 texts have failed."""
        return sum(self._last) > self._max_failures * WINDOW

    def stopped(self, advice: str) -> DuckpletsError:
        """Return the error of too many failures, with advice on how to continue."""
        reason, count = self.reasons.most_common(1)[0]
        return self.error(
            f"stopped: {sum(self._last):,} of the last {WINDOW} {self.item}s failed, more than "
            f"max_failures={self._max_failures:g}; the reason of {count:,}: {reason}. {advice}"
        )

    def embed(self, texts: Sequence[str], prompt: str | None) -> Embedded:
        """Embed a batch; after too many failures, skip the remaining texts."""
        found, failed = [(np.zeros(0, np.int64), self._none(0))], dict[int, str]()
        remaining = [np.arange(len(texts))]
        while remaining and not self.is_enough:
            rows = remaining.pop()
            vectors, reason = self._tried([texts[row] for row in rows.tolist()], prompt)
            fits: Flags = np.asarray(np.isfinite(vectors).all(axis=1))
            if len(rows) > 1 and not fits.any():
                remaining += np.array_split(rows, 2)[::-1]
                continue
            found.append((rows[fits], vectors[fits]))
            for row in rows[~fits].tolist():
                failed[row] = reason
                self.reasons[reason] += 1
            self._last.extend((~fits).tolist())
        some = [part for part in found if len(part[0])] or found
        numbers, matrix = (np.concatenate(parts) for parts in zip(*some, strict=True))
        return Embedded(numbers, matrix, failed)

    def one(self, text: str, prompt: str | None) -> Array:
        """Return the vector of one text, (dimension,)."""
        (found,), reason = self._tried([text], prompt)
        if not np.isfinite(found).all():
            raise VectorError(f"the text cannot be embedded: {reason}")
        return np.asarray(found)

    def _tried(self, texts: list[str], prompt: str | None) -> tuple[Array, str]:
        """Return vectors, NaN after a failure, and the reason of failures."""
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
            reason = f"its {self.result} is not finite in {self._dtype}"
            if np.isfinite(found).all(axis=1).any():
                self.dimension = found.shape[1]
                return found, reason
        return self._none(len(texts)), reason

    def _none(self, count: int) -> Array:
        return np.full((count, self.dimension or 1), np.nan, self._dtype)

    def _checked(self, returned: Any, count: int) -> Array:
        """Return the value of a call as (count, dimension) in the stored type."""
        found = _array_of(returned, self.wanted)
        if found.ndim == 1 and self.dimension == 1:
            found = found[:, None]
        if found.ndim != 2:
            raise UnfitError(f"it returned an array of shape {found.shape}, not ({count}, d)")
        result, item = self.result, self.item
        if len(found) == 1 and count > 2:  # calls of single texts would seem right
            raise self.error(
                f"it returned one {result} for {count:,} {item}s: return {self.wanted}, a {result} "
                f"for each {item} in their order"
            )
        if len(found) != count:
            raise UnfitError(f"it returned {len(found):,} {result}s for {count:,} {item}s")
        if found.shape[1] != (self.dimension or found.shape[1] or 1):
            raise UnfitError(
                f"it returned {result}s of {found.shape[1]:,} numbers, not of "
                f"{self.dimension or 1:,}"
            )
        with np.errstate(all="ignore"):
            return found.astype(self._dtype, copy=False)


def _array_of(returned: Any, wanted: str) -> Array:
    """Return the numbers of an array, a tensor or lists as an array."""
    if isinstance(returned, list | tuple):
        returned = [_untensored(each) for each in returned]
    kind = type(returned).__name__
    try:
        found = np.asarray(_untensored(returned))
    except (ValueError, TypeError):
        raise UnfitError(f"it returned a {kind} of vectors that differ in length") from None
    if found.dtype.kind not in "fiu":
        dtype = f" of {found.dtype}" if found.ndim else ""
        raise UnfitError(f"it returned a {kind}{dtype}, no numbers: return {wanted}")
    return found


def _untensored(value: Any) -> Any:
    """Return a tensor as an array in main memory, and other values unchanged."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return (value if value.dtype.itemsize > 2 else value.float()).numpy()  # NumPy has no bfloat16
