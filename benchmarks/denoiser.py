"""Measures the denoiser: MB a second of one core, beside the same rules line by line in Python.

python benchmarks/denoiser.py
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

BYTES = 8_000_000  # of each kind of text
PLAIN_BYTES = 400_000  # of them for the version in Python
TIMES = 5  # each; the best counts
LIMIT = 0.35


def measure() -> dict[str, float]:
    """Return MB/s of processor time for prose, OCR with many digits, and Markdown tables."""
    import duckplets as dp

    denoiser = dp.plugins.Denoiser(max_digit_ratio=LIMIT)
    found = {}
    for kind, make in KINDS.items():
        texts = _texts(make, BYTES)
        few = texts[: max(1, len(texts) * PLAIN_BYTES // BYTES)]
        array = pa.array(texts)
        assert denoiser.apply(array[: len(few)]).to_pylist() == [plain(text) for text in few]
        found[f"{kind}_mb_per_s"] = _rate(lambda array=array: denoiser.apply(array), texts)
        found[f"{kind}_plain_mb_per_s"] = _rate(lambda few=few: [plain(t) for t in few], few)
    return found


def plain(text: str) -> str | None:
    """Return what the denoiser does, as one would write it."""
    kept: list[str] = []
    gap = False
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line or line.isspace():
            if not gap or (kept and kept[-1].strip()):
                kept.append(line)
                gap = False
            continue
        line = _of_line(line)
        gap = line is None
        if line is not None:
            kept.append(line)
    return "\n".join(kept) if any(line.strip() for line in kept) else None


def _of_line(line: str) -> str | None:
    if line.lstrip().startswith("|") and line.count("|") > 1:
        line = " ".join(cell.strip() for cell in line.split("|") if cell.strip())
    letters = sum(map(str.isalpha, line))
    if not letters:
        return None
    digits = sum(map(str.isdigit, line))
    if digits / (digits + letters) <= LIMIT:
        return line
    tokens = line.split()
    kept = {i for i, token in enumerate(tokens) if any(map(str.isalpha, token))}
    total = sum(sum(map(str.isdigit, tokens[i])) for i in kept)
    while wave := {j for i in kept for j in (i - 1, i + 1) if 0 <= j < len(tokens)} - kept:
        total += sum(sum(map(str.isdigit, tokens[i])) for i in wave)
        if total / (total + letters) > LIMIT:
            break
        kept |= wave
    return " ".join(tokens[i] for i in sorted(kept))


def _rate(do: Callable[[], Any], texts: list[str]) -> float:
    best = float("inf")
    for _ in range(TIMES):
        started = time.process_time()
        do()
        best = min(best, time.process_time() - started)
    return round(sum(len(text.encode()) for text in texts) / 1e6 / best, 1)


def _texts(make: Callable[[random.Random, list[str]], str], size: int) -> list[str]:
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(5_000)]
    texts: list[str] = []
    while size > 0:
        texts.append(make(draw, words))
        size -= len(texts[-1].encode())
    return texts


def _prose(draw: random.Random, words: list[str]) -> str:
    def paragraph() -> str:
        return " ".join(draw.choices(words, k=80)).capitalize() + f" in {draw.randint(1900, 2030)}."

    return "\n\n".join(paragraph() for _ in range(4))


def _ocr(draw: random.Random, words: list[str]) -> str:
    def token() -> str:
        if draw.random() < 0.7:
            return str(draw.randint(1, 10 ** draw.randint(1, 5)))
        return draw.choice(words).upper()

    return "\n".join(" ".join(token() for _ in range(12)) for _ in range(40))


def _tables(draw: random.Random, words: list[str]) -> str:
    rows = [
        f"| {' '.join(draw.choices(words, k=2))} | {draw.randint(1, 9999)} | {draw.choice(words)} |"
        for _ in range(40)
    ]
    return "\n".join(["| name | number | remark |", "|---|---:|---|", *rows])


KINDS = {"prose": _prose, "ocr": _ocr, "tables": _tables}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
