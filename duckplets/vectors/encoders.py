"""Turn what a user embeds with into one kind of call, and say what the vectors are made by.

A set is tied to what made it. Of a sentence-transformers model that is its name, a digest of what
was loaded (weights, vocabulary, the kinds of its parts) and its longest text: the same for a name,
a folder and the object itself, and another one after some steps of training.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from duckplets.base.sanitize import shown
from duckplets.errors import ExtensionError, VectorError
from duckplets.sources.converters.registry import imported

ROLES = ("anchor", "context", "rejected")

Prompts = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """What turns texts into vectors.

    Attributes:
        call: Takes texts and the prompt before them, or None where nobody has given prompts;
            returns whatever the user's function does.
        made_by: What a set of its vectors is tied to.
        dimension: Of a vector, where that is known before the first call.
    """

    call: Callable[[list[str], str | None], Any]
    made_by: dict[str, Any]
    dimension: int | None = None


def encoder_of(
    model: Any,
    *,
    prompts: Prompts | None = None,
    normalise: bool = False,
    made_by: str | Mapping[str, Any] | None = None,
) -> Encoder:
    """Return what calls a function or a model.

    Args:
        model: A callable, an object with ``encode``, the name or folder of a
            sentence-transformers model, or ``module:function``.
        prompts: Texts to put before those of each role.
        normalise: Whether vectors are divided by their length.
        made_by: What a set is tied to in the place of a function's name.

    Raises:
        VectorError: It is none of these, or cannot be loaded; or a prompt is wrong.
        ExtensionError: A model is named, and sentence-transformers is missing.
    """
    prompts = checked_prompts(prompts)
    if isinstance(model, str | Path):
        named = str(model)
        is_function = ":" in named and not Path(named).exists()
        model = imported(named, "model", "batch", VectorError) if is_function else _loaded(named)
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(model, library.SentenceTransformer):
        found = _of_sentence_transformers(model, prompts)
    elif callable(encode := getattr(model, "encode", None)):
        found = _of_function(encode, _name_of(type(model)))
    elif callable(model):
        found = _of_function(model, None if made_by is not None else _name_of(model))
    else:
        raise VectorError(
            f"model={shown(repr(model), 80)}: give a function of a list of texts, an object with "
            f"encode(), or the name or folder of a sentence-transformers model"
        )
    told = found.made_by if made_by is None else _given(made_by)
    is_normalised = normalise or bool(told.get("normalised", False))
    told |= {"prompts": prompts, "normalised": is_normalised}
    return Encoder(call=found.call, made_by=told, dimension=found.dimension)


def checked_prompts(prompts: Any) -> dict[str, str]:
    """Return prompts by role, those that are not empty.

    Raises:
        VectorError: They are no mapping of roles to texts.
    """
    if not isinstance(prompts, Mapping | None):
        raise VectorError(f"prompts={shown(repr(prompts), 80)}: give a mapping of role to text")
    for role, prompt in (prompts or {}).items():
        if role not in ROLES or not isinstance(prompt, str):
            raise VectorError(
                f"prompts={shown(repr({role: prompt}), 80)}: give texts for any of "
                f"{', '.join(ROLES)}, the roles of sections"
            )
    return {role: prompt for role, prompt in (prompts or {}).items() if prompt}


def _given(made_by: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user says that vectors are made by, as plain JSON."""
    given = {"function": made_by} if isinstance(made_by, str) else made_by
    try:
        plain = json.loads(json.dumps(dict(given), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise VectorError(
            f"made_by={shown(repr(made_by), 80)}: give a name, or a mapping of plain values "
            f"({error})"
        ) from None
    return dict(plain)


# -- functions ------------------------------------------------------------------------------------


def _of_function(function: Callable[[list[str]], Any], name: str | None) -> Encoder:
    def call(texts: list[str], prompt: str | None) -> Any:
        return function([prompt + text for text in texts] if prompt else texts)

    return Encoder(call=call, made_by={"function": name})


def _name_of(function: Any) -> str:
    """Return the qualified name of a function or class."""
    if isinstance(function, partial) or not hasattr(function, "__qualname__"):
        kind = type(function)
        if isinstance(function, partial):
            raise VectorError(
                "a partial function has no name to tie its vectors to; give made_by='NAME'"
            )
        return f"{kind.__module__}.{kind.__qualname__}"
    return f"{function.__module__}.{function.__qualname__}"


# -- models ---------------------------------------------------------------------------------------


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
    told = {
        "model": _model_name(model),
        "digest": _digest(model, parts),
        "max_tokens": model.max_seq_length,
        "normalised": parts[-1] == "Normalize" and model.truncate_dim is None,
    }
    if by_default is not None:
        told["default_prompt"] = model.prompts.get(by_default, "")
    return Encoder(call=call, made_by=told, dimension=model.get_embedding_dimension())


def _model_name(model: Any) -> str:
    """Return the name that a model was loaded by; of a folder its whole path."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    name = str(getattr(config, "_name_or_path", "") or _name_of(type(model)))
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
