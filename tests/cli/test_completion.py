"""What a shell is offered: names in the corpus, and nothing where they cannot be read at once."""

import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from io import StringIO

import duckdb
import prebuilt
import pytest
from effort import some, thorough
from programs import ran
from typer.main import get_command

import duckplets as dp
from duckplets.cli import app

UNSAFE = ["$(reboot)", "a b", "-x"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus of several sources, with a stored recipe and saved runs."""
    path = tmp_path_factory.mktemp("completion") / "c.duckdb"
    with prebuilt.toy_corpus(path, 40) as corpus:
        for run, tag in (("default", "d1"), ("first", "t1"), ("first", "t2"), ("$(reboot)", "t")):
            with corpus.sampler(batch_size=2, run=run, options=dp.Options(prefetch=0)) as sampler:
                sampler.save(tag=tag)
        for name in ("fables", *UNSAFE):
            rows = [{"id": "1", "q": f"asked of {name}", "a": f"told by {name}"}]
            corpus.ingest(rows, name=name, anchor="q", positive="a", id="id")
        anchor, context = dp.role("anchor"), dp.role("context")
        corpus.add_recipe(dp.TripletRecipe("hard", anchor, context, context, sources=("toy",)))
    return path


COMMAND = get_command(app)  # made once: it takes longer than what is asked of it


def offered(*words):
    """Return what bash is offered after words, the last of which is being typed."""
    asked = {"COMP_WORDS": " ".join(["duckplets", *map(str, words)])}
    asked |= {"COMP_CWORD": str(len(words)), "_DUCKPLETS_COMPLETE": "complete_bash"}
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in asked.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            COMMAND.main([], prog_name="duckplets")
    assert (left.value.code, err.getvalue()) == (0, "")
    return out.getvalue().split()


OFFERED = {
    "show C |": "fables toy",
    "show C f|": "fables",
    "search C dog --source f|": "fables",
    "mine C |": "hard anchor_context anchor_anchor",
    "mine C hard anchor_c|": "anchor_context",
    "sample C --recipes hard,anchor_a|": "hard,anchor_anchor",
    "forecast C --recipes hard,h|": "",
    "sample C --split v|": "validation",
    "mine C --split t|": "train test",
    "sample C --run |": "default first",
    "runs C |": "default first",
    "sample C --run first --resume --tag |": "t1 t2",
    "sample C --tag |": "d1",
    "sample C --set seed=1 --set state=T --run |": "elsewhere",
    "sho|": "show",
}


def test_names_are_offered(made):
    state = made.with_name("c.state.duckdb")
    before = {file: sha256(file.read_bytes()).digest() for file in (made, state)}
    places = {"C": str(made), "S": str(state)}
    for words, names in some(OFFERED.items(), less=9):
        typed = [places.get(word, word).removesuffix("|") for word in words.split()]
        assert offered(*typed) == names.split(), words
    assert {file: sha256(file.read_bytes()).digest() for file in before} == before
    assert {file.name for file in made.parent.iterdir()} == {made.name, state.name}


def test_nothing_is_offered_where_a_file_cannot_be_read(made, tmp_path):
    cases = ("absent", "folder", "text", "cut", "other", "newer", "locked")
    paths = {what: tmp_path / f"{what}.duckdb" for what in cases}
    paths["folder"].mkdir()
    paths["text"].write_text("no corpus")
    paths["cut"].write_bytes(made.read_bytes()[:20_000])
    duckdb.connect(paths["other"]).execute("CREATE TABLE t AS SELECT 1 AS a").close()
    for what in ("newer", "locked"):
        shutil.copy(made, paths[what])
    duckdb.connect(paths["newer"]).execute("ALTER TABLE sources RENAME name TO called").close()
    with dp.Corpus(paths["locked"]):
        for what, path in paths.items():
            for words in (["show", path, ""], ["mine", path, ""], ["sample", path, "--run", ""]):
                assert offered(*words) == [], what
    assert not paths["absent"].exists()


@thorough  # see test_help_is_quick_and_imports_nothing_heavy
def test_a_command_loads_only_what_it_uses(made):
    spared = ["sqlglot", "duckplets.runs.sampler", "duckplets.sources.formats.csv_file"]
    spared += ["duckplets.cli.ingest", "duckplets.ingest.ingest", "pandas", "pyarrow.dataset"]
    code = (
        f"import sys\nsys.argv[1:] = ['show', {str(made)!r}, 'fables', '--json']\n"
        "from duckplets.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print([name for name in {spared} if name in sys.modules], file=sys.stderr)"
    )
    done = ran(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "[]\n")
