"""Count the outcomes of rows by reason, and keep the first rows of each."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.ingest.records import Example
from duckplets.sources.rows import FURTHER, LEFT_OUT, UNPAIRED, is_failure

EXAMPLES = 5
"""Rows that are kept of each reason."""

ONE_ANCHOR = "text left out after the first in the list of an anchor"
UNPAIRED_TURN = "turn left out: in no pair of question and last reply"

_TOLD = ("row", "file", "line", "value")
_NUMBERS = ("read", "added", "replaced", "quarantined")
_COUNTERS = ("reasons", "dropped_sections", "incomplete", "left_out")


@dataclass(slots=True)
class Counts:
    """Outcomes so far; attributes as in ``IngestReport``."""

    read: int = 0
    added: int = 0
    replaced: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    dropped_sections: Counter[str] = field(default_factory=Counter)
    incomplete: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=lambda: defaultdict(list))
    quarantined: int = 0

    def failed(self) -> int:
        """Number of rows that could not be read."""
        return sum(count for reason, count in self.reasons.items() if is_failure(reason))

    def note(self, rows: pa.RecordBatch, reasons: pa.Array, counter: Counter[str]) -> None:
        """Count rows by reason; keep ``row``, ``file``, ``line``, ``value`` of the first ones."""
        for pair in pc.value_counts(reasons).to_pylist():
            reason = pair["values"]
            counter[reason] += pair["counts"]
            examples = self.examples[reason]
            if len(examples) < EXAMPLES:
                first = rows.filter(pc.equal(reasons, reason)).slice(0, EXAMPLES - len(examples))
                names = [name for name in _TOLD if name in rows.schema.names]
                nothing: Example = dict.fromkeys(_TOLD)
                examples += [nothing | row for row in first.select(names).to_pylist()]

    def note_left_out(self, rows: pa.RecordBatch) -> None:
        """Count unread parts of rows that may be records.

        ``left_out`` is a JSON list of fields that a converter does not read. ``further`` is the
        number of texts left in a list, ``unpaired`` the number of turns in no pair.
        """
        if LEFT_OUT in rows.schema.names:
            for pair in pc.value_counts(rows[LEFT_OUT].drop_null()).to_pylist():
                for name in json.loads(pair["values"]):
                    self.left_out[name] += pair["counts"]
        for name, reason in ((FURTHER, ONE_ANCHOR), (UNPAIRED, UNPAIRED_TURN)):
            if name in rows.schema.names and (count := pc.sum(rows[name]).as_py()):
                self.dropped_sections[reason] += count

    def report(self) -> dict[str, Any]:
        """Return the report's attributes that are the same here, reasons in order."""
        counters = {n: dict(sorted((+getattr(self, n)).items())) for n in _COUNTERS}
        examples = dict(sorted(self.examples.items()))
        return {"replaced": self.replaced, "examples": examples, **counters}

    def first_place(self) -> str:
        """Return the place of the first rejected row, in words."""
        found = [example for examples in self.examples.values() for example in examples]
        first = min(found, key=lambda example: int(example["row"]), default=None)
        if first is None or not first["file"]:
            return ""
        line = f", line {first['line']}" if first["line"] else ""
        return f"; the first in {first['file']}{line}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        plain: dict[str, Any] = {n: getattr(self, n) for n in _NUMBERS}
        return plain | {n: dict(getattr(self, n)) for n in (*_COUNTERS, "examples")}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Counts:
        """Return the counts from ``to_json``."""
        found = cls(**{name: values.get(name, 0) for name in _NUMBERS})
        for name in _COUNTERS:
            getattr(found, name).update(values.get(name, {}))
        found.examples.update(values.get("examples", {}))
        return found
