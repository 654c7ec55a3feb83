"""Full-text indexes: what is in them, when they are built again, what an interruption leaves."""

import re

import pytest
from effort import often, some, thorough
from peers import odd_texts, peer
from prebuilt import prebuilt

import duckplets as dp
from duckplets.engine.work import Work
from duckplets.errors import RecipeError
from duckplets.search import index
from duckplets.search.analyzer_settings import Terms

TABLES = ("index_terms", "index_documents", "index_postings")

SETTINGS = [
    Terms(),
    Terms(stemmer="none"),
    Terms(stemmer="english", stop_words="english"),
    Terms(stop_words=["the", "running", "cafe", "日本語", "fox", "nothing"]),
    Terms(stemmer="russian"),
    Terms(stemmer="german", stop_words=["the", "fox"]),
    Terms(stemmer="arabic"),
    Terms(ignore=r"""[0-9!@#$%^&*()_+={}\[\]:;<>,.?~\\/\|'"`-]+"""),  # the extension's default
    Terms(stemmer="spanish", ignore="x|[aeiou]{2}|é"),  # white space is none of it
]


def ingest(corpus, texts, name="a", **options):
    rows = [{"id": key, "text": text} for key, text in texts.items()]
    corpus.ingest(rows, name=name, id="id", text="text", **options)


def named(count, seed):
    """Texts that can be records: empty ones cannot."""
    texts = [text for text in odd_texts(count, seed) if text.strip()]
    return {f"r{i}": text for i, text in enumerate(texts)}


@prebuilt
def small(path, train=1.0, *, indexed=True):
    """Two sources; one split, or two; and their indexes."""
    corpus = dp.Corpus(path)
    for seed, name in enumerate("ab"):
        ingest(corpus, named(40, seed), name)
    corpus.split(train, 1 - train, 0)
    if indexed:
        index.refresh(corpus.database)
    return corpus


def rows(database, table, found):
    assert found is not None
    columns = "* EXCLUDE (index_key)"
    key = {"key": found.index_key}
    return sorted(database.rows(f"SELECT {columns} FROM {table} WHERE index_key = $key", key))


def everything(database):
    return {
        (found.source, found.split): [rows(database, table, found) for table in TABLES]
        for found in index.stored(database)
    }


def section_texts(database, found):
    """Texts of the live sections of an index by section key."""
    return dict(
        database.rows(
            "SELECT section_key, text FROM sections JOIN live_records USING (record_key) "
            "WHERE source = $source AND split = $split",
            {"source": found.source, "split": found.split},
        )
    )


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """One source and split, sections with roles, some of them empty."""
    corpus = dp.Corpus(tmp_path_factory.mktemp("odd") / "odd.duckdb")
    texts = odd_texts(often(180, less=60), 1)
    rows = [
        {"id": f"{i:x}", "title": f"title {i}", "body": body, "notes": texts[i // 2 : i // 2 + 2]}
        for i, body in enumerate(texts)
    ]
    corpus.ingest(rows, name="odd", id="id", anchor="title", positive="body", context="notes")
    # As a source might have left them, had it stored sections without text.
    corpus.database.rows("UPDATE stored_sections SET text = '' WHERE section_key % 17 = 0")
    corpus.split(1, 0, 0)
    return corpus


@pytest.mark.parametrize("terms", some(SETTINGS, less=3))
def test_an_index_holds_what_create_fts_index_counts(odd, terms):
    database = odd.database
    (report,) = index.refresh(database, terms=terms)
    (found,) = index.stored(database)
    texts = section_texts(database, found)
    expected = peer(texts, terms)
    documents = index.documents(database, found)
    sections = documents["section_key"].to_pylist()
    assert sorted(sections) == sorted(texts)
    assert documents["document"].to_pylist() == list(range(len(texts)))
    assert dict(zip(sections, documents["length"].to_pylist(), strict=True)) == expected.lengths

    counts = {term: count for _, term, count in rows(database, "index_terms", found)}
    assert counts == expected.document_counts
    term_of = {key: term for key, term, _ in rows(database, "index_terms", found)}
    assert sorted(term_of) == list(range(len(term_of)))

    asked = {"index": found.index_key, "low": 0, "high": len(texts)}
    postings = database.table("search/index/postings", asked).to_pylist()
    tf = {(sections[p["document"]], term_of[p["term_key"]]): p["frequency"] for p in postings}
    assert len(tf) == len(postings)
    assert tf == expected.frequencies
    tokens = sum(expected.lengths.values())
    assert (report.documents, report.tokens, report.terms) == (len(texts), tokens, len(counts))
    assert found.terms == terms


def test_an_ingest_makes_only_its_own_pairs_stale(tmp_path):
    corpus = small(tmp_path / "c.duckdb", 0.6, indexed=False)
    database = corpus.database
    pairs = [(name, split) for name in "ab" for split in ("train", "validation")]
    assert index.stale(database) == [(*pair, "not built") for pair in pairs]
    assert index.stored(database) == []
    built = index.refresh(database)
    assert [(r.source, r.split, r.reason) for r in built] == [(*p, "not built") for p in pairs]
    assert index.stale(database) == []
    assert index.refresh(database) == []
    before = {(f.source, f.split): f for f in index.stored(database)}

    ingest(corpus, {"one more": "a new fox"}, "b")
    ((split,),) = database.rows("SELECT split FROM live_records WHERE record_id = 'b/one more'")
    assert index.stale(database) == [("b", split, "records have changed")]
    (report,) = index.refresh(database)
    assert (report.source, report.split, report.reason) == ("b", split, "records have changed")
    assert report.documents == built[pairs.index(("b", split))].documents + 1
    after = {(f.source, f.split): f for f in index.stored(database)}
    changed = {pair for pair in after if after[pair] != before[pair]}
    assert changed == {("b", split)}
    assert after["b", split].index_key > max(f.index_key for f in before.values())

    ingest(corpus, {"r0": "zzyzx"}, "a", on_conflict="replace")
    (report,) = index.refresh(database)
    (found,) = index.stored(database, source="a", split=report.split)
    held = index.documents(database, found)["section_key"].to_pylist()
    assert sorted(held) == sorted(section_texts(database, found))
    assert "zzyzx" in {term for _, term, _ in rows(database, "index_terms", found)}


@thorough
def test_an_interrupted_build_leaves_the_corpus_usable(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "_SECTIONS", 5)
    database = small(tmp_path / "c.duckdb", indexed=False).database

    seen = []

    def interrupt(done, total):
        seen.append(done)
        if len(seen) > 1 and done < seen[-2]:  # in the second
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.refresh(database, work=Work(progress=interrupt))
    kept = everything(database)
    assert len(kept) == 1
    index.refresh(database)
    assert {pair: everything(database)[pair] for pair in kept} == kept
    assert index.stale(database) == []


WRONG = [
    ({"stemmer": "englsh"}, "did you mean 'english'"),
    ({"stemmer": None}, "stemmer=None"),
    ({"stop_words": "englisch"}, "did you mean 'english'"),
    ({"stop_words": 7}, "stop_words=7: give 'english' or a list"),
    ({"stop_words": ["a", 1]}, "stop_words[1]=1: give text"),
    ({"ignore": ""}, "ignore=''"),
    ({"ignore": None}, "ignore=None"),
]


def test_wrong_settings_are_refused():
    for settings, message in WRONG:
        with pytest.raises(RecipeError, match=re.escape(message)):
            Terms(**settings)
