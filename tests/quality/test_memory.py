"""Gates take a bounded amount of memory, for one text of many megabytes and for many files."""

import json
import random
import sys

import pytest
from effort import thorough
from programs import ran

DRIVER = """
import resource, sys
import duckplets as dp
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
corpus, small, *files = sys.argv[1:]
with dp.Corpus(corpus) as corpus:
    given = {"quality": dp.Quality(language=None), "progress": False}
    corpus.acquire({"small": dp.JsonSource(small, text="t")}, **given)
    before = peak()
    corpus.acquire({f"s{i}": dp.JsonSource(at, text="t") for i, at in enumerate(files)}, **given)
    print(peak() - before)
"""
LINE = "some words of a line, {} of them, and what more there is to say."


def grown(folder, texts):
    """Return the megabytes that gates take for files of texts, beyond those for a short one."""
    files = [folder / f"{i}.jsonl" for i in range(len(texts) + 1)]
    for file, each in zip(files, [[LINE] * 9, *texts], strict=True):
        file.write_text("".join(json.dumps({"t": text}) + "\n" for text in each))
    run = ran(sys.executable, "-c", DRIVER, folder / "c.duckdb", *files)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@thorough
@pytest.mark.parametrize("case", ["lines", "one line", "repeated"])
def test_a_text_of_many_megabytes_takes_some_hundred(tmp_path, case):
    draw, size = random.Random(1), 20_000_000
    numbers = (0,) if case == "repeated" else range(100_000)
    by = " " if case == "one line" else "\n"
    text = by.join(LINE.format(n) for n in draw.choices(numbers, k=size // len(LINE)))
    assert grown(tmp_path, [[text]]) < 330


@thorough
def test_many_files_take_little_more_than_a_few(tmp_path):
    draw = random.Random(1)
    texts = [
        [" ".join(LINE.format(draw.randrange(10**6)) for _ in range(9)) for _ in range(9_000)]
        for _ in range(9)
    ]
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
    few, many = (grown(tmp_path / name, texts[:n]) for name, n in (("few", 4), ("many", 9)))
    assert many < few + 150
    assert many < 450
