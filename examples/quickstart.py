"""Go from a CSV file to batches of triplets, in ten lines.

python examples/quickstart.py
"""

import tempfile
from pathlib import Path

import duckplets as dp

FAQ = Path(__file__).parent / "data" / "faq.csv"

with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "faq.duckdb") as corpus:
    source = dp.Source(FAQ, anchor="question", positive="answer", date="updated", meta="topic")
    report = corpus.ingest(source, name="faq")
    counts = corpus.split(train=0.8, validation=0.1, test=0.1, seed=42)
    print(f"{report.added} records: {counts}")

    sampler = corpus.sampler("triplets", split="train", batch_size=8, seed=7)
    batch = next(sampler)  # or: for batch in sampler, which never ends
    for anchor, positive, negative in zip(
        batch["anchor"], batch["positive"], batch["negative"], strict=True
    ):
        print(f"\nanchor    {anchor}\npositive  {positive}\nnegative  {negative}")
