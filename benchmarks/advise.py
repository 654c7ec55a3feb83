"""Judges ``corpus.advise()`` on eight corpora, by the laboratory of ``teach.py`` (PyTorch).

    python benchmarks/advise.py [--minutes 180] [--corpora python wordnet] [--folder /tmp/advise]

    corpus ─advise→ an arm ┐
           ─teach: eight arms, seeds 1 to 3→ the best arm ├─teach: both, in-batch and random, seeds
                                                          ┘ 4 to 9→ paired differences

Each finished run is written into ``advise.json`` and not done again. A corpus whose texts are not on
this machine is named there with the reason. ``verdict`` has the aim, and tests check it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import teach

import duckplets as dp
from duckplets.advise.halving import ARMS

HERE = Path(__file__).parent
CHOOSING, JUDGING = (1, 2, 3), (4, 5, 6, 7, 8, 9)
TOLERATED = 0.3  # hundredths of nDCG@10 that the recommended arm may lie below the best one
ENOUGH = 7  # corpora of eight on which it must not

# The arms of ``advise`` by their names in the laboratory.
OURS = {
    "in-batch": "pairs",
    "1 random": "random_1",
    "1 BM25": "bm25_1",
    "4 BM25": "bm25_4",
    "1 dense": "uncut",
    "4 dense": "uncut_4",
    "1 dense, margin .05": "dense_1",
    "in-batch, consistent": "consistent",
}
assert OURS.keys() == ARMS.keys()
SMALLER = {"manual": 64}  # samples of a batch: with four negatives it has half of the answers
MORE = {
    "uncut_4": teach.Arm(title="4 dense, no margin", negatives=4, **teach.UNCUT),
    "consistent": teach.Arm(
        title="in-batch, consistent within 20",
        **teach.IN_BATCH,
        vectors="pairs",
        options={"consistent": ("dense", 20)},
    ),
}


def manual() -> Iterator[dict[str, str]]:
    """Yield name and synopsis of the pages of Debian's manpages, and what their description says."""
    listed = teach.subprocess.run(
        ["dpkg", "-L", "manpages", "manpages-dev"], check=True, capture_output=True, text=True
    )
    for file in sorted(Path(line) for line in listed.stdout.split() if line.endswith(".gz")):
        try:
            text = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
        except OSError:  # a link that leads nowhere
            continue
        parts = dict(
            re.findall(r'^\.S[Hh] "?(\w+)"?\n(.*?)(?=^\.S[Hh] |\Z)', text, re.M | re.DOTALL)
        )
        name, synopsis, told = (
            _plain(parts.get(of, "")) for of in ("NAME", "SYNOPSIS", "DESCRIPTION")
        )
        if name and len(told.split()) > 10:
            anchor = f"{name.split(' - ')[0]} {synopsis}"[: teach.CHARACTERS]
            yield {"id": file.name, "anchor": anchor, "positive": told, "group": told}


def _plain(roff: str) -> str:
    """Return the words of a part of a manual page."""
    text = re.sub(r"^[.']\\\".*|^\.[a-zA-Z]+ ?", "", roff, flags=re.M)
    text = re.sub(r"\\f\[?\w+\]?|\\[&|^]|\"", "", text).replace("\\-", "-")
    return " ".join(text.split())


def collection(path: Path) -> None:
    """Make a collection with graded labels of WordNet's sentences and entries."""
    from retrieval_set import write

    folder = path.parent / "beir"
    write(folder, 40_000)
    aside = path.with_name("new.duckdb")
    aside.unlink(missing_ok=True)
    with dp.Corpus(aside) as corpus:
        corpus.ingest(folder, name="wordnet", progress=False)
        corpus.split(0.8, 0, 0.2, seed=1)
    aside.rename(path)


CORPORA = (
    "debian",
    "wordnet",
    "python",
    "gcide",
    "foldoc",
    "manual",
    "collection",
    "foldoc_planted",
)


def prepared(name: str, folder: Path) -> None:
    """Make the corpus that the laboratory does not know."""
    path = folder / name / "corpus.duckdb"
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "collection" and not path.exists():
        collection(path)


def advised(name: str, path: Path) -> dict[str, Any]:
    """Return what is advised for a corpus, as plain values."""
    with dp.Corpus(path, threads=1, read_only=True) as corpus:
        recipe = None if name == "collection" else teach.RECIPE
        found = corpus.advise(recipe, progress=False)
    arms = [{n: getattr(arm, n) for n in arm.__slots__} for arm in found.arms]
    names = (
        "recommended",
        "gain",
        "sure",
        "queries",
        "families",
        "anchors",
        "seconds",
        "cut_short",
    )
    return {of: getattr(found, of) for of in names} | {"arms": arms}


def verdict(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return by corpus the best arm of the first seeds, and how the recommended one compares.

    Intervals of 95 % are of the mean over paired seeds, by Student's distribution.
    """
    figures = {(r["corpus"], r["arm"], r["seed"]): 100 * r["ndcg@10"] for r in results["runs"]}
    found = dict[str, Any]()
    for corpus, advice in results["advice"].items():
        means = {
            arm: np.mean([figures[corpus, arm, seed] for seed in CHOOSING])
            for arm in OURS.values()
            if all((corpus, arm, seed) in figures for seed in CHOOSING)
        }
        mine = OURS[advice["recommended"]]
        if len(means) < len(OURS):
            continue
        best = max(means, key=lambda arm: means[arm])
        rows = {}
        for other in dict.fromkeys((best, "pairs", "random_1")):
            pairs = [
                figures[corpus, mine, seed] - figures[corpus, other, seed]
                for seed in JUDGING
                if (corpus, mine, seed) in figures and (corpus, other, seed) in figures
            ]
            if len(pairs) == len(JUDGING):
                half = 2.571 * float(np.std(pairs, ddof=1)) / len(pairs) ** 0.5  # 5 degrees
                mean = float(np.mean(pairs))
                rows[other] = {"difference": mean, "low": mean - half, "high": mean + half}
        found[corpus] = {"recommended": mine, "best": best, "less": rows}
    whole = {
        c: of["less"]
        for c, of in found.items()
        if {of["best"], "pairs", "random_1"} <= {*of["less"]}
    }
    near = [c for c, rows in whole.items() if rows[found[c]["best"]]["difference"] >= -TOLERATED]
    harmed = [
        c for c, rows in whole.items() if min(rows["pairs"]["high"], rows["random_1"]["high"]) < 0
    ]
    held = len(whole) == len(CORPORA) and len(near) >= ENOUGH and not harmed
    return {"corpora": found, "near": near, "harmed": harmed, "judged": [*whole], "held": held}


def works(advice: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the runs that are due: all arms by the first seeds, then what is compared."""
    for corpus in advice:
        yield from ((corpus, arm, seed) for seed in CHOOSING for arm in OURS.values())
    for corpus, found in verdict(results)["corpora"].items():
        arms = dict.fromkeys((found["recommended"], found["best"], "pairs", "random_1"))
        yield from ((corpus, arm, seed) for seed in JUDGING for arm in arms)


def main(given: Sequence[str] | None = None) -> None:
    """Run what was not run yet, until time is up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpora", nargs="+", default=[*CORPORA], choices=CORPORA)
    parser.add_argument("--minutes", type=float, default=180)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/advise"))
    parser.add_argument("--out", type=Path, default=HERE / "advise.json")
    asked = parser.parse_args(given)
    end = time.monotonic() + 60 * asked.minutes
    results: dict[str, Any] = {"advice": {}, "missing": {}, "runs": [], "verdict": {}}
    if asked.out.exists():
        results = json.loads(asked.out.read_text(encoding="utf-8"))
    teach.ARMS.update(MORE)
    teach.CORPORA["manual"] = manual
    labs = dict[str, teach.Laboratory]()

    def keep() -> None:
        results["verdict"] = verdict(results)
        aside = asked.out.with_suffix(".part")
        aside.write_text(f"{json.dumps(results, indent=1)}\n", encoding="utf-8")
        aside.replace(asked.out)

    def laboratory(name: str) -> teach.Laboratory:
        if name not in labs:
            prepared(name, asked.folder)
            labs[name] = teach.Laboratory(name, asked.folder, teach.MODELS["static"])
        return labs[name]

    for name in asked.corpora:
        if name in results["advice"] or time.monotonic() > end:
            continue
        try:
            lab = laboratory(name)
            lab.corpus.close()  # which is opened to write
            results["advice"][name] = advised(name, asked.folder / name / "corpus.duckdb")
            results["missing"].pop(name, None)
            labs.pop(name)
        except (OSError, teach.subprocess.CalledProcessError) as error:
            results["missing"][name] = str(error)
        keep()
        print(name, results["advice"].get(name, {}).get("recommended", "is missing"), flush=True)
    done = {(run["corpus"], run["arm"], run["seed"]) for run in results["runs"]}
    while due := [
        w for w in works(results["advice"], results) if w not in done and w[0] in asked.corpora
    ]:
        for work in due:
            if time.monotonic() > end:
                return
            size = SMALLER.get(work[0], teach.BATCH)
            teach.ARMS[work[1]] = replace(teach.ARMS[work[1]], batch=size)
            run = laboratory(work[0]).run(*work[1:])
            results["runs"].append(
                {n: run[n] for n in ("corpus", "arm", "seed", "ndcg@10", "seconds")}
            )
            done.add(work)
            keep()
            print(*work, f"{run['ndcg@10']:.4f}", flush=True)


if __name__ == "__main__":
    main()
