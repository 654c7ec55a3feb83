"""What runs on a worker: a function by its name, if the worker has the versions it is made for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from duckplets.errors import DuckpletsError, EngineError

__all__ = ["PartError", "given", "name_of", "run_part", "versions"]

# What decides the bytes of results; others are Dask's own to compare.
_PACKAGES = ("duckplets", "duckdb", "numpy", "pyarrow")


class PartError(Exception):
    """What a part has raised, in words: its own class need not be known to who asked for it."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of what decides results."""
    return {name: version(name) for name in _PACKAGES}


def name_of(function: Callable[..., Any]) -> str:
    """Return by what name a worker finds a function."""
    return f"{function.__module__}:{function.__qualname__}"


def given(job: Any) -> Any:
    """Return a job: as a task it is made again wherever it was lost."""
    return job


def run_part(wanted: dict[str, str], name: str, job: Any, part: Any) -> Any:
    """Run a function of this package over a part.

    Raises:
        EngineError: The versions here are others, or the function has raised what is no error of
            this package.
    """
    has = versions()
    if others := [n for n in wanted if wanted[n] != has[n]]:
        told = ", ".join(f"{name} {has[name]} (wanted: {wanted[name]})" for name in others)
        raise EngineError(
            f"the worker {_here()} has {told}; results could be others there: install the same "
            f"versions on all workers"
        )
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)(job, part)
    except DuckpletsError:
        raise
    except Exception as error:
        raise PartError(f"{type(error).__name__}: {error} (on {_here()})") from None


def _here() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"
