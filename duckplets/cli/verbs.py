"""Make the options of a command of the signature and the docstring of the verb that it calls.

A new argument of a verb is an option of its command without another line. What is written otherwise
on a command line is said where the command is: ``of_verb("mining.mine:mine", places=…)``.
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
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from duckplets.cli import completion
from duckplets.cli.inputs import integers, names

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
_NEVER = {"corpus", "progress"}  # a command opens the one, and shows the other on a terminal


def of_verb(
    verb: str,
    *,
    places: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    **spelled: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a verb in the place of its ``**given``.

    Args:
        verb: MODULE:FUNCTION in the package.
        places: Arguments that have a place and no name, and what stands for their values.
        without: Arguments that the command does not have.
        spelled: Annotations of arguments that are written otherwise.
    """
    options = options_of(verb, without=without, **spelled)
    return with_options([_placed(each, places or {}) for each in options])


def options_of(verb: str, *, without: Collection[str] = (), **spelled: Any) -> list[Parameter]:
    """Return the options of a verb; the arguments are as for ``of_verb``."""
    module, _, name = verb.partition(":")
    options = _options(getattr(import_module(f"duckplets.{module}"), name), spelled)
    return [each for each in options if each.name not in {*without, *_NEVER}]


def with_options(
    shared: Sequence[Parameter],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options in the place of its ``**given``; its own of that name stay."""

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

        del called.__wrapped__  # or Typer would look at its parameters
        parameters = [(rest | ours)[n].replace(kind=Parameter.KEYWORD_ONLY) for n in order]
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

    return made


def _options(verb: Callable[..., Any], spelled: Mapping[str, Any]) -> Sequence[Parameter]:
    """Return the arguments of a verb as Typer takes options."""
    texts, found = arguments_told(verb), []
    for parameter in list(inspect.signature(verb).parameters.values()):
        if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.POSITIONAL_ONLY):
            continue
        name, default = parameter.name, parameter.default
        if name in spelled or name == "engine":
            found.append(parameter.replace(annotation=spelled.get(name, ENGINE)))
            continue
        kind = _kind(verb, parameter)
        how: dict[str, Any] = {"help": texts.get(name, "")}
        if name in _COMPLETE and get_origin(kind) is not Literal:
            how["autocompletion"] = _COMPLETE[name]
        if get_origin(kind) is list:
            how["metavar"] = _INTEGERS if kind == list[int] else _NAMES
            if isinstance(default, tuple | list) and default:
                how["help"] += f" [default: {','.join(map(str, default))}]"
            default, kind = None if default is not Parameter.empty else default, list[str] | None
        elif kind is bool:
            dashed = name.replace("_", "-")
            form = f"--{dashed}" if default is False else f"--{dashed}/--no-{dashed}"
            option = typer.Option(form, **how)
            kind = bool | None if default is None else bool
            found.append(parameter.replace(annotation=Annotated[kind, option]))
            continue
        elif default is None:
            kind = kind | None
        found.append(
            parameter.replace(annotation=Annotated[kind, typer.Option(**how)], default=default)
        )
    return found


def _kind(verb: Callable[..., Any], parameter: Parameter) -> Any:
    """Return the type of an option: a choice, a flag, a number, a list of names, or text."""
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
        if isinstance(origin, type) and issubclass(origin, Collection) and origin is not dict:
            return list[int] if get_args(kind)[:1] == (int,) else list[str]
    plain = [kind for kind in (bool, int, float, str, Path) if kind in kinds]
    return plain[0] if len(plain) == 1 and set(kinds) <= {plain[0], NoneType} else str


def _of_type_checkers(module: str, name: str) -> Any:
    """Return what a module imports for type checkers only; what is not ours is ``Any``."""
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("duckplets"):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return getattr(import_module(str(node.module)), alias.name)
    return Any


def optional(parameter: Parameter) -> Parameter:
    """Return an option that is not there where nobody gives it; its help tells the default."""
    kind, how = get_args(parameter.annotation)
    if not (parameter.default is None or isinstance(parameter.default, bool)):
        how.help += f" [default: {parameter.default}]"
    return parameter.replace(annotation=Annotated[kind | None, how], default=None)


def _placed(parameter: Parameter, places: Mapping[str, str]) -> Parameter:
    if parameter.name not in places:
        return parameter
    kind, option = get_args(parameter.annotation)
    argument = typer.Argument(
        metavar=places[parameter.name], help=option.help, autocompletion=option.autocompletion
    )
    return parameter.replace(annotation=Annotated[kind, argument])


def _is_place(parameter: Parameter) -> bool:
    how = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(each, typer.models.ArgumentInfo) for each in how)


def _value(parameter: Parameter, given: Any) -> Any:
    """Return what an option says: a list may be repeated and may hold commas."""
    _, option = get_args(parameter.annotation)
    if option.metavar not in (_INTEGERS, _NAMES):
        return given
    written = f"--{parameter.name.replace('_', '-')}"
    return integers(written, given) if option.metavar == _INTEGERS else names(given)


def arguments_told(verb: Callable[..., Any]) -> dict[str, str]:
    """Return what the docstring of a verb says of its arguments, by their names."""
    section = re.search(
        r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", inspect.getdoc(verb) or "", re.M | re.S
    )
    entries = re.split(r"^ {4}(?=\S)", section[1], flags=re.M) if section else ()
    parted = (" ".join(entry.split()).partition(": ") for entry in entries)
    return {name: text.replace("``", "") for name, _, text in parted if name}
