"""Build the reference pages into ``site/``, and the README's file map: ``make docs``.

Fails where a public name is on no page or has no docstring.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import duckplets as dp
from duckplets import errors, testing
from duckplets.adapters import huggingface
from duckplets.recipes import condition_rules
from duckplets.recipes import files as recipe_files
from duckplets.runs import settings as run_settings
from duckplets.samples import columns

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
WIDTH = 80

INTERFACE = {
    "Corpus": (
        *("Corpus", "resume", "IngestReport", "SplitReport", "CompactReport", "PrepareReport"),
        "ReportPage",
        *("NearReport", "DecontaminationReport", "Chunking", "register_chunker", "Chunker"),
    ),
    "Sources": (
        *(name for name in dp.__all__ if name.endswith("Source")),
        *(
            "Limits",
            "preview",
            "Preview",
            "read_hub_list",
            "converter_names",
            "register_converter",
        ),
    ),
    "Clean texts and prefixes": (
        *("Denoiser", "Normaliser", "register_preprocessor", "Preprocessor", "Prefix", "Field"),
    ),
    "Quality": (*("Quality", "register_gate", "register_detector", "JudgeReport", "Shifts"),),
    "Data sets and indexes": (
        *("load_data_sets", "DataSet", "DocumentLimits", "IndexControls", "DataIndex"),
    ),
    "Recipes": (
        *("TripletRecipe", "TextRecipe", "role", "position", "any_section", "near_date", "sql"),
        *("load_recipes", "bm25", "Bm25"),
    ),
    "Search and hard negatives": (
        *("Terms", "IndexReport", "MiningReport", "PairReport", "GivenReport", "ExportReport"),
        "EmbedReport",
    ),
    "Vectors": ("AddedVectors",),
    "Token shards": (
        *("train_tokenizer", "TokenizerReport", "ShardReport", "verify", "VerifyReport"),
        "load_mixture",
    ),
    "Mixing": ("Mixture", "Phase", "Anneal"),
    "Batches": ("Sampler", "Batch", "Forecast", "source_skew", "lexical_similarity"),
    "Token batches": ("TokenShards", "TokenSampler", "TokenBatch"),
    "Records in any order": (
        *("IndexSampler", "SequentialSampler", "ShardOptions", "RecordMetadata", "IndexOrder"),
    ),
}

# Nobody calls their constructors.
MADE_ELSEWHERE = ("Sampler", "Batch", "Forecast", "ReportPage", "TokenSampler", "TokenBatch")
TYPES = {
    "recipes.store": ("Recipe",),
    "base.progress": ("Progress",),
    "ingest.store": ("OnConflict",),
    "runs.settings": ("Kind", "Remainder"),
    "samples.vector_columns": ("Missing",),
    "sources.mapping": ("Columns",),
    "sources.paths": ("Paths",),
    "quality.near_dedup": ("Action",),
    "tokens.manifest": ("Longer",),
    "recipes.recipes": ("Role", "Strategy", "StrategyName", "Per"),
}

# In the order to read them in. A folder's line is the first of its docstring.
USERS_MEET = "testing torch errors __init__"  # above all rooms
ROOMS = (
    "corpus sources ingest text quality recipes pools order samples runs serving search mining "
    "vectors records export tokens report adapters cli engine artifacts db base"
)
FOLDERS = {
    "sql": "Statements, in folders of the same names; a header says what each takes and yields.",
    "migrations": "The schema of all files of ours, append-only.",
    "tests": "In folders of the same names, and `golden/`: what must stay as it is.",
    "examples": "Scripts to start from, run by the tests.",
    "benchmarks": "Speed and memory beside peers'; printed as JSON.",
    "docs": "Design, trainers, the report, figures, scale; `make docs` builds the reference.",
}


# -- site/interface.md --------------------------------------------------------------------------


def interface() -> str:
    """Return the reference of all public names."""
    left = set(dp.__all__) - {name for names in INTERFACE.values() for name in names}
    if wrong := sorted(name for name in left if not name.endswith("Error")):
        raise SystemExit(f"docs/generate.py: INTERFACE lacks {', '.join(wrong)}")
    parts = [
        "# Interface",
        "Generated from the code by `docs/generate.py`. Everything here is imported from "
        "`duckplets`, by custom as `dp`. The command line is in [cli.md](cli.md), the tables that "
        "the duckdb CLI shows are described by the comments on their columns.",
    ]
    for title, names in INTERFACE.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _entry(name, getattr(dp, name))
        parts += _EXTRAS.get(title, list)()
    parts += _trainers()
    parts += ["## Types", "\n".join(_types()), "## Errors", *_prose(inspect.getdoc(errors) or "")]
    parts += ["## For trainers of Hugging Face", "In `duckplets.adapters.huggingface`; extra `hf`."]
    parts += _functions(huggingface)
    parts += ["## For tests of your own", "In `duckplets.testing`.", *_functions(testing)]
    return "\n\n".join(parts) + "\n"


def _functions(module: ModuleType) -> Iterator[str]:
    """Yield the entries of a module's public functions."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_":
            yield from _entry(name, value)


def _trainers() -> list[str]:
    """Return what is for PyTorch, read from its source: the package may be absent here."""
    file = ROOT / "duckplets" / "adapters" / "torch" / "__init__.py"
    parts = ["## For PyTorch", "In `duckplets.torch`; needs the extra `torch`."]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for cls in tree.body:
        if not isinstance(cls, ast.ClassDef) or cls.name.startswith("_"):
            continue
        parts += [f"### `{cls.name}`"]
        for node in cls.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            if node.name == "__init__":
                parts += [_code(_source_signature(cls.name, node))]
                parts += _prose(inspect.cleandoc(ast.get_docstring(cls) or ""))
            elif node.name == "__len__" or not node.name.startswith("_"):
                parts += [f"#### `.{node.name}`", _code(_source_signature(node.name, node))]
                parts += _prose(ast.get_docstring(node) or "")
    return parts


def _source_signature(name: str, node: ast.FunctionDef) -> str:
    """Return a call's shape as ``_signature`` does, from source."""
    given = ast.unparse(node.args).removeprefix("self, ").removeprefix("cls, ")
    given = "" if given == "self" else given
    arrow = f" -> {ast.unparse(node.returns)}" if node.returns and name == node.name else ""
    line = f"{name}({given}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in given.split(", ")) + f"){arrow}"


def _types() -> Iterator[str]:
    """Yield what the names of types in the signatures stand for."""
    for module, names in TYPES.items():
        file = ROOT / "duckplets" / f"{module.replace('.', '/')}.py"
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Name) and target.id in names:
                yield f"- `{target.id}`: `{ast.unparse(node.value)}`"  # type: ignore[attr-defined]


def _entry(name: str, value: Any) -> list[str]:
    text = _prose(inspect.getdoc(value) or "")
    if not text:
        raise SystemExit(f"docs/generate.py: {name} has no docstring")
    if inspect.isfunction(value):
        _check_arguments(name, value)
    if name in MADE_ELSEWHERE:
        parts = [f"### `{name}`", *(part for part in text if not part.startswith("- "))]
    else:
        parts = [f"### `{name}`", _code(_signature(name, value)), *text]
    if not inspect.isclass(value):
        return parts
    parts += _own_fields(value)
    for member in _members(value):
        parts += _member(value, member)
    return parts


def _members(cls: type) -> list[str]:
    if cls.__name__.endswith("Source"):
        return []  # their methods are for ingest
    own = [base for base in cls.__mro__ if base.__module__.startswith("duckplets")]
    names = dict.fromkeys(name for base in own for name in vars(base))
    shown = [name for name in names if not name.startswith("_") or name == "__len__"]
    return [name for name in shown if _doc(cls, name)]


def _doc(cls: type, name: str) -> str:
    value = inspect.getattr_static(cls, name)
    is_member = isinstance(value, property | classmethod) or inspect.isfunction(value)
    return (inspect.getdoc(getattr(cls, name)) or "") if is_member else ""


def _member(cls: type, name: str) -> list[str]:
    value = inspect.getattr_static(cls, name)
    if name == "__len__":
        return [f"#### `len({cls.__name__.lower()})`", *_prose(_doc(cls, name))]
    if isinstance(value, property):
        kind = value.fget.__annotations__.get("return") if value.fget else None
        return [f"#### `.{name}: {kind}`", *_prose(_doc(cls, name))]
    _check_arguments(f"{cls.__name__}.{name}", getattr(cls, name))
    return [
        f"#### `.{name}`",
        _code(_signature(name, getattr(cls, name))),
        *_prose(_doc(cls, name)),
    ]


def _own_fields(cls: type) -> list[str]:
    """Return the fields of a dataclass that are described below each, as in a source."""
    if not is_dataclass(cls):
        return []
    described: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("duckplets"):
            described |= _field_texts(base)
    known = [field.name for field in fields(cls) if field.name in described]
    own = [name for name in known if name in _field_texts(cls)]
    rest = [name for name in known if name not in own]
    lines = [f"- `{name}`: {_inline(described[name])}" for name in [*own, *rest]]
    return ["\n".join(lines)] if lines else []


@cache
def _field_texts(cls: type) -> dict[str, str]:
    """Return the strings that stand below the fields of a class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    body = getattr(tree, "body", [])
    return {
        field.target.id: " ".join(inspect.cleandoc(text.value.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _signature(name: str, value: Any) -> str:
    """Return a call's shape, on one line if it fits and with a line a parameter if not."""
    signature = inspect.signature(value)
    given: list[str] = []
    named = False
    for parameter in signature.parameters.values():
        if _is_bound(parameter):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            given.append("*")
            named = True
        given.append(_parameter(parameter))
    arrow = ""
    if not inspect.isclass(value) and signature.return_annotation is not signature.empty:
        arrow = f" -> {_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(given)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in given) + f"){arrow}"


def _is_bound(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is what a method or a verb is called of."""
    return parameter.name == "self" or parameter.annotation in ("Corpus", "CorpusFile", "Sampler")


def _check_arguments(name: str, call: Any) -> None:
    """Refuse a docstring that says nothing of an argument, where it has a section of them."""
    doc = inspect.getdoc(call) or ""
    given = [p for p in inspect.signature(call).parameters.values() if not _is_bound(p)]
    lacking = [p.name for p in given if not re.search(rf"^    \*{{0,2}}{p.name}\b.*:", doc, re.M)]
    if "Args:" in doc and lacking:
        raise SystemExit(f"docs/generate.py: {name} says nothing of {', '.join(lacking)}")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default)
    return f"{text} = {'…' if default.startswith('<') else default}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


# -- docstrings to Markdown ---------------------------------------------------------------------

_SECTION = re.compile(r"(Args|Attributes|Returns|Raises):")


def _prose(text: str) -> list[str]:
    """Return the paragraphs of a docstring, and its sections as lists."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.split("\n")
        if found := _SECTION.fullmatch(lines[0]):
            parts.append(_listed(found[1], textwrap.dedent("\n".join(lines[1:]))))
        elif block.startswith((" ", "with ")):
            _add_code(parts, textwrap.dedent(block))
        else:
            parts.append(_inline(" ".join(line.strip() for line in lines).replace("::", ":")))
    return parts


def _listed(section: str, text: str) -> str:
    entries = re.split(r"\n(?=\S)", text)
    if section == "Returns":
        return f"Returns: {_inline(' '.join(text.split()))}"
    lines = [] if section != "Raises" else ["Raises:", ""]
    for entry in entries:
        name, _, what = " ".join(entry.split()).partition(": ")
        names = ", ".join(f"`{part}`" for part in name.split(", "))
        lines.append(f"- {names}: {_inline(what)}")
    return "\n".join(lines)


def _inline(text: str) -> str:
    return text.replace("``", "`")


def _add_code(parts: list[str], text: str) -> None:
    """Add code, joined to code just before it: an empty line does not end an example."""
    if parts and parts[-1].startswith("```"):
        text = f"{parts.pop().removeprefix('```').removesuffix('```').strip()}\n\n{text}"
    parts.append(_code(text))


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _file_format() -> list[str]:
    _, _, text = (inspect.getdoc(recipe_files) or "").partition("\n\n")
    return ["### A recipes file", *_prose(text)]


def _conditions() -> list[str]:
    return [
        "### Conditions",
        "What `where=` and `dp.sql()` take: one boolean expression in DuckDB's SQL over the "
        "columns of a record, one of its sections and its window; in `dp.sql()` each with "
        "`anchor.` or `negative.` before it. No subqueries, tables, settings, parameters, lambdas, "
        "aggregates or clocks.",
        f"Columns: {', '.join(f'`{name}`' for name in condition_rules.COLUMNS)}.",
        f"Functions: {', '.join(f'`{name}`' for name in sorted(condition_rules.FUNCTIONS))}.",
    ]


def _columns() -> list[str]:
    of_texts = [*(f"_{name}" for name in columns.OF_TEXTS), columns.VECTOR]
    lines = ["| kind | by default | also, by `columns=` |", "|---|---|---|"]
    for kind in get_args(run_settings.Kind):
        default, slots = columns.default_columns(kind, 1), columns.slot_names(kind, 1)
        of_slots = [f"{slot}{name}" for slot in slots for name in of_texts]
        known = columns.known_columns(kind, 1)
        also = _names([name for name in known if name not in (*default, *of_slots)])
        if kind != "messages":
            also += f"; {_names(slots)} followed by {_names(of_texts)}"
        lines.append(f"| {kind} | {_names(default)} | {also} |")
    rest = (
        "With `negatives=k` above 1 a triplet has `negative_1 … negative_k`. `weight` is the "
        "recipe's × the mean over the slots of trust × place in the section; `label` is 1 for "
        "anchor and positive and 0 for anchor and negative; `swapped` says that anchor and "
        "positive have changed places. `negative_by` says where a negative comes from: `random`, "
        "`bm25`, `given`, `same_record`, or what stands in where one lacked (`bm25_fallback`, "
        "`random_split`); `negative_score` and `negative_rank` are those of a mined one, null for "
        "any other, and of several `negative_1_by`, `negative_1_score` and so on. `_prefix` is the "
        "metadata shown before a text, "
        "`_prefix_meta` all keys and values there were to show. `_vector` is that of the bare text "
        "(`add_vectors`), a fixed-size list: of the only set there is, or of the one that is named "
        "as in `anchor_vector:NAME`."
    )
    return ["### Columns of a batch", "\n".join(lines), rest]


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_EXTRAS: dict[str, Callable[[], list[str]]] = {
    "Recipes": lambda: [*_file_format(), *_conditions()],
    "Batches": _columns,
}


# -- site/cli.md --------------------------------------------------------------------------------


def command_line() -> str:
    """Return the help of every command, 80 columns wide."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from duckplets.cli import app

    parts = [
        "# Command line",
        "Generated by `docs/generate.py`: what `--help` says. Data goes to stdout, talk and "
        "progress to stderr; the exit code is 0, 1 for an error (one line, a traceback only with "
        "`--debug`), 2 for wrong usage.",
    ]
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    for path in [[], *_commands(get_command(app), [])]:
        name = " ".join(["duckplets", *path])
        result = CliRunner(env=plain).invoke(app, [*path, "--help"], prog_name="duckplets")
        if result.exit_code:
            raise SystemExit(f"{name} --help: {result.output}")
        lines = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        parts += [f"## `{name}`", _code(lines)]
    return "\n\n".join(parts) + "\n"


def _commands(command: Any, path: list[str]) -> Iterator[list[str]]:
    for name, sub in getattr(command, "commands", {}).items():
        yield [*path, name]
        yield from _commands(sub, [*path, name])


# -- the README's file map ----------------------------------------------------------------------


def file_map() -> str:
    """Return one line for each module that users meet, and one for each folder."""
    package = ROOT / "duckplets"
    _check_names(USERS_MEET, {file.stem for file in package.glob("*.py")}, "USERS_MEET")
    rooms = {file.parent.name for file in package.glob("*/__init__.py")}
    _check_names(ROOMS, rooms, "ROOMS")
    lines = ["```", "duckplets/"]
    for name in USERS_MEET.split():
        lines.append(f"  {name + '.py':<22} {_first_line(package / f'{name}.py')}")
    for name in ROOMS.split():
        lines.append(f"  {name + '/':<22} {_first_line(package / name / '__init__.py')}")
    lines += [f"{name + '/':<24} {what.replace('`', '')}" for name, what in FOLDERS.items()]
    return "\n".join([*lines, "```"])


def _check_names(listed: str, found: set[str], where: str) -> None:
    if wrong := sorted(found.symmetric_difference(listed.split())):
        raise SystemExit(f"docs/generate.py: {where} is wrong about {', '.join(wrong)}")


def _first_line(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("``", "")


def readme() -> str:
    """Return the README with the file map as it should be."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    begin, end = "<!-- file map: make docs -->\n", "<!-- end of file map -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{file_map()}\n{end}{after}"


PAGES: dict[str, Callable[[], str]] = {"interface.md": interface, "cli.md": command_line}


def build(site: Path = SITE) -> None:
    """Write the reference pages into a folder."""
    site.mkdir(parents=True, exist_ok=True)
    for page, made in PAGES.items():
        (site / page).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    build()
    (ROOT / "README.md").write_text(readme(), encoding="utf-8")
