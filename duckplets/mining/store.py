"""How a mining is written: begun or continued, block by block, finished.

Every block is one transaction, so a mining that was interrupted, killed even, goes on where it
was: the anchors that are there are those that were done. Only when it is finished does it take
the place of an earlier one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.db.database import Database
from duckplets.mining.minings import content_of, definition_of
from duckplets.recipes.recipes import TripletRecipe

QUANTILES = ("0 %", "5 %", "25 %", "50 %", "75 %", "95 %", "100 %")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a mining is for and made with.

    Attributes:
        recipe: The recipe.
        source: Name of the source.
        split: The split.
        version: Corpus version.
        method: ``bm25`` or ``given``.
        settings: As plain values: ``bm25``, and ``terms`` where text was made into terms.
        anchors: Sections of anchors.
    """

    recipe: TripletRecipe
    source: str
    split: str
    version: int
    method: str
    settings: dict[str, Any]
    anchors: int


class OpenMining:
    """A mining under way.

    Args:
        database: The corpus, open for writing.
        target: What it is for.
        fresh: Begin anew, even if there is one that could be continued.

    Attributes:
        key: Its number.
        done: Anchors that an interrupted one had done.
        counts: Candidates by filter, so far.
        seconds: Time it took so far.
    """

    def __init__(self, database: Database, target: Target, *, fresh: bool = False) -> None:
        self._database = database
        self.done = 0
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        where = {"recipe": target.recipe.name, "source": target.source, "split": target.split}
        content = content_of(database, target.source, target.split, target.version)
        made_of = {
            "method": target.method,
            "definition": definition_of(target.recipe),
            "settings": target.settings,
            "content": content,
            "anchors": target.anchors,
        }
        for key, method, definition, settings, *others in database.run(
            "mining/minings/unfinished", where
        ):
            found_content, anchors, report, done = others
            found = (method, json.loads(definition), json.loads(settings), found_content, anchors)
            if found == tuple(made_of.values()) and not fresh:
                self.key, self.done = int(key), int(done)
                noted = json.loads(report) if report else {}
                self.counts.update(noted.get("counts", {}))
                self.seconds = noted.get("seconds", 0.0)
                return
            self._forget(int(key))
        plain = {name: _plain(value) for name, value in made_of.items()}
        with database.transaction():
            rows = database.run("mining/minings/begin", where | plain | {"version": target.version})
        self.key = int(rows[0][0])

    def append(self, anchors: pa.Table, negatives: pa.Table, counts: Mapping[str, int]) -> None:
        """Add a block: all of it, or nothing if interrupted.

        Args:
            anchors: The columns of ``mined_anchors`` but for the key, by anchor section.
            negatives: The columns of ``mined_negatives`` but for the key, by anchor and rank.
            counts: What became of the candidates of these anchors.
        """
        key = {"mining": self.key}
        with self._database.transaction():
            with self._database.registered(new_anchors=anchors, new_negatives=negatives):
                self._database.run("mining/minings/append_anchors", key)
                self._database.run("mining/minings/append_negatives", key)
            self.counts.update(counts)
            self._database.run("mining/minings/note", key | {"report": json.dumps(self._report())})

    def finish(self, **further: Any) -> dict[str, Any]:
        """Let it take the place of the earlier one; returns its report as plain values."""
        key = {"mining": self.key}
        columns = self._database.table("mining/minings/quantiles", key).to_pylist()[0]
        quantiles = {
            name: dict(zip(QUANTILES, values, strict=True)) if values else {}
            for name, values in columns.items()
        }
        numbers = [int(n) for n in self._database.run("mining/minings/digest", key)[0]]
        digest = ":".join(f"{n:x}" for n in numbers)
        report = self._report() | {"candidates": numbers[0], "quantiles": quantiles} | further
        with self._database.transaction():
            self._database.run(
                "mining/minings/finish", key | {"digest": digest, "report": json.dumps(report)}
            )
            self._database.run("mining/minings/supersede", key)
        return report

    def _report(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "seconds": round(self.seconds, 3)}

    def _forget(self, key: int) -> None:
        with self._database.transaction():
            for statement in ("forget_anchors", "forget_negatives", "forget"):
                self._database.run(f"mining/minings/{statement}", {"mining": key})


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value
