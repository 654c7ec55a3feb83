"""Metadata prefixes: what a user writes, and what a corpus keeps of it."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prebuilt import toy_corpus

from duckplets.corpus.corpus import Corpus
from duckplets.errors import SourceError
from duckplets.ingest import prefixes as prefix_store
from duckplets.text.prefix import Field, Prefix, date_renderings, prefix_of

SOURCE = Field("source", "wiki")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    with toy_corpus(tmp_path / "toy.duckdb", 30, sources=("a", "b")) as corpus:
        yield corpus


# ---- definitions


def test_a_field_has_one_value_or_several_renderings() -> None:
    assert Field("k", "one").values == ("one",)
    assert Field(" two  words ", ["b", " a\n c ", "", "b", " "], 0.5) == Field(
        "two words", ("b", "a c"), 0.5
    )
    assert Field.from_column(" meta.date ") == Field("date", column="meta.date")


def test_columns_are_named_with_commas_or_as_a_list() -> None:
    prefix = Prefix.from_columns("source, date,topic")
    assert prefix == Prefix.from_columns(["source", "date", "topic"], 0.5)
    assert prefix.columns == ("source", "date", "topic")
    assert [field.key for field in prefix.variants[0]] == ["source", "date", "topic"]


def test_plain_values_and_back() -> None:
    prefix = Prefix(
        0.25, [[SOURCE, Field("date", ["2024", "'24"], 0.5)], [Field.from_column("trust", 0.1)]]
    )
    assert Prefix.from_dict(json.loads(json.dumps(prefix.to_dict()))) == prefix
    assert hash(prefix) == hash(Prefix.from_dict(prefix.to_dict()))
    assert prefix_of(prefix) is prefix
    assert prefix_of(prefix.to_dict()) == prefix
    assert prefix_of("source") == Prefix(0.5, [[Field.from_column("source")]])
    assert prefix_of(None) is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Field("", "v"), "prefix field '': give up to 200 printable characters"),
        (lambda: Field("a\nb", "v"), "prefix field 'a\\nb': give up to 200 printable"),
        (lambda: Field(3, "v"), "prefix field 3: give up to 200 printable"),  # type: ignore[arg-type]
        (lambda: Field("a=b", "v"), "a key has no '=' and no '|'"),
        (lambda: Field("k", []), "prefix field 'k': values=[] has no text"),
        (lambda: Field("k", [" ", ""]), "has no text; give one, or leave it out"),
        (lambda: Field("k", [1]), "values=[1]: give one text, or a list of texts"),  # type: ignore[list-item]
        (lambda: Field("k", "v", 1.5), "prefix field 'k': presence=1.5: give a number from 0 to 1"),
        (lambda: Field("k", "v", float("nan")), "presence=nan: give a number"),
        (lambda: Field("k", "v", True), "presence=True: give a number"),
        (lambda: Field("k", "v", column="date"), "give values, or the column to take them from"),
        (lambda: Field("k", column=" "), "column=' ': give the name of a column"),
        (lambda: Prefix(-0.1, [[SOURCE]]), "prefix: probability=-0.1: give a number from 0 to 1"),
        (lambda: Prefix("1", [[SOURCE]]), "probability='1': give a number"),  # type: ignore[arg-type]
        (lambda: Prefix(1, []), "prefix: variants=[]: give at least one list of fields"),
        (lambda: Prefix(1, [[]]), "variant []: give a list of at least one field"),
        (
            lambda: Prefix(1, [SOURCE]),
            "a variant is a list of fields, not the field 'source' alone",
        ),  # type: ignore[list-item]
        (lambda: Prefix(1, [["k"]]), "prefix: 'k' is no field; write Field(key, values)"),  # type: ignore[list-item]
        (lambda: Prefix(1, [[SOURCE, SOURCE]]), "a variant has the key 'source' twice"),
        (lambda: Prefix.from_columns("source,,date"), "prefix='source,,date': a name is empty"),
        (lambda: Prefix.from_columns(""), "prefix='': a name is empty"),
        (lambda: Prefix.from_columns(7), "prefix=7: give names of columns"),  # type: ignore[arg-type]
        (
            lambda: Prefix.from_dict({"probability": 1}),
            "prefix: {'probability': 1} has no 'variants'",
        ),
        (
            lambda: Prefix.from_dict({"probability": 1, "variant": []}),
            "prefix: no key 'variant' (did you mean 'variants'?)",
        ),
        (
            lambda: Prefix.from_dict({"probability": 1, "variants": {}}),
            "prefix: variants={}: give a list of lists",
        ),
        (
            lambda: Prefix.from_dict(
                {"probability": 1, "variants": [[{"key": "k", "value": "v"}]]}
            ),
            "prefix field: no key 'value' (did you mean 'values'?)",
        ),
        (
            lambda: Prefix.from_dict({"probability": 1, "variants": [["k"]]}),
            "prefix field: 'k': give an object with key, values, presence, column",
        ),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(SourceError) as caught:
        make()
    assert said in str(caught.value)


def test_a_date_has_six_renderings() -> None:
    assert date_renderings(datetime.date(2024, 10, 5)) == [
        *("2024-10-05", "Oct. 5, 2024", "October 5, 2024"),
        *("05.10.2024", "10/05/2024", "Oct 5, 2024"),
    ]
    days = [datetime.date(1, 1, 1) + datetime.timedelta(days=9973 * i) for i in range(366)]
    for day in days:
        found = date_renderings(day)
        assert len(found) == len(set(found)) == (5 if day.month == 5 else 6)
        assert found[0] == day.isoformat()


# ---- the corpus


def set_source(corpus: Corpus, source: int, version: int, prefix: Prefix | None) -> None:
    with corpus.database.transaction():
        prefix_store.set_source(corpus.database, source, version, prefix)


def source_prefix(corpus: Corpus, source: int, version: int) -> Prefix | None:
    found = {i: text for i, _, text in prefix_store.of_sources(corpus.database, version)}
    return Prefix.from_dict(json.loads(found[source])) if source in found else None


def test_the_last_version_counts(corpus: Corpus) -> None:
    one, two = Prefix.from_columns("source"), Prefix.from_columns("date")
    set_source(corpus, 1, 2, one)
    set_source(corpus, 1, 5, two)
    set_source(corpus, 1, 9, None)
    found = [source_prefix(corpus, 1, v) for v in range(1, 11)]
    assert found == [None, one, one, one, two, two, two, two, None, None]
    assert source_prefix(corpus, 2, 9) is None


def test_a_version_can_be_set_again(corpus: Corpus) -> None:
    set_source(corpus, 1, 2, Prefix.from_columns("source"))
    set_source(corpus, 1, 2, Prefix.from_columns("date"))
    found = source_prefix(corpus, 1, 2)
    assert found == Prefix.from_columns("date")


def test_the_digest_tells_prefixes_apart(corpus: Corpus) -> None:
    database = corpus.database
    assert prefix_store.digest(database, corpus.version) == {}
    found = [prefix_store.digest(database, corpus.version)]
    for prefix in (Prefix.from_columns("source"), Prefix.from_columns("source", 0.4)):
        set_source(corpus, 1, 1, prefix)
        found.append(prefix_store.digest(database, corpus.version))
    own = json.dumps(Prefix(1, [[SOURCE]]).to_dict())
    for key in (3, 4):
        prefix_store.append(database, np.array([key]), pa.array([own]))
        found.append(prefix_store.digest(database, corpus.version))
    assert not [pair for pair in itertools.combinations(found, 2) if pair[0] == pair[1]]
    assert prefix_store.digest(database, corpus.version) == found[-1]


def test_records_without_a_prefix_have_no_row(corpus: Corpus) -> None:
    own = Prefix(0.5, [[SOURCE]]).to_dict()
    given = pa.array([None, json.dumps(own), None, json.dumps(own, indent=1)], pa.string())
    prefix_store.append(corpus.database, np.array([1, 2, 3, 4]), given)
    rows = corpus.sql("SELECT * FROM record_prefixes ORDER BY record_key").to_pylist()
    assert [row["record_key"] for row in rows] == [2, 4]
    assert [json.loads(row["definition"]) for row in rows] == [own, own]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("{", "prefix: '{' is not JSON"),
        ('{"probability": 2, "variants": [[{"key": "k", "values": ["v"]}]]}', "probability=2"),
        ("[]", "prefix: []: give an object with probability, variants"),
    ],
)
def test_a_wrong_definition_of_a_record_is_refused(
    corpus: Corpus, definition: str, said: str
) -> None:
    with pytest.raises(SourceError) as caught:
        prefix_store.append(corpus.database, np.array([1]), pa.array([definition]))
    assert said in str(caught.value)
    assert corpus.sql("SELECT count(*) AS n FROM record_prefixes")["n"].to_pylist() == [0]


def test_a_column_that_no_record_has_is_refused(corpus: Corpus) -> None:
    database = corpus.database
    prefix_store.check_columns(database, 1, Prefix.from_columns("source, date, topic, trust"))
    prefix_store.check_columns(database, 1, Prefix(1, [[SOURCE]]))
    for names, said in {
        "source, topics": "no record of the source has a 'topics' (did you mean 'topic'?)",
        "group": "no record of the source has a 'group'; there are source, date, trust",
        "taxonomy": "no record of the source has a 'taxonomy'",
        "meta.date": "no record of the source has a 'meta.date'",
    }.items():
        with pytest.raises(SourceError) as caught:
            prefix_store.check_columns(database, 1, Prefix.from_columns(names))
        assert said in str(caught.value)
