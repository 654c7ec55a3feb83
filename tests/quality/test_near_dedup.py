"""Near-duplicates: what is found, what stays, and that nothing else decides it."""

import math
import random
import re

import pytest
from commands import ok as run
from effort import often, some, thorough
from prebuilt import prebuilt

import duckplets as dp
from duckplets.errors import ReadOnlyError, SamplerError

WORDS = [f"word{i}" for i in range(3000)]
GRAMS = 200  # of a text


def text_of(seed, changed=0):
    """Return words whose 5-grams nobody else has; of the last some, others."""
    draw = random.Random(str(seed))
    words = draw.choices(WORDS, k=GRAMS + 4)
    return words[: len(words) - changed] + draw.choices(WORDS, k=changed)


def jaccard(one, other, n=5):
    """Return the similarity as one would write it."""
    a, b = ({tuple(w[i : i + n]) for i in range(max(1, len(w) - n + 1))} for w in (one, other))
    return len(a & b) / len(a | b)


def filled(path, texts, threads=None):
    """Return a corpus of sources, each with texts by id."""
    corpus = dp.Corpus(path, threads=threads)
    for name, of in texts.items():
        rows = [{"id": key, "text": text} for key, text in of.items()]
        corpus.ingest(rows, name=name, id="id", text="text")
    return corpus


def clusters(corpus):
    """Return the survivor of each cluster with its duplicates and their similarity."""
    rows = corpus.sql(
        "SELECT cluster, record_id, survivor, similarity FROM clusters "
        "JOIN records USING (record_key) ORDER BY version, cluster, NOT survivor, record_key"
    ).to_pylist()
    found = []
    for row in rows:
        if row["survivor"]:
            found.append((row["record_id"], {}))
        else:
            found[-1][1][row["record_id"]] = row["similarity"]
    return found


def ids(corpus):
    """Return the records of the newest version, in order."""
    rows = corpus.sql("SELECT record_id FROM live_records ORDER BY source_id, record_key")
    return list(rows["record_id"].to_pylist())


PAIRS = [(f"p{i}", i % 50) for i in range(150)]  # up to 49 of 200 n-grams differ: .61 to 1


@prebuilt
def planted(path):
    """Return a corpus of pairs whose texts differ in some words at their end."""
    both = {f"{name}{side}": text_of(name, n * side) for name, n in PAIRS for side in (0, 1)}
    return filled(path, {"s": {key: " ".join(words) for key, words in both.items()}})


def test_pairs_from_the_threshold_on_are_found_and_no_others(tmp_path):
    with planted(tmp_path / "c.duckdb") as corpus:
        report = corpus.deduplicate(action="mark")
        found = {next(iter(of)): (head, of) for head, of in clusters(corpus)}
    truth = {f"s/{name}1": jaccard(text_of(name), text_of(name, n)) for name, n in PAIRS}
    near = {key for key, similarity in truth.items() if similarity >= 0.85}
    assert 40 < len(near) < len(truth)
    assert found.keys() <= near  # nothing below the threshold: precision is 1
    assert len(found) >= 0.95 * len(near)  # recall
    for key, (head, of) in found.items():
        assert head == f"{key[:-1]}0"
        assert of == {key: pytest.approx(truth[key])}
    assert report.records == 300
    s = report.settings
    assert report.recall == pytest.approx(1 - (1 - 0.85**s.rows) ** s.bands, abs=1e-4)
    assert report.duplicates == report.clusters == len(found)
    assert report.by_source == [
        {"source": "s", "split": None, "records": 300, "duplicates": len(found)}
    ]
    heads = [f"s/{name}0" for name, _ in PAIRS if f"s/{name}1" in found]
    assert [example["survivor"] for example in report.examples] == heads[:5]


@pytest.mark.parametrize("seed", some(range(5), less=1))
def test_clusters_are_the_components_of_all_pairs(tmp_path, seed):
    draw = random.Random(seed)
    few = [" ".join(draw.choices("abcdefgh", k=3)) for _ in range(6)]
    texts = [" ".join(draw.choices(few, k=draw.randint(1, 4))).split() for _ in range(60)]
    with filled(
        tmp_path / "c.duckdb", {"s": {str(i): " ".join(t) for i, t in enumerate(texts)}}
    ) as c:
        # Of 60 bands of one row each hardly any pair from .3 on is not a candidate.
        c.deduplicate(0.3, ngram=2, bands=60, rows=1, action="mark")
        found = {(head, *sorted(of)) for head, of in clusters(c)}
    label = list(range(len(texts)))
    for i, one in enumerate(texts):
        for j in range(i):
            if jaccard(one, texts[j], 2) >= 0.3 and label[i] != label[j]:
                low, high = sorted((label[i], label[j]))
                label = [low if each == high else each for each in label]
    groups = ([f"s/{i}" for i, each in enumerate(label) if each == head] for head in set(label))
    expected = {(group[0], *sorted(group[1:])) for group in groups if len(group) > 1}
    assert found == expected
    assert expected


def test_neither_order_nor_threads_decide_what_belongs_together(tmp_path):
    every = {f"{n}{s}": " ".join(text_of(n, k * s)) for n, k in PAIRS[:30] for s in (0, 1)}
    found = []
    for threads, order in ((1, list(every)), (2, random.Random(1).sample(list(every), len(every)))):
        path = tmp_path / f"{threads}.duckdb"
        with filled(path, {"s": {key: every[key] for key in order}}, threads=threads) as corpus:
            corpus.deduplicate()
            of_all = clusters(corpus)
            shares = sorted(share for _, of in of_all for share in of.values())
            found.append(({frozenset({head, *of}) for head, of in of_all}, shares))
            rank = {f"s/{key}": i for i, key in enumerate(order)}
            assert all(rank[head] < min(rank[key] for key in of) for head, of in of_all)
            assert set(ids(corpus)) == rank.keys() - {key for _, of in of_all for key in of}
    assert found[0] == found[1]
    assert len(found[0][0]) > 10


def chain():
    """Return texts each near to the next only, over two sources."""
    words = [text_of("chain", n) for n in (0, 14)]
    words.append(text_of("other", 0)[:14] + words[1][14:])
    a, b, c = (" ".join(each) for each in words)
    return {"late": {"b": b, "far": " ".join(text_of("far"))}, "x": {"c": c, "a": a}}


def test_what_is_linked_through_others_is_one_cluster_and_the_first_stays(tmp_path):
    with filled(tmp_path / "c.duckdb", chain()) as corpus:
        # A later record of the first source comes before all of the second.
        more = [{"id": "z", "text": chain()["x"]["a"].upper().replace(" ", " - ")}]
        corpus.ingest(more, name="late", id="id", text="text")
        corpus.deduplicate(action="mark")
        ((head, of),) = clusters(corpus)
        assert head == "late/b"
        assert of.keys() == {"late/z", "x/c", "x/a"}
        assert all(0.85 <= similarity < 1 for similarity in of.values())
        assert of["late/z"] == of["x/a"]
    turned = {"x": chain()["x"], "late": chain()["late"]}
    with filled(tmp_path / "d.duckdb", turned) as corpus:
        corpus.deduplicate(action="mark")
        ((head, of),) = clusters(corpus)
        assert head == "x/c"
        assert of["x/a"] < 0.85 <= of["late/b"]  # linked by the third


def test_removing_makes_a_version_and_again_nothing(tmp_path):
    path = tmp_path / "c.duckdb"
    texts = {str(i): " ".join(text_of(i % 20)) for i in range(40)}  # twenty, each twice
    with filled(path, {"s": texts}) as corpus:
        corpus.split(1, 0, 0)
        with corpus.sampler(
            "texts", batch_size=40, run="before", options=dp.Options(prefetch=0)
        ) as sampler:
            sampler.save()
            before = sorted(next(sampler)["text"])
        dry = corpus.deduplicate(dry_run=True)
        assert (dry.action, dry.duplicates, dry.version) == ("none", 20, 1)
        assert not clusters(corpus)
        marked = corpus.deduplicate(action="mark")
        assert corpus.deduplicate(action="mark").clusters == marked.clusters == 20
        assert len(clusters(corpus)) == 20  # not stored twice
        assert corpus.version == 1
        done = corpus.deduplicate()
        assert (done.duplicates, done.version, corpus.version) == (20, 2, 2)
        assert ids(corpus) == [f"s/{i}" for i in range(20)]
        again = corpus.deduplicate()
        assert (again.duplicates, again.version, corpus.version) == (0, 2, 2)
        corpus.deduplicate(action="mark")
        rows = corpus.sql("SELECT version, action, count(*) AS n FROM clusters GROUP BY ALL")
        assert sorted(map(tuple, (row.values() for row in rows.to_pylist()))) == [
            (1, "mark", 40),
            (2, "remove", 40),
        ]
        told = corpus.sql("SELECT report::VARCHAR AS r FROM corpus_versions WHERE version = 2")
        assert '"removed": 20' in told["r"][0].as_py()
    with dp.resume(path, "before") as sampler:  # pinned to what it began with
        assert sorted(next(sampler)["text"]) == before
    refused = pytest.raises(ReadOnlyError, match="cannot deduplicate")
    with dp.Corpus(path, read_only=True) as corpus, refused:
        corpus.deduplicate()
    with dp.Corpus(path) as corpus:  # the source has them still
        rows = [{"id": key, "text": text} for key, text in texts.items()]
        report = corpus.ingest(rows, name="s", text="text", id="id")
        assert report.added == 20
        assert [note for note in report.notes if note.startswith("look: 20 records that dedup")]
    told = run("deduplicate", path, "--dry-run")
    assert re.search(r"^clusters +20\nduplicates +20\n", told, re.MULTILINE)
    assert re.search(r"^action +none$", told, re.MULTILINE)
    told = run("deduplicate", path, "--near", "0.9")
    assert re.search(r"^recall +0\.991", told, re.MULTILINE)
    assert "s/0       record_id: s/20, similarity: 1" in told


SHORT = {
    "two": "Two words",
    "again": "two, words!",
    "others": "two worlds",
    "signs": "*** !!!",
    "same": "***  !!!",
    "more": "*** !!! ***",
    "han": "東京都は日本の首都です",
    "kana": "東京都は、日本の首都です。",
    "far": "大阪市は日本の都市です",
    "accents": "Ein\u0301 e\u0301tat",
    "marks": "ein\u0301 E\u0301TAT",
    "dash": "ein\u0301-état",
    "empty record": "-",
}


def test_short_texts_signs_and_scripts_without_spaces(tmp_path):
    with filled(tmp_path / "c.duckdb", {"s": SHORT}) as corpus:
        corpus.deduplicate(action="mark")
        found = {head: set(of) for head, of in clusters(corpus)}
    assert found == {
        "s/two": {"s/again"},
        "s/signs": {"s/same"},
        "s/han": {"s/kana"},
        "s/accents": {"s/marks"},
    }


WRONG = [
    ({"near": 0}, r"near=0: give a finite number above 0 to 1"),
    ({"near": float("nan")}, "near=nan"),
    ({"ngram": 0}, "ngram=0: give an integer from 1"),
    ({"bands": 0}, "bands=0"),
    ({"rows": 1.5}, r"rows=1\.5"),
    ({"seed": -1}, "seed=-1"),
    ({"action": "drop"}, "action='drop': give 'mark' or 'remove'"),
]


def test_wrong_arguments_are_refused(tmp_path):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.deduplicate()
        assert (report.records, report.clusters, corpus.version) == (0, 0, 0)
        for given, told in WRONG:
            with pytest.raises(SamplerError, match=told):
                corpus.deduplicate(**given)


def near_pairs(near, count):
    """Yield pairs of 100 different words each, whose similarity is just above a threshold."""
    shared = math.ceil(200 * near / (1 + near))
    for n in range(count):
        words = random.Random(f"{near} {n}").sample(range(10**6), 200 - shared)
        one, other = words[:100], words[:shared] + words[100:]
        yield " ".join(map(str, one)), " ".join(map(str, other))


@thorough
@pytest.mark.parametrize("near", [0.5, 0.6, 0.7, 0.8, 0.85, 0.95])
def test_bands_follow_the_threshold(tmp_path, near):
    count = often(2000, less=200)
    texts = {
        f"{i}{j}": t for i, pair in enumerate(near_pairs(near, count)) for j, t in enumerate(pair)
    }
    with filled(tmp_path / "c.duckdb", {"s": texts}) as corpus:
        report = corpus.deduplicate(near, ngram=1, dry_run=True)
        few = corpus.deduplicate(near, ngram=1, bands=2, rows=3, dry_run=True)
    assert report.clusters >= 0.97 * count  # in any 200; of all .99 and more
    assert report.recall >= 0.99
    s = report.settings
    assert report.recall == pytest.approx(1 - (1 - near**s.rows) ** s.bands, abs=1e-4)
    assert few.recall == pytest.approx(1 - (1 - near**3) ** 2, abs=1e-4)
    assert few.clusters / count == pytest.approx(few.recall, abs=0.12)
