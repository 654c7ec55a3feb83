"""What goes through texts takes time that grows with the text, whatever is in it.

Each text is one short string over and over. The processor time that a pass may take with one is
ten times what it takes, and much less than where a pass begins anew at every place.
"""

import json
import random
import signal
import sys
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
import pytest
from effort import THOROUGH, often, thorough
from programs import ran

import duckplets as dp
from duckplets.db.database import Database
from duckplets.quality import pii
from duckplets.quality.measure import measure
from duckplets.quality.settings import PII, Quality
from duckplets.text import chunkers

# What took some pass the square of its length, or looked as though it might, comes first.
HOSTILE = [
    *("a.", "1.", "a-", "%20", "255.", "x@a-", "123-", "a@", "@", "a@b.co_", "+1", "4111-"),
    *("1.1.1.1_", "www.", " ", " ,", "a,", "( ", "\u0301\u0323", "\u0f73", "_a", ". ", "[1", "\n"),
    *("a", "1", "_", "%", "-", "@a.", "a@b.", "x@a.b-", "1 ", "(1", "+1 ", "123 45 ", "(212) "),
    *("\t", "\r", " \n", "a ,", ",a ", "a :", ") ", "[ ( ", "x , ) ", "!?", "...", "。」", "\"'"),
    *("2a00:", "DE89 ", "a:", "version 1.", "a-1.", "x@a.png", "2001::1:"),
    *("# ", "|-", "| 1 ", "```\n", "~~~", "[edit", "<a", "{", "://", "\u0301", "\u0344", "\u200b"),
    *("a\u0301\u0323", "é", "👩\u200d", "あ", "heart  ", "d.a.m.", "a$", "Mr. ", "\0", "if "),
]
SIZE, SECONDS = (1_000_000, 10) if THOROUGH else (100_000, 2)
KINDS = tuple(PII)


reader = cache(Database.reader)


def redacted(*texts, kinds=KINDS):
    return pii.redacted(pa.array(texts), kinds).to_pylist()


def measured(*texts):
    rows = pa.table({"row": range(len(texts)), "text": texts})
    return measure(reader(), rows, Quality(language=None)).to_pydict()


PASSES = {
    "redact": lambda text: redacted(f"joe@example.com {text}"),
    "measure": measured,
    "normalise": dp.plugins.Normaliser(),
    "normalise code": dp.plugins.Normaliser(code=True),
    "denoise": dp.plugins.Denoiser(),
    **{
        cut.__name__: lambda text, cut=cut: list(cut(text))
        for cut in (chunkers.sentences, chunkers.markdown, chunkers.code)
    },
}


@contextmanager
def processor_time(seconds, what):
    """End what takes more time of the processor than that: a busy machine ends nothing."""

    def late(*_):
        pytest.fail(f"{what}: more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@thorough
@pytest.mark.timeout(3600 if THOROUGH else 300)
@pytest.mark.parametrize("name", PASSES)
def test_no_text_takes_more_than_its_length(name):
    PASSES[name]("a word, and another.")  # what is made once
    for unit in HOSTILE if THOROUGH else HOSTILE[:24]:
        with processor_time(SECONDS, f"{name} of {unit!r}"):
            PASSES[name](unit * (SIZE // len(unit.encode())))


PIECES = [
    *("joe", "a", "com", "org", "1", "12", "4567", "é", "@", "@", ".", ".", "-", "-", " ", "+"),
    *("%", "(", ",", "\n", "*", "x@y.org", "8.8.8.8", "4111 1111 1111 1111", "+49 30 901820"),
    *("DE89 3704 0044 0532 0130 00", "2a00:1450::1", "3fff", ":", "::", "version ", "x@2x.png"),
]


def made(pieces, count):
    draw = random.Random(7)
    return ["".join(draw.choices(pieces, k=draw.randint(1, 12))) for _ in range(count)]


EMPHASIS = {
    "_joe@example.com_": "_[EMAIL]_",
    "Write to __joe@example.com__.": "Write to __[EMAIL]__.",
    "_212-555-0123_ or _+49 30 901820_": "_[PHONE]_ or _[PHONE]_",
    "_123-45-6789_, _8.8.8.8_": "_[SSN]_, _[IP]_",
    "__4111 1111 1111 1111__": "__[CARD]__",
    "first_last@x.org, joe_@x.org": "[EMAIL], [EMAIL]",
    "IMG_4111111111111111_1.png": "IMG_4111111111111111_1.png",
    "a@b.com_c@d.org": "[EMAIL]_[EMAIL]",
    "_icon@2x.png_, **Version** 1.2.3.4": "_icon@2x.png_, **Version** 1.2.3.4",
    "_2a00:1450::1_ _BE68539007547034_": "_[IP]_ _[IBAN]_",
}


def test_what_is_counted_is_what_is_taken_out():
    texts = [*EMPHASIS, *made([*PIECES, "_", "__"], often(50_000, less=4_000))]
    assert redacted(*EMPHASIS) == list(EMPHASIS.values())
    found = measured(*texts)
    for kind, metric in PII.items():
        mark = "[IP]" if kind in ("ipv4", "ipv6") else f"[{kind.upper()}]"
        assert [text.count(mark) for text in redacted(*texts, kinds=(kind,))] == found[metric]


# ---- gates take a bounded amount of memory, for one text of many megabytes and for many files


DRIVER = """
import resource, sys
import duckplets as dp
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
corpus, small, *files = sys.argv[1:]
with dp.Corpus(corpus) as corpus:
    given = {"quality": dp.Quality(language=None), "progress": False}
    corpus.ingest({"small": dp.Source(small, text="t")}, **given)
    before = peak()
    corpus.ingest({f"s{i}": dp.Source(at, text="t") for i, at in enumerate(files)}, **given)
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
