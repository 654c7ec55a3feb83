"""What goes through texts takes time that grows with the text, whatever is in it.

Each text is one short string over and over. The processor time that a pass may take with one is
ten times what it takes, and much less than where a pass begins anew at every place.
"""

import random
import re
import signal
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
import pytest
from effort import THOROUGH, often, thorough

import duckplets as dp
from duckplets.db.database import Database
from duckplets.quality import pii
from duckplets.quality.measure import measure
from duckplets.quality.settings import Quality
from duckplets.text import chunkers

# What took some pass the square of its length, or looked as though it might, comes first.
HOSTILE = [
    *("a.", "1.", "a-", "%20", "255.", "x@a-", "123-", "a@", "@", "a@b.co_", "+1", "4111-"),
    *("1.1.1.1_", "www.", " ", " ,", "a,", "( ", "\u0301\u0323", "\u0f73", "_a", ". ", "[1", "\n"),
    *("a", "1", "_", "%", "-", "@a.", "a@b.", "x@a.b-", "1 ", "(1", "+1 ", "123 45 ", "(212) "),
    *("\t", "\r", " \n", "a ,", ",a ", "a :", ") ", "[ ( ", "x , ) ", "!?", "...", "。」", "\"'"),
    *("# ", "|-", "| 1 ", "```\n", "~~~", "[edit", "<a", "{", "://", "\u0301", "\u0344", "\u200b"),
    *("a\u0301\u0323", "é", "👩\u200d", "あ", "heart  ", "d.a.m.", "a$", "Mr. ", "\0", "if "),
]
SIZE, SECONDS = (1_000_000, 10) if THOROUGH else (100_000, 2)
KINDS = ("email", "phone", "ssn", "ipv4", "card")


reader = cache(Database.reader)


def redacted(*texts, kinds=KINDS):
    return pii.redacted(reader(), pa.array(texts), kinds).to_pylist()


def measured(*texts):
    rows = pa.table({"row": range(len(texts)), "text": texts})
    return measure(reader(), rows, Quality(language=None)).to_pydict()


PASSES = {
    "redact": lambda text: redacted(f"joe@example.com {text}"),
    "measure": measured,
    "normalise": dp.Normaliser(),
    "normalise and leave spaces": dp.Normaliser(white_space=None),
    "normalise code": dp.Normaliser(code=True),
    "denoise": dp.Denoiser(),
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
]


def made(pieces, count):
    draw = random.Random(7)
    return ["".join(draw.choices(pieces, k=draw.randint(1, 12))) for _ in range(count)]


ADDRESS = re.compile(
    r"\b[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}\b", re.ASCII
)


def test_addresses_are_what_one_pattern_would_find():
    # What joins one address to the next, and no more, may be of neither.
    texts = [t for t in made(PIECES, often(200_000, less=8_000)) if t.count("@") < 2]
    expected = [ADDRESS.sub(lambda m: re.sub("[A-Za-z0-9].*", "[EMAIL]", m[0]), t) for t in texts]
    assert redacted(*texts, kinds=("email",)) == expected


EMPHASIS = {
    "_joe@example.com_": "_[EMAIL]_",
    "Write to __joe@example.com__.": "Write to __[EMAIL]__.",
    "_212-555-0123_ or _+49 30 901820_": "_[PHONE]_ or _[PHONE]_",
    "_123-45-6789_, _8.8.8.8_": "_[SSN]_, _[IP]_",
    "__4111 1111 1111 1111__": "__[CARD]__",
    "first_last@x.org, joe_@x.org": "[EMAIL], [EMAIL]",
    "IMG_4111111111111111_1.png": "IMG_4111111111111111_1.png",
    "a@b.com_c@d.org": "[EMAIL]_[EMAIL]",
}


def test_what_is_counted_is_what_is_taken_out():
    texts = [*EMPHASIS, *made([*PIECES, "_", "__"], often(50_000, less=4_000))]
    assert redacted(*EMPHASIS) == list(EMPHASIS.values())
    found = measured(*texts)
    for kind, metric in zip(KINDS, ("emails", "phones", "ssns", "addresses", "cards"), strict=True):
        mark = "[IP]" if kind == "ipv4" else f"[{kind.upper()}]"
        assert [text.count(mark) for text in redacted(*texts, kinds=(kind,))] == found[metric]
