"""Given negatives: guarded, counted and kept as plain Python says, whatever table they come in."""

from __future__ import annotations

import math
import random
import shutil
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckplets as dp
from duckplets import given, given_rows
from duckplets.given import GivenReport
from duckplets.knobs import Bm25
from duckplets.selection import OUTCOMES

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
RECIPE = dp.TripletRecipe("asked", ANCHOR, CONTEXT, CONTEXT, by="bm25")
SAME_TOPIC = dp.TripletRecipe(
    *("asked", ANCHOR, CONTEXT, CONTEXT),
    strategy=dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
    by="bm25",
)
OTHER_TOPIC = dp.TripletRecipe(
    *("asked", ANCHOR, CONTEXT, CONTEXT),
    strategy=dp.sql("negative.meta['topic'] <> anchor.meta['topic']"),
    by="bm25",
)
AMONG_ANCHORS = dp.TripletRecipe("asked", ANCHOR, CONTEXT, ANCHOR, by="bm25")
SOME_TOPIC = dp.TripletRecipe(
    *("asked", dp.role("anchor", where="meta['topic'] <> 'law'"), CONTEXT),
    dp.role("context", where="meta['topic'] <> 'art'"),
    by="bm25",
)

Rows = list[dict[str, Any]]


def build(path: Path, seed: int = 1, count: int = 60) -> dp.Corpus:
    """Two sources of questions and answers, with groups, and texts that are nearly the same."""
    draw = random.Random(seed)
    corpus = dp.Corpus(path)
    for source in ("one", "two"):
        records = []
        for i in range(count):
            question, answer = f"question {source} {i}", f"answer {source} {i}"
            if draw.random() < 0.3:
                question = draw.choice(["Was ist  Käse?", "was ist käse?", "Wie alt?", "WIE ALT?"])
            if draw.random() < 0.3:
                answer = draw.choice(["Sehr alt", "sehr\talt ", "wie alt?", "Kase", "Ka\u0308se"])
            topic = draw.choice(["law", "art", "news"])
            group = draw.choice(["g1", "g2", None, None, None])
            records.append({"id": f"r{i}", "q": question, "a": answer, "topic": topic, "g": group})
        made = dp.MemorySource(
            records, id="id", anchor="q", positive="a", meta=["topic"], group="g"
        )
        corpus.ingest(made, name=source, progress=False)
    corpus.split(0.7, 0.0, 0.3, seed=seed)
    return corpus


@dataclass(eq=False)
class Record:
    id: str
    source: str
    split: str
    group: str | None
    topic: str
    sections: dict[str, tuple[int, str]] = field(default_factory=dict)

    @cache  # noqa: B019 - for the time of a test
    def text(self, role: str) -> str:
        bare = unicodedata.normalize("NFD", " ".join(self.sections[role][1].split()).lower())
        return "".join(c for c in bare if not unicodedata.combining(c))


def records_of(corpus: dp.Corpus) -> dict[str, Record]:
    rows = corpus.sql(
        """
        SELECT r.record_id, r.source, r.split, r.group_key, r.meta['topic'] AS topic,
            s.role, s.section_key, s.text
        FROM sections s JOIN live_records r USING (record_key)
        """
    ).to_pylist()
    records: dict[str, Record] = {}
    for row in rows:
        values = [row[name] for name in ("record_id", "source", "split", "group_key", "topic")]
        record = records.setdefault(row["record_id"], Record(*values))
        record.sections[row["role"]] = (row["section_key"], row["text"])
    return records


def legal_topics(recipe: dp.TripletRecipe, anchor: Record, negative: Record) -> bool:
    if recipe is SAME_TOPIC:
        return anchor.topic == negative.topic
    return recipe is not OTHER_TOPIC or anchor.topic != negative.topic


class Expected:
    """The rules, row by row, for recipes of one anchor and one positive a record."""

    def __init__(self, corpus: dp.Corpus, recipe: dp.TripletRecipe) -> None:
        self.records, self.recipe = records_of(corpus), recipe
        self.role = "anchor" if recipe is AMONG_ANCHORS else "context"
        self.answers: dict[Any, set[str]] = defaultdict(set)
        asking = [r for r in self.records.values() if recipe is not SOME_TOPIC or r.topic != "law"]
        for record in asking:
            place = (record.source, record.split, record.text("anchor"))
            self.answers[place].add(record.text("context"))
        self.anchors = {record.id for record in asking}
        alone = {anchor for anchor in self.anchors if not any(self.candidates(anchor))}
        self.anchors -= alone

    def candidates(self, anchor: str) -> Iterator[str]:
        for name in self.records:
            if self.fate({"anchor_id": anchor, "negative_id": name}) == "candidate":
                yield name

    def fate(self, row: dict[str, Any]) -> str:
        anchor = self.records.get(row["anchor_id"])
        negative = self.records.get(row["negative_id"])
        if anchor is None:
            return "unknown anchor"
        if negative is None:
            return "unknown negative"
        if anchor.id not in self.anchors:
            return "not an anchor of the recipe"
        if anchor is negative:
            return "positive"
        if (anchor.source, anchor.split) != (negative.source, negative.split):
            return "other source or split"
        if self.recipe is SOME_TOPIC and negative.topic == "art":
            return "not a negative of the recipe"
        if anchor.group is not None and anchor.group == negative.group:
            return "same group"
        place = (anchor.source, anchor.split, anchor.text("anchor"))
        own = {anchor.text("anchor"), anchor.text("context")}
        if negative.text(self.role) in own | self.answers[place]:
            return "same text"
        return "candidate" if legal_topics(self.recipe, anchor, negative) else "strategy"

    def kept(self, rows: Rows, settings: Bm25) -> tuple[dict[str, list[Any]], Counter[str]]:
        """Kept (record, score) of every anchor, and what became of all rows."""
        counts: Counter[str] = Counter()
        best: dict[str, dict[str, float]] = defaultdict(dict)
        positives: dict[str, float] = {}
        seen = set()
        for row in rows:
            fate, anchor, score = self.fate(row), row["anchor_id"], row["score"]
            if fate in ("candidate", "same group", "same text", "strategy"):
                pair = (anchor, row["negative_id"])
                if pair in seen:
                    counts["duplicate row"] += 1
                elif fate != "candidate":
                    counts[fate] += 1
                seen.add(pair)
                if fate == "candidate":
                    before = best[anchor].get(pair[1], -math.inf)
                    best[anchor][pair[1]] = max(score, before)
                continue
            if fate == "positive":
                positives[anchor] = min(score, positives.get(anchor, math.inf))
            counts[fate] += 1
        kept = {}
        for anchor, mine in best.items():
            ranked = sorted(mine.items(), key=lambda pair: (-pair[1], pair[0]))
            kept[anchor] = self.chosen(ranked, positives.get(anchor), settings, counts)
        return kept, counts

    def chosen(
        self, ranked: list[Any], positive: float | None, settings: Bm25, counts: Counter[str]
    ) -> list[Any]:
        chosen = []
        for pair in ranked:
            margin = settings.absolute_margin
            if margin is not None and positive is not None and pair[1] + margin > positive:
                counts["absolute_margin"] += 1
            elif settings.max_score is not None and pair[1] > settings.max_score:
                counts["max_score"] += 1
            elif settings.min_score is not None and pair[1] < settings.min_score:
                counts["min_score"] += 1
            elif len(chosen) == settings.top_k:
                counts["not_needed"] += 1
            else:
                chosen.append(pair)
                counts["kept"] += 1
        return chosen


def random_rows(corpus: dp.Corpus, seed: int, count: int) -> Rows:
    draw = random.Random(seed)
    names = [*records_of(corpus), "one/nothing", "nowhere"]
    rows = []
    for _ in range(count):
        anchor = draw.choice(names)
        negative = anchor if draw.random() < 0.05 else draw.choice(names)
        score = draw.choice([draw.randrange(-3, 4), draw.uniform(-4, 4)])
        rows.append({"anchor_id": anchor, "negative_id": negative, "score": float(score)})
    return rows


def stored(corpus: dp.Corpus) -> dict[str, list[Any]]:
    rows = corpus.sql(
        """
        SELECT anchor_record_id, negative_record_id, score FROM negative_texts
        ORDER BY anchor_record_id, rank
        """
    )
    found = defaultdict(list)
    for anchor, negative, score in zip(*rows.to_pydict().values(), strict=True):
        found[anchor].append((negative, score))
    return dict(found)


def some(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


RECIPES = {
    "any": RECIPE,
    "same topic": SAME_TOPIC,
    "other topic": OTHER_TOPIC,
    "anchors": AMONG_ANCHORS,
    "some topics": SOME_TOPIC,
}
KNOBS: list[dict[str, Any]] = [
    {},
    {"top_k": 3, "absolute_margin": 0.5},
    {"top_k": 2, "max_score": 2.0, "min_score": -1.0},
]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of corpora, to copy: building one takes longer than what is tested."""
    folder = tmp_path_factory.mktemp("given")
    for seed in range(len(KNOBS)):
        build(folder / f"{seed}.duckdb", seed).close()
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_rows_are_guarded_counted_and_kept(name: str, made: Path, tmp_path: Path) -> None:
    recipe, seen = RECIPES[name], Counter()
    for seed, knobs in enumerate(KNOBS):
        with dp.Corpus(shutil.copy(made / f"{seed}.duckdb", tmp_path)) as corpus:
            rows = random_rows(corpus, seed, 3000)
            report = corpus.add_negatives(rows, name=recipe, when_short="keep", **knobs)
            expected = Expected(corpus, recipe)
            kept, counts = expected.kept(rows, Bm25(**knobs))
            assert stored(corpus) == {anchor: mine for anchor, mine in kept.items() if mine}
            assert some(report.counts) == some(counts)
            assert sum(report.counts.values()) == report.rows == len(rows)
            assert report.anchors == len(expected.anchors)
            seen.update(report.counts)
    reasons = {"unknown anchor", "unknown negative", "positive", "other source or split"}
    reasons |= {"same group", "same text", "duplicate row", "kept", "not_needed"}
    reasons |= {"strategy"} if "topic" in name and recipe is not SOME_TOPIC else set()
    if recipe is SOME_TOPIC:
        reasons |= {"not an anchor of the recipe", "not a negative of the recipe"}
    assert reasons <= set(some(seen))


def legal_rows(corpus: dp.Corpus) -> Rows:
    """Rows of four candidates for every anchor of the first source, and of its positive."""
    expected = Expected(corpus, RECIPE)
    rows: Rows = []
    for anchor in sorted(expected.anchors):
        if expected.records[anchor].source != "one":
            continue
        for i, name in enumerate(islice(expected.candidates(anchor), 4)):
            rows.append({"anchor_id": anchor, "negative_id": name, "score": 4.0 - i})
        rows.append({"anchor_id": anchor, "negative_id": anchor, "score": 2.0})
    return rows


@pytest.fixture
def corpus(made: Path, tmp_path: Path) -> Iterator[dp.Corpus]:
    with dp.Corpus(shutil.copy(made / "1.duckdb", tmp_path)) as copied:
        yield copied


def test_the_positive_says_what_margins_mean_and_where_it_ranks(corpus: dp.Corpus) -> None:
    rows = legal_rows(corpus)
    higher = [row | {"score": 3.5} for row in rows if row["anchor_id"] == row["negative_id"]]
    corpus.add_negatives(rows + higher, name=RECIPE, absolute_margin=0, when_short="keep")
    assert {tuple(score for _, score in mine) for mine in stored(corpus).values()} == {(2.0, 1.0)}
    found = corpus.sql("SELECT DISTINCT positive_score, positive_rank, examined FROM mined_anchors")
    assert found.to_pylist() == [{"positive_score": 2.0, "positive_rank": 3, "examined": 4}]


# -- tables -----------------------------------------------------------------------------------


class OnlyStream:
    """What any data frame is to us."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def cast(table: pa.Table, **types: pa.DataType) -> pa.Table:
    for name, kind in types.items():
        column = table[name]
        column = column.dictionary_encode() if kind is pa.dictionary else column.cast(kind)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "a table": lambda table: table,
    "a table in pieces": lambda table: pa.concat_tables([table[:7], table[7:7], table[7:]]),
    "a record batch": lambda table: table.to_batches()[0],
    "a reader": lambda table: table.to_reader(max_chunksize=11),
    "a stream": OnlyStream,
    "dicts": lambda table: table.to_pylist(),
    "a generator of dicts": lambda table: (row for row in table.to_pylist()),
    "with other columns": lambda table: table.append_column("rank", pa.nulls(len(table))),
    "in another order": lambda table: table.select(["score", "negative_id", "anchor_id"]),
    "float32": lambda table: cast(table, score=pa.float32()),
    "integers": lambda table: cast(table, score=pa.int16()),
    "large strings": lambda table: cast(table, anchor_id=pa.large_string()),
    "dictionaries": lambda table: cast(table, anchor_id=pa.dictionary, negative_id=pa.dictionary),
    "rows shuffled": lambda table: random.Random(1).sample(table.to_pylist(), len(table)),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_table_changes_nothing(form: str, corpus: dp.Corpus) -> None:
    rows = legal_rows(corpus)
    report = corpus.add_negatives(FORMS[form](pa.Table.from_pylist(rows)), name=RECIPE)
    assert report.rows == len(rows)
    expected, _ = Expected(corpus, RECIPE).kept(rows, Bm25())
    assert stored(corpus) == expected


def test_batches_and_blocks_change_nothing(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, found = random_rows(corpus, 5, 1500), []
    for size in (1 << 20, 97, 9):
        monkeypatch.setattr(given_rows, "_ROWS", 16 * size)
        monkeypatch.setattr(given_rows, "_DICTS", size)
        monkeypatch.setattr(given, "_BLOCK_ROWS", size)
        report = corpus.add_negatives(rows, name=RECIPE, top_k=3, when_short="random")
        digests = corpus.sql("SELECT DISTINCT digest FROM minings WHERE superseded_at IS NULL")
        found.append((report.counts, sorted(digests["digest"].to_pylist())))
    assert found[0] == found[1] == found[2]


WRONG: list[tuple[str, Any, str]] = [
    ("no rows", [], "no rows"),
    ("no rows of a table", pa.table({"anchor_id": pa.array([], pa.string())}), "no rows"),
    ("a path", "scores.parquet", "iterable of dicts, not str"),
    ("columns in a dict", {"anchor_id": ["one/r1"]}, "iterable of dicts, not dict"),
    ("a number", 5, "iterable of dicts, not int"),
    ("tuples", [("one/r1", "one/r2", 0.5)], "a row of negatives is a dict, not tuple"),
    ("a tuple later", [{}, ("one/r1", "one/r2", 0.5)], "a row of negatives is a dict, not tuple"),
    ("no score", [{"score": None}], "'score' of the negatives holds null in row 1"),
    ("a missing score", [{"score": "absent"}], "needs a column 'score'; it has"),
    ("NaN", [{"score": math.nan}], "'score' of the negatives holds nan in row 1"),
    ("infinite", [{"score": -math.inf}], "'score' of the negatives holds -inf in row 1"),
    ("huge", [{"score": 1e305}], "holds 1e+305 in row 1"),
    ("a text for a score", [{"score": "high"}], "'score' of the negatives holds"),
    ("a null id", [{"anchor_id": None}], "'anchor_id' of the negatives holds null in row 1"),
    ("a number for an id", [{"negative_id": 7}], "'negative_id' of the negatives holds"),
    ("bytes for an id", [{"negative_id": b"x"}], "'negative_id' of the negatives holds"),
]


@pytest.mark.parametrize("case", WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_table_is_refused(case: tuple[str, Any, str], corpus: dp.Corpus) -> None:
    _, table, message = case
    good = {"anchor_id": "one/r1", "negative_id": "one/r2", "score": 0.5}
    if isinstance(table, list) and table:
        first = dict(good)
        if table[-1] == {"score": "absent"}:
            del first["score"]
            table = [first]
        elif table[0] != ("one/r1", "one/r2", 0.5):
            table = [good, *({**good, **r} if isinstance(r, dict) else r for r in table if r)]
    before = len(corpus.sql("SELECT * FROM minings"))
    if case[0] == "no rows of a table":
        table = pa.Table.from_pylist([good])[:0]
    with pytest.raises(dp.RecipeError, match=message.replace("+", r"\+")):
        corpus.add_negatives(table, name=RECIPE)
    assert len(corpus.sql("SELECT * FROM minings")) == before


def test_columns_are_named_when_they_are_wrong(corpus: dp.Corpus) -> None:
    row = {"anchor_id": "one/r1", "negativ_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match=r"'negative_id' or .*did you mean 'negative_id'"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_id": "one/r1", "anchor_section_key": 1, "negative_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match="anchor_id or anchor_section_key, not both"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_id": "one/r1", "negative_id": "one/r2", "score": True}
    with pytest.raises(dp.RecipeError, match="'score' of the negatives holds bool"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_section_key": 1 << 63, "negative_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match="'anchor_section_key' of the negatives"):
        corpus.add_negatives([row], name=RECIPE)


@pytest.mark.parametrize("knob", [{"query_tokens": 5}, {"scope": "shard"}, {"shard_documents": 9}])
def test_knobs_of_searching_are_refused(knob: dict[str, Any], corpus: dp.Corpus) -> None:
    with pytest.raises(dp.RecipeError, match=f"{next(iter(knob))}=.* scores are not searched"):
        corpus.add_negatives(legal_rows(corpus), name=RECIPE, **knob)


def test_rows_that_name_nothing_are_an_error(corpus: dp.Corpus) -> None:
    rows = [{"anchor_id": "r1", "negative_id": "r2", "score": 0.5}] * 3
    with pytest.raises(dp.RecipeError, match=r"'asked': no row .*: 3 unknown anchor.*source/key"):
        corpus.add_negatives(rows, name=RECIPE)
    rows = [{"anchor_id": "one/r1", "negative_id": "one/r1", "score": 0.5}] * 3
    with pytest.raises(dp.RecipeError, match="3 positive"):
        corpus.add_negatives(rows, name=RECIPE)
    assert len(corpus.sql("SELECT * FROM minings")) == 0


def test_a_corpus_without_splits_says_so(tmp_path: Path) -> None:
    with dp.Corpus(tmp_path / "new.duckdb") as new:
        source = dp.MemorySource([{"id": "a", "q": "x", "a": "y"}], id="id", anchor="q")
        new.ingest(source, name="one", progress=False)
        with pytest.raises(dp.SplitError, match="no splits yet"):
            new.add_negatives([], name=RECIPE)


# -- sections, sources, what was there before ---------------------------------------------------


def test_section_keys_name_single_sections(corpus: dp.Corpus) -> None:
    records, rows = records_of(corpus), legal_rows(corpus)
    by_id = corpus.add_negatives(rows, name=RECIPE)
    expected = stored(corpus)
    keyed = [
        {
            "anchor_section_key": records[row["anchor_id"]].sections["anchor"][0],
            "negative_section_key": records[row["negative_id"]].sections["context"][0],
            "score": row["score"],
        }
        for row in rows
    ]
    by_key = corpus.add_negatives(keyed, name=RECIPE)
    assert stored(corpus) == expected
    assert by_key.counts == by_id.counts
    wrong = [row | {"negative_section_key": row["anchor_section_key"]} for row in keyed]
    wrong += [row | {"anchor_section_key": 10**9} for row in keyed]
    report = corpus.add_negatives(keyed + wrong, name=RECIPE)
    assert report.counts["not a negative of the recipe"] == len(keyed)
    assert report.counts["unknown anchor"] == len(keyed)
    assert stored(corpus) == expected


def test_a_record_stands_for_all_its_sections_that_fit(tmp_path: Path) -> None:
    records = [
        {"id": f"r{i}", "q": f"question {i}", "a": f"answer {i}", "b": f"another answer {i}"}
        for i in range(8)
    ]
    rows = [
        {"anchor_id": f"s/r{i}", "negative_id": f"s/r{j}", "score": float(j)}
        for i in range(8)
        for j in (1, 4, 6)
    ]
    with dp.Corpus(tmp_path / "lists.duckdb") as corpus:
        source = dp.MemorySource(records, id="id", anchor="q", context=["a", "b"])
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1, 0, 0)
        report = corpus.add_negatives(rows, name=RECIPE, when_short="keep")
        assert report.counts["positive"] == 3
        assert report.counts["kept"] == 2 * (len(rows) - 3)
        found = corpus.sql(
            """
            SELECT negative, rank FROM negative_texts WHERE anchor_record_id = 's/r0' ORDER BY rank
            """
        )
        texts = [f"{kind} {j}" for j in (6, 4, 1) for kind in ("answer", "another answer")]
        assert found["negative"].to_pylist() == texts


def test_rows_can_be_limited_to_a_source_and_a_split(corpus: dp.Corpus) -> None:
    rows = random_rows(corpus, 3, 3000)
    whole = corpus.add_negatives(rows, name=RECIPE)
    assert [(pair.source, pair.split) for pair in whole.pairs] == [
        ("one", "test"),
        ("one", "train"),
        ("two", "test"),
        ("two", "train"),
    ]
    part = corpus.add_negatives(rows, name=RECIPE, source="two", split="train")
    assert part.pairs[0].counts == whole.pairs[3].counts
    assert len(part.pairs) == 1
    assert sum(part.counts.values()) == len(rows)
    limited = dp.TripletRecipe(
        "limited", ANCHOR, CONTEXT, CONTEXT, by="bm25", sources=("one", "three")
    )
    report = corpus.add_negatives(rows, name=limited)
    assert [(pair.source, pair.split) for pair in report.pairs] == [
        ("one", "test"),
        ("one", "train"),
    ]
    with pytest.raises(dp.RecipeError, match=r"no source 'on' \(did you mean 'one'\?\)"):
        corpus.add_negatives(rows, name=RECIPE, source="on")
    with pytest.raises(dp.SplitError):
        corpus.add_negatives(rows, name=RECIPE, split="tests")


def test_a_later_mining_takes_the_place_of_an_earlier_one(corpus: dp.Corpus) -> None:
    rows = legal_rows(corpus)
    first = corpus.add_negatives(rows, name=RECIPE)
    before = corpus.sql("SELECT * FROM mined_negatives ORDER BY ALL")
    turned = [row | {"score": -row["score"]} for row in rows]
    second = corpus.add_negatives(turned, name=RECIPE, split="train")
    keys = {pair.split: pair.mining for pair in first.pairs}
    assert keys["train"] != second.pairs[0].mining
    current = corpus.sql("SELECT DISTINCT mining_key FROM minings WHERE superseded_at IS NULL")
    assert set(current["mining_key"].to_pylist()) == {keys["test"], second.pairs[0].mining}
    old = corpus.sql(
        "SELECT * FROM mined_negatives WHERE mining_key <= $most ORDER BY ALL",
        {"most": max(keys.values())},
    )
    assert old.equals(before)


def failing(rows: Rows) -> Iterator[dict[str, Any]]:
    yield from rows
    raise KeyboardInterrupt


def test_an_interrupted_one_changes_nothing(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = legal_rows(corpus)
    corpus.add_negatives(rows, name=RECIPE)
    before = corpus.sql("SELECT * FROM negatives ORDER BY ALL")
    with pytest.raises(KeyboardInterrupt):
        corpus.add_negatives(failing(rows), name=RECIPE)
    calls = []

    def interrupt(done: int, total: int | None) -> None:
        calls.append((done, total))
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(given, "_BLOCK_ROWS", 1)
    turned = [row | {"score": -row["score"]} for row in rows]
    with pytest.raises(KeyboardInterrupt):
        corpus.add_negatives(turned, name=RECIPE, progress=interrupt)
    assert corpus.sql("SELECT * FROM negatives ORDER BY ALL").equals(before)
    assert not corpus.sql("SELECT * FROM duckdb_tables() WHERE temporary").num_rows
    corpus.add_negatives(turned, name=RECIPE)
    expected, _ = Expected(corpus, RECIPE).kept(turned, Bm25())
    assert stored(corpus) == expected, "nothing of the interrupted one is left in it"
    left = corpus.sql(
        """
        SELECT count(*) AS n FROM mined_negatives ANTI JOIN minings USING (mining_key)
        UNION ALL SELECT count(*) FROM minings WHERE finished_at IS NULL
        """
    )
    assert left["n"].to_pylist() == [0, 0]


# -- anchors left short -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("keep", {"short": 3, "none": 0}),
        ("drop", {"dropped": 0}),
        ("random", {"random": 6}),
        ("backfill", {"short": 3, "none": 0}),
    ],
)
def test_anchors_left_short(policy: str, expected: dict[str, int], corpus: dp.Corpus) -> None:
    rows = [row for row in legal_rows(corpus) if row["score"] < 4 and row["anchor_id"] < "one/r4"]
    report: GivenReport = corpus.add_negatives(rows, name=RECIPE, top_k=6, when_short=policy)
    found = corpus.sql(
        "SELECT outcome, candidates, count(*) AS n FROM mined_anchors GROUP BY ALL"
    ).to_pylist()
    assert {row["outcome"]: row["candidates"] for row in found} == expected
    assert set(expected) <= set(OUTCOMES)
    assert sum(row["n"] for row in found) == report.anchors
    negatives = stored(corpus)
    by_anchor = {row["anchor_id"] for row in rows}
    judge = Expected(corpus, RECIPE)
    for anchor, mine in negatives.items():
        drawn = [name for name, score in mine if score is None]
        assert bool(drawn) == (policy == "random")
        assert len(drawn) == (6 - 3 * (anchor in by_anchor) if drawn else 0)
        assert len({name for name, _ in mine}) == len(mine)
        for name in drawn:
            assert judge.fate({"anchor_id": anchor, "negative_id": name}) == "candidate"
    assert set(negatives) == {"drop": set(), "random": judge_pool(corpus, judge)}.get(
        policy, by_anchor
    )


def judge_pool(corpus: dp.Corpus, judge: Expected) -> set[str]:
    pairs = corpus.sql(
        "SELECT source_id, sources.name, split FROM minings JOIN sources USING (source_id)"
    ).to_pylist()
    places = {(pair["name"], pair["split"]) for pair in pairs}
    records = judge.records
    return {a for a in judge.anchors if (records[a].source, records[a].split) in places}


# -- drawing --------------------------------------------------------------------------------------


def test_a_sampler_draws_what_was_given(corpus: dp.Corpus) -> None:
    rows = [row for row in legal_rows(corpus) if row["anchor_id"] != row["negative_id"]]
    corpus.add_negatives(rows, name=RECIPE, split="train", when_short="keep")
    scores = {(row["anchor_id"], row["negative_id"]): row["score"] for row in rows}
    columns = ["anchor_record_id", "negative_record_id", "negative_by", "negative_score"]
    sampler = corpus.sampler(
        recipes=[RECIPE], mixture={"two": 0}, columns=columns, swap=False, batch_size=8, epochs=4
    )
    drawn: dict[str, list[str]] = defaultdict(list)
    for batch in sampler:
        for row in batch.to_pylist():
            anchor, negative = row["anchor_record_id"], row["negative_record_id"]
            assert row["negative_score"] == scores[anchor, negative]
            assert row["negative_by"] == "given"
            drawn[anchor].append(negative)
    assert drawn
    for anchor, negatives in drawn.items():
        given_to = {name for owner, name in scores if owner == anchor}
        assert set(negatives) == given_to, "four epochs go once around four candidates"
