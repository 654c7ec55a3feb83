"""Errors planted in functions: a text of their source is replaced by another one."""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from typing import Any

import pytest


def plant(monkeypatch: pytest.MonkeyPatch, place: str, old: str, new: str) -> None:
    """Replace ``old`` by ``new`` in a function, ``module:name`` or ``module:Class.name``."""
    module_name, _, name = place.partition(":")
    module = import_module(module_name)
    owner: Any = module
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    source = textwrap.dedent(inspect.getsource(getattr(owner, last)))
    assert source.count(old) == 1, (place, old)
    made: dict[str, Any] = {}
    exec(compile(source.replace(old, new), place, "exec"), module.__dict__, made)
    monkeypatch.setattr(owner, last, made[last])
