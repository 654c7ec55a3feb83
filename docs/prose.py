"""Count sentences that are hard to read, in pages, docstrings, help, messages and SQL comments.

    python docs/prose.py                                a table, a column for each scope
    python docs/prose.py --list of-front --scope docs   the sentences that one rule finds
    python docs/prose.py --files                        the files with the most findings
    python docs/prose.py --max-house 3 --max-hard 8     fail if a scope has more, in percent

A sentence is *hard* if a rule finds something in it, and *house* if a rule other than its length
does. The scopes: ``docs`` (Markdown), ``docstrings``, ``help`` (docstrings of the command line),
``messages`` (texts of errors, warnings and notes) and ``sql`` (comments).
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SKIPPED = {"site", "node_modules", "build", "dist", "tests", "benchmarks", "third_party"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LONGEST = 25  # words of a sentence

_PARTICIPLE = (
    r"(?:\w+ed|brought|built|chosen|cut|done|drawn|found|given|held|kept|known|laid|left|let|made|"
    r"meant|met|put|read|run|said|seen|sent|set|shown|split|taken|told|thought|used|written|won)"
)
_PASSIVE = (
    r"\b(?:is|are|was|were|be|been|being)\s+"
    rf"(?:\w+ly\s+|not\s+|never\s+|also\s+|then\s+)?{_PARTICIPLE}\b"
)
_CLAUSE = r"\b(?:which|whose|whom|who|what|whether|whatever)\b|\bthat\b(?!\s+is\b,)"
_NEGATIVE = r"\b(?:no|not|none|nothing|nobody|never|neither|nor|cannot|without|unless|n't)\b|n't\b"

# A rule: the pattern and the advice. Code is CODE.
_PATTERNS: dict[str, tuple[str, str]] = {
    "nested": (_CLAUSE, "four or more of which, that, what: one clause a sentence"),
    "negations": (_NEGATIVE, "three or more negations: say what happens"),
    "passives": (_PASSIVE, "three or more passives: name who does it"),
    "what-front": (r"^(?-i:What|Whatever|Whoever|Whichever|Who)\b(?!.*\?$)", "name the thing"),
    "what-noun": (
        r"\b(?:of|by|from|with|besides?|than|to|as|for|but|and|or|in|under|over|beyond)"
        r"\s+what\b(?!\s+(?:extent|degree))(?!.*\?$)",
        "'what …' used as a noun: name the thing",
    ),
    "of-which": (
        r"\bof\s+(?:which|whom|whose|whatever)\b|\bwhich\s+of\s+(?:these|those|them)\b",
        "start a new sentence with the noun",
    ),
    "of-front": (
        r"^(?-i:Of\s+(?!course\b))|[,;:]\s+(?-i:of\s+(?:a|an|no|each|every|two|several|these|those)\b)",
        "an 'of' phrase before its noun: put the subject first",
    ),
    "so-many": (
        r"\bso\s+(?:many|much)\b(?!\s+(?:\w+\s+){0,4}that\b)(?!\s+as\b)",
        "name the number",
    ),
    "stand-in": (
        r"\b(?:that|those)\s+(?:of|in|from|by|with)\b|\bthose\s+(?:that|which|whose|who)\b"
        r"|\bas\s+(?:that|those)\b",
        "repeat the noun instead of that / those",
    ),
    "old-words": (
        r"\b(?:anew|likewise|unsaid|whence|thereof|therein|wherein|hereby|lest|whoever|"
        r"by\s+halves|in\s+the\s+place\s+of|by\s+custom|will\s+do\b|is\s+to\s+be|are\s+to\s+be|"
        r"has\s+to\s+be\s+said|(?:all|none|nothing|nobody|everything|any)\s+but|but\s+for|"
        r"stands?\s+(?:in|at|for|beside|among|there|here|where|alone)|"
        r"as\s+(?:\w+\s+)?(?:has|have)\s+(?:it|them)\b)",
        "an old or bookish word: again, also, otherwise, except, must, is in",
    ),
    "else": (r"(?:^|[,;:]\s+)(?-i:else)\b(?!\s+if\b)", "write 'otherwise', or 'If not, …'"),
    "jargon": (
        r"\bgo(?:es)?\s+on\b|\bgoing\s+on\s+(?:where|with|from)\b|\bbegins?\s+anew\b|"
        r"\b(?:is|are|was|were)\s+(?:told|said|apart)\b|"
        r"\b(?:the|what\s+was)\s+(?:told|brought|standing)\b|\bgiv(?:es?|ing)\s+way\b|"
        r"\bkeeps?\s+(?:\w+\s+){0,3}apart\b|\bbrings?\b(?!\s+(?:up|together)\b)|"
        r"\b(?:is|are)\s+there\b(?!\s+(?:a|an|any|no)\b)(?!.*\?$)",
        "a word that only this project uses so: continue, report, set, install, separate, exist",
    ),
}
RULES = {name: (re.compile(text, re.I), advice) for name, (text, advice) in _PATTERNS.items()}
OFTEN = {"nested": 4, "negations": 3, "passives": 3}  # the others find something once


def findings(sentence: str) -> list[str]:
    """Return the names of the rules that find something in a sentence."""
    found = ["long"] if len(words(sentence)) > LONGEST else []
    counts = {name: len(pattern.findall(sentence)) for name, (pattern, _) in RULES.items()}
    return found + [name for name, count in counts.items() if count >= OFTEN.get(name, 1)]


# ---- sentences

_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|no|fig|al)\.$", re.I)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9_`…]|CODE)")
_MARKUP = (
    (r"(?s)<!--.*?-->", " "),
    (r"!\[[^\]]*\]\([^)]*\)", " "),
    (r"\[([^\]]+)\]\([^)]*\)", r"\1"),
    (r"``[^`]+``|`[^`]*`", "CODE"),
    (r":\w+:(?=CODE)", ""),
    (r"\*\*([^*]+)\*\*", r"\1"),
    (r"(?<!\w)[*_]([^*_]+)[*_](?!\w)", r"\1"),
    (r"(?<![\w-])--[a-z][\w-]*", "CODE"),
    (r"https?://\S+|hf://\S+|s3://\S+", "CODE"),
    (r"<[^>]+>", " "),
    (r"\s+", " "),
)


def clean(text: str) -> str:
    """Return prose without markup: code is CODE, a link its text."""
    for pattern, replacement in _MARKUP:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of clean prose that have at least three words."""
    held = ""
    for part in [*_END.split(text), ""]:
        if held and (not part or not _ABBREVIATED.search(held)):
            if len(words(held)) >= 3:
                yield held
            held = ""
        held = f"{held} {part}".strip()


def words(sentence: str) -> list[str]:
    """Return the words of a sentence."""
    return re.findall(r"[A-Za-z0-9][\w'’./+-]*", sentence)


# ---- where prose is


def markdown(text: str) -> Iterator[str]:
    """Yield paragraphs, list items and table cells, without code and headings."""
    text = re.sub(r"(?s)^---\n.*?\n---\n|<!--.*?-->", "", text)
    text = re.sub(r"(?sm)^(\s*)(```|~~~).*?^\s*\2\s*$", "\n", text)
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        bare = line.strip()
        ends = not bare or re.match(r"#{1,6}\s|:::|\|?\s*:?-{3,}|={3,}$|options:|show_", bare)
        item = re.match(r"(?:[-*+]|\d+\.)\s+", bare)
        if block and (ends or item or bare.startswith("|")):
            yield clean(" ".join(block))
            block.clear()
        if ends:
            continue
        if bare.startswith("|"):
            yield from map(clean, re.split(r"(?<!\\)\|", bare.strip("|")))
        else:
            block.append(bare[item.end() :] if item else bare.lstrip("> "))


_ENTRY = re.compile(r"^\*{0,2}\w[\w, *]*(?: \([^)]*\))?: (?=\S)")
_SECTION = re.compile(
    r"(Args|Arguments|Attributes|Returns|Raises|Yields|Examples?|Parameters|Rows|Note):$"
)


def docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs and entries of a docstring, without examples."""
    block: list[str] = []
    section, indent = "", 0
    for line in [*text.split("\n"), ""]:
        bare = line.strip()
        depth = len(line) - len(line.lstrip())
        if bare and depth == 0:
            section = ""
        title = _SECTION.match(bare)
        code = not section and (depth >= 4 or bare.startswith((">>>", "|", "─")))
        example = section.startswith("Example")
        if section and not example and bare and not title:
            indent = indent or depth
        entry = section and not example and depth <= indent
        if block and (title or not bare or (not example and (entry or code))):
            yield clean(" ".join(block))
            block.clear()
        if title:
            section, indent = title[1], 0
        elif bare and not example and not code:
            if entry and section not in ("Returns", "Yields"):
                bare = _ENTRY.sub("", bare)
            block.append(bare if section else re.sub(r"^[-*]\s+", "", bare))


def literal(node: ast.expr) -> str | None:
    """Return the text of a string, with X for each value in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literal(node.left), literal(node.right)
        return None if left is None and right is None else (left or "X") + (right or "X")
    return literal(node.body) if isinstance(node, ast.IfExp) else None


_TELLS = {"warn", "warning", "error", "info", "say", "note", "append", "BadParameter", "fail"}


def messages(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of exceptions, warnings and notes."""
    for node in ast.walk(tree):
        call: ast.AST | None = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if last in _TELLS and (last != "append" or "note" in ast.unparse(node.func)):
                call = node
        if isinstance(call, ast.Call):
            for text in map(literal, call.args[:2]):
                if text and " " in text.strip():
                    yield clean(re.sub(r"'[^' ]*'|\"[^\" ]*\"", "CODE", text))


def sql_comments(text: str) -> Iterator[str]:
    """Yield blocks of comments, without the lines of names and parameters."""
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        bare = line.strip()
        if bare.startswith("--") and not re.match(r"--\s*(name|Parameters|Returns):", bare):
            block.append(re.sub(r"^--\s*(Rows:\s*)?", "", bare))
        elif block:
            yield clean(" ".join(block))
            block = []


def prose(scopes: set[str]) -> Iterator[tuple[str, Path, str]]:
    """Yield scope, file and text, for some scopes or (of an empty set) all."""
    for path in sorted(ROOT.rglob("*.*")):
        parts = path.relative_to(ROOT).parts
        if any(part.startswith(".") or part in SKIPPED for part in parts):
            continue
        pieces: list[tuple[str, Iterator[str]]] = []
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            pieces = [("docs", markdown(path.read_text(encoding="utf-8")))]
        elif path.suffix == ".sql":
            pieces = [("sql", sql_comments(path.read_text(encoding="utf-8")))]
        elif path.suffix == ".py" and parts[0] not in {"docs", "examples", "migrations"}:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            scope = "help" if "cli" in parts else "docstrings"
            nodes = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
            pieces = [(scope, docstring(ast.get_docstring(node) or "")) for node in nodes]
            pieces.append(("messages", messages(tree)))
        for scope, texts in pieces:
            if not scopes or scope in scopes:
                yield from ((scope, path, text) for text in texts)


def main() -> int:
    """Print what the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scope", action="append", default=[])
    parser.add_argument("--list", choices=["long", *RULES])
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--max-house", type=float, default=100.0)
    parser.add_argument("--max-hard", type=float, default=100.0)
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for scope, path, text in prose(set(arguments.scope)):
        name = str(path.relative_to(ROOT))
        for sentence in sentences(text):
            found = findings(sentence)
            if arguments.list in found:
                print(f"{name}: {sentence}")
            tally = [*found, "sentences", *["hard"] * bool(found)]
            tally += ["house"] * bool({*found} - {"long"}) + ["(semicolon)"] * (";" in sentence)
            counts[scope].update(tally)
            files[scope, name].update(tally)
    if arguments.list:
        return 0
    if arguments.files:
        for (scope, name), count in sorted(files.items(), key=lambda item: -item[1]["hard"])[:40]:
            print(f"{count['hard']:5} of {count['sentences']:5} in {scope} of {name}")
        return 0
    scopes = sorted(counts)
    print(f"{'% of sentences':14}", *(f"{scope:>10}" for scope in scopes))
    for row in ("hard", "house", "long", *RULES, "(semicolon)"):
        shares = [100 * counts[scope][row] / counts[scope]["sentences"] for scope in scopes]
        advice = RULES[row][1] if row in RULES else ""
        print(f"{row:14}", *(f"{share:10.1f}" for share in shares), " ", advice)
    failed = [
        f"{scope}: {count[kind]} of {count['sentences']} sentences are {kind}, above {most:g} %"
        for scope, count in counts.items()
        for kind, most in (("house", arguments.max_house), ("hard", arguments.max_hard))
        if 100 * count[kind] > most * count["sentences"]
    ]
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
