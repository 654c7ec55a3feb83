"""Golden draws: the first thousand samples of whole runs, which must never change.

A file has the first twenty in clear, to see what changed, and a digest of every hundred. If one
differs, a run that somebody saved would go on with other samples: that is a new ``ORDER_VERSION``.
"""

import hashlib
from itertools import islice

import pytest
from corpora import odd_corpus
from effort import some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.samples.columns import slot_names

DRAWS, SHOWN, DIGESTED = 1000, 20, 100
SOURCES = ("alpha", "bravo", "charlie")
TITLE = dp.TripletRecipe("title", dp.role("anchor"), dp.role("context"), dp.role("context"))
BODY = dp.TripletRecipe("body", dp.role("context"), dp.role("anchor"), dp.any_section(), weight=0.3)
TOPIC = dp.TripletRecipe(
    "topic",
    dp.role("context"),
    dp.any_section(),
    dp.any_section(),
    strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
)
WINDOWS = dp.TripletRecipe(
    "windows", dp.role("context"), dp.role("context"), dp.role("context"), per="chunk"
)
PHASED = dp.Mixture(
    {"alpha": 3, "charlie": 0},
    phases=[dp.Phase(7, {"charlie": 1.009}), dp.Phase(23, {"alpha": 0, "bravo": 0.1}, 0.1)],
    omitted=1,
)
RAMPED = dp.Mixture({"bravo": 0}, anneal=dp.Anneal(5, {"alpha": 0, "bravo": 7}, 40), omitted=1)
TEMPERED = dp.Mixture({"alpha": 100, "bravo": 10}, temperature=3, omitted=1)

RUNS = {
    "defaults": {},
    "mixture_phases": {"recipes": [TITLE, BODY], "mixture": PHASED},
    "weights_set": {
        "recipes": [TITLE],
        "mixture": dp.Mixture({}, omitted=1),
        "told": {3: {"bravo": 0}, 30: {"alpha": 5}},
    },
    "ranks": {"recipes": [TITLE, BODY], "mixture": PHASED, "batch_size": 8, "world_size": 3},
    "pairs": {"kind": "pairs", "recipes": [TITLE], "negatives": 2, "mixture": RAMPED},
    "texts": {"kind": "texts", "mixture": PHASED, "batch_size": 33},
    "no_duplicates": {"recipes": [TITLE], "no_duplicates": True, "mixture": PHASED},
    "epochs_padded": {"recipes": [TITLE], "epochs": 3, "remainder": "pad", "batch_size": 100},
    "from_1000000000000": {"mixture": TEMPERED, "position": 10**12},
    "odd_chunks": {"odd": True, "recipes": [WINDOWS, TOPIC]},
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with (
        toy_corpus(folder / "toy.duckdb", 120, sources=SOURCES) as toy,
        odd_corpus(folder / "odd.duckdb", 150, 3, sources=2) as odd,
    ):
        yield {False: toy, True: odd}


def rows(corpus, run):
    """A line for every sample: its position, what it is drawn by, and the window of each slot."""
    usual = {"kind": "triplets", "batch_size": 20, "prefetch": 0, "preset": "crate"}
    arguments = usual | run
    position, told = arguments.pop("position", 0), arguments.pop("told", {})
    slots = slot_names(arguments["kind"], arguments.get("negatives", 1))
    by_kind = {"triplets": ["swapped"], "pairs": ["swapped", "label"], "texts": []}
    names = ["source", "recipe", *by_kind[arguments["kind"]]]
    ids = [f"{slot}_{what}" for slot in slots for what in ("record_id", "section", "window")]
    arguments["columns"] = ["position", *names, *ids]
    ranks = [corpus.sampler(**arguments, rank=r) for r in range(arguments.get("world_size", 1))]
    for rank in ranks:
        rank.load_state_dict(rank.state_dict() | {"position": position})
    while True:
        for rank in ranks:
            if rank.step in told:
                rank.set_weights(told[rank.step])
            for row in next(rank).to_pylist():
                windows = (
                    f"{row[f'{s}_record_id']}.{row[f'{s}_section']}.{row[f'{s}_window']}"
                    for s in slots
                )
                yield " ".join([str(row["position"]), *(str(row[n]) for n in names), "|", *windows])


@pytest.mark.parametrize("name", some(RUNS, less=7))
def test_the_first_thousand_samples_never_change(name, corpora, golden):
    run = dict(RUNS[name])
    found = list(islice(rows(corpora[run.pop("odd", False)], run), DRAWS))
    assert len(found) == DRAWS == len(set(found))
    lines = found[:SHOWN]
    for start in range(0, DRAWS, DIGESTED):
        text = "\n".join(found[start : start + DIGESTED])
        digest = hashlib.sha256(text.encode()).hexdigest()
        lines.append(f"{start} to {start + DIGESTED - 1}: sha256 {digest}")
    golden(f"order/run_{name}.txt", "\n".join(lines) + "\n")
