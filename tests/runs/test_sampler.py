"""Runs: purity, bounds, resume, state files, pinning, arguments."""

import itertools
import json
from functools import partial

import pytest
from corpora import odd_corpus
from effort import often, some
from prebuilt import copying, kept, reading, toy_corpus

import duckplets as dp
from duckplets import testing
from duckplets.runs.state import state_path
from duckplets.testing import toy_records

corpus = reading(toy_corpus, 150, sources=("a", "b"))
own = copying(toy_corpus, 60)


@pytest.mark.parametrize(
    "configuration",
    some([{}, {"batch_size": 13, "no_duplicates": True}, {"epochs": 2}], less=1),
    ids=str,
)
def test_any_step_that_was_passed_can_be_saved(corpus, configuration, tmp_path):
    passed = corpus.sampler(**configuration)
    states = [passed.state_dict()]
    states += [passed.state_dict() for _ in itertools.islice(passed, often(60, less=9))]
    for step, expected in enumerate(states):
        assert passed.state_dict(step=step) == json.loads(json.dumps(expected))
        assert len(json.dumps(expected)) < 600
    with pytest.raises(dp.SamplerError, match=f"step={len(states)}"):
        passed.save(step=len(states))
    middle, path = len(states) // 2, tmp_path / "middle.state.duckdb"
    passed.save(path=path, step=middle)
    with dp.resume(corpus.path, state=path) as resumed:
        assert resumed.state_dict() == states[middle]


def test_the_order_does_not_depend_on_threads(tmp_path):
    odd_corpus(tmp_path / "c.duckdb", often(300, less=60), 1, sources=2).close()
    found = []
    for threads in some((1, 2, 8), less=2):
        with dp.Corpus(tmp_path / "c.duckdb", read_only=True, threads=threads) as corpus:
            found.append([b.to_pydict() for b in itertools.islice(corpus.sampler(), 20)])
    assert all(drawn == found[0] for drawn in found)


def test_a_run_keeps_to_its_version(own):
    sampler = own.sampler(batch_size=16)
    expected = [b.table for b in itertools.islice(own.sampler(batch_size=16), 20)]
    next(sampler)
    sampler.save()
    changed = toy_records(60, seed="toy 0")
    for record in changed[::3]:
        record["body"] += " in other words"
    source = dict(anchor="title", positive="body", id="id", meta=["topic"], date="date")
    own.ingest(toy_records(50, seed=9), name="more", **source)
    own.ingest(changed, name="toy", on_conflict="replace", **source)
    own.add_recipe(dp.TripletRecipe("new", *[dp.any_section()] * 3))
    assert own.sampler(batch_size=16).settings.corpus_version == 3
    for batch in itertools.islice(sampler, 10):
        assert batch.table.equals(expected[batch.step])
    own.remove("toy")
    own.close()
    with dp.resume(own.path) as sampler:
        assert sampler.step == 1
        for batch in itertools.islice(sampler, 19):
            assert batch.table.equals(expected[batch.step])


def test_steps_bound_a_run_and_set_epoch_goes_to_the_first_batch(corpus):
    sampler = corpus.sampler(steps=5, batch_size=10)
    assert len(sampler) == len(list(sampler)) == 5
    assert list(corpus.sampler(steps=0)) == []
    sampler = corpus.sampler(batch_size=10, columns=["anchor", "position"])
    with pytest.raises(TypeError, match="endless"):
        len(sampler)
    with pytest.raises(dp.SamplerError, match="-1"):
        sampler.set_epoch(-1)
    bounded = corpus.sampler(epochs=1, batch_size=7)
    with pytest.raises(dp.SamplerError, match="beyond the end"):
        bounded.set_epoch(5)
    end = bounded.epoch_length
    assert bounded.plan(10**6).num_rows == end
    for start, stop in [(-1, 5), (5, 4), (0, end + 1)]:
        with pytest.raises(dp.SamplerError, match="from 0 to"):
            bounded.served(start, stop)
    for steps in (-1, 1.5, True):
        with pytest.raises(dp.SamplerError, match="steps="):
            bounded.plan(steps)


def test_a_mismatch_names_every_field(corpus):
    state = corpus.sampler(seed=1, batch_size=8).state_dict()
    with pytest.raises(dp.StateMismatchError, match=r"seed \(saved: 1, now: 2\).*batch_size"):
        corpus.sampler(seed=2, batch_size=16).load_state_dict(state)
    corpus.sampler(seed=1, batch_size=16).load_state_dict(state, allow_drift=("batch_size",))
    with pytest.raises(dp.StateMismatchError, match="did you mean 'batch_size'"):
        corpus.sampler().load_state_dict(state, allow_drift=("batchsize",))
    for state in ({"step": 3}, None, [1], "x"):
        with pytest.raises(dp.StateMismatchError, match="sampler's state"):
            corpus.sampler().load_state_dict(state)


def test_a_corpus_stays_where_it_is_when_the_working_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "link.duckdb").symlink_to("runs/c.duckdb")
    with toy_corpus("runs/c.duckdb", 40) as corpus:
        sampler = corpus.sampler(batch_size=4, options=dp.Options(state="runs/s.duckdb"))
        next(sampler)
        monkeypatch.chdir("runs")
        sampler.save()
        corpus.sampler(batch_size=4).save()
        corpus.mine(split="test")
        sampler.close()
        corpus.compact()
    monkeypatch.chdir("..")
    with dp.Corpus("link.duckdb") as corpus:
        corpus.prepare()
    there = {"c.duckdb", "c.state.duckdb", "s.duckdb", "c.candidates", "c.snapshot"}
    assert {file.name for file in (tmp_path / "runs").iterdir()} == there
    assert {file.name for file in tmp_path.iterdir()} == {"runs", "link.duckdb"}


def test_saves_tags_and_paths(own, tmp_path):
    sampler = own.sampler(batch_size=4)
    next(sampler)
    assert sampler.save() == tmp_path / "c.state.duckdb"
    sampler.save(tag="one")
    next(sampler)
    sampler.save()
    sampler.save(path=tmp_path / "copy.duckdb")
    other = own.sampler(batch_size=4, seed=99)
    for save, told in [
        (partial(sampler.save, tag="one"), "tagged 'one'"),
        (partial(sampler.save, path=tmp_path / "copy.duckdb"), "exists"),
        (other.save, r"another run 'default'.*seed"),
    ]:
        with pytest.raises(dp.StateMismatchError, match=told):
            save()
    own.sampler(batch_size=4, seed=99, run="second").save()
    with pytest.raises(dp.SamplerError, match="the corpus itself"):
        own.sampler(options=dp.Options(state=own.path))
    for arguments, step in [
        ({}, 2),
        ({"tag": "one"}, 1),
        ({"state": tmp_path / "copy.duckdb"}, 2),
        ({"run": "second"}, 0),
    ]:
        with own.resume(**arguments) as sampler:
            assert sampler.step == step
    longer = own.resume(epochs=2, columns=["anchor"])  # what is given now is kept
    assert next(longer).keys() == ["anchor"]
    longer.save()
    with own.resume() as sampler:
        assert sampler.settings.epochs == 2
        assert next(sampler).keys() == ["anchor"]
    for wrong, told in [
        ({"run": "secnd"}, r"no run 'secnd' \(did you mean 'second'"),
        ({"tag": "two"}, "its tags: one"),
        ({"state": tmp_path / "none.duckdb"}, "does not exist"),
    ]:
        with pytest.raises(dp.StateMismatchError, match=told):
            own.resume(**wrong)


def test_a_save_of_an_earlier_step_is_reported_at_opening_and_saving(tmp_path, caplog):
    path, state = tmp_path / "c.duckdb", tmp_path / "elsewhere.state.duckdb"
    with toy_corpus(path, 30) as corpus:

        def saved(sampler, step, tag=None):
            sampler.move(4 * step)
            caplog.clear()
            sampler.save(tag)
            return [record.getMessage() for record in caplog.records]

        first = corpus.sampler(batch_size=4)
        assert first.notes == saved(first, 30) == saved(first, 30, "later") == []
        again = corpus.sampler(batch_size=4)
        assert again.notes == [
            "run 'default' was saved at step 30; this run begins at step 0, and saving it "
            "replaces that save. To continue from there, resume it with duckplets.resume or "
            "--resume"
        ]
        assert saved(again, 2, "earlier") == []  # replaces nothing
        went_back = f"run 'default' is saved at step 2 in {state_path(corpus.path)}, which "
        assert saved(again, 2) == [f"{went_back}replaces the save at step 30"]
        assert saved(again, 3) == []
        assert corpus.resume().notes == []
        (note,) = corpus.resume(tag="earlier").notes
        assert "was saved at step 3; this run begins at step 2, and saving" in note
        # Other runs, other settings and the ranks that do not save have nothing to go back behind.
        for how in ({"run": "other"}, {"seed": 2}, {"rank": 1, "world_size": 2, "batch_size": 2}):
            assert corpus.sampler(**{"batch_size": 4, **how}).notes == []
        other = partial(corpus.sampler, batch_size=4, run="b c", options=dp.Options(state=state))
        saved(other(), 5)
        (note,) = other().notes
        assert "run 'b c' was saved at step 5" in note
        state_path(corpus.path).write_bytes(b"no database")
        (note,) = corpus.sampler(batch_size=4).notes
        assert note.startswith(f"this run cannot be saved in {state_path(corpus.path)}: ")


def test_a_save_makes_missing_folders_and_a_file_in_their_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with toy_corpus(tmp_path / "c.duckdb", 30) as corpus:
        corpus.sampler(batch_size=4).save()
        ways = {
            "state": lambda path: corpus.sampler(
                batch_size=4, options=dp.Options(state=path)
            ).save(),
            "save_to": lambda path: corpus.resume(save_to=path).save(),
            "path": lambda path: corpus.sampler(batch_size=4).save(path=path),
        }
        for name, save in ways.items():
            path = tmp_path / name / "deeper" / "s.duckdb"
            assert save(path) == path
            assert corpus.resume(state=path).step == 0
            with pytest.raises(dp.DuckpletsError, match=r"no folder|folder cannot be made"):
                save(tmp_path / "file" / "s.duckdb")


def test_a_run_is_not_resumed_on_another_corpus(tmp_path):
    with toy_corpus(tmp_path / "one.duckdb", 60) as corpus:
        saved = corpus.sampler().save()
    for records, seed in [(61, 0), (60, 1)]:
        path = kept(testing.toy_corpus, records, seed=seed)
        with (
            dp.Corpus(path, read_only=True) as other,
            pytest.raises(dp.StateMismatchError, match="records"),
        ):
            other.resume(state=saved)
    with toy_corpus(tmp_path / "same.duckdb", 60) as corpus:
        corpus.resume(state=saved).close()
        corpus.sampler().save()
        corpus.split(0.5, 0.25, 0.25, seed=1, reassign=True)
        drift = {"allow_drift": ("splits",)}
        for error, how, told in [
            (dp.StateMismatchError, {}, "splits"),
            (dp.StateMismatchError, drift | {"batch_size": 64}, r"\(saved: 128, now: 64\)"),
            (dp.SamplerError, {"sed": 1}, "did you mean 'seed'"),
            (dp.SamplerError, {"prefetch": 1}, r"give options=dp.Options\(prefetch=…\)"),
            (dp.SamplerError, {"options": dp.Options(preset="crate")}, "cannot change preset="),
        ]:
            with pytest.raises(error, match=told):
                corpus.resume(**how)
        with corpus.resume(**drift, steps=1, options=dp.Options(prefetch=0)) as sampler:
            assert len(list(sampler)) == 1


WRONG = [
    ({"kind": "triplet"}, dp.SamplerError, "did you mean 'triplets'"),
    ({"split": "dev"}, dp.errors.SplitError, "train, validation, test"),
    ({"batch_size": 0}, dp.SamplerError, "batch_size=0"),
    ({"seed": "x"}, dp.SamplerError, "seed='x'"),
    ({"negatives": 0}, dp.SamplerError, "num=0 is for export"),
    ({"options": {"swap": "yes"}}, dp.SamplerError, "options: swap='yes'"),
    (
        {"kind": "texts", "options": {"swap": True}},
        dp.SamplerError,
        "swap=True: texts have no anchor",
    ),
    (
        {"kind": "pairs", "negatives": 2},
        dp.SamplerError,
        r"Negatives\(2\): pairs have no negatives",
    ),
    ({"kind": "pairs", "columns": ["label"]}, dp.SamplerError, "kind='labelled_pairs' has it"),
    ({"negatives": {"when_short": "keep"}}, dp.SamplerError, "when_short='keep' is for export"),
    ({"negatives": {"margin": 1}}, dp.SamplerError, "unknown key 'margin'.*absolute_margin"),
    ({"options": {"prefetch": -1}}, dp.SamplerError, "options: prefetch=-1"),
    ({"options": {"remainder": "wrap"}}, dp.SamplerError, "'keep', 'drop' or 'pad'"),
    ({"options": {"prefech": 1}}, dp.SamplerError, "did you mean 'prefetch'"),
    ({"columns": ["anchr"]}, dp.SamplerError, "did you mean 'anchor'"),
    ({"run": ""}, dp.SamplerError, "run=''"),
    ({"mixture": {"c": 1}}, dp.errors.MixtureError, "no source 'c'"),
    ({"recipes": [1]}, dp.RecipeError, "neither a recipe nor the name"),
    ({"recipes": ["anchor_contxt"]}, dp.RecipeError, "did you mean 'anchor_context'"),
    ({"kind": "texts", "negatives": 2}, dp.SamplerError, "negatives"),
]


def test_wrong_arguments(corpus):
    for arguments, error, message in WRONG:
        with pytest.raises(error, match=message) as caught:
            corpus.sampler(**arguments)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, dp.DuckpletsError)


def test_an_empty_pool_says_why(tmp_path):
    records = [{"t": f"t{i}", "b": "same"} for i in range(20)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.errors.SplitError, match="duckplets split"):
            corpus.sampler()
        corpus.split(1, 0, 0)
        with pytest.raises(dp.EmptyPoolError, match="no sources"):
            corpus.sampler()
        corpus.ingest(records, name="same", anchor="t", positive="b")
        with pytest.raises(
            dp.EmptyPoolError, match=r"'anchor_context'.*'same'.*'train': 20 no negative"
        ):
            corpus.sampler()
        with pytest.raises(dp.EmptyPoolError, match="the split has no records"):
            corpus.sampler(split="test")


def test_columns_are_the_requested_ones(corpus):
    batch = next(corpus.sampler(batch_size=3, columns=["negative", "anchor_meta", "source"]))
    assert batch.keys() == ["negative", "anchor_meta", "source"]
    assert dict(batch.to_pylist()[0]["anchor_meta"]).keys() == {"topic"}
    default = next(corpus.sampler(batch_size=3))
    assert default.keys() == [
        *("anchor", "positive", "negative"),
        *("weight", "instruction", "recipe", "source"),
    ]
    assert len(default) == 3
    assert default["anchor"] == default.to_pydict()["anchor"]
    assert (
        next(corpus.sampler(epochs=1, options=dp.Options(remainder="pad"))).keys()[-1] == "padded"
    )
    with pytest.raises(KeyError, match="this batch has anchor"):
        default["anchr"]


@pytest.mark.parametrize(
    "configuration",
    some([{"epochs": 1}, {}, {"rank": 1, "world_size": 3, "steps": 13}], less=2),
    ids=str,
)
def test_peeking_shows_the_next_batches_and_moves_nothing(corpus, configuration):
    sampler = corpus.sampler(batch_size=16, **configuration)
    for _ in range(3):
        next(sampler)
    before = sampler.state_dict()
    shown = list(sampler.peek(40))
    sampler.served(3, 30)
    sampler.plan(20)
    assert sampler.state_dict() == before
    for batch in shown:
        expected = next(sampler)
        assert (batch.step, batch.position) == (expected.step, expected.position)
        assert batch.table.equals(expected.table)
    assert len(shown) == 40 or next(sampler, None) is None


def test_too_little_memory_is_an_error_with_advice(tmp_path):
    toy_corpus(tmp_path / "toy.duckdb", 60).close()
    query = "SELECT list(repeat('x', 1000) || i) FROM range(100_000) AS numbers(i)"
    with (
        dp.Corpus(tmp_path / "toy.duckdb", read_only=True, memory_limit="20MB") as corpus,
        pytest.raises(dp.errors.QueryError, match=r"Out of Memory.*memory_limit='4GB'"),
    ):
        corpus.sql(query)
