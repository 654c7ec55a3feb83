"""Accents of whole blocks are taken off as the macro does it."""

import random
import unicodedata

import pyarrow as pa
import pytest
from effort import often

from duckplets.db.database import Database
from duckplets.text import accents

SCRIPTS = (
    *("été Straße coöperate naïve Łódź ångström", "первый йод ёлка", "中文文本處理。「很好」"),
    *("한국어 문장", "हिन्दी भाषा", "パンが好き", "ไทย", "كتاب", "ελληνικά", "plain ascii only"),
    *("\U0001f600 \U0001f44d\U0001f3fd ok", "e\u0301 o\u0308 combined", "\u1100\u1161\u11a8 jamo"),
    *(
        "\u00a0 narrow\u202f space \u3000",
        "\ufb01 ligature \u2167 ½ ™ \u212a \u212b",
        "\U0002000b ext b",
    ),
)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    import duckplets as dp

    with dp.Corpus(tmp_path_factory.mktemp("accents") / "c.duckdb") as corpus:
        yield corpus.database


def by_macro(database: Database, texts: pa.Array) -> list[str]:
    with database.registered(given=pa.table({"text": texts})):
        return [of for (of,) in database.rows("SELECT _internal.unaccented(text) FROM given")]


def test_every_character_of_the_table_is_as_the_macro_has_it(database):
    sure = [c for c in range(0x80, accents._END) if accents._table()[c] != accents._UNSURE]
    assert len(sure) > 40_000
    texts = pa.array([f"a{chr(code)}b" for code in sure])
    assert accents.unaccented(texts).to_pylist() == by_macro(database, texts)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("seed", range(often(20, less=2)))
def test_texts_of_any_script_are_as_the_macro_has_them_or_left_to_it(
    database, kind, seed, monkeypatch
):
    draw = random.Random(seed)
    monkeypatch.setattr(accents, "_BLOCK", draw.choice([100, 1000, 1 << 18]))
    words = [*" ".join(SCRIPTS).split(" "), "", "\n", "x" * 300]
    texts = [" ".join(draw.choices(words, k=draw.randrange(9))) for _ in range(3000)]
    given = pa.array(texts, kind).slice(7)
    found, expected = accents.unaccented(given).to_pylist(), by_macro(database, given)
    assert all(one in (None, other) for one, other in zip(found, expected, strict=True))
    assert 0 < found.count(None) < len(found)
    asked = "SELECT normalised_hash(text) AS a, md5_number_lower(lower(_internal.trimmed("
    asked += "_internal.single_spaced(plain)))) AS b FROM given WHERE plain IS NOT NULL"
    with database.registered(given=pa.table({"text": given, "plain": pa.array(found, kind)})):
        assert all(one == other for one, other in database.rows(asked))


def test_few_texts_and_plain_ones_are_left_to_it():
    assert accents.unaccented(pa.array(["é"])).to_pylist() == [None]
    assert accents.unaccented(pa.array(["e"] * 2000)).null_count == 2000
    assert unicodedata.normalize("NFD", "é")[0] == "e"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("seed", range(often(20, less=2)))
def test_texts_that_are_single_spaced_already_are_known(database, kind, seed, monkeypatch):
    draw = random.Random(seed)
    monkeypatch.setattr(accents, "_BLOCK", draw.choice([1, 7, 64, 1 << 18]))
    words = ["a", "é", "中", "\t", "\n", "\v", "\f", "\r", "\u3000", "\x1c", "", "", "x" * 30]
    texts = [
        draw.choice(["", " "]).join(draw.choices(words, k=draw.randrange(6))) for _ in range(400)
    ]
    given = pa.array(texts, kind).slice(7)
    odd = accents.odd_spaces(given).to_pylist()
    with database.registered(given=pa.table({"text": given, "odd": odd})):
        of = "SELECT text, odd, _internal.single_spaced(text) AS spaced FROM given"
        rows = database.rows(of)
    assert all(is_odd or text == spaced for text, is_odd, spaced in rows)
    needless = sum(is_odd and text == spaced for text, is_odd, spaced in rows)
    assert needless < len(rows) / 3
    assert sum(not is_odd for _, is_odd, _ in rows) > len(rows) / 3


def test_no_text_has_no_odd_spaces():
    assert accents.odd_spaces(pa.array([], pa.string())).to_pylist() == []
    assert accents.odd_spaces(pa.array(["", ""])).to_pylist() == [False, False]
