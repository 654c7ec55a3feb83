"""One run in three spellings: Python, ``run.toml`` and the shell have the same keys."""

import inspect
from dataclasses import fields, replace

import pytest
from commands import cli, error, lines, ok
from effort import some
from prebuilt import prebuilt

import duckplets as dp
from duckplets import testing
from duckplets.corpus.run_file import keys, written
from duckplets.runs.request import RunRequest

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
OWN = dp.TripletRecipe(
    "own",
    ANCHOR,
    dp.role("context", where="token_count >= 1"),
    CONTEXT,
    strategy=dp.sql("negative.meta['topic'] IS DISTINCT FROM anchor.meta['topic']"),
)
MINED = dp.TripletRecipe(
    "anchor_context", ANCHOR, CONTEXT, CONTEXT, by=dp.Negatives(by="bm25", range_max=9)
)
PHASED = dp.Mixture({"a": 1.0}, 1.5, [dp.Phase(3, {"b": 2.0}, 0.5)], omitted=0.5)
RUNS = {
    "defaults": {},
    "many": {"batch_size": 8, "seed": 7, "no_duplicates": True, "epochs": 2, "run": "x/y"},
    "mixture": {"mixture": PHASED, "batch_by": "source", "columns": ["anchor", "source"]},
    "anneal": {"mixture": dp.Mixture("equal", anneal=dp.Anneal(2, {"a": 0.0}, 9))},
    "negatives": {"negatives": dp.Negatives(2, relative_margin=0.05, sampling="score")},
    "shares": {"negatives": dp.Negatives(by={"bm25": 0.5, "random": 0.5})},
    "in batch": {"negatives": dp.Negatives(by="bm25", in_batch_margin=0.2), "batch_size": 4},
    "options": {"options": dp.Options(remainder="drop", swap=True), "epochs": 1, "batch_size": 8},
    "preset": {"options": dp.Options(preset="crate", state="own.duckdb")},
    "recipes": {"recipes": ["anchor_context", OWN]},
    "mined recipe": {"recipes": [MINED]},
    "texts": {"kind": "texts", "recipes": [dp.TextRecipe("t", dp.any_section())]},
    "pairs": {"kind": "pairs", "split": "validation", "batch_size": 3},
}


@prebuilt
def mined(path):
    corpus = testing.toy_corpus(path, 60, sources=("a", "b"))
    corpus.mine()
    return corpus


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("run_file") / "c.duckdb"
    mined(path).close()
    return path


def test_a_written_file_is_the_same_run_and_has_every_key_with_its_meaning(path, tmp_path):
    opened = some(RUNS, less=6)
    with dp.Corpus(path, read_only=True) as corpus:
        for name, given in RUNS.items():
            text = written(given)
            file = tmp_path / f"{name}.toml"
            file.write_text(text, encoding="utf-8")
            for key in keys().values():
                assert f"\n# {key.name}: " in text, key
            again = dp.load_run(file)
            assert replace(RunRequest(**again)) == replace(RunRequest(**given)), name
            if name not in opened:
                continue
            one, other = corpus.sampler(**given), corpus.sampler(**again)
            assert one.run_id == other.run_id, name
            assert next(one).table.equals(next(other).table), name


def test_every_argument_is_a_key_and_every_key_has_a_meaning():
    taken = [*inspect.signature(dp.Corpus.sampler).parameters][1:]
    assert taken == [field.name for field in fields(RunRequest)]
    assert len(taken) <= 17
    assert {*taken} - {"mixture", "negatives", "options"} <= keys().keys()
    assert all(key.meaning.endswith(".") for key in keys().values())
    assert keys()["relative_margin"].table == "negatives"
    assert keys()["preset"].table == "run"


WRONG = [
    ("version = 2", "version = 2: this duckplets reads version = 1"),
    ("[runn]", r"\[runn\]: no such table \(did you mean 'run'\?\)"),
    ("run = 3", r"run = 3: write a table, \[run\]"),
    ("[run]\nbatchsize = 3", r"'batchsize': no such key \(did you mean 'batch_size'\?\)"),
    ("[run]\nrelative_margin = 3", r"relative_margin: it is a key of \[negatives\]"),
    ("[options]\nnum = 3", r"\[options\] num: it is a key of \[negatives\]"),
    ("[run]\nby = 'bm25'", r"by: it is a key of \[negatives\]"),
    ("[run]\napart = ['dense', 0.9]", r"apart: give in_batch_margin of \[negatives\] instead"),
    ("[run]\npairs = 'drawn'", r"pairs: give kind of \[run\] instead"),
    ("[options]\nvectors = 'null'", r"vectors: give missing_vectors of \[options\] instead"),
    ("[run]\nnegatives = 2\n[negatives]\nnum = 2", r"negatives in \[run\] and the table"),
    ("[run]\nbatch_size = 'x'", "batch_size='x': give an integer from 1"),
    ("[run]\nkind = 'triplet'", "did you mean 'triplets'"),
    ("[run]\npreset = 'crat'", "preset='crat'"),
    ("[negatives]\nnum = 'x'", "negatives: num='x'"),
    ("[negatives]\nby = 'random'\nrange_max = 3", "by='random' has no candidates to cut"),
    ("[options]\nremainder = 'wrap'", "options: remainder='wrap'"),
    ("[mixture]\nweights = 3", "mixture: weights=3"),
    ("[mixture]\nlengths = { a = 1 }", "'lengths': no such key"),
    ("[recipe]\nname = 'x'", r"write a list of tables, \[\[recipe\]\]"),
    ("[[recipe]]\nname = 'x'\nanchr = 1", "recipe 'x': unknown key 'anchr'"),
    ("[run", "it is not TOML"),
]


def test_a_wrong_file_is_an_error_with_its_name_and_the_right_key(tmp_path):
    file = tmp_path / "run.toml"
    for text, told in WRONG:
        file.write_text(text)
        with pytest.raises(dp.DuckpletsError, match=told) as caught:
            dp.load_run(file)
        message = str(caught.value)
        assert message.startswith(f"{file}: "), message
        assert len(message.removeprefix(f"{file}")) <= 240, message
    with pytest.raises(dp.SamplerError, match="there is no such file"):
        dp.load_run(tmp_path / "none.toml")


def test_short_forms_are_values(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[run]\nnegatives = 3\nmixture = 'equal'\n")
    found = dp.load_run(file)
    assert found == {"negatives": dp.Negatives(3), "mixture": dp.Mixture("equal")}
    file.write_text("[run]\nmixture = { a = 2, b = 1 }\n[negatives]\nin_batch_margin = ['x', 0.1]")
    found = dp.load_run(file)
    assert found["mixture"] == dp.Mixture({"a": 2, "b": 1})
    assert found["negatives"] == dp.Negatives(in_batch_margin=("x", 0.1))


def test_an_option_goes_before_set_before_the_file_before_the_default(path, tmp_path):
    file = tmp_path / "run.toml"
    how = ("--negatives", "2", "--by", "bm25", "--batch-size", "3", "--set", "relative_margin=0.1")
    ok("forecast", path, *how, "--write", file)
    assert dp.load_run(file)["negatives"] == dp.Negatives(2, by="bm25", relative_margin=0.1)
    assert "give the path of a new file" in error("forecast", path, "--write", file)
    sample = ("sample", path, "--config", file)
    for more, rows, slots in [
        ((), 3, {"negative_1", "negative_2"}),
        (("--set", "num=1"), 3, {"negative"}),
        (("--set", "batch_size=5"), 5, {"negative_1", "negative_2"}),
        (("--set", "negatives=1", "--set", "run.batch_size=5"), 5, {"negative"}),
        (("--set", "num=3", "--negatives", "1"), 3, {"negative"}),
    ]:
        found = lines(ok(*sample, *more))
        assert len(found) == rows
        assert {name for name in found[0] if name.startswith("negative")} == slots
    told = cli(*sample, "--set", "seed=1", "--seed", "2").stderr
    assert "note: --seed overrides --set seed" in told
    for wrong, message in [
        ("num", "--set num: give KEY=VALUE"),
        ("nums=3", "did you mean 'num'"),
        ("options.num=3", "[options] num: it is a key of [negatives]"),
        ("num=x", "num='x': give an integer"),
        ("allow_drift=seed", "add --resume"),
    ]:
        shown = cli(*sample, "--set", wrong)
        assert message in shown.stderr.replace("\n", " "), shown.stderr
    file.write_text("[run]\nbatch_size = 'x'\n")
    for command in (
        sample,
        ("forecast", *sample[1:]),
        ("export", path, "x.jsonl", "--format", "beir", *sample[2:]),
    ):
        assert f"error: {file}: batch_size='x': give" in error(*command)
    assert "error: seed='y': give" in error(*sample, "--set", "batch_size=3", "--set", "seed=y")
    ok("sample", path, "--config", file, "--batch-size", "3")


def test_a_resumed_run_takes_parts_of_values(path, tmp_path):
    state = tmp_path / "s.duckdb"
    how = ("--set", f"state={state}")
    ok("sample", path, "--batch-size", "3", "--negatives", "2", "--by", "bm25", "--save", *how)
    again = ("sample", path, "--resume", *how)
    assert "negatives (saved: 2, now: 3)" in error(*again, "--negatives", "3")
    drift = ("--set", "allow_drift=negatives")
    assert "negative_3" in lines(ok(*again, "--negatives", "3", *drift))[0]
    assert "negative_2" in lines(ok(*again, "--set", "range_max=4"))[0]
    with dp.Corpus(path, read_only=True) as corpus:
        saved = dp.Negatives(2, by="bm25")
        with corpus.resume(state=state, negatives=replace(saved, range_max=4)) as sampler:
            assert sampler.settings.versions[-1].negatives == replace(saved, range_max=4)
            assert sampler.settings.negatives == saved, "what was drawn before stays"
        with pytest.raises(dp.SamplerError, match="a saved run cannot change in_batch_margin="):
            corpus.resume(state=state, negatives=dp.Negatives(2, in_batch_margin=("bm25", 0.1)))


def test_one_cut_holds_for_draws_exports_and_counts(path, tmp_path):
    """Of a margin without ``by`` every verb leaves the same candidates."""
    cut = dp.Negatives(4, relative_margin=0.8, range_max=4)
    with dp.Corpus(path, read_only=True) as corpus:
        run = {"negatives": cut, "batch_size": 8, "columns": ["negative_1_by", "negative_4_by"]}
        forecast = corpus.forecast(**run, epochs=1).table.to_pylist()
        counts = corpus.negatives(negatives=cut, split="train").to_pylist()
        short = {row["source"]: row["anchors"] - row["full"] for row in counts}
        assert {row["source"]: row["fallback_anchors"] for row in forecast} == short
        assert any(short.values())
        file = tmp_path / "x.jsonl"
        report = corpus.export(file, "flagembedding", negatives=cut)
        kept = [len(row["neg"]) for row in lines(file.read_text())]
        assert sum(count < 4 for count in kept) == sum(short.values())
        assert report.negatives == sum(kept)
        dropped = corpus.export(
            file, "flagembedding", negatives=replace(cut, when_short="drop"), overwrite=True
        )
        assert dropped.anchors == sum(row["full"] for row in counts)
    shell = ("export", path, tmp_path / "y.jsonl", "--format", "flagembedding")
    config = tmp_path / "run.toml"
    config.write_text("[negatives]\nnum = 4\nrange_max = 4\n[run]\nrecipes = ['anchor_context']\n")
    ok(*shell, "--config", config, "--relative-margin", "0.8")
    assert [len(row["neg"]) for row in lines((tmp_path / "y.jsonl").read_text())] == kept


def test_pairs_are_anchor_and_positive_each_once_an_epoch(path):
    with dp.Corpus(path, read_only=True) as corpus:
        triplets = corpus.sampler(epochs=1, negatives=dp.Negatives(by="random"))
        pairs = corpus.sampler("pairs", epochs=1, batch_size=16, no_duplicates=True)
        rows = [row for batch in pairs for row in batch.to_pylist()]
        assert [*rows[0]][:2] == ["anchor", "positive"]
        assert "negative" not in rows[0]
        expected = [(r["anchor"], r["positive"]) for b in triplets for r in b.to_pylist()]
        assert sorted((row["anchor"], row["positive"]) for row in rows) == sorted(expected)
        testing.assert_resumes_everywhere(corpus.sampler("pairs", batch_size=8), 2)
