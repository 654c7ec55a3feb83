"""Knobs: what they select is what their rules say, case by case and against plain Python."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from effort import thorough

from duckplets.mining.cutoffs import (
    CEILINGS,
    OUTCOMES,
    Selection,
    ceilings,
    count_above,
    count_below,
    select,
    tally,
)
from duckplets.recipes.bm25 import Bm25, bm25

UNKNOWN = math.nan


class Chosen(NamedTuple):
    kept: list[list[float]]
    outcomes: list[str]
    counts: dict[str, int]


def choose(settings: Bm25, lists: list[list[float]], positives: list[float]) -> Chosen:
    """What is kept of full lists of scores, sorted, by way of all the functions."""
    starts = np.cumsum([0, *map(len, lists)])
    scores = np.array([s for scores in lists for s in scores], dtype=np.float64)
    high = ceilings(settings, np.array(positives, dtype=np.float64))
    above, below = count_above(high, starts, scores), count_below(settings, starts, scores)
    left = scores <= np.repeat(high.min(axis=0), np.diff(starts))
    first = np.concatenate([[0], np.cumsum(left)])[starts]
    selection = select(settings, first, scores[left], above.max(axis=0))
    counts = tally(settings, np.diff(starts), above, below)
    return Chosen(rows(selection, scores[left]), outcomes(selection), counts)


def rows(selection: Selection, scores: np.ndarray) -> list[list[float]]:
    kept = scores[selection.kept]
    return [kept[a:b].tolist() for a, b in itertools.pairwise(selection.starts)]


def outcomes(selection: Selection) -> list[str]:
    return [OUTCOMES[code] for code in selection.outcomes]


TENS = [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]
COSINES = [0.75, 0.5, 0.25, 0.0, -0.25, -0.5, -0.75]

# (what, knobs, scores of the candidates, scores of the positives, kept, outcome)
GOLDEN: list[tuple[str, dict[str, Any], list[float], list[float], list[float], str]] = [
    ("the first few", {"top_k": 3}, TENS, [95], [100, 90, 80], "full"),
    ("all there are", {"top_k": 10}, TENS, [95], TENS, "full"),
    ("range_min passes over the first", {"top_k": 2, "range_min": 3}, TENS, [], [70, 60], "full"),
    (
        "range_max bounds the ranks",
        {"top_k": 3, "range_min": 1, "range_max": 3},
        TENS,
        [],
        [90, 80],
        "full",
    ),
    ("max_score, and a tie with it", {"top_k": 2, "max_score": 70}, TENS, [], [70, 60], "full"),
    ("min_score, and a tie with it", {"top_k": 9, "min_score": 80}, TENS, [], TENS[:3], "short"),
    (
        "between both scores",
        {"top_k": 3, "min_score": 40, "max_score": 60},
        TENS,
        [95],
        [60, 50, 40],
        "full",
    ),
    ("a margin of 0: no higher than the positive", {"absolute_margin": 0}, [3, 2, 1], [2], [2, 1],
     "short"),
    ("absolute margin, and a tie with it", {"top_k": 2, "absolute_margin": 30}, TENS, [90],
     [60, 50], "full"),
    ("a negative absolute margin lets higher ones in", {"top_k": 2, "absolute_margin": -10}, TENS,
     [80], [90, 80], "full"),
    ("absolute margin below zero", {"top_k": 2, "absolute_margin": 0.25}, COSINES, [-0.25],
     [-0.5, -0.75], "full"),
    ("relative margin, and a tie with it", {"top_k": 2, "relative_margin": 0.25}, TENS, [80],
     [60, 50], "full"),
    ("relative margin of 5 % of 20 lets 19 in", {"top_k": 2, "relative_margin": 0.05},
     [20, 19.5, 19, 18], [20], [19, 18], "full"),
    ("relative margin of a negative positive goes down", {"top_k": 2, "relative_margin": 0.5},
     COSINES, [-0.5], [-0.75], "short"),
    ("relative margin of a positive at zero", {"top_k": 2, "relative_margin": 0.5}, COSINES,
     [0], [0, -0.25], "full"),
    ("a negative relative margin goes up, whatever the sign", {"top_k": 1, "relative_margin": -0.5},
     COSINES, [-0.5], [-0.25], "full"),
    ("a relative margin above 1", {"top_k": 2, "relative_margin": 1.5}, COSINES, [0.5],
     [-0.25, -0.5], "full"),
    ("the lowest positive of several", {"top_k": 2, "absolute_margin": 10}, TENS, [95, 50, 70],
     [40, 30], "full"),
    ("the lowest of negative ones", {"top_k": 1, "relative_margin": 0.5}, COSINES, [0.75, -0.25],
     [-0.5], "full"),
    ("both margins: the lower ceiling", {"top_k": 2, "absolute_margin": 10, "relative_margin": 0.5},
     TENS, [80], [40, 30], "full"),
    ("both margins: the other is lower", {"top_k": 2, "absolute_margin": 50,
     "relative_margin": 0.25}, TENS, [80], [30, 20], "full"),
    ("margin and max_score", {"top_k": 2, "relative_margin": 0.25, "max_score": 30}, TENS, [80],
     [30, 20], "full"),
    ("margin and min_score leave one", {"top_k": 5, "relative_margin": 0.25, "min_score": 55},
     TENS, [80], [60], "short"),
    ("margin and min_score leave none", {"top_k": 5, "relative_margin": 0.5, "min_score": 55},
     TENS, [80], [], "none"),
    ("range_min counts survivors of a margin", {"top_k": 2, "range_min": 2,
     "relative_margin": 0.25}, TENS, [80], [40, 30], "full"),
    ("range_min raw counts ranks before the margin", {"top_k": 2, "range_min": 2,
     "relative_margin": 0.25, "range_on": "raw"}, TENS, [80], [60, 50], "full"),
    ("range_min raw beyond the margin", {"top_k": 2, "range_min": 6, "relative_margin": 0.25,
     "range_on": "raw"}, TENS, [80], [40, 30], "full"),
    ("range_max counts ranks before the margin", {"top_k": 5, "range_max": 6,
     "relative_margin": 0.25}, TENS, [80], [60, 50], "short"),
    ("a window that a margin empties", {"top_k": 5, "range_max": 4, "relative_margin": 0.25},
     TENS, [80], [], "none"),
    ("range_min and range_max with a margin", {"top_k": 5, "range_min": 1, "range_max": 6,
     "relative_margin": 0.25}, TENS, [80], [50], "short"),
    ("equal scores keep their order", {"top_k": 3}, [5, 5, 5, 5], [], [5, 5, 5], "full"),
    ("equal scores at the ceiling", {"top_k": 3, "max_score": 5}, [7, 5, 5, 3], [], [5, 5, 3],
     "full"),
    ("no positive known: no margin", {"top_k": 2, "relative_margin": 0.5, "absolute_margin": 9},
     TENS, [], [100, 90], "full"),
    ("no positive known: max_score all the same", {"top_k": 2, "relative_margin": 0.5,
     "max_score": 80}, TENS, [], [80, 70], "full"),
    ("too few", {"top_k": 5}, [3, 2, 1], [9], [3, 2, 1], "short"),
    ("no candidate", {"top_k": 5}, [], [9], [], "none"),
    ("range_min passes over all", {"top_k": 5, "range_min": 4}, [3, 2, 1], [9], [], "none"),
    ("all scores negative", {"top_k": 2, "max_score": -1, "min_score": -3}, [0, -1, -2, -3, -4],
     [], [-1, -2], "full"),
]  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN, ids=[case[0] for case in GOLDEN])
def test_the_rules_of_sentence_transformers_case_by_case(case: tuple[Any, ...]) -> None:
    _, knobs, scores, positives, kept, outcome = case
    lowest = min(positives, default=UNKNOWN)
    chosen = choose(bm25(when_short="keep", **knobs), [scores], [lowest])
    assert chosen.kept == [kept]
    assert chosen.outcomes == [outcome]
    assert sum(chosen.counts.values()) == len(scores)
    assert chosen.counts["kept"] == len(kept)


SHORT: list[tuple[str, dict[str, Any], list[float], str]] = [
    ("keep", {"range_max": 6}, [60, 50], "short"),
    ("drop", {"range_max": 6}, [], "dropped"),
    ("drop", {"range_max": 2}, [], "dropped"),
    ("random", {"range_max": 6}, [60, 50], "random"),
    ("random", {"range_max": 2}, [], "random"),
    ("backfill", {"range_max": 6}, [60, 50, 40], "backfilled"),
    ("backfill", {"range_max": 2, "top_k": 2}, [60, 50], "backfilled"),
    ("backfill", {"range_max": 6, "min_score": 45}, [60, 50], "short"),
    ("backfill", {"range_max": 6, "min_score": 65}, [], "none"),
    ("backfill", {"range_max": 7}, [60, 50, 40], "full"),
    ("backfill", {"range_max": 6, "range_min": 3, "range_on": "raw"}, [60, 50, 40], "backfilled"),
    ("backfill", {"range_max": 8, "range_min": 6, "range_on": "raw"}, [40, 30], "full"),
    ("backfill", {"range_max": 6, "range_min": 5, "range_on": "raw"}, [50], "full"),
    ("backfill", {"range_max": 6, "range_min": 1}, [50, 40, 30], "backfilled"),
    ("backfill", {"range_max": 6, "range_min": 4}, [20, 10], "backfilled"),
]


@pytest.mark.parametrize("case", SHORT, ids=[f"{case[0]} {case[1]}" for case in SHORT])
def test_an_anchor_left_short_is_treated_as_asked(case: tuple[Any, ...]) -> None:
    policy, knobs, kept, outcome = case
    settings = Bm25(**{"top_k": 3, "relative_margin": 0.25, "when_short": policy} | knobs)
    chosen = choose(settings, [TENS], [80])
    assert chosen.kept == [kept]
    assert chosen.outcomes == [outcome]


COUNTED: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("keep", {}, {"relative_margin": 4, "range": 1, "not_needed": 2, "kept": 3}),
    ("keep", {"max_score": 45}, {"relative_margin": 4, "max_score": 2, "range": 1, "kept": 3}),
    (
        "keep",
        {"absolute_margin": 5, "max_score": 75},
        {"absolute_margin": 3, "relative_margin": 1, "range": 1, "not_needed": 2, "kept": 3},
    ),
    ("keep", {"min_score": 35}, {"relative_margin": 4, "min_score": 3, "range": 1, "kept": 2}),
    ("keep", {"min_score": 65}, {"relative_margin": 4, "min_score": 6}),
    ("keep", {"range_max": 6}, {"relative_margin": 4, "range": 5, "kept": 1}),
    ("drop", {"range_max": 6}, {"relative_margin": 4, "range": 5, "dropped": 1}),
    ("random", {"range_max": 6}, {"relative_margin": 4, "range": 5, "kept": 1}),
    ("backfill", {"range_max": 6}, {"relative_margin": 4, "range": 3, "kept": 3}),
    ("backfill", {"range_max": 9}, {"relative_margin": 4, "range": 2, "not_needed": 1, "kept": 3}),
]


@pytest.mark.parametrize("case", COUNTED, ids=[f"{case[0]} {case[1]}" for case in COUNTED])
def test_a_candidate_is_counted_where_it_was_removed_first(case: tuple[Any, ...]) -> None:
    policy, knobs, counts = case
    base = {"top_k": 3, "range_min": 1, "relative_margin": 0.25, "when_short": policy}
    chosen = choose(Bm25(**base | knobs), [TENS], [80])
    assert {name: count for name, count in chosen.counts.items() if count} == counts
    assert list(chosen.counts) == [*CEILINGS, "min_score", "range", "not_needed", "dropped", "kept"]


# -- against plain Python ---------------------------------------------------------------------


def plain(settings: Bm25, scores: list[float], positive: float) -> Chosen:
    """The rules for one anchor, candidate by candidate."""
    fates: list[str] = []
    run: list[int] = []
    beyond: list[int] = []
    survivors = 0
    for rank, score in enumerate(scores):
        fate = removed_by(settings, score, positive)
        if fate == "":
            passed_over = (rank if settings.range_on == "raw" else survivors) < settings.range_min
            outside = settings.range_max is not None and rank >= settings.range_max
            fate = "range" if passed_over or outside else "not_needed"
            survivors += 1
            if not passed_over:
                (beyond if outside else run).append(rank)
        fates.append(fate)
    chosen, outcome = run[: settings.top_k], "full"
    if len(chosen) < settings.wanted:
        chosen, outcome = left_short(settings, chosen, beyond)
    for rank in chosen:
        fates[rank] = "dropped" if outcome == "dropped" else "kept"
    kept = [] if outcome == "dropped" else [scores[rank] for rank in chosen]
    return Chosen([kept], [outcome], Counter(fates))


def removed_by(settings: Bm25, score: float, positive: float) -> str:
    absolute, relative = settings.absolute_margin, settings.relative_margin
    if absolute is not None and score + absolute > positive:
        return "absolute_margin"
    if relative is not None and score > positive - abs(positive) * relative:
        return "relative_margin"
    if settings.max_score is not None and score > settings.max_score:
        return "max_score"
    if settings.min_score is not None and score < settings.min_score:
        return "min_score"
    return ""


def left_short(settings: Bm25, chosen: list[int], beyond: list[int]) -> tuple[list[int], str]:
    if settings.when_short == "drop":
        return chosen, "dropped"
    if settings.when_short == "random":
        return chosen, "random"
    if settings.when_short == "backfill":
        chosen = chosen + beyond[: settings.wanted - len(chosen)]
        if len(chosen) == settings.wanted:
            return chosen, "backfilled"
    return chosen, "short" if chosen else "none"


GRIDS = {
    "scores of BM25": lambda draw: draw.randrange(0, 1 << 25) / (1 << 20),
    "few scores, many ties": lambda draw: float(draw.randrange(-4, 5)),
    "cosines": lambda draw: draw.uniform(-1, 1),
    "cosines with two decimals": lambda draw: draw.randrange(-100, 101) / 100,
    "of all sizes": lambda draw: draw.gauss(0, 1) * 10 ** draw.uniform(-9, 9),
}


def random_settings(draw: random.Random, score: Any) -> Bm25:
    knobs: dict[str, Any] = {
        "top_k": draw.randrange(1, 8),
        "range_min": draw.choice([0, 0, 1, 3, 8]),
        "range_on": draw.choice(["survivors", "raw"]),
        "when_short": draw.choice(["backfill", "random", "drop", "keep"]),
    }
    if draw.random() < 0.5:
        knobs["range_max"] = knobs["range_min"] + draw.randrange(1, 20)
    low, high = sorted([score(draw), score(draw)])
    for name, value in {
        "min_score": low,
        "max_score": high,
        "absolute_margin": draw.choice([0, 0.1, -0.5, score(draw)]),
        "relative_margin": draw.choice([0, 0.05, 0.5, -0.1, 1.5]),
    }.items():
        if draw.random() < 0.4:
            knobs[name] = value
    return Bm25(**knobs)


@thorough
@pytest.mark.parametrize("grid", GRIDS)
def test_blocks_of_ragged_lists_are_selected_as_plain_python_does(grid: str) -> None:
    score = GRIDS[grid]
    draw = random.Random(grid)
    seen: set[str] = set()
    for _ in range(400):
        settings = random_settings(draw, score)
        anchors = draw.randrange(0, 6)
        lists = [
            sorted((score(draw) for _ in range(draw.randrange(0, 30))), reverse=True)
            for _ in range(anchors)
        ]
        # Often the score of a candidate, so that margins of 0 meet ties.
        positives = [
            draw.choice([score(draw), draw.choice(scores or [0.0]), UNKNOWN]) for scores in lists
        ]
        expected = [plain(settings, *each) for each in zip(lists, positives, strict=True)]
        chosen = choose(settings, lists, positives)
        assert chosen.kept == [each.kept[0] for each in expected], settings
        assert chosen.outcomes == [each.outcomes[0] for each in expected], settings
        counts = sum((each.counts for each in expected), Counter())
        assert {name: n for name, n in chosen.counts.items() if n} == dict(counts), settings
        seen |= set(chosen.outcomes)
    assert seen == set(OUTCOMES)


def test_scores_near_a_margin_get_the_verdict_of_the_rule_as_written() -> None:
    """0.7 + 0.1 is below 0.8 in float64, and 0.8 - 0.1 above 0.7: the first is what counts."""
    for margin, positive in [(0.1, 0.8), (0.2, 0.3), (0.1, 1.1), (0.7, 0.9), (1e-17, 1.0)]:
        near = np.array([positive - margin])
        for score in (near, np.nextafter(near, -9), np.nextafter(near, 9), np.round(near, 6)):
            high = ceilings(Bm25(absolute_margin=margin), np.array([positive]))[0]
            assert (score > high) == (score + margin > positive)
