"""Copy a sample of the split train into a temporary corpus.

    the corpus ─families of train, whole→ records, first windows, labels ─split→ train and test

So arms use the recipes, rules and runs of the corpus, and the corpus is only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from duckplets.corpus.compact import copy_rows
from duckplets.db import external_files
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import QUIET
from duckplets.ingest.records import current_version
from duckplets.mining import store
from duckplets.mining.job import Job, Scorer
from duckplets.mining.views import show
from duckplets.order.permute import key
from duckplets.recipes.recipes import TripletRecipe

DEPTH = 32  # candidates of an anchor

_TABLES = {  # macros of recipes need versions and sources, so these come first
    "corpus_versions": "corpus/compact/whole",
    "sources": "corpus/compact/of_sources",
    "records": "corpus/compact/of_records",
    "settings": "corpus/compact/whole",
    "recipes": "corpus/compact/whole",
    "chunks": "advise/sample/chunks",
    "stored_sections": "advise/sample/sections",
    "labels": "advise/sample/labels",
}


@contextmanager
def sampled(
    corpus: CorpusFile, sources: list[str], *, most: int, queries: int, seed: int
) -> Iterator[Any]:
    """Yield a corpus of at most ``most`` records of train; some of their families are its test."""
    from duckplets.corpus.corpus import Corpus

    external_files.check(corpus.database)
    with (
        TemporaryDirectory(prefix="duckplets-advise-") as folder,
        Corpus(Path(folder) / "sample.duckdb", threads=1) as sample,
    ):
        anchors = _fill(corpus, sample, {"sources": sources, "most": most, "seed": str(seed)})
        test = min(0.2, queries / max(anchors, 1))
        own = key(seed, "advise") >> 2  # the seed of the corpus would put all in train again
        sample.split(1 - test, 0, test, own, keep_together="text", reassign=True)
        yield sample


def _fill(corpus: CorpusFile, sample: CorpusFile, parameters: dict[str, Any]) -> int:
    """Copy the rows of a sample; return its records, without documents of collections."""
    new = sample.database
    with closing(corpus.database.cursor()) as reader:
        reader.run("advise/sample/choose", parameters)
        chosen = int(reader.run("corpus/compact/count", {"table": "kept_records"})[0][0])
        reader.run("advise/sample/documents", parameters)
        reader.run("advise/sample/sources")
        for name, statement in _TABLES.items():
            is_any = statement.startswith("corpus/")
            copy_rows(reader, new, name, statement, {"table": name} if is_any else None)
    return chosen


def mined(
    sample: CorpusFile, recipe: TripletRecipe, sources: list[str], by: Scorer
) -> tuple[int, list[str]]:
    """Mine the train of a sample; return its anchors, and reasons of sources without anchors."""
    database, anchors, reasons = sample.database, 0, list[str]()
    version = current_version(database)
    with store.writing(database) as folder:
        for source in sources:
            where: dict[str, Any] = {"source": source, "split": "train", "version": version}
            job = Job(**where, database=database, scorer=by, depth=DEPTH, recipe=recipe, work=QUIET)
            found = job.run(folder)
            if isinstance(found, str):
                reasons.append(found)
            else:
                anchors += found.anchors
        show(database)
    return anchors, reasons
