"""The Dockerfile says what it should; nothing here can build it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def instructions():
    """Return the instructions of the Dockerfile, lines that go on joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.split("\n"))]


def of(name):
    return [rest for instruction, rest in instructions() if instruction == name]


def test_the_command_is_run_by_somebody_who_is_not_root():
    names = [name for name, _ in instructions()]
    assert of("ENTRYPOINT") == ['["duckplets"]']
    (user,) = of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "FROM")
    assert f"--uid {user.partition(':')[0]}" in of("RUN")[-1]


def test_what_the_build_needs_is_copied_and_no_more_is_sent():
    taken = [rest.split()[:-1] for rest in of("COPY") if not rest.startswith("--from=")]
    copied = {source for sources in taken for source in sources}
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], "pyproject.toml"}
    needed |= {project["project"]["readme"], *project["project"]["license-files"]}
    assert needed <= copied
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
