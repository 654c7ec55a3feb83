"""Ingest: whole or not at all, every row counted, the same result whatever the order."""

import hashlib
import itertools
import json
from collections import Counter
from functools import partial

import pyarrow as pa
import pytest
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import empty_corpus, toy_corpus
from source_rows import every_source
from stored_rows import stored_rows

import duckplets as dp
from duckplets.ingest import stored_ids
from duckplets.ingest.store import CONFLICT, OVERTAKEN, SAME
from duckplets.sources import Rows
from duckplets.testing import toy_records

POLICIES = ("error", "skip", "replace")


def small_batches(patch, rows):
    patch.setattr("duckplets.sources.row_batches.MAX_ROWS", rows)


def ingest(corpus, source, **arguments):
    """Ingest, and check what holds for every report."""
    report = corpus.ingest(source, progress=False, **arguments)
    assert report.read == report.added + report.skipped + report.failed
    assert sum(report.reasons.values()) == report.skipped + report.failed
    [(version, stored)] = corpus.database.rows(
        "SELECT version, report FROM corpus_versions ORDER BY version DESC LIMIT 1"
    )
    told = {name: getattr(report, name) for name in report.__dataclass_fields__}
    assert (version, json.loads(stored)) == (report.version, told)
    assert min(report.read, report.added, report.skipped, report.failed, report.replaced) >= 0
    assert all(report.reasons.values())
    assert report.version == corpus.version
    return report


def plain(rows):
    return dp.sources.MemorySource(
        [{"id": i, "text": text} for i, text in rows], id="id", text="text"
    )


def texts(*given):
    return dp.sources.MemorySource([{"text": text} for text in given], text="text")


def dump(corpus):
    """Everything that is stored, row by row."""
    found = stored_rows(corpus)
    assert len(found) >= 9
    return found


def column(corpus, query):
    return corpus.database.arrow(query).column(0).to_pylist()


def live(corpus):
    """Text by id, in the newest version; every id once."""
    found = corpus.sql("SELECT record_id, text FROM section_texts").to_pylist()
    ids = column(corpus, "SELECT record_id FROM live_records")
    assert len(found) == len(ids) == len(set(ids))
    return {row["record_id"]: row["text"] for row in found}


def at_version(corpus, version):
    """What a run pinned to a version sees."""
    found = corpus.sql(
        """
        SELECT record_id, text FROM records JOIN sections USING (record_key)
        WHERE added_version <= $version AND coalesce(removed_version > $version, TRUE)
        """,
        {"version": version},
    ).to_pylist()
    assert len({row["record_id"] for row in found}) == len(found)
    return {row["record_id"]: row["text"] for row in found}


MIXED = [
    {"id": "a", "title": "first", "body": "one", "day": "2024-01-02", "trust": "0.25"},
    {"id": "", "title": "no id", "body": "two", "day": "", "trust": ""},
    {"id": "b", "title": " \n", "body": "three", "day": "", "trust": ""},
    {"id": "c", "title": "no body", "body": "", "day": "", "trust": ""},
    {"id": "d", "title": "bad date", "body": "five", "day": "yesterday", "trust": ""},
    {"id": "e", "title": "bad trust", "body": "six", "day": "", "trust": "1.5"},
    {"id": "a", "title": "first", "body": "one", "day": "2024-01-02", "trust": "0.25"},
    {"id": "f", "title": "last", "body": "eight", "day": "", "trust": ""},
]


@pytest.mark.parametrize("batch", [2, 65_536])
def test_every_row_is_counted(corpus, batch, tmp_path, monkeypatch):
    kind = "records" if batch == 2 else "csv"
    small_batches(monkeypatch, batch)
    mapping = {"anchor": "title", "positive": "body", "id": "id", "date": "day", "trust": "trust"}
    mapping |= {"on_bad_date": "fail"}
    [source] = every_source(tmp_path, MIXED, (kind,), **mapping).values()
    report = ingest(corpus, source, name="mixed")
    assert (report.read, report.added, report.skipped, report.failed) == (8, 2, 5, 1)
    assert report.reasons == {
        SAME: 1,
        "no id": 1,
        "no anchor": 1,
        "no positive": 1,
        "unreadable date": 1,
        "trust outside 0..1": 1,
    }
    stored = corpus.sql(
        "SELECT record_id, trust, date::VARCHAR AS day FROM live_records ORDER BY ALL"
    ).to_pylist()
    assert stored == [
        {"record_id": "mixed/a", "trust": 0.25, "day": "2024-01-02"},
        {"record_id": "mixed/f", "trust": 0.5, "day": None},
    ]


class Wrapped:
    """A source of another's rows, with something done to its batches."""

    kind = "wrapped"
    uri = None
    trust = None
    in_pieces = False

    def __init__(self, source, batches):
        self.source, self.batches = source, batches

    def default_name(self):
        return "wrapped"

    def open(self, reader, cursor=None):
        rows = self.source.open(reader)
        return Rows(self.batches(rows.batches), rows.defaults)


def test_progress_rises_to_the_end(corpus, monkeypatch):
    small_batches(monkeypatch, 10)
    told = []
    corpus.ingest(plain([(f"r{i}", "x") for i in range(35)]), progress=lambda *n: told.append(n))
    assert told == [(10, 35), (20, 35), (30, 35), (35, 35)]
    source = dp.sources.MemorySource(iter([{"text": "of unknown number"}]), text="text")
    corpus.ingest(source, name="other", progress=lambda *n: told.append(n))
    assert told[4:] == [(1, None)]


def test_ids_are_source_and_key(corpus, tmp_path):
    ingest(corpus, plain([("7", "x"), ("a/b", "y"), (" é\U0001f600", "z")]), name="my source")
    assert set(live(corpus)) == {"my source/7", "my source/a/b", "my source/ é\U0001f600"}
    parquet = every_source(tmp_path, [{"body": "x", "id": "7"}], ("parquet",), text="body", id="id")
    ingest(corpus, parquet["parquet"])
    assert live(corpus)["r/7"] == "x"  # named for the file, and another record
    assert corpus.sources()["kind"].to_pylist() == ["memory", "parquet"]


def test_ids_of_content_are_its_sha256(corpus):
    ingest(corpus, texts("hello"), name="s")
    digest = hashlib.sha256(b"hello").hexdigest()
    # As sql/sources/rows.sql says: such ids must never change.
    content = f"1 context {digest}dg-t0 m0 "
    assert live(corpus) == {f"s/{hashlib.sha256(content.encode()).hexdigest()[:16]}": "hello"}
    [hashed] = column(corpus, "SELECT content_hash FROM records")
    assert set(live(corpus)) == {f"s/{hashed:016x}"}


def test_a_row_in_front_relabels_nothing(corpus):
    ingest(corpus, texts("one", "two"), name="s")
    before = dump(corpus)
    report = ingest(corpus, texts("zero", "one", "two"), name="s")
    assert (report.added, report.reasons) == (1, {SAME: 2})
    after = dump(corpus)
    for table in ("records", "stored_sections", "chunks"):
        assert after[table][:2] == before[table]
        assert len(after[table]) == 3


def test_an_error_names_the_id_and_changes_nothing(corpus, monkeypatch):
    corpus.split()
    ingest(corpus, plain([("a", "x"), ("b", "y")]), name="s")
    before = dump(corpus)
    for batch in (1, 65_536):
        small_batches(monkeypatch, batch)
        for rows, name, said in [
            ([("new", "n"), ("", "no id"), ("b", "other")], "s", r"s/b' \(row 3"),  # as stored
            ([("c", "1"), ("c", "2"), ("a", "3")], "s", r"s/c' \(row 2"),  # with a row above
            ([("c", "1"), ("c", "2")], "new", r"new/c' \(row 2"),  # nor is a new source left
        ]:
            with pytest.raises(dp.SourceError, match=rf"'{said}\).*'replace' or 'skip'"):
                corpus.ingest(plain(rows), name=name)
            assert dump(corpus) == before
    assert ingest(corpus, plain([("c", "1")]), name="s").added == 1  # and it goes on


class Expected:
    """The three policies in plain Python."""

    def __init__(self, policy):
        self.policy = policy
        self.live = {}
        self.history = [{}]

    def ingest(self, rows, batch):
        """Return the counts of the report, or the id and row of the first conflict."""
        now, added, fresh = dict(self.live), 0, set[str]()
        reasons = Counter()
        replaced = 0
        if self.policy == "error":
            for number, (key, text) in enumerate(rows, 1):
                if now.setdefault(key, text) != text:
                    return key, number
            now = dict(self.live)
        if self.policy != "replace":
            for key, text in rows:
                if key in now:
                    reasons[SAME if now[key] == text else CONFLICT] += 1
                else:
                    now[key] = text
                    added += 1
        for start in range(0, len(rows) if self.policy == "replace" else 0, batch):
            part = rows[start : start + batch]
            for key, last in dict(part).items():
                copies = [text for k, text in part if k == key]
                reasons[OVERTAKEN] += sum(text != last for text in copies)
                same = copies.count(last)
                if now.get(key) == last:
                    reasons[SAME] += same
                    continue
                reasons[SAME] += same - 1
                added += 1
                if key in fresh:
                    added -= 1
                    reasons[OVERTAKEN] += 1
                elif key in now:
                    replaced += 1
                now[key] = last
                fresh.add(key)
        self.live = now
        self.history.append(now)
        return {"added": added, "replaced": replaced, "reasons": dict(+reasons)}


rows_of = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"])), min_size=1, max_size=9
)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=often(40, less=3), deadline=None)
@given(
    ingests=st.lists(rows_of, min_size=1, max_size=4),
    batch=st.sampled_from([1, 2, 3, 100]),
    rows_at_once=st.sampled_from([0, 3, 10**9]),
)
def test_policies_are_those_of_the_reference(
    tmp_path_factory, policy, ingests, batch, rows_at_once
):
    expected = Expected(policy)
    with (
        empty_corpus(tmp_path_factory.mktemp("c") / "c.duckdb") as corpus,
        pytest.MonkeyPatch.context() as patch,
    ):
        small_batches(patch, batch)
        patch.setattr("duckplets.ingest.ingest._ROWS_AT_ONCE", rows_at_once)
        for rows in ingests:
            outcome = expected.ingest(rows, batch)
            if isinstance(outcome, tuple):
                before = dump(corpus)
                key, row = outcome
                with pytest.raises(dp.SourceError, match=rf"'s/{key}' \(row {row}\)"):
                    corpus.ingest(plain(rows), name="s")
                assert dump(corpus) == before
                continue
            report = ingest(corpus, plain(rows), name="s", on_conflict=policy)
            assert {name: getattr(report, name) for name in outcome} == outcome
        for version, state in enumerate(expected.history):
            assert at_version(corpus, version) == {f"s/{key}": t for key, t in state.items()}
        assert live(corpus) == {f"s/{key}": text for key, text in expected.live.items()}


def test_a_source_without_records_is_refused(corpus):
    before = dump(corpus)
    for source, message in (
        (texts(), "no rows"),
        (texts("", " \n"), "none of the 2 rows.*2 no text"),
        (plain([("", "x")]), "none of the 1 row of.*1 no id"),
    ):
        with pytest.raises(dp.SourceError, match=message):
            corpus.ingest(source)
    for argument, (values, message) in WRONG.items():
        for value in values:
            with pytest.raises(dp.SourceError, match=message):
                corpus.ingest(texts("x"), **{argument: value})
    assert dump(corpus) == before


ERRORS = (KeyboardInterrupt, dp.SourceError("the disk is gone"), OSError("x"), MemoryError)


def test_an_error_half_way_changes_nothing(corpus, monkeypatch):
    small_batches(monkeypatch, 2)

    def breaking(batches, error, after):
        yield from itertools.islice(batches, after)
        raise error

    corpus.split()
    ingest(corpus, plain([("a", "x")]), name="wrapped")
    before = dump(corpus)
    rows = plain([(f"r{i}", f"text {i}") for i in range(9)])
    for error, after in some(itertools.product(ERRORS, [0, 1, 3]), less=3):
        batches = partial(breaking, error=error, after=after)
        with pytest.raises(error if isinstance(error, type) else type(error)):
            corpus.ingest(Wrapped(rows, batches), on_conflict="replace")
        assert dump(corpus) == before
    assert ingest(corpus, rows, name="wrapped").added == 9  # the connection still serves


WRONG = {
    "trust": ([-0.1, 1.001, float("nan"), float("inf"), True, "0.9"], r"trust=.*from 0 to 1"),
    "name": (["", "a/b", "line\nbreak", "\0", "x" * 201, "\udc80", 5], "source name"),
    "on_conflict": (["merge"], r"on_conflict='merge': give 'error', 'skip' or 'replace'"),
}


def test_trust_is_the_row_s_else_the_source_s_else_a_half(corpus):
    def trusts(corpus):
        return (
            column(corpus, "SELECT trust FROM live_records ORDER BY record_key"),
            column(corpus, "SELECT trust FROM sources WHERE removed_version IS NULL"),
        )

    rows = [{"text": "a", "t": 0.25}, {"text": "b"}, {"text": "c", "t": 1}]
    by_row = dp.sources.MemorySource(rows, text="text", trust="t")
    ingest(corpus, by_row, name="s")
    assert trusts(corpus) == ([0.25, 0.5, 1], [0.5])
    ingest(corpus, texts("d"), name="s", trust=0.75)  # from now on
    assert trusts(corpus) == ([0.25, 0.5, 1, 0.75], [0.75])
    ingest(corpus, texts("e"), name="s")
    assert trusts(corpus)[0][-1] == 0.75
    ingest(corpus, dp.sources.MemorySource([{"text": "f"}], text="text", trust=0), name="s")
    assert trusts(corpus)[0][-1] == 0
    ingest(
        corpus,
        dp.sources.MemorySource([{"text": "g"}], text="text", trust=0.1),
        name="s",
        trust=0.9,
    )
    assert trusts(corpus)[0][-1] == 0.9


SPLITS = "SELECT record_id, split FROM live_records"


def test_remove_leaves_the_rows_for_pinned_runs(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 60, sources=("a", "b")) as corpus:
        sampler = corpus.sampler(batch_size=16)
        expected = [batch.table for batch in itertools.islice(corpus.sampler(batch_size=16), 8)]
        before, splits = dump(corpus), corpus.sql(SPLITS).to_pylist()
        assert corpus.remove("a") == 60
        assert corpus.version == 3
        assert corpus.sources()["name"].to_pylist() == ["b"]
        assert all(
            key.startswith("b/") for key in column(corpus, "SELECT record_id FROM live_records")
        )
        after = dump(corpus)
        for table in ("stored_sections", "chunks", "splits"):
            assert after[table] == before[table]
        for old, new in zip(before["records"], after["records"], strict=True):
            removed = 3 if old["record_id"].startswith("a/") else None
            assert new == old | {"removed_version": removed}
        assert [b.table for b in itertools.islice(sampler, 8)] == expected
        assert set(next(corpus.sampler())["source"]) == {"b"}
        with pytest.raises(dp.SourceError, match=r"no source 'a'.*there are: b"):
            corpus.remove("a")
        with pytest.raises(dp.SourceError, match="did you mean 'b'"):
            corpus.remove("B")
        corpus.remove("b")
        with pytest.raises(dp.SourceError, match="there are: none"):
            corpus.remove("b")
        # It can come back, as a source and records of its own.
        again = dp.sources.MemorySource(
            [row | {"body": "other"} for row in toy_records(60)], id="id", text="body"
        )
        report = ingest(corpus, again, name="a")
        assert (report.added, report.replaced, report.reasons) == (60, 0, {})
        assert {row["record_id"]: row["split"] for row in corpus.sql(SPLITS).to_pylist()} == {
            row["record_id"]: row["split"] for row in splits if row["record_id"].startswith("a/")
        }


def test_a_read_only_corpus_refuses_to_change(tmp_path):
    toy_corpus(tmp_path / "toy.duckdb", 20).close()
    recipe = dp.TripletRecipe("r", *[dp.any_section()] * 3)
    attempts = [
        ("ingest", lambda corpus: corpus.ingest(texts("x"))),
        ("ingest", lambda corpus: corpus.ingest("sets.yaml")),
        ("set a prefix", lambda corpus: corpus.set_prefix("toy", None)),
        ("set index controls", lambda corpus: corpus.set_index_controls("toy")),
        ("split", lambda corpus: corpus.split()),
        ("chunk", lambda corpus: corpus.chunk(dp.Chunking(max_tokens=3))),
        ("remove a source", lambda corpus: corpus.remove("toy")),
        ("add a recipe", lambda corpus: corpus.add_recipe(recipe)),
        ("remove a recipe", lambda corpus: corpus.remove(recipe="r")),
    ]
    content = (tmp_path / "toy.duckdb").read_bytes()
    with dp.Corpus(tmp_path / "toy.duckdb", read_only=True) as corpus:
        for verb, attempt in attempts:
            with pytest.raises(
                dp.errors.ReadOnlyError, match=f"cannot {verb}.*open read-only.*Corpus"
            ):
                attempt(corpus)
        assert next(corpus.sampler(batch_size=2)).keys()
    assert (tmp_path / "toy.duckdb").read_bytes() == content


@settings(max_examples=often(25, less=2), deadline=None)
@given(
    given_texts=st.lists(st.text("abc \né漢", max_size=5) | st.text(max_size=30), max_size=12),
    data=st.data(),
)
def test_any_text_comes_back_exactly_whatever_the_order_of_rows(
    tmp_path_factory, given_texts, data
):
    rows = [*given_texts, "one for sure"]
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    filled = sorted(text for text in rows if text.strip())
    found = []
    for parts in ([rows], [shuffled[:cut], shuffled[cut:]]):
        with empty_corpus(tmp_path_factory.mktemp("c") / "c.duckdb") as corpus:
            corpus.split(0.5, 0.25, 0.25, seed=3)
            added = 0
            for part in parts:
                if any(text.strip() for text in part):
                    added += ingest(corpus, texts(*part), name="s").added
            assert added == len(set(filled))
            stored = corpus.sql(
                "SELECT record_id, split, position, role, heading, text, token_count "
                "FROM section_texts ORDER BY ALL"
            ).to_pylist()
            assert sorted(row["text"] for row in stored) == sorted(set(filled))
            assert sorted(column(corpus, "SELECT text FROM chunk_texts")) == sorted(set(filled))
            found.append(stored)
    assert found[0] == found[1]


@pytest.mark.parametrize(("given", "during"), [(None, 1), (3, 3)])
def test_rows_are_stored_by_one_thread_unless_a_number_is_given(tmp_path, given, during):
    def threads():
        return corpus.sql("SELECT current_setting('threads') AS n").to_pylist()[0]["n"]

    def rows(seen):
        for i in range(3):
            seen.add(threads())
            yield {"text": f"text {i}"}
        if len(seen) > 5:
            yield 1 / 0

    with dp.Corpus(tmp_path / "c.duckdb", threads=given) as corpus:
        before, seen = threads(), set()
        ingest(corpus, dp.sources.MemorySource(rows(seen), text="text"), name="s")
        assert seen == {during}
        with pytest.raises(dp.SourceError):
            ingest(corpus, dp.sources.MemorySource(rows({*range(9)}), text="text"), name="t")
        assert threads() == before


@pytest.mark.parametrize("most_merged", [0, 64, 1 << 20])
def test_every_id_that_came_before_is_found(tmp_path, monkeypatch, most_merged):
    monkeypatch.setattr(stored_ids, "_MOST_MERGED", most_merged)
    with toy_corpus(tmp_path / "c.duckdb") as corpus:
        live = column(corpus, "SELECT record_id FROM records")
        found = stored_ids.StoredIds(corpus.database, "toy", is_anew=False)
        assert not found.add(pa.array(["toy/new", live[-1]]))
        assert found.add(pa.array(["toy/other", "b/r0"]))
        assert not found.add(pa.array(["x", "y", "x"]))
        for i in range(40):
            assert found.add(pa.array([f"{i}-{j}" for j in range(1 + i % 7)]))
        assert not any(found.add(pa.array([f"z{i}", f"{i}-0"])) for i in range(40))
