"""What is drawn where nobody says more: the pairs as they were given, or the way of a preset.

``preset="crate"`` is held to the documents of the triplets crate under that one word: its recipes
and their shares, its swapping, its shares of sources, what an omitted source weighs.
"""

from collections import Counter
from dataclasses import replace

import corpora
import pytest
from commands import cli, error, lines, ok
from prebuilt import prebuilt

import duckplets as dp

CRATES = dp.Options(preset="crate", prefetch=0)

ROLES = {"anchor_context": 0.75, "anchor_anchor": 0.25}
DATED = {
    "anchor_context_other_date": 0.30,
    "anchor_anchor_other_date": 0.10,
    "anchor_context": 0.35,
    "anchor_anchor": 0.25,
}
READY = {"ready_negative": 0.75, "anchor_context": 0.25}
CRATE = {"faq": ROLES, "manual": ROLES, "notes": DATED, "plain": {"simcse": 1.0}, "ready": READY}
PLAIN = {
    "faq": {"anchor_context": 1.0},
    "manual": {"anchor_context": 1.0},
    "notes": {"anchor_context_other_date": 0.30 / 0.65, "anchor_context": 0.35 / 0.65},
    "plain": {"simcse": 1.0},
    "ready": READY,
}


@prebuilt
def library(path):
    """Sources of every kind that has defaults of its own, of very different sizes."""
    corpus = dp.Corpus(path)
    for name, count in (("faq", 40), ("manual", 8)):
        rows = [{"q": f"{name} question {i}", "a": f"{name} answer {i}"} for i in range(count)]
        corpus.ingest(rows, name=name, anchor="q", positive="a")
    folder = path.parent / f"{path.stem} notes"
    for i in range(20):
        file = folder / f"2024-0{1 + i % 5}-01" / f"note {i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"text of note {i}")
    corpus.ingest(dp.TextFileSource(folder, date=True), name="notes")
    rows = [{"t": f"text {i}"} for i in range(12)]
    corpus.ingest(rows, name="plain", text="t")
    rows = [{"q": f"ask {i}", "a": f"say {i}", "n": f"wrong {i}"} for i in range(12)]
    corpus.ingest(rows, name="ready", anchor="q", positive="a", negative="n")
    corpus.split(1, 0, 0)
    return corpus


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("defaults") / "c.duckdb"
    library(path).close()
    return path


@pytest.fixture(scope="module")
def corpus(path):
    with dp.Corpus(path, read_only=True) as corpus:
        yield corpus


def rows_of(corpus, count, **how):
    columns = ["source", "recipe", "swapped", "anchor", "positive", "negative"]
    with corpus.sampler(
        **{"batch_size": 100, "columns": columns, "options": dp.Options(prefetch=0)} | how
    ) as sampler:
        return corpora.rows_of(sampler, count // 100)


def shares(rows):
    """Of each source the shares of its recipes."""
    of_source = Counter(row["source"] for row in rows)
    found = {source: {} for source in sorted(of_source)}
    for (source, recipe), count in Counter((r["source"], r["recipe"]) for r in rows).items():
        found[source][recipe] = count / of_source[source]
    return found


def close(one, other):
    return one.keys() == other.keys() and all(
        shares.keys() == other[source].keys()
        and all(abs(share - other[source][name]) < 0.02 for name, share in shares.items())
        for source, shares in one.items()
    )


def test_by_default_pairs_are_served_as_they_were_given(corpus):
    found = rows_of(corpus, 1000)
    assert close(shares(found), PLAIN)
    assert not any(row["swapped"] for row in found)
    faq = [row for row in found if row["source"] == "faq"]
    assert all("question" in r["anchor"] and "answer" in r["positive"] for r in faq)
    assert all("answer" in row["negative"] for row in faq), "no question is a negative"
    with corpus.sampler() as sampler:
        assert "swap off" in sampler.describe()
        assert "swap off" in str(sampler.forecast())
        assert set(sampler.forecast().table["swap"].to_pylist()) == {False}


def test_the_preset_is_the_crates_way(corpus):
    found = rows_of(corpus, 5000, options=CRATES)
    assert close(shares(found), CRATE)
    of_source = Counter(row["source"] for row in found)
    assert all(abs(count - 1000) <= 3 for count in of_source.values()), "whatever their sizes"
    assert 0.47 < sum(row["swapped"] for row in found) / 5000 < 0.53
    asked = [r for r in found if r["source"] == "faq" and r["recipe"] == "anchor_anchor"]
    assert all("question" in row["negative"] for row in asked)
    with corpus.sampler(options=dp.Options(preset="crate")) as sampler:
        assert "swap on" in sampler.describe()
        assert "swap on" in str(sampler.forecast())
        drawn = sampler.forecast().table
        assert set(drawn["recipe"].to_pylist()) == {name for of in CRATE.values() for name in of}


def test_what_is_given_wins_over_the_preset(corpus):
    plain = rows_of(corpus, 500, options=replace(CRATES, swap=False))
    swapped = rows_of(corpus, 500, options=CRATES)
    assert not any(row["swapped"] for row in plain)
    assert [row["negative"] for row in plain] == [row["negative"] for row in swapped]
    skip = replace(CRATES, empty="skip")
    one = rows_of(corpus, 500, options=skip, recipes=["anchor_context"])
    assert {row["recipe"] for row in one} == {"anchor_context"}
    # A source that a mapping does not name weighs 1.
    weights = {"faq": 3, "manual": 1}
    found = Counter(r["source"] for r in rows_of(corpus, 700, options=CRATES, mixture=weights))
    assert found == {"faq": 300, "manual": 100, "notes": 100, "plain": 100, "ready": 100}
    only = dp.Mixture(weights, omitted=0)
    found = Counter(r["source"] for r in rows_of(corpus, 400, options=CRATES, mixture=only))
    assert found == {"faq": 300, "manual": 100}


def test_a_saved_run_keeps_its_preset(path, tmp_path):
    state = tmp_path / "s.duckdb"
    with dp.Corpus(path, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=10, options=dp.Options(preset="crate", state=state))
        for _ in range(3):
            next(sampler)
        sampler.save()
        expected = [next(sampler).to_pylist() for _ in range(5)]
    with dp.resume(path, state=state) as resumed:
        assert resumed.settings.preset == "crate"
        assert resumed.settings.swap
        assert [next(resumed).to_pylist() for _ in range(5)] == expected
    with dp.resume(path, state=state, recipes=None, options=dp.Options(swap=None)) as resumed:
        assert next(resumed).to_pylist() == expected[0]
    with pytest.raises(dp.StateMismatchError, match="swap"):
        dp.resume(path, state=state, options=dp.Options(swap=False))
    with pytest.raises(dp.SamplerError, match="resume: a saved run cannot change preset="):
        dp.resume(path, state=state, options=dp.Options(preset="crate"))


def test_an_unknown_preset_is_refused_everywhere(corpus):
    wrong = ["crat", "", 3, True]
    for preset in wrong:
        with pytest.raises(dp.RecipeError, match=r"preset=.*give 'crate' or None"):
            corpus.pool("anchor_context", preset=preset)
        with pytest.raises(dp.SamplerError, match=r"preset=.*give 'crate' or None"):
            corpus.sampler(options={"preset": preset})


def test_every_command_takes_the_preset(path, tmp_path):
    assert "anchor_anchor" not in ok("show", path, "--recipes")
    key = ("--set", "preset=crate")
    told = cli("forecast", path, *key)
    assert "swap on" in told.stderr + told.stdout
    assert "anchor_anchor_other_date" in told.stderr + told.stdout
    found = lines(ok("sample", path, *key, "--set", "swap=false", "--columns", "swapped"))
    assert {row["swapped"] for row in found} == {False}
    found = lines(ok("sample", path, "--set", "swap=true", "--columns", "swapped"))
    assert {row["swapped"] for row in found} == {False, True}
    assert "WITH" in ok("sql", path, "anchor_anchor")
    assert "preset='crat'" in error("sample", path, "--set", "preset=crat")
    assert "cannot change preset=" in error("sample", path, "--resume", *key)
    export = ("export", path, tmp_path / "x.jsonl", "--format", "flagembedding")
    assert "duckplets mine" in error(*export)
