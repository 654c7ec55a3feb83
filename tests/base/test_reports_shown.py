"""What is shown of reports and errors: nothing in it acts on a page or a terminal."""

import json

import pytest
from hostile import HOSTILE, check_html
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.base.sanitize import ShownDict
from duckplets.corpus.compact import CompactReport
from duckplets.errors import ChunkingError, SourceError
from duckplets.ingest.preview import Preview
from duckplets.mining.report import MiningReport, PairReport
from duckplets.text.chunking import Chunking


def check(found, *texts):
    check_html(found._repr_html_(), *texts)


PAIR = PairReport(
    recipe=HOSTILE, source="wiki", split="train", scorer="bm25", mining=1, anchors=12_345,
    candidates=7, outcomes={"full": 5, HOSTILE: 1}, counts={"kept": 7}, unranked=0, searched=3,
    quantiles={"negative_score": {"0.5": 1.25}}, found={"mrr@10": 0.5}, resumed=0, seconds=0.5,
)  # fmt: skip
INGESTED = {"read": 5_000, "added": 1, "skipped": 1, "failed": 0, "seconds": 0.1}
COMPACTED = {"freed": {"records": 1_000}, "before": 2, "after": 1, "runs": (HOSTILE,)}
ROW = {"row": 1, "key": "k", "date": None, "skip": HOSTILE, "value": HOSTILE, "sections": []}
SCRIPT = "<script>"
REPORTS = {
    "ingest": (dp.IngestReport(**INGESTED, reasons={HOSTILE: 1}), ("5,000", SCRIPT)),
    "preview": (Preview(rows=[ROW], flags=[], notes=[], looked_at=1), (SCRIPT,)),
    "mining": (MiningReport(pairs=(PAIR,), seconds=1.5), ("12,345", "wiki", SCRIPT)),
    "pair": (PAIR, ("negative_score: 0.5: 1.25",)),
    "compact": (CompactReport(**COMPACTED, seconds=0.1), ("records: 1,000", SCRIPT)),
    "facts": (ShownDict({HOSTILE: [{HOSTILE: HOSTILE}], "none": None, "empty": []}), (SCRIPT,)),
    "long lists": (
        ShownDict({"many": [{"n": i} for i in range(70)], "few": list(range(30))}),
        ("many", "and 20 more", "19 and 10 more"),
    ),
}


def test_a_report_is_lines_in_which_nothing_acts_in_a_notebook_too():
    for found, texts in REPORTS.values():
        check(found, *texts)
        assert HOSTILE not in str(found)
    freed = {"records": 1_000, "sections": 2_000}
    report = CompactReport(freed=freed, before=2_000, after=1, runs=(), seconds=0.25)
    assert str(report).split("\n") == [
        "freed    records: 1,000, sections: 2,000",
        "before   2,000",
        "after    1",
        "seconds  0.25",
    ]
    lines = str(MiningReport(pairs=(PAIR,), seconds=1.0)).split("\n")
    assert lines[0].split()[:4] == ["recipe", "source", "split", "scorer"]
    assert lines[1].split()[-3:] == ["-", "-", "0.500"]


def test_what_verbs_return_is_shown(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb", 60) as corpus:
        check(corpus.split(reassign=True), "train", "asked")
        status = corpus.status()
        check(status, "version", "toy", "records", "anchor_context")
        assert json.loads(json.dumps(status)) == status
        assert type(json.loads(json.dumps(status))) is dict
        with corpus.sampler("triplets", batch_size=4) as sampler:
            next(sampler)
            metrics = sampler.metrics()
            check(metrics, "data/toy/samples", "4")
            assert dict(metrics) == metrics


# ---- values in errors

PROSE = "it is the user's own, and " + "words about it " * 40 + "of the corpus's own"


def test_a_message_is_what_was_said_but_for_what_acts():
    for message, said in (
        ("name=" + repr("x\x1b[2Jy") + ": no", r"name='x\x1b[2Jy': no"),
        ("a\x1b[2J\u202eb\nc", "a\\x1b[2J\\u202eb\nc"),
        (PROSE, PROSE),
        (f"'a?' {PROSE} 'b'", f"'a?' {PROSE} 'b'"),
    ):
        assert str(SourceError(message)) == said


def test_a_long_value_is_cut_and_what_to_do_stays():
    said = str(SourceError(f"name={'x' * 9000!r}: give {'a shorter name'!r}, {'y' * 9000!r} too"))
    assert len(said) < 600
    assert "(9,002 characters)" in said
    assert said.startswith("name='xxx")
    assert "give 'a shorter name'," in said
    with pytest.raises(ChunkingError, match=r"max_tokens=\(a number of 10000 bits\): give an int"):
        Chunking(max_tokens=1 << 9999)
