"""One source has one mapping: another is refused, or takes the place of what was read before."""

import random

import pytest
from effort import often
from prebuilt import empty_corpus

import duckplets as dp

ROWS = [{"q": f"q {i}", "a": f"a {i}", "c": f"c {i}", "d": "2024-01-01"} for i in range(6)]


def memory(rows=ROWS, **mapping):
    return dp.MemorySource(rows, **mapping)


def texts(corpus, source="%"):
    live = corpus.sql(
        "SELECT text FROM section_texts WHERE source LIKE $s ORDER BY record_id, position",
        {"s": source},
    )
    return [str(text) for text in live["text"].to_pylist()]


SAME = [
    ({"anchor": "q"}, {"anchor": ["q"]}),
    ({"anchor": "q", "positive": "a"}, {"positive": ["a"], "anchor": "q", "trust": 0.9}),
    ({"anchor": "q", "context": "c"}, {"anchor": "q", "context": "c", "on_error": "quarantine"}),
    ({"text": "q"}, {"text": "q", "on_bad_date": "fail"}),
]
OTHERS = [
    ({"anchor": "q"}, {"anchor": "a"}),
    ({"anchor": "q"}, {"anchor": ["q", "a"]}),
    ({"anchor": "q", "positive": "a"}, {"anchor": "q", "context": "a"}),
    ({"anchor": "q"}, {"text": "q"}),
    ({"anchor": "q"}, {"anchor": "q", "date": "d"}),
    ({"anchor": "q"}, {"anchor": "q", "id": "q"}),
    ({"anchor": "q"}, {"anchor": "q", "meta": ["c"]}),
]


def test_another_mapping_is_refused_with_both_shown(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as corpus, empty_corpus(tmp_path / "d.duckdb") as new:
        for n, (before, now) in enumerate(SAME[:: often(1, less=2)]):
            corpus.ingest(memory(ROWS[:4], **before), name=f"same{n}")
            report = corpus.ingest(memory(**now), name=f"same{n}")
            assert (report.added, report.skipped) == (2, 4)
        for n, (before, now) in enumerate(OTHERS[:: often(1, less=4)]):
            corpus.ingest(memory(**before), name=f"s{n}")
            found, version = texts(corpus), corpus.version
            with pytest.raises(dp.SourceError) as raised:
                corpus.ingest(memory(**now), name=f"s{n}")
            said = str(raised.value)
            assert "known with another mapping" in said
            assert "remap=True" in said
            for reading in (before, now):
                for part in reading:
                    assert f"{part}: " in said
            assert (texts(corpus), corpus.version) == (found, version)
            corpus.ingest(memory(**now), name=f"s{n}", remap=True)
            assert corpus.version == version + 1
            new.ingest(memory(**now), name=f"s{n}")
            assert texts(corpus, f"s{n}") == texts(new, f"s{n}")
            assert corpus.ingest(memory(**now), name=f"s{n}").added == 0


def test_a_remapped_source_is_that_of_the_new_reading_whatever_was_there(tmp_path):
    generator = random.Random(5)
    for case in range(often(12, less=2)):
        before = [{"k": str(i), "q": f"q {generator.randint(0, 2)}"} for i in range(8)]
        now = [{"k": str(i), "q": f"q {generator.randint(0, 2)}"} for i in range(3, 11)]
        generator.shuffle(now)
        with empty_corpus(tmp_path / f"{case}.duckdb") as corpus:
            corpus.ingest(memory(before, anchor="q", id="k"))
            corpus.ingest(memory([{"q": "other"}], anchor="q"), name="other")
            corpus.split(1, 0, 0)
            pinned = corpus.sampler("texts", batch_size=9, epochs=1)
            first = pinned.batch_at(0).to_pydict()
            report = corpus.ingest(memory(now, anchor=["q", "k"], id="k"), remap=True)
            assert pinned.batch_at(0).to_pydict() == first
            live = "SELECT record_id, text FROM section_texts WHERE source = 'memory'"
            found = {row["record_id"]: row["text"] for row in corpus.sql(live).to_pylist()}
            assert found == {f"memory/{row['k']}": row["q"] for row in now}
            assert report.removed == 3
            same = sum(row["q"] == before[int(row["k"])]["q"] for row in now if int(row["k"]) < 8)
            assert report.skipped == same  # they hash alike, and stay
            old = corpus.sql("SELECT count(*) AS n FROM records WHERE added_version = 1")["n"]
            assert old.to_pylist() == [8]


def test_rows_set_aside_are_those_of_the_reading_in_force(corpus):
    def aside():
        rows = corpus.sql("SELECT source, version, row FROM quarantine ORDER BY ALL").to_pylist()
        return [(row["source"], row["version"], row["row"]) for row in rows]

    rows = [{"q": "one", "a": None}, {"q": None, "a": "two"}, {"q": "three", "a": "3"}]
    how = {"on_error": "quarantine", "progress": False}
    corpus.ingest(memory(rows, anchor="q", positive="a"), **how)
    corpus.ingest(memory(rows, anchor="a"), name="other", **how)
    assert aside() == [("memory", 1, 1), ("memory", 1, 2), ("other", 2, 1)]
    report = corpus.ingest(memory(rows, anchor="q"), remap=True, **how)
    assert aside() == [("memory", 3, 2), ("other", 2, 1)]
    assert "gone from the table quarantine: 2 rows of earlier versions" in report.notes


def test_another_place_is_allowed_and_said(corpus, tmp_path):
    for month in ("may", "june"):
        (tmp_path / f"{month}.csv").write_text(f"q,a\n{month} q,{month} a\n")
    corpus.ingest(dp.CsvSource(tmp_path / "may.csv", anchor="q"), name="dump")
    report = corpus.ingest(dp.CsvSource(tmp_path / "june.csv", anchor="q"), name="dump")
    assert report.added == 1
    (note,) = [note for note in report.notes if "now, before" in note]
    assert "june.csv (csv)" in note
    assert "may.csv (csv)" in note
    again = corpus.ingest(dp.CsvSource(tmp_path / "june.csv", anchor="q"), name="dump")
    assert not any("now, before" in note for note in again.notes)
