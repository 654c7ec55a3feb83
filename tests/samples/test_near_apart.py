"""``in_batch_margin``: no sample beside an anchor that a text of it is a positive of, or nearly."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import pytest
from commands import error
from effort import often, some
from mined_corpora import write_mining
from prebuilt import prebuilt

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere

RECIPE = dp.TripletRecipe("near", dp.role("anchor"), dp.role("context"), dp.role("context"))
RECORDS = 240
ABOVE, MARGIN = 0.9, 0.1
KINDS = [
    {"negatives": dp.Negatives(2, by="random")},
    {"negatives": dp.Negatives(1, by="judge"), "options": dp.Options(swap=True)},
    {"kind": "labelled_pairs", "negatives": dp.Negatives(2, by="random")},
]


@prebuilt
def judged(path, seed, crowd):
    """Records of which a fifth ask what others ask, with candidates near and far.

    A candidate of an anchor is near if it scores above .9 of 10. Each is so with a chance that
    gives an anchor about ``crowd`` of them; every fifth positive was not ranked.
    """
    draw, corpus = random.Random(seed), dp.Corpus(path)
    rows = [
        {"id": str(i), "q": f"asks {i if i % 5 else i % 30}", "a": f"answer {i}"}
        for i in range(RECORDS)
    ]
    corpus.ingest(rows, name="s", id="id", anchor="q", positive="a")
    corpus.split(1, 0, 0)
    corpus.add_recipe(RECIPE)
    found = corpus.sql("SELECT section_key, role FROM sections ORDER BY ALL").to_pylist()
    anchors, answers = ([r["section_key"] for r in found if r["role"] == role]
                        for role in ("anchor", "context"))  # fmt: skip
    scores = {}
    for anchor in anchors:
        near = draw.sample(answers, draw.randrange(2 * crowd + 1))
        far = draw.sample(answers, 5)
        scored = dict.fromkeys(far, 9.0) | dict.fromkeys(near, 9.5)
        scores[anchor] = sorted(scored.items(), key=lambda item: -item[1])
    ranked = {anchor: 10.0 for number, anchor in enumerate(anchors) if number % 5}
    write_mining(corpus, RECIPE, scores, source="s", scorer="judge", positives=ranked)
    return corpus


def kept_apart(corpus):
    """What must not stand beside an anchor's record, in plain Python."""
    asked, answers = defaultdict(list[str]), dict[str, str]()
    for row in corpus.sql(
        "SELECT record_id, role, text FROM sections JOIN records USING (record_key)"
    ).to_pylist():
        if row["role"] == "anchor":
            asked[row["text"]].append(row["record_id"])
        else:
            answers[row["record_id"]] = row["text"]
    found = {record: {answers[other] for other in of} for of in asked.values() for record in of}
    for row in corpus.sql(
        "SELECT anchors.record_id, near.text, found.score, found.positive_score AS own "
        "FROM candidates AS found "
        "JOIN sections AS asking ON asking.section_key = found.anchor_section_key "
        "JOIN records AS anchors ON anchors.record_key = asking.record_key "
        "JOIN sections AS near ON near.section_key = found.negative_section_key"
    ).to_pylist():
        if row["own"] is not None and row["score"] > ABOVE * row["own"]:
            found[row["record_id"]].add(row["text"])
    return found


@pytest.mark.parametrize(
    ("kind", "of", "crowd"),
    some(product(range(len(KINDS)), [(16, 42), (5, 1), (24, 7)], [0, 4, 30]), less=6),
)
def test_no_batch_has_a_text_near_an_anchor_of_another_sample(tmp_path, kind, of, crowd):
    size, seed = of
    if crowd == 30 and size == 24:
        size = 8  # of so many near texts no larger batch is free
    given = {**KINDS[kind], "recipes": [RECIPE], "batch_size": size, "epochs": 2, "seed": seed}
    with judged(tmp_path / "c.duckdb", seed, crowd) as corpus:
        near = kept_apart(corpus)
        margin = replace(given["negatives"], in_batch_margin=("judge", MARGIN))
        sampler = corpus.sampler(**given | {"negatives": margin})
        slots = [name for name in ("anchor", "positive", "negative_1", "negative_2", "negative",
                                   "other") if name in sampler.settings.columns]  # fmt: skip
        batches = [*sampler]
        served = sampler.served(0, sampler.position)
        asking = served["anchor_record_id"].to_pylist()
        for batch in batches:
            texts = [(at, text) for slot in slots for at, text in enumerate(batch[slot])]
            assert len(texts) == len({text for _, text in texts})
            records = asking[batch.position : batch.position + len(batch)]
            for at, text in texts:
                beside = {*records[:at], *records[at + 1 :]} - {records[at]}
                assert not any(text in near[record] for record in beside)
        plain = corpus.sampler(**given).served(0, sampler.position)
        gave = len(served) - served["displaced"].null_count
        due = Counter(plain["anchor_record_id"].to_pylist())
        assert (due - Counter(served["anchor_record_id"].to_pylist())).total() <= gave
        assert gave <= len(served) * (0.1 if crowd < 30 else 1)
        assert_resumes_everywhere(corpus.sampler(**given | {"negatives": margin}), often(4, less=2))


def test_missing_candidates_are_noted_and_a_batch_too_large_is_refused(tmp_path):
    with judged(tmp_path / "c.duckdb", 3, 30) as corpus:
        sampler = corpus.sampler(
            recipes=[RECIPE],
            batch_size=4,
            negatives=dp.Negatives(in_batch_margin=("judge", MARGIN)),
        )
        assert "has not ranked a positive of 48 anchors" in "\n".join(sampler.notes)
        assert "within 0.1 of the positive's score" in sampler.describe()
        with pytest.raises(dp.RecipeError, match=r"without a repeated text.* Lower batch_size"):
            corpus.sampler(
                recipes=[RECIPE],
                batch_size=200,
                negatives=dp.Negatives(in_batch_margin=("judge", MARGIN)),
            )
        more = [{"q": f"asks more {i}", "a": f"answers {i}"} for i in range(20)]
        corpus.ingest(more, name="t", anchor="q", positive="a")
        both = corpus.sampler(
            recipes=[RECIPE],
            batch_size=4,
            negatives=dp.Negatives(in_batch_margin=("judge", MARGIN)),
        )
        assert "no candidates of judge in source t, so in_batch_margin knows only" in "\n".join(
            both.notes
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"in_batch_margin": "judge"}, "a margin such as 0.05, or a scorer and one"),
        ({"in_batch_margin": 0.1}, "name its scorer, as in in_batch_margin="),
        (
            {"in_batch_margin": ("judge", 1)},
            "in_batch_margin=1: give a finite number from 0 to 0.99",
        ),
        ({"in_batch_margin": ("judge", float("nan"))}, "in_batch_margin=nan"),
        ({"in_batch_margin": (7, 0.1)}, "in_batch_margin: scorer=7"),
        ({"in_batch_margin": ("juge", 0.1)}, "no candidates of scorer 'juge'.*'judge'"),
        ({"in_batch_margin": ("judge", 0.1), "no_duplicates": "negatives"}, "moves samples"),
        ({"in_batch_margin": ("judge", 0.1), "kind": "texts"}, "texts have no negatives"),
        ({"in_batch_margin": ("judge", 0.1), "kind": "pairs"}, "pairs have no negatives"),
    ],
)
def test_texts_that_cannot_be_separated_are_refused(tmp_path, given, said):
    margin = {"in_batch_margin": given["in_batch_margin"]}
    run = {name: value for name, value in given.items() if name not in margin}
    with (
        judged(tmp_path / "c.duckdb", 3, 4) as corpus,
        pytest.raises((dp.SamplerError, dp.StateMismatchError), match=said),
    ):
        corpus.sampler(**run, recipes=[RECIPE], negatives=margin)


def test_a_saved_run_keeps_the_candidates_it_began_with(tmp_path):
    path = tmp_path / "c.duckdb"
    with judged(path, 3, 4) as corpus:
        sampler = corpus.sampler(
            recipes=[RECIPE],
            batch_size=8,
            seed=1,
            negatives=dp.Negatives(in_batch_margin=("judge", MARGIN)),
        )
        next(sampler)
        sampler.save()
        expected = next(sampler)
        sampler.close()
        write_mining(corpus, RECIPE, {}, source="s", scorer="judge")
        corpus.compact()
        assert next(corpus.resume()).table.equals(expected.table)
        with pytest.raises(dp.SamplerError, match="a saved run cannot change in_batch_margin="):
            corpus.resume(negatives=dp.Negatives(in_batch_margin=("judge", 0.5)))
        margin = 'in_batch_margin=["judge", 5]'
        assert "from 0 to 0.99" in error("sample", path, "--steps", "1", "--set", margin)
        other = corpus.sampler(recipes=[RECIPE], batch_size=8, seed=1, run="b", no_duplicates=True)
        assert not other.batch_at(1).table.equals(expected.table)
        corpus.ingest(
            [{"id": "x", "q": "x", "a": "y"}], name="s", id="id", anchor="q", positive="a"
        )
        corpus.split(1, 0, 0)
        with pytest.raises(dp.StateMismatchError, match="stale"):
            corpus.resume(version="newest")
        write_mining(corpus, RECIPE, {}, source="s", scorer="judge")
        assert corpus.resume(version="newest").settings.versions[-1].in_batch.minings.by_source["s"]
