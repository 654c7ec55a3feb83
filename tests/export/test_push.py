"""What is pushed to a hub: the very samples, a card that says what they are, and what may fail."""

import dataclasses
import io
import json
import logging
import re
from functools import partialmethod

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from commands import cli, ok, usage
from hub_data import point_to
from hub_server import POOR, TOKEN, Hub
from markdown_it import MarkdownIt
from mined_by_hand import RECIPE, mine_by_hand, odd_text_corpus

import duckplets as dp
from duckplets.base.sanitize import shown
from duckplets.errors import EmptyPoolError, PassingError, SamplerError, SourceError
from duckplets.export.hub import HubTarget

TEXTS = """
    SELECT
        any_value(text) FILTER (role = 'anchor') AS anchor,
        any_value(text) FILTER (role = 'context') AS positive,
        any_value(text) FILTER (role = 'rejected') AS negative
    FROM section_texts GROUP BY record_id
"""
SHARD = "data/train-00000-of-00001.parquet"


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    path = tmp_path_factory.mktemp("push") / "odd.duckdb"
    with odd_text_corpus(path, 30, ("one", "two")) as corpus:
        mine_by_hand(corpus)
        yield corpus


@pytest.fixture
def waits(monkeypatch):
    """How long would have been waited between tries."""
    found = []
    made = partialmethod(HubTarget.__init__, sleep=found.append)
    monkeypatch.setattr(HubTarget, "__init__", made)
    return found


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with Hub() as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def files_of(hub, name):
    files = hub.repos[name].revisions[hub.repos[name].head]
    return {path: content for path, content in files.items() if isinstance(content, bytes)}


def table_of(hub, name, shard=SHARD):
    return pq.read_table(io.BytesIO(files_of(hub, name)[shard]))


def test_mined_negatives_are_those_of_the_export_and_are_read_again(mined, hub, tmp_path):
    report = mined.push("me/mined", recipe=RECIPE)
    assert (report.repo, report.private) == ("hf://me/mined", True)
    assert hub.repos["me/mined"].private
    assert hub.repos["me/mined"].head == report.commit
    assert set(report.files) == {SHARD, "README.md"}
    how = {"recipe": RECIPE, "format": "sentence-transformers", "progress": False}
    mined.export(tmp_path / "here.parquet", **how)
    there = table_of(hub, "me/mined")
    assert there.equals(pq.read_table(tmp_path / "here.parquet"))
    assert report.rows == there.num_rows
    with dp.Corpus(tmp_path / "again.duckdb") as again:
        columns = "anchor=anchor positive=positive negative=negative"
        got = again.ingest(dp.sources.HubSource(f"{report.repo} {columns}"), name="again")
        assert got.read == report.rows
        rows = again.sql(TEXTS).to_pylist()
    sent = {tuple(row.values()) for row in there.to_pylist()}
    assert {(row["anchor"], row["positive"], row["negative"]) for row in rows} == sent


def test_steps_of_a_run_are_the_very_samples_and_the_run_goes_on_behind_them(mined, hub):
    how = {"recipes": [RECIPE], "batch_size": 4, "seed": 5}
    expected = mined.sampler(**how)
    sampler = mined.sampler(**how)
    next(sampler)
    report = mined.push("hf://me/run", sampler, steps=3)
    assert (report.rows, sampler.step) == (12, 4)
    wanted = pa.concat_tables([expected.batch_at(step).table for step in (1, 2, 3)])
    assert table_of(hub, "me/run").equals(wanted)
    card = files_of(hub, "me/run")["README.md"].decode()
    made = json.loads(card.split("```json\n")[1].split("\n```")[0])
    assert (made["positions"], made["seed"], made["corpus_version"]) == ([4, 16], 5, mined.version)
    again = mined.sampler(**how)
    again.move(made["positions"][0])
    assert table_of(hub, "me/run").slice(0, 4).equals(next(again).table)


def test_the_card_says_what_the_rows_follow_from(hub, tmp_path):
    texts = [
        f"Notice {i}: the reading room on floor {i} is closed, and opens in May" for i in range(40)
    ]
    rows = [
        {"q": f"room {i}?", "a": text, "license": "CC-BY-4.0", "mail": "x@y.org"}
        for i, text in enumerate(texts)
    ]
    with dp.Corpus(tmp_path / "card.duckdb") as corpus:
        mapping = {"anchor": "q", "positive": "a", "meta": "license"}
        gates = dp.Quality("general", pii="redact")
        corpus.ingest(rows, name="open | ``` x", quality=gates, **mapping)
        corpus.split()
        corpus.mine()
        corpus.push("me/card")
        card = files_of(hub, "me/card")["README.md"].decode()
        assert yaml.safe_load(card.split("---\n")[1])["tags"][0] == "duckplets"
        statement = card.split("````sql\n")[1].split("\n````")[0]
        assert corpus.sql(statement).num_rows == corpus.pool("anchor_context").num_rows
        assert "| ```` open \\x7c ``` x ```` | ` CC-BY-4.0 ` | 40 |" in card
        assert "| ```` open \\x7c ``` x ```` | ` redact ` | 40 | 0 | 0 |" in card
        assert "No gate searched" not in card
        assert "| kept | same record | same group | same text |" in card.replace("\\_", "_")
        assert dp.__version__ in card
        assert str(tmp_path) not in card
        corpus.ingest(rows[:9], name="unknown", anchor="q", positive="a")
        corpus.push("me/card", overwrite=True, negatives=0)
        card = files_of(hub, "me/card")["README.md"].decode()
        assert "| ` unknown ` | NULL | 9 |" in card
        assert "No gate searched for it in ` unknown `." in card


HOSTILE = [
    *(
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "![x](https://example.org/x)",
    ),
    *(
        "https://example.org",
        "<https://example.org>",
        "`<b>`` &lt;i&gt;",
        "a|<u>|`b\\",
        "`",
        "# *a* _b_",
    ),
    *("x\n\n<script>1</script>", "</code><script>", "[a]: https://example.org"),
]


def test_no_name_acts_in_a_card(hub, tmp_path):
    """Nor a licence: what is rendered has only the markup of the card itself."""
    rows = [{"q": f"q{i}", "a": f"a{i}", "license": HOSTILE[i % len(HOSTILE)]} for i in range(24)]
    how = {"anchor": "q", "positive": "a", "meta": "license"}
    with dp.Corpus(tmp_path / "card.duckdb") as corpus:
        names = [name for name in HOSTILE if "/" not in name]
        for name in names:
            corpus.ingest(rows, name=name, **how)
        corpus.split(train=1, validation=0, test=0)
        recipes = [dp.TextRecipe(name, dp.role("anchor")) for name in names]
        with corpus.sampler("texts", recipes=recipes, batch_size=4) as sampler:
            corpus.push("me/hostile", sampler, steps=1)
    card = files_of(hub, "me/hostile")["README.md"].decode().split("---\n", 2)[2]
    blocks = MarkdownIt("commonmark").enable("table").parse(card)
    spans = [span for block in blocks for span in block.children or ()]
    kinds = {token.type.removesuffix("_open") for token in (*blocks, *spans)}
    assert not kinds & {"html_block", "html_inline", "link", "image", "em", "strong"}
    code = {span.content for span in spans if span.type == "code_inline"}
    assert {shown(name).replace("|", "\\x7c") for name in HOSTILE} <= code
    words = " ".join(span.content for span in spans if span.type == "text")
    assert not re.search(r"https?:|example|[<>`]", words)


def test_what_is_there_is_replaced_only_when_asked_and_stays_in_the_history(mined, hub):
    old = {"data/train-00000-of-00009.parquet": b"old", "notes.txt": b"mine"}
    hub.add("me/full", old, private=True)
    hub.add("me/public", {}, private=False)
    for repo, more, said in (
        (
            "me/full",
            {},
            r"hf://me/full already has 2 files \(data/train-00000-of-00009.*overwrite=",
        ),
        ("me/public", {}, "hf://me/public is public; give private=False"),
        ("me/full/default/train", {}, "is written as a whole; give hf://me/full"),
        ("me", {}, "write hf://org/name"),
    ):
        with pytest.raises(SourceError, match=said):
            mined.push(repo, recipe=RECIPE, **more)
    assert files_of(hub, "me/full") == old
    mined.push("me/full", recipe=RECIPE, overwrite=True)
    assert set(files_of(hub, "me/full")) == {SHARD, "README.md"}
    assert old in hub.repos["me/full"].revisions.values()
    assert not mined.push("me/public", recipe=RECIPE, private=False).private


def test_what_may_not_be_written_says_why_and_leaves_the_run_where_it_was(mined, hub, monkeypatch):
    sampler = mined.sampler(recipes=[RECIPE], batch_size=4)
    for token, said in (
        (POOR, "denies access to me/data; the token has no right to it: give another as token="),
        ("two words", "token= is no token"),
        (False, "writing to .* needs a token"),
    ):
        if token is False:
            monkeypatch.delenv("HF_TOKEN")
        given = {"token": token} if token else {}
        with pytest.raises(SourceError, match=said) as failed:
            mined.push("me/data", sampler, steps=2, **given)
        assert str(token) not in str(failed.value)
    assert sampler.position == 0
    assert "me/data" not in hub.repos
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(SamplerError, match="this run is endless"):
        mined.push("me/data", sampler)
    with pytest.raises(SamplerError, match="steps=2 is for runs"):
        mined.push("me/data", steps=2)
    with pytest.raises(SamplerError, match="shape: for mined negatives"):
        mined.push("me/data", sampler, steps=2, shape="triplet")
    with pytest.raises(EmptyPoolError, match="it has no more samples"):
        mined.push("me/none", sampler, steps=0)


FAULTS = [
    ("repos/create", {"status": 429, "headers": {"Retry-After": "7"}}),
    ("repos/create", {"status": 503}),
    ("commit/main", {"status": 429, "headers": {"Retry-After": "9999"}}),
    ("commit/main", {"after": 0}),
    ("PUT /kept", {"status": 500}),
]


def test_what_passes_is_tried_again_and_nothing_appears_by_halves(mined, hub, waits, monkeypatch):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", waits.append)
    for number, (path, fault) in enumerate(FAULTS):
        waits.clear()
        hub.uploads.clear()
        hub.fail(path, times=2, **fault)
        mined.push(f"me/again{number}", recipe=RECIPE)
        assert set(files_of(hub, f"me/again{number}")) == {SHARD, "README.md", ".gitattributes"}
        asked = float(fault.get("headers", {}).get("Retry-After", 0))
        assert waits == [min(asked, 300)] * 2 if asked else len(waits) == 2, path
    hub.fail("commit/main", times=9, status=503)
    sampler = mined.sampler(recipes=[RECIPE], batch_size=4)
    with pytest.raises(PassingError, match=r"me/off cannot be written to .* 503 \(5 tries\)"):
        mined.push("me/off", sampler, steps=1)
    assert set(files_of(hub, "me/off")) == {".gitattributes"}
    assert sampler.position == 0
    hub.faults.clear()
    uploads = len(hub.asked("PUT"))
    mined.push("me/off", sampler, steps=1)
    assert len(hub.asked("PUT")) == uploads, "what was uploaded is not sent twice"


def test_a_change_by_somebody_else_meanwhile_is_not_lost(mined, hub, monkeypatch):
    begin = HubTarget.begin

    def begun(target, **how):
        found = begin(target, **how)
        hub.repos["me/shared"].change({"theirs.txt": b"theirs"})
        return found

    monkeypatch.setattr(HubTarget, "begin", begun)
    with pytest.raises(SourceError, match="changed at the same time, by somebody else"):
        mined.push("me/shared", recipe=RECIPE)
    assert files_of(hub, "me/shared") == {"theirs.txt": b"theirs"}


def test_commands_write_to_the_hub(hub, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "c.duckdb"
    with odd_text_corpus(path, 30, ("one",)) as corpus:
        mine_by_hand(corpus)
        corpus.add_recipe(RECIPE)
    form = ("--format", "sentence-transformers")
    assert "hf://me/exported" in ok("export", path, "hf://me/exported", *form)
    assert table_of(hub, "me/exported").column_names == ["anchor", "positive", "negative"]
    out = ("--batch-size", "4", "--steps", "2", "--save", "--out")
    told = cli("sample", path, *out, "hf://me/sampled")
    assert told.exit_code == 0, told.stderr
    assert "hf://me/sampled" in told.stderr
    assert table_of(hub, "me/sampled").num_rows == 8
    failed = cli("export", path, "hf://me/sampled", *form)
    assert failed.exit_code == 1
    assert "error: hf://me/sampled already has 2 files" in failed.stderr
    assert "the Hub takes" in usage("export", path, "hf://me/x", "--format", "beir")
    with dp.resume(path) as sampler:
        assert sampler.step == 2
    assert TOKEN not in caplog.text


def test_the_card_of_a_recipe_of_another_name_goes_by_ground(mined, hub):
    same = dataclasses.replace(RECIPE, name="renamed")
    mined.push("me/renamed", recipe=same, shape="n-tuple", negatives=2)
    text = files_of(hub, "me/renamed")["README.md"].decode()
    assert "## Counts of guards and cuts\n\n| recipe" in text
    assert "` renamed `" in text
