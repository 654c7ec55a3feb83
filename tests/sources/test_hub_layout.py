"""Which files a configuration and a split are: by the card, else by the names of files."""

import json
import random
from types import SimpleNamespace

import pytest

from duckplets.errors import SourceError
from duckplets.sources.mapping import PARTS
from duckplets.sources.remote.grammar import parse_uri
from duckplets.sources.remote.hub import HubSource
from duckplets.sources.remote.layout import Card, choose, parse_card

SHARDED = [
    *(f"data/train-{i:05d}-of-00003.parquet" for i in range(3)),
    "data/test-00000-of-00001.parquet",
    "data/train_extra-00000-of-00001.parquet",
]
FOLDERS = [*("train/shard-00000.parquet", "train/shard-00001.parquet", "test/0000.parquet")]
CONFIGS = [
    "20231101.de/train-00000-of-00002.parquet",
    "20231101.de/train-00001-of-00002.parquet",
    "20231101.en/train-00000-of-00001.parquet",
    "20231101.en/validation/0000.parquet",
]
TABLES = [
    "data/stock_news.parquet",
    "data/stock_prices.parquet",
    "data/train.parquet",
    "data/training.parquet",
]
LINES = ["train.jsonl", "dev.jsonl", "my-train-1.jsonl"]
PAPERS = [
    "README.md",
    ".gitattributes",
    "LICENSE",
    "dataset_infos.json",
    ".cache/x.parquet",
    "load.py",
]


def files(names):
    mixed = [*names, *PAPERS]
    random.Random(len(names)).shuffle(mixed)
    return [SimpleNamespace(path=name) for name in mixed]


def chosen(uri, names, card=None):
    found = choose(parse_uri(f"hf://o/n{uri}"), files(names), card or Card())
    return [file.path for file in found.files]


FOUND = [
    ("", SHARDED, sorted(SHARDED)),
    ("/default/train", SHARDED, SHARDED[:3]),
    ("/default/test", SHARDED, SHARDED[3:4]),
    ("/default/train_extra", SHARDED, SHARDED[4:]),
    ("/default/train", FOLDERS, FOLDERS[:2]),
    ("/default/test", FOLDERS, FOLDERS[2:]),
    ("/20231101.de", CONFIGS, CONFIGS[:2]),
    ("/20231101.en", CONFIGS, CONFIGS[2:]),
    ("/20231101.en/train", CONFIGS, CONFIGS[2:3]),
    ("/20231101.en/validation", CONFIGS, CONFIGS[3:]),
    ("", CONFIGS, sorted(CONFIGS)),
    ("/default/stock_news", TABLES, TABLES[:1]),
    ("/default/train", TABLES, TABLES[2:3]),
    ("", TABLES, sorted(TABLES)),
    ("/default/dev", LINES, LINES[1:2]),
    ("/default/train", LINES, LINES[:1]),
    ("/default/my", LINES, LINES[2:]),
    ("/default/train", [LINES[2], "n-train.jsonl.gz"], [LINES[2], "n-train.jsonl.gz"]),
    ("/default", ["default/train/0.parquet", "x/train/0.parquet"], ["default/train/0.parquet"]),
    ("", ["a.parquet", "b.jsonl", "c.csv"], ["a.parquet"]),
    ("", ["b.jsonl", "c.csv", "d.json"], ["b.jsonl"]),
    ("", ["c.CSV", "d.tsv", "e.txt"], ["c.CSV", "d.tsv"]),
    ("/default/c", ["a.parquet", "c.csv"], ["c.csv"]),
    ("", ["a.txt", "b.tar", "c.txt"], ["a.txt", "c.txt"]),
    ("", ["a.txt", "b.tar"], ["b.tar"]),
]


def test_names_of_files_say_what_they_are():
    for uri, names, expected in FOUND:
        assert chosen(uri, names) == expected, (uri, names)
    several = choose(parse_uri("hf://o/n"), files(["en/a.jsonl", "de/a.csv"]), Card())
    assert several.notes() == ["not read, for the format: 1 file (de/a.csv)"]


CARD = """---
license: mit
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path:
    - main/test-*
    - "main/more/**/*.jsonl"
- config_name: socratic
  default: true
  data_dir: soc
  data_files: "*.parquet"
- config_name: plain
  data_dir: data
---
# Text
"""
CARDED = [
    "main/train-0.parquet",
    "main/train-1.parquet",
    "main/test-0.jsonl",
    "main/more/a.jsonl",
    "main/more/b/c.jsonl",
    "main/other.parquet",
    "soc/x.parquet",
    "soc/sub/y.parquet",
    *SHARDED,
]


def test_a_card_says_which_files_a_configuration_has():
    for uri, expected in {
        "/main/train": CARDED[:2],
        "/main/test": sorted(CARDED[2:5]),
        "/main": sorted(CARDED[:5]),
        "/main/other": ["main/other.parquet"],
        "": ["soc/x.parquet"],
        "/socratic/train": ["soc/x.parquet"],
        "/plain/train": SHARDED[:3],
    }.items():
        assert chosen(uri, CARDED, parse_card(CARD, "hf://o/n")) == expected, uri


TOLD = [
    ("/default/validation", SHARDED, "no split or table 'validation'; there are: test, train, tra"),
    ("/default/trian", FOLDERS, "'trian' (did you mean 'train'?); there are: test, train"),
    (
        "/default/stock_new",
        TABLES,
        "(did you mean 'stock_news'?); there are: stock_news, stock_prices, train, training",
    ),
    ("/20231101.en/test", CONFIGS, "no split or table 'test'; there are: train, validation"),
    (
        "/20231101.fr",
        CONFIGS,
        "no configuration '20231101.fr' (did you mean '20231101.en'?); there are: 20231101.de, "
        "20231101.en",
    ),
    ("/en", LINES, "no configuration 'en'; it has none: write 'default'"),
    ("", [], "hf://o/n has no data files"),
    ("", ["n.py"], "hf://o/n is made by a script, n.py, and scripts are never run"),
    ("/sokratic", CARDED, "no configuration 'sokratic' (did you mean 'socratic'?); there are: ma"),
    ("/main/validation", CARDED, "no split or table 'validation'; there are: train, test"),
    ("/plain/validation", CARDED, "no split or table 'validation'; there are: test, train, train"),
    ("/main/test", CARDED[:2], r"its card lists 'main/test-*', and there is no such"),
]


def test_what_matches_nothing_says_what_there_is():
    for uri, names, said in TOLD:
        card = parse_card(CARD, "hf://o/n") if names[:1] == CARDED[:1] else None
        with pytest.raises(SourceError) as error:
            chosen(uri, names, card)
        assert said in str(error.value)
        assert str(error.value).startswith("hf://o/n")


def test_several_configurations_must_be_told_apart():
    card = parse_card(CARD.replace("  default: true\n", ""), "hf://o/n")
    with pytest.raises(SourceError) as error:
        chosen("", CARDED, card)
    assert str(error.value) == (
        "hf://o/n has several configurations; name one of main, socratic, plain, as in "
        "hf://o/n/main"
    )


PATHS = [
    ("*a" * 40, "and there is no such file"),  # no pattern takes more than a moment
    ("**/" * 40 + "*b", "and there is no such file"),
    ("[z-a]", "which is no pattern"),
    ({"a": 1}, "has {'a': 1} where paths are wanted"),
    ([None], "has None where paths are wanted"),
]


def test_cards_that_say_nothing_and_those_that_mean_nothing():
    for readme in ("", "# Text\n---\nconfigs: 1\n---\n", "---\n- a\n---\n", "---"):
        card = parse_card(readme, "hf://o/n")
        assert (card.configs, card.labels("default"), card.rows("default", None)) == ((), {}, None)
    with pytest.raises(SourceError, match=r"hf://o/n: the card in its README.md is broken YAML"):
        parse_card("---\na: [b\n---\n", "hf://o/n")
    for path, said in PATHS:
        told = {"configs": [{"config_name": "m", "data_files": [{"path": path}]}]}
        text = f"---\n{json.dumps(told)}\n---\n"
        with pytest.raises(SourceError) as error:
            chosen("", ["a/" * 20 + "a" * 200 + ".csv"], parse_card(text, "hf://o/n"))
        assert said in str(error.value)


# ---- lists of data sets: what a line may say, and what is told of one that is wrong


LINES = (
    "hf://labofsahil/hackernews-vector-search-dataset/default text=title,text",
    "  hf://wikimedia/wikipedia/20231101.en/train anchor=title positive=text   # as it comes",
    "hf://wikimedia/wikipedia/20231101.en/train\tanchor=title positive=text trust=0.9 "
    "source_id=wiki-en",
    "hf://org/noisy.crawl/default/train text=body#1 trust=0",
)


def test_a_line_gives_its_source():
    found = [HubSource(line) for line in LINES]
    assert [(s.uri, s.default_name(), s.trust) for s in found] == [
        (
            "hf://labofsahil/hackernews-vector-search-dataset",
            "labofsahil--hackernews-vector-search-dataset",
            None,
        ),
        (
            "hf://wikimedia/wikipedia/20231101.en/train",
            "wikimedia--wikipedia--20231101.en--train",
            None,
        ),
        ("hf://wikimedia/wikipedia/20231101.en/train", "wiki-en", 0.9),
        ("hf://org/noisy.crawl/default/train", "org--noisy.crawl--default--train", 0.0),
    ]
    assert found[0].part("text") == ("title", "text")
    assert found[3].part("text") == ("body#1",)


def test_a_configuration_is_default_and_a_split_all_unless_given():
    for line, config, split in (
        ("hf://o/n", "default", None),
        ("hf://o/n/", "default", None),
        ("hf://o/n/default", "default", None),
        ("hf://o/n/cfg/", "cfg", None),
        ("hf://o/n/default/stock_news", "default", "stock_news"),
        ("hf://o/n/my%20config/a%2Fb", "my config", "a/b"),
    ):
        uri = HubSource(f"{line} text=t")._uri
        assert (uri.repo, uri.config, uri.split) == ("o/n", config, split)
    uris = ["hf://a-b/c", "hf://a/b-c", "hf://a/b/c", "hf://a/b/default/c", "hf://a/b"]
    assert len({HubSource(f"{uri} text=t").default_name() for uri in uris}) == len(uris)


def test_every_key_of_a_line_or_an_argument_reaches_the_mapping():
    source = HubSource(
        "hf://o/n/c/s anchor=a1,a2 positive=p context=c1,c2 id=key date=day group=g "
        "meta=m1,m2 taxonomy=t1,t2 trust=0.25 source_id=name "
        "negative=n1,n2 created_at=made text_of=json label=l labels=dup:1,other:0"
    )
    assert source.text_of == "json"
    assert source.described()["labels"] == {"dup": 1.0, "other": 0.0}
    assert {part: named for part in PARTS if (named := source.part(part))} == {
        "anchor": ("a1", "a2"),
        "positive": ("p",),
        "context": ("c1", "c2"),
        "id": ("key",),
        "date": ("day",),
        "group": ("g",),
        "taxonomy": ("t1", "t2"),
        "meta": ("m1", "m2"),
        "negative": ("n1", "n2"),
        "created_at": ("made",),
        "label": ("l",),
    }
    assert (source.trust, source.default_name(), source.kind) == (0.25, "name", "hub")
    assert HubSource("hf://o/n converter=alpaca").converter == "alpaca"
    source = HubSource("hf://o/n positive=answer", anchor="my question", trust="score")
    assert (source.part("anchor"), source.trust) == (("my question",), "score")
    with pytest.raises(SourceError, match="anchor= is given in the line and as an argument"):
        HubSource("hf://o/n anchor=a", anchor="b")


WRONG = [
    ("positve=b", "unknown key 'positve' (did you mean 'positive'?); keys are anchor, positive"),
    ("whatever", "'whatever' is not of the form key=value"),
    ("text=b text=c", "key 'text' is given twice"),
    ("text=b trust=1.5", "trust=1.5: give a number from 0 to 1"),
    ("text=b trust=high", "trust=high: give a number"),
    ("text=b trust=", "trust= has no value"),
    ("text=a,,b", "text=a,,b: a name is missing beside a comma"),
    ("text=a,b,a", "text=a,b,a: a column is named twice"),
    ("text=a id=b,c", "id=b,c: id= takes one name"),
    ("text=a source_id=a/b", "source_id='a/b': give up to 200 printable characters without '/'"),
    ("trust=0.5", "names no text; say which columns hold it, for example hf://o/n/c/s anchor="),
    ("", "names no text"),
    ("id=a", "names no text"),
    ("positive=a", "positive= needs anchor="),
    ("text=a anchor=b", "text= is for rows of one text: leave out anchor= and positive="),
    ("converter=alpca", "did you mean 'alpaca'?"),
    ("text=a on_error=drop", "on_error='drop': give 'raise', 'skip' or 'quarantine'"),
    ("text=a weight=-1", "weight=-1: give a number of at least 0"),
    ("text=a text_columns=b", "key 'text' is given twice"),
    ("text=a date_format=x", "date_format='x': give a form of dates"),
]


WRONG_URIS = [
    ("https://huggingface.co/datasets/o/n", "is not a data set on the Hub; write hf://org/name"),
    ("org/name", "is not a data set on the Hub"),
    ("hf://org", "'hf://org': write hf://org/name"),
    *((f"hf://{uri}", "write hf://org/name") for uri in ("", "o//c", "o/n/c/s/more", "o/n/../x")),
    ("hf://datasets/o/n", "leave out 'datasets/'"),
    *(
        (f"hf://o/{name}", f"'{name}' cannot be the name of a repository")
        for name in ("n--m", "..", "n.", "n.git", "n" * 97)
    ),
]


def test_a_wrong_line_is_refused():
    lines = [(f"hf://o/n/c/s {rest}", said) for rest, said in WRONG]
    lines += [(f"{uri} text=t", said) for uri, said in WRONG_URIS]
    for line, said in lines:
        with pytest.raises(SourceError) as error:
            HubSource(line)
        assert said in str(error.value)
    with pytest.raises(SourceError) as error:  # all mistakes are reported at once
        HubSource("hf://o/n txt=a trust=2")
    assert len(str(error.value).splitlines()) == 2
    for wrong in ("", "  ", "# nothing", None, 3):
        with pytest.raises(SourceError, match="no data set"):
            HubSource(wrong)


def test_what_a_source_shows_has_no_token():
    source = HubSource("hf://o/n text=t trust=0.5 source_id=x", token="hf_secret")
    assert repr(source) == "HubSource('hf://o/n', source_id='x', text=('t',), trust=0.5)"
    assert source.settings() == {
        "uri": "hf://o/n",
        "mapping": {"text": ["t"], "on_error": "skip", "on_bad_date": "null", "trust": 0.5},
    }
