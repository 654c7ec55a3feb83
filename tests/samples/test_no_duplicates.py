"""Batches without a text twice, without two samples of a family, or with negatives of their own.

However often texts repeat, a run goes on.
"""

import random
from collections import Counter
from itertools import product

import pytest
from corpora import negative_slots, odd_corpus
from effort import often, some, thorough
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining
from prebuilt import kept, reading

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
PLAIN = dp.TripletRecipe("plain", ANCHOR, CONTEXT, CONTEXT)
BACK = dp.TripletRecipe("back", CONTEXT, ANCHOR, ANCHOR, weight=0.5)
DATED = dp.TripletRecipe("dated", ANCHOR, CONTEXT, ANCHOR, strategy="other_date", per="chunk")
MINED = dp.TripletRecipe("mined", **CASES["plain"]["recipe"], by="bm25")
ANSWERS = dp.TextRecipe("answers", CONTEXT)
COMMON = "nothing is known of it"


def add(corpus, name, size, *, share=0, answers=0):
    """Add a source, one answer of which a share of the records have, or which has so many."""
    rows, draw = [], random.Random(f"{name} {share}")
    for i in range(size):
        own = f"{name} answers {i % answers if answers else i}"
        answer = COMMON if draw.random() < share else own
        rows.append({"id": f"{i:05}", "q": f"{name} asks {i}", "a": answer})
    corpus.ingest(rows, name=name, id="id", anchor="q", positive="a")


def texts_of(row):
    slots = ("anchor", "positive", "other", "text", *(n for n in row if n.startswith("negative")))
    return {row[slot] for slot in slots if slot in row}


def has_repeats(rows):
    texts = Counter(text for row in rows for text in texts_of(row))
    return max(texts.values()) > 1


# ---- no text twice


def common(path, share):
    """Of many records some have one answer, those of another source have 12."""
    corpus = dp.Corpus(path)
    add(corpus, "some", often(900, less=400), share=share)
    add(corpus, "few", 100, answers=12)
    corpus.split(1, 0, 0)
    return corpus


KINDS = [
    {"recipes": [PLAIN]},
    {"recipes": [PLAIN, BACK], "negatives": 2},
    {"recipes": [PLAIN], "kind": "labelled_pairs", "negatives": 2},
    {"recipes": [ANSWERS], "kind": "texts"},
]


@pytest.fixture(scope="module", params=some((0.3, 0.01, 0.05), less=1))
def shared(request):
    with dp.Corpus(kept(common, request.param), read_only=True) as corpus:
        yield corpus, request.param


@pytest.mark.parametrize("kind", some(range(len(KINDS)), less=2))
def test_one_text_in_many_records_ends_no_run(shared, kind):
    corpus, share = shared
    mixture = {"some": 1.0, "few": 0}
    arguments = {**KINDS[kind], "batch_size": 24, "epochs": 2, "mixture": mixture}
    sampler = corpus.sampler(**arguments, no_duplicates=True)
    batches = [batch.to_pylist() for batch in sampler]
    assert not any(map(has_repeats, batches))
    end = sampler.position
    plain = corpus.sampler(**arguments)
    assert end == sum(map(len, batches)) == len(plain.served(0, end))
    assert len(batches) == len(plain)
    # Each anchor comes as often as without the option, but for those that are counted.
    served = sampler.served(0, end)
    gave = sum(source is not None for source in served["displaced"].to_pylist())
    names = ["text_record_id"] if kind == 3 else ["recipe", "anchor_record_id", "swapped"]
    due, found = (
        Counter(tuple(row[name] for name in names) for row in table.to_pylist())
        for table in (plain.served(0, end), served)
    )
    assert (due - found).total() <= gave
    assert sampler.metrics()["data/some/displaced"] == gave
    if kind in (0, 3):  # of so many samples with one text a batch has one
        common = sum(COMMON in texts_of(row) - {row.get("negative")} for b in plain for row in b)
        assert gave >= common - len(batches) > 0 or share < 0.05
        assert gave <= max(0, common - len(batches)) + 0.02 * end
    (warning,) = [w for w in sampler.forecast().warnings if "displaced" in w] or [""]
    assert warning.startswith(f"{gave:,} sample" if gave else "")


# Records of each source, and how many answers they have if not one each.
SMALL = {
    "a": (40, 10),
    "b": (7, 0),
    "c": (9, 0),
    "d": (12, 0),
    "e": (20, 2),
    "f": (5, 0),
    "many": (200, 0),
}
# What is drawn from which sources, and the largest batch there is.
LARGEST = [
    ("ab", {"recipes": [ANSWERS], "kind": "texts"}, 17),
    ("c", {"recipes": [PLAIN]}, 4),  # each has two of the answers
    ("c", {"recipes": [PLAIN], "negatives": 2}, 3),
    ("d", {"recipes": [PLAIN, BACK]}, 8),  # one more of the questions, and so on
    ("ef", {"recipes": [PLAIN]}, 3),
    ("c", {"recipes": [PLAIN], "kind": "labelled_pairs", "negatives": 2}, 9),
]


def sized(path):
    corpus = dp.Corpus(path)
    for name, (size, answers) in SMALL.items():
        add(corpus, name, size, answers=answers)
    corpus.split(1, 0, 0)
    return corpus


small = reading(sized)


def test_a_batch_of_more_than_there_are_texts_is_refused_with_the_largest_that_would_do(small):
    for sources, arguments, most in some(LARGEST, less=4):
        mixture = {name: SMALL[name][0] for name in sources}
        shared = {**arguments, "no_duplicates": True, "mixture": mixture}
        for size in (most + 1, 64)[: often(2, less=1)]:
            with pytest.raises(
                dp.RecipeError, match=rf"(?s)no_duplicates: step.* has at most {most}$"
            ):
                small.sampler(**shared, batch_size=size)
        sampler = small.sampler(**shared, batch_size=most)
        assert not any(has_repeats(next(sampler).to_pylist()) for _ in range(often(66, less=9)))
        assert len(next(small.sampler(**shared, batch_size=1))) == 1


def test_a_phase_or_weights_with_too_few_texts_are_refused(small):
    arguments = {"recipes": [ANSWERS], "kind": "texts", "batch_size": 8}
    arguments |= {"no_duplicates": True}
    few = {"many": 0, "b": 1}
    phased = dp.Mixture({"many": 1, "b": 0}, phases=[dp.Phase(5, few)])
    for mixture, told in ((phased, r"step 5 needs .*'b'.*"), (few, "step 0 needs .*")):
        with pytest.raises(dp.RecipeError, match=f"{told} has at most 7$"):
            small.sampler(**arguments, mixture=mixture)
    assert len([*small.sampler(**arguments, mixture=phased, steps=5)]) == 5
    both = {"many": 1, "b": 1}
    sampler = small.sampler(**arguments, mixture=both)
    next(sampler)
    before = sampler.state_dict()
    with pytest.raises(dp.RecipeError, match=r"step 64 needs .* has at most 7$"):
        sampler.set_weights({"many": 0})
    assert sampler.state_dict() == before
    assert sampler.set_weights({"b": 0}) == 64
    resumed = small.sampler(**arguments, mixture=both)
    resumed.load_state_dict({**before, "events": [[64, {"many": 0}]]})
    with pytest.raises(dp.RecipeError, match=r"step 64 needs .* has at most 7$"):
        resumed.batch_at(64)
    # A bounded run may be shorter than a batch.
    short = small.sampler(**arguments, mixture=few, epochs=1)
    assert [len(batch) for batch in short] == [7]


# ---- no two of a family

OF_FAMILIES = [
    {"recipes": [PLAIN], "negatives": 2},
    {"recipes": [PLAIN], "kind": "labelled_pairs"},
    {"recipes": [ANSWERS], "kind": "texts"},
]


def rows():
    """Of 300 records a third is in groups, a third asks in few ways; half are of 30 entities."""
    for i in range(300):
        group, asked = (f"g{i % 40}", f"asks {i}") if i % 3 == 0 else (None, f"asks {i}")
        if i % 3 == 1:
            asked = f"Asks  OFTEN {i % 20}" if i % 2 else f"asks often {i % 20}"
        entity = f"e{i % 30}" if i % 2 else None
        yield {"id": str(i), "q": asked, "a": f"answer {i}", "g": group, "entity": entity}


FAMILY = {
    row["id"]: row["g"] or " ".join(str(row["q"]).lower().split()) for row in rows()
}  # what "group" keeps apart
ENTITY = {row["id"]: row["entity"] or row["id"] for row in rows()}
APART = {"group": FAMILY, "meta['entity']": ENTITY, "coalesce(meta['entity'], record_id)": ENTITY}


def grouped(path):
    corpus = dp.Corpus(path)
    mapping = {"anchor": "q", "positive": "a", "group": "g", "meta": ["entity"]}
    corpus.ingest([*rows()], name="s", id="id", **mapping)
    corpus.split(1, 0, 0)
    return corpus


families = reading(grouped)


@pytest.mark.parametrize(
    ("apart", "kind", "batch"),
    some(product(APART, range(len(OF_FAMILIES)), [(20, 42), (7, 1), (13, 5)]), less=6),
)
def test_no_batch_has_two_of_a_family_and_every_anchor_comes(families, apart, kind, batch):
    size, seed = batch
    given = {**OF_FAMILIES[kind], "batch_size": size, "epochs": 2, "seed": seed}
    sampler, plain = families.sampler(**given, no_duplicates=apart), families.sampler(**given)
    record = "text_record_id" if kind == 2 else "anchor_record_id"
    assert not any(has_repeats(each.to_pylist()) for each in sampler)
    served = sampler.served(0, sampler.position)
    found = [APART[apart][name.split("/")[1]] for name in served[record].to_pylist()]
    batches = [found[at : at + size] for at in range(0, len(found), size)]
    assert all(len(of) == len({*of}) for of in batches)
    gave = sum(source is not None for source in served["displaced"].to_pylist())
    due = Counter(plain.served(0, sampler.position)[record].to_pylist())
    assert (due - Counter(served[record].to_pylist())).total() <= gave <= len(served) // 10
    assert_resumes_everywhere(families.sampler(**given, no_duplicates=apart), often(5, less=3))


def test_a_name_that_is_not_a_value_of_records_is_refused(families):
    size = len({*FAMILY.values()})
    for apart, error, said in [
        ("negative", dp.SamplerError, r"'negatives', 'group', or a value of records .*n negative"),
        ("text", dp.SamplerError, "text"),
        ("source) IS NOT NULL OR (label", dp.SamplerError, "one value"),
        ("meta['x']; DROP TABLE records", dp.SamplerError, "condition"),
        ("random()", dp.SamplerError, "random"),
        ("", dp.SamplerError, "no_duplicates=''"),
        ("meta['entty']", dp.SamplerError, "no record of split 'train' has such a value"),
        ("record_id::INT", dp.SamplerError, "no_duplicates='record_id::INT': Conversion Error"),
        (7, dp.SamplerError, "no_duplicates=7"),
        (1, dp.SamplerError, "no_duplicates=1"),
        (None, dp.SamplerError, "no_duplicates=None"),
        ("group", dp.RecipeError, rf"only {size} without a repeated text"),
    ]:
        with pytest.raises(error, match=said):
            families.sampler(**OF_FAMILIES[2], batch_size=size + 1, no_duplicates=apart)
    # A literal is data wherever it stands.
    odd = "coalesce(meta['entity'], 'x\n; DROP TABLE records; --')"
    assert len(next(families.sampler(**OF_FAMILIES[2], batch_size=2, no_duplicates=odd))) == 2
    assert families.count() == 300


# ---- negatives only


@pytest.fixture(scope="module")
def repeating(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    found = {
        "odd": odd_corpus(folder / "odd.duckdb", 90, 3, sources=2),
        "guarded": guarded_corpus(folder / "guarded.duckdb", 40, 1),
    }
    rules = rules_of(found["guarded"], CASES["plain"], "s0", "train")
    write_mining(found["guarded"], MINED, some_candidates(rules, 1))
    yield found
    for corpus in found.values():
        corpus.close()


def negatives_of(batch, negatives, kind):
    """Return the negatives of a batch, and its other texts."""
    rows = batch.to_pylist()
    if kind == "labelled_pairs":
        others = [row["anchor"] for row in rows] + [r["other"] for r in rows if r["label"]]
        return [row["other"] for row in rows if not row["label"]], others
    names = negative_slots(negatives)
    return (
        [row[name] for row in rows for name in names],
        [row[name] for row in rows for name in ("anchor", "positive")],
    )


CASES_OF = [
    ("odd", {"recipes": [PLAIN, DATED], "batch_size": 12}),
    (
        "odd",
        {
            "recipes": [PLAIN, DATED],
            "batch_size": 9,
            "negatives": 3,
            "options": dp.Options(swap=False),
        },
    ),
    ("odd", {"recipes": [PLAIN], "batch_size": 10, "kind": "labelled_pairs", "negatives": 2}),
    ("odd", {"recipes": [PLAIN], "batch_size": 16, "epochs": 2}),
    ("guarded", {"recipes": [MINED], "batch_size": 6, "negatives": 2, "mixture": {"s0": 1}}),
]


@pytest.mark.parametrize("case", some(range(len(CASES_OF)), less=2))
@pytest.mark.parametrize("seed", range(often(12, less=1)))
def test_negatives_differ_and_anchors_keep_their_order(repeating, case, seed):
    name, arguments = CASES_OF[case]
    negatives, kind = arguments.get("negatives", 1), arguments.get("kind", "triplets")
    plain = repeating[name].sampler(**arguments, seed=seed, run="plain")
    how = arguments | {"seed": seed, "no_duplicates": "negatives", "run": "apart"}
    sampler = repeating[name].sampler(**how)
    redrawn = 0
    for step in range(len(sampler) if "epochs" in arguments else often(8, less=5)):
        before, batch = plain.batch_at(step), sampler.batch_at(step)
        found, others = negatives_of(batch, negatives, kind)
        assert len(set(found)) == len(found)
        assert not set(found) & set(others)
        assert negatives_of(before, negatives, kind)[1] == others
        assert batch["source"] == before["source"]
        redrawn += negatives_of(before, negatives, kind)[0] != found
    assert redrawn or seed, "a case in which nothing repeats shows nothing"


@thorough
def test_a_corpus_is_served_down_to_its_last_legal_negative(small):
    """Every batch needs each text that is none of its own; a larger one is refused."""
    for source, batch, negatives in [("c", 3, 2), ("d", 4, 2), ("d", 6, 1)]:
        shared = {"recipes": [PLAIN], "negatives": negatives, "options": dp.Options(swap=False)}
        shared |= {"no_duplicates": "negatives", "mixture": {source: 1}}
        size = SMALL[source][0]
        for found in small.sampler(**shared, batch_size=batch, epochs=2):
            drawn, others = negatives_of(found, negatives, "triplets")
            if len(set(others)) == 2 * batch:  # no anchor of two epochs
                assert set(drawn) == {f"{source} answers {i}" for i in range(size)} - set(others)
        with pytest.raises(dp.RecipeError, match="='negatives': in batch 0, all negatives"):
            small.sampler(**shared, batch_size=batch + 3, run="more")


def test_displaced_samples_are_marked_and_counted_and_a_save_stores_them(repeating, tmp_path):
    corpus, (_, arguments), state = repeating["guarded"], CASES_OF[-1], tmp_path / "s.duckdb"
    how = arguments | {"negatives": 1, "batch_size": 8, "columns": ["anchor", "negative_by"]}
    sampler = corpus.sampler(**how, no_duplicates="negatives", options=dp.Options(state=state))
    said = Counter(row["negative_by"] for _ in range(9) for row in next(sampler).to_pylist())
    assert said["bm25"]
    assert sampler.metrics()["data/s0/fallbacks"] == said["bm25_fallback"] > 0
    sampler.save()
    with pytest.raises(dp.StateMismatchError, match="no_duplicates"):
        corpus.resume(state=state, no_duplicates=True)
    assert corpus.resume(state=state).settings.no_duplicates == "negatives"
    with pytest.raises(dp.SamplerError, match="no_duplicates='negatives': texts have no negatives"):
        corpus.sampler("texts", no_duplicates="negatives")


@pytest.mark.parametrize("kind", [{"negatives": 4}, {"kind": "lists", "negatives": 4}])
def test_a_batch_of_almost_all_texts_is_not_the_same_each_time(tmp_path, kind):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        add(corpus, "tight", 128)
        corpus.split(1, 0, 0)
        given = {"recipes": [PLAIN], "batch_size": 25, "no_duplicates": True, "steps": 80}
        sampler = corpus.sampler(**given, **kind)
        batches = [frozenset(batch["anchor"]) for batch in sampler]
        displaced = sampler.metrics()["data/tight/displaced"]
        assert displaced > 0, "the test is of a run too tight to be arranged"
        assert len({*batches}) > 32
        assert len(frozenset().union(*batches)) == 128
        assert_resumes_everywhere(corpus.sampler(**given, **kind), 5)
