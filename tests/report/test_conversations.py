"""The page of a run of messages shows conversations as the run serves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prebuilt import empty_corpus

import duckplets as dp

HOSTILE = "</script><script>alert(1)</script>"


def rows() -> list[dict[str, Any]]:
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


def page_of(path: Path) -> tuple[dp.ReportPage, list[dict[str, Any]]]:
    """The page of a run of messages, and the samples that it serves next."""
    with empty_corpus(path) as corpus:
        source = dp.MemorySource(rows(), converter="pair", id="id")
        corpus.ingest(source, name="talks", progress=False)
        corpus.split(1, 0, 0)
        how = {"kind": "messages", "batch_size": 4, "seed": 3, "run": "chat"}
        with corpus.sampler(**how) as sampler:
            next(sampler)
            sampler.save()
            columns = ["position", "record_id", "messages", "rejected_messages"]
            with corpus.resume("chat", columns=columns) as going_on:
                served = next(going_on).to_pylist()
        page = corpus.report(run="chat")
        for table in (each for section in page.data["sections"] for each in section["tables"]):
            if table["title"].startswith("Samples"):
                again = corpus.sql(table["made_by"]).to_pylist()
                assert [list(row.values()) for row in again] == table["rows"]
        return page, served


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return ["\n".join(part["text"] for part in each["content"]) for each in messages]


def test_messages_are_those_that_the_run_serves_next(tmp_path: Path) -> None:
    page, served = page_of(tmp_path / "c.duckdb")
    (shown,) = [
        table
        for section in page.data["sections"]
        for table in section["tables"]
        if table["title"] == "Samples"
    ]
    assert "first 12 messages" in shown["note"]
    found: dict[int, list[dict[str, Any]]] = {}
    for row in shown["rows"]:
        of = dict(zip(shown["columns"], row, strict=True))
        found.setdefault(of["position"], []).append(of)
    for sample in served:
        of_both = found[sample["position"]]
        for kind in ("messages", "rejected_messages"):
            slot = kind.replace("_", " ").removesuffix("s")
            cards = [card for card in of_both if card["slot"].startswith(slot)]
            expected = texts(sample[kind])
            assert [card["text"] for card in cards] == [text[:1200] for text in expected][:12]
            assert [card["characters"] for card in cards] == [len(text) for text in expected][:12]
            roles = [message["role"] for message in sample[kind]]
            assert [card["role"] for card in cards] == roles[:12]
            assert cards[-1]["slot"] == f"{slot} {len(cards)} of {len(expected)}"
            assert {card["record_id"] for card in cards} == {sample["record_id"]}
    assert HOSTILE not in page.html
    assert {card["record_id"] for cards in found.values() for card in cards} >= {
        "talks/0",
        "talks/1",
    }
