"""Policies: what they leave is what their rules say, case by case and against plain Python."""

import random
from collections import Counter

import pytest
from effort import often
from mined_corpora import write_mining
from prebuilt import prebuilt
from questions import fates_of

import duckplets as dp
from duckplets.mining import policy as policies
from duckplets.mining.store import Minings
from duckplets.recipes.mined import Mined

RECIPE = dp.TripletRecipe("scored", dp.role("anchor"), dp.role("context"), dp.role("context"))
ANCHORS = 40


@prebuilt
def scored(path):
    corpus = dp.Corpus(path)
    rows = [{"id": f"r{i:02}", "q": f"question {i}", "a": f"answer {i}"} for i in range(ANCHORS)]
    corpus.ingest(rows, name="s", id="id", anchor="q", positive="a")
    corpus.split(1, 0, 0)
    corpus.add_recipe(RECIPE)
    return corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with scored(tmp_path_factory.mktemp("policies") / "c.duckdb") as corpus:
        yield corpus


def sections(corpus, role):
    rows = corpus.sql(
        "SELECT section_key FROM sections WHERE role = $role ORDER BY ALL", {"role": role}
    )
    return list(rows["section_key"].to_pylist())


def mine(corpus, lists, positives):
    """Store lists of scores as candidates; returns the anchors."""
    anchors, documents = sections(corpus, "anchor")[: len(lists)], sections(corpus, "context")
    rows = {a: list(zip(documents, of, strict=False)) for a, of in zip(anchors, lists, strict=True)}
    known = {a: p for a, p in zip(anchors, positives, strict=True) if p is not None}
    write_mining(corpus, RECIPE, rows, source="s", positives=known, block=17)
    return anchors


def left(corpus, policy, anchors):
    (mining,) = Minings(corpus.database).found("scored")
    found = {anchor: [] for anchor in anchors}
    for owners, _, _, scores, _ in policies.survivors(
        corpus.database, mining, policy, corpus.version
    ):
        for owner, score in zip(owners.tolist(), scores.tolist(), strict=True):
            found[owner].append(score)
    return list(found.values())


TENS = [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]
COSINES = [0.75, 0.5, 0.25, 0.0, -0.25, -0.5, -0.75]
CASES = [
    ("the first few", {"range_max": 3}, TENS, 95, [100, 90, 80]),
    ("all there are", {}, TENS, 95, TENS),
    ("range_min passes over the first", {"range_min": 3, "range_max": 5}, TENS, None, [70, 60]),
    ("max_score, and a tie with it", {"range_max": 2, "max_score": 70}, TENS, None, [70, 60]),
    ("min_score, and a tie with it", {"min_score": 80}, TENS, None, TENS[:3]),
    ("between both", {"min_score": 40, "max_score": 60}, TENS, 95, [60, 50, 40]),
    ("a margin of 0: no higher than the positive", {"absolute_margin": 0}, [3, 2, 1], 2, [2, 1]),
    ("absolute margin, and a tie", {"range_max": 2, "absolute_margin": 30}, TENS, 90, [60, 50]),
    ("negative ones let higher in", {"range_max": 2, "absolute_margin": -10}, TENS, 80, [90, 80]),
    ("absolute margin below zero", {"absolute_margin": 0.25}, COSINES, -0.25, [-0.5, -0.75]),
    ("relative margin, and a tie", {"range_max": 2, "relative_margin": 0.25}, TENS, 80, [60, 50]),
    ("5 % of 20 lets 19 in", {"relative_margin": 0.05}, [20, 19.5, 19, 18], 20, [19, 18]),
    ("of a negative positive it goes down", {"relative_margin": 0.5}, COSINES, -0.5, [-0.75]),
    ("of a positive at zero", {"range_max": 2, "relative_margin": 0.5}, COSINES, 0, [0, -0.25]),
    ("a negative one goes up", {"range_max": 1, "relative_margin": -0.5}, COSINES, -0.5, [-0.25]),
    ("both margins: the lower", {"range_max": 2, "absolute_margin": 10, "relative_margin": 0.5},
     TENS, 80, [40, 30]),
    ("margin and max_score", {"range_max": 2, "relative_margin": 0.25, "max_score": 30}, TENS, 80,
     [30, 20]),
    ("margin and min_score leave one", {"relative_margin": 0.25, "min_score": 55}, TENS, 80, [60]),
    ("margin and min_score leave none", {"relative_margin": 0.5, "min_score": 55}, TENS, 80, []),
    ("the range counts what is left", {"range_min": 2, "range_max": 4, "relative_margin": 0.25},
     TENS, 80, [40, 30]),
    ("equal scores keep their order", {"range_max": 3}, [5, 5, 5, 5], None, [5, 5, 5]),
    ("equal scores at the ceiling", {"max_score": 5}, [7, 5, 5, 3], None, [5, 5, 3]),
    ("no positive ranked: no margin", {"range_max": 2, "relative_margin": 0.5}, TENS, None,
     [100, 90]),
    ("no positive ranked: max_score all the same", {"range_max": 2, "max_score": 80}, TENS, None,
     [80, 70]),
    ("no candidate", {}, [], 9, []),
    ("range_min passes over all", {"range_min": 4}, [3, 2, 1], 9, []),
]  # fmt: skip


def test_the_rules_of_sentence_transformers_case_by_case(corpus):
    anchors = mine(corpus, [case[2] for case in CASES], [case[3] for case in CASES])
    for number, (what, settings, _, _, kept) in enumerate(CASES):
        assert left(corpus, Mined(**settings), anchors)[number] == kept, what


GRIDS = {
    "scores of BM25": lambda draw: draw.randrange(0, 1 << 25) / (1 << 20),
    "few scores, many ties": lambda draw: float(draw.randrange(-4, 5)),
    "cosines with two decimals": lambda draw: draw.randrange(-100, 101) / 100,
    "of all sizes": lambda draw: draw.gauss(0, 1) * 10 ** draw.uniform(-9, 9),
}


def random_policy(draw, score):
    settings = {"range_min": draw.choice([0, 0, 1, 3, 8])}
    settings["range_max"] = settings["range_min"] + draw.randrange(1, 20)
    low, high = sorted([score(draw), score(draw)])
    for name, value in {
        "min_score": low,
        "max_score": high,
        "absolute_margin": draw.choice([0, 0.1, -0.5, score(draw)]),
        "relative_margin": draw.choice([0, 0.05, 0.5, -0.1, 1.5]),
    }.items():
        if draw.random() < 0.4:
            settings[name] = value
    return Mined(**settings)


@pytest.mark.parametrize("grid", GRIDS)
def test_policies_leave_what_plain_python_does(grid, corpus):
    score, draw = GRIDS[grid], random.Random(grid)
    lists = [
        sorted((score(draw) for _ in range(draw.randrange(0, 35))), reverse=True)
        for _ in range(ANCHORS)
    ]
    # Often the score of a candidate, so that margins of 0 meet ties.
    positives = [draw.choice([score(draw), draw.choice(of or [0.0]), None]) for of in lists]
    anchors = mine(corpus, lists, positives)
    (mining,) = Minings(corpus.database).found("scored")
    for _ in range(often(60, less=2)):
        policy = random_policy(draw, score)
        fates = [fates_of(policy, *each) for each in zip(lists, positives, strict=True)]
        expected = [
            [s for s, fate in zip(scores, of, strict=True) if fate == "kept"]
            for scores, of in zip(lists, fates, strict=True)
        ]
        assert left(corpus, policy, anchors) == expected, policy
        told = policies.outcomes(corpus.database, mining, policy)
        counts = Counter(fate for of in fates for fate in of)
        kept = Counter("none" if not of else "full" if len(of) == policy.wanted else "short"
                       for of in expected)  # fmt: skip
        assert {name: n for name, n in told.items() if n} == dict(counts | kept), policy
        corpus.remove(recipe="scored")
        corpus.add_recipe(dp.TripletRecipe("scored", *RECIPE.selectors, by=policy))
        shown = corpus.sql("SELECT anchor_section_key AS a, score FROM negatives ORDER BY a, rank")
        by_anchor = {anchor: [] for anchor in anchors}
        for anchor, one in zip(*(c.to_pylist() for c in shown.columns), strict=True):
            by_anchor[anchor].append(one)
        assert list(by_anchor.values()) == expected, "the view goes by the same law"
        (summary,) = corpus.negatives(recipe="scored").to_pylist()
        assert summary["kept"] == counts["kept"]
        number = draw.randrange(ANCHORS)
        if lists[number]:
            why = corpus.negatives(f"s/r{number:02}", recipe="scored").to_pylist()
            assert [row["score"] for row in why] == lists[number]
            assert [row["cut"] or "kept" for row in why] == fates[number]


def test_the_newest_scorer_counts_unless_a_recipe_names_one(corpus):
    anchors, documents = sections(corpus, "anchor"), sections(corpus, "context")
    corpus.remove(recipe="scored")
    corpus.add_recipe(RECIPE)
    for scorer, document in (("bm25", 0), ("given", 1)):
        rows = {anchors[5]: [(documents[document], 1.0)]}
        write_mining(corpus, RECIPE, rows, source="s", scorer=scorer)
    assert corpus.sql("FROM candidates").num_rows == 2
    assert corpus.sql("FROM negatives")["scorer"].to_pylist() == ["given"]
    corpus.remove(recipe="scored")
    corpus.add_recipe(dp.TripletRecipe("scored", *RECIPE.selectors, by="bm25"))
    (row,) = corpus.sql("FROM hard_negatives").to_pylist()
    assert (row["anchor"], row["negative"], row["rank"]) == ("question 5", "answer 0", 1)
    with pytest.raises(dp.RecipeError, match=r"no candidates were mined for .* by 'dense'"):
        corpus.negatives(negatives=dp.Negatives(by="dense"))
    with pytest.raises(dp.RecipeError, match="no candidates of 'nobody' were mined"):
        corpus.negatives("nobody")
    with pytest.raises(dp.RecipeError, match="record id or the text of an anchor"):
        corpus.negatives(RECIPE)


WRONG = [
    ({"range_min": 5, "range_max": 5}, "range_max=5 must be greater than range_min=5"),
    ({"range_max": 0}, "range_max=0: give an integer from 1"),
    ({"min_score": 2.0, "max_score": 1.0}, "min_score=2.0 is above max_score=1.0"),
    ({"relative_margin": float("nan")}, "relative_margin=nan: give a finite number"),
    ({"sampling": "scores"}, "sampling='scores': give 'turn' or 'score'"),
    ({"when_short": "backfill"}, "when_short='backfill': give 'keep', 'drop', 'random'"),
    ({"by": "random", "max_score": 1.0}, "max_score: by='random' has no candidates to cut"),
    ({"by": "a/b"}, "by='a/b': give up to 64 printable characters without '/'"),
]


def test_wrong_policies_are_refused():
    for settings, message in WRONG:
        with pytest.raises(dp.SamplerError, match=message):
            dp.Negatives(**{"by": "bm25"} | settings)
