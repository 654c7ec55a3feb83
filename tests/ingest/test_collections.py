"""Collections: every layout gives the same documents, queries and labels, whole or not at all."""

import itertools
import json
import random
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_kills
from effort import often, some, thorough
from hub_data import jsonl, parquet, point_to
from hub_server import Hub
from killed_intakes import assert_kills_change_nothing, dying, nursery

import duckplets as dp
from duckplets.ingest import collection as collections
from duckplets.ingest import ingest
from duckplets.ingest.collection import _Publishing
from duckplets.sources import row_batches

Pairs = dict[tuple[str, str], float]


@dataclass
class Plain:
    """A collection in plain Python: texts by id, labels and candidates by both ids."""

    documents: dict[str, tuple[str, str]] = field(default_factory=dict)  # title, text
    queries: dict[str, str] = field(default_factory=dict)
    labels: Pairs = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)  # of queries

    def texts(self):
        """Return the documents as they are stored."""
        return {
            key: f"{title} {text}" if title else text
            for key, (title, text) in self.documents.items()
        }

    def by_text(self):
        """Return the labels by both texts."""
        texts = self.texts()
        return {(self.queries[q], texts[d]): label for (q, d), label in self.labels.items()}

    def of_query(self, query):
        return {d: label for (q, d), label in self.labels.items() if q == query}


def made(seed, *, titles=True, graded=True):
    """Return a random collection in which every query has a positive."""
    draw = random.Random(seed)
    plain = Plain()
    for number in draw.sample(range(100), 12):
        title = f"Title {number}" if titles and draw.random() < 0.5 else ""
        plain.documents[str(number)] = title, f'text of "{number}" – é'
    for number in draw.sample(range(100), 6):
        plain.queries[str(number)] = f"what is {number}"
        plain.splits[str(number)] = draw.choice(["train", "dev", "test"])
        for at, document in enumerate(draw.sample([*plain.documents], draw.randint(1, 3))):
            label = draw.choice([0, 1, 2, 3]) if graded and at else 1
            plain.labels[str(number), document] = float(label)
    return plain


def shuffled(rows, draw):
    """Return rows whose columns are in another order."""
    names = [*dict.fromkeys(name for row in rows for name in row)]
    draw.shuffle(names)
    return [{name: row[name] for name in names if name in row} for row in rows]


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsonl(rows))
    return path


def tsv(path, rows, header=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = "\t".join(rows[0]) + "\n" if header and rows else ""
    path.write_text(head + "".join("\t".join(map(str, row.values())) + "\n" for row in rows))
    return path


def documents(plain, key="_id", text="text"):
    return [{key: k, "title": title, text: of} for k, (title, of) in plain.documents.items()]


def queries(plain, key="_id", text="text"):
    return [{key: k, text: of} for k, of in plain.queries.items()]


def grades(plain, names, split=None):
    return [
        dict(zip(names, (q, d, int(label)), strict=True))
        for (q, d), label in plain.labels.items()
        if split in (None, plain.splits[q])
    ]


def beir(folder, plain, draw):
    lines(folder / "corpus.jsonl", shuffled(documents(plain), draw))
    lines(folder / "queries.jsonl", shuffled(queries(plain), draw))
    names = "query-id", "corpus-id", "score"
    for split in set(plain.splits.values()):
        tsv(folder / "qrels" / f"{split}.tsv", shuffled(grades(plain, names, split), draw))
    return folder


def ms_marco(folder, plain, draw):
    rows = [{"pid": k, "passage": text} for k, text in plain.texts().items()]
    trec = [[q, "0", d, str(int(label))] for (q, d), label in plain.labels.items()]
    of = {split: folder / f"{split}.trec" for split in set(plain.splits.values())}
    sign = draw.choice(" \t")
    for split, path in of.items():
        path.write_text("".join(sign.join(r) + "\n" for r in trec if plain.splits[r[0]] == split))
    return dp.Collection(
        documents=tsv(folder / "collection.tsv", rows, header=False),
        queries=tsv(folder / "queries.tsv", queries(plain), header=False),
        qrels=of,
    )


def ir_datasets(folder, plain, draw):
    names = "query_id", "doc_id", "relevance"
    return dp.Collection(
        documents=shuffled(documents(plain, "doc_id"), draw),
        queries=pa.Table.from_pylist(shuffled(queries(plain, "query_id"), draw)),
        qrels=[row | {"iteration": 0} for row in shuffled(grades(plain, names), draw)],
    )


def light_on(folder, plain, draw):
    rows = []
    for q in plain.queries:
        positives, others = [*plain.of_query(q)], draw.sample([*plain.documents], 5)
        scores = [draw.random() for _ in others]
        rows.append(
            {"query_id": q, "document_ids": others, "scores": scores, "positive_ids": positives}
        )
    pq.write_table(pa.Table.from_pylist(shuffled(rows, draw)), folder / "scores.parquet")
    return dp.Collection(
        documents=pa.Table.from_pylist(documents(plain, "document_id", "document")),
        queries=pd.DataFrame(queries(plain, "query_id", "query")),
        qrels=folder / "scores.parquet",
    )


def graded_lists(folder, plain, draw):
    rows = [
        {"query_id": int(q), "doc_ids": [*map(int, of)], "labels": [*of.values()]}
        for q in plain.queries
        if (of := plain.of_query(q))
    ]
    return dp.Collection(
        documents=documents(plain, "passage_id", "passage"),
        queries=queries(plain, "query_id", "query"),
        qrels=lines(folder / "lists.jsonl", shuffled(rows, draw)),
    )


def triplets(folder, plain, draw):
    rows = [
        {"query_id": q, "positive_id": d, "negative_id": draw.choice([*plain.documents])}
        for q, d in plain.labels
    ]
    return dp.Collection(
        documents=documents(plain, "passage_id", "passage"),
        queries=queries(plain, "query_id", "query"),
        qrels={"train": shuffled(rows, draw)},
    )


def tevatron_2(folder, plain, draw):
    rows = [
        {
            "query_id": q,
            "query_text": text,
            "positive_document_ids": [*plain.of_query(q)],
            "negative_document_ids": draw.sample([*plain.documents], 3),
        }
        for q, text in plain.queries.items()
    ]
    return dp.Collection(
        documents=lines(folder / "corpus.jsonl", documents(plain, "docid")),
        queries=lines(folder / "train.jsonl", shuffled(rows, draw)),
    )


def tevatron_1(folder, plain, draw):
    passages = {row["docid"]: row for row in documents(plain, "docid")}
    rows = [
        {
            "query_id": q,
            "query": text,
            "positive_passages": [passages[d] for d in plain.of_query(q)],
            "negative_passages": [*passages.values()],
        }
        for q, text in plain.queries.items()
    ]
    return dp.Collection({"train": lines(folder / "train.jsonl", shuffled(rows, draw))})


def automodel(folder, plain, draw):
    (folder / "wiki").mkdir()
    meta = {"class": "TextQADataset", "corpus_id": "wiki"}
    (folder / "wiki" / "merlin_metadata.json").write_text(json.dumps(meta))
    rows = [{"id": k, "text": text} for k, text in plain.texts().items()]
    pq.write_table(pa.Table.from_pylist(rows), folder / "wiki" / "train.parquet")
    data = [
        {
            "question_id": q,
            "question": text,
            "corpus_id": "wiki",
            "pos_doc": [{"id": d} for d in plain.of_query(q)],
            "neg_doc": draw.sample([*plain.documents], 2),
        }
        for q, text in plain.queries.items()
    ]
    whole = {"corpus": [{"path": "wiki"}], "data": shuffled(data, draw)}
    (folder / "train.json").write_text(json.dumps(whole))
    return folder / "train.json"


def inline(folder, plain, draw):
    texts = plain.texts()
    rows = [
        {
            "question": text,
            "pos_doc": draw.choice([lambda of: of, lambda of: [{"text": t} for t in of]])(
                [texts[d] for d in plain.of_query(q)]
            ),
            "neg_doc": [*texts.values()],
        }
        for q, text in plain.queries.items()
    ]
    return dp.Collection(shuffled(rows, draw))


def flag_embedding(folder, plain, draw):
    texts = plain.texts()
    rows = [
        {
            "query": text,
            "pos": [texts[d] for d in plain.of_query(q)],
            "neg": [*texts.values()],
            "pos_scores": [0.9] * len(plain.of_query(q)),
            "neg_scores": [draw.random() for _ in texts],
            "prompt": "Represent this",
        }
        for q, text in plain.queries.items()
    ]
    return dp.Collection(lines(folder / "rows.jsonl", shuffled(rows, draw)))


FULL = (beir, ms_marco, ir_datasets, graded_lists)  # which have grades
OTHERS = (light_on, triplets, tevatron_2, tevatron_1, automodel, inline, flag_embedding)
WITHOUT_IDS = (inline, flag_embedding)


def records(corpus, name):
    """Return the text of every live record of a source by its id."""
    rows = corpus.database.rows(
        "SELECT record_id, text FROM live_records JOIN sections USING (record_key) "
        "WHERE source = $name",
        {"name": name},
    )
    return {key.removeprefix(f"{name}/"): text for key, text in rows}


def labels(corpus, name):
    """Return the labels that hold of a collection by the ids of both."""
    asked = """
        WITH ids AS (
            SELECT id_hash AS hash, record_id AS id FROM records
            UNION SELECT hash, id FROM _internal.label_ids
        )
        SELECT a.id, d.id, arg_max_null(label, added_version)
        FROM labels JOIN ids AS a ON a.hash = anchor JOIN ids AS d ON d.hash = document
        WHERE starts_with(a.id, $name || '/') GROUP BY ALL
    """
    return {
        (q.split("/", 1)[1], d.split("/", 1)[1]): label
        for q, d, label in corpus.database.rows(asked, {"name": name})
        if label is not None
    }


@pytest.fixture
def corpus(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus


def check(corpus, name, plain, *, has_ids=True):
    found, asked = records(corpus, f"{name}.documents"), records(corpus, name)
    said = labels(corpus, name)
    assert {(asked[q], found[d]): label for (q, d), label in said.items()} == plain.by_text()
    if has_ids:
        assert (found, asked, said) == (plain.texts(), plain.queries, plain.labels)
    else:
        assert sorted(found.values()) == sorted(plain.texts().values())
        assert sorted(asked.values()) == sorted(plain.queries.values())


@pytest.mark.parametrize("seed", range(often(20, less=1)))
def test_every_layout_gives_the_same_collection(corpus, tmp_path, seed):
    draw = random.Random(seed)
    for layouts, is_full in ((FULL, True), (OTHERS, False)):
        for layout in layouts:
            plain = made(seed, titles=layout is not ms_marco, graded=is_full)
            folder = tmp_path / layout.__name__
            folder.mkdir()
            report = corpus.ingest(layout(folder, plain, draw), name=layout.__name__)
            assert report.labels.added == len(plain.labels)
            assert report.read == report.added + report.skipped + report.failed
            check(corpus, layout.__name__, plain, has_ids=layout not in WITHOUT_IDS)


def test_a_data_set_of_mteb_is_read_at_one_revision(corpus, tmp_path, monkeypatch):
    plain = made(1)
    for q, split in zip(plain.splits, itertools.cycle(["dev", "test"])):
        plain.splits[q] = split
    configs = [
        {"config_name": "corpus", "data_files": [{"split": "corpus", "path": "corpus/c.parquet"}]},
        {"config_name": "queries", "data_files": [{"split": "queries", "path": "queries.jsonl"}]},
        {
            "config_name": "default",
            "data_files": [{"split": s, "path": f"qrels/{s}.jsonl"} for s in ("dev", "test")],
        },
    ]
    files = {
        "README.md": f"---\nconfigs: {json.dumps(configs)}\n---\n".encode(),
        "corpus/c.parquet": parquet(documents(plain, "id")),
        "queries.jsonl": jsonl(queries(plain)),
    }
    names = "query-id", "corpus-id", "score"
    files |= {f"qrels/{s}.jsonl": jsonl(grades(plain, names, s)) for s in ("dev", "test")}
    with Hub() as hub:
        point_to(hub, monkeypatch, tmp_path)
        hub.add("mteb/few", files)
        report = corpus.ingest("hf://mteb/few")
        corpus.ingest("hf://mteb/few/queries text=text id=_id", name="alone")  # one source
    check(corpus, "mteb--few", plain)
    assert [*report.by_split] == ["validation", "test"]


BEIR = {
    "corpus.jsonl": [{"_id": str(i), "title": "", "text": f"text {i}"} for i in range(6)],
    "queries.jsonl": [{"_id": f"q{i}", "text": f"query {i}"} for i in range(4)],
    "qrels/train.tsv": [("q0", 0, 1), ("q0", 1, 0), ("q1", 1, 2)],
    "qrels/test.tsv": [("q2", 3, 1)],
}


def folder_of(path, **others):
    """Write a BEIR folder; files are named without suffix, None leaves one out."""
    named = {name.replace("__", "/"): rows for name, rows in others.items()}
    files = {name: named.pop(name.split(".")[0], rows) for name, rows in BEIR.items()}
    for name, rows in (files | {f"{name}.tsv": rows for name, rows in named.items()}).items():
        if rows is None:
            (path / name).unlink(missing_ok=True)
        elif name.startswith("qrels"):
            columns = "query-id", "corpus-id", "score"
            tsv(path / name, [dict(zip(columns, row, strict=True)) for row in rows])
        else:
            lines(path / name, rows)
    return path


def counts(report, *names):
    return {name: getattr(report, name) for name in names}


def test_labels_without_a_record_are_stored_and_counted_with_their_places(corpus, tmp_path):
    train = [
        ("q0", 0, 1),
        ("zz", 0, 1),
        ("q1", "nn", 2),
        ("q0", 0, 1),
        ("q1", 2, "much"),
        ("q3", "x", 1),
    ]
    blank = {"_id": "x", "title": " ", "text": ""}
    folder = folder_of(tmp_path / "c", corpus=[*BEIR["corpus.jsonl"], blank], qrels__train=train)
    report = corpus.ingest(folder)
    assert report.documents.reasons == {"document without text": 1}
    assert counts(report.labels, "read", "added", "skipped", "failed") == {
        "read": 7,
        "added": 5,
        "skipped": 1,
        "failed": 1,
    }
    assert report.labels.reasons == {"unreadable label": 1, "repeated": 1}
    assert report.labels.incomplete == {
        "document without text": 1,
        "unknown document": 1,
        "unknown query": 1,
    }
    (first,) = report.labels.examples["unknown document"]
    assert (first["line"], first["value"]) == (4, "nn")
    assert report.labels.examples["unreadable label"][0]["line"] == 6
    assert report.by_label == {"2": 1, "1": 4}
    assert (report.labelled, report.unlabelled) == (2, 4)
    assert labels(corpus, "c")["q1", "nn"] == 2  # it waits for its document
    more = [*BEIR["corpus.jsonl"], {"_id": "nn", "title": "", "text": "n"}]
    again = corpus.ingest(folder_of(folder, corpus=more, qrels__train=train))
    assert again.labels.incomplete == {"unknown document": 1, "unknown query": 1}
    assert again.labels.added == 0


ODD = [
    {"query-id": 1, "corpus-id": "0", "score": 1},
    {"query-id": "q1", "corpus-id": 1, "score": "2"},
    {"query-id": "q1", "corpus-id": "2", "score": "1e0"},
    {"query-id": "q1", "corpus-id": " 3", "score": " 2 "},
    {"query-id": "q1", "corpus-id": "  ", "score": 1},
    {"query-id": None, "corpus-id": "4", "score": 1},
    {"query-id": "q2", "corpus-id": "4", "score": float("nan")},
    {"query-id": "q2", "corpus-id": "4", "score": "inf"},
    {"query-id": "q2", "corpus-id": "4", "score": 2**70},
    {"query-id": "q3", "corpus-id": "\ud800", "score": True},
    {"query-id": "q3", "corpus-id": "5", "score": 0.25, "query_id": "q3"},
    {"corpus-id": "5", "score": 1, "qid": "q0"},
]


def test_labels_in_columns_are_those_of_rows(corpus, monkeypatch):
    found = []

    def store(waiting, kind):
        found.append((kind, pa.concat_tables(waiting._tables.pop(kind)).to_pylist()))

    monkeypatch.setattr(collections._Waiting, "_store", store)

    def taken(rows):
        found.clear()
        parts = dp.Collection(queries=[{"query": "a"}], documents="d", qrels=rows)
        parts = parts.parts(dp.sources.Limits(), {"d"})
        publishing = _Publishing(corpus.database, "c", parts, {"d": 1}, "replace")
        publishing.read_labels(dp.sources.Limits(), "skip")
        return [*found], publishing._counts

    cases = [[row] for row in ODD] + [ODD, [ODD[0]] * 2 + ODD[1:4]]
    columns = [taken(rows) for rows in cases]
    monkeypatch.setattr(collections, "_columns", lambda *_: None)
    for rows, in_columns in zip(cases, columns, strict=True):
        assert taken(rows) == in_columns, rows


def test_rows_of_labels_that_name_no_label_are_quarantined_with_their_line(corpus, tmp_path):
    folder = folder_of(tmp_path / "c")
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.write("q1\t2\tmuch\nq1\t\t1\nq1\t3\n")
    report = corpus.ingest(folder, on_error="quarantine")
    assert (report.labels.failed, report.labels.added) == (3, 4)
    rows = corpus.sql(
        'SELECT source, version, reason, document, line FROM quarantine ORDER BY "row"'
    )
    found = rows.to_pylist()
    assert {(row["source"], row["version"]) for row in found} == {("c", corpus.version)}
    assert [row["line"] for row in found] == [5, 6, 7]
    assert [row["reason"].split(":")[0] for row in found] == [
        "unreadable label",
        "invalid row",
        "ragged row",
    ]
    assert "much" in found[0]["document"]
    assert "much" in found[0]["reason"]


WRONG = [
    ({"queries": None}, "corpus.jsonl exists and queries.jsonl does not; a BEIR folder has both"),
    (
        {"qrels__eval": [("q0", 1, 1)]},
        "qrels/eval.tsv: 'eval' is no split; say which it is: splits=",
    ),
    (
        {"qrels__train": [("q0", "D1", 1)], "qrels__test": None},
        "names a document; its first is 'D1'",
    ),
    ({"qrels__train": [("Q", 1, 1)], "qrels__test": None}, "names a query; its first is 'Q'"),
    (
        {"qrels__train": [("q0", 1, 1), ("q0", 1, 2)]},
        "'q0' and document '1' have the labels 1 in .*line 2 and 2 in .*line 3; on_conflict=",
    ),
    ({"corpus": [{"id": 1, "body": "x"}]}, "no documents: give an id .* its columns are: body, id"),
    ({"corpus": [{"_id": 1, "text": " "}]}, "none of the 1 row of source 'c.documents' can be a"),
]


@pytest.mark.parametrize(("files", "said"), WRONG)
def test_a_wrong_folder_is_refused_and_nothing_is_stored(corpus, tmp_path, files, said):
    folder = tmp_path / "c"
    folder_of(folder)
    folder_of(folder, **files)
    with pytest.raises((dp.SourceError, dp.errors.SplitError), match=said) as error:
        corpus.ingest(folder)
    assert len(str(error.value).replace(str(tmp_path), "")) <= 240
    corpus.ingest([{"id": 1, "t": "x"}], text="t", name="other", id="id")  # the file is writable
    assert corpus.sources()["name"].to_pylist() == ["other"]


def test_what_else_a_collection_refuses(corpus, tmp_path):
    folder = folder_of(tmp_path / "c")
    rows = [{"query": "a", "pos": ["b"]}]
    for wrong, said in (
        (lambda: dp.Collection(), "give rows, or queries="),
        (lambda: dp.Collection(rows, splits={"eval": "later"}), "give train, validation or test"),
        (lambda: corpus.ingest(dp.Collection(rows), text="pos"), "text= is not for a collection"),
        (lambda: corpus.ingest(folder, quality="c4"), "a collection is read without quality="),
        (lambda: corpus.ingest(dp.Collection(queries=rows[:0])), "no queries"),
        (lambda: corpus.ingest(dp.Collection([{"query": "a"}])), "no documents; give documents="),
        (
            lambda: corpus.ingest(dp.Collection(rows, qrels=[{"a": 1}])),
            "no labels: give query-id, corpus-id and score",
        ),
    ):
        with pytest.raises((dp.SourceError, dp.errors.SplitError), match=said):
            wrong()


def test_of_two_labels_the_one_that_was_asked_for_counts(corpus, tmp_path):
    folder = folder_of(tmp_path / "c", qrels__train=[("q0", 1, 1), ("q0", 1, 2)])
    corpus.ingest(folder, name="last", on_conflict="replace")
    corpus.ingest(folder, name="first", on_conflict="skip")
    assert labels(corpus, "last")["q0", "1"] == 2
    assert labels(corpus, "first")["q0", "1"] == 1


def test_given_splits_hold_in_a_corpus_that_was_split_before(corpus, tmp_path):
    corpus.split(train=1)
    corpus.ingest(folder_of(tmp_path / "c"))
    assert splits_of(corpus, "c") == dict.fromkeys(["q0", "q1", "q3"], "train") | {"q2": "test"}
    assert set(splits_of(corpus, "c.documents").values()) == {"every"}


def splits_of(corpus, name):
    asked = "SELECT record_id, split FROM live_records WHERE source = $name"
    found = corpus.database.rows(asked, {"name": name})
    return {key.removeprefix(f"{name}/"): split for key, split in found}


def test_splits_that_came_with_labels_stay(corpus, tmp_path):
    queries = [*BEIR["queries.jsonl"], {"_id": "q4", "text": "Query  0"}]
    several = [("q1", 2, 1), ("q4", 2, 1), ("q4", 3, 1)]
    folder = folder_of(tmp_path / "c", queries=queries, qrels__eval=several)
    collection = dp.Collection(folder, splits={"eval": "test"})
    report = corpus.ingest(collection)
    held = {"q0": "train", "q1": "test", "q2": "test", "q3": None, "q4": "test"}
    assert splits_of(corpus, "c") == held
    assert set(splits_of(corpus, "c.documents").values()) == {"every"}
    assert report.by_split == {"train": 1, "test": 3, "none": 1}
    assert "with labels in several splits, of the most held out now: 1 query" in report.notes
    assert any(note.startswith("look: in validation or test") for note in report.notes)
    told = corpus.split(train=1, keep_together="text")
    assert told.got == {"train": 0.4, "validation": 0, "test": 0.6}  # without documents
    assert splits_of(corpus, "c") == held | {"q3": "train"}
    with pytest.raises(dp.errors.SplitError, match="give reassign=True as well"):
        corpus.split(given=False)
    corpus.split(validation=1, reassign=True, given=False)
    assert set(splits_of(corpus, "c").values()) == {"validation"}
    assert set(splits_of(corpus, "c.documents").values()) == {"every"}
    corpus.ingest(collection)  # what was moved stays, too
    assert set(splits_of(corpus, "c").values()) == {"validation"}


def test_a_corpus_of_given_splits_needs_no_split(corpus, tmp_path):
    three = BEIR["queries.jsonl"][:3]
    folder = folder_of(tmp_path / "c", queries=three)
    corpus.ingest(folder)
    assert corpus.search("query", source="c", split="train").num_rows == 2  # which needs splits
    test = [("q1", 1, 1), ("q2", 1, 1)]
    folder_of(folder, queries=three, qrels__train=[("q0", 0, 1)], qrels__test=test)
    assert "moved to the split that their labels now have: 1 query" in corpus.ingest(folder).notes
    assert splits_of(corpus, "c") == {"q0": "train", "q1": "test", "q2": "test"}


def test_reading_again_updates_labels_and_leaves_what_others_said(corpus, tmp_path):
    folder = folder_of(tmp_path / "c")
    corpus.ingest(folder)
    before = labels(corpus, "c")
    again = corpus.ingest(folder)
    assert again.labels.reasons == {"same label": 4}
    assert (again.labels.added, labels(corpus, "c")) == (0, before)
    with corpus.database.transaction():  # as somebody who judged two pairs anew
        corpus.database.rows(
            "INSERT INTO labels SELECT anchor, document, 0.5, 'me', added_version + 9 FROM labels "
            "WHERE label IN (0, 2)"
        )
    train = [("q0", 0, 3), ("q0", 2, 1), ("q1", 1, 2)]
    folder_of(folder, qrels__train=train)
    report = corpus.ingest(folder)
    assert (report.labels.added, report.withdrawn) == (2, 0)
    assert labels(corpus, "c") == {
        ("q0", "0"): 3,
        ("q0", "2"): 1,
        ("q0", "1"): 0.5,
        ("q1", "1"): 0.5,
        ("q2", "3"): 1,
    }
    shown = corpus.sql("SELECT query_id, document_id, label FROM qrels").to_pylist()
    assert {(of["query_id"], of["document_id"]): of["label"] for of in shown} == labels(corpus, "c")
    folder_of(folder, qrels__train=train, qrels__test=None)
    assert corpus.ingest(folder).withdrawn == 1
    assert ("q2", "3") not in labels(corpus, "c")


def test_several_sources_share_documents_that_have_no_splits(corpus, tmp_path):
    corpus.ingest(folder_of(tmp_path / "c"))
    rows = [{"query": "made up", "query_id": "g", "positive_id": "5"}]
    generated = dp.Collection(queries=rows, documents="c.documents")
    assert corpus.ingest(generated, name="g").documents is None
    assert labels(corpus, "g") == {("g", "5"): 1}
    corpus.ingest([{"t": "x"}, {"t": "y"}], text="t", name="wiki")
    corpus.split(train=0.5)
    with pytest.raises(dp.SourceError, match=r"wiki has records of .*; documents belong to every"):
        corpus.ingest(dp.Collection(queries=rows, documents="wiki"))


class TornError(Exception):
    """What stops an ingest."""


def stored(corpus):
    """Return the tables of a corpus, without times."""
    asked = {
        "labels": "SELECT * FROM labels ORDER BY ALL",
        "splits": "SELECT * FROM splits ORDER BY ALL",
        "records": "SELECT record_key, record_id, content_hash FROM live_records ORDER BY ALL",
        "sources": "SELECT source_id, name, documents_id FROM sources ORDER BY ALL",
    }
    return {name: corpus.database.rows(statement) for name, statement in asked.items()}


def killed(path, *death):
    """Read a collection in small pieces, and be killed after some of them."""
    row_batches.MAX_ROWS, ingest._ROWS_A_COMMIT, ingest._TIMES_A_COMMIT = 2, 1, 0
    test_kills.tell("ready")
    dying(*death)
    with dp.Corpus(path) as corpus:
        corpus.ingest(path.with_name("c"), progress=False)


test_kills.JOBS["collection"] = killed


@thorough
@pytest.mark.timeout(3600)
def test_killed_and_run_again_it_leaves_what_the_unbroken_ingest_leaves(tmp_path):
    path = tmp_path / "c.duckdb"
    folder_of(tmp_path / "c")

    def fresh():
        path.unlink(missing_ok=True)
        dp.Corpus(path).close()

    def what():
        with dp.Corpus(path) as corpus:
            return stored(corpus)

    assert_kills_change_nothing(__file__, "collection", path, fresh, what)


@pytest.mark.parametrize("at", [*some(range(6), less=2), "publishing"])
def test_an_interrupted_collection_goes_on_and_ends_the_same(tmp_path, monkeypatch, at):
    folder = folder_of(tmp_path / "c")
    with dp.Corpus(tmp_path / "whole.duckdb") as corpus:
        corpus.ingest(folder)
        whole = stored(corpus)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(row_batches, "MAX_ROWS", 2)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)
    plain_save, saves = ingest.Storing.save, itertools.count()

    def save(storing):
        if storing is not None:
            plain_save(storing)
        if storing is None or next(saves) == at:
            raise TornError

    with dp.Corpus(tmp_path / "torn.duckdb") as corpus:
        if at == "publishing":
            monkeypatch.setattr(_Publishing, "_report", lambda *_: save(None))
        else:
            monkeypatch.setattr(ingest.Storing, "save", save)
        with pytest.raises(TornError):
            corpus.ingest(folder)
        monkeypatch.undo()
        assert (stored(corpus)["records"], stored(corpus)["labels"], corpus.version) == ([], [], 0)
        corpus.ingest(folder)
        assert stored(corpus) == whole


if __name__ == "__main__":
    nursery()
