"""Runs in which no text comes twice in a batch: however often texts repeat, they go on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import often, some, thorough

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
PLAIN = dp.TripletRecipe("plain", ANCHOR, CONTEXT, CONTEXT)
BACK = dp.TripletRecipe("back", CONTEXT, ANCHOR, ANCHOR, weight=0.5)
ANSWERS = dp.TextRecipe("answers", CONTEXT)
COMMON = "nothing is known of it"


def add(corpus: dp.Corpus, name: str, size: int, *, share: float = 0, answers: int = 0) -> None:
    """Add a source, one answer of which a share of the records have, or which has so many."""
    rows, draw = [], random.Random(f"{name} {share}")
    for i in range(size):
        own = f"{name} answers {i % answers if answers else i}"
        answer = COMMON if draw.random() < share else own
        rows.append({"id": f"{i:05}", "q": f"{name} asks {i}", "a": answer})
    source = dp.MemorySource(rows, id="id", anchor="q", positive="a")
    corpus.ingest(source, name=name, progress=False)
    corpus.split(1, 0, 0)


def texts_of(row: dict[str, Any]) -> set[str]:
    slots = ("anchor", "positive", "other", "text", *(n for n in row if n.startswith("negative")))
    return {row[slot] for slot in slots if slot in row}


def has_repeats(rows: list[dict[str, Any]]) -> bool:
    texts = Counter(text for row in rows for text in texts_of(row))
    return max(texts.values()) > 1


SHARES = some((0.3, 0.01, 0.05), less=1)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[float, dp.Corpus]]:
    """Of 900 records some have one answer, those of another source have 12."""
    folder, found = tmp_path_factory.mktemp("no_duplicates"), {}
    for share in SHARES:
        found[share] = dp.Corpus(folder / f"{share}.duckdb")
        add(found[share], "some", 900, share=share)
        add(found[share], "few", 100, answers=12)
    yield found
    for corpus in found.values():
        corpus.close()


KINDS: list[dict[str, Any]] = [
    {"recipes": [PLAIN]},
    {"recipes": [PLAIN, BACK], "negatives": 2},
    {"recipes": [PLAIN], "kind": "pairs", "negatives": 2},
    {"recipes": [ANSWERS], "kind": "texts"},
]
ONE = {"some": 1.0, "few": 0}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("kind", some(range(len(KINDS)), less=2))
def test_one_text_in_many_records_ends_no_run(
    corpora: dict[float, dp.Corpus], share: float, kind: int
) -> None:
    arguments = {**KINDS[kind], "batch_size": 24, "epochs": 2, "mixture": ONE}
    sampler = corpora[share].sampler(**arguments, no_duplicates=True)
    batches = [batch.to_pylist() for batch in sampler]
    assert not any(map(has_repeats, batches))
    end = sampler.position
    plain = corpora[share].sampler(**arguments)
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


@pytest.mark.parametrize(
    ("sources", "arguments", "most"),
    some(
        [
            ([(40, 10), (7, 0)], {"recipes": [ANSWERS], "kind": "texts"}, 17),
            ([(9, 0)], {"recipes": [PLAIN]}, 4),  # each has two of the answers
            ([(9, 0)], {"recipes": [PLAIN], "negatives": 2}, 3),
            ([(12, 0)], {"recipes": [PLAIN, BACK]}, 8),  # one more of the questions, and so on
            ([(20, 2), (5, 0)], {"recipes": [PLAIN]}, 3),
            ([(9, 0)], {"recipes": [PLAIN], "kind": "pairs", "negatives": 2}, 9),
        ],
        less=4,
    ),
)
def test_a_batch_of_more_than_there_are_texts_is_refused_with_the_largest_that_would_do(
    tmp_path: Path, sources: list[tuple[int, int]], arguments: dict[str, Any], most: int
) -> None:
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        for number, (size, answers) in enumerate(sources):
            add(corpus, f"s{number}", size, answers=answers)
        shared = {**arguments, "no_duplicates": True}
        for size in (most + 1, 64):
            with pytest.raises(
                dp.RecipeError, match=rf"(?s)no_duplicates cannot.* has at most {most}$"
            ):
                corpus.sampler(**shared, batch_size=size)
        for size, steps in ((most, often(66, less=12)), (1, 3)):
            sampler = corpus.sampler(**shared, batch_size=size)
            assert not any(has_repeats(next(sampler).to_pylist()) for _ in range(steps))


def test_what_a_phase_or_new_weights_leave_too_little_for_is_refused(tmp_path: Path) -> None:
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        add(corpus, "many", 200)
        add(corpus, "few", 6)
        arguments: dict[str, Any] = {"recipes": [ANSWERS], "kind": "texts", "batch_size": 8}
        arguments |= {"no_duplicates": True}
        few = {"many": 0, "few": 1}
        phased = dp.Mixture({"many": 1, "few": 0}, phases=[dp.Phase(5, few)])
        for mixture, told in ((phased, r"at step 5 .*'few'.*"), (few, "at step 0 .*")):
            with pytest.raises(dp.RecipeError, match=f"{told} has at most 6$"):
                corpus.sampler(**arguments, mixture=mixture)
        assert len([*corpus.sampler(**arguments, mixture=phased, steps=5)]) == 5
        both = {"many": 1, "few": 1}
        sampler = corpus.sampler(**arguments, mixture=both)
        next(sampler)
        before = sampler.state_dict()
        with pytest.raises(dp.RecipeError, match=r"at step 64 .* has at most 6$"):
            sampler.set_weights({"many": 0})
        assert sampler.state_dict() == before
        assert sampler.set_weights({"few": 0}) == 64
        resumed = corpus.sampler(**arguments, mixture=both)
        resumed.load_state_dict({**before, "events": [[64, {"many": 0}]]})
        with pytest.raises(dp.RecipeError, match=r"at step 64 .* has at most 6$"):
            resumed.batch_at(64)
        # A bounded run may be shorter than a batch.
        short = corpus.sampler(**arguments, mixture=few, epochs=1)
        assert [len(batch) for batch in short] == [6]


@thorough
def test_a_source_of_few_texts_leaves_its_places_to_others(tmp_path: Path) -> None:
    """Also where a block has fewer samples of these than its batches need."""
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        add(corpus, "many", 700)
        add(corpus, "few", 4)
        for weight, least in ((20.0, 24), (2000.0, 5 * 64)):
            mixture = {"few": weight, "many": 1}
            sampler = corpus.sampler(
                recipes=[PLAIN], batch_size=8, no_duplicates=True, swap=False, mixture=mixture
            )
            batches = [next(sampler).to_pylist() for _ in range(64)]
            assert not any(map(has_repeats, batches))
            rows = [row for batch in batches for row in batch if row["source"] == "many"]
            assert len(rows) >= 6 * 64
            # Each of the block is served again and again, before any that comes after it.
            assert len({row["anchor"] for row in rows}) >= least
            assert sampler.metrics()["data/few/displaced"] > 5 * 64
