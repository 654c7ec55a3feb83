"""An error of writing names the file: every output, where a file may have one kilobyte."""

import json
import sys

from prebuilt import copied
from programs import ran, said

import duckplets as dp
from duckplets.testing import toy_corpus

# What writes, by the name that its error must have.
WRITERS = {
    "s.jsonl": "sample('s.jsonl')",
    "s.parquet": "sample('s.parquet')",
    "f.jsonl": "corpus.export('f.jsonl', 'flagembedding', **quiet)",
    "t": "corpus.export('t', 'tevatron', **quiet)",
    "p.parquet": "corpus.export('p.parquet', 'sentence-transformers', **quiet)",
    "b": "corpus.export('b', 'beir', **quiet)",
    "l.jsonl": "corpus.export('l.jsonl', 'jsonl')",
    "r.html": "corpus.report('r.html')",
    ".new.duckdb: ": "corpus.mine(query_tokens=5, **quiet)",
    ".candidates/part-": "corpus.rescore(lambda pairs: [1.0] * len(pairs), 'ours', **quiet)",
    ".snapshot": "corpus.prepare(**quiet)",
    "tok": "dp.train_tokenizer(corpus, 'tok', vocab_size=300, **quiet)",
    ".vectors.duckdb": "corpus.embed(lambda texts: [[1.0] * 64] * len(texts), 'ones', **quiet)",
    ".state.duckdb": "corpus.sampler('triplets').save()",
    "/duckplets-": "corpus.shard('shards', tokenizer=sys.argv[2], **quiet)",
    "a.json": "write_document(Path('a.json').absolute(), 'ours', {'a': 'x' * 2000})",
}
PROGRAM = f"""
import json, resource, sys
from pathlib import Path
import commands
import duckplets as dp
from duckplets.tokens.documents import write_document
def sample(out):
    return commands.cli("sample", path, "--steps", "9", "--out", out).stderr.splitlines()[-1]

path, quiet, found = sys.argv[1], {{"progress": False}}, {{}}
with dp.Corpus(path, read_only=True) as corpus:
    for name, code in {WRITERS!r}.items():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        try:
            found[name] = str(eval(code))
        except (dp.DuckpletsError, OSError) as error:
            found[name] = str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(json.dumps(found))
"""


def mined(path, records):
    corpus = toy_corpus(path, records)
    corpus.mine()
    return corpus


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    copied(tmp_path / "c.duckdb", mined, 60)
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        dp.train_tokenizer(corpus, tmp_path / "tokenizer", vocab_size=300)
    given = ("c.duckdb", "tokenizer")
    found = json.loads(said("-c", PROGRAM, *given, cwd=tmp_path).splitlines()[-1])
    for name, message in found.items():
        assert name in message, (name, message)
        assert "this should not happen" not in message, (name, message)
        assert len(message) <= 300, (name, message)
    left = {file.name for file in tmp_path.iterdir()}
    assert not left & {
        "s.jsonl",
        "s.parquet",
        "f.jsonl",
        "p.parquet",
        "l.jsonl",
        "r.html",
        "a.json",
    }


def test_stdout_that_cannot_be_written_is_named(tmp_path):
    copied(tmp_path / "c.duckdb", mined, 60)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))"
    command = f"{limited}; from duckplets.cli import main; main(['show', 'c.duckdb', '--recipes'])"
    with (tmp_path / "out").open("w") as out:
        run = ran(sys.executable, "-c", command, stdout=out, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (1, "error: stdout: File too large\n")
