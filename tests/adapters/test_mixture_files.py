"""Mixture files: the [data] table of a training config, and everything wrong in it at once."""

import pytest

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Mixture, Phase
from duckplets.sources.remote.hub import HubSource


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        file = tmp_path / "mix.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
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
DECLARED, SWAPPED = {"web": 0.7, "code": 0.3}, {"web": 0.3, "code": 0.7}


# ---- what files say

OFF = "[data]\nanneal_start_step = 0\nanneal_weights = {}\n"
SHORTCUT = "[data]\nanneal_start_step = 4\nanneal_weights = { web = 0 }\n"
AT_0 = "[[data.phases]]\nstart_step = 0\ndataset_weights = { web = 0 }\n"
TO_CODE = """
[[data.phases]]
start_step      = 10_000  # a note
dataset_weights = { web = 0.3, code = 0.7 }
lr_scale        = 0.5

[[data.phases]]
start_step = 20_000
[data.phases.dataset_weights]
web = 0
"""
LEFT_OUT = """
[data]
mix_temperature = 2
[[data.datasets]]
name = 'a'
[[data.datasets]]
name = 'never'
weight = 0
[[data.phases]]
start_step = 3
lr_scale = 2
"""
OTHER_TABLES = """
[train]
max_steps = 100
data = 'x'
[metadata]
datasets = 3
[[video.datasets]]
weight = 'none of ours'
[model]
"""
WHOLE_PATHS = """
[data]
anneal_start_step = 3
anneal_weights = { "/data/web" = 0.5, "bigcode/the-stack-dedup" = 2, wiki = 3 }
[[data.datasets]]
path = "/data/web"
[[data.datasets]]
hf_name = "bigcode/the-stack-dedup"
[[data.datasets]]
path = "/data/wiki"
"""
STACK = "bigcode--the-stack-dedup"
READ = [
    (
        "[data]\nmix_temperature = 1.0  # leaves the weights alone\n" + TWO + TO_CODE,
        Mixture(DECLARED, phases=[Phase(10_000, SWAPPED, 0.5), Phase(20_000, {"web": 0})]),
    ),
    # the shortcut, and the defaults written out
    (SHORTCUT + TWO, Mixture(DECLARED, anneal=Anneal(4, {"web": 0}))),
    (
        f"{SHORTCUT}anneal_end_step = 9\nanneal_lr_scale = 0.5\n{TWO}",
        Mixture(DECLARED, anneal=Anneal(4, {"web": 0}, 9, 0.5)),
    ),
    (f"{OFF}phases = []\nmix_temperature = 1\n{TWO}", Mixture(DECLARED)),
    (f"[data]\nanneal_start_step = 0\n{TWO}", Mixture(DECLARED)),
    (OFF + TWO + AT_0, Mixture(DECLARED, phases=[Phase(0, {"web": 0})])),
    # what is left out
    (LEFT_OUT, Mixture({"a": 1.0, "never": 0.0}, 2.0, [Phase(3, {}, 2.0)])),
    ("[data]", Mixture()),
    ("[data]\nmixture = 'equal'", Mixture("equal")),
    (AT_0, Mixture(phases=[Phase(0, {"web": 0})])),
    (TWO + OTHER_TABLES, Mixture(DECLARED)),
    ("\ufeff" + TWO.replace("\n", "\r\n"), Mixture(DECLARED)),
    (
        WHOLE_PATHS,
        Mixture(
            {"web": 1, STACK: 1, "wiki": 1}, anneal=Anneal(3, {"web": 0.5, STACK: 2, "wiki": 3})
        ),
    ),
]


@pytest.mark.parametrize(("text", "mixture"), READ)
def test_what_a_file_says_is_read(load, text, mixture):
    assert load(text) == mixture


def test_the_shortcut_at_step_0_is_no_annealing_and_says_so(load, caplog):
    found = load("[data]\nanneal_start_step = 0\nanneal_weights = { web = 0 }\n" + TWO)
    assert found == Mixture(DECLARED)
    assert "anneal_start_step = 0 means no annealing" in caplog.text
    phases = "[[data.phases]]\nstart_step = 3\ndataset_weights = { web = 0 }\n"
    found = load("[data]\nanneal_start_step = 0\nanneal_weights = { web = 1 }\n" + TWO + phases)
    assert found == Mixture(DECLARED, phases=[Phase(3, {"web": 0})])
    with pytest.raises(MixtureError, match="no dataset 'wob'"):  # they are read all the same
        load("[data]\nanneal_start_step = 0\nanneal_weights = { wob = 0 }\n" + TWO)


def test_sources_that_are_not_listed_weigh_0_until_a_phase_names_them(load):
    phase = "[[data.phases]]\nstart_step = 5\ndataset_weights = { web = 2 }\n"
    found = load(TWO + phase)
    assert found.declared(["code", "web", "wiki"]) == {"code": 0.3, "web": 0.7, "wiki": 0}
    with pytest.raises(MixtureError, match="every source has weight 0"):
        load(TWO.replace("0.7", "0").replace("0.3", "0")).check(["code", "web", "wiki"])


# ---- names


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ('name = "web"\npath = "/data/other"', "web"),
        ('path = "/data/tokenized/web"', "web"),
        ('path = "/data/web.jsonl.gz"', "web"),
        ("path = 'C:\\data\\web'", "web"),
        ('hf_name = "bigcode/the-stack-dedup"', "bigcode--the-stack-dedup"),
        ('hf_name = "wikitext"\nhf_config = "wikitext-103-raw-v1"', "wikitext"),
        ('name = ""\npath = "/data/web"\nhf_name = ""', "web"),
    ],
)
def test_a_dataset_without_a_name_takes_one_from_where_it_lies(load, keys, name):
    assert load(f"[[data.datasets]]\n{keys}\nweight = 2") == Mixture({name: 2.0})


@pytest.mark.parametrize("config", ["", "default", "en", "20231101.en"])
@pytest.mark.parametrize("name", ["org/name", "o.r-g/na_me"])
def test_a_hub_name_is_that_of_the_source_it_is_ingested_as(load, name, config):
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


def test_the_data_table_of_a_training_file_is_taken_with_one_note(load, caplog):
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
AT_4 = "[data]\nanneal_start_step = 4\nanneal_weights = {a = 1}\n"
KEYS = "mix_temperature, datasets, phases, anneal"
WRONG = [
    # keys
    ("[data]\nmix_temprature = 2", "data: unknown key 'mix_temprature' (did you mean 'mix_temp"),
    ("[data]\nweb = 2", f"data: unknown key 'web'; keys: {KEYS}"),
    ("[[data.datasets]]\nname='a'\nwieght=1", "data: datasets[0]: unknown key 'wieght' (did you m"),
    (PHASE + "weights = {}", "phases[0]: unknown key 'weights' (did you mean 'dataset_weights'"),
    ("mix_temperature = 2\n[data]", "mix_temperature stands outside of [data]; move it there"),
    ("", "there is no [data] table"),
    # types
    ("data = 3", f"data: give a table of {KEYS}"),
    ("[data.datasets]\nweb = 3", "data: datasets={'web': 3}: give a list of a table"),
    ("[data]\nmix_temperature = 'hot'", "data: mix_temperature='hot': give a finite number above"),
    ('[data]\nanneal_weights = ""', "anneal_weights"),
    ("[data]\nanneal_start_step = 0.0", "anneal_start_step"),
    # datasets
    ("[[data.datasets]]\nweight = 2", "data: datasets[0]: no name, and no path or hf_name; give"),
    ("[[data.datasets]]\npath = '/d/*.npy'", "none can be made of '/d/*.npy'; give the name of a"),
    (TWO + "[[data.datasets]]\npath='/x/web'", "data: datasets[2]: a second dataset 'web'; give e"),
    # phases
    (PHASE + "lr_scale = 0", "data: phases[0]: lr_scale=0: give a finite number above 0"),
    (
        TWO + PHASE + "dataset_weights = {wbe = 1}",
        "data: phases[0]: dataset_weights: no dataset 'wbe' (did you mean 'web'?); there are: web,"
    ),
    (
        f"[[data.datasets]]\npath = '/d/web'\n{PHASE}dataset_weights = {{web = 1, '/d/web' = 2}}",
        "data: phases[0]: dataset_weights: 'web' is there twice, also as '/d/web'"
    ),
    # the shortcut
    ("[data]\nanneal_start_step = 4", "data: anneal_start_step without anneal_weights; give both"),
    ("[data]\nanneal_weights = {a = 1}", "data: anneal_weights without anneal_start_step; give b"),
    (AT_4.replace("{a = 1}", "[1]"), "data: anneal_weights=[1]: give a weight for each name"),
    (AT_4 + TWO, "data: anneal_weights: no dataset 'a'; there are: web, code"),
    (AT_4 + "anneal_lr_scale = 0", "data: anneal_lr_scale=0: give a finite number above 0"),
    (AT_4 + PHASE, "phases and anneal together; give one of them"),
    # files that are none
    ("[data]\nmix_temperature = = 2", "not TOML: "),
    (b"[data]\nname = \xff", "not UTF-8: byte 14"),
    ("x = " + "[" * 100_000, "nested too deeply")
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_mistake_is_named_by_file_table_and_key(load, tmp_path, text, message):
    with pytest.raises(MixtureError) as caught:
        load(text)
    found = str(caught.value)
    assert found.startswith(f"{tmp_path / 'mix.toml'}: ")
    assert message in found


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(MixtureError, match=r"none\.toml: there is no such file"):
        Mixture.from_toml(tmp_path / "none.toml")
    with pytest.raises(MixtureError, match="cannot be read: "):
        Mixture.from_toml(tmp_path)
