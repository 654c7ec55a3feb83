"""The page of a run of messages shows conversations as the run serves them."""

from prebuilt import empty_corpus

import duckplets as dp

HOSTILE = "</script><script>alert(1)</script>"


def rows():
    """Preference pairs, of which one has many messages and one long and hostile ones."""
    found = []
    for i in range(12):
        turns = 2 if i else 20
        said = [
            {"role": "assistant" if turn % 2 else "user", "content": f"{i}: message {turn}"}
            for turn in range(turns)
        ]
        if i == 1:
            said[0]["content"] = HOSTILE + "x" * 5_000
        rejected = [*said[:-1], {"role": "assistant", "content": f"{i}: rejected"}]
        found.append({"id": str(i), "chosen": said, "rejected": rejected})
    return found


def test_messages_are_those_that_the_run_serves_next(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.MemorySource(rows(), converter="pair", id="id")
        corpus.ingest(source, name="talks", progress=False)
        corpus.split(1, 0, 0)
        with corpus.sampler("messages", batch_size=4, seed=3, run="chat") as sampler:
            next(sampler)
            sampler.save()
        columns = ["position", "record_id", "messages", "rejected_messages"]
        with corpus.resume("chat", columns=columns) as going_on:
            served = next(going_on).to_pylist()
        page = corpus.report(run="chat")
        tables = [each for section in page.data["sections"] for each in section["tables"]]
        (shown,) = [table for table in tables if table["title"] == "Samples"]
        again = corpus.sql(shown["made_by"]).to_pylist()
        assert [list(row.values()) for row in again] == shown["rows"]
    assert "first 12 messages" in shown["note"]
    assert HOSTILE not in page.html
    cards = [dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]]
    assert {card["record_id"] for card in cards} >= {"talks/0", "talks/1"}
    for sample in served:
        for kind, slot in (("messages", "message"), ("rejected_messages", "rejected message")):
            texts = ["\n".join(p["text"] for p in each["content"]) for each in sample[kind]]
            found = [
                card
                for card in cards
                if card["position"] == sample["position"] and card["slot"].startswith(slot)
            ]
            assert [card["text"] for card in found] == [text[:1200] for text in texts][:12]
            assert [card["characters"] for card in found] == [len(text) for text in texts][:12]
            roles = [message["role"] for message in sample[kind]]
            assert [card["role"] for card in found] == roles[:12]
            assert found[-1]["slot"] == f"{slot} {len(found)} of {len(texts)}"
            assert {card["record_id"] for card in found} == {sample["record_id"]}
