import shlex

from commands import cli, ok
from effort import often, some, thorough
from programs import said

from duckplets.cli import demo
from duckplets.cli.demo import docstrings, topics
from duckplets.corpus.corpus import Corpus


@thorough
def test_the_text_is_the_same_in_every_process():
    code = "from duckplets.cli.demo import docstrings, topics; print([topics(), docstrings()])"
    runs = [
        said("-W", "error", "-X", "utf8", "-c", code, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_demo_from_end_to_end(monkeypatch):
    fewer = docstrings()[:: often(1, less=12)]
    topical = topics()[:: often(1, less=8)]
    monkeypatch.setattr(demo, "docstrings", lambda: fewer)
    monkeypatch.setattr(demo, "topics", lambda: topical)
    done = cli("demo", "--keep", "demo.duckdb")
    assert done.exit_code == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("recipe")]
    stages = ["ingest", "ingest", "split", "mine", "sample", "save", "resume"]
    assert [line.partition(":")[0] for line in told if line[0] != " "] == stages
    assert told[-1] == "resume: the batch of step 1 equals the batch of the unbroken run"
    described = "".join(line for line in told if line[0] == " ")
    assert "anchor_context" in described
    assert "negatives mined" in described
    assert "swap off" in described
    out = done.stdout
    assert "drawn by bm25" in out
    assert out.count("\ntriplet ") == 3
    assert out.count("  anchor ") == out.count("  positive ") == out.count("  negative ") == 3
    for line in some(out.split("Next steps:\n")[1].splitlines()[:3], less=1):
        assert ok(*shlex.split(line)[1:])
    with Corpus("demo.duckdb", read_only=True) as corpus:
        found = {row["name"]: row["records"] for row in corpus.sources().to_pylist()}
    assert found == {"docstrings": len(fewer), "topics": len(topical)}


def test_demo_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "_walk", lambda path: path.write_text("made"))
    assert "duckplets demo --keep" in ok("demo")
    assert list(tmp_path.iterdir()) == []
