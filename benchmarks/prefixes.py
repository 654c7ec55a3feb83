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
    path.unlink(missing_ok=True)
    with dp.Corpus(path) as corpus:
        _ingest(corpus, records)
        others = dict.fromkeys(("columns", "owned", "chats"), 0)
        runs: dict[str, dict[str, Any]] = {
            "plain": {"mixture": others | {"columns": 1}, "prefixes": False},
            "three_columns": {"mixture": others | {"columns": 1}},
            "of_records": {"mixture": others | {"owned": 1}},
            "messages": {"kind": "messages"},
        }
        rates: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(TURNS):
            for name, arguments in runs.items():
                rates[name].append(_rate(corpus.sampler(**arguments, batch_size=SIZE)))
    best = {name: max(found) for name, found in rates.items()}
    ratios = {
        f"{name}_ratio": best[name] / best["plain"] for name in ("three_columns", "of_records")
    }
    return {"records": records} | {f"{name}_per_s": rate for name, rate in best.items()} | ratios


def _ingest(corpus: Any, records: int) -> None:
    """Store three sources of so many records: with a prefix of columns, of records, and chats."""
    import duckplets as dp

    table = _table(records)
    mapping: dict[str, Any] = {
        "anchor": "title",
        "positive": "body",
        "id": "id",
        "date": "date",
        "meta": ["topic"],
    }
    names = "source, date, topic"
    corpus.ingest(
        dp.sources.MemorySource(table, **mapping),
        name="columns",
        progress=False,
        options=dp.IngestOptions(prefix=names),
    )
    own = table.append_column("own", pa.array([_own(number) for number in range(records)]))
    corpus.ingest(
        dp.sources.MemorySource(own, **mapping, prefix="own"), name="owned", progress=False
    )
    chats = table.select(["id", "title", "body"]).rename_columns(["id", "instruction", "output"])
    corpus.ingest(
        dp.sources.MemorySource(chats, id="id", converter="alpaca"), name="chats", progress=False
    )
    corpus.split(train=1.0, validation=0.0, test=0.0)


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


def _rate(sampler: Any) -> float:
    with sampler:
        for _ in islice(sampler, WARM):
            pass
        started = time.perf_counter()
        for batch in islice(sampler, BATCHES):
            for name in batch.keys():  # noqa: SIM118 - a batch makes lists of what it is asked for
                batch[name]
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
