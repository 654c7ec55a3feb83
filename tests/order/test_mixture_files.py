"""Mixture files: the [mixture] table of a TOML file, and everything wrong in it at once."""

import pytest

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Mixture, Phase


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        file = tmp_path / "mix.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Mixture.from_toml(file)

    return write_and_load


TWO = "[mixture]\nweights = { web = 0.7, code = 0.3 }\n"
DECLARED = {"web": 0.7, "code": 0.3}
PHASES = """
[[mixture.phases]]
start_step = 10_000  # a note
weights    = { web = 0.3, code = 0.7 }
lr_scale   = 0.5

[[mixture.phases]]
start_step = 20_000
[mixture.phases.weights]
web = 0
"""
OTHERS = "[run]\nbatch_size = 64\nmixture = 3\n[negatives]\nnum = 4\n[data]\nx = 1\n"
READ = [
    (
        TWO + "temperature = 2\n" + PHASES,
        Mixture(
            DECLARED,
            2.0,
            phases=[Phase(10_000, {"web": 0.3, "code": 0.7}, 0.5), Phase(20_000, {"web": 0})],
        ),
    ),
    (
        f"{TWO}anneal = {{ start_step = 4, weights = {{ web = 0 }}, end_step = 9, lr_scale = 2 }}",
        Mixture(DECLARED, anneal=Anneal(4, {"web": 0}, 9, 2.0)),
    ),
    (f"{TWO}omitted = 1\nphases = []\n", Mixture(DECLARED, omitted=1)),
    ("[mixture]", Mixture()),
    ("[mixture]\nweights = 'equal'", Mixture("equal")),
    (TWO + OTHERS, Mixture(DECLARED)),
    ("\ufeff" + TWO.replace("\n", "\r\n"), Mixture(DECLARED)),
]


@pytest.mark.parametrize(("text", "mixture"), READ)
def test_what_a_file_says_is_read(load, text, mixture):
    assert load(text) == mixture


KEYS = "weights, temperature, phases, anneal, omitted"
WRONG = [
    ("[mixture]\ntemprature = 2", "mixture: unknown key 'temprature' (did you mean 'temperature'?"),
    ("[mixture]\nweb = 2", f"mixture: unknown key 'web'; keys: {KEYS}"),
    ("[mixture]\nlengths = { web = 3 }", "mixture: lengths follow from the corpus; leave them out"),
    ("", "it has no [mixture] table; write [mixture] and weights = "),
    ("[data]\nmixture = 'equal'", "it has no [mixture] table; write [mixture] and weights = "),
    ("mixture = 3", f"mixture: give a table of {KEYS}"),
    ("[mixture]\ntemperature = 'hot'", "mixture: temperature='hot': give a finite number above"),
    ("[mixture]\nweights = 'all'", "'proportional', 'equal'"),
    ("[mixture]\nweights = [1]", "mixture: weights=[1]"),
    ("[[mixture.phases]]\nstart_step = 5\ndataset_weights = {}", "unknown key 'dataset_weights'"),
    ("[[mixture.phases]]\nweights = {}\nstart_step = 5\nlr_scale = 0", "lr_scale=0: give a finite"),
    ("[mixture]\nanneal = { start_step = 4 }", "mixture: anneal: weights is missing"),
    ("[mixture]\nweights = = 2", "not TOML: "),
    (b"[mixture]\nname = \xff", "not UTF-8: byte 17"),
    ("x = " + "[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_mistake_is_named_by_file_table_and_key(load, tmp_path, text, message):
    with pytest.raises(MixtureError) as caught:
        load(text)
    found = str(caught.value)
    assert found.startswith(f"{tmp_path / 'mix.toml'}: ")
    assert message in found


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(MixtureError, match=r"none\.toml: there is no such file"):
        Mixture.from_toml(tmp_path / "none.toml")
    with pytest.raises(MixtureError, match="cannot be read: "):
        Mixture.from_toml(tmp_path)
