"""What a user sees stays as it was: samples, ids, counts and pools, by public names only.

``tests/golden/freeze/*.json`` has digests. After a change that is meant: ``pytest tests/freeze
--rewrite-golden``, with ``DUCKPLETS_THOROUGH=1`` or the longest prefix of what changed is missing.
"""

import fcntl
import hashlib
import json
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from conftest import GOLDEN
from effort import THOROUGH, some
from frozen_ingests import CHUNKINGS, INGESTS, LONG, TABLES, source_of
from frozen_runs import BODY, CONDITIONS, CORPORA, RUNS, WINDOWS, WORDNET, opener
from hub_data import jsonl, parquet, point_to, rows
from hub_server import Hub
from prebuilt import copied

import duckplets as dp
from duckplets.corpus.recipes import compiled_pool

MARKS = (2_000, 10_000, 100_000)
LAST = MARKS[-1] if THOROUGH else MARKS[0]
DEEPER = tuple(f" {mark}" for mark in MARKS if mark > LAST)


def digest(*values):
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def told(value):
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True).replace('"', "'")


@pytest.fixture
def frozen(request):
    """A check that a case gives what a golden file has for it: ``frozen(file, case, found)``."""

    def check(file, case, given):
        path = GOLDEN / "freeze" / f"{file}.json"
        found = {name: told(of) for name, of in given.items()}
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(exist_ok=True)
            with path.open("a+", encoding="utf-8") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                stream.seek(0)
                cases = json.loads(stream.read() or "{}")
                old = {} if THOROUGH else cases.get(case, {})
                same = found.items() <= old.items()  # then what lies deeper holds as well
                cases[case] = {n: of for n, of in old.items() if same and n.endswith(DEEPER)}
                cases[case] |= found
                stream.truncate(0)
                json.dump(cases, stream, indent=1, sort_keys=True, ensure_ascii=False)
                stream.write("\n")
            return
        stored = json.loads(path.read_text(encoding="utf-8"))[case]
        names = sorted(name for name in stored | found if not name.endswith(DEEPER))
        wrong = {n: (found.get(n), stored.get(n)) for n in names if found.get(n) != stored.get(n)}
        said = [f"  {name}: {now}, and it was {was}" for name, (now, was) in wrong.items()]
        if wrong:
            pytest.fail("\n".join([f"{file}.json, {case}: {', '.join(wrong)} changed", *said]))

    return check


# ---- runs


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with ExitStack() as stack:
        yield opener(tmp_path_factory.mktemp("frozen"), stack)


def groups_of(kind, negatives, more):
    """Return the columns of a run by what they are."""
    ids = ["source", "recipe", "instruction"]
    if kind == "messages":
        return {"ids": [*ids, "record_id"], "texts": ["messages"], "weights": ["weight"]}
    several = ["negative"] if negatives == 1 else [f"negative_{n + 1}" for n in range(negatives)]
    texts, also = {
        "texts": (["text"], []),
        "pairs": (["anchor", "other"], ["swapped", "label", "reason"]),
        "triplets": (["anchor", "positive", *several], ["swapped", "negative_by"]),
    }[kind]
    details = [f"{text}_{what}" for text in texts for what in ("record_id", "section", "window")]
    return {"ids": [*ids, *also, *details], "texts": [*texts, *more], "weights": ["weight"]}


def digests(tables, groups):
    """Return a digest of each group of columns at every mark on the way."""
    hashes, taken, found = {group: hashlib.sha256() for group in groups}, 0, {}
    for table in tables:
        for group, names in groups.items():
            for name in names:
                values = table[name].to_pylist()
                hashes[group].update(json.dumps([name, values], default=str).encode())
        taken += table.num_rows
        if taken in MARKS:
            found |= {f"{group} {taken}": h.hexdigest()[:16] for group, h in hashes.items()}
        if taken >= LAST:
            break
    return found


def tables(sampler, told):
    """Yield the tables of a run's batches, with weights set before steps."""
    for batch in sampler:
        yield batch.table
        if sampler.step in told:
            sampler.set_weights(told[sampler.step])


@pytest.mark.parametrize("name", some(RUNS, less=9))
def test_samples_stay(name, opened, frozen):
    run = {"batch_size": 250, **RUNS[name]}
    of = opened(run.pop("of", "toy"))
    position, told = (run.pop(what, None) for what in ("position", "told"))
    if isinstance(of, dp.TokenShards):
        run |= {"batch_size": 50, "seq_length": 24}
        arrays = ["input_ids", "attention_mask", "position_ids", "document_ids"]
        groups = {"ids": ["source", "row", *(["bucket"] if "by_bucket" in run else [])]}
        groups["texts"] = arrays
    else:
        more = run.pop("more", [])
        groups = groups_of(run.get("kind", "triplets"), run.get("negatives", 1), more)
        run["columns"] = [column for names in groups.values() for column in names]
    with closing(of.sampler(**run)) as sampler:
        if position:
            sampler.move(position)
        frozen("runs", name, digests(tables(sampler, told or {}), groups))


# ---- what ingests make


def counts_of(report):
    """Return what a report counts; of its examples a digest, without the folders of files."""
    names = ("read", "added", "skipped", "failed", "reasons", "incomplete", "replaced", "left_out")
    counts = {name: getattr(report, name) for name in names}
    shown = [
        [reason, *({**row, "file": row["file"] and Path(row["file"]).name} for row in of)]
        for reason, of in sorted(report.examples.items())
    ]
    return {name: of for name, of in counts.items() if of} | {"examples": digest(shown)}


def contents(corpus, *tables):
    """Return of tables how many rows they have, and a digest of those in any order."""
    read = {name: corpus.sql(TABLES[name]).to_pylist() for name in tables}
    lines = {name: sorted(json.dumps(row, default=str) for row in of) for name, of in read.items()}
    return {name: f"{len(of)} rows, {digest(of)}" for name, of in lines.items() if of}


@pytest.mark.parametrize("name", some(INGESTS, less=8))
def test_records_and_reports_stay(name, tmp_path, frozen):
    if name.startswith("wordnet") and not WORDNET.exists():
        pytest.skip("the WordNet file is not here")
    if name == "wordnet_whole" and not THOROUGH:
        pytest.skip("takes a quarter of a minute: DUCKPLETS_THOROUGH=1")
    options = {"on_conflict": "skip", "progress": False, **INGESTS[name][-1]}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=16, overlap=(4,)))
        source = source_of(name, tmp_path)
        if isinstance(source, Path):
            reports = corpus.ingest(source, **options)
        else:
            reports = {"report": corpus.ingest(source, **options)}
        found = {what: counts_of(report) for what, report in reports.items()}
        found |= contents(corpus, "ids", "records", "sections", "chunks", "judgements")
        for together in ("group", "text"):
            split = corpus.split(0.6, 0.2, 0.2, 9, keep_together=together, reassign=True)
            found[f"split by {together}"] = [dict(split), split.anchors, split.shared_anchors]
            found[f"split by {together}"] += contents(corpus, "splits").values()
    frozen("ingests", name, found)


def test_what_a_list_names_stays(tmp_path, monkeypatch, frozen):
    pytest.importorskip("huggingface_hub")
    with Hub() as hub, dp.Corpus(tmp_path / "c.duckdb") as corpus:
        point_to(hub, monkeypatch, tmp_path / "cache")
        for name, form in {"flat": parquet, "lines": jsonl}.items():
            end = {"flat": "parquet", "lines": "jsonl"}[name]
            hub.add(f"org/{name}", {f"train-{n}-of-2.{end}": form(rows(40, n)) for n in range(2)})
        named = "anchor=question positive=answer id=key meta=tags,mood"
        both = (f"hf://org/flat {named} trust=0.9", f"hf://org/lines {named}")
        sources = [dp.Source(line) for line in both]
        reports = [counts_of(corpus.ingest(source)) for source in sources]
        found = contents(corpus, "ids", "records", "sections")
        frozen("ingests", "list", {"reports": reports, **found})


@pytest.mark.parametrize("name", some(CHUNKINGS, less=3))
def test_chunks_stay(name, tmp_path, frozen):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest([{"t": LONG}, {"t": "short"}], text="t")
        corpus.chunk(CHUNKINGS[name])
        frozen("chunks", name, contents(corpus, "sections", "chunks"))


# ---- what is mined, and pools


@pytest.mark.parametrize("name", some(["odd", "toy"], less=1))
def test_what_is_mined_stays(name, tmp_path, frozen):
    copied(tmp_path / "c.duckdb", CORPORA[name])
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.mine(split="test")
        names = ("anchors", "candidates", "short", "counts", "outcomes")
        found = {what: getattr(report, what) for what in names}
        frozen("mined", name, found | contents(corpus, "negatives"))


POOLS = {
    "toy": ["anchor_context", "anchor_anchor"],
    "odd": [WINDOWS, BODY, *CONDITIONS],
    "ready": ["ready_negative", "anchor_context"],
    "alone": ["simcse", "texts"],
    "dated": ["anchor_context", "anchor_context_other_date", "anchor_anchor_other_date"],
}


@pytest.mark.parametrize("name", some(POOLS, less=3))
def test_pools_stay(name, tmp_path, frozen):
    copied(tmp_path / "c.duckdb", CORPORA["dated" if name == "alone" else name])
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        source = name if name in ("alone", "dated") else min(corpus.sources()["name"].to_pylist())
        for recipe in POOLS[name]:
            if not isinstance(recipe, str):
                corpus.add_recipe(recipe)
            of = recipe if isinstance(recipe, str) else recipe.name
            compiled = compiled_pool(corpus, of, source, "train")
            statement, values = compiled.statement("pool", staged=False)
            pool = corpus.pool(of, source=source)
            found = {"statement": digest(statement), "values": values, "anchors": pool.num_rows}
            frozen("pools", f"{name} {of}", found | {"pool": digest(pool.to_pylist())})
