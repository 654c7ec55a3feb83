"""Compares the one law of pools with plain Python, and measures its statements beside today's.

    python benchmarks/pools.py [--records 1000000] [--skewed 100000] [--corpora 200] > benchmarks/pools.json

A prototype: ``sql/`` and ``duckplets/`` hold nothing of it yet. ``tests/plain_law.py`` is the
law in plain Python, for reading. ``pools/plain.sql`` is the law for a recipe without a strategy.

The law: a text is illegal for an anchor if only its family has it (``sole``), if an anchor or answer
of its family is written alike (``excluded``), or if it answers the same question (``known``).
A family is a group in all sources of the split. Conditions decide who is drawn, never who answers.

The form: joins of grouped counts. An anchor has ``texts - excluded - known + shared`` legal texts.
``shared``, the texts in both lists, is counted only where it decides (``doubted``).
``equality.sql`` adds ``suits``, the texts that suit a class of anchors, and the key ``class``.
``inequality.sql`` counts all texts (scope ``[]``), less those of the anchor's value (sign -1), plus
those of them that other values have, too (sign 1); so it takes no more time than there are chunks.
``parts.sql`` has the steps in which other recipes differ.

Tried on DuckDB 1.5.5, and failed:

- SEMI JOIN under LATERAL: "Unsupported join type for flattening correlated subquery" (2.0.0 runs it).
- ``shared`` as one join: the optimizer joins both lists on the text first, a square where all records
  share a text (6.1 s and 2.5 GB instead of 1.8 s and .4 GB). So ``doubted`` is materialized.
- Askers joined with answers before questions of several families are chosen: a square for one record
  of thousands of sections (10.6 s and 5.2 GB for 5,000). So askers are grouped by question first.
- ``excluded`` by class with the texts that only the family has: no end in 60 s with one family and
  3,000 dates. So these are left to ``sole``.
- The split as a column of the LATERAL, too, at 1,000 sources: ``own`` is then made for each source,
  and that run did not finish. With the split as a parameter ``own`` is made once.
- ``excluded`` by class at two families that share all texts and have 3,000 dates: no end in 40 s. The
  join of family, class and text is a triangle; it starts from families, which suits shared texts.
- Other comparisons at 100,000 records of one family or one question: every class is counted text by
  text.
- A window over a macro (``only_one(family) OVER …``): "Window function macros must be functions".

Not covered: swapped samples, whose positive asks its own question; ``<>`` with NULL on a side;
conditions on near_date; ``taxonomy`` in near_date; reasons (``left_out``).

``checked`` counts pools of random corpora by kind of recipe, and how many differ from plain Python:
by one statement with LATERAL for all sources, and (``singly``) one source at a time. ``measured`` has
processor seconds and peak MB of a process that runs one statement: of the new law, and of today's in
``sql/pools``. The even corpus has several runs, of which the median counts; others have one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import duckplets as dp
from duckplets.pools.compile import compile_pool

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import plain_law as law  # noqa: E402

FOLDER = ROOT / "benchmarks" / "pools"
STEP = re.compile(
    r"((?:^--.*\n)*)^(?:WITH )?((\w+) AS (?:MATERIALIZED )?\((?:.*\)|\n(?:.*\n)*?\))),?$",
    re.MULTILINE,
)
VERBATIM = "chunks_of($source, $split, $version)"
SKEWED = (
    "even",
    "one anchor text",
    "one anchor text but five",
    "one family",
    "one record",
    "one positive text",
    "two families",
)
A, P, N = "anchors", "positives", "negatives"
ANY = "role <> 'rejected'"


def named(file: str, mark: str) -> dict[str, str]:
    """Return the statements or parts of a file by name."""
    found = re.split(rf"^-- {mark}: (.+)\n", (FOLDER / file).read_text(), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def steps_of(text: str) -> dict[str, tuple[str, str]]:
    """Return the steps of a statement by name, each as its comment and its text."""
    return {name: (comment, step) for comment, step, name in STEP.findall(text)}


def composed(file: str, *parts: str, slots: Iterable[tuple[str, str, str]] = ()) -> str:
    """Return a statement with steps of parts in the place of its own, and texts of steps replaced."""
    text = (FOLDER / file).read_text()
    tail = text[text.rindex("\nSELECT ") + 1 :]
    steps = steps_of(text)
    for part in parts:
        steps |= steps_of(NEAREST if part == "nearest" else named("parts.sql", "part")[part])
    for name, old, new in slots:
        if name == "tail":
            tail = tail.replace(old, new)
        else:
            comment, step = steps[name]
            assert old in step, (name, old)
            steps[name] = comment, step.replace(old, new)
    used: list[str] = []

    def add(name: str) -> None:
        for other in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", steps[name][1]):
            if other in steps and other not in (name, *used):
                add(other)
        used.extend({name} - {*used})

    for name in ("anchors", "positives", "negatives", "eligible"):
        add(name)
    first, *others = ((comment, step) for comment, step in map(steps.__getitem__, used))
    lines = f"{first[0]}WITH {first[1]}"
    for comment, step in others:
        lines += ",\n" + ("\n" + comment if comment else "") + step
    return lines + "\n" + tail


NEAREST = (ROOT / "sql/pools/parts/nearest.sql").read_text()
for old, new in {
    "split_chunks($split, $version)": "chunks_of(NULL, $split, $version)",
    "nearest_days": "1",
    "anchor_condition": "slot.role = 'anchor'",
    "nearest_condition": "slot.source = $source AND slot.role = 'context'",
}.items():
    NEAREST = NEAREST.replace(old, new)

WIDE = [(N, "$source", "NULL"), ("known", "asks AND source = $source", "asks")]
CHUNK = [
    ("tail", "list(chunk_key ORDER BY chunk_key) AS anchors", "[chunk_key] AS anchors"),
    ("tail", "ORDER BY record_key", "ORDER BY record_key, anchors"),
]
REJECTED = [(N, "role = 'context'", "role = 'rejected'")]
BY_DATE = [(A, "meta['topic']", "date")]


def role(name: str) -> law.Taken:
    return lambda c: c.role == name


def sections(c: law.Chunk) -> bool:
    return c.role != "rejected"


def same(name: str) -> Callable[[law.Chunk, law.Chunk], bool]:
    def suits(a: law.Chunk, n: law.Chunk) -> bool:
        one, other = getattr(a.record, name), getattr(n.record, name)
        return one is not None and one == other

    return suits


def other(name: str) -> Callable[[law.Chunk, law.Chunk], bool]:
    return lambda a, n: getattr(a.record, name) != getattr(n.record, name)


def later(a: law.Chunk, n: law.Chunk) -> bool:
    return bool(a.record.date and n.record.date and n.record.date > a.record.date)


ROLES = law.Recipe(role("anchor"), role("context"), role("context"))
CONDITIONS = [
    (A, "role = 'anchor'", "role = 'anchor' AND meta['lang'] = 'en'"),
    (P, "role = 'context'", "role = 'context' AND (label IS NULL OR label >= .5)"),
    (N, "role = 'context'", "role = 'context' AND meta['topic'] IN ('x', 'y')"),
]
EN_X = (
    lambda c: c.record.lang == "en",
    lambda c: c.record.label in (None, 0.5, 1),
    lambda c: c.record.topic in ("x", "y"),
)
SAME = [
    *(
        (step, f"role = '{name}'", ANY)
        for step, name in ((A, "anchor"), (P, "context"), (N, "context"))
    ),
    ("own", "role = 'anchor' AS asks", f"{ANY} AS asks"),
    ("own", "role = 'context' AND", f"{ANY} AND"),
]
POSITION = [
    (P, "role = 'context'", "position = 1"),
    ("own", "role = 'context' AND", "position = 1 AND"),
]

# Kind of recipe: its statement, and what plain Python is told of it.
KINDS: dict[str, tuple[str, law.Recipe]] = {
    "plain": (composed("plain.sql"), ROLES),
    "conditions": (composed("plain.sql", slots=CONDITIONS), replace(ROLES, where=EN_X)),
    "position": (
        composed("plain.sql", slots=POSITION),
        replace(ROLES, positive=lambda c: c.position == 1),
    ),
    "binary labels": (
        composed("plain.sql", slots=[(P, "'context'", "'context' AND label IS DISTINCT FROM 0")]),
        replace(ROLES, labels="binary"),
    ),
    "graded labels": (
        composed("plain.sql", slots=[(P, "'context'", "'context' AND label IS NULL")]),
        replace(ROLES, labels="graded"),
    ),
    "verdicts": (composed("plain.sql", "verdicts"), replace(ROLES, verdicts=True)),
    "split-wide": (composed("plain.sql", slots=WIDE), replace(ROLES, split_wide=True)),
    "per chunk": (composed("plain.sql", slots=CHUNK), replace(ROLES, per_chunk=True)),
    "same selectors": (
        composed("plain.sql", "same_selectors", slots=SAME),
        law.Recipe(sections, sections, sections, same_selectors=True),
    ),
    "equality": (composed("equality.sql"), replace(ROLES, suits=same("topic"))),
    "equality, split-wide": (
        composed("equality.sql", slots=WIDE),
        replace(ROLES, suits=same("topic"), split_wide=True),
    ),
    "inequality": (composed("inequality.sql"), replace(ROLES, suits=other("topic"))),
    "other_date": (
        composed("inequality.sql", slots=[*BY_DATE, ("suits", "meta['topic']", "date")]),
        replace(ROLES, suits=other("date")),
    ),
    "inequality, per chunk": (
        composed("inequality.sql", slots=CHUNK),
        replace(ROLES, suits=other("topic"), per_chunk=True),
    ),
    "other comparison": (
        composed("equality.sql", "comparison", slots=BY_DATE),
        replace(ROLES, suits=later),
    ),
    "same_record": (
        composed("plain.sql", "own_texts", "same_record", slots=REJECTED),
        replace(ROLES, negative=role("rejected"), own_negatives=True),
    ),
    "same_record, filled": (
        composed("inequality.sql", "filled", slots=[(A, "meta['topic']", "record_key")]),
        replace(ROLES, own_negatives=True, filled=True),
    ),
    "near_date negative": (
        composed("plain.sql", "nearest", "own_texts", "near_negative"),
        replace(ROLES, near="negative"),
    ),
    "near_date positive": (
        composed("plain.sql", "nearest", "near_positive"),
        replace(ROLES, near="positive"),
    ),
}


def prepared(path: Path, ready: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection to a new file with the tables of a corpus."""
    if not ready.exists():
        dp.Corpus(ready).close()
    shutil.copy(ready, path)
    found = duckdb.connect(str(path), config={"threads": 2})
    found.execute((FOLDER / "macros.sql").read_text())
    return found


def fill(db: duckdb.DuckDBPyConnection, corpora: list[law.Corpus]) -> None:
    """Insert random corpora, each as a split."""
    run = named("corpora.sql", "name")
    places = {id(c): f"r{n}" for n, corpus in enumerate(corpora) for c in corpus.chunks}
    chunks = [c for corpus in corpora for c in corpus.chunks]
    keys: dict[tuple[int, int], int] = {}
    for c in chunks:
        keys.setdefault((c.record.key, c.position), len(keys) + 1)
    given = pa.Table.from_pylist(
        [*{c.record.key: vars(c.record) | {"split": places[id(c)]} for c in chunks}.values()]
    )
    by_key = {keys[c.record.key, c.position]: c for c in chunks}
    given_sections = pa.Table.from_pylist([
        {"section_key": k, "record_key": c.record.key, "position": c.position, "role": c.role, "section": c.section}
        for k, c in by_key.items()
    ])  # fmt: skip
    given_chunks = pa.Table.from_pylist([
        {"key": c.key, "section_key": keys[c.record.key, c.position], "record_key": c.record.key, "text": c.text}
        for c in chunks
    ])  # fmt: skip
    pairs = {pair: verdict for corpus in corpora for pair, verdict in corpus.verdicts.items()}
    said = pa.Table.from_pylist(
        [{"one": a, "other": b, "verdict": v} for (a, b), v in pairs.items()]
    )
    for name, table in (
        ("given", given),
        ("given_sections", given_sections),
        ("given_chunks", given_chunks),
        ("said", said),
    ):
        db.register(name, table)
    db.execute(run["sources"], {"sources": 2})
    for name in (
        "versions",
        "random records",
        "random splits",
        "random sections",
        "random chunks",
        "random verdicts",
        "text_hashes",
        "stage",
    ):
        db.execute(run[name])
    for corpus in corpora:  # texts are few, so one table of verdicts holds for all
        corpus.verdicts = pairs


def of_sources(text: str, staged: str = "staged") -> str:
    """Return a statement for all sources of all splits."""
    here = f"(FROM {staged} WHERE split = asked.split"
    for old, new in {
        VERBATIM: f"{here} AND source = asked.source)",
        "chunks_of(NULL, $split, $version)": f"{here})",
        "$source": "asked.source",
    }.items():
        text = text.replace(old, new)
    return named("corpora.sql", "name")["of_sources"].replace("found_list", text)


def checked(
    folder: Path, corpora: int, kinds: Iterable[str] = KINDS, singly: int = 10
) -> dict[str, dict[str, int]]:
    """Compare the pools of random corpora with those of plain Python, for 1 to 3 negatives."""
    found: dict[str, dict[str, int]] = {}
    drawn = [law.drawn(random.Random(seed), 1 + 20 * seed) for seed in range(corpora)]
    with prepared(folder / "random.duckdb", folder / "empty.duckdb") as db:
        fill(db, drawn)
        for kind in kinds:
            text, recipe = KINDS[kind]
            row = found[kind] = {
                "pools": 0,
                "rows": 0,
                "anchors": 0,
                "differ": 0,
                "singly": 0,
                "differ_singly": 0,
            }
            laws = {
                (f"r{n}", s): law.Law(corpus, recipe, s)
                for n, corpus in enumerate(drawn)
                for s in "ab"
            }
            for negatives in (1, 2, 3):
                together: dict[tuple[str, str], list[Any]] = {place: [] for place in laws}
                values = {"negatives": negatives} | (
                    {"version": 1} if "$version" in of_sources(text) else {}
                )
                for split, source, key, _, anchors in db.execute(
                    of_sources(text), values
                ).fetchall():
                    together[split, source].append((key, anchors))
                for n, (place, of) in enumerate(laws.items()):
                    expected = of.pool(negatives)
                    row["pools"] += 1
                    row["rows"] += len(expected)
                    row["anchors"] += len(of.anchors())
                    row["differ"] += sorted(together[place]) != expected
                    if n < 2 * singly:
                        asked = {
                            "source": place[1],
                            "split": place[0],
                            "version": 1,
                            "negatives": negatives,
                        }
                        one = [
                            (key, anchors) for key, _, anchors in db.execute(text, asked).fetchall()
                        ]
                        row["singly"] += 1
                        row["differ_singly"] += one != expected
    return found


def made(path: Path, ready: Path, records: int, shape: str = "even", sources: int = 1) -> None:
    """Write a corpus of pairs, with what a shape says of its records or texts."""
    run = named("corpora.sql", "name")
    steps = ["sources", "versions", "records", "splits", "sections", "chunks", "text_hashes"]
    if shape != "even":
        at = steps.index("chunks")
        steps[at:at] = (
            [shape, "two families share", "two families in one split"]
            if shape == "two families"
            else [shape]
        )
    with prepared(path, ready) as db:
        for step in steps:
            given = {"records": records, "sources": sources}
            db.execute(
                run[step], {name: value for name, value in given.items() if f"${name}" in run[step]}
            )
        db.execute("CHECKPOINT")


def recipe_of(kind: str, *, mined: bool) -> dp.TripletRecipe:
    """Return the recipe of a kind that is measured."""
    conditions = {
        "equality": "negative.meta['topic'] = anchor.meta['topic']",
        "inequality": "negative.meta['topic'] IS DISTINCT FROM anchor.meta['topic']",
        "other_date": "negative.date IS DISTINCT FROM anchor.date",
        "other comparison": "negative.date > anchor.date",
    }
    return dp.TripletRecipe(
        "r", dp.role("anchor"), dp.role("context"), dp.role("context"),
        strategy="other_record" if kind == "plain" else dp.sql(conditions[kind]),
        by="bm25" if mined else "random",
    )  # fmt: skip


def text_of(kind: str, whose: str) -> str:
    """Return a statement for one source: of the new law, or today's, mined or not."""
    given = {"source": "s0", "split": "train", "version": 1, "negatives": 1}
    if whose != "law":
        compiled = compile_pool(recipe_of(kind, mined=whose == "today, mined"), **given)  # type: ignore[arg-type]
        return compiled.runnable()
    text = (
        KINDS[kind][0]
        if kind in KINDS
        else composed("equality.sql", slots=[*BY_DATE, ("suits", "meta['topic']", "date")])
    )
    for name, value in given.items():
        text = text.replace(f"${name}", repr(value))
    return text


def one(path: str, kind: str, whose: str, *, together: bool) -> None:
    """Run a statement in this process; prints its rows, processor seconds and the peak of memory."""
    with duckdb.connect(path, read_only=True, config={"threads": 2}) as db:
        db.execute((FOLDER / "macros.sql").read_text())
        text = text_of(kind, whose)
        began = time.process_time()
        if together:
            db.execute(named("corpora.sql", "name")["stage"])
            text = of_sources(KINDS[kind][0]).replace(
                "SELECT DISTINCT splits.split", "SELECT 'train' AS split"
            )
            text = text.replace("FROM splits, sources", "FROM sources").replace(
                "asked.split", "'train'"
            )
            text = text.replace("$negatives", "1").replace("$version", "1")
        rows = len(db.execute(text).to_arrow_table())
        spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "cpu_s": round(spent, 2), "peak_mb": round(peak)}))


def timed(
    path: Path, kind: str, whose: str, runs: int, limit: float, *, together: bool = False
) -> Any:
    """Return the median of some runs, each a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--one",
        str(path),
        kind,
        whose,
        *(["together"] if together else []),
    ]
    found = []
    for _ in range(runs):
        try:
            ran = subprocess.run(command, capture_output=True, check=True, timeout=limit, text=True)
        except subprocess.TimeoutExpired:
            return f"ended after {limit:g} s"
        except subprocess.CalledProcessError as error:
            return f"failed ({error.returncode})"
        found.append(json.loads(ran.stdout))
    return sorted(found, key=lambda row: row["cpu_s"])[len(found) // 2]


def measured(folder: Path, records: int, skewed: int, runs: int, limit: float) -> dict[str, Any]:
    """Time statements on an even corpus, on skewed ones, and on one of many sources."""
    found: dict[str, Any] = {}
    kinds = ("plain", "equality", "inequality")
    ready = folder / "empty.duckdb"

    made(path := folder / "even.duckdb", ready, records)
    found["even"] = {
        kind: {
            whose: timed(path, kind, whose, runs, limit)
            for whose in ("law", "today", "today, mined")
        }
        for kind in kinds
    }
    found["even"] |= {
        kind: {whose: timed(path, kind, whose, 1, limit) for whose in ("law", "today")}
        for kind in ("other_date", "other comparison")
    }
    for shape in SKEWED[1:]:
        made(path := folder / "skewed.duckdb", ready, skewed, shape)
        others = ("equality of dates", "other_date", "other comparison")
        found[shape] = {
            kind: {"law": timed(path, kind, "law", 1, limit)} for kind in (*kinds, *others)
        }
        found[shape]["plain"] |= {
            whose: timed(path, "plain", whose, 1, limit) for whose in ("today", "today, mined")
        }
    made(path := folder / "many.duckdb", ready, skewed, sources=max(skewed // 100, 1))
    found["sources of 100 records"] = {
        kind: {"law": timed(path, kind, "law", 1, limit, together=True)} for kind in kinds
    }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {
        "records": 1_000_000,
        "skewed": 100_000,
        "corpora": 200,
        "runs": 3,
        "limit": 60,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--one", nargs="+")
    asked = parser.parse_args()
    if asked.one:
        path, kind, whose, *rest = asked.one
        one(path, kind, whose, together=bool(rest))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "duckdb": duckdb.__version__,
            "load_before": round(os.getloadavg()[0], 1),
            "lines": {kind: len(text.splitlines()) for kind, (text, _) in KINDS.items()},
            "checked": checked(folder, asked.corpora),
            "records": {"even": asked.records, "skewed": asked.skewed},
            "measured": measured(folder, asked.records, asked.skewed, asked.runs, asked.limit),
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
