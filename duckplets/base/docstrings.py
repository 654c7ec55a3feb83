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
    """Return placeholder and text of the arguments of a function or the fields of a dataclass."""
    section = ARGUMENTS.search(inspect.getdoc(verb) or "")
    found = {name: entry for name, *entry in _ENTRY.findall(section[1] if section else "")}
    for base in reversed(verb.__mro__[:-1]) if isinstance(verb, type) else ():
        (body,) = ast.parse(dedent(inspect.getsource(base))).body
        for field, text in zip(body.body, body.body[1:], strict=False):  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = ["", ast.literal_eval(text.value)]
    return {name: (shown, " ".join(text.split())) for name, (shown, text) in found.items()}
