"""Rank documents by a model, store the result of every query, and compare two models."""

# Equal texts are one document, and so is a family (``group_key``): only its best keeps its rank.
# Queries of one family are no independent evidence, so families are drawn as a whole.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    from duckplets.export import Documents
    from duckplets.recipes.recipes import TripletRecipe

_AT = 10
METRICS = (f"ndcg@{_AT}", f"mrr@{_AT}", f"recall@{_AT}")
_DRAWS, _AT_ONCE = 4_000, 100  # bootstrap samples, and how many are drawn together


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

    Its queries are the anchors of a split, equal texts once; relevant are the positives of all
    anchors of a query's text. It is what the export ``beir`` writes, held in memory, with equal
    documents once, and documents of one ``group_key`` counted as one.

    Args:
        split: Whose anchors.
        corpus: The documents: those of ``all`` splits, as in use, or those of the ``split``.
        recipe: Whose anchors, positives and negatives; by default sections of the role
            ``anchor`` and those of the role ``context``.
        source: Of this source only.
        results: A file that each evaluation replaces by nDCG, MRR and recall at 10 of every
            query, for ``duckplets.compare``; of several score functions those of the first.
        options: Of the evaluator, such as ``name``, ``batch_size`` or ``mrr_at_k``.

    Raises:
        ExtensionError: ``sentence_transformers`` is not installed.
        EmptyPoolError: No anchor of the split has a positive.
        QualityError: The folder of ``results`` is missing; later, they cannot be written.
    """
    if results is not None and not Path(results).parent.is_dir():
        raise QualityError(f"results={shown(results)!r}: there is no such folder; make it first")
    from duckplets.export import Documents
    from duckplets.export.examples import SubjectReader
    from duckplets.export.formats import judge, judged_queries
    from duckplets.export.subject import pooled
    from duckplets.recipes.recipes import TripletRecipe, role

    anchor, context = role("anchor"), role("context")
    recipe = recipe or TripletRecipe("evaluation", anchor, context, context)
    evaluation = imported("sentence_transformers.sentence_transformer.evaluation")
    groups: dict[str, str] = dict(corpus_of.database.run("export/groups"))
    first: dict[str, str] = {}  # document of each text
    same: dict[str, str] = {}  # of each document the first one with its text
    one_of: dict[str, str] = {}  # of each document the first one of its family
    of_family: dict[str, str] = {}
    queries: dict[str, str] = {}
    relevant: dict[str, set[str]] = {}
    is_all = checked("corpus", corpus, Documents, SamplerError) == "all"
    subject = pooled(corpus_of.database, recipe, source=source, split=split, every=is_all)
    with SubjectReader.opened(corpus_of.database, subject) as reader:
        for document in reader.documents():
            name = same[document.id] = first.setdefault(document.text, document.id)
            family = groups.get(_record_of(document.id))
            if family is not None:
                one_of.setdefault(name, of_family.setdefault(family, name))
        judge(reader)
        for row in judged_queries(reader):
            query = f"{row['record_id']}#{row['position']}"
            queries[query] = row["text"]
            relevant[query] = {one_of.get(same[name], same[name]) for name in row["relevant"]}
    if not queries:
        raise EmptyPoolError(f"split {split!r}: no anchor of it has a positive to be found")
    documents = {document: text for text, document in first.items()}
    families = {query: groups.get(_record_of(query), query) for query in queries}
    made = _class_of(evaluation.InformationRetrievalEvaluator)(
        queries, documents, relevant, **{"name": split, **options}
    )
    made.one_of, made.families = one_of, families
    made.results = None if results is None else Path(results)
    return made


def _record_of(name: str) -> str:
    return name.rsplit("#", 1)[0]


def _class_of(base: Any) -> Any:
    """Return the evaluator's class, whose base comes with an extra."""

    class Evaluator(base):  # type: ignore[misc]
        one_of: Mapping[str, str]
        families: Mapping[str, str]
        results: Path | None
        _found: list[Any] | None = None

        def __call__(self, *given: Any, **options: Any) -> Any:
            """Evaluate a model; see the class it comes from."""
            self._found = None
            metrics = super().__call__(*given, **options)
            if self.results is not None and self._found is not None:
                _write(self.results, self, self._found)
            return metrics

        def compute_metrics(self, queries_result_list: list[Any]) -> Any:
            """Return the metrics of the documents found, of each family the best."""
            found = [_once(hits, self.one_of) for hits in queries_result_list]
            self._found = self._found or found
            return super().compute_metrics(found)

    return Evaluator


def _once(hits: list[dict[str, Any]], one_of: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the documents found, best first, of each family one."""
    ranked = sorted(hits, key=lambda hit: (-hit["score"], hit["corpus_id"]))
    best: dict[str, float] = {}
    for hit in ranked:
        best.setdefault(one_of.get(hit["corpus_id"], hit["corpus_id"]), hit["score"])
    return [{"corpus_id": name, "score": score} for name, score in best.items()]


def _write(path: Path, made: Any, found: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    rows = []
    for query, hits in zip(made.queries_ids, found, strict=True):
        relevant = made.relevant_docs[query]
        at = [rank for rank, hit in enumerate(hits[:_AT]) if hit["corpus_id"] in relevant]
        most = np.log2(np.arange(min(len(relevant), _AT)) + 2)
        gain = float((1 / np.log2(np.array(at) + 2)).sum() / (1 / most).sum())
        values = gain, 1 / (at[0] + 1) if at else 0.0, len(at) / len(relevant)
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
        metrics: A row each: ``metric``, the means ``first`` and ``second``, their ``difference``
            (second less first), and its interval ``low`` to ``high``.
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
    """Compare two models by what an evaluator kept of them (``evaluator(results=FILE)``).

    Intervals are percentiles of 4,000 bootstrap samples of the paired differences, with a fixed
    seed; families of queries are drawn as a whole (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, chapters 8 and 13).

    Args:
        first: Results of one model.
        second: Results of another one, over the same queries.
        confidence: Share of the samples within an interval.

    Raises:
        QualityError: A file is missing or holds no results, or the queries differ.
    """
    if not 0 < confidence < 1:
        raise QualityError(f"confidence={confidence}: give a share between 0 and 1, such as 0.95")
    (names, families, ours), (others, _, theirs) = _read(Path(first)), _read(Path(second))
    if lacking := {*names} ^ {*others}:
        one = shown(repr(min(lacking)))
        raise QualityError(
            f"{shown(first)} and {shown(second)} are of different queries: {len(lacking):,} stand "
            f"in one of them only, such as {one}; evaluate both models over the same split, "
            f"source and version"
        )
    place = {name: at for at, name in enumerate(others)}
    theirs = theirs[[place[name] for name in names]]
    kinds, of = np.unique(np.array(families), return_inverse=True)
    differences = np.zeros((len(kinds), len(METRICS)))
    np.add.at(differences, of, theirs - ours)
    sizes, draw = np.bincount(of), np.random.default_rng(0)
    sampled = []
    for _ in range(_DRAWS // _AT_ONCE):
        often = draw.multinomial(len(kinds), np.full(len(kinds), 1 / len(kinds)), _AT_ONCE)
        sampled.append(often @ differences / (often @ sizes)[:, None])
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(sampled), [tail, 1 - tail], axis=0)
    means = zip(ours.mean(axis=0).tolist(), theirs.mean(axis=0).tolist(), strict=True)
    rows = [
        {"metric": metric, "first": a, "second": b, "difference": b - a, "low": x, "high": y}
        for metric, (a, b), x, y in zip(METRICS, means, low.tolist(), high.tolist(), strict=True)
    ]
    return Comparison(len(names), len(kinds), rows)


def _read(path: Path) -> tuple[list[str], list[str], Any]:
    """Return the queries of results, their families, and their metrics: (queries, metrics)."""
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
        f"{shown(path)} holds no results of an evaluator: write them with "
        f"corpus.evaluator(split, results={shown(path)!r})"
    )
