"""What a run will draw, and what another mixture alters, from the command line."""

import json
from pathlib import Path

import pytest
from commands import cli, error, lines, ok, talk
from effort import some

import duckplets as dp
from duckplets.base.checks import MAX_POSITION

pytestmark = pytest.mark.usefixtures("pools_once")


def mixture(name, weights, phases=""):
    sets = ", ".join(f"{n} = {w}" for n, w in weights.items())
    Path(name).write_text(f"[mixture]\nweights = {{ {sets} }}\n{phases}")
    return name


def phase(step, weights, scale=1):
    return f"[[mixture.phases]]\nstart_step = {step}\nweights = {weights}\nlr_scale = {scale}\n"


OPTIONS = ["--batch-size", "8", "--mixture", "a=3,b=1", "--seed", "7"]


def test_a_forecast_is_that_of_the_sampler(toy):
    given = dict(batch_size=8, mixture={"a": 3, "b": 1}, seed=7)
    with dp.Corpus(toy, read_only=True) as corpus:
        expected = corpus.sampler(**given).forecast(20)
    result = cli("forecast", toy, *OPTIONS, "--steps", "20")
    assert result.stdout == f"{expected}\n"
    assert result.stderr == ""
    found = json.loads(ok("forecast", toy, *OPTIONS, "--steps", "20", "--json"))
    assert found["rows"] == expected.table.to_pylist()
    assert found["warnings"] == expected.warnings
    assert "empty='skip'" in error("forecast", toy, "--negatives", "900")
    left_out = json.loads(ok("forecast", toy, "--mixture", "a=3", "--json"))
    assert "does not name 'b': nothing is drawn from there" in left_out["warnings"][0]
    ok("sample", toy, *OPTIONS, "--steps", "5", "--save")
    assert ok("forecast", toy, "--resume", "--steps", "20") == f"{expected}\n"


def test_a_run_says_on_stderr_what_it_draws(toy):
    with dp.Corpus(toy, read_only=True) as corpus:
        sampler = corpus.sampler(
            batch_size=8, mixture={"a": 3, "b": 1}, options=dp.Options(swap=False)
        )
    result = cli("sample", toy, *OPTIONS)
    assert len(lines(result.stdout)) == 8
    assert result.stderr == f"{sampler.describe()}\n"
    assert talk(result.stderr) == ""
    for word in ("swap off", "anchor_context", "75 %", "negatives random", "shares as given"):
        assert word in result.stderr


# -- another mixture --------------------------------------------------------------------------


def test_what_another_mixture_alters(toy):
    how = ("--mixture", "a=3,b=1", "--batch-size", "10")
    new = mixture("new.toml", {"a": 6, "b": 2}, phase(40, "{ b = 18 }", 0.5))
    said = ok("forecast", toy, *how, "--against", new)
    assert [line.split() for line in said.splitlines()[:3]] == [
        ["from", "step", "source", "before", "after"],
        ["40", "a", "75", "%", "25", "%"],
        ["40", "b", "25", "%", "75", "%"],
    ]
    assert "lr_scale from step 40: 1, 0.5" in said
    assert said.endswith("nothing changes before step 40 (position 400)\n")
    found = json.loads(ok("forecast", toy, *how, "--against", new, "--json"))
    assert (found["first_step"], found["first_position"]) == (40, 400)
    assert found["lr_scale"] == [{"start_step": 40, "before": 1.0, "after": 0.5}]
    assert found["shares"][0] == {
        "start": 40, "stop": None, "source": "a", "before": [0.75, 0.75], "after": [0.25, 0.25],
    }  # fmt: skip
    assert "no source 'z'" in error("forecast", toy, *how, "--against", "z=1")
    for weights, said in (
        ({"a": 30, "b": 10}, "nothing changes\n"),
        ({"a": 1, "b": 1}, "samples differ from step 0\n"),
    ):
        assert ok("forecast", toy, *how, "--against", mixture("m.toml", weights)).endswith(said)


def test_other_caps_and_orders_are_told_apart(toy):
    how = ("forecast", toy, "--mixture", "a=3,b=1", "--batch-size", "10", "--against")
    capped = mixture("capped.toml", {"a": 3, "b": 1}, "max_epochs = { a = 2 }\n")
    with dp.Corpus(toy, read_only=True) as corpus:
        sampler = corpus.sampler(mixture=dp.Mixture.from_toml(capped), batch_size=10)
    at = sampler.planner.schedule.ends["a"]
    found = json.loads(ok(*how, capped, "--json"))
    assert found["used_up"] == [{"source": "a", "before": None, "after": at}]
    assert (found["first_position"], found["end_may_move"]) == (at, False)
    assert found["shares"][0]["start"] == -(-at // 10)
    assert f"'a' is used up at position {at:,} instead of none" in ok(*how, capped)
    assert json.loads(ok("forecast", toy, "--mixture", capped, "--json"))["ends"]
    stops = mixture("stops.toml", {"a": 3, "b": 1}, 'stop = "first"\n')
    assert json.loads(ok(*how, stops, "--json"))["end_may_move"]
    ordered = mixture("ordered.toml", {"a": 3, "b": 1}, 'order_by = "trust"\n')
    assert ok(*how, ordered) == "samples differ from step 0\n"
    divided = mixture("divided.toml", {"a": 1}, 'column = "source"\n')
    assert "give shares of the same" in error(*how, divided)


@pytest.mark.parametrize(
    ("apart", "bounds"),
    some([(True, {"epochs": 40}), ("negatives", {}), (False, {"epochs": 4}), (True, {})], less=1),
)
def test_an_end_that_may_move_is_said(toy, apart, bounds):
    less = mixture("less.toml", {"a": 3, "b": 1}, phase(100, "{ b = 0 }"))
    more = mixture("more.toml", {"a": 3, "b": 0}, phase(100, "{ b = 2 }"))
    with dp.Corpus(toy, read_only=True) as corpus:
        options = {"batch_size": 6, "no_duplicates": apart, **bounds}
        sampler = corpus.sampler(mixture={"a": 3, "b": 0}, run="r", **options)
        sampler.save()
        alike = mixture("alike.toml", {"a": 9, "b": 0})
        how = ("forecast", toy, "--resume", "--run", "r", "--against")
        for new, moves in ((more, True), (alike, False), *some([(less, True)], less=0)):
            found = json.loads(ok(*how, new, "--json"))
            resumed = corpus.resume("r", mixture=new)
            ends = resumed.reader.end != sampler.reader.end
            assert found["end_may_move"] == (moves and "epochs" in bounds) == ends
            assert ("may move its end" in ok(*how, new)) == ends
            if not ends:
                never = resumed.changed_from == MAX_POSITION + 1
                assert found["first_position"] == (None if never else resumed.changed_from)
