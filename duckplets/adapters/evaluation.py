"""Rank documents by a model, store the result of every query, and compare two models."""

# Equal texts count as one document, and so does a family (``group_key``): its best document keeps
# its rank. Queries of one family are no independent evidence, so a bootstrap draws whole families.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.adapters.huggingface import imported
from duckplets.base.atomic import written_aside
from duckplets.base.documents import from_json
from duckplets.base.sanitize import Reported, shown, text_table
from duckplets.base.settings import checked
from duckplets.errors import EmptyPoolError, QualityError, SamplerError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.db.database import Database
    from duckplets.export import Documents
    from duckplets.export.collection import Collections
    from duckplets.recipes.recipes import TripletRecipe

_AT = 10
METRICS = (f"ndcg@{_AT}", f"mrr@{_AT}", f"recall@{_AT}")
_DRAWS, _AT_ONCE = 4_000, 100  # bootstrap samples, and the number drawn together


def evaluator(
    corpus_of: Corpus,
    /,
    split: str = "test",
    *,
    corpus: Documents = "all",
    recipe: TripletRecipe | str | None = None,
    source: str | None = None,
    results: str | Path | None = None,
    **options: Any,
) -> Any:
    """Return an ``InformationRetrievalEvaluator`` of sentence-transformers over a split.

    Queries are the distinct anchor texts of a split. The positives of all anchors of a text are
    relevant. The export ``beir`` writes the same set. Here equal documents count once, and
    documents of one ``group_key`` count as one. In a collection each query and each document counts
    separately. Documents with labels of 1 and more are relevant, and nDCG uses the labels as
    gains, as in trec_eval.

    Args:
        split: The split of the queries.
        corpus: The documents: ``all`` splits, as in use, or only the ``split``.
        recipe: The recipe that defines anchors, positives and negatives. Default: sections with
            the roles ``anchor`` and ``context``; in collections all queries and documents.
        source: Use this source only.
        results: A file for ``duckplets.compare``. Each evaluation replaces it with nDCG, MRR and
            recall at 10 of every query, by the first score function.
        options: Arguments of the evaluator, such as ``name``, ``batch_size`` or ``mrr_at_k``.

    Raises:
        ExtensionError: ``sentence_transformers`` is not installed.
        EmptyPoolError: No anchor of the split has a positive.
        QualityError: The folder of ``results`` is missing; later, the file cannot be written.
    """
    if results is not None and not Path(results).parent.is_dir():
        raise QualityError(f"results={shown(results)!r}: the folder does not exist; make it first")
    from duckplets.export import Documents

    evaluation = imported("sentence_transformers.sentence_transformer.evaluation")
    is_all = checked("corpus", corpus, Documents, SamplerError) == "all"
    found = questions(corpus_of.database, split, recipe=recipe, source=source, is_all=is_all)
    made = _class_of(evaluation.InformationRetrievalEvaluator)(
        found.queries,
        found.documents,
        {query: {*gains} for query, gains in found.gains.items()},
        **{"name": split, **options},
    )
    made.one_of, made.families, made.gains = found.one_of, found.families, found.gains
    made.results = None if results is None else Path(results)
    return made


def questions(
    database: Database,
    split: str,
    *,
    recipe: TripletRecipe | str | None,
    source: str | None,
    is_all: bool,
) -> Questions:
    """Return the queries of a split that have an answer, their families, and documents."""
    from duckplets.export.collection import Collections

    groups: dict[str, str] = dict(database.run("export/groups"))
    collections = None if recipe else Collections.chosen(database, source, split)
    if collections is not None:
        found = _of_labels(collections)
    else:
        found = _of_pools(database, recipe, source, split, groups, is_all=is_all)
    if not found.queries:
        raise EmptyPoolError(f"split {split!r}: none of its anchors has a positive")
    found.families = {query: groups.get(_record_of(query), query) for query in found.queries}
    return found


@dataclass
class Questions:
    """Queries and documents by id, and the gains of relevant documents by query."""

    queries: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    gains: dict[str, dict[str, float]] = field(default_factory=dict)
    one_of: dict[str, str] = field(default_factory=dict)  # the first document of a family
    families: dict[str, str] = field(default_factory=dict)  # of queries


def _of_labels(collections: Collections) -> Questions:
    found = Questions()
    for row in collections.records(collections.documents):
        found.documents[row["record_id"]] = row["text"]
    for row in collections.labels():
        if row["label"] >= 1 and row["document"] in found.documents:
            found.gains.setdefault(row["query"], {})[row["document"]] = row["label"]
    for row in collections.records(collections.sources, collections.split):
        if row["record_id"] in found.gains:
            found.queries[row["record_id"]] = row["text"]
    return found


def _of_pools(
    database: Database,
    recipe: TripletRecipe | str | None,
    source: str | None,
    split: str,
    groups: Mapping[str, str],
    *,
    is_all: bool,
) -> Questions:
    """Return the anchors of a recipe that have a positive, and its distinct documents."""
    from duckplets.export.examples import SubjectReader
    from duckplets.export.formats import judge, judged_queries
    from duckplets.export.subject import pooled
    from duckplets.recipes.recipes import TripletRecipe, role

    anchor, context = role("anchor"), role("context")
    recipe = recipe or TripletRecipe("evaluation", anchor, context, context)
    first: dict[str, str] = {}  # the first document of each text
    same: dict[str, str] = {}  # the first document with the same text, by document
    of_family: dict[str, str] = {}
    found = Questions()
    subject = pooled(database, recipe, source=source, split=split, every=is_all)
    with SubjectReader.opened(database, subject) as reader:
        for document in reader.documents():
            name = same[document.id] = first.setdefault(document.text, document.id)
            family = groups.get(_record_of(document.id))
            if family is not None:
                found.one_of.setdefault(name, of_family.setdefault(family, name))
        judge(reader)
        for row in judged_queries(reader):
            query = reader.query_id(row)
            found.queries[query] = row["text"]
            names = [same[name] for name in row["relevant"]]
            found.gains[query] = {found.one_of.get(name, name): 1.0 for name in names}
    found.documents = {document: text for text, document in first.items()}
    return found


def _record_of(name: str) -> str:
    return name.rsplit("#", 1)[0]


def _class_of(base: Any) -> Any:
    """Return the evaluator's class; an extra installs its base."""

    class Evaluator(base):  # type: ignore[misc]
        one_of: Mapping[str, str]
        families: Mapping[str, str]
        gains: Mapping[str, Mapping[str, float]]
        results: Path | None
        _found: list[Any] | None = None

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            """Evaluate a model; see the base class."""
            self._found = None
            metrics = super().__call__(*arguments, **options)
            if self.results is not None and self._found is not None:
                _write(self.results, self, self._found)
            return metrics

        def compute_metrics(self, queries_result_list: list[Any]) -> Any:
            """Return the metrics of the found documents, with the best of each family."""
            found = [_once(hits, self.one_of) for hits in queries_result_list]
            self._found = self._found or found
            metrics = super().compute_metrics(found)
            for at in self.ndcg_at_k:
                gains = [self.gains[query] for query in self.queries_ids]
                values = [_ndcg(*each, at) for each in zip(found, gains, strict=True)]
                metrics["ndcg@k"][at] = float(np.mean(values))
            return metrics

    return Evaluator


def _once(hits: list[dict[str, Any]], one_of: Mapping[str, str]) -> list[dict[str, Any]]:
    ranked = sorted(hits, key=lambda hit: (-hit["score"], hit["corpus_id"]))
    best: dict[str, float] = {}
    for hit in ranked:
        best.setdefault(one_of.get(hit["corpus_id"], hit["corpus_id"]), hit["score"])
    return [{"corpus_id": name, "score": score} for name, score in best.items()]


def _ndcg(hits: Sequence[Mapping[str, Any]], gains: Mapping[str, float], at: int) -> float:
    """Return the discounted gain of the found documents as a fraction of the largest possible."""
    found = [gains.get(hit["corpus_id"], 0.0) for hit in hits[:at]]
    best = sorted(gains.values(), reverse=True)[:at]
    gain, most = (
        values @ (1 / np.log2(np.arange(len(values)) + 2))
        for values in map(np.array, (found, best))
    )
    return float(gain / most)


def _write(path: Path, made: Any, found: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    rows = []
    for query, hits in zip(made.queries_ids, found, strict=True):
        relevant = made.relevant_docs[query]
        at = [rank for rank, hit in enumerate(hits[:_AT]) if hit["corpus_id"] in relevant]
        values = (
            _ndcg(hits, made.gains[query], _AT),
            1 / (at[0] + 1) if at else 0.0,
            len(at) / len(relevant),
        )
        rows.append(
            {
                "query": query,
                "family": made.families[query],
                **dict(zip(METRICS, values, strict=True)),
            }
        )
    try:
        with written_aside(path) as file:
            file.write(json.dumps({"name": made.name, "queries": rows}).encode())
    except OSError as error:
        raise QualityError(f"{shown(path)} cannot be written: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Comparison(Reported):
    """The results of two models over the same queries.

    Attributes:
        queries: Queries of both.
        families: Families of queries.
        metrics: One row for each ``metric``: the means ``first`` and ``second``, their
            ``difference`` (second minus first), and its interval ``low`` to ``high``.
    """

    queries: int
    families: int
    metrics: list[dict[str, Any]]

    def __str__(self) -> str:
        columns = ["metric", "first", "second", "difference", "low", "high"]
        rows = [
            [row["metric"], *(f"{row[name]:.4f}" for name in columns[1:3])]
            + [f"{row[name]:+.4f}" for name in columns[3:]]
            for row in self.metrics
        ]
        return "\n".join(
            [*text_table(columns, rows), f"{self.queries:,} queries of {self.families:,} families"]
        )


def compare(first: str | Path, second: str | Path, *, confidence: float = 0.95) -> Comparison:
    """Compare two models by the results of their evaluators (``evaluator(results=FILE)``).

    Intervals are percentiles of 4,000 bootstrap samples of the paired differences, with a fixed
    seed. The bootstrap draws whole families of queries (Efron and Tibshirani, An Introduction to
    the Bootstrap, 1993, chapters 8 and 13).

    Args:
        first: Results of one model.
        second: Results of another model over the same queries.
        confidence: Share of the samples within an interval.

    Raises:
        QualityError: A file is missing or has no results, or the queries differ.
    """
    if not 0 < confidence < 1:
        raise QualityError(f"confidence={confidence}: give a share between 0 and 1, such as 0.95")
    (names, families, ours), (others, _, theirs) = _read(Path(first)), _read(Path(second))
    if lacking := {*names} ^ {*others}:
        one = shown(repr(min(lacking)))
        raise QualityError(
            f"{shown(first)} and {shown(second)} have different queries: {len(lacking):,} are in "
            f"one file only, such as {one}; evaluate both models over the same split, source and "
            f"version"
        )
    place = {name: at for at, name in enumerate(others)}
    theirs = theirs[[place[name] for name in names]]
    sampled = bootstrapped(theirs - ours, families)
    tail = (1 - confidence) / 2
    low, high = np.quantile(sampled, [tail, 1 - tail], axis=0)
    means = zip(ours.mean(axis=0).tolist(), theirs.mean(axis=0).tolist(), strict=True)
    rows = [
        {"metric": metric, "first": a, "second": b, "difference": b - a, "low": x, "high": y}
        for metric, (a, b), x, y in zip(METRICS, means, low.tolist(), high.tolist(), strict=True)
    ]
    return Comparison(len(names), len({*families}), rows)


def bootstrapped(differences: Any, families: Sequence[str]) -> Any:
    """Return means of bootstrap samples of rows, (draws, columns); each draw has whole families."""
    names, places = np.unique(np.array(families), return_inverse=True)
    count = len(names)
    totals = np.zeros((count, differences.shape[1]))
    np.add.at(totals, places, differences)
    sizes, draw = np.bincount(places), np.random.default_rng(0)
    sampled = []
    for _ in range(_DRAWS // _AT_ONCE):
        often = draw.multinomial(count, np.full(count, 1 / count), _AT_ONCE)
        sampled.append(often @ totals / (often @ sizes)[:, None])
    return np.concatenate(sampled)


def _read(path: Path) -> tuple[list[str], list[str], Any]:
    """Return the queries of a results file, their families, and metrics (queries, metrics)."""
    try:
        rows = from_json(path.read_text(encoding="utf-8"))["queries"]
        names, families = [str(row["query"]) for row in rows], [str(row["family"]) for row in rows]
        values = np.array([[float(row[name]) for name in METRICS] for row in rows])
        if len({*names}) == len(names) > 0 and np.isfinite(values).all():
            return names, families, values
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    except OSError as error:
        raise QualityError(f"{shown(path)} cannot be read: {error.strerror}") from error
    raise QualityError(
        f"{shown(path)} has no results of an evaluator: write them with "
        f"corpus.evaluator(split, results={shown(path)!r})"
    )
