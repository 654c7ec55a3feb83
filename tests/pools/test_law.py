"""The one law of pools in SQL: equal to plain Python, as anchors and as the lists of a sampler."""

from collections import defaultdict

import law_corpora
import plain_law as law
import pytest
from effort import often

FIRST, MANY = 40, often(300, less=25)
NEGATIVES = often((1, 2, 3), less=(1, 2))


@pytest.fixture(scope="module")
def corpora():
    return law_corpora.drawn(MANY, FIRST)


@pytest.fixture(scope="module")
def corpus(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("law")
    with law_corpora.filled(folder / "c.duckdb", folder / "empty.duckdb", corpora) as corpus:
        yield corpus


def laws_of(corpora, told):
    return {
        (f"r{n}", source): law.Law(corpus, told, source)
        for n, corpus in enumerate(corpora)
        for source in "ab"
    }


def lists_of(corpus, pool, part):
    """Return the rows of a part for every split and source."""
    text = law_corpora.of_splits(pool.sql(part))
    given = {"negatives": pool.negatives} if "$negatives" in text else {}
    found = defaultdict(list)
    for row in corpus.database.arrow(text, given).to_pylist():
        found[row.pop("split"), row.pop("source")].append(row)
    return found


@pytest.mark.parametrize("kind", law_corpora.KINDS)
def test_pools_are_those_of_plain_python(kind, corpus, corpora):
    recipe, options, told = law_corpora.KINDS[kind]
    laws, rows = laws_of(corpora, told), 0
    for negatives in NEGATIVES:
        pool = law_corpora.asked(recipe, negatives, **options)
        found = lists_of(corpus, pool, "pool")
        for place, of in laws.items():
            expected = of.pool(negatives)
            rows += len(expected)
            assert sorted((r["record_key"], r["anchors"]) for r in found[place]) == expected, place
    assert rows
