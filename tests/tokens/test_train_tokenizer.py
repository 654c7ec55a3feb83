"""A tokenizer trained on a corpus: what it sees, when it is trained again, and its fingerprint."""

import hashlib
import sys

import pytest
from corpora import WORDS
from effort import often, some

import duckplets as dp

tokenizers = pytest.importorskip("tokenizers")
FILES = ("tokenizer.json", "tokenizer-vocab.json", "tokenizer-merges.txt")


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "words.duckdb"
    rows = [
        {"t": f"{WORDS[n % 16]} {WORDS[n * 7 % 16]}  {'secret' * (n % 3)} naïve {n} 名前"}
        for n in range(often(400, less=200))
    ]
    with dp.Corpus(path) as corpus:
        corpus.ingest(rows, name="words", text="t")
        corpus.ingest([{"t": "zzzzqq " * 50}], name="rare", text="t")
        corpus.split(train=0.7, validation=0.1, test=0.2, seed=1)
    return path


def trained(corpus_file, out, **options):
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        return dp.train_tokenizer(corpus, out, **{"vocab_size": 330, **options})


@pytest.fixture(scope="module")
def report(corpus_file):
    return trained(corpus_file, corpus_file.parent / "tokenizer", sources=["words"])


def test_it_encodes_any_text_and_its_files_have_their_fingerprint(report, corpus_file):
    made = tokenizers.Tokenizer.from_file(str(report.path))
    for text in ("alpha beta", " </s>", "名前 ✓ \n\t \x00", "naïve"):
        assert made.decode(made.encode(text).ids, skip_special_tokens=False) == text
    specials = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")
    assert [made.token_to_id(each) for each in specials] == list(range(5))
    vocabulary, merges = (report.path.with_name(name).read_bytes() for name in FILES[1:])
    assert report.fingerprint == hashlib.sha256(vocabulary + merges).hexdigest()
    assert report.vocab_size == made.get_vocab_size() <= 330
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        where = "split = 'train' AND source = 'words'"
        train = corpus.sql(f"FROM live_records WHERE {where}").num_rows
    assert report.texts + report.held_out == train
    assert 0.03 < report.held_out / train < 0.2
    assert report.bytes_per_token is not None
    assert 1 < report.bytes_per_token < 10


def test_texts_trained_on_and_held_out_are_written_where_asked_for(corpus_file, tmp_path):
    report = trained(corpus_file, tmp_path, sources=["words"], texts=True)
    read = [(tmp_path / f"{name}.txt").read_text("utf-8").splitlines() for name in ("train", "val")]
    assert [*map(len, read)] == [report.texts, report.held_out]
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        where = "split = 'train' AND source = 'words'"
        texts = corpus.sql(f"SELECT text FROM section_texts WHERE {where}")["text"].to_pylist()
    assert sorted(read[0] + read[1]) == sorted(" ".join(text.split()) for text in texts)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "val.txt").write_text("mine")
    with pytest.raises(dp.errors.ShardError, match=r"another val\.txt in it"):
        trained(corpus_file, tmp_path / "other", sources=["words"], texts=True)


def test_it_is_trained_again_only_where_something_changed(corpus_file, report):
    out = report.path.parent
    again = trained(corpus_file, out, sources=["words"])
    assert not again.trained
    assert (again.fingerprint, again.bytes_per_token) == (
        report.fingerprint,
        report.bytes_per_token,
    )
    for name in some(FILES, less=2):
        content = (out / name).read_bytes()
        (out / name).write_bytes(content[:-1])
        with dp.Corpus(corpus_file, read_only=True) as corpus:
            if name == FILES[0]:
                (out / name).write_bytes(content + b" ")  # still a tokenizer, but another file
                with pytest.raises(dp.errors.DamagedFileError, match="not as it was written"):
                    corpus.shard(out.parent / "none", tokenizer=out)
        mended = trained(corpus_file, out, sources=["words"])
        assert (mended.trained, mended.why) == (True, f"{name} is damaged or missing")
        assert (out / name).read_bytes() == content
    (out / "export_state.json").write_text("{")
    assert trained(corpus_file, out, sources=["words"]).why == "export_state.json is damaged"
    other = trained(corpus_file, out, sources=["words"], vocab_size=300)
    assert (other.trained, other.why) == (True, "settings changed")
    assert trained(corpus_file, out, sources=["words"]).fingerprint == report.fingerprint


WRONG = [
    ({"split": "test"}, "evaluation would be biased"),
    ({"split": "tset"}, "give one of train"),
    ({"vocab_size": 100}, "vocab_size=100"),
    ({"special": ["<s>", "<s>"]}, "each token once"),
    ({"sources": ["wrods"]}, "did you mean 'words'"),
]


def test_what_cannot_be_had_is_said_and_files_of_others_are_left_alone(
    corpus_file, tmp_path, monkeypatch
):
    (tmp_path / "tokenizer.json").write_text("mine")
    with pytest.raises(dp.errors.ShardError, match="another tokenizer"):
        trained(corpus_file, tmp_path)
    assert (tmp_path / "tokenizer.json").read_text() == "mine"
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        for options, says in WRONG:
            with pytest.raises(ValueError, match=says) as caught:
                dp.train_tokenizer(corpus, tmp_path / "out", **options)
            assert isinstance(caught.value, dp.DuckpletsError)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(dp.errors.ExtensionError, match=r"pip install 'duckplets\[tokenizers\]'"):
        trained(corpus_file, tmp_path / "out")
