"""Measures which negatives a model learns from: one small model from nothing, many ways to draw.

    python benchmarks/teach.py [--minutes 90] [--corpora debian gcide] [--arms pairs] [--seeds 1 2 3]
    python benchmarks/teach.py --model transformer --seeds 1 2 3

    corpus ─mine→ candidates ─an arm's sampler→ batches ─→ word vectors from nothing
           ─evaluator("test")→ nDCG@10 of every query ─compare→ difference from another arm

The model is a mean of word vectors (``StaticEmbedding`` of sentence-transformers), or a small
transformer (on a GPU where there is one); its tokenizer is made from the texts to learn from, and all
that differs between two arms is what a sampler was asked for. Queries of the test split rank the
texts of all splits. Each finished run is written into ``teach.json`` and not done again; what can be
used again (corpora, candidates, results of every query) lies in ``--folder``. Runs that are found
there are taken: so copies of a folder whose candidates are mined can share the work, each with its
own ``--out``, and when their ``*.json`` are put together, one more call makes one of them. In a new
folder the arms that others are compared with are run again, and their figures are kept beside the
first ones. A corpus whose texts are not on this machine is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
from teach_corpora import CHARACTERS, CORPORA, FEWER, HALF, MOST, PLANTED

import duckplets as dp

HERE = Path(__file__).parent
QUERIES = 2_000  # of the test split, about
SEEDS = (1, 2, 3)

VOCABULARY, TOKENS, DIMENSION = 16_000, 96, 256
BATCH, DEPTH = 256, 100
LAYERS, HEADS, LENGTHS = 4, 4, 4  # of the transformer; so many lengths are padded apart
# a third and two thirds of a training, where blocks of ``no_duplicates`` begin
MINED_AT = (128, 256)

# -- arms -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What a sampler is asked for.

    Attributes:
        title: What the page calls it.
        beside: The arm it is compared with.
        negatives: Of a sample; 0 where the batch alone gives them.
        by: Where they come from.
        vectors: The arm whose first model ranks candidates for it.
        batch: Samples a batch.
        again: Whether candidates are mined again on the way, by the model in training.
        verdict: What planted pairs are relabelled as; of planted corpora only.
        options: Further arguments.
    """

    title: str
    beside: str = "random_1"
    negatives: int = 1
    by: Any = "random"
    vectors: str = ""
    batch: int = BATCH
    again: bool = False
    verdict: str = ""
    options: dict[str, Any] = field(default_factory=dict)


IN_BATCH: dict[str, Any] = {"beside": "pairs", "negatives": 0}
DENSE: dict[str, Any] = {"beside": "dense_1", "by": dp.Negatives(by="dense"), "vectors": "pairs"}
# margins so negative that nothing is left out
UNCUT: dict[str, Any] = DENSE | {"by": dp.Negatives(by="dense", relative_margin=-1e6)}
NEAREST: dict[str, Any] = UNCUT | {
    "beside": "uncut",
    "by": dp.Negatives(by="dense", relative_margin=-1e6, range_max=4),
}
ARMS = {
    "pairs": Arm(title="in-batch negatives only", **IN_BATCH),
    "random_1": Arm(title="1 random", beside="pairs"),
    "bm25_1": Arm(title="1 BM25", by="bm25"),
    "random_4": Arm(title="4 random", beside="pairs", negatives=4),
    "bm25_4": Arm(title="4 BM25", beside="random_4", negatives=4, by="bm25"),
    "range": Arm(
        title="1 BM25, ranks 10–60", by=dp.Negatives(by="bm25", range_min=10, range_max=60)
    ),
    "margin": Arm(title="1 BM25, margin .05", by=dp.Negatives(by="bm25", relative_margin=0.05)),
    "repeats": Arm(
        title="in-batch, texts may repeat", **IN_BATCH, options={"no_duplicates": False}
    ),
    "group": Arm(
        title='in-batch, `no_duplicates="group"`', **IN_BATCH, options={"no_duplicates": "group"}
    ),
    "apart": Arm(
        title='in-batch, `in_batch_margin=("bm25", 0.05)`',
        **IN_BATCH,
        options={"negatives": dp.Negatives(by="random", in_batch_margin=("bm25", 0.05))},
    ),
    "dense_1": Arm(title="1 dense", by=dp.Negatives(by="dense"), vectors="pairs"),
    "dense_4": Arm(
        title="4 dense",
        beside="random_4",
        negatives=4,
        by=dp.Negatives(by="dense"),
        vectors="pairs",
    ),
    "both": Arm(title="1 of both by half", by={"bm25": 0.5, "dense": 0.5}, vectors="pairs"),
    "drop": Arm(
        title="1 BM25, margin .05, others dropped",
        by=dp.Negatives(by="bm25", relative_margin=0.05, when_short="drop"),
    ),
    "again": Arm(
        title="1 dense, mined again",
        by=dp.Negatives(by="again", relative_margin=0.05),
        vectors="dense_1",
    ),
    "length": Arm(title="in-batch, 1 length a batch", **IN_BATCH, options={"batch_by": "length"}),
    "uncut": Arm(title="1 dense, no margin", **UNCUT),
    "nearest": Arm(title="1 dense of the first 4, no margin", **NEAREST),
    "on_the_way": Arm(title="1 dense, mined again on the way", **DENSE, again=True),
    "random_positive": Arm(title="1 random, relabelled positive", verdict="positive"),
    "ambiguous": Arm(title="1 dense, relabelled ambiguous", **DENSE, verdict="ambiguous"),
    "positive": Arm(title="1 dense, relabelled positive", **DENSE, verdict="positive"),
    "nearest_ambiguous": Arm(
        title="1 dense of the first 4, no margin, relabelled ambiguous",
        **NEAREST | {"beside": "nearest"},
        verdict="ambiguous",
    ),
    "nearest_positive": Arm(
        title="1 dense of the first 4, no margin, relabelled positive",
        **NEAREST | {"beside": "nearest"},
        verdict="positive",
    ),
    "random_64": Arm(title="1 random, batch 64", beside="random_1", batch=64),
    "bm25_64": Arm(title="1 BM25, batch 64", beside="random_64", by="bm25", batch=64),
}
SCORERS = {"pairs": "dense", "dense_1": "again"}  # what the first model of an arm is called
OF_PLANTED = ("pairs", "random_1", "dense_1", "uncut", "nearest")  # and what relabels
DECIDING = ("pairs", "random_1", "random_4", "bm25_4", "dense_1", "dense_4")


@dataclass(frozen=True)
class Kind:
    """A kind of model: how it is trained, and in which arms."""

    steps: int
    rate: float
    arms: tuple[str, ...] = tuple(ARMS)
    layers: int = 0


MODELS = {
    "static": Kind(400, 0.2),
    "transformer": Kind(
        1_500, 1e-3, ("pairs", "random_1", "dense_1", "random_4", "dense_4"), LAYERS
    ),
}
RECIPE = dp.TripletRecipe("pairs", dp.role("anchor"), dp.role("context"), dp.role("context"))


def works(
    corpora: Sequence[str], arms: Sequence[str], seeds: Sequence[int]
) -> Iterator[tuple[str, str, int]]:
    """Yield what is to be run, the most important first: arms that decide have more seeds."""
    first, later = seeds[: len(SEEDS)], seeds[len(SEEDS) :]
    order = [(seed, arm) for seed in first[:1] for arm in arms]
    order += [(seed, arm) for seed in first[1:] for arm in arms]
    order += [(seed, arm) for seed in later for arm in arms if arm in DECIDING]
    yield from (
        (corpus, arm, seed) for seed, arm in order for corpus in corpora if _is_of(arm, corpus)
    )


def _is_of(arm: str, corpus: str) -> bool:
    """Return whether an arm is run on a corpus."""
    relabels = bool(ARMS[arm].verdict)
    return relabels or arm in OF_PLANTED if corpus in PLANTED else not relabels


# -- the model ------------------------------------------------------------------------------------


class Texts:
    """The token ids of texts, made once each, by a tokenizer of the texts to learn from."""

    def __init__(self, file: Path, learn_from: Iterable[str]) -> None:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        if not file.exists():
            made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            made.normalizer = normalizers.BertNormalizer()
            made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            how = trainers.WordPieceTrainer(
                vocab_size=VOCABULARY, special_tokens=["[UNK]"], show_progress=False
            )
            made.train_from_iterator(learn_from, how)
            made.save(str(file))
        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.enable_truncation(TOKENS)
        self._seen: dict[str, np.ndarray] = {}

    def ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text; one, where it has none."""
        new = list({text for text in texts if text not in self._seen})
        for text, found in zip(new, self.tokenizer.encode_batch(new), strict=True):
            self._seen[text] = np.array(found.ids or [0], np.int64)
        return [self._seen[text] for text in texts]

    def features(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return what ``StaticEmbedding`` takes."""
        import torch

        rows = self.ids(texts)
        starts = np.cumsum([0, *map(len, rows[:-1])])
        return {
            "input_ids": torch.from_numpy(np.concatenate(rows)),
            "offsets": torch.from_numpy(starts),
        }

    def padded(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return what a transformer takes."""
        import torch

        rows = [torch.from_numpy(row) for row in self.ids(texts)]
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "input_ids": pad(rows, batch_first=True),
            "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True),
        }


def fresh(texts: Texts, seed: int, kind: Kind) -> Any:
    """Return a model that knows nothing."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    class Static(StaticEmbedding):
        def preprocess(self, inputs: list[str], *args: Any, **kwargs: Any) -> dict[str, Any]:
            return texts.features(inputs)

    torch.manual_seed(seed)
    if kind.layers:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return SentenceTransformer(modules=[_transformer(texts, kind.layers)], device=device)
    module = Static(texts.tokenizer, embedding_dim=DIMENSION)
    return SentenceTransformer(modules=[module], device="cpu")


def _transformer(texts: Texts, layers: int) -> Any:
    """Return a BERT from nothing, with the mean of its last states."""
    import torch
    from transformers import BertConfig, BertModel

    class Transformer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = BertConfig(
                vocab_size=texts.tokenizer.get_vocab_size(),
                hidden_size=DIMENSION,
                intermediate_size=4 * DIMENSION,
                num_hidden_layers=layers,
                num_attention_heads=HEADS,
                max_position_embeddings=TOKENS,
            )
            self.bert = BertModel(config, add_pooling_layer=False)

        def preprocess(self, inputs: list[str], *args: Any, **kwargs: Any) -> dict[str, Any]:
            return texts.padded(inputs)

        def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            mask = features["attention_mask"]
            states = self.bert(features["input_ids"], mask).last_hidden_state.float()
            total = (states * mask[..., None]).sum(1)
            return features | {"sentence_embedding": total / mask.sum(1, keepdim=True)}

    return Transformer()


def _vectors(model: Any, texts: Texts, every: Sequence[str], kind: Kind) -> Any:
    """Return the vectors of texts; a transformer pads those of about one length together."""
    import torch

    if not kind.layers:  # at once: 3 times as fast
        return model(texts.features(every))["sentence_embedding"]
    order, on = np.argsort([len(ids) for ids in texts.ids(every)]), model.device
    with torch.autocast(on.type, torch.bfloat16, enabled=on.type == "cuda"):
        parts = [
            {key: of.to(on) for key, of in texts.padded([every[i] for i in part]).items()}
            for part in np.array_split(order, LENGTHS)
        ]
        found = torch.cat([model(part)["sentence_embedding"] for part in parts])
    return found[torch.from_numpy(np.argsort(order)).to(on)]


def train(
    model: Any,
    texts: Texts,
    sampler: Any,
    columns: Sequence[str],
    kind: Kind,
    mine: Callable[[int], None],
) -> list[float]:
    """Train a model on the batches of a sampler, and return the loss of every step."""
    import torch
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model.train()
    steps = kind.steps
    optimizer = torch.optim.Adam(model.parameters(), lr=kind.rate, fused=True)
    loss, losses, rise = MultipleNegativesRankingLoss(model), [], max(1, steps // 10)
    for step, batch in enumerate(sampler):
        for group in optimizer.param_groups:
            group["lr"] = kind.rate * min((step + 1) / rise, (steps - step) / (steps - rise + 1))
        every = [text for name in columns for text in batch[name]]
        vectors = _vectors(model, texts, every, kind)
        value = loss.compute_loss_from_embeddings(list(vectors.split(len(batch))), None)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
        if step + 1 in MINED_AT:
            mine(step + 1)
            model.train()
    model.eval()
    return losses


# Planted halves, by the anchor they answer.
PAIRS = """
    SELECT of_anchor.text AS anchor, half.text AS text
    FROM section_texts AS of_anchor
    JOIN section_texts AS half ON half.record_id = of_anchor.record_id || $half
    WHERE of_anchor.role = 'anchor'
    ORDER BY ALL
"""
# How many stand in train with their anchor, and where among its dense candidates.
RANKS = """
    WITH found AS (
        SELECT half.record_id, rank, score > positive_score - abs(positive_score) * .05 AS is_cut
        FROM candidates
        JOIN sections AS of_anchor ON of_anchor.section_key = anchor_section_key
        JOIN records USING (record_key)
        JOIN sections AS of_half ON of_half.section_key = negative_section_key
        JOIN records AS half ON half.record_key = of_half.record_key
        WHERE scorer = 'dense' AND rank <= 16 AND half.record_id = records.record_id || $half
    )
    SELECT
        count(*) AS pairs,
        avg((rank IS NOT NULL)::INT) AS first_16,
        avg((rank IS NOT NULL AND rank = 1)::INT) AS first,
        avg((rank IS NOT NULL AND NOT is_cut)::INT) AS first_16_uncut
    FROM section_texts AS half
    JOIN section_texts AS of_anchor ON half.record_id = of_anchor.record_id || $half
    LEFT JOIN found ON found.record_id = half.record_id
    WHERE of_anchor.role = 'anchor' AND half.split = 'train' AND of_anchor.split = 'train'
"""

# -- a corpus and its runs ------------------------------------------------------------------------


def _make(path: Path, name: str) -> None:
    """Make a corpus of the records of least hash, whole or not at all."""
    rows = [{key: of[:CHARACTERS] for key, of in row.items()} for row in CORPORA[name]()]
    if not rows:
        raise FileNotFoundError("no text was found")
    rows.sort(key=lambda row: hashlib.blake2b(row["id"].removesuffix(HALF).encode()).digest())
    rows = rows[: FEWER.get(name, MOST)]
    group = "group" if "group" in rows[0] else None
    source = dp.sources.MemorySource(
        [*map(_whole, rows)], id="id", sections="sections", group=group
    )
    aside = path.with_name("new.duckdb")
    aside.unlink(missing_ok=True)
    with dp.Corpus(aside) as corpus:
        corpus.ingest(source, name=name, progress=False)
        test = min(0.2, QUERIES / len(rows))
        corpus.split(1 - 1.25 * test, test / 4, test, seed=1)
    aside.rename(path)


def _whole(row: dict[str, str]) -> dict[str, Any]:
    """Return a record with its sections; a planted half has no anchor."""
    roles = {"anchor": "anchor", "positive": "context"}
    sections = [{"role": roles[key], "text": row[key]} for key in roles if key in row]
    return {key: of for key, of in row.items() if key not in roles} | {"sections": sections}


class Laboratory:
    """One corpus with its candidates, and what is kept of its runs.

    Args:
        name: Which one.
        folder: Where it lies; it is made where it does not yet.
        kind: The kind of model.
    """

    def __init__(self, name: str, folder: Path, kind: Kind) -> None:
        self.name, self.folder, self.kind = name, folder / name, kind
        path = self.folder / "corpus.duckdb"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _make(path, name)
        self.corpus = dp.Corpus(path, threads=1)
        self.relabelled: dict[str, dp.Corpus] = {}
        self.mined = {"bm25"} if any("bm25" in arm for arm in kind.arms) else set()
        for scorer in self.mined:
            self._mine(scorer)
        learnt = self.corpus.sql(
            "SELECT text FROM section_texts WHERE split IN ('train', 'every') ORDER BY ALL"
        )
        self.texts = Texts(self.folder / "tokenizer.json", learnt["text"].to_pylist())
        self.evaluator = self.corpus.evaluator(
            "test", recipe=RECIPE, batch_size=1024, corpus_chunk_size=1_000_000
        )
        self.planted = self.corpus.sql(PAIRS, {"half": HALF})
        self._judge_halves()

    def _judge_halves(self) -> None:
        """Count planted halves as the answers they are, whichever split they stand in."""
        of, halves = self.evaluator, self.planted.to_pydict()
        names = dict(zip(of.corpus, of.corpus_ids, strict=True))
        queries = dict(zip(of.queries, of.queries_ids, strict=True))
        for anchor, half in zip(halves["anchor"], halves["text"], strict=True):
            if anchor in queries:
                of.relevant_docs[queries[anchor]].add(names[half])

    def _mine(self, by: Any) -> None:
        self.corpus.mine(RECIPE, by=by, depth=DEPTH, split="train", progress=False)

    def figures(self, had: dict[str, Any]) -> dict[str, Any]:
        """Return what the corpus is like, unless it is known, and what its candidates are like."""
        of_mined = {"scorers": {row.pop("scorer"): row for row in self._of_scorers()}}
        if len(self.planted):
            (of_mined["planted"],) = self.corpus.sql(RANKS, {"half": HALF}).to_pylist()
        if had:
            return had | of_mined
        near = self.corpus.deduplicate(0.7, dry_run=True, progress=False)
        (counts,) = self.corpus.sql(
            "SELECT count(*) AS records, avg(length(text)) AS characters FROM section_texts "
            "WHERE role = 'context'"
        ).to_pylist()
        of = self.evaluator
        return {
            **counts,
            "documents": len(of.corpus),
            "queries": len(of.queries),
            "families": len({*of.families.values()}),
            "near_equal": near.duplicates / counts["records"],
            **of_mined,
        }

    def _of_scorers(self) -> list[dict[str, Any]]:
        return self.corpus.sql(
            """
            SELECT
                scorer,
                count(DISTINCT anchor_section_key) AS anchors,
                avg((score > positive_score)::INT) FILTER (rank <= 16) AS above_positive,
                avg((score > positive_score * .95)::INT) FILTER (rank <= 16) AS within_margin,
                avg((score > positive_score)::INT) FILTER (rank = 1) AS first_above_positive,
                avg((positive_rank IS NULL)::INT) FILTER (rank = 1) AS unranked,
                median(positive_rank) FILTER (rank = 1) AS positive_rank,
                avg(
                    (EXISTS (
                        FROM candidates AS other
                        WHERE
                            other.scorer = 'bm25' AND other.rank <= 16
                            AND other.anchor_section_key = this.anchor_section_key
                            AND other.negative_section_key = this.negative_section_key
                    ))::INT
                ) FILTER (rank <= 16) AS also_bm25
            FROM candidates AS this
            WHERE list_contains($scorers, scorer)
            GROUP BY scorer
            """,
            {"scorers": ["bm25", *SCORERS.values()]},
        ).to_pylist()

    def run(self, name: str, seed: int) -> dict[str, Any]:
        """Train and judge one arm with one seed, unless that is found in the folder."""
        arm, started = ARMS[name], time.perf_counter()
        if (kept := self.kept(name, seed)).exists():
            return dict(json.loads(kept.read_text(encoding="utf-8")))
        if arm.vectors:
            self._rank_by(arm.vectors)
        model, found = self._trained(name, seed)
        self.evaluator.results = self.results(name, seed)
        self.evaluator(model)
        rows = json.loads(self.evaluator.results.read_text(encoding="utf-8"))["queries"]
        means = {of: float(np.mean([row[of] for row in rows])) for of in rows[0] if "@" in of}
        seconds = round(time.perf_counter() - started, 1)
        ran = {"corpus": self.name, "arm": name, "seed": seed, **means, **found}
        kept.write_text(json.dumps(ran | {"seconds": seconds}), encoding="utf-8")
        return ran | {"seconds": seconds}

    def results(self, name: str, seed: int) -> Path:
        """Return the file with the results of every query."""
        return self.folder / f"{name}.{seed}.json"

    def kept(self, name: str, seed: int) -> Path:
        """Return the file with the figures of a run."""
        return self.folder / f"{name}.{seed}.run.json"

    def _trained(self, name: str, seed: int) -> tuple[Any, dict[str, Any]]:
        import torch

        arm, model = ARMS[name], fresh(self.texts, seed, self.kind)
        several = [f"negative_{i}" for i in range(1, 1 + arm.negatives)]
        columns = ["anchor", "positive", *(["negative"] if arm.negatives == 1 else several)]
        negatives = arm.by if isinstance(arm.by, dp.Negatives) else dp.Negatives(by=arm.by)
        corpus, scorer = self._relabelled(arm.verdict), f"{name}_{seed}"
        if arm.again:  # a scorer of its own, so that other arms keep theirs
            self._mine(dp.Dense(arm.vectors, name=scorer))
            negatives = dp.Negatives(by=scorer, relative_margin=0.05)
        negatives = replace(negatives, num=max(1, arm.negatives))
        given = {"no_duplicates": True, "negatives": negatives}
        sampler = corpus.sampler(
            recipes=[RECIPE],
            batch_size=arm.batch,
            steps=self.kind.steps,
            seed=seed,
            columns=columns,
            **given | arm.options,
        )

        def mine(step: int) -> None:
            if arm.again:
                self._embed(model, f"{scorer}_{step}")
                self._mine(dp.Dense(f"{scorer}_{step}", name=scorer))
                taken.append(sampler.take_minings())

        taken: list[int] = []
        losses = train(model, self.texts, sampler, columns, self.kind, mine)
        metrics = sampler.metrics().items()
        displaced = sum(int(n) for key, n in metrics if key.endswith("/displaced"))
        if name in SCORERS and seed == SEEDS[0]:
            torch.save(model.state_dict(), self._weights(name))
        found = {"last_loss": float(np.mean(losses[-20:])), "displaced": displaced}
        mixed = re.search(r"([\d.e-]+) % of its samples are in mixed batches", sampler.describe())
        more = {"taken": taken} if taken else {}
        return model, found | more | ({"mixed": float(mixed[1]) / 100} if mixed else {})

    def _relabelled(self, verdict: str) -> dp.Corpus:
        """Return the corpus, or a copy of it with a verdict on planted pairs."""
        if not verdict:
            return self.corpus
        if verdict not in self.relabelled:
            path = self.folder / f"{verdict}.duckdb"
            if not path.exists():
                aside = shutil.copy(self.folder / "corpus.duckdb", self.folder / "new.duckdb")
                with dp.Corpus(aside) as copy:
                    said = [verdict] * len(self.planted)
                    copy.relabel(self.planted.append_column("verdict", [said]))
                # verdicts make no candidates stale
                path.with_suffix(".candidates").symlink_to("corpus.candidates")
                Path(aside).rename(path)
            self.relabelled[verdict] = dp.Corpus(path, threads=1, read_only=True)
        return self.relabelled[verdict]

    def _weights(self, arm: str) -> Path:
        return self.folder / f"{arm}.pt"

    def _rank_by(self, arm: str) -> None:
        """Mine candidates by the first model of another arm, unless it was done."""
        if (scorer := SCORERS[arm]) in self.mined:
            return
        import torch

        if ARMS[arm].vectors:
            self._rank_by(ARMS[arm].vectors)
        if not self._weights(arm).exists():
            self._trained(arm, SEEDS[0])
        model = fresh(self.texts, 0, self.kind)
        model.load_state_dict(torch.load(self._weights(arm)))
        model.eval()
        self._embed(model, arm)
        self._mine(dp.Dense(arm, name=scorer))
        self.mined.add(scorer)

    def _embed(self, model: Any, name: str) -> None:
        self.corpus.embed(
            lambda some: model.encode(some, batch_size=len(some), normalize_embeddings=True),
            name=name,
            made_by=name,
            progress=False,
        )

    def compared(self, name: str, seeds: Sequence[int]) -> dict[str, Any] | None:
        """Return how an arm differs from the one beside it, as means of the seeds of both."""
        beside = ARMS[name].beside
        common = [s for s in seeds if all(self.results(n, s).exists() for n in (name, beside))]
        if name == beside or not common:
            return None
        found = dp.compare(self._mean(beside, common), self._mean(name, common))
        return {"beside": beside, "seeds": len(common), "metrics": found.metrics}

    def _mean(self, name: str, seeds: Sequence[int]) -> Path:
        """Write the mean of the results of several seeds, query by query."""
        runs = [
            json.loads(self.results(name, s).read_text(encoding="utf-8"))["queries"] for s in seeds
        ]
        rows = [
            {
                of: v if isinstance(v, str) else float(np.mean([r[of] for r in same]))
                for of, v in same[0].items()
            }
            for same in zip(*runs, strict=True)
        ]
        file = self.folder / f"{name}.mean.json"
        file.write_text(json.dumps({"name": name, "queries": rows}), encoding="utf-8")
        return file


# -- all of it ------------------------------------------------------------------------------------


def main(given: Sequence[str] | None = None) -> None:
    """Run what was not run yet, until time is up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="static", choices=[*MODELS])
    parser.add_argument("--corpora", nargs="+", default=[*CORPORA], choices=[*CORPORA])
    parser.add_argument("--arms", nargs="+", choices=[*ARMS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[*range(1, 11)])
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/teach"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(given)
    kind, suffix = MODELS[asked.model], "" if asked.model == "static" else f"_{asked.model}"
    asked.out = asked.out or HERE / f"teach{suffix}.json"
    end = time.monotonic() + 60 * asked.minutes
    results: dict[str, Any] = {"corpora": {}, "runs": [], "compared": {}}
    if asked.out.exists():
        results = json.loads(asked.out.read_text(encoding="utf-8"))
    settings = {"steps": kind.steps, "batch": BATCH, "rate": kind.rate}
    settings |= {"dimension": DIMENSION, "vocabulary": VOCABULARY}
    settings |= {"tokens": TOKENS, "depth": DEPTH} | ({"layers": LAYERS} if kind.layers else {})
    if results.setdefault("settings", settings) != settings:
        parser.error(f"{asked.out} has runs with other settings: give another file and folder")
    done = {(run["corpus"], run["arm"], run["seed"]) for run in results["runs"]}

    @cache
    def laboratory(name: str) -> Laboratory | None:
        try:
            return Laboratory(name, asked.folder / asked.model, kind)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name} is left out: {error}", flush=True)
            return None

    due = dict[tuple[Laboratory, str], None]()

    def keep() -> None:
        """Compare what is due, and write all."""
        for lab, arm in due:
            runs, of = results["runs"], results["compared"].setdefault(lab.name, {})
            seeds = [r["seed"] for r in runs if (r["corpus"], r["arm"]) == (lab.name, arm)]
            found, had = lab.compared(arm, seeds), of.get(arm, {"seeds": 0})
            if found and found["seeds"] >= had["seeds"]:  # of another folder there may be more
                of[arm] = found
        due.clear()
        aside = asked.out.with_suffix(".part")
        aside.write_text(f"{json.dumps(results, indent=1)}\n", encoding="utf-8")
        aside.replace(asked.out)

    for work in works(asked.corpora, asked.arms or kind.arms, asked.seeds):
        if time.monotonic() > end:
            break
        if work in done or (lab := laboratory(work[0])) is None:
            continue
        beside = (lab.name, ARMS[work[1]].beside, work[2])
        if beside in done and not lab.results(*beside[1:]).exists():  # made in another folder
            results.setdefault("run_again", []).append(lab.run(*beside[1:]))
        taken, run = lab.kept(*work[1:]).exists(), lab.run(*work[1:])
        results["runs"].append(run)
        due |= {(lab, arm): None for arm in ARMS if work[1] in (arm, ARMS[arm].beside)}
        had = results["corpora"].get(lab.name, {})
        if "bm25" in lab.mined and not lab.mined <= {*had.get("scorers", {})}:
            results["corpora"][lab.name] = lab.figures(had)
        if not taken:
            keep()
        print(*work, f"{run['ndcg@10']:.4f}", run["seconds"], flush=True)
    if due:
        keep()


if __name__ == "__main__":
    main()
