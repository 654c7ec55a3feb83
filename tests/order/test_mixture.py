"""Mixtures: what is refused where it is written, what a phase means, and plain values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Mixture, Phase

SOURCES = ["code", "web", "wiki"]
NAN, INF = float("nan"), float("inf")


WRONG_WEIGHTS: list[tuple[Any, str]] = [
    (["web"], r"=\['web'\]: give .*a weight for each name, as in \{'web': 0.7\}"),
    (None, "=None: give .*a weight for each name"),
    ("web", "='web': give .*a weight for each name"),
    (0.7, "=0.7: give .*a weight for each name"),
    ({3: 1}, r"\[3\]=3: give text"),
    ({None: 1}, r"\[None\]=None: give text"),
    ({"web": -1}, r"\['web'\]=-1: give a finite number from 0"),
    ({"code": 1, "web": -1e-300}, r"\['web'\]=-1e-300: give"),
    ({"web": NAN}, r"\['web'\]=nan: give"),
    ({"web": True}, r"\['web'\]=True: give"),
    ({"web": "0.7"}, r"\['web'\]='0.7': give"),
]
WRITTEN: list[tuple[Callable[[Any], Any], str]] = [
    (Mixture, "mixture: "),
    (lambda weights: Phase(7, weights), "phase at step 7: "),
    (lambda weights: Anneal(7, weights), "anneal: "),
    (lambda weights: Mixture().changed(SOURCES, weights, "set_weights"), "set_weights: "),
]


@pytest.mark.parametrize(("made", "where"), WRITTEN)
@pytest.mark.parametrize(("weights", "message"), WRONG_WEIGHTS)
def test_wrong_weights_fail_where_they_are_written(
    made: Callable[[Any], Any], where: str, weights: Any, message: str
) -> None:
    with pytest.raises(MixtureError, match=f"^{where}weights{message}"):
        made(weights)


@pytest.mark.parametrize("value", [0, -1, NAN, INF, True, "1", None])
@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda v: Mixture({}, v), "mixture: temperature="),
        (lambda v: Phase(3, {}, v), "phase at step 3: lr_scale="),
        (lambda v: Anneal(3, {}, None, v), "anneal: lr_scale="),
    ],
)
def test_factors_are_above_zero_and_finite(
    made: Callable[[Any], Any], what: str, value: Any
) -> None:
    with pytest.raises(MixtureError, match=f"^{what}.*: give a finite number above 0$") as caught:
        made(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [-1, 0.0, True, "1"])
@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda v: Phase(v, {}), "phase: start_step="),
        (lambda v: Anneal(v, {}), "anneal: start_step="),
        (lambda v: Anneal(0, {}, v), "anneal: end_step="),
    ],
)
def test_steps_are_integers_from_0(made: Callable[[Any], Any], what: str, value: Any) -> None:
    with pytest.raises(MixtureError, match=f"^{what}.*: give an integer from 0 to ") as caught:
        made(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (5, 4), (5, 0)])
def test_an_anneal_ends_after_it_starts(start: int, end: int) -> None:
    message = f"^anneal: end_step={end} must be more than start_step={start}; leave it out"
    with pytest.raises(MixtureError, match=message):
        Anneal(start, {}, end)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phases": [Phase(5, {}), Phase(5, {})]}, "a phase at step 5 after one at step 5"),
        ({"phases": [Phase(5, {}), Phase(7, {}), Phase(6, {})]}, "step 6 after one at step 7"),
        ({"phases": Phase(5, {})}, r"phases=Phase\(.*: give a list of Phase"),
        ({"phases": [{"start_step": 5}]}, r"phases\[0\]=\{'start_step'.*: give Phase"),
        ({"phases": [Anneal(5, {})]}, "give Phase"),
        ({"phases": "now"}, "phases='now': give a list of Phase"),
        ({"phases": None}, "phases=None: give a list of Phase"),
        ({"anneal": Phase(5, {})}, r"anneal=Phase\(.*: give Anneal\(…\) or None"),
        ({"anneal": {"start_step": 5}}, "give Anneal"),
        ({"anneal": 5}, "anneal=5: give Anneal"),
        ({"phases": [Phase(5, {})], "anneal": Anneal(9, {})}, "phases and anneal together; give"),
    ],
)
def test_phases_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MixtureError, match="^mixture: .*" + message):
        Mixture({}, **arguments)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (Mixture({"weeb": 1}), r"mixture: no source 'weeb' \(did you mean 'web'\?\); there are: "),
        (Mixture({"x": 0}), "mixture: no source 'x'; there are: code, web, wiki$"),
        (Mixture({"Web": 1}), r"mixture: no source 'Web' \(did you mean 'web'\?\)"),
        (
            Mixture(phases=[Phase(4, {}), Phase(9, {"coed": 1})]),
            r"phase at step 9: no source 'coed' \(did you mean 'code'\?\); there are: code, web",
        ),
        (Mixture(anneal=Anneal(4, {"wik": 1})), r"anneal: no source 'wik' \(did you mean 'wiki'"),
        (Mixture(dict.fromkeys(SOURCES, 0)), "mixture: every source has weight 0; give at least"),
        (Mixture({}), "mixture: every source has weight 0.*left out, unless omitted="),
        (
            Mixture({"code": 1}, phases=[Phase(4, {}), Phase(9, {"code": 0})]),
            "phase at step 9: every source has weight 0",
        ),
        (
            Mixture({"code": 1}, anneal=Anneal(4, {"code": 0}, 9)),
            "anneal: every source has weight 0",
        ),
    ],
)
def test_names_and_sums_are_checked_against_the_sources(mixture: Mixture, message: str) -> None:
    with pytest.raises(MixtureError, match="^" + message):
        mixture.check(SOURCES)


def test_an_omitted_source_weighs_nothing_unless_it_is_said() -> None:
    assert Mixture({"web": 0.7}).declared(SOURCES) == {"code": 0, "web": 0.7, "wiki": 0}
    assert Mixture({"web": 0.7}, omitted=2).declared(SOURCES) == {"code": 2, "web": 0.7, "wiki": 2}
    assert list(Mixture({"wiki": 2}).declared(SOURCES)) == SOURCES
    for wrong in (-1, float("nan"), "1"):
        with pytest.raises(MixtureError, match="omitted"):
            Mixture(omitted=wrong)  # type: ignore[arg-type]
    with pytest.raises(MixtureError, match=r"every source has weight 0.*omitted="):
        Mixture({"web": 0}).check(SOURCES)


def test_a_phase_overrides_the_declared_weights_not_those_of_the_phase_before() -> None:
    first, second = Phase(5, {"web": 0.1, "wiki": 0}), Phase(9, {"code": 4})
    mixture = Mixture({"web": 0.7, "code": 0.3}, phases=[first, second])
    assert mixture.changed(SOURCES, first.weights) == {"code": 0.3, "web": 0.1, "wiki": 0}
    assert mixture.changed(SOURCES, second.weights) == {"code": 4, "web": 0.7, "wiki": 0}
    assert mixture.changed(SOURCES, {}) == mixture.declared(SOURCES)


def test_phase_and_lr_scale_at_every_step() -> None:
    mixture = Mixture(phases=[Phase(3, {}, 0.5), Phase(4, {}), Phase(9, {}, 2)])
    expected = [(0, 1.0)] * 3 + [(1, 0.5)] + [(2, 1.0)] * 5 + [(3, 2.0)] * 3
    assert [(mixture.phase(s), mixture.lr_scale(s)) for s in range(12)] == expected
    assert mixture.phase(10**15) == 3


positive = st.floats(1e-300, 1e300)
tables = st.dictionaries(st.text(min_size=1), st.one_of(st.just(0.0), positive), max_size=5)
steps = st.integers(0, 2**53 - 1)
rising = st.lists(steps, unique=True, max_size=5).map(sorted)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    anneal, phases = None, []
    if draw(st.booleans()):
        phases = [Phase(step, draw(tables), draw(positive)) for step in draw(rising)]
    elif draw(st.booleans()):
        start = draw(steps)
        end = draw(st.none() | st.integers(start + 1, min(start + 2**24, 2**53)))
        anneal = Anneal(start, draw(tables), end, draw(positive))
    weights = draw(tables | st.sampled_from(["proportional", "equal"]))
    lengths = draw(st.dictionaries(st.text(min_size=1), st.integers(0, 2**60), max_size=3))
    omitted = draw(st.none() | positive)
    return Mixture(weights, draw(positive), phases, anneal, omitted, lengths)


@settings(max_examples=often(200, less=12), deadline=None)
@given(mixtures())
def test_plain_values_make_an_equal_mixture(mixture: Mixture) -> None:
    plain = mixture.to_dict()
    through = json.loads(json.dumps(plain, sort_keys=True))
    assert through == plain
    again = Mixture.from_dict(through)
    assert again == mixture
    assert hash(again) == hash(mixture)
    assert again.to_dict() == plain


@pytest.mark.parametrize(
    ("d", "message"),
    [
        (
            ["web"],
            r"mixture: give a table of weights, temperature, phases, anneal, omitted, lengths, not",
        ),
        ({"weigths": {}}, r"unknown key 'weigths' \(did you mean 'weights'\?\); keys: weights, t"),
        ({3: 4}, "unknown key 3; keys"),
        ({"phases": {}}, r"phases=\{\}: give a list"),
        ({"phases": [3]}, r"phases\[0\]=3: give Phase"),
        ({"phases": [{"start_step": 1}]}, r"mixture: phases\[0\]: weights is missing"),
        ({"anneal": {"weights": {}}}, "mixture: anneal: start_step is missing"),
        (
            {"phases": [{"start_step": 1, "weights": {}, "end_step": 3}]},
            r"phases\[0\]: unknown key 'end_step'",
        ),
        ({"anneal": {"start_step": 1, "weights": {}, "endstep": 3}}, "did you mean 'end_step'"),
        ({"temperature": 0}, "temperature=0: give a finite number above 0"),
        ({"lengths": 5}, "mixture: lengths=5: give a table, with an integer for each name"),
        ({"lengths": {"a": "x"}}, r"mixture: lengths\['a'\]='x': give an integer"),
        ({"weights": "all"}, "weights='all': give 'proportional', 'equal' or a weight"),
    ],
)
def test_damaged_plain_values_are_refused(d: Any, message: str) -> None:
    with pytest.raises(MixtureError, match=message):
        Mixture.from_dict(d)
