"""Anchors of a pool are those for which a sample exists: compared with plain Python."""

import random

import pytest
from effort import often

import duckplets as dp

# some negatives are no positive of their own record, which may not draw them all the same
ROLES = (dp.role("anchor"), dp.position(1), dp.role("context"))
TEXTS = ("red", "blue", "green", "grey")


def drawn(draw):
    """Return records of two sources: the anchor and the contexts of each, of few texts."""
    return {
        source: [
            (draw.choice(TEXTS), draw.choices(TEXTS, k=draw.randint(1, 2)))
            for _ in range(draw.randint(1, 4))
        ]
        for source in ("a", "b")
    }


def expected(records, source, beyond, negatives):
    """Return the number of anchors of a source with a positive and enough different negatives.

    Known answers of its question are none.
    """
    reach = [(of, n) for of in records for n in range(len(records[of])) if of == source or beyond]
    found = 0
    for number, (anchor, contexts) in enumerate(records[source]):
        others = {t for of, n in reach if (of, n) != (source, number) for t in records[of][n][1]}
        known = {records[of][n][1][0] for of, n in reach if records[of][n][0] == anchor}
        legal = others - known - {anchor, contexts[0]}
        found += contexts[0] != anchor and len(legal) >= negatives
    return found


@pytest.mark.parametrize("seed", range(often(60, less=4)))
def test_every_anchor_has_a_sample_and_no_other_record_does(tmp_path, seed):
    records = drawn(random.Random(seed))
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        for name, rows in records.items():
            told = [
                {
                    "id": str(n),
                    "sections": [
                        {"role": "anchor", "text": anchor},
                        *({"role": "context", "text": text} for text in contexts),
                    ],
                }
                for n, (anchor, contexts) in enumerate(rows)
            ]
            corpus.ingest(dp.sources.MemorySource(told, id="id"), name=name, progress=False)
        corpus.split(1, 0, 0)
        for reach in ("source", "split"):
            for negatives in (1, 2):
                recipe = dp.TripletRecipe("r", *ROLES, negatives_from=reach)
                asked = {
                    "recipes": [recipe],
                    "negatives": negatives,
                    "options": dp.Options(empty="skip"),
                }
                found = dict.fromkeys(records, 0)
                try:
                    with corpus.sampler(batch_size=1, **asked) as sampler:
                        table = sampler.forecast().table
                    found |= zip(
                        *(table[c].to_pylist() for c in ("source", "anchors")), strict=True
                    )
                except dp.EmptyPoolError:
                    pass
                for name in records:
                    legal = expected(records, name, reach == "split", negatives)
                    assert found[name] == legal, (records, name, reach, negatives)
