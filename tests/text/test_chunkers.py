"""Chunkers: spans that a function gives, checked, and cut as windows where they are too long."""

import itertools
import json

import pyarrow as pa
import pytest
from effort import often, some, thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import toy_corpus
from test_windows import LETTERS, Row, assert_covered, spans

import duckplets as dp
from duckplets.errors import ChunkingError
from duckplets.text import chunkers
from duckplets.text.characters import NARROW_SPACES, WIDE_SPACES
from duckplets.text.chunkers import Chunker, register_chunker
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows, windows_of

BUILT_IN = ("sentences", "markdown", "code")
WHOLE = "One two three.  Four five? \n"


@pytest.fixture(autouse=True)
def registry():
    """Leave no function behind that a test has registered."""
    yield
    chunkers.REGISTRY.clear()


def named(at):
    return f"text {at}"


def cut(texts, chunking):
    assert isinstance(chunking.chunker, Chunker)
    array = pa.array(texts, pa.string())
    given = chunkers.spans_of(array, chunking.chunker, named)
    counts, found = windows_of(array, given, chunking)
    assert counts.tolist() == windows(array, Chunking(tokenizer=chunking.tokenizer))[0].tolist()
    names = ("section", "summary", "window_index", "overlap", "start", "length")
    columns = [getattr(found, name).tolist() for name in (*names, "start_token", "token_count")]
    return list(zip(*columns, strict=True))


# ---- settings


def test_settings_keep_name_and_version_of_a_chunker():
    assert Chunking(chunker=None).fingerprint() == Chunking().fingerprint() == Chunking().to_json()
    assert "chunker" not in Chunking().to_json()
    register_chunker("mine", chunkers.sentences)
    newest = register_chunker("mine", chunkers.markdown, version=2)
    chunking = Chunking(chunker="mine", max_tokens=7)
    assert chunking.chunker == newest == Chunker(name="mine", version="2")
    assert chunking.summary_tokens == 0
    stored = chunking.to_json()
    assert (
        stored["chunker"] == {"name": "mine", "version": "2"} == chunking.fingerprint()["chunker"]
    )
    assert Chunking(chunker=Chunker(name="mine")) != chunking
    chunkers.REGISTRY.clear()  # reading settings needs no function
    assert Chunking.from_json(json.loads(json.dumps(stored))) == chunking
    with pytest.raises(ChunkingError, match=r"'mine' is not registered; .*version='2'\)"):
        chunkers.REGISTRY.find(newest.name, newest.version)


WRONG = [
    ({"chunker": "sentence"}, "'sentence' is not registered.*'sentences'.*markdown"),
    ({"chunker": 3}, "chunker=3: expected a name, such as 'sentences'"),
    ({"chunker": {"name": "mine", "size": 2}}, "unknown key 'size'; keys: name, version"),
    ({"chunker": {"version": "2"}}, "chunker: name is missing"),
    ({"chunker": {"name": "windows"}}, "means chunker=None"),
    ({"chunker": "code", "summary_tokens": 9}, "summary_tokens=9: a chunker makes its own"),
]


UNREGISTERED = [
    (("sentences", list, 1), "'sentences' is taken: it is built in"),
    (("windows", list, 1), "means chunker=None"),
    (("", list, 1), "chunker: name='': give"),
    (("mine", "list", 1), "is 'list': expected a function"),
    (("mine", list, 1.5), "version 1.5: expected a number or a text"),
    (("mine", list, True), "version True: expected"),
]


def test_wrong_settings_and_registrations_are_refused():
    for wrong, told in WRONG:
        with pytest.raises(ChunkingError, match=told):
            Chunking.from_json(wrong)
    for arguments, told in UNREGISTERED:
        with pytest.raises(ChunkingError, match=told):
            register_chunker(*arguments)


# ---- what a function gives

NONSENSE = [
    ([(0, 28, "window", 0.5)], "has a weight, which a corpus cannot store.*summary_weight="),
    ([(0, 28, "heading")], "kind 'heading': expected 'window' or 'summary'"),
    ([(0, 28, "window", 1, 2)], "is no span"),
    (["ab"], "'ab' is no span"),
    ([(0, 28.0)], r"28\.0 is no number of a character"),
    ([(0, 29)], "no span of a text of 28 characters: expected 0 <= start < stop <= 28"),
    ([(4, 4), (0, 28)], "no span of a text of 28"),
    ([(0, 10**30)], "no span of a text of 28"),
    ([(3, 28), (0, 28)], r"\(0, 28\) comes after \(3, 28\): expected ascending spans, each once"),
    ([(0, 28), (0, 3, "summary"), (4, 7, "summary")], "is a second summary"),
    (None, "returned None: expected a list of spans"),
    ([], "left out character 0, 'O': windows must contain all"),
    ([(0, 13), (14, 28)], r"left out character 13, '\.'"),
    ([(0, 13), (14, 28), (0, 28, "summary")], r"left out character 13, '\.'"),
    ([(0, 28), (14, 16)], r"\(14, 16\) is white space alone"),
]


def test_nonsense_and_errors_of_the_function_are_told_with_their_place():
    for nonsense, told in NONSENSE:
        spans_by_text = {"é first": [(0, 7)], WHOLE: nonsense, "last": [(0, 4)]}
        register_chunker("mine", spans_by_text.__getitem__)
        with pytest.raises(ChunkingError, match=rf"text 1.*{told}"):
            cut([*spans_by_text], Chunking(chunker="mine"))
    register_chunker("mine", lambda text: 1 // 0)
    with pytest.raises(ChunkingError, match=r"'mine', text 0: failed with ZeroDiv") as error:
        cut(["some"], Chunking(chunker="mine"))
    assert error.value.__cause__ is not None


# ---- any spans of any texts, against a scan of characters

CHARACTERS = "ab." + LETTERS[:24] + 2 * (NARROW_SPACES + WIDE_SPACES)[:14]
pieces = st.lists(st.text(CHARACTERS, max_size=20) | st.text("a b\n.", max_size=30), max_size=6)


def expected(texts, given, chunking):
    """Cut every span by the tokens that it touches."""
    most, found = chunking.max_tokens, list[Row]()
    for section, (text, of_text) in enumerate(zip(texts, given, strict=True)):
        tokens, base = spans(text), 0
        for start, stop in of_text:
            held = [i for i, (a, b) in enumerate(tokens) if a < stop and b > start]
            if len(held) <= most:
                row = (section, False, base, 0, start, stop - start, held[0], len(held))
                found.append(row)
                base += 1
                continue
            numbers = []
            for overlap in chunking.overlap:
                for number in itertools.count():
                    at = number * max(1, most - overlap)
                    some = held[at : at + most]
                    first = max(start, tokens[some[0]][0])
                    last = min(stop, tokens[some[-1]][1])
                    place = (first, last - first, some[0], len(some))
                    found.append((section, False, base + number, overlap, *place))
                    if at + most >= len(held):
                        break
                numbers.append(number + 1)
            base += max(numbers)
    return found


@settings(max_examples=often(400, less=20), deadline=None)
@given(
    texts=pieces,
    max_tokens=st.integers(1, 5),
    overlap=st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    cuts=st.lists(st.integers(0, 30), max_size=8),
    reach=st.integers(0, 4),
    block=st.sampled_from([1, 7, 40, 1 << 20]),
)
def test_any_spans_are_cut_by_the_tokens_they_touch(texts, max_tokens, overlap, cuts, reach, block):
    def function(text):
        marks = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
        found = [(a, min(b + reach, len(text))) for a, b in itertools.pairwise(marks)]
        return [(a, b) for a, b in found if not text[a:b].isspace()]

    register_chunker("mine", function)
    chunking = Chunking(chunker="mine", max_tokens=max_tokens, overlap=tuple(overlap))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duckplets.text.windows.BLOCK", block)
        rows = cut(texts, chunking)
    given = [function(text) if text.split() else [] for text in texts]
    assert rows == expected(texts, given, chunking)
    assert_covered(texts, rows)
    assert all(row[7] <= max_tokens for row in rows)


# ---- those that are built in

# Name, and a text with a ¦ where it is cut; white space beside that is in neither part.
CUT = [
    ("sentences", 'He said "no."¦ Then he left.¦  Why?!¦\n'),
    ("sentences", "J. S. Bach made it, e.g. this. ok"),
    ("sentences", "no stop¦\n\nnext\nline¦\n \nlast"),
    ("sentences", "漢字。¦「仮名。」¦次！"),
    ("sentences", "3.14 is a number.¦ 2 too...¦ Yes… no"),
    ("sentences", "....¦ ) ."),
    ("markdown", "intro¦\n# One\n## Two\ntext¦\n\n# Three¦\n"),
    ("markdown", "# A\n```sh\n# no heading\n```\n#hash\n    # code¦\n # B\nb"),
    ("markdown", "~~~\n# x\n```\n# y\n~~~~¦\n# B\nb"),
    ("markdown", "```\n# open to the end\n# too"),
    ("code", "T¦\n```py\na = 1\n\nb\n```¦\n\nmore ```x``` text¦\n~~~\nc\n~~~¦\n```\nd\n```"),
    ("code", "import a\nimport b¦\n\n\ndef f():\n    x\n\n    y¦\n\n# g\n@dec\ndef g(\n\n): z¦\n"),
    ("code", "int f() {\n  a;\n\n}¦\n\nint g() {}¦\n"),
]


def test_built_in_chunkers():
    for name, marked in CUT:
        text, parts = marked.replace("¦", ""), [part.strip() for part in marked.split("¦")]
        rows = cut([text], Chunking(chunker=name))
        assert [text[row[4] : row[4] + row[5]].strip() for row in rows] == [p for p in parts if p]
        assert [row[2] for row in rows] == list(range(len(rows)))


@settings(max_examples=often(400, less=30), deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from(
                ["# ", "```", "~~~~", "\n", "\n\n", "A. ", "b! ", "。", " ", "x", "\x0c", "}"]
            ),
            max_size=10,
        ).map("".join)
        | st.text(max_size=20),
        max_size=3,
    ),
    name=st.sampled_from(BUILT_IN),
)
def test_built_in_chunkers_cover_any_text(texts, name):
    chunking = Chunking(chunker=name, max_tokens=3, overlap=(1,))
    rows = cut(texts, chunking)
    assert_covered(texts, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duckplets.text.windows.BLOCK", 7)
        assert cut(texts, chunking) == rows, "blocks of texts leave no seam"


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize(
    "unit", some([".", '."', "\n ", "\n", "` ", "```\n", "# ", "。」", " ", "A. "], less=5)
)
def test_built_in_chunkers_take_no_square_of_time(name, unit):
    """A hundred thousand characters of anything: the square would be minutes, and time out."""
    text = unit * (100_000 // len(unit)) + "x"
    assert cut([text], Chunking(chunker=name, max_tokens=1_000_000))[-1][5] > 0


# ---- in a corpus


def chunks_of(corpus):
    return list(corpus.sql("FROM chunks ORDER BY chunk_key").to_pylist())


def test_a_corpus_is_cut_by_a_chunker_and_back(tmp_path):
    path = tmp_path / "c.duckdb"
    mine = "# Head\nIt is. So!\n\n## Next \nmore \n"
    with toy_corpus(path, 20) as corpus:
        before = chunks_of(corpus)
        corpus.ingest([{"t": mine}], name="own", text="t")
        plain = chunks_of(corpus)
        assert corpus.chunk(chunker="sentences") > 20
        texts = corpus.sql(
            "SELECT text FROM chunk_texts WHERE source = 'own' ORDER BY window_index"
        )
        assert texts["text"].to_pylist() == ["# Head\nIt is.", "So!", "## Next \nmore"]
        assert corpus.status()["chunking"]["chunker"] == {"name": "sentences", "version": "1"}
        wrong = corpus.sql(
            "SELECT chunk_key FROM chunks JOIN sections USING (section_key) WHERE text_hash <> "
            "md5_number_lower(text[chunks.start + 1 : chunks.start + chunks.length])"
        )
        assert wrong.num_rows == 0
        again = "Again. And again."
        corpus.ingest([{"t": again}], name="later", text="t")
        later = corpus.sql("SELECT text FROM chunk_texts WHERE source = 'later' ORDER BY ALL")
        assert later["text"].to_pylist() == ["Again.", "And again."]
        corpus.remove("later")
        assert corpus.chunk(chunker=None) > 20
        found = [{**row, "chunk_key": 0} for row in chunks_of(corpus)]
        assert found[: len(before)] == [{**row, "chunk_key": 0} for row in plain[: len(before)]]


def test_what_is_served_is_the_span(tmp_path):
    """One that has all tokens of its section may yet be less than it."""
    register_chunker("bits", lambda text: [(0, len(text) - 2), (len(text) - 3, len(text))])
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(chunker="bits"))
        rows = [{"id": f"{i}", "t": f"word{i:03}"} for i in range(40)]
        corpus.ingest(rows, id="id", text="t")
        corpus.split(train=1, validation=0, test=0)
        for _ in range(2):
            with corpus.sampler("texts", batch_size=80, options=dp.Options(prefetch=0)) as sampler:
                found = sorted(next(sampler)["text"])
            assert found == sorted(part for row in rows for part in (row["t"][:-2], row["t"][-3:]))
            corpus.prepare()


@thorough
def test_a_failure_changes_nothing(tmp_path):
    def failing(text):
        return [(0, len(text))] if "bad" not in text else [(1, len(text))]

    register_chunker("mine", failing)
    source = dp.sources.MemorySource(
        [{"id": "1", "t": "good"}, {"id": "2", "t": "bad"}], id="id", text="t"
    )
    with toy_corpus(tmp_path / "c.duckdb", 20) as corpus:
        corpus.ingest(source, name="own")
        before = chunks_of(corpus), corpus.status()
        with pytest.raises(ChunkingError, match="record own/2, section 0: left out"):
            corpus.chunk(dp.Chunking(chunker="mine"))
        assert (chunks_of(corpus), corpus.status()) == before
    with toy_corpus(tmp_path / "d.duckdb", 20) as corpus:
        corpus.chunk(dp.Chunking(chunker="mine"))
        before = chunks_of(corpus), corpus.status()
        for said in ("record again/2, section 0: left out", "in version '1', and regi"):
            with pytest.raises(ChunkingError, match=said):
                corpus.ingest(source, name="again")
            assert (chunks_of(corpus), corpus.status()) == before
            chunkers.REGISTRY.clear()
            register_chunker("mine", failing, version=2)
        with corpus.sampler(
            batch_size=4, options=dp.Options(prefetch=0)
        ) as sampler:  # needs no function
            assert len(next(sampler)) == 4
