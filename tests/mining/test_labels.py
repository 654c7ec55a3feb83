"""``relabel``: what somebody said of pairs of texts, in pools, draws and candidates."""

import random
from collections import Counter, defaultdict
from itertools import product

import pyarrow as pa
import pytest
from collections_by_hand import collection
from effort import often, some
from prebuilt import copying, toy_corpus
from pyarrow import parquet

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere

corpus = copying(toy_corpus)
ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
TOPIC = dp.sql("negative.meta['topic'] = anchor.meta['topic']")
RECIPES = {
    "plain": dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT),
    "chunks": dp.TripletRecipe("r", ANCHOR, CONTEXT, dp.any_section(), per="chunk"),
    "topic": dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT, strategy=TOPIC),
    "question": dp.TripletRecipe(
        "r", ANCHOR, CONTEXT, CONTEXT, strategy="question_answer_mismatch"
    ),
    "mined": dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT, by="bm25"),
    "split": dp.TripletRecipe("r", ANCHOR, CONTEXT, CONTEXT, negatives_from="split"),
    "own": dp.TripletRecipe(
        "r", ANCHOR, CONTEXT, dp.role("rejected"), strategy="same_record", when_short="random"
    ),
    "own only": dp.TripletRecipe("r", ANCHOR, CONTEXT, dp.role("rejected"), strategy="same_record"),
}
Verdicts = dict[tuple[str, str], str]


def corpus_of(path, seed):
    """Three sources whose records share questions and answers, so that a pair is of several."""
    draw, corpus = random.Random(seed), dp.Corpus(path)
    for name in "abc":
        rows = [
            {
                "id": str(i),
                "q": f"who is number {draw.randrange(20)}",
                "a": draw.sample([f"number {n} it is" for n in range(14)], draw.choice([1, 1, 2])),
                "no": draw.sample([f"never number {n}" for n in range(9)], 3),
                "topic": draw.choice("xyz"),
            }
            for i in range(24)
        ]
        corpus.ingest(
            rows, name=name, id="id", anchor="q", positive="a", negative="no", meta=["topic"]
        )
    corpus.split(0.7, 0.15, 0.15, seed=seed)
    return corpus


class World:
    """The train split of a corpus and the effect of verdicts, in plain Python."""

    def __init__(self, corpus, verdicts):
        self.texts = defaultdict(lambda: defaultdict(set))
        for row in corpus.sql(
            "SELECT record_id, role, text FROM section_texts WHERE split = 'train'"
        ).to_pylist():
            self.texts[row["record_id"]][row["role"]].add(row["text"])
        self.there = {text for of in self.texts.values() for text in of["context"]}
        self.verdicts = verdicts

    def said(self, record):
        (anchor,) = self.texts[record]["anchor"]
        return {text: of for (asked, text), of in self.verdicts.items() if asked == anchor}

    def positives(self, record):
        own, said = self.texts[record]["context"], self.said(record)
        promoted = {text for text, of in said.items() if of == "positive"}
        return (own - {*said}) | promoted & (self.there | own)

    def forbidden(self, record, everywhere):
        """Its question, and the answers of all anchors with it, without denied ones."""
        said, asked = self.said(record), self.texts[record]["anchor"]
        reach = (of for of in self.texts if everywhere or of.split("/")[0] == record.split("/")[0])
        known = (self.texts[of]["context"] for of in reach if self.texts[of]["anchor"] == asked)
        kept = asked.union(said, *known)
        return {text for text in kept if said.get(text) != "negative"} | self.positives(record)

    def anchors(self, source, recipe):
        """Anchors with a positive and a legal negative, for recipes that compare no terms."""
        found = {record for record in self.texts if record.startswith(f"{source}/")}
        role = "rejected" if recipe.startswith("own") else "context"

        def drawn(record):
            several = {record} if recipe == "own only" else found
            several = several if recipe.startswith("own") else found - {record}
            return {text for other in several for text in self.texts[other][role]}

        return {
            r
            for r in found
            if self.positives(r) and drawn(r) - self.forbidden(r, recipe == "split")
        }


def judged(corpus, seed, share):
    """Verdicts on many pairs of a corpus and on some texts that it has not."""
    draw = random.Random(seed)
    asked = [f"who is number {n}" for n in range(22)]
    texts = [f"number {n} it is" for n in range(16)] + [f"never number {n}" for n in range(9)]
    kinds = ["positive", "ambiguous", "ambiguous", "negative"]
    pairs = product(asked, texts)
    found = {pair: draw.choice(kinds) for pair in pairs if draw.random() < share}
    everywhere = product(asked[::4], texts[16:])  # what leaves some without a negative
    return found | dict.fromkeys(everywhere, "ambiguous")


def table_of(verdicts):
    return {
        "anchor": [anchor for anchor, _ in verdicts],
        "text": [text for _, text in verdicts],
        "verdict": [*verdicts.values()],
    }


@pytest.mark.parametrize(
    ("name", "share", "seed"), some(product(RECIPES, [0.05, 0.3, 0.8], [1, 2]), less=8)
)
def test_what_was_said_of_a_pair_holds_in_every_sample(tmp_path, name, share, seed):
    with corpus_of(tmp_path / "c.duckdb", seed) as corpus:
        recipe = RECIPES[name]
        corpus.add_recipe(recipe)
        if recipe.by == "bm25":
            corpus.mine()
        given = {"recipes": ["r"], "batch_size": 64, "seed": seed}
        given |= {"kind": "labelled_pairs"} if seed == 2 and not name.startswith("own") else {}
        before = corpus.sampler(**given, options=dp.Options(empty="skip"))
        unchanged = [before.batch_at(step).to_pydict() for step in range(6)]
        before.save()
        verdicts = judged(corpus, seed, share)
        report = corpus.relabel(table_of(verdicts))
        world = World(corpus, verdicts)
        assert (report.read, report.stored) == (len(verdicts), len(verdicts))
        sampler = corpus.sampler(**given, options=dp.Options(empty="skip"))
        steps = 12 * sampler.epoch_length // 64
        served = sampler.served(0, 64 * steps).to_pylist()
        came = defaultdict[str, Counter[str]](Counter)
        rows = (row for step in range(steps) for row in sampler.batch_at(step).to_pylist())
        for sample, ids in zip(rows, served, strict=True):
            record = ids["anchor_record_id"]
            if "other" in sample:
                side = "positive" if sample["label"] else "negative"
                sample[side] = sample["other"]
            if "positive" in sample:
                assert sample["positive"] in world.positives(record)
                came[record][sample["positive"]] += 1
            if "negative" in sample:
                assert sample["negative"] not in world.forbidden(record, name == "split")
        for record, positives in came.items():
            assert positives.keys() == world.positives(record)
            assert max(positives.values()) - min(positives.values()) <= 1
        if name in ("plain", "own", "own only"):
            for source in "abc":
                found = {row["record_id"] for row in corpus.pool("r", source=source).to_pylist()}
                assert found == world.anchors(source, name)
                drawn = {record for record in came if record.startswith(f"{source}/")}
                assert drawn == found
        assert_resumes_everywhere(sampler, often(4, less=2))
        with corpus.resume() as old:
            assert [old.batch_at(step).to_pydict() for step in range(6)] == unchanged


def test_a_verdict_makes_nothing_stale_and_shows_wherever_candidates_do(tmp_path):
    with corpus_of(tmp_path / "c.duckdb", 3) as corpus:
        corpus.add_recipe(RECIPES["mined"])
        corpus.mine()
        texts = corpus.sql("SELECT anchor, negative FROM hard_negatives WHERE rank = 1").to_pylist()
        pairs = {(row["anchor"], row["negative"]) for row in texts}
        pair = min(pairs)
        corpus.relabel({"anchor": [pair[0]], "text": [pair[1]], "verdict": ["ambiguous"]})
        assert not any(row["stale"] for row in corpus.status()["mining"])
        why = corpus.negatives(pair[0]).to_pylist()
        assert {r["cut"] for r in why if r["text"] == pair[1]} == {"relabelled"}
        told = corpus.negatives().to_pylist()
        lost = sum(row["relabelled"] for row in told)
        assert lost == sum(row["text"] == pair[1] for row in why)
        for row in told:
            assert (
                sum(row[cut] or 0 for cut in ("relabelled", "range", "kept")) == row["candidates"]
            )
        left = corpus.sql("SELECT anchor, negative FROM hard_negatives").to_pylist()
        assert pair not in {(row["anchor"], row["negative"]) for row in left}
        corpus.export(tmp_path / "e.parquet", "sentence-transformers", source="a")
        rows = parquet.read_table(tmp_path / "e.parquet").to_pylist()
        assert rows
        assert not [r for r in rows if r["anchor"] == pair[0] and pair[1] in [*r.values()][2:]]
        # what is said later counts; a pair is told from its reverse, and a row from its last
        again = {
            "anchor": [pair[0]] * 2,
            "text": [pair[1]] * 2,
            "verdict": ["positive", "negative"],
        }
        report = corpus.relabel(again, annotator="Ada")
        assert (report.repeated, report.changed, report.version) == (1, 1, corpus.version)
        back = corpus.sql("SELECT anchor, negative FROM hard_negatives WHERE rank = 1").to_pylist()
        assert {(row["anchor"], row["negative"]) for row in back} == pairs
        assert corpus.sql("SELECT annotator FROM labels").column(0).to_pylist() == [None, "Ada"]
        (held,) = corpus.status()["labels"]
        assert (held["meaning"], held["pairs"], held["gone"]) == ("negative", 1, 0)
        assert "labels  " in str(corpus.status())


def test_verdicts_are_counted_by_outcome(tmp_path):
    with corpus_of(tmp_path / "c.duckdb", 5) as corpus:
        version = corpus.version
        rows = corpus.sql("SELECT role, text, split FROM section_texts").to_pylist()
        splits = defaultdict(set)
        for row in rows:
            splits[row["text"]].add(row["split"])
        anchors, texts = (
            sorted({row["text"] for row in rows if row["role"] == role})
            for role in ("anchor", "rejected")
        )
        pairs = [*product(anchors, texts), ("nobody asks", texts[0]), (anchors[0], "no answer")]
        across = sum(a in splits and t in splits and not splits[a] & splits[t] for a, t in pairs)
        table = {"anchor": [a for a, _ in pairs], "text": [t for _, t in pairs]}
        first = corpus.relabel(table | {"verdict": ["positive"] * len(pairs)})
        assert (first.gone, first.across, first.stored) == (2, across, len(pairs))
        hashes = corpus.sql(
            "SELECT _internal.text_side(anchor) AS anchor_hash, "
            "_internal.text_side(document) AS text_hash FROM labels"
        )
        same = hashes.append_column("verdict", pa.array(["positive"] * len(pairs)))
        second = corpus.relabel(same)
        assert (second.unchanged, second.stored, second.version) == (len(pairs), 0, version + 1)
        assert corpus.relabel(same.to_pylist()).unchanged == len(pairs)  # half are from 2^63 on
        parquet.write_table(same.slice(0, 3), tmp_path / "v.parquet")
        assert corpus.relabel(tmp_path / "v.parquet").unchanged == 3
        corpus.compact()
        assert corpus.sql("SELECT count(*) AS n FROM labels").to_pylist() == [{"n": len(pairs)}]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"anchor": ["a"], "text": ["t"]}, "give 'label' or 'verdict'"),
        ({"anchor": ["a"], "verdict": ["positive"]}, "'document_id' or 'text_hash'"),
        ({"anchor": ["a"], "anchor_id": ["s/1"], "text": ["t"], "label": [1]}, "not both"),
        ({"anchor_id": ["s/1"], "document_id": ["s/2"], "label": [float("nan")]}, "label nan in"),
        ({"anchor": ["a"], "text": ["t"], "verdict": ["yes"]}, "verdict 'yes' in row 0"),
        ({"anchor": ["a"], "text": ["t"], "verdict": [None]}, "row 0 has no verdict, but null"),
        (
            {"anchor": ["a", None], "text": ["t"] * 2, "verdict": ["negative"] * 2},
            "row 1 has no anchor, but null",
        ),
        ({"anchor_hash": [-1], "text_hash": [1], "verdict": ["negative"]}, "relabel: .*-1"),
        (
            {"anchor": [1], "text": ["t"], "verdict": ["negative"]},
            "anchor is of type int64; give texts",
        ),
        ({"anchor": [["a"]], "text": ["t"], "verdict": ["negative"]}, "relabel: "),
        (  # each block of rows has the types that it shows
            [{"anchor": "a", "text": "t", "verdict": "negative"}] * 65_536 + [{"anchor": "a"}],
            "row 65536 has no text, but null",
        ),
        ([{"anchor": "a"}] * 65_536 + [{"anchor": 1}], "relabel: its rows are of several types"),
        (7, "relabel: 7 is no table"),
        ("none.parquet", "relabel: 'none.parquet' cannot be read"),
    ],
)
def test_an_invalid_table_is_refused_whole(corpus, table, said):
    version = corpus.version
    with pytest.raises(dp.RecipeError, match=said):
        corpus.relabel(table)
    assert corpus.version == version
    assert not corpus.sql("SELECT 1 FROM labels").num_rows


def test_texts_that_may_answer_an_anchor_are_excluded_from_its_batches(tmp_path):
    with corpus_of(tmp_path / "c.duckdb", 7) as corpus:
        corpus.add_recipe(RECIPES["mined"])
        corpus.mine()
        asked = [f"who is number {n}" for n in range(20)]
        verdicts = {(q, f"number {n} it is"): "ambiguous" for q in asked for n in range(3)}
        given = {"recipes": ["r"], "batch_size": 4, "epochs": 4}
        given |= {"negatives": dp.Negatives(by="random", in_batch_margin=("bm25", 0.0))}

        def beside():
            return sum(
                (anchor, text) in verdicts
                for batch in corpus.sampler(**given)
                for anchor, positive in zip(batch["anchor"], batch["positive"], strict=True)
                for text in {*batch["positive"], *batch["negative"]} - {positive}
            )

        assert beside() > 0
        corpus.relabel(table_of(verdicts))
        assert beside() == 0


def test_labels_name_records_and_texts_in_any_order_and_are_numbers(tmp_path):
    rows = [{"id": f"{i}", "q": f"question {i}", "a": f"answer {i}"} for i in range(8)]
    source = {"id": "id", "anchor": "q", "positive": "a"}
    columns = ["anchor", "positive", "positive_label", "positive_record_id"]

    def labels_of(corpus, version=None):
        rows = corpus.sampler(batch_size=48, columns=columns).batch_at(0).to_pylist()
        return {row["positive"]: row["positive_label"] for row in rows if row["anchor"][-1] == "1"}

    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows[:4], name="s", **source)
        corpus.split(1, 0, 0)
        sides = {"anchor_id": "s/1", "document_id": "s/5"}
        first = corpus.relabel([sides | {"label": 3}])  # before its document
        assert (first.gone, first.labels) == (1, {"positive": 1})
        assert labels_of(corpus) == {"answer 1": None}
        corpus.ingest(rows, name="s", **source)
        assert labels_of(corpus) == {"answer 1": None, "answer 5": 3}
        corpus.relabel([{"anchor": "question 1", "document_id": "s/6", "label": 1}])
        corpus.relabel([{"anchor_id": "s/1", "text": "answer 1", "label": 0}])
        corpus.relabel([{"anchor": "question 1", "text": "answer 2", "label": 0.5}])
        assert labels_of(corpus) == {"answer 5": 3, "answer 6": 1}
        assert corpus.status()["labels"] == [
            {"meaning": "ambiguous", "pairs": 1, "gone": 0, "across": 0},
            {"meaning": "negative", "pairs": 1, "gone": 0, "across": 0},
            {"meaning": "positive", "pairs": 2, "gone": 0, "across": 0},
        ]
        # the newest counts, however it names the pair
        corpus.relabel([{"anchor": "question 1", "text": "answer 5", "label": 0.2}])
        assert labels_of(corpus) == {"answer 6": 1}
        report = corpus.relabel(
            [sides | {"label": 2}, {**sides, "document_id": "s/6", "label": None}]
        )
        assert (report.stored, report.unchanged) == (1, 1)
        assert labels_of(corpus) == {"answer 6": 1, "answer 5": 2}
        both = [dict(row, anchor_id="s/1") for row in ({"text": "answer 5"}, {"text": "answer 1"})]
        assert corpus.relabel([row | {"label": None} for row in both]).changed == 1
        assert labels_of(corpus) == {"answer 6": 1, "answer 5": 2, "answer 1": None}
        version = corpus.version
        corpus.remove("s")
        corpus.compact()
        ids = corpus.sql("SELECT id FROM _internal.label_ids ORDER BY id")["id"].to_pylist()
        assert (ids, corpus.version) == (["s/1", "s/5", "s/6"], version + 1)


def test_documents_with_a_label_of_0_or_less_are_candidates(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        queries = [{"id": f"q{n}", "q": f"who is {n}"} for n in range(8)]
        documents = [{"id": f"d{n}", "text": f"this is {n}"} for n in range(20)]
        labels = [(f"q{n}", f"d{n}", 1) for n in range(8)]
        labels += [(f"q{n}", f"d{n + 8 + i}", -i) for n in range(8) for i in range(2)]
        collection(corpus, "s", queries, documents, labels)
        corpus.split(1, 0, 0)
        corpus.mine()
        assert corpus.mine(by="judged").candidates == 16
        negatives = dp.Negatives(2, by="judged")
        columns = ["anchor_record_id", "negative_1_record_id", "negative_2_record_id"]
        batch = corpus.sampler(batch_size=8, negatives=negatives, columns=columns).batch_at(0)
        for row in batch.to_pylist():
            n = int(row["anchor_record_id"].removeprefix("s/q"))
            found = {row["negative_1_record_id"], row["negative_2_record_id"]}
            assert found == {f"s.documents/d{n + 8}", f"s.documents/d{n + 9}"}
        mixed = corpus.sampler(negatives=dp.Negatives(by={"judged": 0.5, "bm25": 0.5}), run="mixed")
        assert "judged" in mixed.describe()
        corpus.relabel({"anchor_id": ["s/q0"], "document_id": ["s.documents/d8"], "label": [2]})
        assert corpus.mine(by="judged").candidates == 15
        with pytest.raises(dp.RecipeError, match="no label of 0 or less"):
            corpus.mine(by="judged", source="s.documents")
