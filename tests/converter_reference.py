"""The rules of the converters in plain Python, a row at a time."""

from __future__ import annotations

import json
from typing import Any

ROLES = {
    "sharegpt": {
        "human": "user",
        "user": "user",
        "gpt": "assistant",
        "assistant": "assistant",
        "function_call": "assistant",
        "system": "system",
        "observation": "tool",
        "tool": "tool",
    },
    "pair": {r: r for r in ("system", "user", "assistant", "tool")},
    "openai": {
        **{r: r for r in ("system", "user", "assistant", "tool")},
        "developer": "system",
        "function": "tool",
    },
}


class WrongError(Exception):
    """Why a row cannot be converted."""


Message = dict[str, Any]
Row = dict[str, Any]
Made = tuple[list[tuple[str, str]], list[Message], list[Message] | None]


def convert(converter: str, row: Row) -> Made:
    """Return sections, messages and rejected messages of a row."""
    return {"alpaca": alpaca, "sharegpt": sharegpt, "openai": openai, "pair": pair}[converter](row)


def message(role: str, *texts: str, weight: Any = None) -> Message:
    blocks = [{"type": "text", "text": text} for text in texts]
    weight = float(role == "assistant") if weight is None else float(weight)
    return {"role": role, "content": blocks, "loss_weight": weight}


def alpaca(row: Row) -> Made:
    if row.get("output") in (None, []):
        for name in ("system", "instruction", "input"):
            text_of(row, name)
        raise WrongError("output is missing")
    values = {n: text_of(row, n) for n in ("system", "instruction", "input", "output")}
    if values["instruction"] is None and values["input"] is None:
        raise WrongError("instruction is missing")
    prompt = (values["instruction"] or "") + (values["input"] or "")
    if not prompt.strip():
        raise WrongError("instruction is empty")
    output = values["output"] or ""
    if not output.strip():
        raise WrongError("output is empty")
    turns = [message("user", prompt), message("assistant", output)]
    if values["system"]:
        turns.insert(0, message("system", values["system"]))
    return [("anchor", prompt), ("context", output)], turns, None


def text_of(row: Row, name: str) -> str | None:
    value = row.get(name)
    if value == []:
        return None
    if value is not None and not isinstance(value, str):
        raise WrongError(f"{name} is not text")
    return value


def listed(row: Row, name: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        raise WrongError(f"{name} is missing")
    if isinstance(value, str):
        value = parsed(value)
    if not isinstance(value, list):
        raise WrongError(f"{name} is not a list")
    return value


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def sharegpt(row: Row) -> Made:
    system = text_of(row, "system")
    said = listed(row, "conversations")
    turns = [message("system", system)] if system else []
    for turn in said:
        turns += spoken("sharegpt", "conversations", turn, ("from", "value"), blocks=False)
    prompt, reply = halves(turns, "conversations")
    return [("anchor", prompt), ("context", reply)], turns, None


def openai(row: Row) -> Made:
    said = listed(row, "messages")
    turns = []
    for turn in said:
        turns += spoken("openai", "messages", turn)
    prompt, reply = halves(turns, "messages")
    return [("anchor", prompt), ("context", reply)], turns, None


def spoken(
    converter: str,
    field: str,
    turn: Any,
    keys: tuple[str, str] = ("role", "content"),
    *,
    blocks: bool = True,
) -> list[Message]:
    """Return the message of a turn; none for a system message without text."""
    turn = turn if isinstance(turn, dict) else {}
    tag, value = (turn.get(key) for key in keys)
    if tag is None:
        raise WrongError(f"{field} has a turn without '{keys[0]}'")
    role = ROLES[converter].get(tag) if isinstance(tag, str) else None
    if role is None:
        raise WrongError(f"{field} has an unknown '{keys[0]}'")
    calls = tools_of(turn, role) if converter != "sharegpt" else {}
    if value is None and "tool_calls" not in calls:
        raise WrongError(f"{field} has a turn without '{keys[1]}'")
    texts = [] if value is None else [value]
    if blocks and isinstance(value, list):
        texts = [
            b.get("text", b.get("value"))
            if isinstance(b, dict) and b.get("type") == "text"
            else None
            for b in value
        ]
    if not all(isinstance(text, str) for text in texts):
        raise WrongError(f"{field} has a '{keys[1]}' that is not text")
    filled = "tool_calls" in calls or "".join(texts).strip()
    if role in ("user", "assistant") and not filled:
        raise WrongError(f"{field} has an empty turn of the {role}")
    weight = turn.get("weight") if turn.get("loss_weight") is None else turn["loss_weight"]
    if weight is not None and (isinstance(weight, str | bool) or not 0 <= weight < float("inf")):
        raise WrongError(f"{field} has a 'loss_weight' that is no number from 0 up")
    empty = role == "system" and not "".join(texts)
    return [] if empty else [message(role, *texts, weight=weight) | calls]


def tools_of(turn: Message, role: str) -> Message:
    """Return what a message says of tools."""
    if role == "tool":
        return {n: turn[n] for n in ("tool_call_id", "name") if turn.get(n) is not None}
    older = turn.get("function_call")
    calls = turn.get("tool_calls") or (older and [{"type": "function", "function": older}])
    return {"tool_calls": calls} if calls and role == "assistant" else {}


def halves(turns: list[Message], field: str) -> tuple[str, str]:
    """Return prompt and reply of messages."""
    if not turns:
        raise WrongError(f"{field} is empty")
    texts = ["\n".join(b["text"] for b in t["content"]) for t in turns]
    said = [i for i, t in enumerate(turns) if t["role"] == "assistant" and texts[i].strip()]
    if not said:
        raise WrongError(f"{field} has no turn of the assistant with text")
    last = said[-1]
    before = [x for x, t in zip(texts[:last], turns, strict=False) if t["role"] != "system"]
    prompt = "\n\n".join(text for text in before if text.strip())
    if not prompt:
        raise WrongError(f"{field} has nothing before the reply")
    return prompt, texts[last]


def pair(row: Row) -> Made:
    values = {}
    for name in ("system", "prompt", "instruction", "input", "question", "chosen", "rejected"):
        value = row.get(name)
        if name in ("prompt", "chosen", "rejected"):
            if name != "prompt" and value is None:
                raise WrongError(f"{name} is missing")
            if value is not None and not isinstance(value, (str, list)):
                raise WrongError(f"{name} is not text or a list")
            found = parsed(value) if isinstance(value, str) else None
            if isinstance(found, list) and found and isinstance(found[0], dict):
                value = found
        else:
            text_of(row, name)
        values[name] = value
    sides = [
        [m for field, turn in side(values, name) for m in spoken("pair", field, turn)]
        for name in ("chosen", "rejected")
    ]
    (prompt, chosen), (other, rejected) = halves(sides[0], "chosen"), halves(sides[1], "rejected")
    if prompt != other:
        raise WrongError("rejected has another prompt")
    sections = [("anchor", prompt), ("context", chosen), ("rejected", rejected)]
    return sections, sides[0], sides[1]


def side(values: Row, name: str) -> list[tuple[str, Any]]:
    """Return a side's turns, each with the field it is from."""
    own = values[name]
    own = [{"role": "assistant", "content": own}] if isinstance(own, str) else own
    first = own[0].get("role") if own and isinstance(own[0], dict) else None
    opening = []
    if values["system"] is not None and first is not None and first != "system":
        opening.append(("system", {"role": "system", "content": values["system"]}))
    if first == "assistant":
        opening += asked(values)
    return [*opening, *((name, turn) for turn in own)]


def asked(values: Row) -> list[tuple[str, Any]]:
    if isinstance(values["prompt"], list):
        return [("prompt", turn) for turn in values["prompt"]]
    joined = (values["instruction"] or "") + (values["input"] or "")
    for name, text in (
        ("prompt", values["prompt"]),
        ("instruction", joined),
        ("question", values["question"]),
    ):
        if text and text.strip():
            return [(name, {"role": "user", "content": text})]
    return []
