"""Real text with dirt planted in it: each row ends where it should, and all counts add up.

Python's own documentation is lines of JSON, WordNet a Parquet file, and a data set is served as by
the hub. What the planted rows come to is written beside them; what the others come to is found by
``of_clean``, which looks at a text in its own way.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import often, thorough
from gated_rows import check
from hub_data import jsonl, point_to
from hub_server import Hub
from prebuilt import empty_corpus
from programs import python

import duckplets as dp
from duckplets.cli.demo import docstrings, topics
from duckplets.quality import plugins

WORDNET = Path(__file__).parents[3] / "shared" / "corpora" / "wordnet.parquet"
FIELDS = {"title": "a title", "license": "MIT", "drop": "no"}

ACCEPTED = ("accepted", None, None)
PRIVATE = ("rejected", "content", "max_pii_density")
PROFANE = ("rejected", "content", "max_profanity_density")
HELD = ("rejected", "content", "copyright")
FOREIGN = ("rejected", "language_domain", "language")
SHORT = ("rejected", "schema", "min_characters")
UNTITLED = ("rejected", "schema", "required")
UNLICENSED = ("rejected", "schema", "licenses")
SAME_TEXT = ("rejected", "duplicates", "same text")
SAME_ID = ("rejected", "duplicates", "same id")
OTHER_CONTENT = ("rejected", "duplicates", "same id, other content")
FILTERED = ("filtered", "where", "not met")

End = tuple[str, str | None, str | None]


def unreadable(rule: str) -> End:
    return ("unreadable", None, rule)


class Planted(NamedTuple):
    """A row, as a mapping or as the bytes of its line, and how it ends."""

    row: dict[str, Any] | bytes
    end: End


ENGLISH = (
    "the river runs slowly through the green valley and people walk along it every morning because "
    "they like to see how the light falls upon the old stone bridge near the village"
)


def sentences(*words: str, count: int = 40, seed: Any = 0) -> str:
    """Return ordinary English of ``count`` words, with words put among them."""
    draw = random.Random(f"{seed}{words}{count}")
    plain = ENGLISH.split()
    found = [draw.choice(plain) for _ in range(count - len(words))]
    for word in words:
        found.insert(draw.randrange(5, len(found)), word)
    return " ".join(found)


def line(text: Any, end: End = ACCEPTED, **more: Any) -> Planted:
    row = FIELDS | {"text": text} | more
    return Planted({name: value for name, value in row.items() if value is not ...}, end)


LANGUAGES = {
    "de": "Der Fluss fließt langsam durch das grüne Tal, und jeden Morgen gehen die Leute an ihm "
    "entlang, weil sie das Licht auf der alten Brücke sehen wollen.",
    "fr": "La rivière coule lentement dans la vallée verte, et les gens s'y promènent chaque matin "
    "parce qu'ils aiment voir la lumière sur le vieux pont.",
    "es": "El río corre despacio por el valle verde, y la gente pasea por allí cada mañana porque "
    "le gusta ver la luz sobre el viejo puente de piedra.",
    "ru": "Река медленно течёт по зелёной долине, и люди гуляют вдоль неё каждое утро, потому что "
    "им нравится смотреть на свет над старым мостом.",
    "zh": "河水缓缓流过绿色的山谷，人们每天早晨沿着河边散步，因为他们喜欢看阳光照在古老的石桥上，"
    "也喜欢听鸟儿在树林里歌唱，然后慢慢走回村庄里去吃早饭。",
    "ja": "川は緑の谷をゆっくりと流れ、人々は毎朝その川に沿って歩きます。古い石の橋に光が当たるのを"
    "見るのが好きだからです。それから村に帰って朝ごはんを食べます。",
    "ar": "يجري النهر ببطء عبر الوادي الأخضر، ويمشي الناس بجانبه كل صباح لأنهم يحبون رؤية الضوء "
    "على الجسر الحجري القديم قرب القرية.",
}

PERSONAL = {
    "email": ("ann.lee@example.org",),
    "email with a tag": ("ann+news@mail.example.co.uk",),
    "phone abroad": ("+49-30-901820",),
    "phone": ("212-555-0123",),
    "ssn": ("123-45-6789",),
    "ipv4": ("81.2.69.142",),
    "card": ("4111111111111111",),
    "card in fours": ("4111-1111-1111-1111",),
    "two of two kinds": ("ann@example.org", "81.2.69.142"),
}
LOOKS_PERSONAL = {
    "card with a wrong check digit": ("4111111111111112",),
    "private network": ("192.168.1.7",),
    "this machine": ("127.0.0.1",),
    "a version of five numbers": ("1.2.3.4.5",),
    "an octet too large": ("300.2.3.4",),
    "a date": ("2024-02-29",),
    "a time": ("2024-02-29T12:30:45",),
    "ssn never given out": ("000-12-3456", "666-12-3456"),
    "a number": ("1234567890",),
    "an at sign": ("@decorator", "a@b"),
    "pi": ("3.14159",),
}
PROFANE_WORDS = ("damn", "DAMN", "damn's", "(damn)!", "damn/it")
INNOCENT = ("damnation", "goddamned", "amn", "dam")


def planted() -> dict[str, list[Planted]]:
    """Return kinds of dirt, each with the rows that show it, for the lines of JSON."""
    text = sentences(seed=1)
    nfd = sentences("cafe\u0301", seed=2)
    kinds: dict[str, list[Planted]] = {
        "copy in the source": [
            line(text),
            line(text, SAME_TEXT),
            line(text, SAME_TEXT, title="another", license="cc-by"),
            line(text.replace(" ", "  \u00a0"), SAME_TEXT),
        ],
        "equal after normalisation": [line(nfd), line(nfd.replace("e\u0301", "é"), SAME_TEXT)],
        "same id": [
            line(sentences(seed=3), id="one"),
            line(sentences(seed=3), SAME_ID, id="one"),
            line(sentences(seed=4), OTHER_CONTENT, id="one"),
        ],
        "blank": [
            line("", unreadable("no text")),
            line(" \t\n", unreadable("no text")),
        ],
        "null": [line(None, unreadable("no text"))],
        "no field": [line(..., unreadable("no text"))],
        "number": [line(17, unreadable("not text: number"))],
        "flag": [line(True, unreadable("not text: boolean"))],
        "object": [line({"a": "b"}, unreadable("not text: map"))],
        "too short": [line("x" * 49, SHORT), line("Too short.", SHORT)],
        "just long enough": [line("Fifty characters: " + "-/" * 16)],
        "no title": [
            line(sentences(seed=5), UNTITLED, title=...),
            line(sentences(seed=6), UNTITLED, title=" "),
        ],
        "no licence": [line(sentences(seed=7), UNLICENSED, license=...)],
        "forbidden licence": [line(sentences(seed=8), UNLICENSED, license="proprietary")],
        "licence in capitals": [line(sentences(seed=9), license=" CC-BY ")],
        "filtered, which holds no text": [
            line(sentences(seed=10), FILTERED, drop="yes"),
            line("x", FILTERED, drop="yes"),
            line(sentences(seed=10)),
        ],
        "rejected text holds nothing": [
            line(sentences(seed=11), UNTITLED, title=None),
            line(sentences(seed=11)),
        ],
        "density at the limit": [line(sentences("ann@example.org", count=100))],
        "density above the limit": [line(sentences("ann@example.org", count=99), PRIVATE)],
        "profanity at the limit": [line(sentences("damn", count=100))],
        "profanity above the limit": [line(sentences("damn", count=99), PROFANE)],
        "a phrase of the list": [line(sentences("son of a gun"), PROFANE)],
        "innocent words": [line(sentences(*INNOCENT))],
        "copyright": [
            line(sentences(word, seed=12), HELD) for word in ("Copyright", "©", "COPYRIGHT")
        ],
        "rights": [line(sentences("All rights reserved", seed=13), HELD)],
        "undetermined": [line("1234 5678 90 :: 12 / 77 -- 90 41 :: 66 / 13 -- 35 71 82 93 40")],
        "own condition": [
            line(sentences("zzz"), ("rejected", "content", "NOT contains(text, 'zzz')"))
        ],
        "own function": [line(sentences("SHOUT" * 40), ("rejected", "content", "quiet"))],
        "two faults, the first gate is told": [line("ann@example.org", SHORT)],
        "NUL": [line(sentences("a\0b"))],
        "line separator": [line(sentences("end.\u2028Next"))],
        "control characters": [line(sentences("a\x07b", "c\x1bd"))],
        "long line": [line(sentences(count=120_000))],
        "invalid UTF-8": [
            Planted(b'{"text": "' + b"\xff\xfe" * 40 + b'"}', unreadable("invalid UTF-8"))
        ],
        "lone surrogate": [
            Planted(b'{"text": "' + b"\\ud800 x" * 20 + b'"}', unreadable("invalid JSON"))
        ],
        "no JSON": [Planted(b"{nothing", unreadable("invalid JSON"))],
        "a scalar": [Planted(b"12", unreadable("not an object"))],
        "an array": [Planted(b'["a"]', unreadable("not an object"))],
        "carriage return": [
            Planted(
                json.dumps(FIELDS | {"id": "cr", "text": sentences(seed=14)}).encode() + b"\r",
                ACCEPTED,
            )
        ],
    }
    for name, words in PERSONAL.items():
        kinds[name] = [line(sentences(*words), PRIVATE)]
    for name, words in LOOKS_PERSONAL.items():
        kinds[name] = [line(sentences(*words, seed=15))]
    for word in PROFANE_WORDS:
        kinds[f"profane {word}"] = [line(sentences(word, seed=16), PROFANE)]
    for code, foreign in LANGUAGES.items():
        kinds[f"language {code}"] = [line(foreign, FOREIGN)]
    return kinds


@cache
def languages() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def of_clean(texts: Sequence[str], held: set[str]) -> list[End]:
    """Say how ordinary texts end, by looks of their own; ``held`` are texts that came before."""
    classify = languages().classify
    found: list[End] = []
    for text in texts:
        end = ACCEPTED
        code, share = classify(text[:500])
        if len(text) < 50:
            end = SHORT
        elif any(phrase in text.lower() for phrase in ("copyright", "©", "all rights reserved")):
            end = HELD
        elif code != "en":
            end = FOREIGN
        elif round(share, 4) < 0.9:
            end = ("rejected", "language_domain", "min_language_probability")
        elif text in held:
            end = SAME_TEXT
        if end == ACCEPTED:
            held.add(text)
        found.append(end)
    return found


def plain(texts: Sequence[str]) -> list[str]:
    """Return texts in which nothing could be taken for personal data, or be cleaned."""
    return [
        " ".join(text.split())
        for text in texts
        if "@" not in text and sum(c.isdigit() for c in text) < 7 and text.isascii()
    ]


@pytest.fixture
def quality(tmp_path: Path) -> Iterator[dp.Quality]:
    pytest.importorskip("py3langid")
    (tmp_path / "words.txt").write_text("# mild\ndamn\nson of a gun\n", encoding="utf-8")
    plugins.register_gate("quiet", lambda texts: ["SHOUT" not in text for text in texts])
    yield dp.Quality(
        required=("title",),
        licenses=("mit", "cc-by"),
        profanity=tmp_path / "words.txt",
        gates=("NOT contains(text, 'zzz')", "quiet"),
        keep_rejected=True,
    )
    plugins.GATES.clear()


def encoded(row: Planted) -> bytes:
    if isinstance(row.row, bytes):
        return row.row
    return json.dumps(row.row, ensure_ascii=False).replace("\0", "\\u0000").encode()


def shuffled(
    kinds: dict[str, list[Planted]], texts: Sequence[str], held: set[str]
) -> list[Planted]:
    """Return ordinary rows with planted ones among them, those of a kind in their order."""
    ordinary = zip(texts, of_clean(texts, held), strict=True)
    clean = [line(text, end) for text, end in ordinary]
    draw = random.Random(len(texts))
    places = {kind: sorted(draw.random() for _ in rows) for kind, rows in kinds.items()}
    mixed = [
        (at, row)
        for kind, rows in kinds.items()
        for at, row in zip(places[kind], rows, strict=True)
    ]
    mixed += [(at / (len(clean) + 1), row) for at, row in enumerate(clean)]
    rows = [row for _, row in sorted(mixed, key=lambda pair: pair[0])]
    return [
        row if isinstance(row.row, bytes) else row._replace(row={"id": f"row{at}"} | row.row)
        for at, row in enumerate(rows)
    ]


def documentation() -> list[str]:
    return plain([row["doc"] for row in docstrings()] + [row["text"] for row in topics()])


def across(held: str) -> dict[str, list[Planted]]:
    """Return what is planted in a later source: copies of an earlier one, and some other dirt."""
    return {
        "copy across sources": [line(held, SAME_TEXT)],
        "copy across sources after cleaning": [line(held.replace(" ", "\u2003"), SAME_TEXT)],
        "null": [line(None, unreadable("no text"))],
        "filtered": [line(held, FILTERED, drop="yes")],
        "short": [line("short", SHORT)],
        "private": [line(sentences("bob@example.com", seed=held), PRIVATE)],
        "forbidden": [line(sentences(seed=held + "1"), UNLICENSED, license="unknown")],
        "untitled": [line(sentences(seed=held + "2"), UNTITLED, title=None)],
        "beyond": [line(sentences(seed=held + "3"))],
    }


def ended(corpus: dp.Corpus, source: str) -> list[End]:
    rows = corpus.sql(
        "SELECT outcome, gate, rule FROM judgements WHERE source = $source ORDER BY row",
        {"source": source},
    )
    return list(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))


def add_up(corpus: dp.Corpus, report: dp.IngestReport, name: str, ends: list[End]) -> None:
    """Check that all that tells how rows ended tells the same."""
    by = Counter(outcome for outcome, _, _ in ends)
    assert (report.read, report.added, report.failed) == (
        len(ends),
        by["accepted"],
        by["unreadable"],
    )
    assert report.skipped == by["filtered"] + by["rejected"]
    reasons = Counter(
        rule if outcome == "unreadable" or gate == "source" else f"{gate}: {rule}"
        for outcome, gate, rule in ends
        if outcome != "accepted"
    )
    assert report.reasons == reasons
    (noted,) = (row for row in corpus.acquisitions().to_pylist() if row["source"] == name)
    counted = ("accepted", "filtered", "rejected", "unreadable")
    assert noted["read"] == len(ends)
    assert {outcome: noted[outcome] for outcome in counted} == {o: by[o] for o in counted}
    told = [row for row in corpus.outcomes().to_pylist() if row["source"] == name]
    found = {(row["outcome"], row["gate"], row["rule"]): row["rows"] for row in told}
    assert found == Counter(ends)


def capped(rows: list[Planted], accepted: int) -> tuple[float, list[Planted]]:
    """Return a cap in MB that is reached within an accepted row, and the rows up to that one."""
    ends = [at for at, row in enumerate(rows) if row.end == ACCEPTED][:accepted]
    *before, last = (len(dict(rows[at].row)["text"].encode()) for at in ends)
    return (sum(before) + last / 2) / 1e6, rows[: ends[-1] + 1]


@thorough
def test_every_row_of_dirtied_text_ends_where_it_should(
    tmp_path: Path, quality: dp.Quality, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds, held = planted(), set[str]()
    assert len(kinds) >= 40
    assert list(LANGUAGES) == ["de", "fr", "es", "ru", "zh", "ja", "ar"]
    columns: dict[str, Any] = {"id": "id", "text": "text", "meta": ["title", "license", "drop"]}
    half = often(300, less=100)
    docs = documentation()[: 2 * half]
    rows = shuffled(kinds, docs[:half], held)
    cut = Planted(b'{"text": "The last line is cut o', unreadable("invalid JSON"))
    lines = b"\n".join(map(encoded, [*rows, cut]))
    (tmp_path / "python.jsonl").write_bytes(b"\xef\xbb\xbf" + lines)
    sources: dict[str, tuple[Any, list[Planted], dict[str, Any]]] = {
        "python": (
            dp.JsonSource(tmp_path / "python.jsonl", **columns),
            [*rows, cut],
            {},
        )
    }
    kept = next(t for t in docs if t in held)
    if WORDNET.exists():
        table = pq.read_table(WORDNET, columns=["definition"]).slice(0, often(400, less=60))
        rows = shuffled(across(kept), plain(table["definition"].to_pylist()), held)
        pq.write_table(
            pa.Table.from_pylist([row.row for row in rows]), tmp_path / "wordnet.parquet"
        )
        sources["wordnet"] = (dp.ParquetSource(tmp_path / "wordnet.parquet", **columns), rows, {})
    rows = shuffled(across(kept + "  "), docs[half + half * 2 // 3 :], set(held))
    path, (size, read) = tmp_path / "capped.jsonl", capped(rows, half // 8)
    path.write_bytes(b"\n".join(map(encoded, rows)))
    sources["capped"] = (dp.JsonSource(path, **columns), read, {"size_mb": size})
    held |= {row.row["text"] for row in read if isinstance(row.row, dict) and row.end == ACCEPTED}
    rows = shuffled(across(kept + " "), docs[half : half + half * 2 // 3], held)
    wanted = 5
    last = [at for at, row in enumerate(rows) if row.end == ACCEPTED][wanted - 1]
    with Hub() as hub, empty_corpus(tmp_path / "c.duckdb") as corpus:
        point_to(hub, monkeypatch, tmp_path / "cache")
        hub.add("org/data", {"train.jsonl": jsonl([row.row for row in rows])})
        served = dp.HubSource("hf://org/data", **columns)
        sources["served"] = (served, rows[: last + 1], {"limit": wanted})
        corpus.normalise()
        for name, (source, planted_rows, more) in sources.items():
            given: dict[str, Any] = {
                "name": name,
                "quality": quality,
                "where": "meta['drop'] IS DISTINCT FROM 'yes'",
                "on_conflict": "skip",
                "on_error": "skip",
                "progress": False,
                **more,
            }
            report = corpus.ingest(source, **given)
            if more:  # what is full takes no more
                assert corpus.ingest(source, **given).read == 0
            ends = ended(corpus, name)
            assert len(ends) == len(planted_rows)
            pairs = zip(planted_rows, ends, strict=True)
            wrong = [(row.end, end, str(row.row)[-150:]) for row, end in pairs if row.end != end]
            assert not wrong, (name, *wrong)
            add_up(corpus, report, name, ends)
        check(corpus)


PROSE = sentences(count=80, seed="prose") + "."
SOURCE = (
    "def walk(path, found):\n    for name in path:\n        if (name in found):\n"
    "            continue\n        elif isinstance(name, str):\n"
    "            found[name] = len(path)\n"
    "        yield name, found[name]\n    return None\n"
)
ILL = "The patient with acute heart infection took aspirin after surgery. "
STORY = " ".join(sentences(count=12, seed=n).capitalize() + "." for n in range(12))
LINED = "\n".join(sentences(count=12, seed=f"l{n}").capitalize() + "." for n in range(12))

# Rules of other presets: text, and the gate and rule that it fails.
OTHERS: dict[str, list[tuple[str, str | None]]] = {
    "code": [(SOURCE, None), (PROSE, "code_score"), ("\n".join([PROSE] * 3), "code_score")],
    "report": [(PROSE, "code_early_gate"), (PROSE + "\n" + SOURCE * 3, "code_early_gate")],
    "medical": [
        (ILL * 2, None),
        (sentences("heart", "infection"), "min_domain_terms"),
        (sentences("heart", "infection", "aspirin", count=90), "min_domain_density"),
        ("A heart and a lung near the liver and one kidney of this brain and that skull.",
         "min_domain_categories"),
    ],
    "gopher": [
        (STORY, None),
        ("The cat and the dog.", "min_words"),
        (" ".join(["a b c d to be of and"] * 9), "min_word_length"),
        ("# " * 30 + STORY, "max_hashes"),
        ("... " * 40 + STORY, "max_ellipses"),
        ("\n".join("- " + part for part in LINED.split("\n")), "max_bullet_lines"),
        ("\n".join(part + "..." for part in LINED.split("\n")), "max_ellipsis_lines"),
        (" ".join(str(1000 + n) for n in range(90)) + " the of", "min_alphabetic_words"),
        (" ".join(f"{w}word" for w in STORY.lower().split()), "min_stop_words"),
        ("\n\n".join([LINED[:200]] * 3), "max_duplicate_paragraphs"),
        ("\n".join([sentences(count=12, seed="x")] * 6), "max_duplicate_lines"),
        ("children of the " * 40, "max_top_2gram"),
    ],
    "c4": [
        (LINED, None),
        ("\n".join(LINED.split("\n")[:4]), "min_sentences"),
        (LINED + "\nLorem ipsum dolor sit amet.", "lorem_ipsum"),
        (LINED + "\nIt says { and no more.", "curly_brackets"),
    ],
    "fineweb": [
        (LINED, None),
        (LINED.replace(".", ""), "min_punctuated_lines"),
        (LINED + "\nIt is so." * 40, "max_short_lines"),
        (f"{LINED}\n{LINED}", "max_duplicate_filled_characters"),
        ("\n".join("One long walk along it\n\n\n\n\n\n\n\n\nand on we go there again now, we said."
                   for _ in range(1)), "max_newlines"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("preset", OTHERS)
def test_rules_of_other_presets(tmp_path: Path, preset: str) -> None:
    rows = [{"text": text} for text, _ in OTHERS[preset]]
    quality = dp.Quality(preset=preset, language=None)
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.MemorySource(rows, text="text")
        report = corpus.ingest(source, name="s", quality=quality, progress=False)
        ends = ended(corpus, "s")
        assert [rule for _, _, rule in ends] == [rule for _, rule in OTHERS[preset]]
        add_up(corpus, report, "s", ends)


def test_a_cut_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    rows = [{"text": sentences(seed=n)} for n in range(400)]
    whole = gzip.compress(jsonl(rows))
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.JsonSource(tmp_path / "cut.jsonl.gz", text="text")
        quality = dp.Quality(language=None)
        with pytest.raises(dp.SourceError, match=r"cut\.jsonl\.gz cannot be read: .* cut short"):
            corpus.ingest(source, name="s", quality=quality, progress=False)
        assert corpus.version == 0


ACQUIRES = """
import resource, sys
from pathlib import Path
import duckplets as dp
path, rows = sys.argv[1:]
for room in sys.stdin:
    if int(room):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
    try:
        with dp.Corpus(path) as corpus:
            source = dp.JsonSource(rows, text="text")
            quality = dp.Quality(language=None)
            print(corpus.ingest(source, name="s", quality=quality, progress=False).added)
    except dp.DuckpletsError as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
"""


def test_a_full_disk_and_another_acquirer_are_one_error_each_and_lose_nothing(
    tmp_path: Path,
) -> None:
    path, file = tmp_path / "c.duckdb", tmp_path / "rows.jsonl"
    draw = random.Random(1)
    hexadecimal = [
        f"{draw.getrandbits(4000):x}" for _ in range(often(2000, less=600))
    ]  # does not compress
    file.write_bytes(jsonl([{"text": f"{n} " + text} for n, text in enumerate(hexadecimal)]))
    with python("-c", ACQUIRES, path, file, stdin=subprocess.PIPE) as other:

        def told(room: int) -> str:
            print(room, file=other.stdin, flush=True)
            return str(other.stdout.readline())

        with empty_corpus(path) as corpus:
            assert told(0).startswith("CorpusLockedError")
            assert ended(corpus, "s") == []
        assert "Error" in told(path.stat().st_size + 300_000).split()[0]
        assert other.communicate()[0] == ""
    with dp.Corpus(path) as corpus:
        assert ended(corpus, "s") == []  # a later command begins where the last commit was
        report = corpus.ingest(
            dp.JsonSource(file, text="text"),
            name="s",
            quality=dp.Quality(language=None),
            progress=False,
        )
        assert report.added == len(hexadecimal)
        add_up(corpus, report, "s", ended(corpus, "s"))
