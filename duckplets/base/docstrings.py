"""Read the texts of arguments and fields from docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from textwrap import dedent
from typing import Any

ARGUMENTS = re.compile(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4}(\w+)(?: \(([^\n]*)\))?: (.*?)(?=^ {4}\S|\Z)", re.MULTILINE | re.DOTALL)


def documented_arguments(verb: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Return placeholder and text of a function's arguments or a dataclass's fields, by name."""
    section = ARGUMENTS.search(inspect.getdoc(verb) or "")
    found = {name: (of, text) for name, of, text in _ENTRY.findall(section[1] if section else "")}
    for of in reversed(verb.__mro__[:-1]) if isinstance(verb, type) else ():
        (body,) = ast.parse(dedent(inspect.getsource(of))).body
        for field, text in zip(body.body, body.body[1:], strict=False):  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = "", ast.literal_eval(text.value)
    return {name: (of, " ".join(text.split())) for name, (of, text) in found.items()}
