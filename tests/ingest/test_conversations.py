"""What a corpus keeps of converted rows: messages, rows set aside, counts that add up."""

import json
import re

import pytest
from converter_cases import CASES, Good, messages
from effort import some

import duckplets as dp
from duckplets.errors import SourceError


def rows_of(corpus, query):
    return corpus.sql(query).to_pylist()


STORED = """
    SELECT record_id, messages, rejected_messages
    FROM conversations JOIN records USING (record_key) ORDER BY record_key
"""


@pytest.mark.parametrize("converter", some(CASES, less=2))
def test_all_rows_are_stored_counted_or_set_aside(corpus, converter):
    rows = [row | {"key": name} for name, (row, _) in CASES[converter].items()]
    source = dp.sources.MemorySource(rows, converter=converter, id="key", on_error="quarantine")
    report = corpus.ingest(source, name="x", progress=False)
    good = {n: e for n, (_, e) in CASES[converter].items() if isinstance(e, Good)}
    bad = [e for _, e in CASES[converter].values() if not isinstance(e, Good)]
    assert (report.read, report.added, report.skipped) == (len(rows), len(good), len(bad))
    assert report.failed == 0
    assert sum(report.reasons.values()) == len(bad)
    assert set(report.reasons) == {f"{converter}: {wrong.reason}" for wrong in bad}
    stored = rows_of(corpus, STORED)
    assert [row["record_id"] for row in stored] == [f"x/{name}" for name in good]
    for expected, row in zip(good.values(), stored, strict=True):
        assert json.loads(row["messages"]) == messages(expected.turns)
        rejected = row["rejected_messages"] and json.loads(row["rejected_messages"])
        turns = expected.rejected_turns
        assert rejected == (None if turns is None else messages(turns))
    if converter == "pair":
        assert [row["role"] for row in rows_of(corpus, "FROM sections ORDER BY ALL LIMIT 3")] == [
            *("anchor", "context", "rejected")
        ]
    aside = rows_of(corpus, 'SELECT * FROM quarantine ORDER BY "row"')
    assert [row["row"] for row in aside] == [
        place for place, row in enumerate(rows, 1) if row["key"] not in good
    ]
    for row, wrong in zip(aside, bad, strict=True):
        assert (row["source"], row["version"]) == ("x", report.version)
        assert row["reason"] == wrong.detail
        assert json.loads(row["document"]) == rows[row["row"] - 1]


def test_the_same_rows_again_add_nothing_and_other_messages_conflict(corpus):
    def source(system):
        row = {"instruction": "q", "output": "r", "id": "a", "system": system}
        return dp.sources.MemorySource([row], converter="alpaca", id="id")

    corpus.ingest(source("S"), name="x", progress=False)
    again = corpus.ingest(source("S"), name="x", progress=False)
    assert (again.added, again.skipped) == (0, 1)
    with pytest.raises(SourceError, match="a"):
        corpus.ingest(source("T"), name="x", progress=False)
    replaced = corpus.ingest(source("T"), name="x", on_conflict="replace", progress=False)
    assert replaced.replaced == 1
    stored = [json.loads(row["messages"])[0]["content"][0] for row in rows_of(corpus, STORED)]
    assert [block["text"] for block in stored] == ["S", "T"]


# ---- each reply, and tools

CALLS = [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"a": 1}'}}]
TALK = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "assistant", "content": "It is sunny."},
    {"role": "user", "content": "and then?"},
    {"role": "user", "content": "tomorrow"},
    {"role": "assistant", "content": "Rain."},
    {"role": "assistant", "content": "With wind."},
]
VALUE = {"type": "text", "value": 'a "text":"value" b'}
PLAIN = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def pairs_of(corpus):
    rows = corpus.sql("""
        SELECT record_id, group_key, list(text ORDER BY position) AS texts
        FROM records JOIN sections USING (record_key)
        GROUP BY ALL ORDER BY record_id
    """).to_pylist()
    return [(row["record_id"], row["group_key"], *row["texts"]) for row in rows]


def test_each_reply_is_a_record_that_stays_with_its_conversation(corpus):
    rows = [{"id": "a", "messages": TALK}, {"id": "b", "messages": PLAIN}]
    source = dp.sources.MemorySource(rows, id="id", converter="openai", turns="each")
    report = corpus.ingest(source, name="chat", progress=False)
    assert report.added == 3
    assert "each reply is the context of a record" in str(report)
    assert pairs_of(corpus) == [
        ("chat/a#1", "a", "weather?", "It is sunny."),
        ("chat/a#3", "a", "and then?\n\ntomorrow", "With wind."),
        ("chat/b#1", "b", "hi", "hello"),
    ]
    said = corpus.sql("SELECT messages FROM conversations ORDER BY record_key")["messages"]
    first, second, third = map(json.loads, said.to_pylist())
    assert [m["loss_weight"] for m in first] == [0, 0, 0, 0, 1]  # not what a tool is asked
    assert [m["loss_weight"] for m in second] == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert second[:4] == first[:4]
    assert len(third) == 2
    again = corpus.ingest(source, name="chat", progress=False)
    assert (again.added, again.skipped) == (0, 3)
    # Without ids, conversations are families of their own.
    rows = [{"messages": TALK}, {"messages": PLAIN}, {"messages": [*PLAIN, *PLAIN]}]
    source = dp.sources.MemorySource(rows, converter="openai", turns="each")
    assert corpus.ingest(source, name="bare", progress=False).added == 5
    families = {group for id_, group, *_ in pairs_of(corpus) if id_.startswith("bare")}
    assert len(families) == 3
    with pytest.raises(dp.SourceError, match="turns='each' makes several records of a row"):
        corpus.ingest(source, name="gated", limit=3, progress=False)


def test_turns_are_of_conversations():
    cases = [
        ({"converter": "openai", "turns": "all"}, "turns='all': give 'last' or 'each'"),
        ({"converter": "alpaca", "turns": "each"}, "'alpaca' makes one pair of a row"),
        ({"anchor": "a", "turns": "each"}, "turns='each' needs converter="),
    ]
    for arguments, said in cases:
        with pytest.raises(dp.SourceError, match=re.escape(said)):
            dp.sources.MemorySource([{"a": "b"}], **arguments)


def test_messages_have_keys_for_tools_only_where_one_is_called(corpus):
    plain = dp.sources.MemorySource([{"messages": PLAIN}], converter="openai")
    corpus.ingest(plain, name="plain", progress=False)
    corpus.split(train=1, validation=0, test=0)
    text = {"type": "text", "text": "hi"}
    with corpus.sampler("messages", epochs=1) as sampler:
        [batch] = sampler
        assert batch["messages"][0][0] == {"role": "user", "content": [text], "loss_weight": 0.0}
        kind = batch.table.schema.field("messages").type.value_type
        assert [field.name for field in kind] == ["role", "content", "loss_weight"]
    talk = dp.sources.MemorySource([{"messages": TALK}], converter="openai")
    corpus.ingest(talk, name="talk", progress=False)
    corpus.split(train=1, validation=0, test=0)
    with corpus.sampler("messages", epochs=1, mixture={"plain": 1, "talk": 1}) as sampler:
        (batch,) = sampler
    said = dict(zip(batch["source"], batch["messages"], strict=True))
    assert said["plain"][0] == {"role": "user", "content": [text], "loss_weight": 0.0}
    assert said["talk"][2] == {
        "role": "assistant",
        "content": [],
        "tool_calls": CALLS,
        "loss_weight": 1.0,
    }
    assert said["talk"][3]["tool_call_id"] == "c1"
    [read] = corpus.read([0], batch_size=1, source="talk", columns=["messages"])
    assert read["messages"] == [said["talk"]]
    # A data index gives parts as data plug-ins have them.
    talk = [{"messages": PLAIN}, {"messages": [{"role": "user", "content": [VALUE]}, *PLAIN[1:]]}]
    corpus.ingest(dp.sources.MemorySource(talk, converter="openai"), name="chat", progress=False)
    index = dp.index.DataIndex([("chat", 0), ("chat", 1)])
    [batch] = corpus.read(index, batch_size=2, columns=["messages"])
    assert [m[0]["content"] for m in batch["messages"]] == [
        [{"type": "text", "value": "hi"}],
        [VALUE],
    ]
    [batch] = corpus.read([1], batch_size=2, source="chat", columns=["messages"])
    assert batch["messages"][0][0]["content"] == [{"type": "text", "text": VALUE["value"]}]


# ---- which reply is the positive, and keys that no message has

CALL = {"role": "assistant", "tool_calls": CALLS, "content": None}
SPOKEN = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def conversation(text):
    """Return turns from words such as ``u1``; ``c`` calls a tool, ``c1`` with text."""
    made = []
    for word in text.split():
        said = {"role": SPOKEN.get(word[0]), "content": word}
        made.append(said if word[0] in SPOKEN else CALL | {"content": word[1:] and word})
    return made


# By conversation: pairs, each with the weights of its turns, and turns in no pair.
LAST_REPLIES = {
    "u1 c1 t1 a1": ([("u1", "a1", [0, 1, 0, 1])], 1),
    "u1 c t1 a1": ([("u1", "a1", [0, 0, 0, 1])], 0),
    "u1 a1 a2 u2 a3": ([("u1", "a2", [0, 1, 1]), ("u2", "a3", [0, 0, 0, 0, 1])], 1),
    "u1 a1 s1 a2": ([("u1", "a2", [0, 1, 0, 1])], 1),
    "s1 a1 u1 u2 c1 c t1 t2 a2 a3 c": ([("u1\n\nu2", "a3", [0, 0, 0, 0, 1, 0, 0, 0, 1, 1])], 3),
    "u1 a1 u2 c t1": ([("u1", "a1", [0, 1])], 1),
    "u1 c1 t1 u2 a1": ([("u1", "c1", [0, 1]), ("u2", "a1", [0, 0, 0, 0, 1])], 0),
}


@pytest.mark.parametrize("converter", ["openai", "sharegpt"])
def test_the_last_reply_before_the_next_user_turn_is_the_positive(corpus, converter):
    tags = {"user": "human", "assistant": "gpt", "tool": "observation", "system": "system"}
    for number, (text, (pairs, unpaired)) in enumerate(LAST_REPLIES.items()):
        turns = conversation(text)
        if converter == "sharegpt":  # whose calls have text
            if "c" in text.split():
                continue
            turns = [{"from": tags[t["role"]], "value": t["content"]} for t in turns]
            for turn in turns:
                if turn["value"].startswith("c"):
                    turn["from"] = "function_call"
        field = {"openai": "messages", "sharegpt": "conversations"}[converter]
        source = dp.sources.MemorySource([{field: turns}], converter=converter, turns="each")
        report = corpus.ingest(source, name=f"c{number}", progress=False)
        found = corpus.sql(
            """
            SELECT messages, list(text ORDER BY position) AS texts
            FROM conversations JOIN records USING (record_key) JOIN sections USING (record_key)
            WHERE starts_with(record_id, $name) GROUP BY record_key, messages ORDER BY record_key
            """,
            {"name": f"c{number}/"},
        ).to_pylist()
        weights = [[m["loss_weight"] for m in json.loads(row["messages"])] for row in found]
        made = [(*row["texts"], each) for row, each in zip(found, weights, strict=True)]
        assert (made, sum(report.dropped_sections.values())) == (pairs, unpaired), text
        assert ("turn left out: in no pair of" in str(report)) == (unpaired > 0)


def test_every_key_of_a_turn_is_in_the_messages_or_counted(corpus):
    asked = {"role": "user", "content": "q"}
    kept = ("name", "reasoning_content", "reasoning", "thinking")
    counted = ("refusal", "images", "audio", "annotations", "train", "tool_call_id", "weight")
    block = {"type": "text", "text": "a", "cache_control": {"type": "x"}}
    base = {"role": "assistant", "content": "a", "loss_weight": 1, "audio": [], "refusal": None}
    turns = [base, *(base | {key: value} for key in (*kept, *counted) for value in ("x", "y"))]
    turns += [base | {"content": [block]}, base | {"content": [block | {"cache_control": "y"}]}]
    dp.plugins.register_converter("own_keys", lambda row: {"messages": row["turns"]})
    for turns_of, field in (
        ("openai", "messages"),
        ("sharegpt", "conversations"),
        ("own", "turns"),
    ):
        rows = [{field: [asked, turn]} for turn in turns]
        names = {"role": "from", "content": "value"} if turns_of == "sharegpt" else {}
        if names:
            rows = [
                {field: [{names.get(k, k): v for k, v in t.items()} for t in row[field]]}
                for row in rows[:-2]
            ]
        converter = "own_keys" if turns_of == "own" else turns_of
        for how in ("last", "each") if turns_of == "openai" else ("last",):
            source = dp.sources.MemorySource(rows, converter=converter, turns=how)
            report = corpus.ingest(source, name=f"{turns_of} {how}", progress=False)
            assert report.added == len(rows), "rows that differ in one key are different"
            where = "messages" if turns_of == "own" else field
            expected = {f"{where}.{key}": 2 for key in counted}
            expected |= {} if names else {f"{where}.content.cache_control": 2}
            assert report.left_out == expected
            stored = corpus.sql(
                "SELECT messages FROM conversations JOIN records USING (record_key) "
                "WHERE starts_with(record_id, $name) ORDER BY record_key",
                {"name": f"{turns_of} {how}/"},
            )["messages"].to_pylist()
            said = [json.loads(text)[1] for text in stored]
            for place, key in enumerate(kept):
                assert [turn[key] for turn in said[1 + 2 * place : 3 + 2 * place]] == ["x", "y"]
    # A path of the mapping reads such a key.
    source = dp.sources.MemorySource(
        [{"messages": [asked, base | {"images": "x"}]}], converter="openai", meta="messages.images"
    )
    assert corpus.ingest(source, name="meta", progress=False).left_out == {}
    corpus.split(train=1, validation=0, test=0)
    with corpus.sampler("messages", epochs=1, mixture={"openai last": 1}) as sampler:
        served = [m[1] for batch in sampler for m in batch["messages"]]
    assert sorted(m["thinking"] for m in served if "thinking" in m) == ["x", "y"]
    assert all("thinking" not in m or m["thinking"] for m in served)
