"""A run is made again from raw sources, and what differs is named."""

import csv
import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, ok

import duckplets as dp
from duckplets.errors import SourceError, StateMismatchError
from duckplets.proof import Certificate, verify

ROWS = [
    {
        "id": f"r{i}",
        "question": f"what is thing {i} of kind {i % 7}",
        "answer": f"thing {i} is one of {i % 11} words, says {i * 3}",
        "topic": f"t{i % 3}",
    }
    for i in range(160)
]
NOTES = [
    {"text": f"a plain note of number {i}, with more words than gates ask of a text like this one"}
    for i in range(40)
]
COLUMNS = {"anchor": "question", "positive": "answer", "id": "id", "meta": ["topic"]}


def write(rows, path, seed):
    """Write rows in another order, in the format that the suffix says."""
    rows = random.Random(seed).sample(rows, len(rows))
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, [*rows[0]])
            out.writeheader()
            out.writerows(rows)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def take(sampler, steps):
    for _ in range(steps):
        next(sampler)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run over mined negatives that set weights, was joined by a version, and skipped steps."""
    folder = tmp_path_factory.mktemp("made")
    with dp.Corpus(folder / "c.duckdb") as corpus:
        corpus.ingest(write(ROWS[:90], folder / "q.csv", 1), name="q=1", **COLUMNS)
        corpus.ingest(write(NOTES, folder / "n.jsonl", 2), name="n", text="text")
        corpus.split()
        corpus.mine(depth=20, progress=False)
        how = {"batch_size": 4, "swap": True}
        negatives = dp.Negatives(num=2, by={"bm25": 0.7, "random": 0.3})
        options = dp.Options(swap=how.pop("swap"))
        with corpus.sampler(negatives=negatives, options=options, **how) as sampler:
            take(sampler, 20)
            sampler.set_weights({"q=1": 3.0, "n": 1.0})
            take(sampler, 5)
            sampler.save()
            early = sampler.certificate()
        corpus.ingest(write(ROWS, folder / "q.parquet", 3), name="q=1", **COLUMNS)
        corpus.mine(depth=20, progress=False)
        with corpus.resume(version="newest") as sampler:
            take(sampler, 12)
            sampler.skip(2)
            take(sampler, 3)
            sampler.save()
    return folder, early


@pytest.mark.parametrize(("suffix", "threads"), [("parquet", 1), ("csv", 2), ("jsonl", 4)])
def test_formats_orders_and_threads_give_the_same_batches(made, tmp_path, suffix, threads):
    folder, _ = made
    file = tmp_path / "run.json"
    ok("runs", folder / "c.duckdb", "default", "--certificate", file)
    assert file.stat().st_size < 1 << 20
    assert "what is thing" not in file.read_text()
    sources = {
        "q=1@1": write(ROWS[:90], tmp_path / f"old.{suffix}", 4),
        "q=1": write(ROWS, tmp_path / f"new.{suffix}", 5),
        "n": write(NOTES, tmp_path / f"n.{suffix}", 6),
    }
    found = verify(file, sources, threads=threads)
    assert (found.same, found.steps, found.records, found.unverified) == (True, 42, (), ())
    if threads == 1:
        given = [word for name, path in sources.items() for word in ("--sources", f"{name}={path}")]
        assert ok("verify", file, *given) == "42 steps of run 'default': the same batches\n"


def test_what_differs_is_named(made, tmp_path):
    _, early = made
    rows = [dict(row) for row in ROWS[:90]]
    rows[7]["answer"] = "another answer"
    del rows[30]
    rows.append({"id": "late", "question": "what is new", "answer": "this", "topic": "t0"})
    early.write(tmp_path / "run.json")
    sources = {
        "q=1": write(rows, tmp_path / "q.csv", 7),
        "n": write(NOTES, tmp_path / "n.csv", 8),
    }
    given = [word for name, path in sources.items() for word in ("--sources", f"{name}={path}")]
    done = cli("verify", tmp_path / "run.json", *given)
    assert done.exit_code == 1
    told = done.stdout
    assert re.search(r"other batches, first in step \d+$", told, re.MULTILINE)
    assert "another content: 1 record: q=1 q=1/r7" in told
    assert "only here: 1 record: q=1 q=1/late" in told
    assert "missing here: 1 record: id hash " in told
    assert "source q=1, version 1: 90 records in the certificate, 90 here" in told
    found = verify(early, {"q=1": sources["q=1"], "n": write(NOTES[:1], tmp_path / "m.csv", 0)})
    assert found.same is False
    assert any("source n, version 2" in line for line in found.records)


def test_the_first_step_that_differs_is_told(made, tmp_path):
    _, early = made
    chain = early.drawn["chain"]
    assert len(early.links) == 25 == early.drawn["position"] // 4
    drawn = {**early.drawn, "chain": chain[: 17 * 16] + "0" + chain[17 * 16 + 1 :]}
    edited = Certificate(
        **{**{n: getattr(early, n) for n in Certificate.__slots__}, "drawn": drawn}
    )
    sources = {
        "q=1": write(ROWS[:90], tmp_path / "q.csv", 7),
        "n": write(NOTES, tmp_path / "n.csv", 8),
    }
    found = verify(edited, sources)
    assert (found.same, found.differs, found.records) == (False, (17, 18), ())


@pytest.mark.parametrize("section", Certificate.__slots__)
def test_an_edited_section_is_refused(made, tmp_path, section):
    document = json.loads(made[1].to_json())
    document[section] = {**document[section], "more": 1}
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document))
    with pytest.raises(StateMismatchError, match=f"{section} does not agree with its digest"):
        Certificate.read(file)


def test_what_is_no_certificate_is_refused(made, tmp_path):
    file = tmp_path / "run.json"
    text = made[1].to_json()
    for wrong, told in (
        (text[: len(text) // 2], "it is not JSON"),
        ("{}", "it is no certificate"),
        (text.replace('"format": 1', '"format": 2'), "its format is 2"),
        (text.replace('"order_version": 4', '"order_version": 3'), "its order_version is 3"),
    ):
        file.write_text(wrong)
        with pytest.raises(StateMismatchError, match=told):
            Certificate.read(file)
    with pytest.raises(SourceError, match="source 'q=1', version 1: it is not given"):
        verify(made[1], {"n": Path("n.csv")})
    with pytest.raises(SourceError, match=r"no source 'm'.*it has: n, q=1"):
        verify(made[1], {"m": Path("n.csv")})


def test_collections_labels_and_gates_are_made_again(tmp_path):
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    texts = [{"_id": f"d{i}", "title": "", "text": f"document {i} has words"} for i in range(40)]
    asked = [{"_id": f"q{i}", "text": f"which has number {i}"} for i in range(20)]
    write(texts, folder / "corpus.jsonl", 1)
    write(asked, folder / "queries.jsonl", 2)
    judged = [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(20)]
    lines = ["\t".join(map(str, row.values())) for row in judged]
    (folder / "qrels/train.tsv").write_text("\n".join(["\t".join(judged[0]), *lines]))
    labels = pa.table(
        {"anchor_id": ["set/q1"], "document_id": ["set.documents/d3"], "label": [1.0]}
    )
    pq.write_table(labels, tmp_path / "labels.parquet")
    notes = write([*NOTES, *NOTES[:9]], tmp_path / "n.jsonl", 3)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(folder, name="set")
        gates = {"quality": {"min_words": 3}, "where": "text NOT LIKE '%number 7,%'"}
        report = corpus.ingest(notes, name="n", text="text", **gates)
        assert report.added == len(NOTES) - 1
        corpus.relabel(tmp_path / "labels.parquet")
        corpus.split()
        with corpus.sampler("lists", batch_size=4, negatives=3, mixture={"set": 1}) as sampler:
            take(sampler, 12)
            lists = sampler.certificate()
        with corpus.sampler("texts", batch_size=4) as sampler:
            take(sampler, 12)
            plain = sampler.certificate()
    sources = {"set": folder, "n": notes}
    for certificate in (lists, plain):
        found = verify(certificate, {**sources, "labels": tmp_path / "labels.parquet"})
        assert (found.same, found.records, found.unverified) == (True, (), ())
    found = verify(lists, sources)
    assert found.same is False
    assert len(found.unverified) == 2
    assert "labels of version" in found.unverified[0]


def test_folders_of_text_and_conversations_are_made_again(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(24):
        text = f"# Title {i}\n\nThe text of number {i} has words.\n\n## Part {i}\n\nMore of {i}.\n"
        (folder / f"2024-01-{i + 1:02}-{i}.md").write_text(text)
    said = [[("human", f"hi {i} there"), ("gpt", f"you {i} too")] for i in range(30)]
    chats = [{"conversations": [{"from": f, "value": v} for f, v in turns]} for turns in said]
    file = write(chats, tmp_path / "chat.jsonl", 1)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(folder, name="docs", by_heading=True, date="path")
        corpus.ingest(file, name="chat", converter="sharegpt")
        corpus.split()
        for kind in ("triplets", "messages"):
            with corpus.sampler(kind, batch_size=4) as sampler:
                take(sampler, 9)
                certificate = sampler.certificate()
            found = verify(certificate, {"docs": folder, "chat": file})
            assert (found.same, found.records, found.unverified) == (True, (), ())


def test_nothing_runs_that_a_certificate_names(made, tmp_path):
    """Whoever writes a certificate can write its digests too."""
    _, early = made
    notes = write(NOTES, tmp_path / "n.csv", 8)
    sources = {"q=1": write(ROWS[:90], tmp_path / "q.csv", 7), "n": notes}
    plain = json.loads(early.to_json())

    def told(section, change, match):
        document = json.loads(json.dumps(plain[section]))
        change(document)
        own = {name: plain[name] for name in Certificate.__slots__} | {section: document}
        with pytest.raises(dp.errors.DuckpletsError, match=match):
            verify(Certificate(**own), sources)

    mapping = early.corpus["sources"]["q=1"]["mapping"]
    for more, match in (
        ({"converter": "os:getcwd"}, "is not imported by its word"),
        ({"options": 1}, "no column is called 'options'"),
    ):
        told(
            "corpus",
            lambda of, more=more: of["sources"]["q=1"].update(mapping={**mapping, **more}),
            match,
        )
    told("corpus", lambda of: of["sources"].pop("q=1"), "has no source")
    told("run", lambda of: of["settings"].pop("splits"), "not as one is made")
    told("run", lambda of: of["settings"]["splits"].update(more=1), "not as one is made")


def test_vectors_are_compared_with_the_file_given(tmp_path):
    notes = write(NOTES, tmp_path / "n.csv", 8)
    path = tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(notes, name="n", text="text")
        corpus.split()
        corpus.embed(lambda texts: [[float(len(t)), 1.0] for t in texts], name="dense")
        with corpus.sampler("texts", batch_size=4, columns=["text", "text_vector"]) as sampler:
            take(sampler, 9)
            certificate = sampler.certificate()
    vectors = path.with_suffix(".vectors.duckdb")
    assert verify(certificate, {"n": notes, "vectors": vectors}).unverified == ()
    (said,) = verify(certificate, {"n": notes}).unverified
    assert "give vectors=PATH" in said
    other = tmp_path / "o.duckdb"
    with dp.Corpus(other) as corpus:
        corpus.ingest(notes, name="n", text="text")
        corpus.embed(lambda texts: [[float(len(t)), 2.0] for t in texts], name="dense")
    (said,) = verify(
        certificate, {"n": notes, "vectors": other.with_suffix(".vectors.duckdb")}
    ).unverified
    assert "has others" in said


def test_candidates_are_compared_with_the_folder_given(tmp_path):
    rows = write(ROWS, tmp_path / "q.csv", 7)
    path = tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(rows, name="q", **COLUMNS)
        corpus.split()
        corpus.mine(terms=dp.Terms(stemmer="none"), progress=False)
        corpus.rescore(lambda pairs: [float(len(b)) for a, b in pairs], "model", progress=False)
        how = dp.Negatives(by="model")
        with corpus.sampler(batch_size=4, negatives=how) as sampler:
            take(sampler, 4)
            certificate = sampler.certificate()
    found = verify(certificate, {"q": rows, "candidates": path.with_suffix(".candidates")})
    assert (found.same, found.records, len(found.unverified)) == (None, (), 1)
    found = verify(certificate, {"q": rows, "candidates": tmp_path / "none.candidates"})
    assert any("has others" in each for each in found.unverified)


def test_a_card_has_licences_roots_and_contamination(tmp_path):
    texts = [" ".join(f"word{n}of{i}" for n in range(20)) for i in range(40)]
    rows = [{"text": text, "license": "MIT"} for text in texts]
    notes, path = write(rows, tmp_path / "n.csv", 8), tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(notes, name="n", text="text", meta=["license"])
        corpus.split()
        with corpus.sampler("texts", batch_size=4) as sampler:
            take(sampler, 3)
            sampler.save()
            root = sampler.certificate().records["roots"]["n"]["1"]["root"]
    write([{"text": text} for text in [*texts[:3], "x " * 20]], tmp_path / "set.jsonl", 1)
    file = tmp_path / "run.md"
    ok("runs", path, "default", "--card", file, "--drawn", tmp_path / "set.jsonl")
    found = file.read_text()
    for part in ("# Run default", "MIT", root, "By n-grams of 13 words", "| 4 | 0 | 3 |"):
        assert part in found, found
    ok("runs", path, "default", "--card", file)
    assert "It was not measured" in file.read_text()
    assert cli("runs", path, "default", "--card", file, "--next", "3").exit_code == 2
