"""Rows of instruction data, and by hand what each of them is to become.

A case is a name, a row, and either what it becomes (``Good``) or what is wrong with it (``Bad``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Turn = tuple[str, str]  # the first letter of a role, and a text
_ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


@dataclass(frozen=True)
class Good:
    turns: list[Any]
    anchor: str
    reply: str
    rejected_turns: list[Any] | None = None
    rejected: str | None = None


@dataclass(frozen=True)
class Bad:
    reason: str
    detail: str


def messages(turns: list[Any]) -> list[dict[str, Any]]:
    """Return turns as messages: a letter, texts, perhaps a weight, perhaps what tools say."""
    found = []
    for letter, texts, *weight in turns:
        listed = [texts] if isinstance(texts, str) else texts
        tools = weight.pop() if weight and isinstance(weight[-1], dict) else {}
        found.append(
            {
                "role": _ROLES[letter],
                "content": [{"type": "text", "text": text} for text in listed],
                "loss_weight": weight[0] if weight else float(letter == "a"),
                **tools,
            }
        )
    return found


def alpaca(
    instruction: Any = ..., input_: Any = ..., output: Any = ..., system: Any = ...
) -> dict[str, Any]:
    row = {"instruction": instruction, "input": input_, "output": output, "system": system}
    return {key: value for key, value in row.items() if value is not ...}


def missing(field: str) -> Bad:
    return Bad(f"{field} is missing", f"field '{field}': missing")


def no_text(field: str, shown: str) -> Bad:
    return Bad(f"{field} is not text", f"field '{field}': not text: {shown}")


NO_REPLY = "no turn of the assistant with text"
CALLED = {"name": "w", "arguments": '{"city": "Bern"}'}
CALLS = [{"id": "c1", "type": "function", "function": CALLED}]
NO_INSTRUCTION = Bad("instruction is missing", "field 'instruction': missing, and 'input' too")
EMPTY_INSTRUCTION = Bad(
    "instruction is empty", "field 'instruction': empty, and no text in 'input' either"
)
EMPTY_OUTPUT = Bad("output is empty", "field 'output': empty")


def exchange(asked: str, reply: str) -> Good:
    return Good([("u", asked), ("a", reply)], asked, reply)


HI = exchange("Hi", "Lo")

ALPACA: dict[str, tuple[dict[str, Any], Good | Bad]] = {
    "instruction": (alpaca("Hi", output="Lo"), HI),
    "with input": (alpaca("Translate:", "你好", "Hello"), exchange("Translate:\n你好", "Hello")),
    "spaces around the line break": (alpaca("a ", " b", "c"), exchange("a \n b", "c")),
    "system": (
        alpaca("Hi", "", "Lo", "Be kind."),
        Good([("s", "Be kind."), ("u", "Hi"), ("a", "Lo")], "Hi", "Lo"),
    ),
    "empty input": (alpaca("Hi", "", "Lo"), HI),
    "null input": (alpaca("Hi", None, "Lo"), HI),
    "empty system": (alpaca("Hi", "", "Lo", ""), HI),
    "blank system": (
        alpaca("Hi", "", "Lo", " "),
        Good([("s", " "), ("u", "Hi"), ("a", "Lo")], "Hi", "Lo"),
    ),
    "input alone": (alpaca(input_="Hi", output="Lo"), HI),
    "null instruction": (alpaca(None, "Hi", "Lo"), HI),
    "empty instruction": (alpaca("", "Hi", "Lo"), HI),
    "blank input is kept": (alpaca("Hi", "\n", "Lo"), exchange("Hi\n", "Lo")),
    "escapes": (
        alpaca('say "a\\b"', "\t\n", "\u2028/\u00e9😀"),
        exchange('say "a\\b"\t\n', "\u2028/é😀"),
    ),
    "control characters": (alpaca("a\x01b", "", "c\x1fd"), exchange("a\x01b", "c\x1fd")),
    "JSON as text": (alpaca("[1]", '{"a": null}', "null"), exchange('[1]\n{"a": null}', "null")),
    "spaces are kept": (alpaca(" Hi ", "", " Lo\n"), exchange(" Hi ", " Lo\n")),
    "no output": (alpaca("Hi", ""), missing("output")),
    "null output": (alpaca("Hi", "", None), missing("output")),
    "empty output": (alpaca("Hi", "", ""), EMPTY_OUTPUT),
    "blank output": (alpaca("Hi", "", " \n\u3000"), EMPTY_OUTPUT),
    "nothing to do": (alpaca(output="Lo"), NO_INSTRUCTION),
    "nulls to do": (alpaca(None, None, "Lo"), NO_INSTRUCTION),
    "empty to do": (alpaca("", "", "Lo"), EMPTY_INSTRUCTION),
    "blank to do": (alpaca(" ", "\t", "Lo"), EMPTY_INSTRUCTION),
    "number": (alpaca("Hi", "", 5), no_text("output", "5")),
    "truth": (alpaca("Hi", True, "Lo"), no_text("input", "true")),
    "list": (alpaca(["Hi"], "", "Lo"), no_text("instruction", '["Hi"]')),
    "object": (alpaca("Hi", "", "Lo", {"a": 1}), no_text("system", '{"a":1}')),
    "two faults": (alpaca(1, "", 2), no_text("instruction", "1")),
    "long value": (alpaca("Hi", "", ["x" * 100]), no_text("output", '["' + "x" * 58)),
}


def sharegpt(*turns: Any, **more: Any) -> dict[str, Any]:
    said = [{"from": t[0], "value": t[1]} if isinstance(t, tuple) else t for t in turns]
    return {"conversations": said, **more}


def openai(*turns: Any, **more: Any) -> dict[str, Any]:
    return {"messages": spoken(*turns), **more}


def spoken(*turns: Any) -> list[Any]:
    return [{"role": t[0], "content": t[1]} if isinstance(t, tuple) else t for t in turns]


def turn(field: str, place: int, reason: str, detail: str) -> Bad:
    return Bad(f"{field} {reason}", f"field '{field}', turn {place}: {detail}")


def whole(field: str, reason: str, detail: str) -> Bad:
    return Bad(f"{field} {reason}", f"field '{field}': {detail}")


def lacks(field: str, place: int, key: str) -> Bad:
    return turn(field, place, f"has a turn without '{key}'", f"no '{key}'")


def silent(field: str, place: int, key: str) -> Bad:
    lack = f"no '{key}', and no tool is called"
    return turn(field, place, f"has a turn without '{key}'", lack)


def empty(field: str, place: int, role: str) -> Bad:
    said = f"the turn of the {role} is empty"
    return turn(field, place, f"has an empty turn of the {role}", said)


def not_said(field: str, place: int, key: str, shown: str) -> Bad:
    return turn(field, place, f"has a '{key}' that is not text", f"'{key}' is not text: {shown}")


def bare(field: str) -> Bad:
    return whole(field, "has nothing before the reply", "nothing before the last reply")


def unanswered(field: str) -> Bad:
    return whole(field, f"has {NO_REPLY}", NO_REPLY)


def without_turns(field: str) -> Bad:
    return whole(field, "is empty", "the conversation is empty")


def no_list(shown: str) -> Bad:
    return whole("conversations", "is not a list", f"not a list: {shown}")


def said(place: int, reason: str, detail: str) -> Bad:
    return turn("conversations", place, reason, detail)


def wrote(place: int, reason: str, detail: str) -> Bad:
    return turn("messages", place, reason, detail)


TAGS = "human, user, gpt, assistant, function_call, system, observation, tool"
ROLES = "system, user, assistant, tool"
QA = [("u", "q"), ("a", "r")]
ONE_TURN = Good(QA, "q", "r")
Q, R = ("human", "q"), ("gpt", "r")

SHAREGPT: dict[str, tuple[dict[str, Any], Good | Bad]] = {
    "one turn": (sharegpt(Q, R), ONE_TURN),
    "other tags": (sharegpt(("user", "q"), ("assistant", "r")), ONE_TURN),
    "two turns": (
        sharegpt(Q, R, ("human", "p"), ("gpt", "s")),
        Good([*QA, ("u", "p"), ("a", "s")], "q\n\nr\n\np", "s"),
    ),
    "system turn": (sharegpt(("system", "Be"), Q, R), Good([("s", "Be"), *QA], "q", "r")),
    "system column": (sharegpt(Q, R, system="Be"), Good([("s", "Be"), *QA], "q", "r")),
    "both systems": (
        sharegpt(("system", "kind"), Q, R, system="Be"),
        Good([("s", "Be"), ("s", "kind"), *QA], "q", "r"),
    ),
    "empty system turn": (sharegpt(("system", ""), Q, R), ONE_TURN),
    "null system column": (sharegpt(Q, R, system=None), ONE_TURN),
    "call and observation": (
        sharegpt(Q, ("function_call", '{"f": 1}'), ("observation", "42"), ("gpt", "r")),
        Good([("u", "q"), ("a", '{"f": 1}'), ("t", "42"), ("a", "r")], 'q\n\n{"f": 1}\n\n42', "r"),
    ),
    "call at the end": (sharegpt(Q, ("function_call", "f")), exchange("q", "f")),
    "empty observation": (
        sharegpt(Q, ("function_call", "f"), ("observation", ""), ("gpt", "r")),
        Good([("u", "q"), ("a", "f"), ("t", ""), ("a", "r")], "q\n\nf", "r"),
    ),
    "begins with a greeting": (
        sharegpt(("gpt", "Hello"), Q, R),
        Good([("a", "Hello"), *QA], "Hello\n\nq", "r"),
    ),
    "ends with a question": (sharegpt(Q, R, ("human", "p")), Good([*QA, ("u", "p")], "q", "r")),
    "two questions": (
        sharegpt(Q, ("human", "p"), R),
        Good([("u", "q"), ("u", "p"), ("a", "r")], "q\n\np", "r"),
    ),
    "as JSON text": (
        {"conversations": ' [{"from": "human", "value": "q"}, {"from":"gpt", "value":"r"}]'},
        ONE_TURN,
    ),
    "missing": ({"system": "Be"}, missing("conversations")),
    "null": ({"conversations": None}, missing("conversations")),
    "empty": (sharegpt(), without_turns("conversations")),
    "text": ({"conversations": "hello"}, no_list("hello")),
    "broken JSON text": ({"conversations": '[{"from":'}, no_list('[{"from":')),
    "number": ({"conversations": 7}, no_list("7")),
    "object": ({"conversations": {"from": "human"}}, no_list('{"from":"human"}')),
    "turns that are texts": (sharegpt("q", "r"), lacks("conversations", 1, "from")),
    "null turn": (sharegpt(Q, None, R), lacks("conversations", 2, "from")),
    "no tag": (sharegpt({"value": "q"}, R), lacks("conversations", 1, "from")),
    "unknown tag": (
        sharegpt(Q, ("bot", "r")),
        said(2, "has an unknown 'from'", f"'from' is \"bot\"; known are: {TAGS}"),
    ),
    "number as tag": (
        sharegpt(Q, (5, "r")),
        said(2, "has an unknown 'from'", f"'from' is 5; known are: {TAGS}"),
    ),
    "no value": (sharegpt(Q, {"from": "gpt"}), silent("conversations", 2, "value")),
    "null value": (sharegpt(("human", None), R), silent("conversations", 1, "value")),
    "number as value": (sharegpt(Q, ("gpt", 5)), not_said("conversations", 2, "value", "5")),
    "list as value": (sharegpt(Q, ("gpt", ["r"])), not_said("conversations", 2, "value", '["r"]')),
    "empty reply": (sharegpt(Q, ("gpt", "")), empty("conversations", 2, "assistant")),
    "blank reply in the middle": (
        sharegpt(Q, ("gpt", " \n"), Q, R),
        empty("conversations", 2, "assistant"),
    ),
    "empty question": (sharegpt(("human", ""), R), empty("conversations", 1, "user")),
    "no reply": (sharegpt(Q), unanswered("conversations")),
    "only a reply": (sharegpt(R), bare("conversations")),
    "only an empty system": (sharegpt(("system", "")), without_turns("conversations")),
    "system is a number": (sharegpt(Q, R, system=5), no_text("system", "5")),
}

U, A = ("user", "q"), ("assistant", "r")


def block(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


OPENAI: dict[str, tuple[dict[str, Any], Good | Bad]] = {
    "one turn": (openai(U, A), ONE_TURN),
    "system": (openai(("system", "Be"), U, A), Good([("s", "Be"), *QA], "q", "r")),
    "developer": (openai(("developer", "Be"), U, A), Good([("s", "Be"), *QA], "q", "r")),
    "empty system": (openai(("system", ""), U, A), ONE_TURN),
    "tool": (
        openai(U, ("assistant", "f"), ("tool", "42"), A),
        Good([("u", "q"), ("a", "f"), ("t", "42"), ("a", "r")], "q\n\nf\n\n42", "r"),
    ),
    "blocks": (
        openai(("user", [block("q"), block("p")]), A),
        Good([("u", ["q", "p"]), ("a", "r")], "q\np", "r"),
    ),
    "block with an empty text": (
        openai(U, ("assistant", [block(""), block("r")])),
        Good([("u", "q"), ("a", ["", "r"])], "q", "\nr"),
    ),
    "no blocks of a tool": (
        openai(U, ("tool", []), A),
        Good([("u", "q"), ("t", []), ("a", "r")], "q", "r"),
    ),
    "no tool calls": (openai(U, {"role": "assistant", "content": "r", "tool_calls": []}), ONE_TURN),
    "names": (
        openai({"role": "user", "content": "q", "name": "Ann"}, A, id=7),
        Good([("u", "q", {"name": "Ann"}), QA[1]], "q", "r"),
    ),
    "reasoning": (
        openai(U, {"role": "assistant", "content": "r", "reasoning_content": "as", "thinking": ""}),
        Good([QA[0], ("a", "r", {"reasoning_content": "as", "thinking": ""})], "q", "r"),
    ),
    "as JSON text": (
        {"messages": '[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]'},
        ONE_TURN,
    ),
    "missing": ({"text": "q"}, missing("messages")),
    "null": ({"messages": None}, missing("messages")),
    "empty": (openai(), without_turns("messages")),
    "no role": (openai({"content": "q"}, A), lacks("messages", 1, "role")),
    "unknown role": (
        openai(U, ("bot", "r")),
        wrote(
            2,
            "has an unknown 'role'",
            f"'role' is \"bot\"; known are: {ROLES}, developer, function",
        ),
    ),
    "no content": (openai(U, {"role": "assistant"}), silent("messages", 2, "content")),
    "null content": (openai(U, ("assistant", None)), silent("messages", 2, "content")),
    "tool calls": (
        openai(
            U,
            {"role": "assistant", "content": None, "tool_calls": CALLS},
            {"role": "tool", "tool_call_id": "c1", "name": "w", "content": "sunny"},
            A,
        ),
        Good(
            [
                ("u", "q"),
                ("a", [], {"tool_calls": CALLS}),
                ("t", "sunny", {"tool_call_id": "c1", "name": "w"}),
                ("a", "r"),
            ],
            "q\n\nsunny",
            "r",
        ),
    ),
    "tool calls beside text": (
        openai(U, {"role": "assistant", "content": "r", "tool_calls": CALLS}),
        Good([("u", "q"), ("a", "r", {"tool_calls": CALLS})], "q", "r"),
    ),
    "a function called the older way": (
        openai(U, {"role": "assistant", "content": None, "function_call": CALLED}, A),
        Good(
            [
                ("u", "q"),
                ("a", [], {"tool_calls": [{"type": "function", "function": CALLED}]}),
                ("a", "r"),
            ],
            "q",
            "r",
        ),
    ),
    "ends with tool calls": (
        openai(U, A, {"role": "assistant", "tool_calls": CALLS}),
        Good([*QA, ("a", [], {"tool_calls": CALLS})], "q", "r"),
    ),
    "tool calls only": (
        openai(U, {"role": "assistant", "content": None, "tool_calls": CALLS}),
        unanswered("messages"),
    ),
    "tool calls without a name": (
        openai(U, {"role": "assistant", "content": None, "tool_calls": [{"id": "f"}]}, A),
        wrote(
            2,
            "has a turn whose 'tool_calls' are no list of functions with names",
            '\'tool_calls\' is no list of {"function": {"name": …}}: [{"id":"f"}]',
        ),
    ),
    "tool calls of the user": (
        openai({"role": "user", "tool_calls": CALLS}, A),
        silent("messages", 1, "content"),
    ),
    "number": (openai(("user", 5), A), not_said("messages", 1, "content", "5")),
    "object": (
        openai(("user", block("q")), A),
        not_said("messages", 1, "content", '{"type":"text","text":"q"}'),
    ),
    "image": (
        openai(("user", [block("q"), {"type": "image_url", "image_url": {"url": "x"}}]), A),
        not_said(
            "messages", 1, "content", '[{"type":"text","text":"q"},{"type":"image_url","image_url":'
        ),
    ),
    "block of a number": (
        openai(U, ("assistant", [block(5)])),
        not_said("messages", 2, "content", '[{"type":"text","text":5}]'),
    ),
    "block that is a text": (
        openai(U, ("assistant", ["r"])),
        not_said("messages", 2, "content", '["r"]'),
    ),
    "no blocks": (openai(U, ("assistant", [])), empty("messages", 2, "assistant")),
    "empty reply": (openai(U, ("assistant", "")), empty("messages", 2, "assistant")),
    "no reply": (openai(("system", "Be"), U), unanswered("messages")),
    "only a reply": (openai(A), bare("messages")),
}


def weighing(turn: tuple[str, Any], **weights: Any) -> dict[str, Any]:
    return {"role": turn[0], "content": turn[1], **weights}


STANDARD = messages([("s", "be"), ("u", "q"), ("a", "r", 0.0), ("u", "p"), ("a", ["s", "t"])])
WEIGHTY = [("u", "q"), ("a", "r", 0.0), ("u", "p", 0.5), ("a", "s", 1.0)]
SHAREGPT["weights of turns"] = (
    sharegpt(
        {"from": "human", "value": "q", "weight": None},
        {"from": "gpt", "value": "r", "weight": 0},
        {"from": "human", "value": "p", "weight": 0.5},
        {"from": "gpt", "value": "s", "loss_weight": 1, "weight": 7},
    ),
    Good(WEIGHTY, "q\n\nr\n\np", "s"),
)
SHAREGPT["a weight in words"] = (
    sharegpt(Q, {"from": "gpt", "value": "r", "weight": "much"}),
    said(
        2,
        "has a 'loss_weight' that is no number from 0 up",
        "'loss_weight' is no number from 0 up: \"much\"",
    ),
)
OPENAI["the standard form comes out as it was"] = (
    {"messages": STANDARD},
    Good(
        [("s", "be"), ("u", "q"), ("a", "r", 0.0), ("u", "p"), ("a", ["s", "t"])],
        "q\n\nr\n\np",
        "s\nt",
    ),
)
OPENAI["weight 0"] = (
    openai(
        weighing(U, weight=None, loss_weight=None),
        weighing(A, weight=0),
        ("user", "p"),
        weighing(("assistant", "s"), weight=1),
    ),
    Good([*QA[:1], ("a", "r", 0.0), ("u", "p"), ("a", "s")], "q\n\nr\n\np", "s"),
)


def pair(chosen: Any = ..., rejected: Any = ..., **more: Any) -> dict[str, Any]:
    row = {"chosen": chosen, "rejected": rejected}
    return {key: value for key, value in row.items() if value is not ...} | more


def preferred(
    turns: list[Any], rejected: list[Any], anchor: str = "q", reply: str = "r", worse: str = "w"
) -> Good:
    return Good(turns, anchor, reply, rejected, worse)


QW = [("u", "q"), ("a", "w")]
W = ("assistant", "w")
PLAIN = preferred(QA, QW)


PAIR: dict[str, tuple[dict[str, Any], Good | Bad]] = {
    "texts and a prompt": (pair("r", "w", prompt="q"), PLAIN),
    "texts and a question": (pair("r", "w", question="q"), PLAIN),
    "instruction and input": (
        pair("r", "w", instruction="a:", input="b"),
        preferred([("u", "a:\nb"), ("a", "r")], [("u", "a:\nb"), ("a", "w")], "a:\nb"),
    ),
    "the prompt before the question": (pair("r", "w", prompt="q", question="x"), PLAIN),
    "a blank prompt": (pair("r", "w", prompt=" ", question="q"), PLAIN),
    "lists": (pair(spoken(U, A), spoken(U, W)), PLAIN),
    "replies and a prompt": (pair(spoken(A), spoken(W), prompt="q"), PLAIN),
    "replies and a list as prompt": (pair(spoken(A), spoken(W), prompt=spoken(U)), PLAIN),
    "texts and a list as prompt": (pair("r", "w", prompt=spoken(U)), PLAIN),
    "a list that has its own prompt": (pair(spoken(U, A), spoken(U, W), prompt="other"), PLAIN),
    "one list, one text": (pair(spoken(A), "w", prompt="q"), PLAIN),
    "system column": (
        pair("r", "w", question="q", system="Be"),
        preferred([("s", "Be"), *QA], [("s", "Be"), *QW]),
    ),
    "system column and lists": (
        pair(spoken(U, A), spoken(U, W), system="Be"),
        preferred([("s", "Be"), *QA], [("s", "Be"), *QW]),
    ),
    "system turn and column": (
        pair(spoken(("system", "S"), U, A), spoken(U, W), system="Be"),
        preferred([("s", "S"), *QA], [("s", "Be"), *QW]),
    ),
    "system column and a system turn of the rejected": (
        pair(spoken(U, A), spoken(("system", "S"), U, W), system="Be"),
        preferred([("s", "Be"), *QA], [("s", "S"), *QW]),
    ),
    "empty system": (pair("r", "w", prompt="q", system=""), PLAIN),
    "a prompt of several turns": (
        pair("s", "w", prompt=spoken(U, A, ("user", "p"))),
        preferred([*QA, ("u", "p"), ("a", "s")], [*QA, ("u", "p"), ("a", "w")], "q\n\nr\n\np", "s"),
    ),
    "lists as JSON text": (
        pair(
            '[{"role":"user","content":"q"},{"role":"assistant","content":"r"}]',
            ' [ {"content":"q","role":"user"}, {"role":"assistant","content":"w"} ] ',
        ),
        PLAIN,
    ),
    "texts that begin with a bracket": (
        pair("[1]", "[{w", prompt="[]"),
        preferred([("u", "[]"), ("a", "[1]")], [("u", "[]"), ("a", "[{w")], "[]", "[1]", "[{w"),
    ),
    "the same reply twice": (pair("r", "r", prompt="q"), preferred(QA, QA, worse="r")),
    "scores": (pair("r", "w", prompt="q", score_chosen=1.5, score_rejected=None), PLAIN),
    "no chosen": (pair(rejected="w", prompt="q"), missing("chosen")),
    "null rejected": (pair("r", None, prompt="q"), missing("rejected")),
    "no prompt": (pair("r", "w"), bare("chosen")),
    "no prompt of the rejected": (pair(spoken(U, A), "w"), bare("rejected")),
    "number": (
        pair(5, "w", prompt="q"),
        whole("chosen", "is not text or a list", "not text or a list: 5"),
    ),
    "object": (
        pair("r", {"role": "assistant"}, prompt="q"),
        whole("rejected", "is not text or a list", 'not text or a list: {"role":"assistant"}'),
    ),
    "number as prompt": (
        pair("r", "w", prompt=3),
        whole("prompt", "is not text or a list", "not text or a list: 3"),
    ),
    "list as question": (pair("r", "w", question=["q"]), no_text("question", '["q"]')),
    "empty chosen": (pair("", "w", prompt="q"), empty("chosen", 1, "assistant")),
    "blank rejected": (pair("r", " \n", prompt="q"), empty("rejected", 1, "assistant")),
    "empty list": (pair([], spoken(U, W)), without_turns("chosen")),
    "no role": (
        pair(spoken(U, A), [{"role": "user", "content": "q"}, {"content": "w"}]),
        turn("rejected", 2, "has a turn without 'role'", "no 'role'"),
    ),
    "unknown role": (
        pair(spoken(("human", "q"), A), spoken(U, W)),
        turn("chosen", 1, "has an unknown 'role'", f"'role' is \"human\"; known are: {ROLES}"),
    ),
    "content that is no text": (
        pair(spoken(U, A), spoken(U, ("assistant", 4))),
        turn("rejected", 2, "has a 'content' that is not text", "'content' is not text: 4"),
    ),
    "no reply": (pair(spoken(U), spoken(U, W)), unanswered("chosen")),
    "weights of turns": (
        pair(
            [weighing(A, weight=0.5)], [weighing(W, loss_weight=0)], prompt=[weighing(U, weight=1)]
        ),
        preferred([("u", "q", 1.0), ("a", "r", 0.5)], [("u", "q", 1.0), ("a", "w", 0.0)]),
    ),
    "another prompt of the rejected": (
        pair(spoken(U, A), spoken(("user", "p"), W)),
        whole("rejected", "has another prompt", "its prompt is not that of the other side: p"),
    ),
    "another prompt further up": (
        pair(spoken(U, A, U, A), spoken(U, W, U, A)),
        whole(
            "rejected",
            "has another prompt",
            "its prompt is not that of the other side: q\n\nw\n\nq",
        ),
    ),
}

CASES = {"alpaca": ALPACA, "sharegpt": SHAREGPT, "openai": OPENAI, "pair": PAIR}
