"""Token shards: every token of a record once, the same bytes anywhere, what verify finds."""

import hashlib
import json
import pydoc
import random
import shutil
import signal
import statistics
import string
import textwrap
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, ok
from corpora import WORDS
from effort import THOROUGH, often, some
from programs import python, said
from token_shards import digests

import duckplets as dp
from duckplets.tokens import shards as making
from duckplets.tokens.documents import read_document, write_document
from duckplets.tokens.locations import status
from duckplets.tokens.manifest import KIND, ShardManifest, buckets_of
from duckplets.tokens.mixtures import load_mixture
from duckplets.tokens.texts import plain
from duckplets.tokens.verify import verify

tokenizers = pytest.importorskip("tokenizers")

BUCKETS = (16, 32, 64)
SMALL = {"buckets": BUCKETS, "shard_mb": 0.005, "row_group_size": 50}

SPLITS = ["train", "validation", "test"]


def words(count):
    """Records of few words, with titles that many share."""
    return [
        {"id": f"{n}", "title": WORDS[n % 16], "definition": " ".join(WORDS[: n % 13]) + f" {n}"}
        for n in range(count)
    ]


def python_documentation():
    rows = []
    for module in (json, random, shutil, statistics, string, textwrap)[: often(6, less=3)]:
        for each in getattr(module, "__all__", dir(module)):
            if text := pydoc.getdoc(getattr(module, each)):
                rows.append({"id": f"{module.__name__}.{each}", "title": each, "definition": text})
    return rows


ODD = [
    {"id": "special", "title": "</s> <pad>", "definition": "ends </s> or <mask> not\u00a0there"},
    {"id": "emoji", "title": "👩‍🚀 naïve", "definition": "名前は " * 40},
    {"id": "spaces", "title": "a\tb", "definition": "  c \r\n\n\u2028 d  "},
    {"id": "long", "title": "long", "definition": "né " * 200},
]


pytestmark = pytest.mark.usefixtures("tokenizer")  # by whose path ``shards`` finds it


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "two.duckdb"
    sources = {
        "wordnet": words(often(900, less=200)),
        "python": python_documentation(),
        "odd_.._names": ODD,
    }
    with dp.Corpus(path) as corpus:
        for name, rows in sources.items():
            corpus.ingest(rows, name=name, id="id", anchor="title", positive="definition")
        corpus.split(train=0.8, validation=0.1, test=0.1, seed=3)
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus_file):
    folder = corpus_file.parent / "tokenizer"
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        dp.train_tokenizer(corpus, folder, vocab_size=600)
    return folder


@pytest.fixture(scope="module")
def folder(corpus_file, tokenizer):
    shards(corpus_file.parent / "shards", split=SPLITS)
    return corpus_file.parent / "shards"


@pytest.fixture
def copied(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def shards(folder, **options):
    """Make the shards of the module's corpus again."""
    home = folder.parent if (folder.parent / "two.duckdb").exists() else options.pop("home")
    with dp.Corpus(home / "two.duckdb", read_only=True) as corpus:
        return corpus.shard(folder, **{"tokenizer": home / "tokenizer", **SMALL, **options})


def record_texts(path):
    """Source, split and text of every record, put together in Python."""
    with dp.Corpus(path, read_only=True) as corpus:
        rows = corpus.sql(
            "SELECT record_id, source, split, role, position, text FROM section_texts "
            "ORDER BY record_id, position"
        ).to_pylist()
    found = {}
    for row in rows:
        of = found.setdefault(row["record_id"], (row["source"], row["split"], []))
        of[2].append(row["text"])
    return {name: (source, split, "\n\n".join(t)) for name, (source, split, t) in found.items()}


def test_every_record_is_in_one_shard_with_all_its_tokens(folder, corpus_file, tokenizer):
    encoder = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    encoder.encode_special_tokens = True
    expected = record_texts(corpus_file)
    manifest, seen = ShardManifest.read(folder), Counter[str]()
    schemas = set()
    for shard in manifest.shards:
        table = pq.read_table(folder / shard.path)
        schemas.add(str(pq.read_schema(folder / shard.path)))
        of = f"{shard.split}/{shard.source}/b{shard.bucket}/shard_b{shard.bucket}_s{shard.index}"
        assert (table.num_rows, shard.path) == (shard.records, f"{of}.parquet")
        lines = (folder / shard.tsv).read_text().splitlines()
        assert lines[0].split("\t") == ["index", "length", "token_sum", "sha256"]
        for index, (row, line) in enumerate(zip(table.to_pylist(), lines[1:], strict=True)):
            source, split, text = expected[row["meta"]["record_id"]]
            seen[row["meta"]["record_id"]] += 1
            assert (source, split) == (shard.source, shard.split) == (row["meta"]["source"], split)
            assert row["text"] == plain(text)
            assert encoder.decode(row["tokens"], skip_special_tokens=False) == row["text"]
            assert row["tokens"] == encoder.encode(row["text"]).ids
            assert row["meta"]["token_count"] == len(row["tokens"])
            assert row["meta"]["metrics"]["characters"] == len(text)
            assert buckets_of([len(row["tokens"])], BUCKETS) == [shard.bucket]
            digest = hashlib.sha256(text.encode()).hexdigest()
            told = [str(index), str(len(row["tokens"])), str(sum(row["tokens"])), digest]
            assert line.split("\t") == told
        assert sum(map(len, table["tokens"].to_pylist())) == shard.tokens
    assert seen == Counter(expected.keys())
    assert len(schemas) == 1
    assert manifest.counts["records"] == len(expected)
    assert manifest.counts["left_out"] == {}
    groups = {}
    for shard in manifest.shards:
        groups.setdefault((shard.split, shard.source, shard.bucket), []).append(shard)
    assert max(map(len, groups.values())) > 3
    size = SMALL["shard_mb"] * 1e6
    for (_, _, bucket), of in groups.items():  # and a small tail joins the shard before it
        assert [shard.index for shard in of] == list(range(len(of)))
        assert all(shard.tokens * 4 >= size for shard in of[:-1])
        most = size + 4 * (*BUCKETS, 10**9)[bucket]
        assert all(shard.tokens * 4 < most for shard in of[:-1])
        assert len(of) == 1 or of[-1].tokens * 4 >= size / 4


@pytest.mark.parametrize("longer", ["cut", "drop"])
def test_longer_texts_are_cut_or_dropped_and_counted(longer, folder, corpus_file):
    whole, out = ShardManifest.read(folder), corpus_file.parent / longer
    report = shards(out, longer=longer, split=SPLITS, offsets=True)
    many = sum(shard.records for shard in whole.shards if shard.bucket == len(BUCKETS))
    assert many > 1
    manifest = ShardManifest.read(out)
    assert max(shard.bucket for shard in manifest.shards) < len(BUCKETS)
    if longer == "drop":
        assert report.left_out == {"too long": many}
        assert report.records == whole.counts["records"] - many
        return
    assert (report.cut, report.records) == (many, whole.counts["records"])
    encoder = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    for shard in manifest.shards:
        for row in pq.read_table(out / shard.path).to_pylist():
            assert encoder.decode(row["tokens"], skip_special_tokens=False) == row["text"]
            assert len(row["offsets"]) == len(row["tokens"]) <= BUCKETS[-1]
            ends = [each["stop"] for each in row["offsets"]]
            assert ends == sorted(ends)
            assert ends[-1] == len(row["text"])


def test_code_keeps_its_white_space_and_metrics_come_along(tokenizer, tmp_path):
    code, out = "def f(x):\n    return  x\n\n\n" * 5, tmp_path / "out"
    gated = dp.Quality(preset="code", duplicates=False, language=None)
    with dp.Corpus(tmp_path / "code.duckdb") as corpus:
        for name, quality in {"gated": gated, "told": None, "prose": None}.items():
            corpus.ingest([{"t": code}], name=name, quality=quality, text="t")
        corpus.split(train=1, validation=0, test=0)
        corpus.shard(out, tokenizer=tokenizer, code=["told"])
    rows = {
        shard.source: pq.read_table(out / shard.path).to_pylist()[0]
        for shard in ShardManifest.read(out).shards
    }
    assert rows["gated"]["text"] == rows["told"]["text"] == code
    assert rows["prose"]["text"] == plain(code)
    of = {name: row["meta"] for name, row in rows.items()}
    assert (of["gated"]["domain"], of["told"]["domain"]) == ("code", None)
    assert of["gated"]["metrics"]["code_lines"] > 5
    assert of["told"]["metrics"]["code_lines"] is None
    assert of["gated"].keys() == of["told"].keys()


EXPORT = """
with dp.Corpus(sys.argv[1], read_only=True, threads=8) as corpus:
    corpus.shard(sys.argv[2], tokenizer=sys.argv[3], buckets=(16, 32, 64),
        split=['train', 'validation', 'test'], shard_mb=.005, row_group_size=50)
"""


def test_a_second_run_and_other_threads_give_the_same_bytes(folder, corpus_file, tmp_path):
    code = f"import sys, duckplets as dp{EXPORT}"
    for threads in (1, 2, 8) if THOROUGH else (8,):
        out = tmp_path / f"threads{threads}"
        given = [corpus_file, out, corpus_file.parent / "tokenizer"]
        said("-c", code, *given, env={"RAYON_NUM_THREADS": str(threads)})
        assert digests(out) == digests(folder)


KILLED = """
import sys, duckplets as dp
from duckplets.tokens import shards
shards._PART, shards._SAVES = (20_000, 200), 0
write = shards.write_shard
def told(*arguments):
    print('one more', flush=True)
    return write(*arguments)
shards.write_shard = told
print('begins', flush=True)
"""


def test_a_killed_export_goes_on(folder, corpus_file, tmp_path, monkeypatch):
    out, killed = tmp_path / "killed", 0
    given = [corpus_file, out, corpus_file.parent / "tokenizer"]
    for delay in np.linspace(0.05, 0.9, 30) if THOROUGH else [0]:
        with python("-c", KILLED + EXPORT, *given) as process:
            for _ in range(often(1, less=4)):  # a few shards are there
                process.stdout.readline()
            time.sleep(delay)
            process.kill()
            killed += process.wait() == -signal.SIGKILL
    assert killed
    monkeypatch.setattr(making, "_PART", (20_000, 200))  # what is there is of such parts
    left = shards(out, split=SPLITS, home=corpus_file.parent).made
    assert left or THOROUGH  # so many rounds may have made them all
    assert digests(out) == digests(folder)
    assert status(out)["stage"] == "completed"
    assert verify(out).ok
    assert not list(out.rglob(".*"))


def test_a_run_that_fails_in_the_midst_goes_on_with_the_next_shard(
    folder, corpus_file, monkeypatch
):
    out, written, write = corpus_file.parent / "failing", [], making.write_shard

    def failing(*arguments):
        if len(written) == 7:
            raise OSError(28, "No space left on device")
        written.append(1)
        return write(*arguments)

    monkeypatch.setattr(making, "write_shard", failing)
    monkeypatch.setattr(making, "_SAVES", 0)
    with pytest.raises(dp.errors.ShardError, match="No space left"):
        shards(out, split=SPLITS)
    done = len(status(out)["completed_shards"])
    assert 5 <= done <= 7
    with pytest.raises(dp.errors.ShardError, match=r"no manifest\.json"):
        verify(out)
    monkeypatch.setattr(making, "write_shard", write)
    monkeypatch.setattr(making, "encoded", None)  # nothing is encoded again
    assert shards(out, split=SPLITS).made == len(ShardManifest.read(folder).shards) - done
    assert digests(out) == digests(folder)


def test_a_folder_of_another_run_is_refused(copied, corpus_file, tmp_path):
    with pytest.raises(dp.errors.ShardError, match="seed was 42 and is 43"):
        shards(copied, home=corpus_file.parent, seed=43, split=SPLITS)
    report = shards(copied, home=corpus_file.parent, seed=43, overwrite=True)
    assert {shard.split for shard in ShardManifest.read(copied).shards} == {"train"}
    assert report.made == report.shards
    assert verify(copied).ok
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    for overwrite, told in ((False, "that says which"), (True, "which no export has written")):
        with pytest.raises(dp.errors.ShardError, match=rf"thesis\.tex.*{told}"):
            shards(foreign, home=corpus_file.parent, overwrite=overwrite)


WRONG = [
    ({"buckets": (16, 8)}, "ascending boundaries"),
    ({"buckets": ()}, "ascending boundaries"),
    ({"longer": "dropp"}, "did you mean 'drop'"),
    ({"compression": "brotli"}, "give 'zstd', "),
    ({"shard_mb": 0}, "from 0.001 to 500"),
    ({"split": []}, "at least one"),
    ({"split": "trian"}, "give one of train"),
    ({"sources": ["wordnett"]}, "did you mean 'wordnet'"),
    ({"tokenizer": "nowhere.json"}, "cannot be read"),
    ({"mixture": dp.Mixture({"nobody": 1})}, "nobody"),
    ({"row_group_size": 0}, "row_group_size=0"),
]


def test_wrong_arguments_are_refused_before_anything_is_made(corpus_file, tmp_path):
    out, how = tmp_path / "wrong", {"tokenizer": corpus_file.parent / "tokenizer", **SMALL}
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        for options, says in WRONG:
            with pytest.raises(ValueError, match=says) as caught:
                corpus.shard(out, **{**how, **options})
            assert isinstance(caught.value, dp.DuckpletsError)
            assert not (out / "export_state.json").exists()


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_verify_finds_what_is_wrong(copied):
    assert verify(copied).ok
    manifest = ShardManifest.read(copied)
    one, two, three = (manifest.shards[place] for place in (0, 4, 9))
    _flip(copied / one.path)
    (copied / two.path).unlink()
    _flip(copied / three.tsv)
    extra = copied / "train" / "wordnet" / "b0" / "shard_b0_s99.parquet"
    shutil.copy(copied / three.path, extra)
    _flip(copied / "tokenizer.json")
    (copied / "mixtures.json").unlink()
    report = verify(copied)
    assert not report.ok
    assert dict(report.problems) == {
        one.path: "damaged",
        two.path: "missing",
        three.tsv: "damaged",
        "train/wordnet/b0/shard_b0_s99.parquet": "unlisted",
        "tokenizer.json": "damaged",
        "mixtures.json": "missing",
    }


def _cut_short(path):
    Path(path).write_bytes(Path(path).read_bytes()[:-9])


def _linked(path):
    """Move a file elsewhere and put a link in its place."""
    path.symlink_to(path.rename(path.parents[4] / "elsewhere"))


def _copied(path):
    shutil.copy(path, path.with_stem("shard_b0_s99" if "/b0/" in str(path) else "shard_b3_s99"))


def _shifted(path):
    """Give a manifest the fingerprint of another run."""
    values = read_document(path, KIND)
    write_document(path, KIND, values | {"fingerprint": "0" * 64})


# What is harmed, and how many shards are made again.
DAMAGES = {
    "shard with a flipped bit": (_flip, "shard", 1),
    "summary with a flipped bit": (_flip, "tsv", 1),
    "link out of the folder": (_linked, "shard", 1),
    "unlisted shard": (_copied, "shard", 0),
    "no state": (Path.unlink, "export_state.json", 0),
    "state": (_cut_short, "export_state.json", 0),
    "manifest of another run": (_shifted, "manifest.json", 0),
    "shard cut short": (_cut_short, "shard", 1),
    "no shard": (Path.unlink, "shard", 1),
    "no summary": (Path.unlink, "tsv", 1),
    "tokenizer": (_flip, "tokenizer.json", 0),
    "manifest": (_cut_short, "manifest.json", 0),
    "no mixtures": (Path.unlink, "mixtures.json", 0),
}


@pytest.fixture(scope="module")
def small(corpus_file, tokenizer):
    out = corpus_file.parent / "small"
    shards(out, sources=["odd_.._names", "python"])
    return out


@pytest.mark.parametrize("what", some(DAMAGES, less=8))
def test_the_same_command_repairs_everything_that_verify_finds(small, corpus_file, tmp_path, what):
    out = Path(shutil.copytree(small, tmp_path / "out"))
    how = {"home": corpus_file.parent, "sources": ["odd_.._names", "python"]}
    harm, file, made = DAMAGES[what]
    shard = ShardManifest.read(out).shards[-1]
    harm(out / {"shard": shard.path, "tsv": shard.tsv}.get(file, file))
    try:
        assert not verify(out).ok
    except dp.errors.DamagedFileError:
        assert what in ("manifest", "state")
    assert shards(out, **how).made == made
    assert verify(out).ok
    assert digests(out) == digests(small)
    assert shards(out, **how).made == 0


def test_a_folder_without_state_and_manifest_is_refused_or_made_anew(small, corpus_file, tmp_path):
    out = Path(shutil.copytree(small, tmp_path / "out"))
    how = {"home": corpus_file.parent, "sources": ["odd_.._names", "python"]}
    (out / "mine.parquet").touch()
    with pytest.raises(dp.errors.ShardError, match=r"mine\.parquet in it, .* move the file"):
        shards(out, **how)
    (out / "mine.parquet").unlink()
    (out / "export_state.json").unlink()
    assert dict(verify(out).problems) == {"manifest.json": "of another run"}
    (out / "manifest.json").unlink()
    with pytest.raises(dp.errors.ShardError, match=r"no export_state\.json .* or overwrite=True"):
        shards(out, **how)
    _cut_short(shutil.copy(small / "export_state.json", out))
    with pytest.raises(dp.errors.DamagedFileError, match="damaged"):
        shards(out, **how)
    report = shards(out, **how, overwrite=True)
    assert report.made == report.shards
    assert digests(out) == digests(small)


def test_a_mixture_is_written_and_read_back(copied, corpus_file):
    tokens = Counter[str]()
    manifest = ShardManifest.read(copied)
    for shard in manifest.shards:
        tokens[shard.source] += shard.tokens * (shard.split == "train")
    assert load_mixture(copied).weights == {name: n for name, n in tokens.items() if n}
    phases = [dp.Phase(10, {"python": 3}, 0.5), dp.Phase(20, {"wordnet": 0})]
    mixture = dp.Mixture({"wordnet": 3, "python": 1}, temperature=2, phases=phases)
    assert shards(copied, home=corpus_file.parent, split=SPLITS, mixture=mixture).made == 0
    assert load_mixture(copied / "mixtures.json") == mixture
    told = read_document(copied / "mixtures.json", "duckplets mixtures")
    assert told is not None
    places = [(phase["name"], phase["start_step"]) for phase in told["phases"]]
    assert places == [("phase_1", 0), ("phase_2", 10), ("final", 20)]
    listed = [shard for of in told["sources"].values() for shard in of["shards"]]
    every = [each.shard_id for each in manifest.shards if each.split == "train"]
    assert sorted(listed) == sorted(every)
    assert verify(copied).ok
    with pytest.raises(dp.errors.MixtureError, match="no such file"):
        load_mixture(corpus_file.parent / "nothing.json")


def test_commands_make_tell_and_verify(corpus_file, tmp_path):
    out, made = tmp_path / "out", tmp_path / "made"
    small = {"tokenizer": made, "buckets": (16, 64), "shard_mb": 0.01}
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        told = dp.train_tokenizer(corpus, made, vocab_size=500, sources=["wordnet"])
        assert "bytes per token" in str(told)
        corpus.shard(out, **small)
    state = json.loads(ok("shard", out, "--json"))
    assert state["stage"] == "completed"
    assert len(state["completed_shards"]) == state["counters"]["shards"]
    assert "completed" in ok("shard", out)
    refused = error("shard", corpus_file, out, "--tokenizer", made, "--seed", "1")
    assert "give another folder, or overwrite=True" in refused
    assert cli("shard", corpus_file).exit_code == 2
    flipped = out / ShardManifest.read(out).shards[0].path
    _flip(flipped)
    found = cli("shard", out, "--verify")
    assert (found.exit_code, "damaged" in found.stdout) == (1, True)
    assert f"duckplets shard CORPUS {out}" in found.stderr
    with pytest.raises(dp.errors.DamagedFileError, match="duckplets shard CORPUS"):
        dp.TokenShards(out).sampler(seq_length=8)
    with dp.Corpus(corpus_file, read_only=True) as corpus:
        assert corpus.shard(out, **small).made == 1
    assert "as written" in ok("shard", out, "--verify")
    assert dp.TokenShards(out).verify().ok


def test_other_readers_open_the_shards(folder, tmp_path):
    datasets = pytest.importorskip("datasets")
    files, cache = {"train": str(folder / "train" / "**" / "*.parquet")}, str(tmp_path)
    found = datasets.load_dataset("parquet", data_files=files, cache_dir=cache, streaming=True)
    assert next(iter(found["train"])).keys() == {"text", "tokens", "meta"}
    schema = pq.read_schema(folder / ShardManifest.read(folder).shards[0].path)
    assert schema.field("tokens").type == pa.list_(pa.int32())
