"""Recipes: made, refused, derived, and read back from dicts and files as they were."""

import json
from functools import partial

import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.errors import RecipeError
from duckplets.recipes.files import from_dict, load_recipes, to_dict
from duckplets.recipes.mined import Mined
from duckplets.recipes.recipes import (
    Selector,
    TextRecipe,
    TripletRecipe,
    any_section,
    default_recipes,
    derived_text_recipe,
    long_section_recipe,
    near_date,
    position,
    role,
    sql,
)

ANCHOR, CONTEXT = role("anchor"), role("context")


def triplet(name="pairs", **changes):
    slots = {"anchor": ANCHOR, "positive": CONTEXT, "negative": CONTEXT}
    return TripletRecipe(name, **{**slots, **changes})


WRONG = [
    (lambda: role("ancor"), "role.*'ancor'.*did you mean 'anchor'"),
    (lambda: role("Anchor"), "did you mean 'anchor'"),
    (lambda: Selector(), "give one of role, position, near_date, any_section, not none"),
    (lambda: Selector(role="anchor", near_date=1), "not role and near_date of them"),
    (lambda: position(-1), "position=-1: give an integer from 0"),
    (lambda: position(True), "position=True: give an int"),
    (lambda: position(2**40), "position=.*: give an integer from 0"),
    (lambda: near_date(1.5), "near_date=1.5: give an integer from -"),
    (lambda: near_date(-(10**9)), "near_date=-10+: give an int"),
    (lambda: role("anchor", where="dat > 1"), "unknown column dat"),
    (lambda: any_section(where="anchor.date is null"), "so write date"),
    (lambda: any_section(where=1), "where=1: give text or None"),
    (lambda: sql("date is null"), "anchor.date or negative.date"),
    (lambda: TextRecipe("a", near_date(1)), "selector: near_date"),
    (lambda: TextRecipe("a", ANCHOR, weight="1"), "weight"),
    (lambda: TextRecipe("a", ()), "'a': selector=..: give one or several"),
    (lambda: TextRecipe("a", (ANCHOR, "context")), "selector.1.='context': give a sel"),
    (lambda: default_recipes("role"), "did you mean 'roles'"),
    (lambda: long_section_recipe("text"), "role='text': give"),
]  # fmt: skip
NEAR = near_date(1)
WRONG_TRIPLETS = [
    ({"name": ""}, "up to 200"),
    ({"name": "a/b"}, "'a/b'.*without '/'"),
    ({"anchor": "anchor"}, "'pairs': anchor='anchor': give a selector such as"),
    ({"anchor": NEAR}, "anchor: near_date"),
    ({"strategy": "other_recrod"}, "did you mean 'other_record'"),
    ({"strategy": "wrong_article"}, "mean 'other_record', as the crate's wrong_article"),
    ({"strategy": "WrongPublicationDate"}, "did you mean 'other_date'"),
    ({"strategy": "QuestionAnswerMismatch"}, "did you mean 'question_answer_mismatch'"),
    ({"by": "a/b"}, "by='a/b': give up to 64 printable characters"),
    ({"negatives_from": "corpus"}, "negatives_from='corpus': give 'source' or 'split'"),
    ({"negatives_from": "split", "strategy": "same_record"}, "sections of the anchor's own record"),
    (
        {"negatives_from": "split", "negative": NEAR},
        "near_date negative is one record of the anchor's source",
    ),
    ({"negatives_from": "split", "by": "bm25"}, "by='bm25' ranks sections of the anchor's source"),
    ({"when_short": "keep"}, "when_short='keep': give 'drop' or"),
    ({"when_short": "random"}, "when_short='random' is only for strategy='same_record'"),
    ({"negative": NEAR, "strategy": "other_date"}, "the date chooses a near_date negative"),
    ({"positive": NEAR, "negative": NEAR}, "only one of positive and negative can be near_date"),
    ({"negative": NEAR, "by": "bm25"}, "near_date negative is one record"),
    ({"weight": -0.1}, "'pairs': weight.*-0.1"),
    ({"weight": float("nan")}, "weight.*nan"),
    ({"instruction": 1}, "instruction=1: give text or None"),
    ({"share": "anchor"}, "share='anchor': give 'anchors' or None .did you mean"),
    ({"per": "chunks"}, "per=.*did you mean 'chunk'"),
    ({"allow_same_anchor_positive": 1}, "positive=1: give True or False"),
    ({"sources": "faq"}, "sources='faq': give a list of names"),
    ({"sources": ()}, "sources=..: give names"),
]
WRONG += [(partial(triplet, **given), why) for given, why in WRONG_TRIPLETS]


@pytest.mark.parametrize(("make", "why"), WRONG)
def test_what_is_wrong_is_named(make, why):
    with pytest.raises(RecipeError, match=why):
        make()


def test_default_recipes_match_the_specification():
    def shares(*of):
        return {r.name: (r.weight, r.strategy, r.negative) for r in default_recipes(*of)}

    roles = {"anchor_context": (1.0, "other_record", CONTEXT)}
    dated = {
        "anchor_context_other_date": (0.30, "other_date", CONTEXT),
        "anchor_context": (0.35, "other_record", CONTEXT),
    }
    questions = {"anchor_anchor": (0.25, "other_record", ANCHOR)}
    others = {"anchor_anchor_other_date": (0.10, "other_date", ANCHOR)}
    assert shares("roles") == roles
    assert shares("dated") == dated
    three_in_four = {"anchor_context": (0.75, "other_record", CONTEXT)}
    assert shares("roles", "crate") == three_in_four | questions
    assert shares("dated", "crate") == dated | questions | others
    for same in ("text", "ready", "pairs"):
        assert default_recipes(same, "crate") == default_recipes(same)
    both = default_recipes("roles", "crate") + default_recipes("dated", "crate")
    assert {(recipe.anchor, recipe.positive) for recipe in both} == {(ANCHOR, CONTEXT)}
    ready, others = default_recipes("ready")  # for three samples in four
    own = {"strategy": "same_record", "when_short": "random", "negative": role("rejected")}
    assert ready == triplet("ready_negative", weight=0.75, **own)
    assert others == triplet("anchor_context", weight=0.25)
    (simcse,) = default_recipes("text")
    assert simcse == TripletRecipe(
        "simcse", any_section(), any_section(), any_section(), allow_same_anchor_positive=True
    )


LONG = role("context", where="kind = 'window'")
REJECTED = triplet(strategy="same_record", negative=role("rejected"))
# The triplet recipes of a source, and the selectors of its texts.
NEAR_TRUST = near_date(3, where="trust > 0")
DERIVED = [
    *(([*default_recipes(of)], (ANCHOR, CONTEXT)) for of in ("roles", "documents", "pairs")),
    (list(default_recipes("text")), any_section()),
    ([REJECTED], (ANCHOR, CONTEXT)),
    ([triplet(), long_section_recipe("context")], (ANCHOR, CONTEXT)),
    ([long_section_recipe("context")], LONG),
    ([triplet(negative=any_section()), triplet("b", anchor=LONG)], any_section()),
    (
        [triplet(negative=any_section(), positive=role("rejected"))],
        (role("rejected"), any_section()),
    ),
    ([triplet(positive=NEAR_TRUST)], (ANCHOR, CONTEXT)),
    ([triplet(positive=NEAR_TRUST, negative=ANCHOR)], (ANCHOR, role("context", where="trust > 0"))),
    ([triplet(negative=position(4), weight=0), triplet("b")], (ANCHOR, CONTEXT)),
]


@pytest.mark.parametrize(("recipes", "selector"), DERIVED)
def test_one_text_recipe_comes_from_the_triplet_recipes_of_a_source(recipes, selector):
    made = derived_text_recipe(recipes)
    assert made == TextRecipe("texts", selector, per="chunk")
    assert from_dict(json.loads(json.dumps(to_dict(made)))) == made


WHERE = st.sampled_from([None, "position > 0", "meta['lang'] = 'en' and text like '%ü;--%'"])
SECTION = st.one_of(
    st.builds(role, st.sampled_from(["anchor", "context"]), WHERE),
    st.builds(position, st.integers(0, 9), WHERE),
    st.builds(any_section, WHERE),
)
SLOT = st.one_of(SECTION, st.builds(near_date, st.integers(-400, 400), WHERE))
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda name: name.isprintable() and name.strip() and "/" not in name
)
COMMON = {
    "weight": st.floats(0, 1e300),
    "instruction": st.none() | st.text(st.characters(codec="utf-8")),
    "per": st.sampled_from(["record", "chunk"]),
    "sources": st.none() | st.lists(NAME, min_size=1, unique=True).map(tuple),
}
STRATEGIES = ["other_record", "other_date", "question_answer_mismatch", sql("anchor.date is null")]
TRIPLET = {
    "strategy": st.sampled_from(STRATEGIES), "allow_same_anchor_positive": st.booleans(), **COMMON,
    "share": st.sampled_from([None, "anchors"]),
}  # fmt: skip
MINED = Mined("dense", range_max=3, min_score=0.25, sampling="score", when_short="drop")
BY = st.sampled_from(["bm25", Mined(), MINED])
FROM = {
    "by": st.sampled_from([None, "random"]),
    "negatives_from": st.sampled_from(["source", "split"]),
}
OWN = {"strategy": st.just("same_record"), "when_short": st.sampled_from(["drop", "random"])}
RECIPE = st.one_of(
    st.builds(TextRecipe, NAME, SECTION | st.lists(SECTION, min_size=1).map(tuple), **COMMON),
    st.builds(TripletRecipe, NAME, SECTION, SECTION, SLOT, **COMMON),
    st.builds(TripletRecipe, NAME, SECTION, SLOT, SECTION, by=BY, **TRIPLET),
    st.builds(TripletRecipe, NAME, SECTION, SLOT, SECTION, **FROM, **TRIPLET),
    st.builds(TripletRecipe, NAME, SECTION, SECTION, SECTION, **OWN, **COMMON),
)


@settings(max_examples=often(150, less=10), deadline=None)
@given(RECIPE)
def test_a_recipe_survives_json(recipe):
    plain = json.loads(json.dumps(to_dict(recipe)))
    assert plain == to_dict(recipe)
    assert from_dict(plain) == recipe


GOOD = to_dict(triplet("good"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "tripple"}, "'good': kind=.*did you mean 'triplet'"),
        ({"wieght": 1}, "'good': unknown key 'wieght'.*did you mean 'weight'.*keys: "),
        ({1: 1}, "unknown key 1"),
        ({"anchor": {"rol": "anchor"}}, "'good': anchor: .*unknown key 'rol'.*'role'"),
        ({"anchor": {"Paragraph": 1}}, "did you mean 'position'"),
        ({"anchor": {"TemporalOffset": 1}}, "did you mean 'near_date'"),
        ({"anchor": {"Random": True}}, "did you mean 'any_section'"),
        ({"anchor": "role:anchor"}, "'good': anchor='role:anchor': give a selector .* { role = "),
        ({"anchor": {"role": "anchor", "position": 1}}, "anchor: .*give one of role, position"),
        ({"anchor": 3}, "anchor=3: give a selector such as"),
        ({"anchor": {"any_section": "x"}}, "any_section='x': give True"),
        ({"anchor": {"position": 10**5000}}, "position=.*: give an integer from 0"),
        ({"positive": {"role": "context", "where": "texd = 1"}}, "positive: .*unknown column texd"),
        ({"strategy": {"sqll": "true"}}, "strategy: .*did you mean 'sql'"),
        ({"by": {"bm25": {}, "own": {}}}, "'good': by=.*'own'.*give . bm25 = "),
        ({"by": {"bm25": True}}, "'good': by=.*: give . bm25 = "),
        ({"by": {"bm25": {"range": 3}}}, "'good': by: bm25: unknown key 'range'.*'range_m"),
    ],
)  # fmt: skip
def test_a_wrong_dict_is_refused_by_name(changes, why):
    with pytest.raises(RecipeError, match=f"(?s){why}"):
        from_dict({**GOOD, **changes})


TOML = """
# the readable form
[[recipe]]
name = "bodies"
selector = { position = 1, where = "len(text) > 10" }
per = "chunk"

[[recipe]]
name = "title_body"
anchor = { role = "anchor" }
positive = { role = "context" }
negative = { role = "context", where = "meta['lang'] = 'en'" }
strategy = { sql = "negative.meta['topic'] = anchor.meta['topic']" }
by = { bm25 = { range_max = 8, relative_margin = 0.05 } }
weight = 0.7

[[recipe]]
name = "next week"
strategy = "other_record"
instruction = "What came next?"
sources = ["news", "wire"]
weight = 3
[recipe.anchor]
any_section = true
[recipe.positive]
near_date = 7
[recipe.negative]
any_section = true
"""
READ = [
    TextRecipe("bodies", position(1, where="len(text) > 10"), per="chunk"),
    triplet(
        "title_body",
        negative=role("context", where="meta['lang'] = 'en'"),
        strategy=sql("negative.meta['topic'] = anchor.meta['topic']"),
        by=Mined(range_max=8, relative_margin=0.05),
        weight=0.7,
    ),
    TripletRecipe(
        "next week", any_section(), near_date(7), any_section(),
        weight=3, instruction="What came next?", sources=("news", "wire"),
    ),
]  # fmt: skip


def test_a_file_gives_its_recipes(tmp_path):
    file = tmp_path / "recipes.toml"
    file.write_text(TOML, encoding="utf-8-sig")
    assert load_recipes(file) == load_recipes(str(file)) == READ
    file.write_text("", encoding="utf-8")
    assert load_recipes(file) == []


ONE = '[[recipe]]\nname = "a"\nselector = { any_section = true }\n'


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("r.toml", ONE + ONE, "two recipes are named 'a'"),
        ("r.toml", "[[recipe]]\nname = \n", "not TOML: .*line 2"),
        ("r.toml", ONE + "wieght = 1\n", "recipe 'a': unknown key 'wieght'.*did you mean 'weight'"),
        (
            "r.toml",
            ONE.replace("any_section = true", "role = 'ancor'"),
            "recipe 'a': selector: .*'ancor'",
        ),
        ("r.toml", ONE.replace('name = "a"', ""), "recipe None: name is missing"),
        ("r.toml", "[[recipes]]\n", "unknown key 'recipes'.*did you mean 'recipe'"),
        ("r.toml", "[[triplet]]\n", r"\[\[triplet\]\] is now \[\[recipe\]\]"),
        ("r.toml", "recipe = [1]\n", r"write \[\[recipe\]\]"),
        ("r.toml", b"name = '\xff'", "not UTF-8: byte 8"),
    ],
)
def test_a_wrong_file_is_refused_by_name(name, content, why, tmp_path):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecipeError, match=f"(?s){name}: .*?{why}"):
        load_recipes(file)
    with pytest.raises(RecipeError, match=r"none\.toml: there is no such file"):
        load_recipes(tmp_path / "none.toml")
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipes(tmp_path)
