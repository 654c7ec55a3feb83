"""How much memory there is: what the system has, and what the control groups allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from duckplets.base import memory


def test_there_is_some_memory() -> None:
    found = memory.available()
    assert found is None or found > 1 << 20


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a/b/memory.max": "500", "a/memory.max": "max", "memory.max": "900"}, [500, 900]),
        ({"memory.limit_in_bytes": "9223372036854771712"}, [9223372036854771712]),
        ({"a/b/memory.max": "what"}, []),
        ({}, []),
    ],
)
def test_limits_are_those_of_all_groups_around_it(
    files: dict[str, str], expected: list[int], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory._limits(tmp_path, "a/b") == expected
