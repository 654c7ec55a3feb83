"""Write the files of each trainer's format, and BEIR's evaluation set.

- ``sentence-transformers``: exactly the columns of a loss, in order. Shapes and columns follow
  ``output_format`` and ``output_scores`` of its ``mine_hard_negatives``. With several positives,
  all shapes except labeled pairs repeat the negatives for each.
- ``flagembedding``: one query a line. With scores it suits ``--knowledge_distillation``. The
  recipe's instruction is the ``prompt``, which ``--query_instruction_for_retrieval`` reads.
- ``ms-swift``: one line for each positive, in user messages. ``messages`` are the recipe's
  instruction as a system message, and the anchor.
- ``tevatron``: ids, with a corpus. The key in ``corpus.jsonl`` is ``text``, as its code expects.
- ``pylate``: ids with scores for distillation (``KDProcessing``), queries and documents. Positives
  come first, with the lowest score of the anchor's positives.
- ``automodel``: questions with ids of documents, and a folder of documents. Its loader reads all
  files of this folder as one table, so the questions are outside.
- ``lighton``: ids with scores as for ``pylate``, and ``positive_ids``. A positive without a score
  is only in ``positive_ids``.
- ``beir``: documents, queries and relevance labels; needs no mining. Queries are the recipe's
  anchors in a held-out split. Documents are its possible negatives and its positives. Anchors with
  equal text are one query, with all their positives. Collections have their own documents, queries
  and labels.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from duckplets.db.queries import query
from duckplets.engine.work import Work
from duckplets.errors import SamplerError
from duckplets.export.collection import Collections, titled
from duckplets.export.examples import (
    Document,
    Example,
    ExportRequest,
    ExportTally,
    SubjectReader,
    fit,
)
from duckplets.export.files import ExportPlace, Row, json_line, json_lines, parquet, text_file
from duckplets.export.fill import fill
from duckplets.ingest.splits import need_splits

Rows = Iterator[Row]

_REPORTED = 1000  # anchors between two progress calls
_TRAIN, _CORPUS, _QUERIES = "train.jsonl", "corpus.jsonl", "queries.jsonl"
_DOCUMENTS, _SCORES = "documents.jsonl", "scores.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportFormat:
    """A format."""

    place: ExportPlace
    scored: bool = False  # whether it can have scores
    mined: bool = True  # whether it consists of mined negatives
    write: Callable[[SubjectReader, ExportRequest, Path, Work], ExportTally]


def _write_rows(
    rows: Callable[[Example, ExportRequest], Rows],
    reader: SubjectReader,
    request: ExportRequest,
    path: Path,
    work: Work,
    put: Callable[[Path, Rows], None] = json_lines,
) -> ExportTally:
    request, tally, anchors = _complete(reader, request), ExportTally(), reader.anchors.num_rows

    def written() -> Rows:
        for done, example in enumerate(reader.examples(request.negatives), 1):
            fitted = fit(example, request, tally)
            for row in () if fitted is None else rows(fitted, request):
                yield row
                tally.rows += 1
            if done % _REPORTED == 0 or done == anchors:
                work.tell(done, anchors)

    if path.suffix.lower() == ".parquet":
        parquet(path, written(), _schema(request))
    else:
        put(path, written())
    return tally


def _complete(reader: SubjectReader, request: ExportRequest) -> ExportRequest:
    """Return the request with an exact number of negatives, if it excludes or fills anchors."""
    if request.when_short not in ("drop", "random"):
        return request
    negatives = request.negatives or reader.most_negatives()
    if request.when_short == "random":
        fill(reader.database, reader.subject, negatives)
    return replace(request, negatives=negatives, exactly=True)


def _ways(example: Example) -> list[str]:
    return ["random" if score is None else "mined" for score in example.scores]


# -- sentence-transformers ----------------------------------------------------------------------


def _sentence_transformers(
    reader: SubjectReader, request: ExportRequest, path: Path, work: Work
) -> ExportTally:
    if request.shape == "n-tuple":
        most = reader.most_negatives() if request.negatives is None else request.negatives
        request = replace(request, negatives=most, exactly=True)
    return _write_rows(_named, reader, request, path, work)


@lru_cache(maxsize=1)
def _schema(request: ExportRequest) -> pa.Schema:
    text, scores = pa.string(), pa.list_(pa.float64())
    if request.shape == "labeled-pair":
        last = ("score", pa.float64()) if request.scores else ("label", pa.int64())
        return pa.schema([("anchor", text), ("document", text), last])
    if request.shape == "labeled-list":
        last = ("scores", scores) if request.scores else ("labels", pa.list_(pa.int64()))
        return pa.schema([("anchor", text), ("documents", pa.list_(text)), last])
    names = [] if request.pairs else ["negative"]
    if request.shape == "n-tuple":
        names = [f"negative_{n}" for n in range(1, (request.negatives or 0) + 1)]
    columns = [("anchor", text), ("positive", text), *((name, text) for name in names)]
    return pa.schema([*columns, ("scores", scores)] if request.scores else columns)


def _named(example: Example, request: ExportRequest) -> Rows:
    names = _schema(request).names
    shape = "n-tuple" if request.pairs and request.shape == "triplet" else request.shape
    for values in _VALUES[shape](example, request.scores):
        yield dict(zip(names, values, strict=True))


def _triplets(example: Example, scores: bool) -> Iterator[list[Any]]:
    for positive in example.positives:
        for negative, score in zip(example.negatives, example.scores, strict=True):
            last = [[example.positive_score, score]] if scores else []
            yield [example.text, positive.text, negative.text, *last]


def _tuples(example: Example, scores: bool) -> Iterator[list[Any]]:
    last = [[example.positive_score, *example.scores]] if scores else []
    for positive in example.positives:
        yield [example.text, positive.text, *(n.text for n in example.negatives), *last]


def _pairs(example: Example, scores: bool) -> Iterator[list[Any]]:
    for positive in example.positives:
        yield [example.text, positive.text, example.positive_score if scores else 1]
    for negative, score in zip(example.negatives, example.scores, strict=True):
        yield [example.text, negative.text, score if scores else 0]


def _lists(example: Example, scores: bool) -> Iterator[list[Any]]:
    last = [example.positive_score, *example.scores] if scores else [1, *[0] * len(example.scores)]
    for positive in example.positives:
        yield [example.text, [positive.text, *(n.text for n in example.negatives)], last]


_VALUES = {
    "triplet": _triplets,
    "n-tuple": _tuples,
    "labeled-pair": _pairs,
    "labeled-list": _lists,
}

# -- FlagEmbedding ------------------------------------------------------------------------------


def _query_lines(example: Example, request: ExportRequest) -> Rows:
    row: dict[str, Any] = {
        "query": example.text,
        "pos": [document.text for document in example.positives],
        "neg": [document.text for document in example.negatives],
    }
    if request.scores:
        row["pos_scores"] = [example.positive_score] * len(example.positives)
        row["neg_scores"] = example.scores
    if request.when_short == "random":
        row["neg_by"] = _ways(example)
    if request.instruction is not None:
        row["prompt"] = request.instruction
    yield row


# -- ms-swift -----------------------------------------------------------------------------------


def _messages(example: Example, request: ExportRequest) -> Rows:
    def message(text: str, role: str = "user") -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    system = [] if request.instruction is None else message(request.instruction, "system")
    for positive in example.positives:
        yield {
            "messages": [*system, *message(example.text)],
            "positive_messages": [message(positive.text)],
            "negative_messages": [message(document.text) for document in example.negatives],
        }


# -- Tevatron -----------------------------------------------------------------------------------


def _tevatron(reader: SubjectReader, request: ExportRequest, path: Path, work: Work) -> ExportTally:
    tally = _write_rows(_document_ids, reader, request, path / _TRAIN, work)
    documents = (
        {"docid": each.id, **_titled(each, reader.collection is not None)}
        for each in reader.documents()
    )
    json_lines(path / _CORPUS, documents)
    return tally


def _titled(document: Document, has_title: bool) -> Row:
    if not has_title:
        return {"text": document.text}
    return dict(zip(("title", "text"), titled(document.title, document.text), strict=True))


def _document_ids(example: Example, request: ExportRequest) -> Rows:
    row = {
        "query_id": example.id,
        "query_text": example.text,
        "positive_document_ids": [document.id for document in example.positives],
        "negative_document_ids": [document.id for document in example.negatives],
    }
    yield row | ({"negative_by": _ways(example)} if request.when_short == "random" else {})


# -- NeMo Automodel -----------------------------------------------------------------------------


def _automodel(
    reader: SubjectReader, request: ExportRequest, path: Path, work: Work
) -> ExportTally:
    name = reader.sources[0] if reader.collection else "corpus"

    def question(example: Example, _: ExportRequest) -> Rows:
        yield {
            "question_id": example.id,
            "question": example.text,
            "corpus_id": name,
            "pos_doc": [{"id": document.id} for document in example.positives],
            "neg_doc": [{"id": document.id} for document in example.negatives],
        }

    def put(file: Path, rows: Rows) -> None:
        with text_file(file) as stream:
            stream.write('{"corpus": [{"path": "corpus"}], "data": [')
            for number, row in enumerate(rows):
                stream.write((",\n" if number else "\n") + json_line(row).rstrip("\n"))
            stream.write("\n]}\n")

    tally = _write_rows(question, reader, request, path / "train.json", work, put)
    folder = path / "corpus"
    folder.mkdir()
    json_lines(folder / "merlin_metadata.json", [{"class": "TextQADataset", "corpus_id": name}])
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    documents = ({"id": each.id, "text": each.text} for each in reader.documents())
    parquet(folder / "train.parquet", documents, schema)
    return tally


# -- PyLate and LightOn -------------------------------------------------------------------------


def _lighton(reader: SubjectReader, request: ExportRequest, path: Path, work: Work) -> ExportTally:
    with text_file(path / _QUERIES) as queries:

        def scored(example: Example, _: ExportRequest) -> Rows:
            queries.write(json_line({"query_id": example.id, "query": example.text}))
            found = [*zip(example.negatives, example.scores, strict=True)]
            if (of_positives := example.positive_score) is not None:
                found = [*((each, of_positives) for each in example.positives), *found]
            yield {
                "query_id": example.id,
                "document_ids": [document.id for document, _ in found],
                "scores": [score for _, score in found],
                "positive_ids": [document.id for document in example.positives],
            }

        tally = _write_rows(scored, reader, request, path / _SCORES, work)
    documents = ({"document_id": each.id, "document": each.text} for each in reader.documents())
    json_lines(path / _DOCUMENTS, documents)
    return tally


def _pylate(reader: SubjectReader, request: ExportRequest, path: Path, work: Work) -> ExportTally:
    with text_file(path / _QUERIES) as queries:

        def scored(example: Example, _: ExportRequest) -> Rows:
            queries.write(json_line({"query_id": example.id, "text": example.text}))
            documents = [*example.positives, *example.negatives]
            own = [example.positive_score] * len(example.positives)
            yield {
                "query_id": example.id,
                "document_ids": [document.id for document in documents],
                "scores": [*own, *example.scores],
            }

        tally = _write_rows(scored, reader, replace(request, scores=True), path / _TRAIN, work)
    documents = ({"document_id": each.id, "text": each.text} for each in reader.documents())
    json_lines(path / _DOCUMENTS, documents)
    return tally


# -- BEIR ---------------------------------------------------------------------------------------


def write_collection(found: Collections, path: Path, work: Work) -> ExportTally:
    """Write all documents, the queries, and ``qrels`` of each split."""
    tally, queries = ExportTally(), set[str]()
    json_lines(path / _CORPUS, _collection_documents(found))
    json_lines(path / _QUERIES, _collection_queries(found))
    (path / "qrels").mkdir()
    with ExitStack() as files:
        judgements = dict[str, Any]()
        for done, row in enumerate(found.labels(), 1):
            split, label = row["split"], row["label"]
            if split is None:
                need_splits(found.database)
            if split not in judgements:
                file = files.enter_context(_qrels(path, split).open("w", encoding="utf-8"))
                judgements[split] = _judgement_writer(file)
            ids = [_beir_id(found.id(row[name])) for name in ("query", "document")]
            judgements[split].writerow((*ids, int(label) if label.is_integer() else label))
            queries.add(row["query"])
            tally.rows = done
            if done % _REPORTED == 0:
                work.tell(done)
    tally.anchors = len(queries)
    return tally


def _qrels(path: Path, split: str) -> Path:
    return path / "qrels" / f"{split}.tsv"


def _judgement_writer(file: TextIO) -> Any:
    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
    writer.writerow(("query-id", "corpus-id", "score"))
    return writer


def _collection_documents(found: Collections) -> Rows:
    for row in found.records(found.documents):
        title, text = titled(row["meta"].pop("title", None), row["text"])
        yield {
            "_id": _beir_id(found.id(row["record_id"])),
            "title": title,
            "text": text,
            **({"metadata": row["meta"]} if row["meta"] else {}),
        }


def _collection_queries(found: Collections) -> Rows:
    for row in found.records(found.sources, found.split):
        prompt = row["meta"].pop("instruction", None)
        yield {
            "_id": _beir_id(found.id(row["record_id"])),
            "text": row["text"],
            **({} if prompt is None else {"prompt": prompt}),
            **({"metadata": row["meta"]} if row["meta"] else {}),
        }


def _beir(reader: SubjectReader, request: ExportRequest, path: Path, work: Work) -> ExportTally:
    """Write a folder with documents, queries and ``qrels`` named after the split."""
    anchors, count, judged = judge(reader)
    tally = ExportTally(anchors=judged)
    tally.left_out.update({"no positive": count - judged, "repeated question": anchors - count})
    documents = reader.documents()
    rows = ({"_id": _beir_id(each.id), "title": "", "text": each.text} for each in documents)
    json_lines(path / _CORPUS, rows)
    judgements = _qrels(path, reader.subject.split)
    judgements.parent.mkdir()
    with judgements.open("w", encoding="utf-8") as stream:
        writer = _judgement_writer(stream)

        def queries() -> Rows:
            for done, row in enumerate(judged_queries(reader), 1):
                query_id = _beir_id(reader.query_id(row))
                writer.writerows((query_id, _beir_id(name), 1) for name in row["relevant"])
                tally.rows += len(row["relevant"])
                work.tell(done, judged)
                yield {"_id": query_id, "text": row["text"]}

        json_lines(path / _QUERIES, queries())
    return tally


def judge(reader: SubjectReader) -> tuple[int, int, int]:
    """Store the relevant documents; return the anchors, queries, and queries with a positive."""
    recipe, own = reader.subject.recipe, reader.subject.pools[0].own_positive
    same = {"own": own, "same": recipe.allow_same_anchor_positive}
    reader.run_with("export/judgements", "anchors", ["chunk_key"], same)
    anchors, queries, judged = reader.database.run("export/query_counts")[0]
    return anchors, queries, judged


def judged_queries(reader: SubjectReader) -> Iterator[dict[str, Any]]:
    """Yield the queries with relevant documents, and the ids of these."""
    for batch in reader.database.stream(query("export/judged_queries"), rows=4096):
        for row in batch.to_pylist():
            yield row | {"relevant": [*map(reader.document_id, row["relevant"])]}


def _beir_id(name: str) -> str:
    """Return an id for tab-separated values, or refuse it."""
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise SamplerError(
            f"record {name!r}: format='beir' writes ids to tab-separated files, so control "
            f"characters are not allowed; give this record another id"
        )
    return name


FORMS: dict[str, ExportFormat] = {
    "sentence-transformers": ExportFormat(
        place=ExportPlace(suffixes=(".parquet", ".jsonl")),
        scored=True,
        write=_sentence_transformers,
    ),
    "flagembedding": ExportFormat(
        place=ExportPlace(suffixes=(".jsonl", ".json")),
        scored=True,
        write=partial(_write_rows, _query_lines),
    ),
    "ms-swift": ExportFormat(
        place=ExportPlace(suffixes=(".jsonl",)), write=partial(_write_rows, _messages)
    ),
    "tevatron": ExportFormat(place=ExportPlace(files=(_TRAIN, _CORPUS)), write=_tevatron),
    "pylate": ExportFormat(
        place=ExportPlace(files=(_TRAIN, _QUERIES, _DOCUMENTS)), scored=True, write=_pylate
    ),
    "automodel": ExportFormat(
        place=ExportPlace(files=("train.json", "corpus/*")), write=_automodel
    ),
    "lighton": ExportFormat(
        place=ExportPlace(files=(_SCORES, _QUERIES, _DOCUMENTS)), scored=True, write=_lighton
    ),
    "beir": ExportFormat(
        place=ExportPlace(files=(_CORPUS, _QUERIES, "qrels/*.tsv")), mined=False, write=_beir
    ),
}
