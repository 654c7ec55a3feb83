"""The page of a corpus: every figure is what its SQL says, and nothing in it acts."""

import base64
import hashlib
import json
import re
import shlex
import shutil
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from commands import error, ok
from effort import often, thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import copied, empty_corpus, toy_corpus
from report_corpora import HOSTILE, NAMES, told_corpus, train

import duckplets as dp
from duckplets.base.sanitize import harmless
from duckplets.report import rendering
from duckplets.report.rendering import script_json, words
from duckplets.runs import state

_VOID = {"meta", "input", "img", "br"}
_TAGS = {
    *("html", "head", "meta", "title", "link", "style", "body", "a", "header", "h1", "bdi", "nav"),
    *("ul", "li", "main", "section", "h2", "h3", "h4", "h5", "div", "table", "thead", "tbody"),
    *("tr", "th", "td", "details", "summary", "pre", "code", "figure", "figcaption", "svg"),
    *("path", "text", "p", "article", "span", "mark", "footer", "script", "dl", "dt", "dd"),
}


class Parsed(HTMLParser):
    """A page as a reader without a script has it."""

    def __init__(self, html):
        super().__init__()
        self.tags = Counter()
        self.attributes = []
        self.scripts = []
        self.headings = []
        self.tables = []
        self.policy = self.style = self.text = ""
        self._open = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""
        if tag not in _VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        opened = {"script": (self.scripts, ""), "table": (self.tables, [])}
        if self.tables:
            opened["tr"] = self.tables[-1], []
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag in opened:
            into, what = opened[tag]
            into.append(what)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        where = self._open[-1] if self._open else ""
        if where == "script":
            self.scripts[-1] += data
        elif where == "style":
            self.style += data
        else:
            self.text += data
            if "table" in self._open and {"td", "th"} & {*self._open}:
                self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "told.duckdb"
    copied(path, told_corpus.__wrapped__)
    with dp.Corpus(path) as corpus:
        train(corpus)
    with duckdb.connect(str(state.state_path(path))) as file:
        file.execute("CREATE TABLE IF NOT EXISTS losses (run VARCHAR, step BIGINT, source VARCHAR, "
                     "loss DOUBLE)")  # fmt: skip
        for name, slope in zip(NAMES, (1, 2), strict=True):
            file.execute(
                "INSERT INTO losses SELECT 'default', step, $name, 5 / (1 + step * $slope) "
                "FROM range(20) AS steps (step)",
                {"name": name, "slope": slope},
            )
    return path


@pytest.fixture(scope="module")
def page(path):
    with dp.Corpus(path, read_only=True) as corpus:
        return corpus.report(run="default")


def tables(page, *sections):
    for section in page.data["sections"]:
        if section["name"] in sections or not sections:
            yield from section["tables"]


def table(page, title):
    (found,) = [table for table in tables(page) if table["title"] == title]
    return found


def notes(page):
    return "\n".join(note for section in page.data["sections"] for note in section["notes"])


def as_json(value):
    """A value of DuckDB as the page has it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def check_sql(page, corpus):
    """Run every statement of a page again, and return how many there are."""
    run = 0
    for one in tables(page):
        if one["of"] == "python":
            continue
        found = corpus.sql(one["made_by"])
        rows = [[as_json(value) for value in row.values()] for row in found.to_pylist()]
        assert found.column_names == one["columns"], one["title"]
        assert len(rows) == one["total"], one["title"]
        if one["title"].startswith("Anchors of"):
            rows.sort(key=repr)
            one = one | {"rows": sorted(one["rows"], key=repr)}
        if one["title"] == "Examples":  # whose texts are without personal data
            rows = [row[:-1] for row in rows]
            one = one | {"rows": [row[:-1] for row in one["rows"]]}
        assert one["rows"] == rows[: len(one["rows"])], one["title"]
        run += 1
    return run


# ---- figures


def test_every_figure_is_what_its_sql_says(page, path):
    with dp.Corpus(path, read_only=True) as corpus:
        assert check_sql(page, corpus) >= 20
    assert all(one["rows"] for one in tables(page, "recipes", "mined", "mixture", "samples"))


def test_figures_are_those_of_other_ways(page, path):
    with dp.Corpus(path, read_only=True) as corpus:
        found = corpus.status()
        records = {row[0]: row[4] for row in table(page, "Sources")["rows"]}
        assert records == {row["name"]: row["records"] for row in found["sources"]}
        lengths = [one for one in tables(page) if one["title"].startswith("Section lengths")]
        of_lengths = Counter()
        for source, _, _, sections, tokens in (row for one in lengths for row in one["rows"]):
            of_lengths[source] += sections
            of_lengths[f"{source} tokens"] += tokens
        for row in found["sources"]:
            assert of_lengths[row["name"]] == row["sections"]
            assert of_lengths[f"{row['name']} tokens"] == row["tokens"]
        outcomes = table(page, "Rows by outcome, gate and rule")["rows"]
        (intake,) = corpus.sql("FROM acquisitions ORDER BY acquisition_id").to_pylist()
        assert sum(row[-1] for row in outcomes) == intake["read"]
        sampler = corpus.resume("default")
        forecast = [list(row.values()) for row in sampler.forecast().table.to_pylist()]
        assert table(page, "Shares of the sources")["rows"] == forecast
        metrics = sampler.metrics()
        for source, samples, expected, tokens, _ in table(page, "Served up to step 20")["rows"]:
            assert samples == expected == metrics[f"data/{source}/samples"]
            assert tokens == metrics[f"data/{source}/tokens"]
        losses = [list(row.values()) for row in sampler.losses().to_pylist()]
        shown = table(page, "Loss by source")["rows"]
        assert sorted([first, name, loss] for name, first, _, _, loss in shown) == losses


def test_samples_are_those_that_the_run_serves_next(page, path):
    shown = table(page, "Samples")
    by_slot = {}
    for row in shown["rows"]:
        of = dict(zip(shown["columns"], row, strict=True))
        by_slot[of["position"], of["slot"]] = of
    with dp.Corpus(path, read_only=True) as corpus:
        columns = ["position", "anchor", "positive", "negative", "negative_by", "negative_score"]
        sampler = corpus.resume("default", columns=columns)
        first = sampler.position
        for sample in next(sampler).to_pylist():
            for slot in ("anchor", "positive", "negative"):
                of = by_slot[sample["position"], slot]
                assert of["text"] == sample[slot]
                assert of["characters"] == len(sample[slot])
            assert of["negative_by"] == sample["negative_by"]
            assert of["negative_score"] == sample["negative_score"]
            if sample["negative_by"] == "bm25":
                beside = (by_slot[sample["position"], s] for s in ("anchor", "positive"))
                assert any(each["positive_score"] is not None for each in beside)
    assert min(position for position, _ in by_slot) == first
    for recipe in ("easy", "hard"):
        found = {row[0] for row in table(page, f"Samples of {recipe}")["rows"]}
        assert len(found) == 5


# ---- the overview


def attention(page):
    """What needs attention, by the command that helps."""
    return {command: what for what, command in table(page, "Needs attention")["rows"]}


def test_the_overview_tells_sizes_shares_and_what_needs_attention(page, path):
    first = page.data["sections"][0]
    assert [one["title"] for one in first["tables"]] == [
        *("Size", "Share of each source", "Needs attention")
    ]
    with dp.Corpus(path, read_only=True) as corpus:
        status = corpus.status()
    sizes = dict(table(page, "Size")["rows"])
    assert sizes["records"] == sum(row["records"] for row in status["sources"])
    assert sizes["records"] == sizes["in train"] + sizes["in validation"] + sizes["in test"]
    shares = table(page, "Share of each source")
    assert shares["columns"] == ["source", "records", "tokens", "samples"]
    for column in (1, 2, 3):
        assert sum(row[column] for row in shares["rows"]) == pytest.approx(1)
    found = attention(page)
    name = str(path)
    assert "hard are stale or missing" in found[f"duckplets mine {name} hard"]
    assert "have no mined" in found[f"duckplets show {name} --negatives"]
    assert "left out, by reason" in found[f"duckplets quality {name}"]
    assert f"duckplets ingest {name} FILE … --on-error quarantine" in found
    (again,) = (command for command in found if " split " in command)
    assert again.startswith(f"duckplets split {name} --train ")
    assert again.endswith(" --keep-together text --reassign")
    shared = {split: of["shared"] for split, of in status["shared_anchors"].items() if of["shared"]}
    assert all(f"{n} of {split}" in found[again] for split, n in shared.items())


def test_the_commands_of_the_overview_help(page, path, tmp_path):
    copy = tmp_path / path.name
    shutil.copytree(path.parent, tmp_path, dirs_exist_ok=True)
    for command in attention(page):
        if "…" not in command:
            ok(*shlex.split(command.replace(str(path), str(copy)))[1:])
    ok("mine", copy)  # of the records as they are split now
    with dp.Corpus(copy, read_only=True) as corpus:
        after, splits = attention(corpus.report()), corpus.status()["splits"]
    assert {command.split()[1] for command in after} <= {"quality", "ingest", "show"}
    assert [splits[name] for name in ("train", "validation", "test")] == [0.7, 0.15, 0.15]
    assert (splits["seed"], splits["keep_together"]) == (1, "text")


def test_a_mixture_is_drawn_that_is_no_run_yet_and_what_it_visits_often_is_told(tmp_path):
    even = {"few": 1, "many": 1}
    with empty_corpus(tmp_path / "two.duckdb") as corpus:
        for name, count in (("few", 4), ("many", 200)):
            rows = [{"q": f"{name} question {i}", "a": f"answer {i}"} for i in range(count)]
            corpus.ingest(rows, name=name, anchor="q", positive="a")
        corpus.split(1, 0, 0)
        page = corpus.report(mixture=dp.Mixture(even, phases=[dp.Phase(12, even, lr_scale=0.5)]))
    (what,) = attention(page).values()
    assert "of few has up to 50 times the visits" in what
    assert {row[0] for row in table(page, "Shares of the sources")["rows"]} == {0, 1}
    assert "phase 1" in Parsed(page.html).text


# ---- the page


def test_the_page_shows_its_data(page):
    parsed = Parsed(page.html)
    data, _ = parsed.scripts
    assert json.loads(data) == page.data
    without = ("Samples", "Size", "Needs attention")
    shown = [one for one in tables(page) if one["rows"] and not one["title"].startswith(without)]
    assert len(parsed.tables) == len(shown)
    for found, one in zip(parsed.tables, shown, strict=True):
        head = [column.replace("_", " ") for column in one["columns"]]
        assert found == [head, *([words(value) for value in row] for row in one["rows"])]
    for one in tables(page):
        assert harmless(one["made_by"], None) in parsed.text
    plots = parsed.tags["figure"]
    assert plots == parsed.tags["figcaption"] >= 5
    assert parsed.tags["article"] == 100 + 5 + 5
    levels = [int(heading[1]) for heading in parsed.headings]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nothing_acts_on_a_page(page):
    parsed = Parsed(page.html)
    assert parsed.tags.keys() <= _TAGS
    assert parsed.tags["script"] == 2
    names = {name for _, name, _ in parsed.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("style", "src")}
    links = {value for _, name, value in parsed.attributes if name == "href"}
    assert all(link.startswith("#") for link in links)
    assert "default-src 'none'" in parsed.policy
    for text in (parsed.style, parsed.scripts[1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in parsed.policy
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]",
                         page.html)  # fmt: skip
    for text in (*HOSTILE, *NAMES):
        assert harmless(text) in parsed.text
    frame = r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^<>]*></iframe>'
    assert re.fullmatch(frame, page._repr_html_(), re.DOTALL)


@thorough
def test_the_same_corpus_has_the_same_page_and_stays_as_it_is(page, path):
    before = path.read_bytes(), {file.name for file in path.parent.iterdir()}
    with dp.Corpus(path, read_only=True) as corpus:
        assert corpus.report(run="default").html == page.html
    assert before == (path.read_bytes(), {file.name for file in path.parent.iterdir()})


@settings(max_examples=often(2000, less=15), deadline=None)
@given(st.recursive(st.text() | st.integers() | st.none() | st.booleans(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_no_text_ends_the_script_it_stands_in(value):
    text = script_json(value)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == value


# ---- bad input


def test_corpora_of_few_records_have_a_page(tmp_path):
    path = tmp_path / "few.duckdb"
    with empty_corpus(path) as corpus:
        page = corpus.report()
        assert "No samples were drawn" in notes(page)
        assert check_sql(page, corpus) > 5
        corpus.ingest([{"t": "one text"}], name="s", text="t")
        page = corpus.report()
        assert check_sql(page, corpus) > 5
        assert "Records have no split" in attention(page)[f"duckplets split {path}"]
        corpus.split(1, 0, 0)
        page = corpus.report()
        assert check_sql(page, corpus) > 5
        Parsed(page.html)


@thorough
def test_long_lines_are_cut_and_their_length_is_said(tmp_path):
    size = often(10_000_000, less=100_000)
    rows = [{"q": f"{i} " + "x" * size, "a": "word " * (size // 5) + str(i)} for i in range(2)]
    with empty_corpus(tmp_path / "long.duckdb") as corpus:
        corpus.ingest(rows, name="s", anchor="q", positive="a")
        corpus.split(1, 0, 0)
        page = corpus.report()
    assert len(page.html) < 2_000_000
    assert f"{size + 2:,} of {size + 2:,} characters" in Parsed(page.html).text
    texts = [
        row[table(page, "Samples")["columns"].index("text")]
        for row in table(page, "Samples")["rows"]
    ]
    assert max(map(len, texts)) == 1200


def test_runs_that_are_not_of_the_corpus(tmp_path):
    path, other = tmp_path / "toy.duckdb", tmp_path / "other.duckdb"
    with toy_corpus(other, 30, seed=3) as corpus, corpus.sampler(batch_size=4) as sampler:
        sampler.save()
    with toy_corpus(path, 30) as corpus:
        with pytest.raises(dp.StateMismatchError, match="no run is saved"):
            corpus.report(run="never")
        state.state_path(other).rename(state.state_path(path))
        with pytest.raises(dp.StateMismatchError, match="the saved run does not fit: records"):
            corpus.report(run="default")
        with pytest.raises(dp.StateMismatchError, match="no run 'never'"):
            corpus.report(run="never")
        state.state_path(path).write_bytes(b"no state file")
        with pytest.raises(
            dp.errors.MigrationError, match=r"toy\.state\.duckdb is not a DuckDB file"
        ):
            corpus.report()


def test_what_is_there_is_not_replaced_unasked(tmp_path, monkeypatch):
    there, out = tmp_path / "there.html", tmp_path / "out.html"
    there.write_text("mine")

    def refused(*_, **__):
        raise PermissionError(13, "no")

    with empty_corpus(tmp_path / "empty.duckdb") as corpus:
        for where, said in {
            there: " exists; ",
            tmp_path / "nowhere" / "out.html": "there is no folder",
            corpus.path: "give FILE",
        }.items():
            with pytest.raises(dp.SamplerError, match=said):
                corpus.report(where, overwrite=where == corpus.path)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_text", refused)
            with pytest.raises(dp.SamplerError, match="cannot write there: Permission denied"):
                corpus.report(out)
        assert corpus.report(there, overwrite=True).path == there
    page = tmp_path / "empty.html"
    made = ("status", corpus.path, "--html", page)
    told = ok(*made)
    assert f"{page.stat().st_size:,} bytes" in told
    ok(*made)  # an earlier page is replaced, and nothing else
    assert "no run is saved" in error(*made, "--run", "never")
    page.write_text("mine")
    assert "overwrite=True" in error(*made)
    page.unlink()
    assert there.read_text().startswith("<!DOCTYPE html>")
    assert {file.name for file in tmp_path.iterdir()} == {"there.html", "empty.duckdb"}


def test_without_jinja_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    rendering._environment.cache_clear()
    with (
        empty_corpus(tmp_path / "empty.duckdb") as corpus,
        pytest.raises(dp.errors.ExtensionError, match=r"pip install 'duckplets\[report\]'"),
    ):
        corpus.report()


def test_personal_data_stays_out_of_examples(page):
    texts = [row[-1] for row in table(page, "Examples")["rows"]]
    assert any("[EMAIL]" in text for text in texts)
    assert not any("example.org" in text or "555-0123" in text for text in texts)


def test_a_run_of_messages_has_a_page_without_samples(tmp_path):
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    rows = [{"id": str(i), "messages": said} for i in range(9)]
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="talks", converter="openai", id="id")
        corpus.split(1, 0, 0)
        with corpus.sampler("messages", batch_size=4, run="chat") as sampler:
            sampler.save()
        page = corpus.report(run="chat")
    assert "duckplets show CORPUS --run NAME" in notes(page)
    assert table(page, "Shares of the sources")["rows"]
