"""Damage files at random and ingest them: a program of its own, since damage may end a process.

``python damaged.py FORM:FIRST:LAST …`` says which case it tries before it does, and what was wrong
after; ``tried`` runs it, and begins again after a case that ended it.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from programs import ran

import duckplets as dp

SECONDS = 20  # for one case of some kilobytes
A_CORPUS = 40  # cases: what is stored already makes each ingest a little slower
TEXTS = ["Why?", 'He said "so", twice', "é, ü; 漢字 😀", "two\nlines", "  ", "x" * 300]
ROWS = [
    {
        "id": str(i),
        "t": TEXTS[i % 6],
        "u": f"answer {i}",
        "d": f"20{i % 30:02}-01-02",
        "l": [f"item {j}" for j in range(i % 3)],
    }
    for i in range(24)
]
MAPPING: dict[str, Any] = {"anchor": "t", "positive": "u", "id": "id", "date": "d", "context": "l"}


def csv_file() -> bytes:
    quoted = (f'{r["id"]},"{r["t"]}",{r["u"]},{r["d"]},"{len(r["l"])}"' for r in ROWS)
    cells = (line.replace('"so"', '""so""') for line in quoted)
    return ("id,t,u,d,l\r\n" + "\r\n".join(cells) + "\r\n").encode()


def lines_file() -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in ROWS)


def table() -> pa.Table:
    found = pa.Table.from_pylist(ROWS)
    found = found.append_column("k", found["u"].dictionary_encode())
    moments = pa.array(range(len(ROWS)), pa.int64()).cast(pa.timestamp("us", tz="+02:00"))
    return found.append_column("m", moments)


def arrow_file(compression: str | None = None, *, stream: bool = False) -> bytes:
    made, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(made, table().schema, options=options) as writer:
        writer.write_table(table(), max_chunksize=10)
    return made.getvalue()


def parquet_file() -> bytes:
    made = io.BytesIO()
    pq.write_table(table(), made, row_group_size=15, compression="snappy")
    return made.getvalue()


Make = Callable[[], bytes]
COLUMNS = MAPPING | {"meta": ["k", "m"]}
FORMS: dict[str, tuple[str, list[Make], Callable[[Path], Any]]] = {
    "csv": ("f.csv", [csv_file], lambda p: dp.sources.CsvSource(p, **MAPPING)),
    "json lines": ("f.jsonl", [lines_file], lambda p: dp.sources.JsonSource(p, **MAPPING)),
    "json": (
        "f.json",
        [lambda: json.dumps(ROWS).encode(), lambda: json.dumps(ROWS, indent=1).encode()[1:-1]],
        lambda p: dp.sources.JsonSource(p, **MAPPING),
    ),
    "parquet": ("f.parquet", [parquet_file], lambda p: dp.sources.ParquetSource(p, **COLUMNS)),
    "arrow": (
        "f.arrow",
        [arrow_file, lambda: arrow_file("lz4"), lambda: arrow_file("zstd", stream=True)],
        lambda p: dp.sources.ArrowSource(p, **COLUMNS),
    ),
    "gzip": (
        "f.jsonl.gz",
        [lambda: gzip.compress(lines_file(), mtime=0)],
        lambda p: dp.sources.JsonSource(p, **MAPPING),
    ),
    "zstd": (
        "f.csv.zst",
        [lambda: pa.compress(csv_file(), codec="zstd", asbytes=True)],
        lambda p: dp.sources.CsvSource(p, **MAPPING),
    ),
    "text": ("f.txt", [lambda: csv_file() * 2], lambda p: dp.sources.TextLinesSource(p)),
    "folder": ("texts/a_b.txt", [csv_file], lambda p: dp.TextFileSource(p.parent)),
}
ODD = (b"\0", b"\xff", b'"', b"\n", b"\r", b"{", b"}", b"[", b",", b"\\", b"\xef\xbb\xbf", b"PAR1")
ODD += (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xed\xa0\x80", b"1e999", b"null", b"\xe2\x80\xa8")


def damaged(data: bytes, number: int) -> bytes:
    """Return data with some damage, the same for the same number."""
    chance = random.Random(number)
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        at, size = chance.randrange(len(found)), chance.choice([1, 1, 2, 4, 8, 64])
        what = chance.randrange(8)
        if what == 0:
            found[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            found[at : at + size] = chance.randbytes(size)
        elif what == 2:
            found[at:at] = chance.choice(ODD) * chance.choice([1, 1, 1, 600])
        elif what == 3:
            del found[at : at + size]
        elif what == 4:
            found[at : at + size] = b"\xff" * size
        elif what == 5:
            start = chance.randrange(len(found))
            found[at:at] = found[start : start + chance.choice([8, 64, 512])]
        elif what == 6:
            found[at : at + size] = bytes(size)
        elif chance.random() < 0.3:
            del found[at:]
        if not found:
            return b"\0"
    return bytes(found)


def outcome(corpus: dp.Corpus, form: str, number: int, folder: Path) -> str:
    """Ingest a damaged file; return what was wrong about that, or nothing."""
    name, makes, source = FORMS[form]
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(damaged(makes[number % len(makes)](), number))
    try:
        report = corpus.ingest(source(file), name=f"{form} {number}", on_conflict="skip")
    except dp.SourceError as error:
        said = str(error)
        return "" if "\n" not in said and "this should not" not in said else f"says {said!r}"
    except Exception:
        return traceback.format_exc()
    added_up = report.added + report.skipped + report.failed
    return "" if report.read == added_up else f"counts {report}"


def main(parts: list[str]) -> None:
    cases = [case for part in parts for case in cases_of(part)]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for start in range(0, len(cases), A_CORPUS):
            with dp.Corpus(folder / f"{start}.duckdb") as corpus:
                for form, number in cases[start : start + A_CORPUS]:
                    print("try", json.dumps([form, number]), flush=True)
                    signal.alarm(SECONDS)
                    wrong = outcome(corpus, form, number, folder)
                    signal.alarm(0)
                    if wrong:
                        print("wrong", json.dumps([form, number, wrong]), flush=True)
    print("end")


def cases_of(part: str) -> list[tuple[str, int]]:
    form, first, last = part.split(":")
    return [(form, number) for number in range(int(first), int(last))]


def tried(*parts: str) -> list[tuple[str, int, str]]:
    """Try cases, given as ``form:first:last``; return what was wrong about those that failed."""
    found: list[tuple[str, int, str]] = []
    left = list(parts)
    while left:
        run = ran(sys.executable, __file__, *left)
        lines = [line.partition(" ") for line in run.stdout.splitlines()]
        found += [tuple(json.loads(rest)) for word, _, rest in lines if word == "wrong"]
        if lines and lines[-1][0] == "end":
            break
        tries = [tuple(json.loads(rest)) for word, _, rest in lines if word == "try"]
        assert tries, run.stderr
        form, number = tries[-1]
        found.append(
            (form, number, f"ended the process with {run.returncode}: {run.stderr[-500:]}")
        )
        cases = [case for part in left for case in cases_of(part)]
        after = cases[cases.index((form, number)) + 1 :]
        left = [f"{form}:{number}:{number + 1}" for form, number in after]
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
