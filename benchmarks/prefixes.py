"""Measures what metadata prefixes cost a sampler, and how fast messages are served.

    python benchmarks/prefixes.py [--folder FOLDER] [--records N]

Records of ``text.py``, with a date and a topic. Triplets are sampled without a prefix, with one
of three columns of the source, and with a definition of its own for every record, in turns in one
process, so that the ratios hold on a machine that does other things as well. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import text

SIZE, BATCHES, WARM, TURNS = 256, 1024, 340, 3  # the first blocks are small


def measure(folder: Path, records: int) -> dict[str, Any]:
    """Return samples a second, the best of several turns, and ratios to those without a prefix."""
    import duckplets as dp

    path = folder / f"prefixes{records}.duckdb"
    if not path.exists():
        _write(path, records)
    with dp.Corpus(path) as corpus:
        runs: dict[str, dict[str, Any]] = {
            "plain": {"mixture": {"owned": 0}},
            "three_columns": {"mixture": {"owned": 0}},
            "always": {"mixture": {"owned": 0}},
            "of_records": {"mixture": {"columns": 0}},
            "messages": {"kind": "messages"},
        }
        rates: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(TURNS):
            for name, arguments in runs.items():
                _set(corpus, {"three_columns": 0.5, "always": 1.0}.get(name))
                rates[name].append(_rate(corpus.sampler(**arguments, batch_size=SIZE)))
    best = {name: max(found) for name, found in rates.items()}
    ratios = {f"{name}_ratio": best[name] / best["plain"] for name in runs if name != "messages"}
    return {"records": records} | {f"{n}_per_s": rate for n, rate in best.items()} | ratios


def _write(path: Path, records: int) -> None:
    """Make a corpus of two sources of so many records, one with conversations and own prefixes."""
    import duckplets as dp
    from duckplets import prefix_store

    with dp.Corpus(path) as corpus:
        mapping = {"anchor": "title", "positive": "body", "id": "id", "date": "date"}
        for name in ("columns", "owned"):
            source = dp.MemorySource(_table(records), **mapping, meta=["topic"])
            corpus.ingest(source, name=name, progress=False)
        corpus.split(train=1.0, validation=0.0, test=0.0)
        owned = "SELECT record_key FROM live_records WHERE source = 'owned' ORDER BY record_key"
        keys, database = corpus.sql(owned)["record_key"].to_numpy(), corpus._database
        with database.transaction():
            prefix_store.append(database, keys, pa.array([_own(key) for key in keys.tolist()]))
            with database.registered(told=pa.table({"record_key": keys})):
                database.rows(_CONVERSATIONS)


_CONVERSATIONS = """
    INSERT INTO conversations
    SELECT told.record_key, to_json([
        {role: 'user', content: [{type: 'text', value: question.text}], loss_weight: 0.0},
        {role: 'assistant', content: [{type: 'text', value: answer.text}], loss_weight: 1.0}
    ]), NULL
    FROM told
    JOIN sections AS question ON question.record_key = told.record_key AND question.position = 0
    JOIN sections AS answer ON answer.record_key = told.record_key AND answer.position = 1
"""


def _own(number: int) -> str:
    import duckplets as dp

    fields = [dp.Field("number", [str(number), f"#{number}"]), dp.Field("kind", ["note", "memo"])]
    return json.dumps(dp.Prefix(0.5, [fields, fields[:1]]).to_dict())


def _table(records: int) -> pa.Table:
    number = np.arange(records)
    topics = pa.array([f"topic {number}" for number in range(100)])
    table = pa.Table.from_batches(list(text.batches(records)))
    days = pa.array(number % 3650 + 15_000, pa.int32()).cast(pa.date32())
    table = table.append_column("date", days)
    return table.append_column("topic", topics.take(pa.array(number % 100)))


def _set(corpus: Any, probability: float | None) -> None:
    """Give the first source a prefix of three columns, or none."""
    import duckplets as dp
    from duckplets import prefix_store

    names = "source, date, topic"
    prefix = None if probability is None else dp.Prefix.from_columns(names, probability)
    with corpus._database.transaction():
        prefix_store.set_source(corpus._database, 1, corpus.version, prefix)


def _rate(sampler: Any) -> float:
    with sampler:
        for _ in islice(sampler, WARM):
            pass
        started = time.perf_counter()
        for _ in islice(sampler, BATCHES):
            pass
        return BATCHES * SIZE / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--records", type=int, default=200_000)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.folder, arguments.records), indent=2))


if __name__ == "__main__":
    main()
