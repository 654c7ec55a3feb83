"""Mutants of documents, stored JSON and answers of a hub: each is read, or refused in our words.

The seeds of those that once raised something else are kept, and always run.
"""

import json
import random
import shutil
import time

import mutants
import pytest
from effort import often, thorough
from prebuilt import kept

import duckplets as dp
from duckplets import testing
from duckplets.db.short_open import for_a_moment
from duckplets.errors import DuckpletsError
from duckplets.ingest import checkpoint, chunks, prefixes, splits
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import load_recipes, to_dict
from duckplets.records.sources_file import load_sources
from duckplets.runs import state
from duckplets.search import index
from duckplets.sources.rows import cursor_of

MOST_SECONDS = 20.0  # of one case, on a machine under load
KEPT = {"data sets in TOML": (172, 1384), "hub": (65, 1118)}  # seeds by name


def attempts(name, less):
    """Return the seeds to try: all, or the first and those that are kept."""
    return [*range(often(2000, less=less)), *KEPT.get(name, ())]


def tried(name, seed, act):
    """Return whether something is taken; fails if it raises what is none of our errors."""
    began = time.monotonic()
    try:
        act()
    except DuckpletsError:
        taken = False
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
    else:
        taken = True
    assert time.monotonic() - began < MOST_SECONDS, (name, seed)
    return taken


# -- documents ------------------------------------------------------------------------------------

DATA_SETS = [
    "source:\n- path: a.json\n  converter: alpaca\n  size: 10\n  weight: 2.0\n"
    "- {path: 'hf://org/name/config', split: train, columns: {anchor: [a, b], positive: text}}\n",
    "source:\n- &base {path: a.json, name: base, converter: alpaca}\n- <<: *base\n  seed: 3\n"
    "  streaming: true\n  size_mode: first\n",
    '{"source": [{"path": "a.json", "format": "json", "columns": {"text": "t"}, "trust": 0.5}]}',
    "source:\n- name: lines\n  path: b.txt\n  trust: 0.5\n# end\n",
]
MIXTURES = [
    '[mixture]\ntemperature = 1.5\nweights = { web = 0.7, "big/code" = 1 }\n\n'
    "[[mixture.phases]]\nstart_step = 10_000\nweights = { web = 0.3 }\nlr_scale = 0.5\n",
    '[mixture.anneal]\nstart_step = 5\n[mixture.anneal.weights]\nweb = 0.5\n"c d" = 1e3\n[train]\n'
    "a.b.'c'.d = '''x'''\n",
]
RECIPES = [
    '[[recipe]]\nname = "t"\nanchor = { role = "anchor" }\npositive = { role = "context" }\n'
    "negative = { role = \"context\", where = \"meta['lang'] = 'en'\" }\n"
    "strategy = { sql = \"negative.meta['topic'] = anchor.meta['topic']\" }\n"
    'by = { bm25 = { range_max = 8 } }\nweight = 0.7\nsources = ["a"]\n',
    '[[recipe]]\nname = "bodies"\nselector = { position = 1 }\nper = "chunk"\ninstruction = "x"\n',
]


def _loaded_data_sets(file):
    for data_set in load_sources(file):
        data_set.source()


def _loaded_mixture(file):
    mixture = dp.Mixture.from_toml(file)
    assert dp.Mixture.from_dict(json.loads(json.dumps(mixture.to_dict()))) == mixture
    mixture.check(["web", "code", "c d"])


DOCUMENTS = {
    "data sets": ("d.yaml", DATA_SETS, _loaded_data_sets),
    "data sets in TOML": (
        "d.toml",
        ["[[source]]\npath = 'a.json'\ncolumns = { text = ['t'] }\n"],
        _loaded_data_sets,
    ),
    "mixture": ("m.toml", MIXTURES, _loaded_mixture),
    "recipes": (
        "r.toml",
        RECIPES,
        lambda file: [json.dumps(to_dict(r)) for r in load_recipes(file)],
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_mutant_of_a_document_is_read_or_refused(name, tmp_path):
    file_name, seeds, load = DOCUMENTS[name]
    (tmp_path / "a.json").write_text('[{"instruction": "i", "output": "o"}]')
    (tmp_path / "b.txt").write_text("line\n")
    file = tmp_path / file_name
    taken = 0
    for seed in attempts(name, less=60):
        file.write_bytes(mutants.text(random.Random(f"{name} {seed}"), seeds))
        taken += tried(name, seed, lambda: load(file))
    assert taken  # or only what no parser takes was tried


# -- stored JSON ----------------------------------------------------------------------------------

TRIPLET = {
    "kind": "triplet",
    "name": "t",
    "anchor": {"role": "anchor", "where": "trust > 0"},
    "positive": {"role": "context"},
    "negative": {"any_section": True},
    "strategy": {"sql": "negative.date = anchor.date"},
    "by": {"bm25": {"range_max": 4, "min_score": 0.5}},
    "weight": 0.5,
    "instruction": "i",
    "per": "record",
    "sources": ["toy"],
}
VARIANT = [{"key": "a", "values": ["x", "y"], "presence": 1.0}, {"key": "b", "column": "date"}]
PREFIX = {"probability": 0.5, "variants": [VARIANT]}
MAPPING = {"text": ["t"]}
CHUNKING = dp.Chunking().to_json() | {"fingerprint": dp.Chunking().fingerprint()}
UNFINISHED = {
    "settings": {"kind": "hub", "uri": "hf://a/b", "trust": 0.5, "source": {"mapping": MAPPING}},
    "cursor": {
        "rows": 1,
        "at": {"file": "a.parquet", "row": 1},
        "of": {"revision": "0" * 40, "found": {"a": ["b", []]}, "seen": ["b"]},
    },
    "counts": dict.fromkeys(("read", "added", "replaced"), 2)
    | {"reasons": {"no text": 1}, "dropped_sections": {}},
}
SPLITS = {"train": 0.8, "validation": 0.1, "test": 0.1, "seed": 0}
TERMS = {"stemmer": "none", "stop_words": ["a"], "ignore": "[^a-z]+"}


def _all_of_unfinished(database):
    checkpoint.overview(database)
    for found in checkpoint.ingests(database):
        dp.sources.HubSource("hf://a/b text=t")
        _ = found.cursor, found.settings, found.counts
        cursor_of(found.cursor, "hf://a/b")


# Table, column, what is stored there (a setting under its name), what reads it.
STORED = {
    "recipe": ("recipes", "definition", TRIPLET, recipe_store.stored),
    "splits": ("settings", "value", SPLITS, splits.current_splits),
    "chunking": (
        *("settings", "value", CHUNKING),
        lambda db: (chunks.current_chunking(db), chunks.fingerprint(db)["weight_floor"]),
    ),
    "terms": ("settings", "value", TERMS, index.terms_of),
    "index": ("text_indexes", "terms", TERMS, index.stored),
    "prefix": ("source_prefixes", "definition", PREFIX, lambda db: prefixes.of_sources(db, 1)),
    **{
        f"unfinished {column}": ("unfinished_ingests", column, stored, _all_of_unfinished)
        for column, stored in UNFINISHED.items()
    },
}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A corpus that has a row of everything, in columns that take what is no JSON."""
    path = tmp_path_factory.mktemp("full") / "c.duckdb"
    shutil.copyfile(kept(testing.toy_corpus, 20), path)
    with dp.Corpus(path) as corpus:
        run = corpus.database.rows
        now = "now()::TIMESTAMP"
        for table, column in sorted({what[:2] for what in STORED.values()}):
            run(f"ALTER TABLE {table} ALTER {column} TYPE VARCHAR")
        run("DELETE FROM settings WHERE name IN ('terms', 'chunking')")
        run(
            f"INSERT INTO settings VALUES ('terms', '{{}}'), ('chunking', '{json.dumps(CHUNKING)}')"
        )
        run("INSERT INTO recipes VALUES ('t', 'triplet', '{}')")
        run(f"INSERT INTO text_indexes VALUES (1, 1, 'train', '{{}}', 'c', 1, 1, 1, {now})")
        run("INSERT INTO source_prefixes VALUES (1, 1, '{}')")
        columns = [json.dumps(UNFINISHED[name]) for name in ("settings", "cursor", "counts")]
        texts = ", ".join(f"'{text}'" for text in columns)
        run(f"INSERT INTO unfinished_ingests VALUES ('u', 2, {texts}, {now}, {now})")
        yield corpus


@pytest.mark.parametrize("name", STORED)
def test_a_mutant_of_stored_json_is_read_or_refused(name, full):
    table, column, given, read = STORED[name]
    where = f"WHERE name = '{name}'" if table == "settings" else ""

    def put(text):
        full.database.rows(f"UPDATE {table} SET {column} = $text {where}", {"text": text})

    put(json.dumps(given))
    read(full.database)
    for seed in attempts(name, less=8):
        put(mutants.json_text(random.Random(f"{name} {seed}"), given))
        tried(name, seed, lambda: read(full.database))
    put(json.dumps(given))


@thorough
@pytest.mark.parametrize("part", ["settings", "fingerprint", "counts", "events"])
def test_a_mutant_of_a_saved_run_is_resumed_or_refused(part, tmp_path):
    path = tmp_path / "c.duckdb"
    shutil.copyfile(kept(testing.toy_corpus, 20), path)
    with dp.Corpus(path) as corpus:
        sampler = corpus.sampler(batch_size=4, mixture={"toy": 2.0})
        next(sampler)
        sampler.set_weights({"toy": 1.0})
        file = sampler.save()
    with state._reading(file) as database:
        given = json.loads(database.rows("SELECT state FROM saves")[0][0])
    name = f"run {part}"
    with dp.Corpus(path, read_only=True) as corpus:
        for seed in attempts(name, less=3):
            text = mutants.json_text(random.Random(f"{name} {seed}"), given[part])
            whole = json.dumps({**given, part: "here"}).replace('"here"', text)
            with for_a_moment(file) as database:
                database.rows("ALTER TABLE saves ALTER state TYPE VARCHAR")
                database.rows("UPDATE saves SET state = $text", {"text": whole})
            assert len(state.cursors(file)) == 1
            tried(name, seed, lambda: next(corpus.resume("default")))


def test_what_is_damaged_can_be_put_right_as_the_error_says(full):
    run = full.database.rows
    run("UPDATE recipes SET definition = '['")
    with pytest.raises(
        dp.errors.DamagedFileError, match=r"table recipes, recipe 't': .*remove\(recipe="
    ):
        full.recipes()
    full.remove(recipe="t")
    assert full.recipes() == []
    run("INSERT INTO recipes VALUES ('t', 'triplet', '{}')")
    run("UPDATE unfinished_ingests SET settings = '[', counts = '[]'")
    with pytest.raises(dp.errors.DamagedFileError, match=r"_ingests, source 'u': .*restart=True"):
        full.unfinished()
    full.ingest([{"t": "x"}], name="u", restart=True, text="t")
    assert full.unfinished() == []
