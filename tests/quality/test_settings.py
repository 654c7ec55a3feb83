"""Settings: presets, files and what is refused; gates and detectors of the user's own."""

import builtins
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import duckplets as dp
from duckplets.db.database import Database
from duckplets.quality import language, plugins
from duckplets.quality.decide import decide, needed
from duckplets.quality.measure import measure, measured, ready
from duckplets.quality.settings import PRESETS, SETTINGS

LONG = "This is a text of some words that is long enough to be looked at. "


@pytest.fixture(autouse=True)
def _no_gates_are_left():
    yield
    plugins.GATES.clear()
    plugins.DETECTORS.clear()


def file(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def rules(texts, quality):
    database = Database.reader()
    table = pa.table({"row": pa.array(range(len(texts))), "text": texts})
    return decide(database, measure(database, table, quality), quality)["rule"].to_pylist()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_what_they_store(name):
    quality = dp.Quality(name)
    stored = json.loads(json.dumps(quality.to_dict()))
    assert set(stored) == {"preset", "sha256", *SETTINGS}
    assert dp.Quality.of(stored) == quality == dp.Quality.of(name) == replace(quality)
    assert dp.Quality.of(stored).fingerprint() == quality.fingerprint()
    assert dp.Quality.of(quality) is quality


def test_fingerprints_follow_what_decides(tmp_path):
    first, second = (file(tmp_path, name, "damn\n#\nhell") for name in ("a.txt", "b.txt"))
    base = dp.Quality(profanity=first)
    assert dp.Quality(profanity=second).fingerprint() == base.fingerprint()
    assert (
        dp.Quality(profanity=Path(first), keep_rejected=False).fingerprint() == base.fingerprint()
    )
    assert dp.Quality(preset="medical", profanity=first).fingerprint() != base.fingerprint()
    stored = base.to_dict()
    file(tmp_path, "a.txt", "hell\nDAMN\n")
    assert dp.Quality.of(stored) == base  # the same words
    file(tmp_path, "a.txt", "hell")
    assert dp.Quality(profanity=first).fingerprint() != base.fingerprint()
    with pytest.raises(dp.errors.QualityError, match="its words have changed"):
        dp.Quality.of(stored)


def test_a_file_has_all_settings(tmp_path):
    file(tmp_path, "words.txt", "damn")
    file(tmp_path, "terms.json", '{"plants": ["oak tree", "Elm"], "animals": ["elk"]}')
    toml = (
        '[quality]\npreset = "medical"\nlanguage = false\nmin_characters = 10\n'
        'profanity = "words.txt"\nvocabulary = "terms.json"\nduplicates = false\n'
        "min_domain_density = 0.2\nmax_profanity_density = false\n"
    )
    quality = dp.Quality.of(file(tmp_path, "quality.toml", toml))
    assert quality == dp.Quality.from_toml(tmp_path / "quality.toml")
    assert (quality.language, quality.duplicates, quality.max_profanity_density) == (
        None,
        False,
        None,
    )
    assert quality.terms.terms == (("animals", "elk"), ("plants", "elm"), ("plants", "oak tree"))
    texts = ["an elk below an oak  tree and an elm", "an elk, an elk, an elk", "elms of elk trees"]
    assert rules(texts, quality) == [None, "min_domain_categories", "min_domain_terms"]
    assert dp.Quality.of(file(tmp_path, "flat.toml", 'preset = "code"')) == dp.Quality(
        preset="code"
    )


WRONG = [
    ({"preset": "medcal"}, r"did you mean 'medical'\?"),
    ({"min_characters": -1}, "min_characters=-1: give an integer from 0"),
    ({"max_bullet_lines": 1.1}, "max_bullet_lines=1.1: give a finite number from 0 to 1 or None"),
    ({"max_pii_density": float("nan")}, "max_pii_density=nan"),
    ({"duplicates": 1}, "duplicates=1: give True or False"),
    ({"pii": "drop"}, "pii='drop': give 'reject', 'redact' or None"),
    ({"pii_kinds": ("email", "phones")}, "did you mean 'phone'"),
    ({"copyright": "©"}, "copyright='©': give a list of texts"),
    ({"licenses": ()}, r"licenses=\(\): give one or more"),
    ({"required": ("",)}, "required"),
    ({"language": "eng"}, r"language='eng' \(did you mean 'en'\?\): py3langid knows"),
    ({"language": "en", "detector": "mine"}, "detector 'mine' is not registered"),
    ({"language_prefix": 0}, "language_prefix=0"),
    ({"undetermined": None}, "undetermined=None"),
    ({"gates": ("word > 3",)}, "unknown column word"),
    ({"gates": ("words",)}, "words is a value, not a condition"),
    ({"gates": ("toxicity",)}, "gate 'toxicity' is not registered"),
    ({"gates": ("(SELECT 1) = 1",)}, "a subquery is not allowed"),
    ({"gates": ("random() < 0.5",)}, "random is not allowed"),
]


NO_SETTINGS = [
    ("generel", "did you mean 'general'"),
    (7, "quality=7: expected one of"),
    ({"min_character": 3}, "unknown key 'min_character' .did you mean 'min_characters'"),
    ("nothing.toml", "there is no such file"),
]


def test_wrong_settings():
    for settings, message in WRONG:
        with pytest.raises(dp.errors.QualityError, match=message):
            dp.Quality(**settings)
    for value, message in NO_SETTINGS:
        with pytest.raises(dp.errors.QualityError, match=message):
            dp.Quality.of(value)
    for name in ("", "Upper", "two words", "a-b"):
        with pytest.raises(dp.errors.QualityError, match=r"gate(:)? name"):
            dp.plugins.register_gate(name, lambda texts: [True] * len(texts))
    with pytest.raises(dp.errors.QualityError, match="expected a function"):
        dp.plugins.register_gate("mine", 3)
    dp.plugins.register_gate("words", lambda texts: [True] * len(texts))
    with pytest.raises(dp.errors.QualityError, match="gate name 'words' is the name of a metric"):
        dp.Quality(gates=("bytes > 3",))


FILES = [
    ("profanity", "w.txt", None, "there is no such file"),
    ("profanity", "w.txt", "", "it holds no words"),
    ("profanity", "w.txt", "# only\n\n", "it holds no words"),
    ("profanity", "w.txt", b"\xff\xfe", "it is not UTF-8"),
    ("profanity", "w.txt", "ok\n---\n", "line 2: '---' is no word"),
    ("profanity", "w.txt", "x" * 101, "line 1"),
    ("vocabulary", "v.json", None, "there is no such file"),
    ("vocabulary", "v.json", "", "it is not JSON"),
    ("vocabulary", "v.json", "[]", "expected categories with lists of terms"),
    ("vocabulary", "v.json", '{"a": []}', "category 'a': expected categories"),
    ("vocabulary", "v.json", '{"a": [1]}', "1 is no word"),
    ("vocabulary", "v.toml", 'a = "heart"', "category 'a': expected categories"),
    ("vocabulary", "v.toml", "a = [", "it is not TOML"),
    ("vocabulary", "v.txt", "heart", "ends in .json or .toml"),
]


def test_wrong_word_files(tmp_path):
    for setting, name, content, message in FILES:
        path = str(tmp_path / name) if content is None else file(tmp_path, name, content)
        with pytest.raises(dp.errors.QualityError, match=message) as raised:
            dp.Quality(**{setting: path})
        assert str(raised.value).startswith(path)


def test_the_largest_word_files_are_measured(tmp_path):
    letters = "abcdefghijkl"
    many = [a + b + c + d + "zzzz" for a in letters for b in letters for c in letters for d in "mn"]
    terms = [a + word for a in "opqrs" for word in many]
    quality = dp.Quality(
        preset="c4",
        min_sentences=None,
        profanity=file(tmp_path, "w.txt", "\n".join(many[:3125])),
        vocabulary=file(tmp_path, "v.json", json.dumps({"all": terms[:16_666]})),
        min_domain_terms=2,
    )
    texts = [f"{terms[5]} {terms[16_000]}", f"{many[3]} x", "x"]
    assert rules(texts, quality) == [None, "max_profanity_density", "min_domain_terms"]
    with pytest.raises(
        dp.errors.QualityError, match="its words have 25,008 characters; 25,000 are"
    ):
        dp.Quality(profanity=file(tmp_path, "w.txt", "\n".join(many[:3126])))


def test_conditions_and_functions_are_gates():
    dp.plugins.register_gate(
        "shouting", lambda texts: [sum(map(str.isupper, t)) / len(t) for t in texts]
    )
    dp.plugins.register_gate("polite", lambda texts: ["please" in text for text in texts])
    quality = dp.Quality(
        language=None,
        gates=("polite", "shouting < 0.5", "words >= 3", "NOT contains(text, 'x') AND words < 9"),
    )
    texts = ["please " * 8, "a " * 50, "please" + "A" * 50, "please" * 10, "please, x " * 8]
    assert rules(texts, quality) == [
        *(None, "polite", "shouting < 0.5"),
        *("words >= 3", "NOT contains(text, 'x') AND words < 9"),
    ]
    assert {name for name in needed(quality) if name.startswith("own:")} == {
        *("own:polite", "own:shouting", "own:NOT contains(text, 'x') AND words < 9")
    }
    dp.plugins.register_gate("shouting", lambda texts: [0.0] * len(texts), version="2")
    other = measured(dp.Quality.of(quality.to_dict()))
    assert {name for name, key in measured(quality).items() if other[name] != key} == set()
    assert other["own:shouting"] == "2"


FAILING = [
    (lambda texts: 1 / 0, "bad", "gate 'bad' failed on 1 texts: ZeroDivisionError"),
    (lambda texts: [], "bad", "returned 0 values for 1 texts"),
    (lambda texts: [0.5], "bad", "returned 0.5: expected bools, or compare it"),
    (lambda texts: ["yes"], "bad < 1", "returned 'yes': expected bools or finite numbers"),
    (lambda texts: [float("inf")], "bad < 1", "returned inf"),
]


def test_a_function_that_fails_says_which():
    for function, gate, message in FAILING:
        dp.plugins.register_gate("bad", function)
        with pytest.raises(dp.errors.QualityError, match=message):
            rules(["text"], dp.Quality(language=None, gates=(gate,)))


def test_detectors_of_the_users_own():
    seen = []

    def mine(texts):
        seen.extend(texts)
        return [("xx" if "ø" in text else "yy", 0.87654321) for text in texts]

    dp.plugins.register_detector("mine", mine, languages={"xx", "yy"})
    quality = dp.Quality(language="xx", detector="mine", min_language_probability=0.8765)
    texts = [LONG + "ø", LONG, "ø" * 60, "12 " * 20]
    assert rules(texts, quality) == [None, "language", None, None]
    table = pa.table({"row": [1], "text": [LONG]})
    found = measure(Database.reader(), table, quality)
    assert found["language_probability"].to_pylist() == [0.8765]
    seen.clear()  # only the beginning is looked at
    rules([LONG * 9, "é" * 40, "1" * 30 + LONG], replace(quality, language_prefix=30))
    assert seen == [(LONG * 9)[:30], "é" * 30]
    dp.plugins.register_detector("mine", lambda texts: [("zz", 1.0)] * len(texts), languages={"xx"})
    with pytest.raises(dp.errors.QualityError, match="expected a pair of one of its languages"):
        rules([LONG], quality)


def test_without_the_extra_it_is_an_error_with_the_command(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("py3langid"):
            raise ImportError(name)
        return real(name, *args, **options)

    language._py3langid.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(dp.errors.ExtensionError, match=r"pip install 'duckplets\[quality\]'"):
        ready(dp.Quality())
    ready(dp.Quality(language=None))
    assert rules(["x" * 60], dp.Quality(language=None)) == [None]
