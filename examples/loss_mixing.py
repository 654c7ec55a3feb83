"""Draw sources with a higher loss more often, and do exactly the same in a resumed run.

python examples/loss_mixing.py

A loop reports the loss of every source; every 20 steps a rule makes weights of them, here one
in SQL. Losses and weights are saved with the run, so a stopped run continues like an unbroken
one. A loop over several ranks has to report the same, say the mean, on all of them.
"""

import math
import tempfile
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

import duckplets as dp

SOURCES = {"easy": 8.0, "middling": 30.0, "hard": 120.0}  # steps in which its loss falls to a third
STEPS = 80
EVERY = 20
STOPPED = 50  # between two times that weights are set

# The weight of a source: its median loss since the last time, beside that of all. A median is one
# of the losses, so it does not depend on the order in which threads add up.
RULE = """
    WITH recent AS (FROM losses WHERE step >= $since),
        every AS (SELECT quantile_disc(loss, 0.5) AS middle FROM recent)
    SELECT source, greatest(quantile_disc(loss, 0.5) / any_value(middle), 0.05) AS weight
    FROM recent, every
    GROUP BY source
"""


def weights_of(losses: pa.Table, step: int) -> dict[str, float]:
    """Return the weights that follow from the losses before a step."""
    with duckdb.connect() as memory:
        memory.register("losses", losses)
        return dict(memory.execute(RULE, {"since": step - EVERY}).fetchall())


def train(sampler: dp.Sampler, steps: int) -> list[pa.Table]:
    """Train for some steps, and return the samples."""
    seen = []
    for batch in islice(sampler, steps):
        seen.append(batch.table)
        # In the place of a model: the more it has seen of a source, the less it loses.
        visits = sampler.metrics()
        samples = {name: visits[f"data/{name}/samples"] for name in SOURCES}
        sampler.report_loss({n: math.exp(-samples[n] / 8 / SOURCES[n]) for n in SOURCES})
        if sampler.step % EVERY == 0:
            sampler.set_weights(weights_of(sampler.losses(), sampler.step))
    return seen


def shares(sampler: dp.Sampler) -> str:
    """Return what was drawn of each source so far."""
    found = {name: sampler.metrics()[f"data/{name}/samples"] for name in SOURCES}
    return ", ".join(f"{name} {count / sampler.position:.0%}" for name, count in found.items())


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "mixed.duckdb"
    with dp.Corpus(path) as corpus:
        for name in SOURCES:
            rows = [{"q": f"What is {name} {i}?", "a": f"It is {i * i}."} for i in range(60)]
            source = dp.Source(rows, anchor="q", positive="a")
            corpus.ingest(source, name=name, progress=False)
        corpus.split()

    with dp.Corpus(path, read_only=True) as corpus:
        with corpus.sampler(batch_size=16, seed=7, run="unbroken") as sampler:
            unbroken = train(sampler, STEPS)
            print(f"unbroken: {shares(sampler)}")
            told = sampler.losses()
        with corpus.sampler(batch_size=16, seed=7, run="broken") as sampler:
            first = train(sampler, STOPPED)
            sampler.save()
        with corpus.resume("broken") as sampler:
            rest = train(sampler, STEPS - STOPPED)
            print(f"resumed:  {shares(sampler)}")
            same = sampler.losses().equals(told)

    equal = all(a.equals(b) for a, b in zip(unbroken, [*first, *rest], strict=True))
    print(f"all {STEPS} batches are those of the unbroken run: {equal}, and the losses: {same}")
