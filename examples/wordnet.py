"""Draw triplets from WordNet: a word, its definition, and the definition of another word.

python examples/wordnet.py [wordnet.parquet]

The file has one row for each synset: id, title (its words), definition, domain and hypernym.
There are 45 domains, such as noun.animal. The hypernym is the id of the synset above. Synsets
of one hypernym share a split.
"""

import sys
import tempfile
import time
from pathlib import Path

import duckplets as dp

USUAL = Path(__file__).parent.parent.parent / "shared" / "corpora" / "wordnet.parquet"
MISSING = """{path} is not there.

WordNet 3.0 is free: https://wordnet.princeton.edu/download. Make a Parquet file of it with one
row a synset and the columns id, title, definition, domain and hypernym, and give its path:

    python examples/wordnet.py wordnet.parquet"""

SAME_DOMAIN = dp.TripletRecipe(
    "same_domain",
    anchor=dp.role("anchor"),
    positive=dp.role("context"),
    negative=dp.role("context"),
    strategy=dp.sql("negative.meta['domain'] = anchor.meta['domain']"),
    instruction="Find the definition of the word.",
)


def main(path: Path) -> None:
    """Ingest the file, split it, and draw some triplets."""
    source = dp.Source(
        path, anchor="title", positive="definition", id="id", group="hypernym", meta="domain"
    )
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "w.duckdb") as corpus:
        report = corpus.ingest(source, name="wordnet")
        counts = corpus.split(train=0.9, validation=0.05, test=0.05, seed=42)
        print(f"{report.added:,} synsets: {counts}")

        sampler = corpus.sampler("triplets", recipes=[SAME_DOMAIN], batch_size=256, seed=7)
        print(f"{sampler.epoch_length:,} triplets an epoch; three of the first batch:")
        for row in next(sampler).to_pylist()[:3]:
            print(f"\n  anchor    {row['anchor']}\n  positive  {row['positive']}")
            print(f"  negative  {row['negative']}")

        started = time.perf_counter()
        samples = sum(len(batch) for batch, _ in zip(sampler, range(400), strict=False))
        seconds = time.perf_counter() - started
        print(f"\n{samples:,} triplets taken", file=sys.stdout)
        print(f"in {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else USUAL
    if given.exists():
        main(given)
    else:
        print(MISSING.format(path=given))
