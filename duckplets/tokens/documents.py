"""Read and write the JSON files of a folder, with a kind and a digest, complete or absent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duckplets.base.atomic import written_aside
from duckplets.base.documents import Unreadable, from_json
from duckplets.base.settings import misfit
from duckplets.errors import DamagedFileError, ShardError

FORMAT = 1

_COUNT = range(1 << 63)


def fingerprint_of(values: Any) -> str:
    """Return the SHA-256 of values as JSON; equal values have the same."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_document(path: Path, kind: str, values: Mapping[str, Any]) -> None:
    """Write a JSON file with its kind and a digest of its content."""
    content = {"format": FORMAT, "kind": kind, **values}
    text = json.dumps(content | {"digest": fingerprint_of(content)}, indent=1)
    with written_aside(path) as file:
        file.write(f"{text}\n".encode())


def read_document(path: Path, kind: str) -> dict[str, Any] | None:
    """Return the values of a JSON file, or None if it is missing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ShardError(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not UTF-8") from error
    try:
        content = from_json(text)
    except Unreadable as error:
        raise damaged(path, f"it {error}") from error
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise ShardError(f"{path} is not of {kind}; give another folder")
    if misfit(content, {"format": _COUNT, "digest": str}):
        raise damaged(path, "it has no format or digest")
    if content["format"] > FORMAT:
        raise ShardError(f"{path}: a later version of duckplets wrote it; install that version")
    digest = content.pop("digest")
    if digest != fingerprint_of(content):
        raise damaged(path, "its digest is another")
    return content


def damaged(path: Path, problem: str) -> DamagedFileError:
    """Return the error for a damaged file of a folder."""
    return DamagedFileError(
        f"{path} is damaged: {problem}. Create the folder again, or replace the file by a copy."
    )
