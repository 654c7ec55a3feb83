"""Every promise of docs/promises.md names tests that are there."""

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "promises.md"


@cache
def names_in(file):
    path = TESTS / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))


def test_every_promise_is_held_by_tests_that_are_there():
    rows = re.findall(r"^\| (?!promise \|)(.+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 90
    wrong = []
    for promise, held in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", held)
        gone = [f"{file}::{name}" for file, name in named if name not in names_in(file)]
        if gone or not named:
            wrong.append(f"{promise} {gone or 'has no test'}")
    assert not wrong, "\n".join(wrong)
