"""Let some modules go without pandas, as where it is not installed.

DuckDB and Arrow load it to tell its missing values, DuckDB with the first parameter of a statement
and Arrow with the first array of a list: 0.4 s of a process that has none. Neither keeps that it
was refused where it matters: what a user's own code loads, or asks of them, stays as it is.
"""

from __future__ import annotations

import sys
from typing import Any


class _Refusal:
    """A finder of modules that refuses pandas to some, by the Python code that asks for it."""

    def __init__(self, callers: tuple[str, ...]) -> None:
        self._callers = callers

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas; leave everything else to the other finders."""
        if name != "pandas":
            return
        frame: Any = sys._getframe(1)
        while frame and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        # Of C code this is the Python code that has called it.
        if frame and f"{frame.f_globals.get('__name__', '')}.".startswith(self._callers):
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def spare_pandas(*callers: str) -> None:
    """Refuse pandas to what these packages or modules call, from now on."""
    sys.meta_path.insert(0, _Refusal(tuple(f"{name}." for name in callers)))
