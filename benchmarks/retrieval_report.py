"""Fills docs/retrieval.md from retrieval.json: python benchmarks/retrieval_report.py.

And the part of docs/benchmarks.md about collections.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "retrieval.md"
FIGURES = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)
METRICS = ("ndcg@10", "recall@10")


SPEED = """
## Collections

One run of `benchmarks/collection_speed.py` (load {load_before:.1f} before it): {documents:,}
documents of 60 words, {queries:,} queries, {read[labels]:,.0f} labels. All figures are processor
time, imports not included.

| | seconds | a second | peak memory |
|---|---|---|---|
| reading the three tables | {read[seconds]:.1f} | {read[per_s]:,.0f} rows | {read[peak_mb]:,.0f} MB |
| triplets with random negatives: first batch, then each | {draw_at_random[first_batch_seconds]:.1f} | {draw_at_random[samples_per_s]:,.0f} | {draw_at_random[peak_mb]:,.0f} MB |
| triplets with mined negatives | {draw_mined[first_batch_seconds]:.1f} | {draw_mined[samples_per_s]:,.0f} | {draw_mined[peak_mb]:,.0f} MB |
| lists of positives and 7 mined negatives, with labels and scores | {draw_lists[first_batch_seconds]:.1f} | {draw_lists[samples_per_s]:,.0f} | {draw_lists[peak_mb]:,.0f} MB |
| triplets of {queries:,} pairs without labels | {draw_pairs[first_batch_seconds]:.1f} | {draw_pairs[samples_per_s]:,.0f} | {draw_pairs[peak_mb]:,.0f} MB |
| BM25, 100 candidates of each query, index and guards included | {mine[seconds]:.1f} | {mine[queries_per_s]:,.0f} queries | {mine[peak_mb]:,.0f} MB |
| bm25s with numba, ranking alone; index | {bm25s[index_seconds]:.1f} | {bm25s[queries_per_s]:,.0f} queries | {bm25s[peak_mb]:,.0f} MB |
| by vectors of 256 numbers, guards included | {dense[seconds]:.1f} | {dense[queries_per_s]:,.0f} queries | {dense[peak_mb]:,.0f} MB |
| `mine_hard_negatives`, the same vectors, an eighth of the queries | {mine_hard_negatives[seconds]:.1f} | {mine_hard_negatives[queries_per_s]:,.0f} queries | {mine_hard_negatives[peak_mb]:,.0f} MB |
"""


def speed_section(found: dict[str, Any]) -> str:
    """Return the section for the output of ``collection_speed.py``."""
    read = found["read"]
    per_s = read["added"] / read["seconds"]
    return SPEED.format(**{**found, "read": {**read, "per_s": per_s}})


def section(found: dict[str, Any]) -> str:
    """Return the table and what it is of."""
    rows = [
        "| trained on | pairs an epoch | nDCG@10 | difference from before | recall@10 |",
        "|---|---|---|---|---|",
    ]
    for name, arm in found["arms"].items():
        ndcg, recall = ({m["metric"]: m for m in arm["metrics"]}[metric] for metric in METRICS)
        rows.append(
            f"| {name} | {arm['pairs']:,} | {ndcg['second']:.3f} | {ndcg['difference']:+.3f} "
            f"({ndcg['low']:+.3f} to {ndcg['high']:+.3f}) | {recall['second']:.3f} |"
        )
    before = next(iter(found["arms"].values()))["metrics"][0]["first"]
    mined = found["mined"]
    return (
        f"{found['queries']:,} test queries over {found['documents']:,} documents, "
        f"{found['steps']} steps of 256 pairs. Before training nDCG@10 is {before:.3f}. BM25 finds "
        f"{mined['recall@10']:.2f} of the training labels among its first 10, and "
        f"{mined['recall@100']:.2f} among its first 100. Intervals are of 95 %, over queries.\n\n"
        + "\n".join(rows)
        + "\n"
    )


def page(text: str) -> str:
    """Return the page with its figures."""
    found = json.loads((HERE / "retrieval.json").read_text(encoding="utf-8"))
    return FIGURES.sub(lambda of: f"{of[1]}{section(found)}{of[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
