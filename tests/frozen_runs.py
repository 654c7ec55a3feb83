"""Corpora and runs of which every sample is frozen, by public names only."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpora import WORDS, odd_corpus
from described import ingested
from prebuilt import kept, prebuilt

import duckplets as dp
from duckplets import testing

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
WORDNET_COLUMNS = {"id": "id", "anchor": "title", "positive": "definition", "meta": ["domain"]}
TOY = ("alpha", "bravo", "charlie")
TITLED: dict[str, Any] = {"id": "id", "anchor": "title", "positive": "body"}

Build = Callable[[Path], dp.Corpus]
Opened = Callable[[str], Any]


def words(draw: random.Random, most: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, most)))


def filled(path: Path, sources: dict[str, Any], **how: Any) -> dp.Corpus:
    corpus = dp.Corpus(path)
    for name, source in sources.items():
        ingested(corpus, source, name=name, progress=False, **how)
    corpus.split(seed=1)
    return corpus


@prebuilt
def titled(path: Path, sizes: dict[str, int]) -> dp.Corpus:
    """Sources of so many titles and bodies, all of them of one split."""
    corpus = dp.Corpus(path)
    for name, count in sizes.items():
        corpus.ingest(testing.toy_records(count, seed=name), name=name, **TITLED)
    corpus.split(1, 0, 0)
    return corpus


def toy(path: Path) -> dp.Corpus:
    return testing.toy_corpus(path, 400, sources=TOY)


def odd(path: Path) -> dp.Corpus:
    """Repeated texts, gaps, dates, several sections and windows of twelve tokens."""
    return odd_corpus(path, 300, 3, sources=2)


def mined(path: Path) -> dp.Corpus:
    """Two sources, one of them with BM25 candidates."""
    early, late = (testing.toy_records(300, seed=name) for name in ("early", "late"))
    corpus = filled(path, {"early": dp.sources.MemorySource(early, **TITLED)})
    corpus.mine()
    corpus.ingest(late, name="late", **TITLED)
    corpus.split(seed=1)
    return corpus


def judged(path: Path) -> dp.Corpus:
    """Pairs judged by 0 or 1, and pairs with a grade."""
    draw, sources = random.Random(5), {}
    for name, labels in {"judged": (0, 1), "graded": (0.0, 0.25, 3.5)}.items():
        rows = [
            {"a": f"{words(draw, 9)} {n}", "p": f"{words(draw, 20)} {n}", "l": draw.choice(labels)}
            for n in range(300)
        ]
        sources[name] = dp.sources.MemorySource(rows, anchor="a", positive="p", label="l")
    return filled(path, sources, trust=0.8)


def ready(path: Path) -> dp.Corpus:
    """Records with ready negatives of their own, some with too few."""
    draw = random.Random(6)
    rows = [
        {**row, "n": [f"{words(draw, 20)} {n} {i}" for i in range(n % 5)]}
        for n, row in enumerate(testing.toy_records(400))
    ]
    return filled(path, {"ready": dp.sources.MemorySource(rows, **TITLED, negative="n")})


def chat(draw: random.Random, number: int) -> dict[str, Any]:
    turns = [{"role": "system", "content": words(draw, 5)}] if number % 3 else []
    for turn in range(1 + number % 4):
        turns.append({"role": "user", "content": f"{words(draw, 12)} {number} {turn}"})
        turns.append({"role": "assistant", "content": f"{words(draw, 30)} {number} {turn}"})
    return {"messages": turns}


def chats(path: Path) -> dp.Corpus:
    draw = random.Random(7)
    rows = {name: [chat(draw, n) for n in range(of)] for name, of in (("a", 300), ("b", 90))}
    return filled(
        path, {n: dp.sources.MemorySource(of, converter="openai") for n, of in rows.items()}
    )


def prefixed(path: Path) -> dp.Corpus:
    """A prefix of a source's columns, and a few records with one of their own."""
    rows: list[dict[str, Any]] = list(testing.toy_records(400))
    own = dp.Prefix(0.7, [[dp.Field("tone", ["dry", "plain"], 0.5)], [dp.Field("by", "me")]])
    for row in rows[::7]:
        row["prefix"] = own
    source = dp.sources.MemorySource(rows, **TITLED, date="date", meta=["topic"], prefix="prefix")
    corpus = filled(path, {"toy": source}, prefix=dp.Prefix.from_columns("source, date, topic"))
    corpus.chunk(dp.Chunking(max_tokens=24, overlap=(6,)))
    return corpus


def dated(path: Path) -> dp.Corpus:
    """A folder of texts with dates, and texts alone."""
    folder, draw = path.parent / "dated", random.Random(9)
    for n in range(120):
        file = folder / f"2024-01-{n % 28 + 1:02}" / f"{n}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{words(draw, 5)} {n}{'?' if n % 4 == 0 else ''}\n\n{words(draw, 30)} {n}")
    alone = dp.sources.MemorySource(
        [{"text": f"{words(draw, 30)} {n}"} for n in range(90)], text="text"
    )
    return filled(path, {"alone": alone, "dated": dp.TextFileSource(folder, date="path")})


def wordnet(path: Path) -> dp.Corpus:
    """The first titles and definitions of WordNet, with BM25 candidates."""
    if not WORDNET.exists():
        pytest.skip("the WordNet file is not here")
    source = dp.SqlSource(f"FROM '{WORDNET}' LIMIT 2000", **WORDNET_COLUMNS)
    corpus = filled(path, {"wordnet": source})
    corpus.mine()
    return corpus


def embedded(path: Path) -> dp.Corpus:
    """A vector of every text."""
    corpus = testing.toy_corpus(path, 100, sources=TOY[:2])
    corpus.embed(lambda texts: [[len(text), *map(ord, text[:3])] for text in texts])
    return corpus


BUILT = (toy, odd, mined, judged, ready, chats, prefixed, dated, wordnet, embedded)
CORPORA: dict[str, Build] = {build.__name__: build for build in BUILT}


def opener(folder: Path, stack: ExitStack) -> Opened:
    """Return what opens a corpus, or the token shards of one, by its name, once."""

    @cache
    def opened(name: str) -> Any:
        if name == "tokens":
            return dp.TokenShards(shards(folder, opened("toy")))
        if name == "embedded":  # its vectors lie in a file beside it
            return stack.enter_context(CORPORA[name](folder / "embedded.duckdb"))
        return stack.enter_context(dp.Corpus(kept(CORPORA[name]), read_only=True))

    return opened


def shards(folder: Path, corpus: dp.Corpus) -> Path:
    """Write token shards by a tokenizer of the words there are."""
    tokenizers = pytest.importorskip("tokenizers")
    texts = corpus.sql("SELECT text FROM section_texts")["text"].to_pylist()
    special = ["<unk>", "</s>", "<pad>"]
    known = [*special, *sorted({word for text in texts for word in text.split()})]
    model = tokenizers.models.WordLevel({word: n for n, word in enumerate(known)}, "<unk>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(special)
    made.save(str(folder / "tokenizer.json"))
    out = folder / "shards"
    corpus.shard(out, tokenizer=folder / "tokenizer.json", buckets=(8, 16, 24))
    return out


# ---- runs

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
TITLE = dp.TripletRecipe("title", ANCHOR, CONTEXT, CONTEXT)
BODY = dp.TripletRecipe("body", CONTEXT, ANCHOR, dp.any_section(), weight=0.3, instruction="Find.")
WINDOWS = dp.TripletRecipe("windows", CONTEXT, CONTEXT, CONTEXT, per="chunk")
CONDITIONS = [
    dp.TripletRecipe(
        "topic",
        dp.role("anchor", where="date >= '2024-01-05' and meta['topic'] <> 'law'"),
        dp.any_section(where="length(text) > 20"),
        CONTEXT,
        strategy=dp.sql("negative.meta['topic'] is distinct from anchor.meta['topic']"),
    ),
    dp.TripletRecipe("near", ANCHOR, dp.near_date(7), CONTEXT, weight=0.5),
    dp.TripletRecipe("dated", CONTEXT, dp.position(0), dp.position(1), strategy="other_date"),
    dp.TripletRecipe("question", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"),
]
SPLIT_WIDE = dp.TripletRecipe("wide", ANCHOR, CONTEXT, CONTEXT, negatives_from="split")
PHASED = dp.Mixture(
    {"alpha": 3, "charlie": 0},
    phases=[dp.Phase(3, {"charlie": 1.009}), dp.Phase(25, {"alpha": 0, "bravo": 0.1}, 0.1)],
    omitted=1,
)
RAMPED = dp.Mixture({"bravo": 0}, anneal=dp.Anneal(2, {"alpha": 0, "bravo": 7}, 300), omitted=1)
TEMPERED = dp.Mixture({"alpha": 100, "bravo": 10}, temperature=3, omitted=1)

RUNS: dict[str, dict[str, Any]] = {
    "triplets": {},
    "negatives_4": {"negatives": 4, "recipes": [TITLE, BODY], "seed": -1},
    "swapped": {"recipes": [BODY], "options": dp.Options(swap=True)},
    "crate": {"options": dp.Options(preset="crate")},
    "pairs": {"kind": "labelled_pairs", "recipes": [TITLE], "negatives": 2},
    "texts": {"kind": "texts", "mixture": "equal"},
    "rank_3_of_8": {"rank": 3, "world_size": 8},
    "phases": {"recipes": [TITLE, BODY], "mixture": PHASED},
    "ramp": {"mixture": RAMPED, "seed": 7},
    "temperature": {"kind": "texts", "mixture": TEMPERED},
    "far": {"mixture": TEMPERED, "position": 10**12},
    "weights_set": {"recipes": [TITLE], "told": {3: {"bravo": 0}, 6: {"alpha": 5}}},
    "no_duplicates": {"no_duplicates": True, "batch_size": 50},
    "other_negatives": {"no_duplicates": "negatives", "batch_size": 50, "negatives": 2},
    "validation": {"split": "validation", "recipes": [SPLIT_WIDE, BODY]},
    "odd": {"of": "odd"},
    "odd_chunks": {"of": "odd", "recipes": [WINDOWS]},
    "odd_conditions": {"of": "odd", "recipes": CONDITIONS},
    "odd_texts": {
        "of": "odd",
        "kind": "texts",
        "recipes": [dp.TextRecipe("all", dp.any_section(), per="chunk")],
    },
    "bm25": {"of": "mined", "negatives": 4},
    "random": {"of": "mined", "negatives": dp.Negatives(by="random")},
    "half_bm25": {"of": "mined", "negatives": dp.Negatives(by={"bm25": 0.5, "random": 0.5})},
    "wordnet_bm25": {"of": "wordnet", "negatives": dp.Negatives(by="bm25")},
    "dated": {"of": "dated"},
    "labelled": {"of": "judged", "kind": "labelled_pairs"},
    "ready_negatives": {"of": "ready", "negatives": 3},
    "messages": {"of": "chats", "kind": "messages"},
    "prefixes": {"of": "prefixed"},
    "vectors": {"of": "embedded", "more": ["anchor_vector", "negative_vector"]},
    "tokens": {"of": "tokens"},
    "tokens_packed": {"of": "tokens", "pack": True, "mixture": {"alpha": 2, "bravo": 1}},
    "tokens_by_bucket": {"of": "tokens", "by_bucket": True},
}
