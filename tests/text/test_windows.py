"""Chunking settings, and windows against a plain reference."""

import dataclasses
import json
import pickle
import sys
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from effort import often
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_files import byte_level, encoder, lossy, prefixing, word_level

import duckplets.text.windows
from duckplets.errors import ChunkingError
from duckplets.text import chunkers
from duckplets.text.characters import (
    JOINER,
    MARK,
    NARROW_SPACES,
    PHRASE,
    SENTENCE,
    WIDE_SPACES,
    classes,
)
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows, windows_of

NAMES = [field.name for field in dataclasses.fields(duckplets.text.windows.Windows)]
Row = tuple[int, bool, int, int, int, int, int, int]


# ---- the reference: scanning characters, one at a time


def spans(text):
    found = []
    for at, char in enumerate(text):
        if char.isspace():
            continue
        if at and not text[at - 1].isspace():
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    assert [text[start:stop] for start, stop in found] == text.split()
    return found


def flags_of(char):
    return int(classes(np.frombuffer(char.encode(), np.uint8))[0])


def is_letter(char):
    return flags_of(char) & 3 > 0


def clusters(text, start, stop):
    """Characters with their marks: (place, kind, letter or digit)."""
    found = []
    for at in range(start, stop):
        kind = flags_of(text[at]) >> 4
        if at == start or not (kind >= MARK or flags_of(text[at - 1]) >> 4 == JOINER):
            found.append((at, 0 if kind >= MARK else kind, is_letter(text[at])))
    return found


def units(text):
    """Units by place: (place, quarters of a token, piece of it)."""
    found = []
    for piece, (start, stop) in enumerate(spans(text)):
        runs = []  # of clusters with a weight of their own, or none
        for cluster in clusters(text, start, stop):
            is_solo = 1 <= cluster[1] <= 6
            if is_solo or not runs or runs[-1][0]:
                runs.append((is_solo, []))
            runs[-1][1].append(cluster)
        opened = None
        for at, (is_solo, run) in enumerate(runs):
            letters = sum(letter for *_, letter in run)
            if is_solo:
                found.append((run[0][0] if opened is None else opened, run[0][1], piece))
                opened = None
            elif letters > 64:
                places = [(place, 2, piece) for place, _, letter in run if letter]
                found += places if run[0][2] else [(run[0][0], 0, piece), *places]
            elif letters or len(runs) == 1:
                found.append((run[0][0], 4, piece))
            elif at == 0:
                opened = run[0][0]
    return found


def stops(text, found, kinds):
    """Units that begin after marks of a kind, or with one that opens a piece."""
    after = set()
    for at, char in enumerate(text):
        following = at + 1
        while following < len(text) and (
            flags_of(text[following]) >> 4 >= MARK and not text[following].isspace()
        ):
            following += 1
        if flags_of(char) >> 4 in kinds:
            then = text[following : following + 1]
            if not then or not is_letter(then) or 1 <= flags_of(then) >> 4 <= 6:
                after.add(next((i for i, unit in enumerate(found) if unit[0] >= at), len(found)))
    return after


def plan(text, found, most, overlap):
    weights = [weight for _, weight, _ in found]
    sentences = stops(text, found, {SENTENCE})
    spaced = {i for i in range(1, len(found)) if found[i][2] != found[i - 1][2]}
    phrases = stops(text, found, {PHRASE}) | spaced
    at = 0
    while True:
        end = at + 1
        while end < len(found) and sum(weights[at : end + 1]) <= 4 * most:
            end += 1
        if end == len(found):
            yield at, end
            return
        if end not in spaced:
            near = [i for i in range(at + 1, end + 1) if sum(weights[at:i]) >= 3 * most]
            for places in (sentences, phrases):
                if better := [i for i in near if i in places]:
                    end = better[-1]
                    break
        yield at, end
        back = end
        while back > at + 1 and sum(weights[back - 1 : end]) <= 4 * overlap:
            back -= 1
        at = back


def tokens(weights):
    return -(-sum(weights) // 4)


def reference(section, text, chunking):
    found, most = units(text), chunking.max_tokens
    weights = [weight for _, weight, _ in found]
    if not found:
        return []
    if tokens(weights) <= most:
        return [(section, False, 0, 0, 0, len(text), 0, tokens(weights))]
    planned = [
        (False, index, overlap, *span, most)
        for overlap in chunking.overlap
        for index, span in enumerate(plan(text, found, most, overlap))
    ]
    summary = chunking.summary_tokens
    if summary and summary != most:  # it would be the first window again
        planned.append((True, 0, 0, *next(plan(text, found, summary, 0)), summary))
    rows = []
    for is_summary, index, overlap, first, end, size in planned:
        start = found[first][0]
        stop = found[end][0] if end < len(found) else len(text)
        length = len(text[start:stop].rstrip(NARROW_SPACES + WIDE_SPACES))
        count = min(max(tokens(weights[first:end]), 1), size)
        row = (section, is_summary, index, overlap, start, length, sum(weights[:first]) // 4, count)
        rows.append(row)
    return rows


def rows(texts, chunking):
    counts, found = windows(texts, chunking)
    assert counts.dtype == np.int32
    columns = [getattr(found, name) for name in NAMES]
    assert [column.dtype.name for column in columns] == ["int64", "bool"] + ["int32"] * 6
    return counts.tolist(), list(zip(*[column.tolist() for column in columns], strict=True))


def expected(texts, chunking):
    found = [row for at, text in enumerate(texts) for row in reference(at, text, chunking)]
    return [tokens(weight for _, weight, _ in units(text)) for text in texts], found


def assert_covered(texts, found):
    kept = [[not char.isspace() for char in text] for text in texts]
    for section, summary, _, _, start, length, _, _ in found:
        assert 0 <= start < start + length <= len(texts[section])
        if not summary:
            kept[section][start : start + length] = [False] * length
    assert not any(map(any, kept))


# ---- words

# Letters of one to four bytes, a combining accent, NUL, and neighbours of white space in bytes.
LETTERS = "ab\x00\x08\x0e\x1b!\x7f\x84\x9f\xa1é\u0301ж\u167f\u1681\u200b\u2010\u2027\u202e\u2060"
LETTERS += "😀\ufeff"
WEIGHED = "、ぁ漢。がー々〇「」กี่ำກခ္ក្အ한\u1100\u1161ఆக்ବ፡አ༄ཀ་\u200d\u200b\ufe0f,.3ｱﾞＡ\U00020000\ue000"
texts_of = st.lists(
    st.lists(st.sampled_from(LETTERS + 2 * (NARROW_SPACES + WIDE_SPACES)), max_size=40).map("".join)
    | st.text("a b\n", max_size=60)
    | st.text(WEIGHED + " a", max_size=60)
    | st.lists(
        st.sampled_from(["a" * 64, "b" * 65, "/", "漢", " ", "é" * 30, "\u0301", "-" * 70])
    ).map("".join)
    | st.text(max_size=10)
    | st.just(""),
    max_size=8,
)
chunkings = st.builds(
    Chunking,
    max_tokens=st.integers(1, 6),
    overlap=st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),
    summary_tokens=st.sampled_from([0, 1, 2, 3, 50]),
)


@settings(max_examples=often(400, less=20), deadline=None)
@given(texts=texts_of, chunking=chunkings, block=st.sampled_from([1, 7, 64, 1 << 20]))
@example(
    ["中中中 。中中中中中中中中"], Chunking(max_tokens=4, overlap=(0,)), 1
)  # a mark opens a piece
@example(["\xa0" * 70 + "a", "b " * 9 + "c-" * 65 + " d" * 9, "e" * 65], Chunking(max_tokens=8), 64)
@example(["漢。" * 40 + "3.5漢1.5" * 9 + "\n" * 300], Chunking(max_tokens=32, overlap=(0, 9)), 1)
def test_words_are_those_of_the_reference(texts, chunking, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckplets.text.windows, "BLOCK", block)
        counts, found = rows(pa.array(texts, pa.string()), chunking)
    assert (counts, found) == expected(texts, chunking)
    assert_covered(texts, found)
    for section, _, _, _, start, length, _, count in found:
        text = texts[section]
        plain = set(text) <= {*LETTERS, *NARROW_SPACES, *WIDE_SPACES}
        plain &= max(map(len, text.split())) <= 64
        assert not plain or len(text[start : start + length].split()) == count


@settings(max_examples=often(100, less=8), deadline=None)
@given(texts=texts_of, chunking=chunkings, cut=st.integers(0, 8), nulls=st.sets(st.integers(0, 7)))
def test_every_arrow_form_gives_the_same(texts, chunking, cut, nulls):
    want = expected(["" if at in nulls else text for at, text in enumerate(texts)], chunking)
    given_texts = [None if at in nulls else text for at, text in enumerate(texts)]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        array = pa.array(given_texts, pa.string()).cast(kind)
        padded = pa.array(["x é y", *given_texts, "z \u3000"], pa.string()).cast(kind)
        sliced = padded.slice(1, len(texts))
        chunked = pa.chunked_array([array.slice(0, cut), array.slice(cut)], kind)
        for form in (array, sliced, chunked):
            assert rows(form, chunking) == want


def test_no_texts_hidden_ones_and_one_too_long_for_the_tables(monkeypatch):
    for kind in (pa.string(), pa.large_string(), pa.null()):
        assert rows(pa.array([], kind), Chunking()) == ([], [])
        assert rows(pa.chunked_array([], kind), Chunking()) == ([], [])
        assert rows(pa.array([None], kind), Chunking()) == ([0], [])
    array = pa.array(["one two", "three", "four"])
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *array.buffers()[1:]])
    assert hidden.to_pylist() == ["one two", None, "four"]
    assert rows(hidden, Chunking())[0] == [2, 0, 1]
    monkeypatch.setattr(duckplets.text.windows, "MOST", 3)
    with pytest.raises(ChunkingError, match="more than 2 GiB"):
        windows(pa.array(["abc", "abcd"]), Chunking())


# ---- a Hugging Face tokenizer


@pytest.fixture(params=[word_level, byte_level, prefixing, lossy])
def tokenizer(request, tmp_path):
    return request.param(tmp_path / "tokenizer.json")


def test_tokenizer_windows_cover_and_count(tokenizer):
    encode = encoder(tokenizer).encode

    @settings(max_examples=often(150, less=10), deadline=None)
    @given(texts=texts_of | st.lists(st.text("ab! 漢é😀\n\u3000", max_size=30)), chunking=chunkings)
    def check(texts, chunking):
        chunking = dataclasses.replace(chunking, tokenizer=str(tokenizer))
        counts, found = rows(pa.array(texts, pa.string()), chunking)
        offsets = [encode(text, add_special_tokens=False).offsets for text in texts]
        for text, count, pieces in zip(texts, counts, offsets, strict=True):
            assert count == (max(1, len(pieces)) if text.strip() else 0)
        assert_covered(texts, found)
        order = []
        for section, summary, index, overlap, start, length, first, count in found:
            text = texts[section][start : start + length]
            long = counts[section] > chunking.max_tokens
            most = chunking.summary_tokens if summary else chunking.max_tokens
            alone = len(encode(text, add_special_tokens=False))
            assert count == max(alone, 1)
            assert first < counts[section]
            assert text == (text.strip() if long else texts[section])
            if text.strip() and len(text) > 1:
                assert alone <= most
            if long:
                begins = [0, *(begin for begin, _ in offsets[section][1:]), len(texts[section])]
                assert begins[first] <= start
            place = chunking.overlap.index(overlap) if long and not summary else 0
            order.append((section, summary, place, index, first))
        assert order == sorted(order)
        assert len({key[:4] for key in order}) == len(order)

    check()


WORDS = ["the ", "quick", " brown", "  fox", "jumps\n", "ing", "naïve", "漢字", "😀😀", "\u3000"]
WORDS += ["\t\t", "!!!", " e\u0301", "\u200d", "=" * 12, "\xa0", "x-y_z", "1234567", "a" * 30]


@pytest.mark.parametrize("make", [byte_level, prefixing])
@pytest.mark.parametrize("chunker", [None, "sentences"])
def test_no_window_has_more_tokens_than_asked_for_when_it_stands_alone(tmp_path, make, chunker):
    path = make(tmp_path / "tokenizer.json")
    encode = encoder(path).encode
    texts_of_words = st.lists(st.sampled_from(WORDS), max_size=60).map("".join)

    @settings(max_examples=often(400, less=25), deadline=None)
    @given(
        texts=st.lists(texts_of_words, max_size=4),
        most=st.integers(1, 24),
        overlap=st.lists(st.integers(0, 25), min_size=1, max_size=2, unique=True),
    )
    def check(texts, most, overlap):
        how = {"max_tokens": most, "overlap": tuple(overlap)}
        chunking = Chunking(**how, tokenizer=str(path), chunker=chunker)
        array = pa.array(texts, pa.string())
        if chunker is None:
            found = rows(array, chunking)[1]
        else:
            assert isinstance(chunking.chunker, chunkers.Chunker)
            spans = chunkers.spans_of(array, chunking.chunker, str)
            columns = windows_of(array, spans, chunking)[1]
            found = list(zip(*(getattr(columns, name).tolist() for name in NAMES), strict=True))
        assert_covered(texts, found)
        for section, _, _, _, start, length, *_ in found:
            text = texts[section][start : start + length]
            tokens = len(encode(text, add_special_tokens=False))
            assert tokens <= most or len(text.strip()) == 1, text

    check()


CLUSTERS = ["e\u0301", "👩\u200d💻", "👍🏽", "क\u094d\u200dषि", "ที่", "\u2764\ufe0f", "a", "b "]


def test_a_character_keeps_its_marks_and_joiners(tmp_path):
    path = byte_level(tmp_path / "tokenizer.json")

    @settings(max_examples=often(300, less=25), deadline=None)
    @given(
        parts=st.lists(st.sampled_from(CLUSTERS), max_size=40),
        most=st.integers(20, 40),
        overlap=st.integers(0, 45),
    )
    def check(parts, most, overlap):
        text = "".join(parts)
        ends = set(accumulate((len(part) for part in parts), initial=0))
        places = ends | {end - 1 for end in ends if text[:end].endswith(" ")}
        how = {"max_tokens": most, "overlap": (overlap,), "summary_tokens": 0}
        found = rows(pa.array([text]), Chunking(**how, tokenizer=str(path)))[1]
        assert_covered([text], found)
        for _, _, _, _, start, length, _, count in found:
            assert count <= most
            assert {start, start + length} <= places

    check()


def test_the_end_of_a_window_gives_way_and_the_next_begins_there(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = ["a", "b", "Ġ", "Ġa", "Ġab"]
    merges = [("Ġ", "a"), ("Ġa", "b")]
    model = tokenizers.models.BPE({each: n for n, each in enumerate(alphabet)}, merges)
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.save(str(tmp_path / "tokenizer.json"))
    text = "ab ab ab ab ab"
    assert made.encode(text).tokens == ["a", "b", *["Ġab"] * 4]
    how = {"summary_tokens": 0, "tokenizer": str(tmp_path / "tokenizer.json")}

    def cut(max_tokens, overlap):
        chunking = Chunking(max_tokens=max_tokens, overlap=(overlap,), **how)
        found = rows(pa.array([text]), chunking)[1]
        return [(text[row[4] : row[4] + row[5]], row[6], row[7]) for row in found]

    assert cut(2, 0) == [("ab", first, 2) for first in (0, 2, 3, 4, 5)]
    # An overlap takes up what gives way: windows begin where they would have.
    assert cut(4, 2) == [("ab ab ab", 0, 4), ("ab ab ab", 2, 4), ("ab ab", 4, 3)]


# ---- settings


WRONG = {
    "max_tokens": [0, 1.5, True, "9", 2**31],
    "overlap": [(), (-1,), (1, 1), "64", (True,), None, 1.0],
    "summary_tokens": [-1, False],
    "summary_weight": [1.1, float("nan")],
    "weight_floor": [-0.1, True, "0", float("inf")],
    "position_weight": ["windows", None],
    "tokenizer": ["", 3, "a\0b"],
}


def test_wrong_settings_name_field_and_value():
    for field, values in WRONG.items():
        for value in values:
            with pytest.raises(ChunkingError, match=rf"^{field}(\[0\])?=.*: (give|expected) ") as e:
                Chunking(**{field: value})
            element = value[0] if isinstance(value, tuple) and len(value) == 1 else value
            assert repr(element) in str(e.value)


SUMMARIES = [
    ({}, 512), ({"max_tokens": 256}, 128), ({"max_tokens": 1}, 0), ({"max_tokens": 3}, 1),
    ({"max_tokens": 4096}, 512), ({"max_tokens": 256, "summary_tokens": None}, 128),
    ({"max_tokens": 256, "summary_tokens": 512}, 512), ({"summary_tokens": 0}, 0),
    ({"max_tokens": 256, "summary_tokens": 256}, 0), ({"max_tokens": 512}, 256),
]  # fmt: skip


def test_a_summary_is_no_longer_than_a_window_unless_asked_for():
    for how, length in SUMMARIES:
        for chunking in (Chunking(**how), Chunking.from_json(how)):
            assert chunking.summary_length == length
            most = chunking.max_tokens
            kinds = rows(pa.array(["a b " * most * 2]), chunking)[1]
            assert [row[-1] for row in kinds if row[1]] == ([length] if length else [])


def test_settings_go_through_json():
    chunking = Chunking(overlap=[128, 0], weight_floor=0, summary_weight=1)
    assert chunking.overlap == (128, 0)
    assert type(Chunking(max_tokens=np.int64(3)).max_tokens) is int
    assert hash(chunking) == hash(pickle.loads(pickle.dumps(chunking)))
    assert Chunking(overlap=7).overlap == (7,)
    text = json.dumps(chunking.to_json())
    assert Chunking.from_json(json.loads(text)) == chunking
    assert Chunking.from_json({}) == Chunking()
    assert Chunking().fingerprint() == Chunking().to_json()
    assert '"weight_floor": 0.0' in text
    stored = Chunking(max_tokens=256).to_json() | {"summary_tokens": 512}
    assert Chunking.from_json(stored).to_json() == stored
    for wrong, told in (
        ({"max_token": 5}, r"chunking: unknown key 'max_token' \(did you mean 'max_tokens'\?"),
        ({"tokenizer": {"pth": "x"}}, r"tokenizer: unknown key 'pth' \(did you mean 'path'"),
        ({"tokenizer": {"sha256": "x"}}, "tokenizer: path is missing"),
        ([], "give an object of settings"),
    ):
        with pytest.raises(ChunkingError, match=told):
            Chunking.from_json(wrong)


def test_tokenizer_file_is_known_by_its_content(tmp_path, monkeypatch):
    path = word_level(tmp_path / "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    chunking = Chunking(tokenizer="tokenizer.json")
    stored = json.loads(json.dumps(chunking.to_json()))
    assert stored["tokenizer"]["path"] == chunking.tokenizer == str(path)
    assert Chunking.from_json(stored) == chunking == Chunking.from_json({"tokenizer": str(path)})
    moved = path.rename(tmp_path / "moved.json")
    assert Chunking(tokenizer=str(moved)).fingerprint() == {
        **stored, "tokenizer": stored["tokenizer"]["sha256"],
    }  # fmt: skip
    with pytest.raises(ChunkingError, match="cannot be read"):
        Chunking.from_json(stored)
    byte_level(path)
    with pytest.raises(ChunkingError, match="the file has changed"):
        Chunking.from_json(stored)


def test_a_file_that_is_no_tokenizer(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    for content in (None, b"", b"{}", b"\xff\x00", b'{"model": {}}'):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ChunkingError, match=r"tokenizer='.*tokenizer.json' (is not|cannot be)"):
            Chunking(tokenizer=str(path))
    with pytest.raises(ChunkingError, match=r"Is a directory.*such as tokenizer\.json"):
        Chunking(tokenizer=str(tmp_path))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ChunkingError, match=r"pip install 'duckplets\[tokenizers\]'"):
        Chunking(tokenizer=str(path))
