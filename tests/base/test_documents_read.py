"""Documents within limits, in every kind of file that is read; names; plain values and shapes."""

import time

import pytest
from described import sources_file
from effort import often
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.base.documents import Unreadable, parse
from duckplets.records.sources_file import load_sources

# Form, text, what is said, of files as small as they may be.
TOO_MUCH = {
    "aliases": ("YAML", "a: &a [x, x]\nb: &b [*a, *a]", "has an alias: line 2"),
    "an alias within itself": ("YAML", "a: &a [1, *a]", "has an alias: line 1"),
    "lists": ("YAML", "[" * often(100_000, less=2_000), "nested too deeply"),
    "a number of base 60": ("YAML", "a: 1" + ":1" * 50_000, "a number of more than 100 digits"),
    "no int": ("YAML", "a:\n  b: !!int ''", "is not YAML: a value is not what its tag says"),
    "no day": ("YAML", "2001-99-99", "is not YAML: month must be in 1..12"),
    "a key twice": ("YAML", "a: 1\na: 2", "line 2: key 'a' is repeated"),
    "half a pair": ("YAML", r'"\ud800"', "holds half of a pair of characters"),
    **{  # parsed, each takes seconds and a gigabyte
        f"a key {key[:9]}": ("TOML", f"a = 1\n{key} = 1", "deeply: line 2: a key of over 100 parts")
        for key in (
            *("a." * 50_000 + "b", "a . " * 50_000 + "b", '\'a.b\' .\t"c\\"".' * 9_000 + "b"),
            *(f"[{'a.' * 50_000}b]", f"[[ {'a.' * 50_000}b ]]", f"c = {{{'a.' * 50_000}b = 1}}"),
        )
    },
    "a deep key": ("TOML", "a." * 99 + "b = {c = 1}", "nested too deeply: more than 100 levels"),
    "brackets": ("TOML", "\nx = " + "[" * 100_000, "nested too deeply"),
    "a large number": ("TOML", "a = 0x" + "f" * 500, "a number of more than 100 digits"),
    "JSON": ("JSON", "[" * 100_000, "nested too deeply"),
    "levels": ("JSON", "[" * 101 + "]" * 101, "nested too deeply: more than 100 levels"),
    "half in JSON": ("JSON", r'["\udc00"]', "holds half of a pair of characters"),
}


def test_a_document_that_is_too_much_is_refused_at_once():
    for form, text, said in TOO_MUCH.values():
        began = time.process_time()
        with pytest.raises(Unreadable, match=said):
            parse(text, form)
        assert time.process_time() - began < 5


def test_what_is_nested_or_dotted_within_the_limits_is_read():
    assert parse("[" * 32 + "]" * 32, "JSON") == parse("[" * 32 + "]" * 32, "YAML")
    assert list(parse("a." * 99 + "b = 1", "TOML")) == ["a"]
    dots = "a." * 200
    for text in (
        f"x = '{dots}'",
        f'x = "\\"{dots}"',
        f"x = '''\n{dots}\n'''",
        f'x = """"{dots}"""',
    ):
        assert parse(f"#{dots}\n{text} # {dots}", "TOML")["x"].strip('"\n') == dots
    assert parse(f"x = [{'0.5, ' * 200}]", "TOML") == {"x": [0.5] * 200}
    texts = "a = '''[[[[.' '''\n'b.c' = \"]]{{\\\"\" # [[[[\n"
    assert parse(texts, "TOML") == {"a": "[[[[.' ", "b.c": ']]{{"'}


FILES = {
    "sets.yaml": (load_sources, "a: &a [x]\nb: *a"),
    "sets.toml": (load_sources, "a." * 120 + "b = 1"),
    "mixture.toml": (dp.Mixture.from_toml, "a." * 120 + "b = 1"),
    "recipes.toml": (dp.load_recipes, "a." * 120 + "b = 1"),
}


def test_every_file_has_a_limit(tmp_path):
    for name, (load, content) in FILES.items():
        file = tmp_path / name
        file.write_text(content)
        with pytest.raises(dp.DuckpletsError, match=r"alias|nested too deeply") as caught:
            load(file)
        assert str(caught.value).startswith(f"{file}: it ")
    with pytest.raises(dp.errors.MixtureError, match="is longer than"):  # without an end
        dp.Mixture.from_toml("/dev/zero")
    with pytest.raises(dp.SourceError, match="cannot be read"):
        load_sources("a\0b.yaml")


# -- names ----------------------------------------------------------------------------------------


SECTION = dp.any_section()
NAMED = {
    "recipe": lambda name: dp.TripletRecipe(name, SECTION, SECTION, SECTION),
    "text recipe": lambda name: dp.TextRecipe(name, SECTION),
    "data set on the Hub": lambda name: dp.sources.HubSource("hf://o/n text=t", source_id=name),
    "preprocessor": lambda name: dp.plugins.Preprocessor(name=name),
    "version": lambda name: dp.plugins.Preprocessor(name="mine", version=name),
    "prefix": lambda name: dp.Field(name, "value"),
}
WRONG = (" ", "\u2003 ", "", "x" * 300, "a\nb", "a\0b", "\ud800", "\u202ea", "a\x1b[2Jb", None, 3)


def test_one_law_of_names(tmp_path):
    for what, make in NAMED.items():
        make("a name, of 30 % & é漢")
        make("x" * 200)
        for wrong in WRONG:
            if not (wrong is None and what == "data set on the Hub"):  # it has one of its own
                with pytest.raises(dp.DuckpletsError, match=r"give up to 20\d printable char"):
                    make(wrong)
    sources_file(tmp_path / "d.yaml", {" ": {"path": "d.yaml", "format": "json", "text": "t"}})
    with pytest.raises(dp.SourceError, match=r"name=.*give up to 200 printable characters"):
        load_sources(tmp_path / "d.yaml")
    with toy_corpus(tmp_path / "c.duckdb", 20) as corpus:
        sampler = corpus.sampler(batch_size=2)
        for wrong in WRONG:
            rows = dp.sources.MemorySource([{"t": "x"}], text="t")
            if wrong is not None:
                with pytest.raises(dp.SourceError, match=r"source name=.*give up to 200"):
                    corpus.ingest(rows, name=wrong)
                with pytest.raises(dp.SamplerError, match=r"tag=.*give up to 200"):
                    sampler.save(tag=wrong)
            with pytest.raises(dp.SamplerError, match=r"run=.*give up to 200"):
                corpus.sampler(batch_size=2, run=wrong)
        sampler.save(tag="a/b c")


# -- many mistakes --------------------------------------------------------------------------------


def test_of_many_mistakes_ten_are_said_and_the_count(tmp_path):
    sets = tmp_path / "d.toml"
    sets.write_text("[[source]]\nsise = 1\n" * 1000)
    with pytest.raises(dp.SourceError) as caught:
        load_sources(sets)
    said = str(caught.value).splitlines()
    assert len(said) == 11
    assert said[-1].strip() == "… and 1,990 more mistakes"
