"""Exported files are whole or absent, and what cannot be exported is one clear error."""

from dataclasses import replace

import pytest
from effort import some
from mined_by_hand import RECIPE, mine_by_hand, odd_text_corpus

import duckplets as dp
from duckplets.export import formats

ST = "sentence-transformers"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with odd_text_corpus(tmp_path_factory.mktemp("export") / "odd.duckdb", 24) as corpus:
        corpus.add_recipe(RECIPE)
        mine_by_hand(corpus)
        yield corpus


@pytest.fixture
def own(tmp_path):
    """A corpus to change, in a folder of its own."""
    (tmp_path / "own").mkdir()
    with odd_text_corpus(tmp_path / "own" / "c.duckdb", 24) as corpus:
        yield corpus


def written(corpus, path, /, **options):
    return corpus.export(path, **options)


def names(folder):
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


AUTOMODEL = "corpus", "corpus/merlin_metadata.json", "corpus/train.parquet", "train.json"
FORMATS = [
    ("flagembedding", "f.jsonl", ["f.jsonl"]),
    ("ms-swift", "m.jsonl", ["m.jsonl"]),
    (ST, "s.parquet", ["s.parquet"]),
    ("tevatron", "t", ["t", "t/corpus.jsonl", "t/train.jsonl"]),
    ("pylate", "p", ["p", "p/documents.jsonl", "p/queries.jsonl", "p/train.jsonl"]),
    ("automodel", "a", ["a", *(f"a/{name}" for name in AUTOMODEL)]),
    ("lighton", "l", ["l", "l/documents.jsonl", "l/queries.jsonl", "l/scores.jsonl"]),
    ("beir", "b", ["b", "b/corpus.jsonl", "b/qrels", "b/qrels/train.tsv", "b/queries.jsonl"]),
]


class Stop:
    """A progress that raises after so many calls."""

    def __init__(self, error, after=1):
        self.error = error
        self.after = after

    def __call__(self, done, total):
        assert total is not None
        assert 0 < done <= total
        self.after -= 1
        if not self.after:
            raise self.error


@pytest.mark.parametrize(
    ("form", "name", "files", "after"),
    some([(*each, after) for each in FORMATS for after in (1, 5)], less=2),
)
def test_ctrl_c_leaves_nothing(corpus, tmp_path, monkeypatch, form, name, files, after):
    monkeypatch.setattr(formats, "_REPORTED", 1)
    stop = Stop(KeyboardInterrupt(), after)
    with pytest.raises(KeyboardInterrupt):
        written(corpus, tmp_path / name, format=form, split="train", progress=stop)
    assert names(tmp_path) == []
    written(corpus, tmp_path / name, format=form, split="train")
    assert names(tmp_path) == files


@pytest.mark.parametrize(("form", "name", "files"), some(FORMATS, less=2))
def test_an_existing_path_stays_unless_it_is_to_be_overwritten(corpus, tmp_path, form, name, files):
    def contents():
        return {f: (tmp_path / f).read_bytes() for f in files if (tmp_path / f).is_file()}

    how = {"format": form, "split": "train"}
    written(corpus, tmp_path / name, **how)
    before = contents()
    with pytest.raises(dp.SamplerError, match=" exists"):
        written(corpus, tmp_path / name, **how)
    if len(files) > 1:
        with pytest.raises(dp.SamplerError, match="a folder is never replaced"):
            written(corpus, tmp_path / name, overwrite=True, **how)
        assert contents() == before
        return
    stop = Stop(OSError(28, "No space left on device"))
    with pytest.raises(dp.SamplerError, match="cannot write there: No space left on device"):
        written(corpus, tmp_path / name, overwrite=True, progress=stop, **how)
    assert contents() == before
    report = written(corpus, tmp_path / name, source="two", overwrite=True, **how)
    assert report.sources == ["two"]
    assert names(tmp_path) == files
    assert all(now != before[file] for file, now in contents().items())


def test_only_a_file_is_replaced(corpus, tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(dp.SamplerError, match="is no file, so it is not replaced"):
        written(corpus, tmp_path / "a.jsonl", format="flagembedding", overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(dp.SamplerError, match=" exists"):
        written(corpus, tmp_path / "link", format="beir", split="train", overwrite=True)


WRONG = [
    ({"format": "flagembeding"}, r"format='flagembeding'.*did you mean 'flagembedding'"),
    ({"format": ST, "shape": "n_tuple"}, "shape='n_tuple': give 'triplet'.*did you mean 'n-tuple'"),
    ({"format": "flagembedding", "shape": "triplet"}, "shape='triplet'.*no shapes; remove it"),
    ({"format": "beir", "negatives": 3}, r"negatives=Negatives\(3\): format='beir' has none"),
    ({"format": "beir", "scores": True}, "scores: format='beir' has no scores; remove it$"),
    ({"format": "tevatron", "scores": True}, "format='tevatron' has no scores; remove it$"),
    ({"format": ST, "negatives": 2.5}, "negatives=2.5: give an integer from 1"),
    ({"format": ST, "path": "x.csv"}, "path='x.csv': give FILE.parquet or FILE.jsonl"),
    ({"format": "flagembedding", "path": "x.parquet"}, "give FILE.jsonl or FILE.json"),
    ({"format": "tevatron", "path": "x.jsonl"}, "give a folder, for train.jsonl"),
    ({"negatives": {"when_short": "backfill"}}, "give 'keep', 'drop', 'random'"),
    (
        {"format": ST, "shape": "n-tuple", "negatives": {"when_short": "keep"}},
        "give drop or random",
    ),
    ({"format": ST, "negatives": {"when_short": "random"}, "scores": True}, "have no score"),
    ({"format": "jsonl", "scores": True}, "scores=: format='jsonl' writes all records"),
    ({"negatives": {"num": 0, "range_max": 3}}, "0 negatives give plain pairs"),
    ({"negatives": {"by": "random"}}, "an export takes the candidates of one scorer"),
    ({"format": "beir", "documents": "every"}, "give 'split', 'all'"),
    ({"format": ST, "documents": "all"}, "is for format='beir', not"),
    ({"recipe": "title_bodi"}, r"no recipe 'title_bodi' \(did you mean 'title_body'"),
    ({"recipe": "texts"}, "makes texts"),
    ({"source": "won"}, "no source 'won'"),
    ({"split": "dev"}, "split='dev': give one of train"),
    ({"split": "test"}, "split 'test': no negatives.*duckplets mine"),
    ({"recipe": "anchor_anchor"}, "'anchor_anchor', source 'one'.*mine"),
]


def test_a_wrong_argument_is_an_error_that_says_what_is_right(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, message in WRONG:
        given = {"format": "flagembedding", **options}
        folders = given["format"] in ("tevatron", "pylate", "automodel", "lighton", "beir")
        given = {"path": "out" if folders else "out.jsonl", **given}
        with pytest.raises(dp.DuckpletsError, match=message):
            written(corpus, given.pop("path"), **given)
    assert names(tmp_path) == []


def test_nothing_to_write_is_an_error_with_the_counts(own, tmp_path):
    mine_by_hand(own, left=("none",))
    with pytest.raises(
        dp.EmptyPoolError, match=r"recipe 'title_body', split 'train': nothing to write: \d+ no neg"
    ):
        written(own, tmp_path / "o.jsonl", format="flagembedding", recipe=RECIPE)
    with pytest.raises(dp.EmptyPoolError, match=r"nothing to write: .*no negative"):
        written(own, tmp_path / "o.parquet", format=ST, shape="n-tuple", recipe=RECIPE)
    nowhere = replace(RECIPE, anchor=dp.role("anchor", where="record_id = 'x'"))
    with pytest.raises(dp.EmptyPoolError, match="there is no anchor"):
        written(own, tmp_path / "b", format="beir", recipe=nowhere)
    assert names(tmp_path) == sorted(["own", *(f"own/{n}" for n in names(tmp_path / "own"))])


def test_stale_minings_are_refused_with_the_command_that_mends_them(own, tmp_path):
    mine_by_hand(own)
    written(own, tmp_path / "a.jsonl", format="flagembedding", recipe=RECIPE)
    rows = [{"id": f"r{i}", "title": f"new {i}", "bodies": [f"changed {i}"]} for i in range(1, 6)]
    own.ingest(rows, name="two", on_conflict="replace", id="id", anchor="title", context="bodies")
    with pytest.raises(dp.StateMismatchError, match=r"source 'two'.*stale.*duckplets mine"):
        written(own, tmp_path / "b.jsonl", format="flagembedding", recipe=RECIPE)
    other = replace(RECIPE, negative=dp.position(2))
    with pytest.raises(dp.StateMismatchError, match="the recipe has changed: negative"):
        written(own, tmp_path / "c.jsonl", format="flagembedding", recipe=other, source="one")
    assert names(tmp_path) == sorted(
        ["a.jsonl", "own", *(f"own/{n}" for n in names(own.path.parent))]
    )
