"""Build the options of a command from the signature and docstring of its verb.

A new argument of a verb becomes an option without another line. Exceptions stand at the command:
``of_verb("mining.mine:mine", places=…)``.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from textwrap import dedent
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from duckplets.cli import completion

ENGINE = Annotated[
    str | None,
    typer.Option(
        metavar="local:N|dask://HOST:PORT",
        help="Work in N processes of this machine (worth it for work of minutes), or on a cluster "
        "of Dask; the result is the same.",
    ),
]
_COMPLETE = {
    "source": completion.sources,
    "sources": completion.sources,
    "split": completion.splits,
    "recipe": completion.recipes,
    "recipes": completion.several_recipes,
    "run": completion.runs,
    "tag": completion.tags,
}
_INTEGERS, _NAMES = "N,…", "NAME,…"
COLUMNS = "COLUMN,…"
"""What stands for the value of an option that takes names of columns."""
_NEVER = {"corpus", "progress"}  # a command opens the corpus and shows progress itself
# How docstrings state a default: at the end of a text or of a sentence.
_DEFAULTS = (
    re.compile(r"[;,.] by default ((?:[^.;]|\.(?=\w))+)(?=\.?$)", re.IGNORECASE),
    re.compile(r"[;,] by default ([^.;]{,40})(?=\.\s)"),
    re.compile(r"[;,] (\S+) by default(?=\.|$)"),
    re.compile(r"^by default ([^.;]+)(?=\.?$)", re.IGNORECASE),
)

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|\Z)|([^,]+))')

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def option(text: str, metavar: str | None = None, **how: Any) -> Any:
    """Return an option with a value, its help and its placeholder."""
    return typer.Option(metavar=metavar, help=text, show_default=False, **how)


def names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable, comma-separated option.

    As in CSV, double quotes protect commas and surrounding spaces. A single name without a comma
    keeps its spaces.
    """
    found = []
    for value in values or ():
        named = [(q.replace('""', '"'), plain) for q, plain in _NAME.findall(value)]
        alone = len(named) == 1 and "," not in value
        found += [quoted or (value if alone else plain.strip()) for quoted, plain in named]
    return [name for name in found if name.strip()] or None


def integers(option: str, values: Sequence[str] | None) -> tuple[int, ...] | None:
    """Return the integers of a repeatable, comma-separated option.

    Raises:
        typer.BadParameter: A value is not an integer.
    """
    try:
        return tuple(int(value) for value in names(values) or []) or None
    except ValueError:
        raise typer.BadParameter(f"{option} {','.join(values or [])}: give integers") from None


def of_verb(
    verb: str,
    *,
    places: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    **spelled: Any,
) -> Decorator:
    """Give a command the options of a verb for its ``**given``.

    Args:
        verb: MODULE:FUNCTION in the package.
        places: Positional arguments, with their placeholders.
        without: Arguments to leave out.
        spelled: Annotations of arguments that are written otherwise.
    """
    options = options_of(verb, without=without, **spelled)
    return with_options([_placed(each, places or {}) for each in options])


def options_of(verb: str, *, without: Collection[str] = (), **spelled: Any) -> list[Parameter]:
    """Return the options of a verb; arguments as for ``of_verb``."""
    module, _, name = verb.partition(":")
    found = getattr(import_module(f"duckplets.{module}"), name)
    return _options(found, {*without, *_NEVER}, spelled)


def with_options(shared: Sequence[Parameter]) -> Decorator:
    """Give a command options for its ``**given``; its own options take precedence."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        rest = {p.name: p for p in own.values() if p.kind is not Parameter.VAR_KEYWORD}
        ours = {p.name: p for p in shared if p.name not in rest}
        places = [n for n, p in ours.items() if _is_place(p)]
        first = [n for n in rest if _is_place(rest[n])]
        order = [*first, *places, *(n for n in (*ours, *rest) if n not in (*first, *places))]

        @wraps(command)
        def called(**given: Any) -> None:
            values = {n: _value(ours[n], v) if n in ours else v for n, v in given.items()}
            command(**{n: v for n, v in values.items() if n in rest or v is not None})

        del called.__wrapped__  # or Typer would read its parameters
        parameters = [(rest | ours)[n].replace(kind=Parameter.KEYWORD_ONLY) for n in order]
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

    return made


def optional(parameter: Parameter) -> Parameter:
    """Return an option whose default is None."""
    kind, how = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[kind | None, how], default=None)


def _options(
    verb: Callable[..., Any], without: Collection[str], spelled: Mapping[str, Any]
) -> list[Parameter]:
    """Return the arguments of a verb as Typer parameters."""
    parameters, found = inspect.signature(verb).parameters, []
    texts = documented_arguments(verb)
    for parameter in parameters.values():
        name, default = parameter.name, parameter.default
        if name in without or parameter.kind in (Parameter.VAR_KEYWORD, Parameter.POSITIONAL_ONLY):
            continue
        if name in spelled or name == "engine":
            found.append(parameter.replace(annotation=spelled.get(name, ENGINE)))
            continue
        kind, how, forms = _kind(verb, parameter), dict[str, Any](), []
        if name in _COMPLETE and get_origin(kind) is not Literal:
            how["autocompletion"] = _COMPLETE[name]
        if kind is str and name in (*_COMPLETE, "name"):
            how["metavar"] = "NAME"
        text = _as_options(texts.get(name, ""), {*parameters} - {name})
        text = _with_default(text, default, get_args(kind))
        if get_origin(kind) is list:
            how["metavar"] = _INTEGERS if kind == list[int] else _NAMES
            kind = list[str] | None
            default = default if default is Parameter.empty else None
        elif kind is bool:
            form = _written(name, parameters)
            forms = [form if default is False else f"{form}/{form.replace('--', '--no-')}"]
            kind = bool | None if default is None else bool
        elif default is None:
            kind = kind | None
        made = typer.Option(*forms, help=text, show_default=False, **how)
        found.append(parameter.replace(annotation=Annotated[kind, made], default=default))
    return found


def _written(name: str, arguments: Collection[str]) -> str:
    """Return an argument's name as an option; other words unchanged."""
    return f"--{name.replace('_', '-')}" if name in arguments else name


def _as_options(text: str, arguments: Collection[str]) -> str:
    """Return a text with argument names written as options."""
    return re.sub(r"``(\w+)``", lambda word: _written(word[1], arguments), text).replace("``", "")


def _with_default(text: str, default: Any, choices: Sequence[Any]) -> str:
    """Return help with the default in brackets at its end."""
    shown, (before, marked, after) = "", text.partition(" (the default)")
    if marked:
        shown, text = max(choices, key=lambda choice: before.rfind(str(choice))), before + after
    for pattern in _DEFAULTS:
        if found := pattern.search(text):
            shown, text = found[1], text[: found.start()] + text[found.end() :]
            break
    if default is True:
        shown = "yes"
    elif isinstance(default, tuple | list):
        shown = ",".join(map(str, default))
    elif not (default is None or default is Parameter.empty or isinstance(default, bool)):
        shown = str(default)
    text = text if not text or text.endswith((".", ")")) else f"{text}."
    return f"{text} [default: {shown}]".strip() if shown else text


def _kind(verb: Callable[..., Any], parameter: Parameter) -> Any:
    """Return the type of an option: choice, flag, number, list of names, or text."""
    of_one = SimpleNamespace(__annotations__={"it": parameter.annotation})
    space = dict(vars(sys.modules[verb.__module__]))
    while True:
        try:
            hint = get_type_hints(of_one, globalns=space)["it"]
            break
        except NameError as error:
            name = str(error.name)
            space[name] = _of_type_checkers(verb.__module__, name)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    origins = {get_origin(kind): kind for kind in kinds}
    if Literal in origins and all(isinstance(v, str) for v in get_args(origins[Literal])):
        return origins[Literal]
    for origin, kind in origins.items():
        is_several = isinstance(origin, type) and issubclass(origin, Collection)
        if is_several and not issubclass(origin, Mapping):
            return list[int] if get_args(kind)[:1] == (int,) else list[str]
    plain = [kind for kind in (bool, int, float, str, Path) if kind in kinds]
    return plain[0] if len(plain) == 1 and set(kinds) <= {plain[0], NoneType} else str


def _of_type_checkers(module: str, name: str) -> Any:
    """Return a name imported for type checking only; foreign ones are ``Any``."""
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("duckplets"):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return getattr(import_module(str(node.module)), alias.name)
    return Any


def _placed(parameter: Parameter, places: Mapping[str, str]) -> Parameter:
    if parameter.name not in places:
        return parameter
    kind, how = get_args(parameter.annotation)
    argument = typer.Argument(
        metavar=places[parameter.name],
        help=how.help,
        autocompletion=how.autocompletion,
        show_default=False,
    )
    return parameter.replace(annotation=Annotated[kind, argument])


def _is_place(parameter: Parameter) -> bool:
    how = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(each, typer.models.ArgumentInfo) for each in how)


def _value(parameter: Parameter, given: Any) -> Any:
    """Return the value of an option, with lists split."""
    _, how = get_args(parameter.annotation)
    if how.metavar == _INTEGERS:
        return integers(f"--{parameter.name.replace('_', '-')}", given)
    return names(given) if how.metavar in (_NAMES, COLUMNS) else given


def documented_arguments(verb: Callable[..., Any]) -> dict[str, str]:
    """Return the documentation of a function's arguments or a dataclass's fields, by name."""
    section = re.search(
        r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", inspect.getdoc(verb) or "", re.M | re.S
    )
    entries = re.split(r"^ {4}(?=\S)", section[1], flags=re.M) if section else ()
    parted = (entry.partition(": ") for entry in entries)
    found = {name: text for name, _, text in parted if name}
    for of in reversed(verb.__mro__[:-1]) if isinstance(verb, type) else ():
        (body,) = ast.parse(dedent(inspect.getsource(of))).body
        for field, text in zip(body.body, body.body[1:], strict=False):  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = ast.literal_eval(text.value)
    return {name: " ".join(text.split()) for name, text in found.items()}
