"""Samples of messages: whole conversations, each once an epoch of its source."""

import itertools
import json
from collections import Counter

import pyarrow as pa
import pytest
from commands import ok
from effort import some, thorough
from prebuilt import copying, kept

import duckplets as dp
from duckplets.base.columns import shaped_type
from duckplets.runs.messages import shape_of
from duckplets.testing import toy_corpus

INSERT = """
    INSERT INTO conversations (record_key, messages, rejected_messages, has_tools)
    SELECT record_key, messages, rejected_messages, FALSE FROM told
"""


def conversation(question, *answers):
    """A conversation of one turn or several."""
    turns = [("system", f"be short – “{question}”", 0.0)]
    for answer in answers:
        turns += [("user", question, 0.0), ("assistant", answer, 1.0)]
    return [
        {"role": role, "content": [{"type": "text", "text": value}], "loss_weight": weight}
        for role, value, weight in turns
    ]


def chosen(name):
    """What record ``name`` holds."""
    return conversation(f"what is {name}?", *(f'"{name}"\n{i}' for i in range(len(name) % 3 + 1)))


def rejected(name):
    """The rejected messages of every other record of source ``pairs``."""
    is_pair = name.startswith("pairs/") and int(name.rpartition("r")[2]) % 2
    return conversation(f"what is {name}?", "no idea") if is_pair else None


def tell(corpus, source, *, every=1):
    """Store conversations for every n-th record of a source."""
    rows = corpus.sql(
        "SELECT record_key, record_id FROM live_records WHERE source = $s ORDER BY record_key",
        {"s": source},
    ).to_pylist()[::every]
    names = [row["record_id"] for row in rows]
    others = [rejected(name) for name in names]
    table = pa.table(
        {
            "record_key": [row["record_key"] for row in rows],
            "messages": [json.dumps(chosen(name)) for name in names],
            "rejected_messages": pa.array(
                [None if other is None else json.dumps(other) for other in others], pa.string()
            ),
        }
    )
    with corpus.database.transaction(), corpus.database.registered(told=table):
        corpus.database.rows(INSERT)


def chats(path):
    """Two sources with conversations, and one without."""
    corpus = dp.Corpus(path)
    for name, size in {"chat": 90, "pairs": 60, "plain": 40}.items():
        records = [{"id": f"r{i}", "q": f"question {i}", "a": f"answer {i}"} for i in range(size)]
        corpus.ingest(
            records,
            name=name,
            trust=0.5 if name != "pairs" else 0.05,
            anchor="q",
            positive="a",
            id="id",
        )
    corpus.split(train=0.8, validation=0.1, test=0.1)
    tell(corpus, "chat")
    tell(corpus, "pairs")
    return corpus


corpus = copying(chats)


def test_messages_are_lists_of_what_was_stored(corpus):
    sampler = corpus.sampler("messages", batch_size=32, epochs=1)
    names = ["messages", "rejected_messages", "weight", "instruction", "recipe", "source"]
    more = ["record_id", "rejected_messages_json", "messages_json"]
    asked = corpus.sampler("messages", batch_size=32, epochs=1, columns=[*names, *more])
    pairs = 0
    for batch, told in zip(sampler, asked, strict=True):
        assert batch.keys() == names
        assert batch.table["messages"].type == shaped_type(shape_of(corpus.database, 1))
        assert told.table.select(names).equals(batch.table)
        for row in told.to_pylist():
            assert row["messages"] == chosen(row["record_id"])
            assert row["rejected_messages"] == rejected(row["record_id"])
            assert row["source"] == row["record_id"].split("/")[0]
            assert row["weight"] == (0.5 if row["source"] == "chat" else 0.1)  # the floor
            assert (row["recipe"], row["instruction"]) == ("messages", None)
            assert json.loads(row["messages_json"]) == row["messages"]
            assert json.loads(row["rejected_messages_json"] or "null") == row["rejected_messages"]
            pairs += row["rejected_messages"] is not None
    assert pairs > 10


@pytest.mark.parametrize("size", some([7, 200], less=1))
def test_every_conversation_comes_once_an_epoch(corpus, size):
    tell(corpus, "plain", every=3)
    for split in ("train", "validation"):
        sampler = corpus.sampler(
            "messages", split=split, epochs=3, batch_size=size, columns=["record_id"]
        )
        told = corpus.sql(
            "SELECT record_id FROM live_records JOIN conversations USING (record_key) "
            "WHERE split = $split",
            {"split": split},
        )
        met = Counter(name for batch in sampler for name in batch["record_id"])
        assert met == dict.fromkeys(told["record_id"].to_pylist(), 3)
        assert sampler.epoch_length == told.num_rows


def test_no_duplicates_compares_messages(corpus):
    same = json.dumps(conversation("the same", "twice"))
    chats = "record_key IN (SELECT record_key FROM live_records WHERE source = 'chat' LIMIT 9)"
    corpus.database.rows(f"UPDATE conversations SET messages = $same WHERE {chats}", {"same": same})
    sampler = corpus.sampler(
        "messages", batch_size=6, no_duplicates=True, columns=["messages_json"]
    )
    for batch in itertools.islice(sampler, 40):
        assert len(set(batch["messages_json"])) == 6


def test_sources_without_conversations_are_left_out(corpus):
    sampler = corpus.sampler("messages", batch_size=50)
    assert {s for b in itertools.islice(sampler, 5) for s in b["source"]} == {"chat", "pairs"}
    corpus.sampler("messages", mixture={"plain": 0, "pairs": 2})
    for how, error, told in [
        ({"mixture": {"plain": 1}}, dp.EmptyPoolError, "'plain' has no conversation in split 'tr"),
        ({"mixture": {"plane": 1}}, dp.errors.MixtureError, "plane"),
        ({"negatives": 2}, dp.SamplerError, "messages have no negatives"),
        ({"recipes": ["anchor_context"]}, dp.SamplerError, "recipes: messages have no recipes"),
        ({"columns": ["message"]}, dp.SamplerError, r"have no 'message' \(did you mean"),
    ]:
        with pytest.raises(error, match=told):
            corpus.sampler("messages", **how)
    told = "no source has conversations to draw messages from; there are 'a', 'b'"
    with (
        dp.Corpus(kept(toy_corpus, 150, sources=("a", "b")), read_only=True) as none,
        pytest.raises(dp.EmptyPoolError, match=told),
    ):
        none.sampler("messages")


@thorough
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_messages_that_are_written_can_be_read_again(tmp_path, form):
    told = [conversation(f"“what” is {i}?", f"line\n{i} \\n", f"and {i}!") for i in range(30)]
    out = tmp_path / f"out.{form}"

    def drawn(path, source):
        with dp.Corpus(path) as corpus:
            corpus.ingest(source, name="s")
            corpus.split(1, 0, 0)
        ok("sample", path, "--kind", "messages", "--epochs", "1", "--out", out)
        with (
            dp.Corpus(path, read_only=True) as corpus,
            corpus.sampler("messages", epochs=1, columns=["messages"]) as sampler,
        ):
            return sorted((m for batch in sampler for m in batch["messages"]), key=str)

    rows = [{"messages": messages} for messages in told]
    first = drawn(tmp_path / "a.duckdb", dp.sources.MemorySource(rows, converter="openai"))
    assert first == sorted(told, key=str)
    read = dp.sources.JsonSource if form == "jsonl" else dp.sources.ParquetSource
    assert drawn(tmp_path / "b.duckdb", read(out, converter="openai")) == first
