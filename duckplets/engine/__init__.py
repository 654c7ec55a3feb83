"""Run tasks in this process, in others or on other machines; one module per engine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine
from duckplets.errors import EngineError

__all__ = ["opened"]

_LOCAL = re.compile(r"local:([1-9]\d{0,2})")
_FORMS = (
    "give None, 'local:4' for four processes of this machine, 'dask://HOST:PORT' for a running "
    "cluster, or a distributed.Client"
)


@contextmanager
def opened(engine: Any) -> Iterator[Engine]:
    """Yield the engine that an argument names, and close it at the end if it was opened here.

    Args:
        engine: None: the engine of ``DUCKPLETS_ENGINE``, or this process. ``local:N``: at most N
            processes, started on demand and ended at the end. ``dask://HOST:PORT``: the scheduler
            of a cluster. A ``distributed.Client`` or any other ``Engine`` is used and stays open.

    Raises:
        EngineError: It is none of these, or unreachable.
        ExtensionError: The package ``distributed`` is missing.
    """
    engine = engine or os.environ.get("DUCKPLETS_ENGINE") or None
    if engine is None or (isinstance(engine, Engine) and not isinstance(engine, type)):
        yield engine or INLINE
        return
    if isinstance(engine, str):
        if found := _LOCAL.fullmatch(engine):
            from duckplets.engine.local import local

            with local(int(found[1])) as processes:
                yield processes
            return
        if engine.startswith("dask://"):
            from duckplets.engine.dask import connected

            with connected(engine) as cluster:
                yield cluster
            return
    elif type(engine).__module__.partition(".")[0] == "distributed":
        from duckplets.engine.dask import of_client

        yield of_client(engine)
        return
    raise EngineError(f"engine={engine!r}: {_FORMS}")
