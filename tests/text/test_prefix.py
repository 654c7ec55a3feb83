"""Metadata prefixes: what a user writes, and what a corpus keeps of it."""

import datetime
import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from prebuilt import toy_corpus

from duckplets.errors import SourceError
from duckplets.ingest import prefixes as prefix_store
from duckplets.text.prefix import Field, Prefix, date_renderings, prefix_of

SOURCE = Field("source", "wiki")


def test_what_is_written_is_one_form_and_comes_back():
    assert Field("k", "one").values == ("one",)
    odd = Field(" two  words ", ["b", " a\n c ", "", "b", " "], 0.5)
    assert odd == Field("two words", ("b", "a c"), 0.5)
    assert Field.from_column(" meta.date ") == Field("date", column="meta.date")
    listed = Prefix.from_columns(["source", "date", "topic"], 0.5)
    assert Prefix.from_columns("source, date,topic") == listed
    assert listed.columns == ("source", "date", "topic")
    assert prefix_of("source") == Prefix(0.5, [[Field.from_column("source")]])
    assert prefix_of(None) is None
    dates = Field("date", ["2024", "'24"], 0.5)
    prefix = Prefix(0.25, [[SOURCE, dates], [Field.from_column("trust", 0.1)]])
    again = Prefix.from_dict(json.loads(json.dumps(prefix.to_dict())))
    assert again == prefix_of(prefix) == prefix_of(prefix.to_dict()) == prefix
    assert hash(again) == hash(prefix)


def plain(**given):
    return lambda: Prefix.from_dict({"probability": 1, **given})


WRONG = [
    (lambda: Field("", "v"), "prefix field '': give up to 200 printable characters"),
    (lambda: Field("a\nb", "v"), "prefix field 'a\\nb': give up to 200 printable"),
    (lambda: Field(3, "v"), "prefix field 3: give up to 200 printable"),
    (lambda: Field("a=b", "v"), "a key has no '=' and no '|'"),
    (lambda: Field("k", []), "prefix field 'k': values=[] has no text"),
    (lambda: Field("k", [" ", ""]), "has no text; give one, or leave it out"),
    (lambda: Field("k", [1]), "values=[1]: give one text, or a list of texts"),
    (lambda: Field("k", "v", 1.5), "prefix field 'k': presence=1.5: give a number from 0 to 1"),
    (lambda: Field("k", "v", float("nan")), "presence=nan: give a number"),
    (lambda: Field("k", "v", column="date"), "give values, or the column to take them from"),
    (lambda: Field("k", column=" "), "column=' ': give the name of a column"),
    (lambda: Prefix(-0.1, [[SOURCE]]), "prefix: probability=-0.1: give a number from 0 to 1"),
    (lambda: Prefix("1", [[SOURCE]]), "probability='1': give a number"),
    (lambda: Prefix(1, []), "prefix: variants=[]: give at least one list of fields"),
    (lambda: Prefix(1, [[]]), "variant []: give a list of at least one field"),
    (lambda: Prefix(1, [SOURCE]), "a variant is a list of fields, not the field 'source' alone"),
    (lambda: Prefix(1, [["k"]]), "prefix: 'k' is no field; write Field(key, values)"),
    (lambda: Prefix(1, [[SOURCE, SOURCE]]), "a variant has the key 'source' twice"),
    (lambda: Prefix.from_columns("source,,date"), "prefix='source,,date': a name is empty"),
    (lambda: Prefix.from_columns(7), "prefix=7: give names of columns"),
    (plain(), "prefix: {'probability': 1} has no 'variants'"),
    (plain(variant=[]), "prefix: no key 'variant' (did you mean 'variants'?)"),
    (plain(variants={}), "prefix: variants={}: give a list of lists"),
    (plain(variants=[[{"key": "k", "value": "v"}]]), "no key 'value' (did you mean 'values'?)"),
    (plain(variants=[["k"]]), "'k': give an object with key, values, presence, column"),
]


def test_what_is_wrong_is_said():
    for make, said in WRONG:
        with pytest.raises(SourceError) as caught:
            make()
        assert said in str(caught.value)


def test_a_date_has_six_renderings():
    assert date_renderings(datetime.date(2024, 10, 5)) == [
        *("2024-10-05", "Oct. 5, 2024", "October 5, 2024"),
        *("05.10.2024", "10/05/2024", "Oct 5, 2024"),
    ]
    for i in range(366):
        day = datetime.date(1, 1, 1) + datetime.timedelta(days=9973 * i)
        found = date_renderings(day)
        assert len(found) == len(set(found)) == (5 if day.month == 5 else 6)
        assert found[0] == day.isoformat()


def test_what_a_corpus_keeps(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 30, sources=("a", "b")) as corpus:
        database = corpus.database
        for definition, said in {
            "{": "prefix: '{' is not JSON",
            '{"probability": 2, "variants": [[{"key": "k", "values": ["v"]}]]}': "probability=2",
            "[]": "prefix: []: give an object with probability, variants",
        }.items():
            with pytest.raises(SourceError) as caught:
                prefix_store.append(database, np.array([1]), pa.array([definition]))
            assert said in str(caught.value)
        assert corpus.sql("FROM record_prefixes").num_rows == 0
        # The digest that a run is pinned to tells prefixes apart.
        assert prefix_store.digest(database, corpus.version) == {}
        found = [{}]
        for prefix in (Prefix.from_columns("source"), Prefix.from_columns("source", 0.4)):
            with database.transaction():
                prefix_store.set_source(database, 1, 1, prefix)
            found.append(prefix_store.digest(database, corpus.version))
        own = json.dumps(Prefix(1, [[SOURCE]]).to_dict())
        for key in (3, 4):
            prefix_store.append(database, np.array([key]), pa.array([own]))
            found.append(prefix_store.digest(database, corpus.version))
        assert not [pair for pair in itertools.combinations(found, 2) if pair[0] == pair[1]]
