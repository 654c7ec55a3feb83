"""Hold the converters by name: the fields that the built-in ones read, the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from duckplets.base.shown import listed
from duckplets.errors import SourceError, nearest

Function = Callable[[dict[str, Any]], Mapping[str, Any]]
Kind = Literal["text", "list", "either"]

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """What a converter reads.

    Attributes:
        name: What users call it.
        fields: Its fields, each a ``text``, a ``list``, or ``either``.
        needed: The fields that no row may be without.
        roles: The role of each tag that a turn may carry.
        tag: The key of a turn's tag.
        value: The key of a turn's text.
        blocks: Whether a turn's text may be a list of blocks.
        main: The field named where the fault lies in the conversation as a whole.
        rejected: The field of the rejected conversation, where there can be one.
        statement: Its step from fields to what is said.
        ready: Whether that step makes the messages too, and nothing is left to do.
        function: The user's, for one that is not built in.
    """

    name: str
    fields: dict[str, Kind]
    needed: tuple[str, ...]
    roles: dict[str, str] = field(default_factory=lambda: dict(_ROLES))
    tag: str = "role"
    value: str = "content"
    blocks: bool = True
    main: str
    rejected: str | None = None
    statement: str
    ready: bool = False
    function: Function | None = None


_BUILT_IN = {
    converter.name: converter
    for converter in (
        Converter(
            name="alpaca",
            fields={"system": "text", "instruction": "text", "input": "text", "output": "text"},
            needed=("output",),
            main="output",
            statement="sources/converters/alpaca",
            ready=True,
        ),
        Converter(
            name="openai",
            fields={"messages": "list"},
            needed=("messages",),
            roles=_ROLES | {"developer": "system", "function": "tool"},
            main="messages",
            statement="sources/converters/openai",
        ),
        Converter(
            name="pair",
            fields={
                "system": "text",
                "prompt": "either",
                "instruction": "text",
                "input": "text",
                "question": "text",
                "chosen": "either",
                "rejected": "either",
            },
            needed=("chosen", "rejected"),
            main="chosen",
            rejected="rejected",
            statement="sources/converters/pair",
        ),
        Converter(
            name="sharegpt",
            fields={"system": "text", "conversations": "list"},
            needed=("conversations",),
            roles={
                "human": "user",
                "user": "user",
                "gpt": "assistant",
                "assistant": "assistant",
                "function_call": "assistant",
                "system": "system",
                "observation": "tool",
                "tool": "tool",
            },
            tag="from",
            value="value",
            blocks=False,
            main="conversations",
            statement="sources/converters/sharegpt",
        ),
    )
}
_OWN: dict[str, Converter] = {}


def register_converter(name: str, function: Function) -> None:
    """Register a function of your own under a name, for ``converter=`` of any source.

    The function is called once a row, in Python; a name registered again is replaced.

    Args:
        name: Not that of a built-in converter.
        function: Takes a row as a dictionary (keys whose value is null are left out) and returns
            ``{"messages": [...]}``, each message ``{"role": ..., "content": ...}`` with the text
            or a list of ``{"type": "text", "value": ...}``, and ``"loss_weight"`` where it is not
            to be 1.0 for the assistant and 0.0 for others. For a preference pair it returns
            ``"chosen_messages"`` and ``"rejected_messages"``.

    Raises:
        SourceError: The name is taken or no name, or the function cannot be called.
    """
    if not isinstance(name, str) or not name.strip():
        raise SourceError(f"converter {name!r}: give a name")
    if name in _BUILT_IN:
        raise SourceError(f"converter {name!r} is built in; register yours under another name")
    if not callable(function):
        raise SourceError(f"converter {name!r}: {function!r} cannot be called")
    _OWN[name] = Converter(
        name=name,
        fields={"messages": "list", "chosen_messages": "list", "rejected_messages": "list"},
        needed=(),
        main="messages",
        rejected="rejected_messages",
        statement="sources/converters/function",
        function=function,
    )


def converter_names() -> tuple[str, ...]:
    """Return the names of all converters, built in and registered, sorted."""
    return tuple(sorted({*_BUILT_IN, *_OWN}))


def converter_of(name: str) -> Converter:
    """Return the converter of that name.

    Raises:
        SourceError: There is none.
    """
    found = _BUILT_IN.get(name) or _OWN.get(name)
    if found is None:
        names = converter_names()
        raise SourceError(
            f"no converter {name!r}{nearest(name, names)}; there are: {listed(names)}; "
            f"register your own with dp.register_converter(name, function)"
        )
    return found
