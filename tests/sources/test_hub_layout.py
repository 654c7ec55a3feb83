"""Which files a configuration and a split are: by the card, else by the names of files."""

import json
import random

import pytest

from duckplets.errors import SourceError
from duckplets.sources.remote.download import HubFile
from duckplets.sources.remote.grammar import parse_uri
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
    return [HubFile(name, 10, "0" * 40) for name in mixed]


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
