"""Other thresholds without the sources: the result is that of an intake by them."""

import random

import pytest
from effort import often, thorough
from gated_rows import GOOD, LONG, contents, oracle, take, texts
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.quality.settings import Quality
from duckplets.sources import row_batches

STRICT = Quality(language=None, min_characters=200)
QUALITY = Quality(language=None)
LOOSE = Quality(language=None, min_characters=1, copyright=(), pii=None)

ROWS = [
    ("short", "schema: min_characters"),
    (GOOD.format(1), "accepted"),
    ("short", "schema: min_characters"),
    (LONG + "© somebody", "content: copyright"),
    (LONG + "bob@example.org", "content: max_pii_density"),
    (LONG * 5, "accepted"),
]


def source(rows, **columns):
    made = [{"id": str(i), "text": text, **columns} for i, text in enumerate(rows)]
    return dp.sources.MemorySource(made, text="text", id="id", meta=[*columns] or None)


def reasons(corpus):
    rows = corpus.sql("SELECT * FROM judgements ORDER BY acquisition_id, row").to_pylist()
    return [
        r["outcome"] if r["outcome"] == "accepted" else f"{r['gate']}: {r['rule']}" for r in rows
    ]


@pytest.fixture
def corpus(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        take(opened, source([text for text, _ in ROWS], license="mit"))
        opened.split(1, 0, 0)
        yield opened


def test_rows_become_records_and_records_go(corpus):
    assert reasons(corpus) == [reason for _, reason in ROWS]
    with corpus.sampler("texts", batch_size=2, epochs=1) as sampler:
        pinned = [text for batch in sampler for text in batch["text"]]
        sampler.save()
    before = contents(corpus)
    would = corpus.quality(apply=LOOSE, dry_run=True)
    assert contents(corpus) == before
    did = corpus.quality(apply=LOOSE)
    assert (
        (would.newly_accepted, would.newly_rejected)
        == (did.newly_accepted, did.newly_rejected)
        == (3, 0)
    )
    assert would.changes == did.changes
    shown = [line.split() for line in str(did).splitlines()]
    assert shown[1:5] == [
        ["rows", "6"],
        ["newly", "accepted", "3"],
        ["newly", "rejected", "0"],
        ["unchanged", "3"],
    ]
    assert did.changes == [
        {"source": "s", "was": "content: copyright", "now": "accepted", "rows": 1},
        {"source": "s", "was": "content: max_pii_density", "now": "accepted", "rows": 1},
        {"source": "s", "was": "schema: min_characters", "now": "accepted", "rows": 1},
        {"source": "s", "was": "schema: min_characters", "now": "duplicates: same text", "rows": 1},
    ]
    assert did.version == corpus.version == 2
    assert reasons(corpus) == ["accepted", "accepted", "duplicates: same text"] + ["accepted"] * 3
    assert sorted(texts(corpus)) == sorted(
        ["short", GOOD.format(1), LONG + "© somebody", LONG + "[EMAIL]", LONG * 5]
    )
    assert corpus.quality(apply=LOOSE).changes == []
    gone = corpus.quality(apply=STRICT)
    assert (gone.newly_accepted, gone.newly_rejected) == (0, 4)
    assert texts(corpus) == [LONG * 5]
    back = corpus.quality(apply=QUALITY)
    assert reasons(corpus) == [reason for _, reason in ROWS]
    assert (back.newly_accepted, corpus.version) == (1, 4)
    rows = corpus.sql(
        "SELECT record_id, meta, split FROM records JOIN splits USING (record_key) "
        "WHERE removed_version IS NULL ORDER BY record_id"
    ).to_pylist()
    assert [(row["record_id"], dict(row["meta"])) for row in rows] == [
        ("s/1", {"license": "mit"}),
        ("s/5", {"license": "mit"}),
    ]
    with corpus.resume() as sampler:  # pinned to what it saw
        again = [text for step in range(sampler.step) for text in sampler.batch_at(step)["text"]]
    assert again == pinned


@thorough
def test_a_row_that_becomes_acceptable_displaces_later_copies(tmp_path):
    def of(license_of):
        row = {"id": license_of, "text": GOOD, "license": license_of}
        return dp.sources.MemorySource([row], text="text", id="id", meta=["license"])

    def live(corpus):
        rows = corpus.sql("SELECT record_id FROM live_records")
        return list(rows["record_id"].to_pylist())

    strict = Quality(language=None, licenses=("mit",))
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        take(corpus, of("gpl"), "first", quality=strict)
        take(corpus, of("mit"), "second", quality=strict)
        corpus.ingest(of("bsd"), name="plain")
        assert reasons(corpus) == ["schema: licenses", "accepted"]
        report = corpus.quality(apply=QUALITY)
        assert (report.newly_accepted, report.newly_rejected, report.measured) == (1, 2, 1)
        assert live(corpus) == ["first/gpl"]
        assert corpus.quality(apply=QUALITY).changes == []
        corpus.quality(apply=strict)
        assert live(corpus) == ["second/mit"]


def test_records_without_gates_are_measured_and_judged(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(source([text for text, _ in ROWS]), name="s")
        report = corpus.quality(apply=QUALITY)
        assert (report.rows, report.newly_rejected, report.measured) == (6, 4, 6)
        assert texts(corpus) == [GOOD.format(1), LONG * 5]
        assert corpus.quality(apply=LOOSE).newly_accepted == 3
        assert corpus.quality(apply=LOOSE).measured == 0


def test_what_was_not_measured_is_measured_from_kept_texts_or_refused(tmp_path):
    asked = Quality(language=None, copyright=("weather",))
    for keep in (True, False):
        with empty_corpus(tmp_path / f"{keep}.duckdb") as corpus:
            kept = Quality(language=None, keep_rejected=keep)
            take(corpus, source([text for text, _ in ROWS]), quality=kept)
            if keep:
                report = corpus.quality(apply=asked)
                assert (report.measured, report.newly_accepted, report.newly_rejected) == (6, 1, 1)
                assert texts(corpus) == [LONG * 5, LONG + "© somebody"]
            else:
                with pytest.raises(dp.errors.QualityError, match=r"4 rows .* texts were not kept"):
                    corpus.quality(apply=asked)
                loose = Quality(language=None, min_characters=1)
                assert corpus.quality(apply=loose).without_text == 1 + 1
    with pytest.raises(dp.errors.QualityError, match="pii='redact' is for ingest"):
        corpus.quality(apply=Quality(language=None, pii="redact"))


def test_judging_gives_what_an_intake_by_the_thresholds_gives(tmp_path, monkeypatch):
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    for seed in range(often(30, less=1)):
        draw = random.Random(seed)
        words = [GOOD.format(i) * draw.randrange(1, 4) for i in range(6)] + ["short"]
        rows = [{"id": str(draw.randrange(15)), "text": draw.choice(words)} for _ in range(40)]
        made = dp.sources.MemorySource(rows, text="text", id="id")
        with empty_corpus(tmp_path / f"{seed}.duckdb") as corpus:
            take(
                corpus, made, quality=Quality(language=None, min_characters=120), on_conflict="skip"
            )
            corpus.quality(apply=Quality(language=None, min_characters=50))
            found = corpus.sql("SELECT coalesce(rule, outcome) AS r FROM judgements ORDER BY row")
            assert found["r"].to_pylist() == oracle(rows), seed
            keys = corpus.sql("SELECT record_id FROM records WHERE removed_version IS NULL")
            assert keys.num_rows == oracle(rows).count("accepted")
        monkeypatch.setattr(row_batches, "MAX_ROWS", draw.randrange(often(1, less=9), 30))
        with empty_corpus(tmp_path / f"{seed}-straight.duckdb") as straight:
            take(straight, made, on_conflict="skip")
            found = straight.sql("SELECT coalesce(rule, outcome) AS r FROM judgements ORDER BY row")
            assert found["r"].to_pylist() == oracle(rows), seed


def test_shifts_are_told_against_a_source_and_a_version(corpus):
    assert corpus.quality(against=1).warnings == []
    corpus.quality(apply=STRICT)
    assert any("characters has shifted" in line for line in corpus.quality(against=1).warnings)
    take(corpus, source([GOOD.format(i) for i in range(20, 40)]), "other")
    assert {row["source"] for row in corpus.quality(against="s").rows} == {"other"}
    for against, said in (
        ("nobody", "no source of that name has metrics"),
        (9, "give a version from 1 to 3"),
    ):
        with pytest.raises(dp.errors.QualityError, match=said):
            corpus.quality(against=against)


def test_a_rejected_row_that_becomes_a_record_keeps_its_label(tmp_path):
    rows = [
        {"id": f"{i}", "q": f"q {i}", "a": "x" * (10 + 20 * i), "same": i % 2} for i in range(6)
    ]
    source = dp.sources.MemorySource(rows, anchor="q", positive="a", id="id", label="same")
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = take(corpus, source, quality=Quality(language=None, min_characters=60))
        assert 0 < report.added < 6
        corpus.quality(apply=LOOSE)
        found = corpus.sql("SELECT record_id, label FROM records WHERE removed_version IS NULL")
        labels = {row["record_id"]: row["label"] for row in found.to_pylist()}
    assert labels == {f"s/{i}": i % 2 for i in range(6)}
