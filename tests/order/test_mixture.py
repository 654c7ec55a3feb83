"""Mixtures: what is refused where it is written, what a phase means, and plain values."""

import json
from itertools import product

import pytest

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Mixture, Phase

SOURCES = ["code", "web", "wiki"]
NAN, INF = float("nan"), float("inf")


WRONG_WEIGHTS = [
    (["web"], r"=\['web'\]: give .*a weight for each name, as in \{'web': 0.7\}"),
    (None, "=None: give .*a weight for each name"),
    ("web", "='web': give .*a weight for each name"),
    ({3: 1}, r"\[3\]=3: give text"),
    ({"code": 1, "web": -1e-300}, r"\['web'\]=-1e-300: give a finite number from 0"),
    ({"web": NAN}, r"\['web'\]=nan: give"),
    ({"web": True}, r"\['web'\]=True: give"),
    ({"web": "0.7"}, r"\['web'\]='0.7': give"),
]
WRITTEN = [
    (Mixture, "mixture: "),
    (lambda weights: Phase(7, weights), "phase at step 7: "),
    (lambda weights: Anneal(7, weights), "anneal: "),
    (lambda weights: Mixture().changed(SOURCES, weights, "set_weights"), "set_weights: "),
]


@pytest.mark.parametrize(("made", "where"), WRITTEN)
@pytest.mark.parametrize(("weights", "message"), WRONG_WEIGHTS)
def test_wrong_weights_fail_where_they_are_written(made, where, weights, message):
    with pytest.raises(MixtureError, match=f"^{where}weights{message}"):
        made(weights)


FACTORS = [
    (lambda v: Mixture({}, v), "mixture: temperature="),
    (lambda v: Phase(3, {}, v), "phase at step 3: lr_scale="),
    (lambda v: Anneal(3, {}, None, v), "anneal: lr_scale="),
]
STEPS = [
    (lambda v: Phase(v, {}), "phase: start_step="),
    (lambda v: Anneal(v, {}), "anneal: start_step="),
    (lambda v: Anneal(0, {}, v), "anneal: end_step="),
]


@pytest.mark.parametrize(
    ("settings_of", "values", "why"),
    [
        (FACTORS, [0, -1, NAN, INF, True, "1", None], "a finite number above 0$"),
        (STEPS, [-1, 0.0, True, "1"], "an integer from 0 to "),
    ],
)
def test_factors_and_steps_have_bounds(settings_of, values, why):
    for (made, what), value in product(settings_of, values):
        with pytest.raises(MixtureError, match=f"^{what}.*: give {why}") as caught:
            made(value)
        assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Anneal(5, {}, 5), "^anneal: end_step=5 must be more than start_step=5; leave"),
        (lambda: Anneal(5, {}, 0), "^anneal: end_step=0 must be more than start_step=5; leave"),
        (lambda: _phased(Phase(5, {}), Phase(5, {})), "a phase at step 5 after one at step 5"),
        (lambda: _phased(Phase(7, {}), Phase(6, {})), "step 6 after one at step 7"),
        (lambda: _phased({"start_step": 5}), r"phases\[0\]=\{'start_step'.*: give Phase"),
        (lambda: Mixture({}, phases="now"), "phases='now': give a list of Phase"),
        (lambda: Mixture({}, phases=None), "phases=None: give a list of Phase"),
        (lambda: Mixture({}, anneal=Phase(5, {})), r"anneal=Phase\(.*: give Anneal\(…\) or None"),
        (lambda: Mixture({}, phases=[Phase(5, {})], anneal=Anneal(9, {})), "phases and anneal tog"),
        (lambda: Mixture(omitted=-1), "omitted"),
        (lambda: Mixture(omitted="1"), "omitted"),
        (lambda: Mixture({"weeb": 1}).check(SOURCES), r"^mixture: no source 'weeb' \(did you mean"),
        (lambda: Mixture({"x": 0}).check(SOURCES), "'x'; there are: code, web, wiki$"),
        (lambda: _checked(Phase(4, {}), Phase(9, {"coed": 1})), "^phase at step 9: no source"),
        (lambda: _checked(Phase(4, {}), Phase(9, {"code": 0})), "^phase at step 9: every source"),
        (lambda: Mixture(anneal=Anneal(4, {"wik": 1})).check(SOURCES), "^anneal: no source 'wik'"),
        (lambda: _annealed().check(SOURCES), "^anneal: every source has weight 0"),
        (lambda: Mixture({}).check(SOURCES), "source has weight 0.*left out, unless omitted="),
    ],
)  # fmt: skip
def test_names_and_sums_are_checked_against_the_sources(made, message):
    with pytest.raises(MixtureError, match=message):
        made()


def _phased(*phases):
    return Mixture({"code": 1}, phases=phases)


def _checked(*phases):
    _phased(*phases).check(SOURCES)


def _annealed():
    return Mixture({"code": 1}, anneal=Anneal(4, {"code": 0}, 9))


MIXTURES = [
    Mixture(),
    Mixture("equal", 1e-300),
    Mixture({"é": 0.0, "web": 1e300}, 2.5, [Phase(0, {}), Phase(2**53 - 1, {"é": 3}, 0.1)]),
    Mixture({"web": 0.1}, anneal=Anneal(7, {"web": 0}, 2**24, 0.3), omitted=1e-9),
    Mixture("proportional", anneal=Anneal(0, {}), lengths={"web": 2**60, "é": 0}),
]


def test_plain_values_make_an_equal_mixture():
    for mixture in MIXTURES:
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
            "mixture: give a table of weights, temperature, phases, anneal, omitted, unit, max_epo",
        ),
        ({"weigths": {}}, r"unknown key 'weigths' \(did you mean 'weights'\?\); keys: weights, t"),
        ({3: 4}, "unknown key 3; keys"),
        ({"phases": {}}, r"phases=\{\}: give a list"),
        ({"phases": [{"start_step": 1}]}, r"mixture: phases\[0\]: weights is missing"),
        ({"anneal": {"weights": {}}}, "mixture: anneal: start_step is missing"),
        ({"temperature": 0}, "temperature=0: give a finite number above 0"),
        ({"lengths": 5}, "mixture: lengths=5: give a table, with an integer for each name"),
        ({"lengths": {"a": "x"}}, r"mixture: lengths\['a'\]='x': give an integer"),
        ({"weights": "all"}, "weights='all': give 'proportional', 'equal' or a weight"),
    ],
)
def test_damaged_plain_values_are_refused(d, message):
    with pytest.raises(MixtureError, match=message):
        Mixture.from_dict(d)
