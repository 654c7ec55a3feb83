"""Log the stages of long work: its start, its counts and its duration."""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from duckplets.base.sanitize import shown

P = ParamSpec("P")
R = TypeVar("R")

_KEYS = ("mining", "version")  # integers that are no counts

log = logging.getLogger("duckplets")


def stage(
    name: str, within: Callable[[Any], AbstractContextManager[object]] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Log the start of a verb, and at its end the counts of its report and the seconds."""

    def marked(verb: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(verb)
        def logged(*arguments: P.args, **named: P.kwargs) -> R:
            first = getattr(arguments[0], "path", arguments[0]) if arguments else None
            label = f"{name} {shown(first)}" if isinstance(first, str | PathLike) else name
            begun = time.monotonic()
            log.info("%s: begins", label, stacklevel=2)  # with the place of the caller
            try:
                with nullcontext() if within is None else within(arguments[0]):
                    found = verb(*arguments, **named)
            except BaseException as error:
                seconds, kind = time.monotonic() - begun, type(error).__name__
                log.info("%s: ended by %s after %.3f s", label, kind, seconds, stacklevel=2)
                raise
            counted = ", ".join(f"{key} {count:,}".strip() for key, count in counts(found).items())
            seconds, counted = time.monotonic() - begun, f": {counted}" if counted else ""
            log.info("%s: done in %.3f s%s", label, seconds, counted, stacklevel=2)
            return found

        return logged

    return marked


def counts(found: object) -> dict[str, int]:
    """Return the integers of a report by name, summed over several reports."""
    total = Counter[str]()
    if isinstance(found, int):
        return {} if isinstance(found, bool) else {"": found}
    if isinstance(found, list | tuple):
        for report in found:
            total.update(counts(report) if is_dataclass(report) else {})
    elif isinstance(found, Mapping):
        for key, value in found.items():
            total.update({str(key): value} if isinstance(value, int) else counts(value))
    elif is_dataclass(found):
        for field in fields(found):
            value = getattr(found, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and field.name not in _KEYS:
                total[field.name] += value
            elif isinstance(value, list | tuple):
                total.update(counts(value))
    return dict(total)
