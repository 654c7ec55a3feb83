"""Save, stop and resume a run: it continues like an unbroken one.

python examples/resume.py
"""

import tempfile
from itertools import islice
from pathlib import Path

import duckplets as dp

FAQ = Path(__file__).parent / "data" / "faq.csv"
SOURCE = dp.Source(FAQ, anchor="question", positive="answer")
MORE = dp.Source(
    [{"q": f"Where is shelf {i}?", "a": f"In room {i % 7}, by the window."} for i in range(20)],
    anchor="q",
    positive="a",
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "faq.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(SOURCE, name="faq")
        corpus.split()
        sampler = corpus.sampler(batch_size=8, seed=7)
        for batch in islice(sampler, 100):
            batch.to_pydict()  # train on it
        print(f"saved at step {sampler.step}, epoch {sampler.epoch}: {sampler.save().name}")
        unbroken = list(islice(sampler, 50))  # what a run that nobody stops would see next
        corpus.ingest(MORE, name="more")  # the saved run is pinned to the version before

    # Later, and in another process as a rule.
    with dp.resume(path) as sampler:
        print(f"resumed at step {sampler.step}, corpus version {sampler.settings.corpus_version}")
        resumed = list(islice(sampler, 50))
        same = all(a.table.equals(b.table) for a, b in zip(unbroken, resumed, strict=True))
        print(f"the next 50 batches are those of the unbroken run: {same}")

        # No state is carried but the position, so any batch can be computed again.
        again = sampler.batch_at(120)
        print(f"step 120 by itself is the same: {again.table.equals(resumed[20].table)}")
        assert same
