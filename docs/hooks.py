"""Make the pages from other files: home, commands, examples, skill, contributing, changelog.

Also write ``llms.txt``, which names every page with its first sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
SKILL = ROOT / "skills" / "duckplets" / "SKILL.md"
WIDTH = 80


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "skill.md": SKILL.read_text(encoding="utf-8"),
        "commands.md": command_line(),
        "examples/index.md": (
            "# Examples\n\nScripts to start from, run by the tests.\n\n" + "\n".join(_examples())
        ),
    }
    for file in sorted(ROOT.glob("examples/*.*")):
        kind = {".py": "python", ".toml": "toml", ".yaml": "yaml"}[file.suffix]
        text = file.read_text(encoding="utf-8")
        pages[f"examples/{file.name}.md"] = f"# {file.name}\n\n```{kind}\n{text}```\n"
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(text: str, page: Page, **_: Any) -> str:
    """Lead links out of ``docs/`` to the pages of these files, and fill in the lists."""
    if page.file.src_path in ("index.md", "contributing.md", "changelog.md"):
        text = text.replace("](docs/", "](").replace("](README.md", "](index.md")
    text = re.sub(r"\]\((?:\.\./)?examples\)", "](examples/index.md)", text)
    text = re.sub(r"\]\((?:\.\./)*(examples/[\w.]+\.(?:py|toml|yaml))\)", r"](\1.md)", text)
    text = text.replace("](skills/duckplets/SKILL.md", "](skill.md")
    text = re.sub(r"\]\((?:\.\./)?(CONTRIBUTING|CHANGELOG)\.md", _lower, text)
    text = text.replace("<!-- conditions -->", conditions())
    return text.replace("<!-- columns -->", columns_of_batches())


def _lower(found: re.Match[str]) -> str:
    return f"]({found[1].lower()}.md"


def on_post_build(config: MkDocsConfig) -> None:
    """Write ``llms.txt``."""
    pages = [config.docs_dir + "/" + path for path in _written(config.nav)]
    lines = ["# duckplets", "", f"> {config.site_description}", ""]
    for path in pages:
        made = {"index.md": ROOT / "README.md", "skill.md": SKILL}
        file = made.get(Path(path).name, Path(path))
        title, first = _title_and_first_sentence(file.read_text(encoding="utf-8"))
        url = str(Path(path).relative_to(config.docs_dir).with_suffix("")) + "/"
        lines.append(f"- [{title}]({url.removeprefix('index/')}): {first}".rstrip(": "))
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _written(nav: Any) -> Iterator[str]:
    """Yield the paths of a navigation that are written by hand."""
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if not isinstance(value, str):
                yield from _written(value)
            elif (ROOT / "docs" / value).exists() or value in ("index.md", "skill.md"):
                yield value


def _title_and_first_sentence(text: str) -> tuple[str, str]:
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    plain = re.sub(r"\A---\n.*?^---\n|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"^(?:[#|<:!]|    ).*$", "", plain, flags=re.MULTILINE)
    first = plain.strip().split("\n\n")[0].replace("\n", " ")
    return (title[1] if title else ""), re.split(r"(?<=\.) ", first)[0]


def _examples() -> Iterator[str]:
    for file in sorted(ROOT.glob("examples/*.py")):
        first = file.read_text(encoding="utf-8").split("\n")[0].strip('"')
        yield f"- [{file.name}]({file.name}.md): {first}"


def command_line() -> str:
    """Return the help of every command, 80 columns wide."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from duckplets.cli import app

    parts = [
        "# Commands",
        "This page has the text of every `--help`. Data goes to stdout, notes and progress to "
        "stderr. The exit code is 0, 1 for an error (one line, a traceback only with `--debug`), "
        "or 2 for wrong usage.",
    ]
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    for path in [[], *_commands(get_command(app), [])]:
        name = " ".join(["duckplets", *path])
        result = CliRunner(env=plain).invoke(app, [*path, "--help"], prog_name="duckplets")
        if result.exit_code:
            raise SystemExit(f"{name} --help: {result.output}")
        lines = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        parts += [f"## {name}", f"```text\n{lines}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands(command: Any, path: list[str]) -> Iterator[list[str]]:
    for name, sub in getattr(command, "commands", {}).items():
        yield [*path, name]
        yield from _commands(sub, [*path, name])


def conditions() -> str:
    """Return the columns and functions of conditions."""
    from duckplets.conditions import allowed

    return (
        "## Conditions\n\n"
        "`where=` and `dp.sql()` take one boolean expression in DuckDB's SQL. It uses the columns "
        "of a record, one of its sections and its window. In `dp.sql()` each column has `anchor.` "
        "or `negative.` before it. Subqueries, tables, settings, parameters, lambdas, aggregates "
        "and clocks are refused.\n\n"
        f"Columns: {_names(allowed.COLUMNS)}.\n\n"
        f"Functions: {_names(sorted(allowed.FUNCTIONS))}.\n"
    )


def columns_of_batches() -> str:
    """Return a table of the columns of every kind of batch."""
    from duckplets.runs import settings
    from duckplets.samples import columns

    of_texts = [*(f"_{name}" for name in columns.OF_TEXTS), columns.VECTOR]
    lines = [
        "## Columns of a batch",
        "",
        "| kind | by default | also, by `columns=` |",
        "|---|---|---|",
    ]
    for kind in get_args(settings.Kind):
        default, slots = columns.default_columns(kind, 1), columns.slot_names(kind, 1)
        of_slots = [f"{slot}{name}" for slot in slots for name in of_texts]
        known = columns.known_columns(kind, 1)
        also = _names([name for name in known if name not in (*default, *of_slots)])
        if kind != "messages":
            also += f"; {_names(slots)} followed by {_names(of_texts)}"
        lines.append(f"| {kind} | {_names(default)} | {also} |")
    return "\n".join([*lines, "", _COLUMNS, ""])


_COLUMNS = """With `negatives=k` above 1 a triplet has `negative_1 … negative_k`. `weight` is the
recipe's weight × the mean over the slots of trust × place in the section. `label` is the stored
label; without one it is 1 for anchor and positive, and 0 for anchor and negative. `swapped` says
that anchor and positive have changed places. `negative_by` is the origin of a negative: `random`,
`bm25`, `given`, `same_record`, or a replacement for a missing one (`bm25_fallback`,
`random_split`). `negative_score` and `negative_rank` belong to mined negatives, and are null for
others. `_prefix` is the metadata before a text, and `_prefix_meta` has all its keys and values.
`_vector` is the vector of the text without prefix, a fixed-size list. With several sets, name one
as in `anchor_vector:NAME`."""


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
