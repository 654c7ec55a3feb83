"""Convert instruction data to messages: the turns of a row, its prompt and its reply.

fields of a row ─sides_of→ raw turns ─_turns→ checked turns ─_spoken→ prompt, reply, messages
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from duckplets.sources.values import is_filled, json_string, json_text, number_text, plain

Kind = Literal["text", "list", "either"]
Function = Callable[[dict[str, Any]], Mapping[str, Any]]

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
KEPT = ("name", "reasoning_content", "reasoning", "thinking")  # as chat templates name them
_SHOWN = 60  # characters of a wrong value shown in a message
_SHOWN_ERROR = 200


class Wrong(Exception):  # noqa: N818 - carries a reason to its row
    """The counted reason why a row cannot be converted, and details."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


RawTurn = tuple[str, int, Any]
"""A turn in a row: its field, its number, and its value, which should be a dictionary."""


class Turn(NamedTuple):
    """A checked turn."""

    role: str
    texts: list[str]
    more: str  # JSON of its tool calls, name and reasoning
    weight: float
    unread: Mapping[str, Any] = {}  # values that are not in its message, by their path in a row


class Converted(NamedTuple):
    """A record made of a row, or the reason for none."""

    sections: Sequence[tuple[str, str | None, str]] = ()
    messages: str | None = None
    rejected_messages: str | None = None
    identity: str | None = None
    reason: str | None = None
    detail: str | None = None
    number: int | None = None  # number of the reply, if each makes a record
    conversation: str | None = None
    left_out: Sequence[str] = ()  # paths of values in turns that are not in the messages
    unpaired: int | None = None  # turns of a conversation that are in no pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """The fields that a converter reads, and the form of its turns."""

    name: str  # its name for users
    fields: dict[str, Kind]  # its fields, each a ``text``, a ``list``, or ``either``
    needed: tuple[str, ...] = ()  # fields that every row must have
    # returns the turns of each side of a row, from the values of its fields
    sides_of: Callable[[Any], list[list[RawTurn]]] | None = None
    main: str = "messages"  # field named for a fault of the whole conversation
    rejected: str | None = None  # field of the rejected conversation, if there can be one
    # role of each tag of a turn
    roles: dict[str, str] = field(default_factory=lambda: _ROLES)
    tag: str = "role"  # key of a turn's tag
    value: str = "content"  # key of a turn's text
    has_tools: bool = True  # whether turns call tools, and a text may be a list of blocks
    function: Function | None = None  # the user's function, if it is not built in

    @property
    def is_own(self) -> bool:
        """Whether it is a user's function, which reads whole rows."""
        return self.function is not None

    @property
    def makes_one(self) -> bool:
        """Whether it makes at most one record of a row."""
        return self.sides_of is None or self.rejected is not None

    def converted(self, row: dict[str, Any], *, each: bool = False) -> Iterator[Converted]:
        """Yield the record of a row; with ``each``, one for every reply."""
        try:
            if self.sides_of is None and not self.is_own:
                yield _alpaca(self._checked(row))
            elif self.is_own:
                yield from self._conversations(self._called(row), each=each)
            else:
                yield from self._conversations(self._checked(row), each=each)
        except Wrong as wrong:
            number = 1 if each else None
            yield Converted(reason=wrong.reason, detail=wrong.detail, number=number)

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind in self.fields.items():
            value = plain(row.get(name))
            if isinstance(value, float) and value != value:
                value = None
            if kind == "text" and value == []:
                value = None
            if value is None:
                if name in self.needed:
                    raise Wrong(f"{name} is missing", f"field '{name}': missing")
                found[name] = None
                continue
            if kind != "text" and type(value) is str:
                listed = _listed(value, kind)
                value = value if listed is None else listed
            right = {"text": str, "list": list}.get(kind)
            if not (type(value) is right if right else type(value) in (str, list)):
                nature = {"text": "text", "list": "a list", "either": "text or a list"}[kind]
                shown = value if isinstance(value, str) else json_text(value)
                detail = f"field '{name}': not {nature}: {shown[:_SHOWN]}"
                raise Wrong(f"{name} is not {nature}", detail)
            found[name] = value
        return found

    def _called(self, row: dict[str, Any]) -> dict[str, Any]:
        values = {
            key: value if type(value) in (str, int, bool) else json.loads(json_text(value))
            for key, value in row.items()
            if value is not None
        }
        assert self.function is not None  # noqa: S101 - only users' converters come here
        try:
            made = self.function(values)
        except Exception as error:
            message, kind = " ".join(str(error).split())[:_SHOWN_ERROR], type(error).__name__
            raise Wrong(kind, f"converter {self.name!r}: {kind}: {message}") from error
        if not isinstance(made, Mapping):
            raise self._refused(f"returned {type(made).__name__}, not a dictionary")
        if made.get("messages") is None and made.get("chosen_messages") is None:
            raise self._refused("returned neither 'messages' nor 'chosen_messages'")
        found = {}
        for name in self.fields:
            value = made.get(name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
                raise self._refused(f"returned {type(value).__name__} for {name!r}, not a list")
            try:
                text = json.dumps(value and list(value), ensure_ascii=False, allow_nan=False)
                text.encode()
                found[name] = None if value is None else json.loads(text)
            except (TypeError, ValueError, RecursionError):
                raise self._refused(f"returned {name!r} that are no JSON") from None
        return found

    def _refused(self, reason: str) -> Wrong:
        return Wrong(reason, f"converter {self.name!r}: {reason}")

    def _conversations(self, values: dict[str, Any], *, each: bool) -> Iterator[Converted]:
        raw = (self.sides_of or _of_function)(values)
        sides, main = [self._turns(side, each) for side in raw], self.main
        if each:
            yield from self._replies(sides[0], main)
            return
        heading = "chosen_messages" if values.get("chosen_messages") is not None else main
        has_prompt = main == "chosen" and _first_tag(values[main]) == "assistant"
        prompt_field = _prompt_field(values) if has_prompt else heading
        prompt, reply, written = _spoken(sides[0], main)
        sections = [("anchor", prompt_field, prompt), ("context", heading, reply)]
        identity, rejected_written = _identity(written, sides[0]), None
        if len(sides) > 1:
            rejected = self.rejected or ""
            other, text, rejected_written = _spoken(sides[1], rejected)
            if prompt != other:
                detail = "its prompt is not that of the other side"
                raise Wrong(
                    f"{rejected} has another prompt",
                    f"field '{rejected}': {detail}: {other[:_SHOWN]}",
                )
            sections.append(("rejected", rejected, text))
            identity += _identity(rejected_written, sides[1])
        left_out = [path for side in sides for turn in side for path in turn.unread]
        yield Converted(sections, written, rejected_written, identity, left_out=left_out)

    def _replies(self, turns: list[Turn], main: str) -> Iterator[Converted]:
        """Yield a record for the last reply before each next user turn."""
        whole = [
            {"role": t.role, "texts": t.texts, "more": t.more, "weight": t.weight} for t in turns
        ]
        digest = hashlib.md5(json_text(whole).encode(), usedforsecurity=False)
        conversation = digest.hexdigest()[:16]
        left_out = [path for turn in turns for path in turn.unread]
        pairs, unpaired = _pairs(turns)
        for number, first, reply in pairs:
            try:
                prompt, text, written = _spoken(turns, main, reply, first, each=True)
            except Wrong as wrong:
                made = Converted(reason=wrong.reason, detail=wrong.detail)
            else:
                sections = [("anchor", main, prompt), ("context", main, text)]
                identity = _identity(written, turns[: (reply or 0) + 1])
                made = Converted(sections, written, None, identity, left_out=left_out)
                made, unpaired = made._replace(unpaired=unpaired or None), 0
            yield made._replace(number=number, conversation=conversation)

    def _turns(self, raw: list[RawTurn], each: bool) -> list[Turn]:
        turns = [self._turn(one, each) for one in raw]
        return [turn for turn in turns if turn.role != "system" or "".join(turn.texts) != ""]

    def _turn(self, raw: RawTurn, each: bool) -> Turn:
        """Return a checked turn; with ``each`` a call without text weighs 0 by default."""

        def fault(reason: str, detail: str) -> Wrong:
            return Wrong(f"{raw[0]} {reason}", f"field '{raw[0]}', turn {raw[1]}: {detail}")

        turn = plain(raw[2])
        turn = turn if isinstance(turn, dict) else {}
        tag, content = plain(turn.get(self.tag)), plain(turn.get(self.value))
        if tag is None:
            raise fault(f"has a turn without '{self.tag}'", f"no '{self.tag}'")
        role = self.roles.get(tag) if isinstance(tag, str) else None
        if role is None:
            known = f"'{self.tag}' is {json_text(tag)[:_SHOWN]}; known are: {', '.join(self.roles)}"
            raise fault(f"has an unknown '{self.tag}'", known)
        calls = _calls(turn) if role == "assistant" and self.has_tools else None
        if calls is not None and not _are_calls(calls):
            text = json_text(calls)[:_SHOWN]
            raise fault(
                "has a turn whose 'tool_calls' are no list of functions with names",
                f"""'tool_calls' is no list of {{"function": {{"name": …}}}}: {text}""",
            )
        if content is None and calls is None:
            lacks = f"no '{self.value}', and no tool is called"
            raise fault(f"has a turn without '{self.value}'", lacks)
        texts = [content] if content is not None else []
        if isinstance(content, list) and self.has_tools:
            texts = list(map(_block, content))
        if not all(type(text) is str for text in texts):
            detail = f"'{self.value}' is not text: {json_text(content)[:_SHOWN]}"
            raise fault(f"has a '{self.value}' that is not text", detail)
        if role in ("assistant", "user") and calls is None and not is_filled("".join(texts)):
            raise fault(f"has an empty turn of the {role}", f"the turn of the {role} is empty")
        heavy, weight = "loss_weight", turn.get("loss_weight")
        if weight is None and self.function is None:
            heavy, weight = "weight", turn.get("weight")
        is_trained = role == "assistant" and (not each or is_filled("".join(texts)))
        number = is_trained if weight is None else weight
        if (isinstance(weight, bool) or not isinstance(number, (int, float))) or not (
            0 <= number < math.inf
        ):
            detail = f"'loss_weight' is no number from 0 up: {json_text(weight)[:_SHOWN]}"
            raise fault("has a 'loss_weight' that is no number from 0 up", detail)
        bare = Turn(role, texts, "", float(number))
        has_others = content is None or len(turn) != 2 + (weight is not None)
        if not has_others and (type(content) is str or all(len(block) == 2 for block in content)):
            return bare
        names = ("tool_call_id", *KEPT) if role == "tool" and self.has_tools else KEPT
        found = {"tool_calls": calls} | {name: turn.get(name) for name in names}
        more = {name: value for name, value in found.items() if value is not None}
        read = {self.tag, self.value, heavy, *more}
        if calls is not None and not _has_value(turn.get("tool_calls")):
            read.add("function_call")
        unread = _unread(raw[0], {key: turn[key] for key in turn if key not in read})
        unread |= _unread(f"{raw[0]}.{self.value}", _unread_in_blocks(content))
        written = ",".join(f'"{key}":{json_text(value)}' for key, value in more.items())
        return bare._replace(more=written, unread=unread)


def _has_value(value: Any) -> bool:
    return plain(value) not in (None, [])


def _unread(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{path}.{key}": value for key, value in values.items() if _has_value(value)}


def _unread_in_blocks(content: Any) -> dict[str, Any]:
    """Return the unread values of text blocks by key, each with its block's number."""
    found: dict[str, Any] = {}
    blocks = map(plain, content if isinstance(content, list) else ())
    for number, block in enumerate(blocks):
        text = "text" if block.get("text") is not None else "value"
        for key, value in block.items():
            if key not in ("type", text) and _has_value(value):
                found.setdefault(key, []).append([number, value])
    return found


def _block(value: Any) -> Any:
    block = plain(value)
    if not isinstance(block, dict) or block.get("type") != "text":
        return None
    text = block.get("text")
    return plain(block.get("value") if text is None else text)


def _calls(more: Mapping[str, Any]) -> Any:
    calls, function = plain(more.get("tool_calls")), plain(more.get("function_call"))
    if _has_value(calls):
        return calls
    return None if function is None else [{"type": "function", "function": function}]


def _are_calls(calls: Any) -> bool:
    def name(call: Any) -> Any:
        function = plain(plain(call).get("function")) if isinstance(plain(call), dict) else None
        return function.get("name") if isinstance(function, dict) else None

    return isinstance(calls, list) and all(isinstance(name(call), str) for call in calls)


def _pairs(turns: list[Turn]) -> tuple[list[tuple[int, int, int | None]], int]:
    """Return number, first turn and reply of each pair, and the number of turns in none."""
    replies = [i for i, turn in enumerate(turns) if _is_reply(turn)]
    by_user = [turn.role == "user" for turn in turns]
    first, pairs = 0, list[tuple[int, int, int | None]]()
    for number, place in enumerate(replies, 1):
        if number == len(replies) or any(by_user[place : replies[number]]):
            if any(by_user[first:place]):
                pairs.append((number, first, place))
            first = place + 1
    unpaired = len(replies) - len(pairs) + sum(by_user[first:])
    return pairs or [(1, 0, replies[0] if replies else None)], unpaired


def _is_reply(turn: Turn) -> bool:
    return turn.role == "assistant" and is_filled("".join(turn.texts))


def _spoken(
    turns: list[Turn], main: str, reply: int | None = None, first: int = 0, *, each: bool = False
) -> tuple[str, str, str]:
    if not turns:
        raise Wrong(f"{main} is empty", f"field '{main}': the conversation is empty")
    if not each:
        reply = next((i for i in reversed(range(len(turns))) if _is_reply(turns[i])), None)
    if reply is None:
        lack = "no turn of the assistant with text"
        raise Wrong(f"{main} has {lack}", f"field '{main}': {lack}")
    before = (
        "\n".join(turn.texts)
        for turn in turns[first:reply]
        if (turn.role == "user" if each else turn.role != "system")
    )
    prompt = "\n\n".join(filter(is_filled, before))
    if not prompt:
        lack = f"field '{main}': nothing before the last reply"
        raise Wrong(f"{main} has nothing before the reply", lack)
    turns_in = turns[: reply + 1] if each else turns
    weighed = enumerate(turns_in)
    written = (_message(turn, turn.weight if i >= first else 0.0) for i, turn in weighed)
    return prompt, "\n".join(turns[reply].texts), f"[{','.join(written)}]"


def _message(turn: Turn, weight: float) -> str:
    texts = ",".join(f'{{"type":"text","text":{json_string(text)}}}' for text in turn.texts)
    more = f"{turn.more}," if turn.more else ""
    return f'{{"role":"{turn.role}","content":[{texts}],{more}"loss_weight":{number_text(weight)}}}'


def _identity(written: str, turns: Sequence[Turn]) -> str:
    unread = [[i, turn.unread] for i, turn in enumerate(turns) if turn.unread]
    whole = written + (json_text(_in_order(unread)) if unread else "")
    data = whole.encode("utf-8", "surrogatepass")
    return f"messages {hashlib.md5(data, usedforsecurity=False).hexdigest()}"


def _in_order(value: Any) -> Any:
    """Return a value with sorted keys and without nulls, equal for all formats of files."""
    value = plain(value)
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
        return {key: _in_order(item) for key, item in pairs if item is not None}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _listed(text: str, kind: Kind) -> list[Any] | None:
    """Return the list that a text encodes as JSON; for ``either`` one of objects."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    right = isinstance(found, list) and (
        kind == "list" or (found != [] and isinstance(found[0], dict))
    )
    return found if right else None


# -- the turns in the rows of each converter ------------------------------------------------------


def _alpaca(values: dict[str, Any]) -> Converted:
    system, output = values["system"], values["output"]
    instruction, more = values["instruction"], values["input"]
    if instruction is None and more is None:
        detail = "field 'instruction': missing, and 'input' too"
        raise Wrong("instruction is missing", detail)
    prompt = _instructed(instruction, more)
    if not is_filled(prompt):
        detail = "field 'instruction': empty, and no text in 'input' either"
        raise Wrong("instruction is empty", detail)
    if not is_filled(output):
        raise Wrong("output is empty", "field 'output': empty")
    turns = [Turn("user", [prompt], "", 0.0), Turn("assistant", [output], "", 1.0)]
    turns = [Turn("system", [system], "", 0.0), *turns] if system else turns
    written = ",".join(_message(turn, turn.weight) for turn in turns)
    heading = "input" if instruction is None else "instruction"
    sections = [("anchor", heading, prompt), ("context", "output", output)]
    of_system = (
        hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest() if system else ""
    )
    return Converted(sections, f"[{written}]", identity=f"alpaca {of_system}".rstrip())


def _instructed(instruction: str | None, more: str | None) -> str:
    """Return an instruction and its input, joined by a newline if both have text."""
    if instruction and more and is_filled(instruction) and is_filled(more):
        return f"{instruction}\n{more}"
    return (instruction or "") + (more or "")


def _of_list(name: str, values: list[Any]) -> list[RawTurn]:
    return [(name, place, value) for place, value in enumerate(values, 1)]


def _system(values: dict[str, Any], tag: str = "role", value: str = "content") -> list[RawTurn]:
    text = values["system"]
    return [] if text is None else [("system", 1, {tag: "system", value: text})]


def _of_function(values: dict[str, Any]) -> list[list[RawTurn]]:
    chosen, rejected = values["chosen_messages"], values["rejected_messages"]
    name = "messages" if chosen is None else "chosen_messages"
    sides = [_of_list(name, values["messages"] if chosen is None else chosen)]
    return sides if rejected is None else [*sides, _of_list("rejected_messages", rejected)]


def _prompt_field(values: dict[str, Any]) -> str | None:
    """Return the field with the prompt of a preference pair."""
    prompt = values["prompt"]
    if isinstance(prompt, list) or (prompt is not None and is_filled(prompt)):
        return "prompt"
    if is_filled(_instructed(values["instruction"], values["input"])):
        return "instruction"
    return "question" if values["question"] and is_filled(values["question"]) else None


def _first_tag(turns: Any) -> Any:
    if isinstance(turns, str):
        return "assistant"
    first = plain(turns[0]) if turns else None
    return first.get("role") if isinstance(first, dict) else None


def _pair(values: dict[str, Any]) -> list[list[RawTurn]]:
    """Return both sides: the prompt, then the turns; a list may contain its own prompt."""
    where = _prompt_field(values)
    opening = []
    if where == "prompt" and isinstance(values["prompt"], list):
        opening = _of_list("prompt", values["prompt"])
    elif where is not None:
        joined = _instructed(values["instruction"], values["input"])
        prompt = joined if where == "instruction" else values[where]
        opening = [(where, 1, {"role": "user", "content": prompt})]
    sides = []
    for name in ("chosen", "rejected"):
        own, tag = values[name], _first_tag(values[name])
        own = [{"role": "assistant", "content": own}] if isinstance(own, str) else own
        before = _system(values) if tag is not None and tag != "system" else []
        before = [*before, *opening] if tag == "assistant" else before
        sides.append([*before, *_of_list(name, own)])
    return sides


BUILT_IN = {
    converter.name: converter
    for converter in (
        Converter(
            name="alpaca",
            fields={"system": "text", "instruction": "text", "input": "text", "output": "text"},
            needed=("output",),
            main="output",
        ),
        Converter(
            name="openai",
            fields={"messages": "list"},
            needed=("messages",),
            sides_of=lambda values: [_of_list("messages", values["messages"])],
            roles=_ROLES | {"developer": "system", "function": "tool"},
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
            sides_of=_pair,
            main="chosen",
            rejected="rejected",
        ),
        Converter(
            name="sharegpt",
            fields={"system": "text", "conversations": "list"},
            needed=("conversations",),
            sides_of=lambda values: [
                [
                    *_system(values, "from", "value"),
                    *_of_list("conversations", values["conversations"]),
                ]
            ],
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
            has_tools=False,
            main="conversations",
        ),
    )
}


def of_function(name: str, function: Function) -> Converter:
    """Return the converter of a user's function."""
    fields: dict[str, Kind] = {"messages": "list", "chosen_messages": "list"}
    return Converter(
        name=name,
        fields=fields | {"rejected_messages": "list"},
        rejected="rejected_messages",
        function=function,
    )
