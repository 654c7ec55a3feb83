"""Reads the corpora of ``teach.py`` from what is on this machine, as pairs of an anchor and a text.

They come with ``apt-get install dict-gcide dict-foldoc`` and ``apt-get update -o
Acquire::Languages=en``; WordNet as ``examples/wordnet.py`` takes it. What is absent raises an
``OSError``.
"""

from __future__ import annotations

import ast
import base64
import gzip
import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
WORDNET = "shared/corpora/wordnet.parquet"  # in some folder above this one
DICTIONARIES = Path("/usr/share/dictd")

SIZES = {"medium": 20_000, "small": 7_000}
CHARACTERS = 1_000  # of a text
LONG = 200  # characters of a text that is planted in two halves
HALF = ":half"  # ends the id of the second

Row = dict[str, str]


def wordnet() -> Iterator[Row]:
    """Yield the words of every synset of WordNet, and its gloss."""
    import pyarrow.parquet as pq

    file = next(
        (parent / WORDNET for parent in HERE.parents if (parent / WORDNET).exists()), WORDNET
    )
    for row in pq.read_table(file, columns=["id", "title", "definition"]).to_pylist():
        yield {"id": row["id"], "anchor": row["title"], "positive": row["definition"]}


def debian() -> Iterator[Row]:
    """Yield the short and the long description of Debian's packages; a source is a family."""
    sources = {}
    listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True)
    for block in listed.stdout.split("\n\n"):
        found = dict(re.findall(r"^(Package|Source): (\S+)", block, re.MULTILINE))
        if "Package" in found:
            sources[found["Package"]] = found.get("Source", found["Package"])
    seen = set()
    for file in sorted(Path("/var/lib/apt/lists").glob("*_Translation-en*")):
        asked = ["/usr/lib/apt/apt-helper", "cat-file", str(file)]
        text = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        for name, short, body in re.findall(
            r"^Package: (\S+)\n(?:.+\n)*?Description-en: (.+)\n((?: .*\n)*)", text, re.MULTILINE
        ):
            if name not in seen and body.strip():
                seen.add(name)
                long = re.sub(r"^ \.?", "", body, flags=re.MULTILINE)
                group = sources.get(name, name)
                yield {"id": name, "anchor": short, "positive": long, "group": group}


def python() -> Iterator[Row]:
    """Yield names and signatures of the standard library, and what their docstrings begin with."""
    folder = Path(sysconfig.get_path("stdlib"))
    left_out = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"}
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        if not left_out & {*parts}:
            try:
                tree = ast.parse(file.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            yield from _documented(tree, ".".join(parts), "")


def _documented(tree: ast.AST, module: str, within: str) -> Iterator[Row]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}{node.name}"
            asked = "" if isinstance(node, ast.ClassDef) else f"({ast.unparse(node.args)})"
            if doc := ast.get_docstring(node):
                first = doc.strip().split("\n\n")[0]
                if len(first.split()) > 2:
                    place = f"{module}:{name}:{node.lineno}"
                    yield {"id": place, "anchor": f"{name}{asked}", "positive": first}
            yield from _documented(node, module, f"{name}.")


def gcide() -> Iterator[Row]:
    """Yield headwords of GCIDE, and what their first senses say; a headword is a family."""
    for number, (word, body) in enumerate(_entries("gcide")):
        for brackets in (r"\A[^\\]*\\,?", r"\[[^\[\]]*\]", r"\[[^\[\]]*\]|[{}]"):
            body = re.sub(brackets, " ", body)
        senses = [part for part in body.split("\n\n") if not re.search(r"--\s*[A-Z]", part)]
        text = " ".join(" ".join(senses[:3]).split())
        if len(text.split()) > 4:
            group = word.lower()
            yield {"id": f"{word}{number}", "anchor": word, "positive": text, "group": group}


def foldoc() -> Iterator[Row]:
    """Yield terms of the Free On-line Dictionary of Computing, and what is said of them."""
    for number, (word, body) in enumerate(_entries("foldoc")):
        text = " ".join(re.sub(r"[{}]", "", body).split())
        if len(text.split()) > 6:
            yield {"id": f"{word}{number}", "anchor": word, "positive": text, "group": word.lower()}


def _entries(name: str) -> Iterator[tuple[str, str]]:
    """Yield headword and body of the entries of a dictionary in the form of dictd, once each."""
    seen = set[int]()
    text = gzip.decompress((DICTIONARIES / f"{name}.dict.dz").read_bytes())
    for line in (DICTIONARIES / f"{name}.index").read_text(encoding="utf-8").splitlines():
        word, *place = line.split("\t")[:3]
        start, size = (_number(digits) for digits in place)
        if not word.startswith("00") and start not in seen:
            seen.add(start)
            entry = text[start : start + size].decode("utf-8", "replace")
            head, _, body = entry.partition("\n")
            if "\\" in head:  # GCIDE's: word \pronunciation\, part of speech
                yield head.split("\\")[0].strip(), f"{head}\n{body}".split("\\", 1)[1]
            elif name != "gcide":
                yield head.strip(), body


def _number(digits: str) -> int:
    """Return a number that the index of a dictionary writes in 64 digits."""
    padded = digits.rjust(-4 * (-len(digits) // 4), "A")
    return int.from_bytes(base64.b64decode(padded), "big")


def planted(read: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Yield a record of each family, and halves of long texts apart, the second without an anchor.

    So the second is a true answer that nobody labelled. A family would keep it from being mined.
    """
    seen = set()
    for row in read():
        group, text = row.pop("group", row["id"]), row["positive"][:CHARACTERS]
        if group in seen:
            continue
        seen.add(group)
        middle = text.rfind(" ", 0, len(text) // 2) if len(text) >= LONG else -1
        if middle > 0:
            yield row | {"positive": text[:middle]}
            yield {"id": row["id"] + HALF, "positive": text[middle + 1 :]}
        else:
            yield row


CORPORA: dict[str, Callable[[], Iterable[Row]]] = {
    "debian": debian,
    "wordnet": wordnet,
    "python": python,
    "gcide": gcide,
    "foldoc": foldoc,
    "debian_medium": debian,
    "debian_small": debian,
    "gcide_medium": gcide,
    "gcide_small": gcide,
    "foldoc_planted": lambda: planted(foldoc),
    "debian_planted": lambda: planted(debian),
    "gcide_planted": lambda: planted(gcide),
}
PLANTED = [name for name in CORPORA if name.endswith("_planted")]
MOST = 60_000  # records of a corpus, those of least hash
# the same text, less of it: down to as little as Python's
FEWER = {f"{name}_{size}": n for name in ("debian", "gcide") for size, n in SIZES.items()}
FEWER |= dict.fromkeys(PLANTED, SIZES["medium"])
