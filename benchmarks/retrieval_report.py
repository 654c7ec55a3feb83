"""Fills docs/retrieval.md from retrieval.json: python benchmarks/retrieval_report.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "retrieval.md"
FIGURES = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)
METRICS = ("ndcg@10", "recall@10")


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
