"""Writes docs/benchmarks.md and docs/peers.md, and the tables of docs/scale.md and README.md, so that no figure is typed by hand.

python benchmarks/run.py > benchmarks/results.json
python benchmarks/mining.py > benchmarks/mining.json
python benchmarks/dense.py > benchmarks/dense.json
python benchmarks/dense_peer.py > benchmarks/dense_peer.json  # with PyTorch
python benchmarks/batches.py > benchmarks/batches.json
python benchmarks/text_in.py > benchmarks/text_in.json
python benchmarks/in_place.py > benchmarks/in_place.json
python benchmarks/intake.py > benchmarks/intake.json
python benchmarks/serving.py > benchmarks/serving.json
python benchmarks/serving.py --records 10000000 --beside 1000000 > benchmarks/serving_large.json
python benchmarks/quality.py > benchmarks/quality.json  # with PyTorch
python benchmarks/quality_gates.py > benchmarks/quality_gates.json
TEXTS=20000 python benchmarks/tokens.py > benchmarks/tokens.json
python benchmarks/token_batches.py --tokens 400000000 > benchmarks/token_batches.json
python benchmarks/scale.py > benchmarks/scale.json
python benchmarks/larger_than_memory.py > benchmarks/larger_than_memory.json  # as root
python benchmarks/larger_than_memory.py --records 20000000 --in-place > benchmarks/larger_in_place.json
python benchmarks/delayed_disk.py > benchmarks/delayed_disk.json  # as root
python benchmarks/simulate_ranks.py > benchmarks/simulate_ranks.json
python benchmarks/peers.py > benchmarks/peers.json  # makes environments; half an hour
python benchmarks/peers.py --records 10000000 --counted 0 --only ours grain_lists grain_records \
    grain_single lancedb lancedb_permutation > benchmarks/peers_large.json
python benchmarks/report.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peers_report
import quality_report
import retrieval_report
import scale_report
import serving_report
import text_in_report
import tokens_report

HERE = Path(__file__).parent
RESULTS, MINING, TEXT_IN, QUALITY = (
    HERE / f"{name}.json" for name in ("results", "mining", "text_in", "quality")
)
SERVING, SERVING_LARGE = HERE / "serving.json", HERE / "serving_large.json"
BATCHES = HERE / "batches.json"
DENSE, DENSE_PEER = HERE / "dense.json", HERE / "dense_peer.json"
GATES, IN_PLACE = HERE / "quality_gates.json", HERE / "in_place.json"
INTAKE, COLLECTIONS = HERE / "intake.json", HERE / "collections.json"
TOKENS, TOKEN_BATCHES = HERE / "tokens.json", HERE / "token_batches.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"

TITLES = {
    "ingest_parquet": "ingest from Parquet, with ids, splits and chunks",
    "ingest_csv": "ingest from CSV, with ids, splits and chunks",
    "ingest_ten_sources": "ingest of ten sources, a tenth of the text each",
    "second_ingest": "a second ingest of 10,000 rows",
    "save": "a save of a run at position 10^7 (median of 20)",
    "ten_million_anchors": "the order over ten million anchors, made and asked for a block",
    "read_256": "whole records in shuffled order, `Corpus.read`, batches of 256",
    "index_order": "",
    "grain_index_order": "",
}
SIZES = (1_000_000, 100, 3, 2, 1)

TEXT = """# Benchmarks

This page shows how fast duckplets is, how much memory it uses, and where a peer is better.
`benchmarks/report.py` writes it from the JSON files in `benchmarks/`. Each file is the output of the
script with its name. The machine has two cores that others use too. So compare the ratios of one run
only. A run without a date was made with an earlier commit. `benchmarks/text.py` makes the texts: a
title of about 8 words and a body of about 100 words, Zipf-distributed, from a fixed seed.

## Ingest and orders

`benchmarks/run.py`{date}, {records:,} records, Python {python}, DuckDB {duckdb}, {cpus} cores
(load {load_before:.1f} before it). Each row is a process of its own, and its memory is that
process's peak.

{table}

Index samplers with shuffle, in the same run: keys of `IndexSampler.keys` (arrays of 65,536), and
elements taken one by one. A `RecordMetadata` makes its random generator when it is asked for; Grain
makes all of them. A shard is one of eight.

{orders}

The order over ten million anchors takes {made:.3f} s to make and to ask for a first block of 65,536
positions. A block at position 10^12 takes {far:.3f} s. Neither time grows with the anchors, the epochs
or the position.
"""


MINING_TEXT = """
## Hard negatives

One run of `benchmarks/mining.py` (load {load_before:.1f} before it). Documents have about 120 words,
Zipf-distributed over 60,000 words and 500 topics. A query is the first 30 words of a document, and
asks for exactly the best 32 others. Mining includes the guards and writing the negatives.

| | queries/s | index | peak memory |
|---|---|---|---|
| duckplets, 50,000 documents, one core | {mine_small_one_core[queries_per_s]:,.0f} | {index_small[seconds]:.1f} s ({small_tokens:.1f}M tokens/s) | {mine_small_one_core[peak_mb]:,.0f} MB |
| the same, two cores | {mine_small[queries_per_s]:,.0f} | | {mine_small[peak_mb]:,.0f} MB |
| DuckDB's `match_bm25`, a statement a query, two cores | {match_bm25[queries_per_s]:,.1f} | {match_bm25[index_seconds]:.1f} s | {match_bm25[peak_mb]:,.0f} MB |
| bm25s with numba, one core | {bm25s_numba[queries_per_s]:,.0f} | {bm25s_numba[index_seconds]:.1f} s | {bm25s_numba[peak_mb]:,.0f} MB |
| bm25s with numba, two threads | {bm25s_numba[queries_per_s_of_two]:,.0f} | | |
| duckplets, 500,000 documents, one core | {mine_large_one_core[queries_per_s]:,.0f} | {index_large[seconds]:.1f} s ({large_tokens:.1f}M tokens/s) | {mine_large_one_core[peak_mb]:,.0f} MB |
| the same, two cores | {mine_large[queries_per_s]:,.0f} | | {mine_large[peak_mb]:,.0f} MB |

On one core duckplets answers **{ratio_match:,.0f} times** as many queries as `match_bm25` on two
(aim: 100). It answers **{ratio_bm25s:.2f} times** as many as bm25s (aim: 0.5). The package bm25s
scores and ranks only. The figure of duckplets includes the guards, the ranks of the positives and the
table. The time before the first negative is {mine_small_one_core[ready_s]:.1f} s over 50,000 documents
and {mine_large_one_core[ready_s]:.0f} s over 500,000. It goes into hashes of all texts, the recipe's
pool, and writing the shards.

Mining all of WordNet takes **{wordnet[seconds]:.0f} s** (aim: 90 s), index included. It compares the
titles with the definitions of their source and split, in three splits: {wordnet[anchors]:,.0f} anchors
and {wordnet[negatives]:,.0f} negatives.
"""

SAMPLING_TEXT = """
Sampling at a million chunks was measured by turns in one process. Mined negatives give
{sample_mined[mined_per_s]:,.0f} triplets/s (aim: 100,000), and random ones
{sample_mined[random_per_s]:,.0f}. The ratio is **{sampled:.0f} %** (aim: 60 %). Opening the run takes
{sample_mined[open_seconds]:.1f} s.
"""

DENSE_TEXT = """
### By vectors

`benchmarks/dense.py` ranks {records:,} documents for {records:,} anchors, by vectors of {dimension}
numbers. It keeps {depth} candidates of each anchor, and takes {seconds:.0f} s. This is
**{part_of_product:.0%}** of the rate at which the same BLAS multiplies the bare matrices (aim: 60 %).
By processor time it is {part_of_product_processor:.0%}.

`benchmarks/dense_peer.py` compares with `mine_hard_negatives` of sentence-transformers {version}, on the
same vectors. Ours keeps {depth} candidates of each anchor, the peer {kept} negatives. Another margin is
another policy here; the peer mines again. The table has processor time, and the peak of memory above
the vectors.

| pairs | ours | the peer | time (aim .80) | memory (aim .10) | another margin (aim .02) |
|---|---|---|---|---|---|
{table}
"""


BATCHES_TEXT = """
## What may share a batch

`benchmarks/batches.py` draws triplets of {records:,} records in batches of {batch}, with their texts as
lists, by one thread. Figures are medians of {rounds} rounds in turns. For `in_batch_margin` each anchor
has four texts, drawn at random, that its batch must not contain. The aims were .9 of plain sampling
for `no_duplicates="group"`, and .5 for `in_batch_margin`.

| option | triplets a processor second | of plain | opening (s) |
|---|---|---|---|
{table}
"""


def batches_section(found: dict[str, Any]) -> str:
    """Return the section for the output of ``batches.py``."""
    titles = {"plain": "plain", "apart=('near', 0.95)": "`in_batch_margin=('near', 0.05)`"}
    rows = [
        f"| {titles.get(name, f'`{name}`')} | {run['triplets_per_second']:,} "
        f"| {run['of_plain']:.2f} | {run['opening_seconds']:.2f} |"
        for name, run in found["runs"].items()
    ]
    return BATCHES_TEXT.format(**found["settings"], table="\n".join(rows))


def dense_section(dense: dict[str, Any], beside: list[dict[str, Any]]) -> str:
    """Return the section for the outputs of ``dense.py`` and ``dense_peer.py``."""
    rows = []
    for found in beside:
        ours, peer = (found[side]["mined"][0] for side in ("ours", "peer"))
        cells = [f"{found['records']:,}"]
        cells += [
            f"{of['processor_seconds']:.1f} s, {of['mb_above_vectors']:,.0f} MB"
            for of in (ours, peer)
        ]
        cells += [
            f"{found[name]:.3f}" for name in ("mining_to_peer", "memory_to_peer", "policy_to_peer")
        ]
        rows.append(f"| {' | '.join(cells)} |")
    settings = {"version": beside[0]["peer"]["version"], "kept": beside[0]["kept"]}
    return DENSE_TEXT.format(**dense, **settings, table="\n".join(rows))


def mining_section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``mining.py``."""
    ours = results["mine_small_one_core"]["queries_per_s"]
    text = MINING_TEXT.format(
        **results,
        small_tokens=results["index_small"]["tokens_per_s"] / 1e6,
        large_tokens=results["index_large"]["tokens_per_s"] / 1e6,
        ratio_match=ours / results["match_bm25"]["queries_per_s"],
        ratio_bm25s=ours / results["bm25s_numba"]["queries_per_s"],
    )
    sampled = results.get("sample_mined")
    if sampled is None:  # it takes as long as all the others together
        return text
    share = 100 * sampled["mined_per_s"] / sampled["random_per_s"]
    return text + SAMPLING_TEXT.format(**results, sampled=share)


def page() -> str:
    """Return the page."""
    results, mining, text_in = (
        json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, MINING, TEXT_IN)
    )
    return (
        main_section(results)
        + serving_section()
        + text_in_report.section(text_in)
        + text_in_report.intake_section(json.loads(INTAKE.read_text(encoding="utf-8")))
        + text_in_report.in_place_section(json.loads(IN_PLACE.read_text(encoding="utf-8")))
        + tokens_report.shards_section(json.loads(TOKENS.read_text(encoding="utf-8")))
        + tokens_report.batches_section(json.loads(TOKEN_BATCHES.read_text(encoding="utf-8")))
        + mining_section(mining)
        + dense_section(
            *(json.loads(path.read_text(encoding="utf-8")) for path in (DENSE, DENSE_PEER))
        )
        + retrieval_report.speed_section(json.loads(COLLECTIONS.read_text(encoding="utf-8")))
        + batches_section(json.loads(BATCHES.read_text(encoding="utf-8")))
        + quality_section()
        + quality_report.gates_section(json.loads(GATES.read_text(encoding="utf-8")))
    )


def serving_section() -> str:
    """Return the part for the output of ``serving.py``, if it was run: it takes half an hour."""
    found = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (SERVING, SERVING_LARGE)
        if path.exists()
    ]
    return serving_report.section(*found) if found else ""


def quality_section() -> str:
    """Return the part for the output of ``quality.py``, if it was run since it last changed."""
    if not QUALITY.exists():
        return ""
    return quality_report.section(json.loads(QUALITY.read_text(encoding="utf-8")))


def main_section(results: dict[str, Any]) -> str:
    """Return the part for the output of ``run.py``."""
    rows = ["| measurement | result | peak memory |", "|---|---|---|"]
    for name, title in TITLES.items():
        if title and name in results:
            found = results[name]
            rows.append(f"| {title} | {_result(found)} | {found['peak_mb']:,.0f} MB |")
    date = f", {results['date']}" if "date" in results else ""
    return TEXT.format(
        **results | {"date": date},
        table="\n".join(rows),
        orders=_orders(results["index_order"], results["grain_index_order"]),
        made=results["ten_million_anchors"]["seconds"],
        far=results["ten_million_anchors"]["far_seconds"],
    )


def _orders(ours: dict[str, float], grain: dict[str, float]) -> str:
    rows = [
        "| records | keys/s | `RecordMetadata`/s | the same with generators | Grain 0.2.18 |",
        "|---|---|---|---|---|",
    ]
    for name in [*(f"of_{n}" for n in SIZES), "of_a_shard"]:
        figures = [
            ours[f"keys_per_s_{name}"],
            ours[f"elements_per_s_{name}"],
            ours.get(f"generators_per_s_{name}"),
            grain[f"elements_per_s_{name}"],
        ]
        title = "a shard of a million" if name == "of_a_shard" else f"{int(name[3:]):,}"
        cells = [title, *("" if figure is None else f"{figure:,.0f}" for figure in figures)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _result(found: dict[str, float]) -> str:
    for name, unit in (("reads_per_s", "records/s"), ("records_per_s", "records/s")):
        if name in found:
            return f"{found[name]:,.0f} {unit}"
    return f"{found['save_ms']:.0f} ms" if "save_ms" in found else f"{found['seconds']:.2f} s"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    peers_report.PAGE.write_text(peers_report.page(), encoding="utf-8")
    for filled in (scale_report.PAGE, HERE.parent / "README.md"):
        filled.write_text(scale_report.page(filled.read_text(encoding="utf-8")), encoding="utf-8")
