"""The command `demo`: the main job, end to end, on text that Python contains.

The source *topics* has the chapters of ``help()``, with title and text. The source *docstrings* has
public functions and classes of the standard library, with signature and docstring. Runs of the same
Python have the same order of records, so demo samples can be compared.
"""

from __future__ import annotations

import importlib
import inspect
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import counted
from duckplets.cli.app import say, tell
from duckplets.cli.verbs import command
from duckplets.errors import ExtensionError, MigrationError, SourceError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus

_BATCH_SIZE = 32
_SHOWN = 3  # triplets shown
_WIDTH = 88
_COLUMNS = ("anchor", "positive", "negative", "source", "recipe", "negative_by", "negative_score")

# Modules quick to import, without side effects, in every Python from 3.11 on.
_MODULES = (
    *("abc", "argparse", "base64", "bisect", "calendar", "cmath", "codecs"),
    *("collections", "collections.abc", "concurrent.futures", "configparser", "contextlib"),
    *("contextvars", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "dis"),
    *("email.message", "email.utils", "enum", "filecmp", "fileinput", "fnmatch", "fractions"),
    *("functools", "getpass", "glob", "graphlib", "gzip", "hashlib", "heapq", "hmac", "html"),
    *("html.parser", "http.client", "http.cookies", "importlib.metadata", "inspect", "io"),
    *("ipaddress", "itertools", "json", "keyword", "linecache", "locale", "logging", "mailbox"),
    *("math", "mimetypes", "numbers", "operator", "os", "pathlib", "pickle", "pickletools"),
    *("pkgutil", "platform", "plistlib", "pprint", "profile", "pstats", "pydoc", "queue"),
    *("random", "re", "reprlib", "runpy", "sched", "secrets", "selectors", "shelve", "shlex"),
    *("shutil", "signal", "socket", "socketserver", "statistics", "string", "struct"),
    *("subprocess", "symtable", "sysconfig", "tarfile", "tempfile", "textwrap", "threading"),
    *("time", "timeit", "tokenize", "trace", "traceback", "types", "typing", "unicodedata"),
    *("urllib.error", "urllib.parse", "urllib.request", "uuid", "warnings"),
    *("weakref", "wsgiref.util", "xml.etree.ElementTree", "xmlrpc.client", "zipapp", "zipfile"),
)


@command()
def demo(keep: Path | None = None) -> None:
    """Show the main job on text that Python contains.

    The command ingests, splits, mines, samples, saves and resumes. The corpus is in a temporary
    folder, unless --keep names a file.

    Args:
        keep: Keep the corpus in a new file.

    Example:
        duckplets demo --keep demo.duckdb
    """
    if keep is not None and keep.exists():
        raise MigrationError(f"{keep} exists; give --keep the path of a new file")
    with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
        _walk(Path(folder) / "demo.duckdb" if keep is None else keep)
    if keep is None:
        tell("The corpus was temporary; to keep it: duckplets demo --keep demo.duckdb")
    corpus = "demo.duckdb" if keep is None else str(keep)
    tell(
        "Next steps:",
        f"  duckplets status {corpus}",
        f"  duckplets sample {corpus} --batch-size 4",
        f"  duckplets search {corpus} 'sort a list'",
        f"  duckplets sql {corpus} anchor_context",
        "With your own text:",
        "  duckplets ingest faq.duckdb faq.csv --anchor question --positive answer",
        "  duckplets split faq.duckdb",
        "  duckplets sample faq.duckdb --steps 10 --save --out first.parquet",
    )


def _walk(path: Path) -> None:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.resume import resume

    with Corpus(path) as corpus:
        _ingest(corpus)
        splits = corpus.split(train=0.8, validation=0.1, test=0.1, seed=42)
        say("split: " + ", ".join(f"{count:,} {split}" for split, count in splits.items()))
        _mine(corpus)
    with Corpus(path, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=_BATCH_SIZE, seed=7, columns=_COLUMNS)
        batch = next(sampler)
        say(f"sample: batches of {_BATCH_SIZE} triplets, {sampler.epoch_length:,} an epoch")
        say(*(f"  {line}" for line in sampler.describe().split("\n")))
        step, saved = sampler.step, sampler.save()
        say(f"save: step {step}, in {saved.name}")
        unbroken = next(sampler)
    with resume(path) as sampler:
        is_equal = next(sampler).table.equals(unbroken.table)
    equal = "equals" if is_equal else "DIFFERS FROM"
    say(f"resume: the batch of step {step} {equal} the batch of the unbroken run")
    for i, row in enumerate(batch.table.slice(0, _SHOWN).to_pylist()):
        tell("", f"triplet {i + 1}, source {row['source']}, recipe {row['recipe']}")
        for slot in ("anchor", "positive", "negative"):
            tell(f"  {slot:<9} {shorten(row[slot], _WIDTH, placeholder='…')}")
        score = row["negative_score"]
        how = f"{row['negative_by']}, score {score:.2f}" if score else row["negative_by"]
        tell(f"  drawn by {how}")
    tell("")


def topics() -> list[dict[str, str]]:
    """Return the chapters of ``help()``: ``topic``, ``title`` and ``text``."""
    try:
        from pydoc_data.topics import topics as chapters
    except ImportError as error:
        raise SourceError(f"this Python has no help texts: {error}") from error
    found = []
    for topic, chapter in sorted(chapters.items()):
        title, _, text = chapter.strip().partition("\n")
        text = text.lstrip("*=-~\"' \t\n").strip()  # drop the underline of the title
        if title and text:
            found.append({"topic": topic, "title": title.strip(), "text": text})
    return found


def docstrings() -> list[dict[str, str]]:
    """Return public functions and classes: ``name``, ``module``, ``signature`` and ``doc``."""
    found: dict[str, dict[str, str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names warn on access
        for name in _MODULES:
            try:
                rows = list(_documented(importlib.import_module(name)))
            except ImportError:
                continue  # some systems ship fewer modules
            found.update({row["name"]: row for row in rows})
    if not found:
        raise SourceError("this Python runs without docstrings; run it without -OO")
    return [found[name] for name in sorted(found)]


def _ingest(corpus: Corpus) -> None:
    from duckplets.sources.memory import MemorySource

    sources = {
        "topics": MemorySource(topics(), anchor="title", positive="text", id="topic"),
        "docstrings": MemorySource(
            docstrings(), anchor="signature", positive="doc", id="name", meta=["module"]
        ),
    }
    for name, source in sources.items():
        report = corpus.ingest(source, name=name, progress=False)
        say(f"ingest: {counted(report.added, 'record')} of source {name}")


def _mine(corpus: Corpus) -> None:
    from duckplets.search.analyzer_settings import Terms

    try:
        mined = corpus.mine(progress=False)
    except ExtensionError:
        say("mine: no stemming, because DuckDB's fts extension is missing; see duckplets doctor")
        mined = corpus.mine(terms=Terms(stemmer="none"), progress=False)
    say(f"mine: {mined.candidates:,} hard negatives for {mined.anchors:,} anchors, by BM25")


def _documented(module: ModuleType) -> Iterator[dict[str, str]]:
    """Yield the public functions and classes of a module with a docstring of their own."""
    listed = getattr(module, "__all__", None)
    for attribute in sorted(listed or vars(module)):
        value = getattr(module, attribute, None)
        if attribute.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if not listed and getattr(value, "__module__", None) != module.__name__:
            continue  # imported from elsewhere
        doc = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        if isinstance(doc, str) and (doc := inspect.cleandoc(doc)):
            name = f"{module.__name__}.{attribute}"
            signature = name + _signature(value)
            yield {"name": name, "module": module.__name__, "signature": signature, "doc": doc}


def _signature(value: Any) -> str:
    """Return the signature, or nothing if it is unknown or contains addresses."""
    try:
        shown = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    return "" if " at 0x" in shown else shown
