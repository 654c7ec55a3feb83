"""Make a command from the signature and docstring of a function and of the verb it calls.

    @command("mining.mine:mine", only="depth source split", places={"recipe": "RECIPE"})
    def mine(corpus: Path, by: str | None = None, **settings: Any) -> None: ...

An argument without a default is positional, every other one an option. ``Args:`` of the docstring
has its text, and in parentheses its placeholder or spelling: ``start (--from N): The first step.``
``only`` names the arguments of the verb that become options. ``settings`` has the values.
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

from duckplets.base.docstrings import ARGUMENTS, documented_arguments
from duckplets.cli import completion
from duckplets.cli.app import boundary, log_file, say

_COMPLETE = {
    "source": completion.sources,
    "sources": completion.sources,
    "split": completion.splits,
    "recipe": completion.recipes,
    "recipes": completion.several_recipes,
    "run": completion.runs,
    "tag": completion.tags,
}
_NUMBERS, _NAMES = "N,…", "NAME,…"
_PLACEHOLDERS: dict[Any, str] = {int: "N", float: "NUMBER", str: "TEXT", Path: "FILE"}
# Placeholder and text of arguments that many commands have; a docstring overrides them.
_USUAL = {
    "corpus": ("CORPUS", "The corpus file, NAME.duckdb."),
    "json": ("", "Print JSON instead of tables."),
    "state": ("FILE", "The state file. [default: next to the corpus]"),
}
_NEVER = {"progress", "engine"}  # shown by a command itself; DUCKPLETS_ENGINE
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|\Z)|([^,]+))')
_SAYS_DEFAULT = re.compile(r"by default|\(the default\)", re.IGNORECASE)

Command = Callable[..., None]
Place = str | Callable[..., Any]


def names(values: Sequence[str] | None) -> list[str]:
    """Return the names of a repeatable, comma-separated option.

    As in CSV, double quotes protect commas and surrounding spaces. A single name without a comma
    keeps its spaces.
    """
    found = []
    for value in values or ():
        named = [(q.replace('""', '"'), plain) for q, plain in _NAME.findall(value)]
        alone = len(named) == 1 and "," not in value
        found += [quoted or (value if alone else plain.strip()) for quoted, plain in named]
    return [name for name in found if name.strip()]


def command(
    *verbs: Place,
    places: Mapping[str, str] | None = None,
    only: str | None = None,
    without: Collection[str] = (),
    written: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Make a command from a function and the verbs whose arguments its ``**settings`` has.

    It runs inside the error boundary.

    Args:
        verbs: MODULE:FUNCTION or class in the package, or a function; the first has precedence.
        places: Placeholders of further positional arguments.
        only: Arguments of verbs that become options. Default: all.
        without: Arguments of verbs to exclude.
        written: Placeholders of options of verbs.
    """

    def made(function: Command) -> Command:
        options = {option.name: option for option in options_of(function, places=places)}
        own = {*options}
        for verb in verbs:
            excluded = {*without, *options}
            for option in options_of(verb, places=places, without=excluded, written=written):
                if only is None or option.name in (*only.split(), *(places or ())):
                    options[option.name] = option

        @wraps(function)
        def called(**arguments: Any) -> None:
            from duckplets.cli.logs import logged, printed

            with boundary(), printed(say), logged(log_file()):
                values = {name: _split(options[name], value) for name, value in arguments.items()}
                function(**{n: v for n, v in values.items() if n in own or v is not None})
                sys.stdout.flush()

        del called.__wrapped__  # otherwise Typer reads its parameters
        parameters = sorted(options.values(), key=lambda option: not _is_place(option))
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        text = ARGUMENTS.sub("", inspect.getdoc(function) or "")
        called.__doc__ = text.replace("Example:\n", "\b\nExample:\n")  # Typer keeps its lines
        return called

    return made


def options_of(
    place: Place,
    *,
    places: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    written: Mapping[str, str] | None = None,
) -> list[Parameter]:
    """Return the arguments of a function as Typer parameters, without the defaults of a verb."""
    is_verb = isinstance(place, str)
    module, _, name = place.partition(":") if isinstance(place, str) else ("", "", "")
    verb: Any = getattr(import_module(f"duckplets.{module}"), name) if is_verb else place
    parameters, found = inspect.signature(verb).parameters, []
    texts, places = documented_arguments(verb), places or {}
    for parameter in parameters.values():
        name, default = parameter.name, parameter.default
        if name in without or name in _NEVER or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        if is_verb and parameter.kind is Parameter.POSITIONAL_ONLY:  # the corpus
            continue
        placeholder, text = texts[name] if name in texts else _USUAL.get(name, ("", ""))
        text, kind = _as_options(text, {*parameters} - {name}), _kind(verb, parameter)
        if name in places or (default is Parameter.empty and not is_verb):
            found.append(_place(parameter, kind, places.get(name, placeholder), text))
            continue
        if is_verb:
            placeholder = (written or {}).get(name, placeholder)
            text = _with_default(text, default)
        found.append(_option(parameter, kind, placeholder, text, is_own=not is_verb))
    return found


def _place(parameter: Parameter, kind: Any, placeholder: str, text: str) -> Parameter:
    is_optional = parameter.default is not Parameter.empty
    completed = _COMPLETE.get(parameter.name)
    how = typer.Argument(
        metavar=placeholder, help=text, autocompletion=completed, show_default=False
    )
    kind = kind | None if is_optional else kind
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, how])


def _option(
    parameter: Parameter, kind: Any, placeholder: str, text: str, *, is_own: bool = True
) -> Parameter:
    name, default, how = parameter.name, parameter.default, dict[str, Any]()
    words = placeholder.split()
    forms = [word for word in words if word.startswith("--")]
    metavar = " ".join(word for word in words if word not in forms)
    if name in _COMPLETE and get_origin(kind) is not Literal:
        how["autocompletion"] = _COMPLETE[name]
    if get_origin(kind) is list:
        metavar = metavar or (_NUMBERS if kind == list[int] else _NAMES)
        kind = list[str]
    elif kind is bool:
        form = f"--{name.replace('_', '-')}"
        forms = forms or [form if default is False else f"{form}/{form.replace('--', '--no-')}"]
    elif kind is str and name in (*_COMPLETE, "name"):
        metavar = metavar or "NAME"
    elif kind is int and is_own:
        how["min"] = 0
    metavar = metavar or _PLACEHOLDERS.get(kind, "")
    default = default if is_own or default is Parameter.empty else None
    kind = kind | None if default is None else kind
    made = typer.Option(*forms, metavar=metavar or None, help=text, show_default=False, **how)
    return parameter.replace(
        kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, made], default=default
    )


def _as_options(text: str, arguments: Collection[str]) -> str:
    """Return a text with argument names written as options."""
    written = {name: f"--{name.replace('_', '-')}" for name in arguments}
    return re.sub(r"``(\w+)``", lambda word: written.get(word[1], word[1]), text).replace("``", "")


def _with_default(text: str, default: Any) -> str:
    """Return help with the default at its end, unless the text has it."""
    if default is True:
        shown = "yes"
    elif isinstance(default, tuple | list):
        shown = ",".join(map(str, default))
    else:
        shown = str(default)
    is_none = default is None or default is False or default is Parameter.empty or not shown
    is_said = is_none or _SAYS_DEFAULT.search(text)
    text = text if not text or text.endswith((".", ")")) else f"{text}."
    return text if is_said else f"{text} [default: {shown}]"


def _kind(verb: Callable[..., Any], parameter: Parameter) -> Any:
    """Return the type of an option: choice, flag, number, list of names, or text."""
    annotated = SimpleNamespace(__annotations__={"it": parameter.annotation})
    space = dict(vars(sys.modules[verb.__module__]))
    while True:
        try:
            hint = get_type_hints(annotated, globalns=space)["it"]
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


def _is_place(parameter: Parameter) -> bool:
    _, how = get_args(parameter.annotation)
    return isinstance(how, typer.models.ArgumentInfo)


def _split(parameter: Parameter, value: Any) -> Any:
    """Return the value of an option; a list whose placeholder has ``,…`` is split."""
    _, how = get_args(parameter.annotation)
    if not isinstance(value, list) or ",…" not in str(how.metavar):
        return value
    try:
        found = names(value)
        return (tuple(map(int, found)) if how.metavar == _NUMBERS else found) or None
    except ValueError:
        raise typer.BadParameter(f"{','.join(value)}: give integers") from None
