"""Lists of data sets: what a line may say, and what is told of one that is wrong."""

import pytest

from duckplets.errors import SourceError
from duckplets.sources.mapping import PARTS
from duckplets.sources.remote.hub import HubSource, read_hub_list

GOOD = """\
# role columns with default trust and a name made of the URI
hf://labofsahil/hackernews-vector-search-dataset/default text=title,text

  hf://wikimedia/wikipedia/20231101.en/train anchor=title positive=text   # as it comes
hf://wikimedia/wikipedia/20231101.en/train\tanchor=title positive=text trust=0.9 source_id=wiki-en
hf://org/noisy#crawl/default/train text=body#1 trust=0
"""


def listed(tmp_path, text):
    path = tmp_path / "sources.txt"
    path.write_text(text, encoding="utf-8")
    return read_hub_list(path)


def test_a_list_gives_its_sources_in_order(tmp_path):
    text = GOOD.replace("noisy#crawl", "noisy.crawl")
    found = listed(tmp_path, text)
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
    assert source.label_rules() == (("dup", 1.0), ("other", 0.0))
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
    ("iajfaijww=x", "unknown key 'iajfaijww'; keys are anchor, positive, negative, context, text"),
    ("whatever", "'whatever' is not of the form key=value"),
    ("text=b text=c", "key 'text' is given twice"),
    ("text=b trust=1.5", "trust=1.5: give a number from 0 to 1"),
    ("text=b trust=-0.1", "trust=-0.1: give a number from 0 to 1"),
    ("text=b trust=nan", "trust=nan: give a number from 0 to 1"),
    ("text=b trust=high", "trust=high: give a number from 0 to 1"),
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
    ("text=a on_error=drop", "on_error='drop': give one of raise, skip, quarantine"),
    ("text=a weight=-1", "weight=-1: give a number of at least 0"),
    ("text=a weight=nan", "weight=nan: give a number of at least 0"),
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


def test_a_wrong_line_is_told_with_its_file_and_number(tmp_path):
    lines = [(f"hf://o/n/c/s {rest}", said) for rest, said in WRONG]
    lines += [(f"{uri} text=t", said) for uri, said in WRONG_URIS]
    lines.append(("hf://o/fine text=b", ": the name 'o--fine' is taken by line 2; give a sour"))
    for line, said in lines:
        with pytest.raises(SourceError) as error:
            listed(tmp_path, f"# one\nhf://o/fine text=t\n\n{line}\n")
        assert str(error.value).startswith(f"{tmp_path / 'sources.txt'}:4: ")
        assert said in str(error.value)
    with pytest.raises(SourceError) as error:  # all that is wrong is told at once
        listed(tmp_path, "hf://o/n txt=a trust=2\n\nhf://o/m text=a\nnonsense text\n")
    told = str(error.value).splitlines()
    starts = [line.removeprefix(f"{tmp_path / 'sources.txt'}:").split(" ")[0] for line in told]
    assert starts == ["1:", "1:", "4:", "4:"]


def test_a_list_that_cannot_be_used_is_told(tmp_path):
    path = tmp_path / "sources.txt"
    for content, said in (
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"# nothing\n\n", "names no data set; a line of it is hf://org/name/config/split"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SourceError) as error:
            read_hub_list(path)
        assert str(error.value).startswith(f"{path} ")
        assert said in str(error.value)
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
