"""Mixture files: the [data] table of a training config, and everything wrong in it at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Mixture, Phase
from duckplets.sources.remote.hub import HubSource

Load = Callable[[str], Mixture]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str) -> Mixture:
        file = tmp_path / "mix.toml"
        file.write_text(text, encoding="utf-8")
        return Mixture.from_toml(file)

    return write_and_load


TWO = """
[[data.datasets]]
name = "web"
path = "/data/tokenized/web"
weight = 0.7
[[data.datasets]]
name = "code"
hf_name = "bigcode/the-stack-dedup"
weight = 0.3
"""
DECLARED = {"web": 0.7, "code": 0.3}


# ---- what files say

OFF = "[data]\nanneal_start_step = 0\nanneal_weights = {}\n"
SHORTCUT = "[data]\nanneal_start_step = 4\nanneal_weights = { web = 0 }\n"
AT_0 = "[[data.phases]]\nstart_step = 0\ndataset_weights = { web = 0 }\n"
READ: list[tuple[str, Mixture]] = [
    (
        """
        [data]
        mix_temperature = 1.0            # 1.0 leaves the weights alone

        [[data.datasets]]
        name   = "web"
        path   = "/data/tokenized/web"
        weight = 0.7

        [[data.datasets]]
        name    = "code"
        hf_name = "bigcode/the-stack-dedup"
        hf_config = "default"
        weight  = 0.3

        [[data.phases]]
        start_step      = 10_000
        dataset_weights = { web = 0.3, code = 0.7 }
        lr_scale        = 0.5

        [[data.phases]]
        start_step = 20_000
        [data.phases.dataset_weights]
        web = 0
        """,
        Mixture(
            DECLARED,
            phases=[Phase(10_000, {"web": 0.3, "code": 0.7}, 0.5), Phase(20_000, {"web": 0})],
        ),
    ),
    # the shortcut, and the defaults written out
    (SHORTCUT + TWO, Mixture(DECLARED, anneal=Anneal(4, {"web": 0}))),
    (
        f"{SHORTCUT}anneal_end_step = 9\nanneal_lr_scale = 0.5\n{TWO}",
        Mixture(DECLARED, anneal=Anneal(4, {"web": 0}, 9, 0.5)),
    ),
    (
        f"{SHORTCUT}anneal_lr_scale = 0.5\n{TWO}",
        Mixture(DECLARED, anneal=Anneal(4, {"web": 0}, lr_scale=0.5)),
    ),
    (OFF + TWO, Mixture(DECLARED)),
    (f"{OFF}phases = []\nmix_temperature = 1\n{TWO}", Mixture(DECLARED)),
    (f"[data]\nanneal_start_step = 0\n{TWO}", Mixture(DECLARED)),
    (f"[data]\nanneal_weights = {{}}\n{TWO}", Mixture(DECLARED)),
    (OFF + TWO + AT_0, Mixture(DECLARED, phases=[Phase(0, {"web": 0})])),
    # what is left out
    (
        "[data]\nmix_temperature = 2\n[[data.datasets]]\nname = 'a'\n"
        "[[data.datasets]]\nname = 'never'\nweight = 0\n"
        "[[data.phases]]\nstart_step = 3\nlr_scale = 2",
        Mixture({"a": 1.0, "never": 0.0}, 2.0, [Phase(3, {}, 2.0)]),
    ),
    (
        f"{TWO}[[data.phases]]\ndataset_weights = {{web = 0}}\n[[data.phases]]\nstart_step = 5",
        Mixture(DECLARED, phases=[Phase(0, {"web": 0}), Phase(5, {})]),
    ),
    ("[data]", Mixture()),
    ("[data]\nmix_temperature = 1.7\ndatasets = []", Mixture(temperature=1.7)),
    ("[data]\nmixture = 'equal'", Mixture("equal")),
    (AT_0, Mixture(phases=[Phase(0, {"web": 0})])),
    # other tables of a training configuration
    (
        f"{TWO}[train]\nmax_steps = 100\ndata = 'x'\n[metadata]\ndatasets = 3\n"
        f"[[video.datasets]]\nweight = 'none of ours'\n[model]",
        Mixture(DECLARED),
    ),
    # the whole of a path
    (
        """
        [data]
        anneal_start_step = 3
        anneal_weights = { "/data/web" = 0.5, "bigcode/the-stack-dedup" = 2, wiki = 3 }
        [[data.datasets]]
        path = "/data/web"
        [[data.datasets]]
        hf_name = "bigcode/the-stack-dedup"
        [[data.datasets]]
        path = "/data/wiki"
        """,
        Mixture(
            {"web": 1, "bigcode--the-stack-dedup": 1, "wiki": 1},
            anneal=Anneal(3, {"web": 0.5, "bigcode--the-stack-dedup": 2, "wiki": 3}),
        ),
    ),
]


@pytest.mark.parametrize(("text", "mixture"), READ)
def test_what_a_file_says_is_read(load: Load, text: str, mixture: Mixture) -> None:
    assert load(text) == mixture


def test_the_shortcut_at_step_0_is_no_annealing_and_says_so(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    found = load("[data]\nanneal_start_step = 0\nanneal_weights = { web = 0 }\n" + TWO)
    assert found == Mixture(DECLARED)
    assert "anneal_start_step = 0 means no annealing" in caplog.text
    phases = "[[data.phases]]\nstart_step = 3\ndataset_weights = { web = 0 }\n"
    found = load("[data]\nanneal_start_step = 0\nanneal_weights = { web = 1 }\n" + TWO + phases)
    assert found == Mixture(DECLARED, phases=[Phase(3, {"web": 0})])
    with pytest.raises(MixtureError, match="no dataset 'wob'"):  # they are read all the same
        load("[data]\nanneal_start_step = 0\nanneal_weights = { wob = 0 }\n" + TWO)


def test_sources_that_are_not_listed_weigh_0_until_a_phase_names_them(load: Load) -> None:
    phase = "[[data.phases]]\nstart_step = 5\ndataset_weights = { web = 2 }\n"
    found = load(TWO + phase)
    assert found.declared(["code", "web", "wiki"]) == {"code": 0.3, "web": 0.7, "wiki": 0}
    with pytest.raises(MixtureError, match="every source has weight 0"):
        load(TWO.replace("0.7", "0").replace("0.3", "0")).check(["code", "web", "wiki"])


def test_a_mark_in_front_and_other_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "mix.toml"
    file.write_bytes(b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode())
    assert Mixture.from_toml(str(file)) == Mixture(DECLARED)


# ---- names


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ('name = "web"\npath = "/data/other"', "web"),
        ('path = "/data/tokenized/web"', "web"),
        ('path = "/data/tokenized/web/"', "web"),
        ('path = "web"', "web"),
        ('path = "/data/web.parquet"', "web"),
        ('path = "/data/web.jsonl.gz"', "web"),
        ('path = "/data/web-v1.5"', "web-v1.5"),
        ("path = 'C:\\data\\web'", "web"),
        ('path = "s3://bucket/data/web"', "web"),
        ('hf_name = "bigcode/the-stack-dedup"', "bigcode--the-stack-dedup"),
        ('hf_name = "wikitext"\nhf_config = "wikitext-103-raw-v1"', "wikitext"),
        ('hf_name = "org/corpus.csv"', "org--corpus.csv"),
        ('name = ""\npath = "/data/web"\nhf_name = ""', "web"),
        ('path = "/data/web"\nhf_name = "org/other"', "web"),
    ],
)
def test_a_dataset_without_a_name_takes_one_from_where_it_lies(
    load: Load, keys: str, name: str
) -> None:
    assert load(f"[[data.datasets]]\n{keys}\nweight = 2") == Mixture({name: 2.0})


@pytest.mark.parametrize("config", ["", "default", "en", "20231101.en"])
@pytest.mark.parametrize("name", ["org/name", "o.r-g/na_me"])
def test_a_hub_name_is_that_of_the_source_it_is_ingested_as(
    load: Load, name: str, config: str
) -> None:
    uri = f"hf://{name}/{config}" if config else f"hf://{name}"
    text = f"[[data.datasets]]\nhf_name = '{name}'\nhf_config = '{config}'"
    assert list(load(text).weights) == [HubSource(uri, text="text").default_name()]


# As the training files of that framework are.
WHOLE = """
[model]
dim = 4096
[data]
dataset_path = "/data/one"
file_pattern = "*.npy"
tokenizer_path = "meta-llama/Llama-2-7b-hf"
num_workers = 8
pin_memory = true
prefetch_factor = 4
pack_sequences = true
hf_dataset_name = "org/one"
hf_dataset_config = "en"
hf_dataset_split = "train"
hf_dataset_text_field = "text"
hf_dataset_image_field = "image"
hf_dataset_prompt_field = ""
hf_image_size = 224
hf_streaming = false
mix_temperature = 2.0
anneal_start_step = 0
anneal_weights = {}
"""


def test_the_data_table_of_a_training_file_is_taken_with_one_note(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    assert load(WHOLE + TWO) == Mixture(DECLARED, temperature=2.0)
    (record,) = caplog.records
    keys = WHOLE.partition("[data]")[2].split("\n")[1:16]
    told = record.getMessage().partition("to the sampler: ")[2].split(", ")
    assert told == [key.partition(" ")[0] for key in keys]
    caplog.clear()
    assert load(TWO) == Mixture(DECLARED)
    assert not caplog.records


# ---- one mistake, by its place

PHASE = "[[data.phases]]\nstart_step = 5\n"
WRONG = [
    # keys
    ("[data]\nmix_temprature = 2", "data: unknown key 'mix_temprature' (did you mean 'mix_temp"),
    ("[data]\nweb = 2", "data: unknown key 'web'; keys: mix_temperature, datasets, phases, anneal"),
    ("[data]\ndataset_path = 'x'", "data: unknown key 'dataset_path'; give each dataset as [[data"),
    ("[data]\nhf_dataset_name = 'x'", "'hf_dataset_name'; give each dataset as [[data.datasets]]"),
    ("[data]\nnum_worker = 4", "data: unknown key 'num_worker'; keys: mix_temperature, datasets,"),
    (
        "[[data.datasets]]\nname='a'\nwieght=1",
        "data: datasets[0]: unknown key 'wieght' (did you me",
    ),
    ("[[data.datasets]]\nname='a'\nnum_workers=1", "[0]: unknown key 'num_workers'; keys: name, p"),
    (
        PHASE + "weights = {}",
        "data: phases[0]: unknown key 'weights' (did you mean 'dataset_weight",
    ),
    ("mix_temperature = 2\n[data]", "mix_temperature stands outside of [data]; move it there"),
    ("[[phases]]\nstart_step = 3", "phases stands outside of [data]; move it there"),
    ("[[dta.phases]]\nstart_step = 3", "unknown table [dta] (did you mean 'data'?)"),
    ("[data]\n[Data]\nmix_temperature = 2", "unknown table [Data] (did you mean 'data'?)"),
    ("[train]\nsteps = 3", "there is no [data] table; write [[data.datasets]] tables with name"),
    ("", "there is no [data] table"),
    # types
    ("data = 3", "data: give a table of mix_temperature, datasets, phases, anneal"),
    ("[[data]]\nphases = []", "data: give a table of mix_temperature, datasets, phases, anneal"),
    ("[data.datasets]\nweb = 3", "data: datasets={'web': 3}: give a list of a table"),
    ("[data]\ndatasets = ['web']", "data: datasets[0]='web': give a table"),
    ("[data.phases]\nstart_step = 3", "data: phases={'start_step': 3}: give a list of a table"),
    ("[data]\nmix_temperature = 'hot'", "data: mix_temperature='hot': give a finite number above"),
    ("[[data.datasets]]\nname = 3", "data: datasets[0]: name=3: give text"),
    # datasets
    ("[[data.datasets]]\nweight = 2", "data: datasets[0]: no name, and no path or hf_name; give"),
    ("[[data.datasets]]\npath = '/'", "data: datasets[0]: no name, and none can be made of '/'; g"),
    ("[[data.datasets]]\npath = '/d/*.npy'", "none can be made of '/d/*.npy'; give the name of a"),
    ("[[data.datasets]]\nname='a'\nweight=-1", "data: datasets[0]: weight=-1: give a f"),
    (TWO + "[[data.datasets]]\nname='web'", "data: datasets[2]: a second dataset 'web'; give each"),
    (TWO + "[[data.datasets]]\npath='/x/web'", "data: datasets[2]: a second dataset 'web'; give e"),
    # phases
    ("[[data.phases]]\n[[data.phases]]", "a phase at step 0 after one at step 0; start_step must"),
    ("[[data.phases]]\nstart_step = -1", "data: phases[0]: start_step=-1: give an integer from 0"),
    (PHASE + PHASE, "a phase at step 5 after one at step 5; start_step must rise"),
    (PHASE + "lr_scale = 0", "data: phases[0]: lr_scale=0: give a finite number above 0"),
    (
        PHASE + "dataset_weights = 3",
        "data: phases[0]: dataset_weights=3: give a weight for each na",
    ),
    (PHASE + "dataset_weights = {a = -1}", "[0]: dataset_weights['a']=-1: give a finite numb"),
    (
        TWO + PHASE + "dataset_weights = {wbe = 1}",
        "data: phases[0]: dataset_weights: no dataset 'wbe' (did you mean 'web'?); there are: web,",
    ),
    (
        "[[data.datasets]]\npath = '/d/web'\n"
        + PHASE
        + "dataset_weights = {web = 1, '/d/web' = 2}",
        "data: phases[0]: dataset_weights: 'web' is there twice, also as '/d/web'",
    ),
    # the shortcut
    ("[data]\nanneal_start_step = 4", "data: anneal_start_step without anneal_weights; give both"),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = {}",
        "data: anneal_start_step without anneal_weights; give both",
    ),
    ("[data]\nanneal_weights = {a = 1}", "data: anneal_weights without anneal_start_step; give b"),
    (
        "[data]\nanneal_start_step = -4\nanneal_weights = {a = 1}",
        "data: anneal_start_step=-4: give an integer from 0",
    ),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = [1]",
        "data: anneal_weights=[1]: give a weight for each name, as in {'web': 0.7}",
    ),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = {wbe = 1}\n" + TWO,
        "data: anneal_weights: no dataset 'wbe' (did you mean 'web'?); there are: web, code",
    ),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = {a = 1}\nanneal_end_step = 4",
        "anneal: end_step=4 must be more than start_step=4; leave it out to change",
    ),
    ("[data]\nanneal_end_step = 4", "data: anneal_end_step without anneal_weights; give both"),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = {a = 1}\nanneal_lr_scale = 0",
        "data: anneal_lr_scale=0: give a finite number above 0",
    ),
    (
        "[data]\nanneal_start_step = 4\nanneal_weights = {a = 1}\n" + PHASE,
        "phases and anneal together; give one of them",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_mistake_is_named_by_file_table_and_key(
    load: Load, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(MixtureError) as caught:
        load(text)
    found = str(caught.value)
    assert found.startswith(f"{tmp_path / 'mix.toml'}: ")
    assert message in found


@pytest.mark.parametrize("wrong", ['anneal_weights = ""', "anneal_start_step = 0.0"])
def test_wrong_types_are_never_taken_for_off(load: Load, wrong: str) -> None:
    with pytest.raises(MixtureError, match=wrong.split()[0]):
        load(f"[data]\n{wrong}")


# ---- files that are none


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[data]\nmix_temperature = = 2", r"not TOML: .*line 2"),
        (b"[data]\n[data]", r"not TOML: .*line 2"),
        (b"[data]\nname = \xff", "not UTF-8: byte 14"),
        (b"[data]\nmix_temperature = " + b"9" * 5000, "not TOML: "),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mix.toml"
    file.write_bytes(content)
    with pytest.raises(MixtureError, match=message) as caught:
        Mixture.from_toml(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MixtureError, match=r"none\.toml: there is no such file"):
        Mixture.from_toml(tmp_path / "none.toml")
    with pytest.raises(MixtureError, match="cannot be read: "):
        Mixture.from_toml(tmp_path)
