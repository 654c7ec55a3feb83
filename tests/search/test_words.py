"""Terms of any script: pairs of characters, marks, segmenters; SQL and NumPy agree on classes."""

import itertools
import re
import unicodedata
from dataclasses import replace

import pyarrow as pa
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_text import unaccented
from prebuilt import prebuilt

import duckplets as dp
from duckplets.errors import RecipeError
from duckplets.search import index, segmenters
from duckplets.search.analyzer import words_of
from duckplets.search.analyzer_settings import Terms
from duckplets.search.index import index as build_index
from duckplets.search.search import search
from duckplets.text.characters import LETTER, MARK, _table
from duckplets.text.words import PAIRED


@pytest.fixture(scope="module")
def macros(tmp_path_factory):
    with dp.Corpus(tmp_path_factory.mktemp("words") / "c.duckdb") as corpus:
        yield corpus.database


IN_PAIRS = re.compile(f"[{PAIRED}]")


def is_mark(char):
    return unicodedata.category(char)[0] == "M" or char in "\u0e33\u0eb3\uff9e\uff9f"


def folded(text):
    """Without marks and case; full-width letters and digits as ASCII."""
    kept = unaccented(text)
    narrow = (chr(ord(c) - 0xFEE0) if 0xFF10 <= ord(c) <= 0xFF5A else c for c in kept)
    return "".join(n if n.isalnum() else c for c, n in zip(kept, narrow, strict=True)).lower()


def expected(text):
    """Runs of letters, digits and marks; runs of some scripts as pairs of clusters."""
    found, run, paired = [], [], False

    def close():
        if run and paired and len(run) > 1:
            found.extend(a + b for a, b in itertools.pairwise(run))
        elif run:
            found.append("".join(run))
        run.clear()

    for char in folded(text):
        if unicodedata.category(char)[0] not in "LNM":
            close()
            continue
        is_paired = bool(IN_PAIRS.match(char))
        if run and is_paired != paired:
            close()
        paired = is_paired
        if run and is_mark(char):
            run[-1] += char
        else:
            run.append(char)
    close()
    return found


WRITTEN = (
    "aÉ1ж ß\u0301漢字がカ\u3099ー々〇、。「一ｱﾞＡ９กี่ำเ๓ກຳခ္က်ម្ហिन्दी한글\u200d"
    "ক্ষ்\u200b\ufe0f🦊\ue000-_\n"
)


@settings(max_examples=often(400, less=25), deadline=None)
@given(texts=st.lists(st.text(WRITTEN, max_size=30) | st.text(max_size=8), max_size=8))
def test_terms_are_those_of_the_reference_in_an_index_and_in_sql(texts, macros):
    array = pa.array(texts, pa.string())
    found = [[w for w in of if w] for of in words_of(Terms(stemmer="none"), array).to_pylist()]
    with macros.registered(asked=pa.table({"place": range(len(texts)), "text": array})):
        in_sql = macros.rows("SELECT words(text) FROM asked ORDER BY place")
    assert found == [words for (words,) in in_sql]
    for text, words in zip(texts, found, strict=True):
        apart = "".join(unicodedata.normalize("NFD", char) for char in text)
        if apart != unicodedata.normalize("NFD", text):
            continue  # marks of several scripts in one cluster keep the order they came in
        if set(text) <= set(WRITTEN):  # Python's Unicode is older than DuckDB's
            assert words == expected(text), text


def test_sql_and_numpy_agree_on_every_character(macros):
    points = [*range(1, 0xD800), *range(0xE000, 0x110000)]
    asked = pa.table({"point": points, "text": list(map(chr, points))})
    with macros.registered(asked=asked):
        rows = macros.rows(
            "SELECT point FROM asked WHERE regexp_matches(text, '[' || _internal.paired() || ']')"
        )
        letters = {
            p
            for (p,) in macros.rows("SELECT point FROM asked WHERE regexp_matches(text, '\\p{L}')")
        }
    paired = {point for (point,) in rows}
    assert paired == {point for point in points if IN_PAIRS.match(chr(point))}
    table = _table()
    weighed = {p for p in paired if table[p] & LETTER and table[p] >> 4 < MARK}
    assert weighed <= letters
    assert {int(table[p] >> 4) for p in weighed} == {2, 4, 6}


ALIKE = [
    ("Café\n x", " cafe X", True), ("が", "か\u3099", True), ("ЁЛКА", "елка", True),
    ("שָׁלוֹם", "שלום", True), ("पत्र", "पत\u094dर", True), ("हिन्दी", "हनद", False),
    ("パン", "ハン", False), ("ที่", "ท", False), ("दिन", "दान", False),
]  # fmt: skip


def test_marks_that_change_words_change_texts(macros):
    for one, other, same in ALIKE:
        ((found,),) = macros.rows(
            "SELECT normalised_hash($one) = normalised_hash($other)", {"one": one, "other": other}
        )
        assert found == same, (one, other)


TITLES = [
    "世界人权宣言",
    "世界经济发展报告",
    "机器学习方法与应用",
    "机器翻译方法与系统",
    "数据库系统概论",
]


@prebuilt
def chinese(path):
    corpus = dp.Corpus(path)
    rows = [
        {"id": str(n), "title": title, "text": f"这是关于{title}的一段文字，其中有第{n}章。" * 40}
        for n, title in enumerate(TITLES)
    ]
    corpus.ingest(rows, name="zh", id="id", anchor="title", positive="text")
    corpus.split(1, 0, 0)
    return corpus


def test_a_chinese_corpus_is_counted_cut_searched_and_mined(tmp_path):
    corpus = chinese(tmp_path / "c.duckdb")
    (longest,) = corpus.sql("SELECT max(token_count) AS n FROM chunks").to_pylist()
    assert 600 < longest["n"] <= 1024
    for n, title in enumerate(TITLES):
        found = search(corpus.database, title[:6], 3).to_pylist()
        assert found[0]["record_id"] == f"zh/{n}"
        body = next(row for row in found if row["role"] != "anchor")
        assert title[:6] in body["snippet"]
        assert len(body["snippet"]) <= 204
    corpus.mine()
    assert corpus.sql("SELECT count(*) AS n FROM negatives").to_pylist()[0]["n"] > 0


def whole(texts):
    return [[text[:2], text[2:]] for text in texts]


def test_a_segmenter_is_stored_by_name_and_version(tmp_path):
    corpus = chinese(tmp_path / "c.duckdb")
    first = dp.plugins.register_words("halves", whole)
    assert (
        dp.Terms(words="halves").words == first == dp.plugins.Segmenter(name="halves", version="1")
    )
    build_index(corpus, dp.Terms(words="halves", stemmer="none"), progress=False)
    found = search(corpus.database, "世界人权宣言")
    assert found["record_id"].to_pylist() == ["zh/0", "zh/1"]
    assert search(corpus.database, "人权").num_rows == 0  # a part of a word of this function
    corpus.close()

    with dp.Corpus(tmp_path / "c.duckdb") as opened:
        assert index.stale(opened.database) == []
        second = dp.plugins.register_words("halves", whole, version=2)
        build_index(
            opened, replace(index.terms_of(opened.database), words="halves"), progress=False
        )
        assert index.terms_of(opened.database).words == second
        segmenters.REGISTRY.clear()
        with pytest.raises(
            RecipeError, match=r"'halves' is not registered; .*register_words\('halv"
        ):
            search(opened.database, "世界")


WRONG = [
    (lambda texts: None, "returned None for 1 texts: return a list of words for each text"),
    (lambda texts: [], r"returned \[\] for 1 texts"),
    (lambda texts: ["世界"], "returned '世界' for the text '世界人权': return a list of words"),
    (lambda texts: [None], "returned None for the text"),
    (lambda texts: [["世界", "和平"]], "returned '和平' for the text '世界人权'"),
    (lambda texts: [["世界", 3]], "returned 3 for the text"),
    (lambda texts: 1 // 0, "failed: ZeroDivisionError: "),
]


@pytest.mark.parametrize(("function", "told"), WRONG)
def test_faults_of_a_segmenter_are_reported(function, told):
    terms = Terms(words=dp.plugins.register_words("wrong", function))
    with pytest.raises(RecipeError, match=f"^the function of words='wrong' {told}") as error:
        words_of(terms, pa.array(["世界人权"]))
    assert len(str(error.value)) <= 240


def test_wrong_names_of_segmenters_are_refused():
    for wrong, told in ((3, "words=3: give text, Segmenter"), ("none", "'none' is not registered")):
        with pytest.raises(RecipeError, match=told):
            Terms(words=wrong)
    with pytest.raises(RecipeError, match="'mine' is 'list': expected a function"):
        dp.plugins.register_words("mine", "list")
