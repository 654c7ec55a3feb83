"""The benchmark runs on a small corpus, and its page says what was measured."""

import gzip
import json
import re
import string
import sys
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_scripts import FOLDER, load
from effort import thorough

import duckplets as dp


def test_the_page_is_written_from_the_results():
    report = load("report")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), (
        "docs/benchmarks.md is not from benchmarks/*.json: python benchmarks/report.py"
    )


def test_the_page_of_peers_is_written_from_its_results():
    report = load("peers_report")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), (
        "docs/peers.md is not from benchmarks/peers*.json: python benchmarks/report.py"
    )


def test_rows_that_ranks_of_a_peer_lose_or_repeat_are_counted_by_epoch():
    sums = load("peers").sums
    of_two_ranks = [[["a", "b"], ["c"]], [["c", "a"], ["c"]]]  # a twice; then c twice, no a, no b
    assert sums(of_two_ranks, 3) == {"lost": 2, "repeated": 2}
    assert sums([[["a", "b", "c"]]], 3) == {"lost": 0, "repeated": 0}


def test_a_peer_that_fails_is_a_row_that_says_why(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    peers = load("peers")
    bench = peers.Bench(tmp_path, "webdataset")
    bench.python = tmp_path / "python"
    bench.python.write_text("#!/bin/sh\necho 'ImportError: no such module' >&2\nexit 1\n")
    bench.python.chmod(0o755)
    found = peers.tried("speed", bench.speed, tmp_path, "next", 1.0)
    assert found == {"failed": "ImportError: no such module"}


@thorough
def test_our_loader_is_measured_as_those_of_peers_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    peers = load("peers")
    bench, size = peers.Bench(tmp_path, "ours"), 1003
    files = {name: peers.written(tmp_path, name, size, name) for name in ("first", "second")}
    found = peers.counted(bench, files | {"counted": files["first"]}, size)
    exact = {"lost": 0, "repeated": 0}
    assert found["epochs"] == {"1": exact, "2": exact, "3": exact}
    assert found["resumed"] == found["rescaled"] == exact
    assert found["mixed"] == {"100": 0, "10000": 0}
    assert peers.timed(bench, files["first"], 0.1, 0)["speed"]["other"]["per_cpu_s"] > 0


def test_every_script_loads(monkeypatch):
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        for name in ("run", "text", "mining", "serving", "token_batches", "denoiser", "hub"):
            assert load(name), name
    assert load("run").MEASUREMENTS.keys() == load("report").TITLES.keys()
    assert str(FOLDER) not in sys.path


def check(measured, *arguments, left_out="", least=1e-09):
    """Check that every measurement of a script runs, but for peers that are not installed."""
    for name, measure in measured.MEASUREMENTS.items():
        if not left_out or not re.search(left_out, name):
            found = measure(*arguments)
            assert all(value >= least for value in found.values()), name


@thorough
def test_every_measurement_of_ours_runs(tmp_path, monkeypatch):
    run = load("run")
    monkeypatch.setattr(run, "SECONDS", 0.1)
    monkeypatch.setattr(run.index_order, "SECONDS", 0.02)
    load("text").write(tmp_path, 1000)
    check(run, tmp_path, 1000, left_out="grain")


@thorough
def test_every_measurement_of_token_batches_runs(tmp_path):
    measures = load("token_batches")
    measures.make(tmp_path / "shards", 400_000)
    check(measures, tmp_path / "shards", 0.02)


@thorough
def test_every_measurement_of_mining_runs(tmp_path, monkeypatch):
    mining = load("mining")
    sizes = {"SMALL": 4500, "LARGE": 4600, "QUERIES": 1000, "RECORDS": 2000, "ANCHORS": 4200}
    for name, size in sizes.items():  # what is searched has to fill several shards
        monkeypatch.setattr(mining, name, size)
    monkeypatch.syspath_prepend(str(FOLDER))
    check(mining, tmp_path, left_out="bm25s_numba|wordnet")  # the second takes half a minute


@thorough
def test_every_measurement_of_text_coming_in_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    size = 3000
    monkeypatch.setenv("RECORDS", str(size))
    monkeypatch.setenv("RUNS", "1")
    denoiser, prefixes, data_index = (load(n) for n in ("denoiser", "prefixes", "data_index"))
    for name, small in {"BYTES": 40_000, "PLAIN_BYTES": 20_000, "TIMES": 1}.items():
        monkeypatch.setattr(denoiser, name, small)
    for name, small in {"BATCHES": 2, "WARM": 1, "TURNS": 1, "SIZE": 32}.items():
        monkeypatch.setattr(prefixes, name, small)
    monkeypatch.setattr(data_index, "SELECTED", size // 3)
    index = {"ours": data_index.ours(size), "list_of_tuples": data_index.listed(size)}
    found = {
        "load_before": 1.0,
        "hub": load("hub").measure(tmp_path, size, 1),
        "converters": load("converters").measure(),
        "denoiser": denoiser.measure(),
        "prefixes": prefixes.measure(tmp_path, size // 3),
        "data_index": {**index, "ratios": {"time": 1.0}},
    }
    assert f"{size:,} rows in 8 Parquet shards" in load("text_in_report").section(found)
    assert set(load("text_in").SCRIPTS) == found.keys() - {"load_before"}


@thorough
def test_every_measurement_of_an_ingest_runs(tmp_path):
    intake = load("intake")
    intake.make(tmp_path, 300)
    found = {"rows": 300, "load_before": 0.1, "load_after": 0.2}
    for name in set(intake.NAMES) - {"datasets", "lancedb"}:
        found[name] = intake.one(name, tmp_path) | {"ingest_to_bare": 2.0}
        assert found[name]["ingest"] > 0
    text = load("text_in_report").intake_section(found)
    assert text.count("GB |") == len(found) - 4


@thorough
def test_every_measurement_of_serving_runs(tmp_path, monkeypatch):
    serving = load("serving")
    monkeypatch.setattr(serving, "SECONDS", 0.05)
    monkeypatch.setattr(serving, "CALLS", 8)
    opening, sources = sys.modules["serving_opening"], sys.modules["serving_corpora"]
    # Not everybody may make a control group.
    monkeypatch.setattr(sys.modules["serving_memory"], "Held", lambda size: nullcontext())
    for name, value in {"SAMPLING": 0.05, "COLD": 0.3, "OPENINGS": 1, "SOURCES": 3}.items():
        monkeypatch.setattr(opening, name, value)
    monkeypatch.setattr(sources, "SMALL", 300)
    monkeypatch.setattr(sources.text, "VOCABULARY", 2000)
    check(serving, tmp_path, 1000, least=0)


def test_statements_of_pools_are_measured(tmp_path, capsys):
    pools = load("pools")
    pools.made(path := tmp_path / "c.duckdb", 300, "one family")
    pools.one(str(path), "plain", "pool")
    rows = json.loads(capsys.readouterr().out)["rows"]
    # in a process of its own, which looks at the whole file before it opens it
    assert pools.timed(path, "plain", "lists", 1, 60)["rows"] == rows > 0


def test_the_page_of_the_laboratory_is_written_from_its_results():
    report = load("teach_report")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), (
        "docs/teach.md is not from benchmarks/teach.json: python benchmarks/teach_report.py"
    )


def test_the_page_of_a_retrieval_set_has_the_figures_of_its_run():
    report = load("retrieval_report")
    text = report.PAGE.read_text(encoding="utf-8")
    assert text == report.page(text), (
        "docs/retrieval.md is not from retrieval.json: python benchmarks/retrieval_report.py"
    )


def test_sentences_of_entries_become_a_folder_of_beir(tmp_path):
    entries = [
        {"id": f"e{n}", "title": word, "lemmas": [word], "pos": "noun", "definition": f"sense {n}"}
        | {"examples": [f"he saw a {word} there", "nothing of it"]}
        for n, word in enumerate(["bank", "Bank", "tree"])
    ]
    pq.write_table(pa.Table.from_pylist(entries), tmp_path / "entries.parquet")
    counts = load("retrieval_set").write(tmp_path / "set", None, tmp_path / "entries.parquet")
    assert counts == {"documents": 3, "queries": 3, "labels": 5}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(tmp_path / "set", name="set")
        rows = corpus.sql("SELECT query_id, document_id, label FROM qrels").to_pylist()
    assert {(r["query_id"], r["document_id"]): r["label"] for r in rows} == {
        ("e0-0", "e0"): 2, ("e0-0", "e1"): 1, ("e1-0", "e1"): 2, ("e1-0", "e0"): 1,
        ("e2-0", "e2"): 2,
    }  # fmt: skip


def test_a_collection_is_measured(tmp_path, capsys):
    speed = load("collection_speed")
    speed.made(tmp_path, 200, 40)
    for name in ("read", "draw_at_random"):
        speed.one(name, tmp_path)
    read, *drawn = map(json.loads, capsys.readouterr().out.splitlines())
    assert read["added"] == 200 + 40 + read["labels"]
    assert all(of.get("samples_per_s", 1) > 0 for of in drawn)


def test_advice_is_judged_on_seeds_that_did_not_choose():
    """By figures that are planted: the best arm by seeds 1 to 3, and its lead on seeds 4 to 9."""
    advise = load("advise")
    advice = {name: {"recommended": "1 dense"} for name in advise.CORPORA}
    lead = dict.fromkeys(advise.CORPORA, 0.001) | {"gcide": 0.005}

    def figures(corpus, arm, seed):
        base = {"uncut": 0.4, "uncut_4": 0.4 + lead[corpus], "pairs": 0.39}.get(arm, 0.38)
        return base + 0.0001 * seed * (arm == "pairs")

    results = {"advice": advice, "missing": {}, "runs": []}
    due = [*advise.works(advice, results)]
    assert len(due) == len({*due}) == 8 * 8 * 3
    for _ in range(2):
        due = [*dict.fromkeys(advise.works(advice, results))]
        results["runs"] = [
            {"corpus": c, "arm": a, "seed": s, "ndcg@10": figures(c, a, s)} for c, a, s in due
        ]
    found = advise.verdict(results)
    assert (found["judged"], found["harmed"], found["held"]) == ([*advise.CORPORA], [], True)
    assert {*advise.CORPORA} - {*found["near"]} == {"gcide"}
    rows = found["corpora"]["python"]["less"]
    assert found["corpora"]["python"]["best"] == "uncut_4"
    assert rows["uncut_4"] == {of: pytest.approx(-0.1) for of in ("difference", "low", "high")}
    mean, half = 1 - 0.01 * 6.5, 2.571 * 0.01 * np.std(range(4, 10), ddof=1) / 6**0.5
    expected = {"difference": mean, "low": mean - half, "high": mean + half}
    assert rows["pairs"] == {of: pytest.approx(value) for of, value in expected.items()}
    for run in results["runs"]:
        run["ndcg@10"] -= 0.03 * (run["corpus"] == "python" and run["arm"] == "uncut")
    assert advise.verdict(results)["harmed"] == ["python"]
    results["advice"] = {name: of | {"sure": 0.95} for name, of in advice.items()}
    page = load("teach_report").page(of_advice=results)
    assert "near the best arm on 6. It errs on: Python and GCIDE. It does harm on: Python." in page
    assert "| GCIDE | 1 dense | 0.95 | 4 dense | -0.5 (-0.5 … -0.5) |" in page
    if (stored := advise.HERE / "advise.json").exists():
        kept = json.loads(stored.read_text(encoding="utf-8"))
        assert kept["verdict"] == advise.verdict(kept)


def test_the_laboratory_runs_each_arm_once_the_deciding_ones_with_more_seeds():
    teach = load("teach")
    found = list(teach.works(["a", "b"], [*teach.ARMS], range(1, 5)))
    assert len(found) == len({*found})
    assert found[:2] == [("a", "pairs", 1), ("b", "pairs", 1)]
    seeds = Counter(arm for corpus, arm, _ in found if corpus == "a")
    relabel = {name for name, arm in teach.ARMS.items() if arm.verdict}
    assert seeds == {a: 4 if a in teach.DECIDING else 3 for a in teach.ARMS if a not in relabel}
    planted = teach.works(["foldoc_planted"], [*teach.ARMS], [1])
    assert {arm for _, arm, _ in planted} == {*teach.OF_PLANTED, *relabel}
    assert {arm.beside for arm in teach.ARMS.values()} <= {*teach.ARMS}


def test_the_laboratory_plants_the_second_half_of_long_texts_as_records_of_their_own():
    corpora = load("teach_corpora")
    words = " ".join(f"word{i}" for i in range(40))
    rows = [
        {"id": "a", "anchor": "long", "positive": words, "group": "one"},
        {"id": "b", "anchor": "of the same family", "positive": words, "group": "one"},
        {"id": "c", "anchor": "short", "positive": "a few words"},
    ]
    first, second, short = corpora.planted(lambda: [dict(row) for row in rows])
    assert (first["id"], second["id"]) == ("a", f"a{corpora.HALF}")
    assert first["anchor"] == "long"
    assert second.keys() == {"id", "positive"}
    assert f"{first['positive']} {second['positive']}" == words
    assert short == rows[2]


def test_the_laboratory_reads_a_dictionary(tmp_path, monkeypatch):
    corpora = load("teach_corpora")
    entries = {
        "00-database-short": "\nA dictionary\n",
        "Sort": "Sort \\Sort\\, n. [F. sorte [Obs.], lot.]\n   1. A kind or species of things.\n"
        "      [1913 Webster]\n\n         In sort.   --Milton.\n\n   2. Manner.\n",
        "Zest": "Zest \\Zest\\, v. t.\n   To cut into thin slips, as the peel of an orange.\n",
    }
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    text, index = b"", ""
    for word, entry in entries.items():
        place = (f"{digits[n >> 6]}{digits[n & 63]}" for n in (len(text), len(entry)))
        index += "\t".join([word, *place]) + "\n"
        text += entry.encode()
    (tmp_path / "gcide.dict.dz").write_bytes(gzip.compress(text))
    (tmp_path / "gcide.index").write_text(index)
    monkeypatch.setattr(corpora, "DICTIONARIES", tmp_path)
    found = {row["anchor"]: row["positive"] for row in corpora.gcide()}
    assert found == {
        "Sort": "n. 1. A kind or species of things. 2. Manner.",
        "Zest": "v. t. To cut into thin slips, as the peel of an orange.",
    }
