"""What goes wrong on the way to a hub: what is tried again, and what each failure says."""

import importlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from email.utils import formatdate
from unittest import mock

import pytest
from effort import some
from hub_data import flat, items, jsonl, parquet, read, rows
from hub_server import POOR, TOKEN
from prebuilt import empty_corpus

import duckplets
from duckplets.errors import SourceError
from duckplets.ingest import ingest
from duckplets.sources import Mark, row_batches
from duckplets.sources.remote import download
from duckplets.sources.remote.hub import HubSource

LINE = "hf://org/data anchor=question positive=answer"
FILES = {"train-00000.parquet": parquet(rows(200, 1)), "train-00001.parquet": parquet(rows(90, 2))}


@pytest.fixture
def hub(hub, monkeypatch):
    hub.add("org/data", FILES)
    # The client has an own way to wait, which cannot be given to it.
    monkeypatch.setattr("huggingface_hub.utils._http.time", mock.Mock())
    monkeypatch.setattr("huggingface_hub.file_download.time", mock.Mock())
    return hub


@pytest.fixture
def small_tables(monkeypatch):
    """Marks every few rows, instead of every 40,000, and a commit at each."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", 50)
    monkeypatch.setattr("duckplets.sources.row_batches._CHUNK_ROWS", 16)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 50)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def source(line=LINE, **more):
    """Return a source that does not wait, and the list of how long it would have."""
    found, waits = HubSource(line, **more), []
    object.__setattr__(found, "_sleep", waits.append)
    return found, waits


def message(line=LINE, **more):
    with pytest.raises(SourceError) as error:
        read(source(line, **more)[0])
    shown = str(error.value)
    assert "\n" not in shown
    assert TOKEN not in shown
    return shown


# ---- access, and no hub at all

LOGIN = "log in with: hf auth login"
ACCOUNT = "and that the account of the token may read it"
ABSENT = "org/{} is no data set on {{url}}, or it is private; check the name"
NOTHING, MINE = ABSENT.format("nothing"), ABSENT.format("mine")
ASKS = "org/gated is gated: ask for access at {url}/datasets/org/gated"
FILE = "train-00000.parquet of org/data"
NO_TOKEN = "token= is no token: give the text that begins with hf_"
REFUSED = f"{{url}} refuses the token; give another as token= or HF_TOKEN, or {LOGIN}"
NO_RIGHT = f"the token has no right to it: give another as token= or HF_TOKEN, or {LOGIN}"
UNREAD = f"{FILE} cannot be read from {{url}}: the hub answers with status"
NOWHERE, PRIVATE, GATED, OFF = (
    {"line": LINE.replace("data", name)} for name in ("nothing", "mine", "gated", "off")
)
DENIED = {"path": "resolve/.*parquet", "status": 403}
GONE = DENIED | {"status": 404, "headers": {"X-Error-Code": "EntryNotFound"}}
STAYS = {"path": "kept/.*train-00000", "times": 5}
SAID = [  # what fails, what is asked, is told
    ({}, NOWHERE, f"{NOTHING}, or {LOGIN}"),
    ({}, NOWHERE | {"token": TOKEN}, f"{NOTHING}, {ACCOUNT}"),
    ({}, PRIVATE, f"{MINE}, or {LOGIN}"),
    ({}, PRIVATE | {"token": POOR}, f"{MINE}, {ACCOUNT}"),
    ({}, GATED, f"{ASKS}, then {LOGIN} or set HF_TOKEN"),
    ({}, GATED | {"token": POOR}, f"{ASKS} with the account of the token"),
    ({}, OFF, "org/off is disabled on {url}: nobody can read it"),
    ({}, {"token": "hf_forged"}, REFUSED),
    *(({}, {"token": t}, NO_TOKEN) for t in ("two words", "hf_\nX-Evil: 1", "ключ", "", 7)),
    (DENIED, {}, f"{{url}} denies access to {FILE}; {LOGIN}"),
    (DENIED, {"token": TOKEN}, f"{{url}} denies access to {FILE}; {NO_RIGHT}"),
    (GONE, {}, f"{FILE} is listed on {{url}} and is not there"),
    *((STAYS | {"status": n}, {}, f"{UNREAD} {n}") for n in (400, 410, 451, 501)),
]


def test_what_cannot_be_had_is_told(hub):
    hub.add("org/mine", FILES, private=True)
    hub.add("org/gated", FILES, gated=True)
    hub.add("org/off", FILES, disabled=True)
    for fault, asked, said in SAID:
        hub.faults.clear()
        if fault:
            hub.fail(**fault)
        assert message(**asked) == said.format(url=hub.url)
        assert [each.times for each in hub.faults] in ([], [0], [4]), "what stays is tried once"


def test_the_right_token_opens_what_is_private_or_gated(hub, monkeypatch):
    hub.add("org/mine", FILES, private=True)
    hub.add("org/gated", FILES, gated=True)
    for asked in (PRIVATE, GATED):
        assert len(read(HubSource(asked["line"], token=TOKEN))) == 290
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert len(read(HubSource(PRIVATE["line"]))) == 290


def test_what_is_gone_offline_or_no_address_is_told(hub, monkeypatch):
    cursor = {"rows": 1, "at": {"file": "train-00000.parquet", "row": 1}}
    cursor["of"] = {"revision": "0" * 40}
    with pytest.raises(SourceError, match=r"has no such revision .*; start the ingest again"):
        read(HubSource(LINE), cursor)
    hub.requests.clear()
    with monkeypatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        said = "org/data is on the Hub and HF_HUB_OFFLINE is set; unset it to read data sets"
        assert message() == said
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", None)
        said = "data sets on the Hub need huggingface_hub: pip install 'duckplets[hub]'"
        assert message() == said
    for endpoint in ("localhost:80", "ftp://127.0.0.1", "x"):
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        assert message() == f"HF_ENDPOINT={endpoint} is no http(s) address"
    assert not hub.requests


def test_no_network_is_told(hub, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("HF_ENDPOINT", url)
    assert message() == (
        f"cannot reach {url}: connection refused; check the network and HF_ENDPOINT (5 tries); "
        f"running the same command again continues where it stopped"
    )
    monkeypatch.setenv("HF_ENDPOINT", "http://no-such-host.invalid")
    assert message().startswith("cannot reach http://no-such-host.invalid: ")


def test_without_an_endpoint_the_hub_is_hugging_faces(monkeypatch):
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.co")
    monkeypatch.delattr("huggingface_hub.constants")  # as before anything has imported it
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert download.Hub("org/data", None).endpoint == "https://huggingface.co"
    monkeypatch.delenv("HF_ENDPOINT")
    assert download.Hub("org/data", None).endpoint == "https://huggingface.co"


# ---- tries


def test_what_passes_is_tried_again_waiting_longer_each_time(hub):
    expected = read(HubSource(LINE))
    for path in ("GET /api/datasets/org/data$", "GET /kept/.*train-00000"):
        hub.fail(path, times=4, status=503)
        found, waits = source()
        assert read(found) == expected
        assert waits == [0.5, 1.0, 2.0, 4.0], path
    soon = formatdate(time.time() + 20, usegmt=True)  # the hub may say how long to wait
    given = {"7": (7, 7), soon: (16, 20), "100000": (300, 300), "soon": (0.5, 0.5)}
    for header, (low, high) in given.items():
        hub.fail("GET /api/datasets/org/data$", status=429, headers={"Retry-After": header})
        found, waits = source()
        assert read(found) == expected
        assert len(waits) == 1
        assert low <= waits[0] <= high


def test_a_download_that_breaks_off_is_tried_again_by_the_client(hub):
    expected = read(HubSource(LINE))
    hub.requests.clear()
    hub.fail("GET /kept/.*train-00000", times=3, after=1500)
    found, waits = source()
    assert read(found) == expected
    assert len(hub.asked("GET /kept/.*train-00000")) == 4
    assert not waits


@pytest.mark.usefixtures("small_tables")
def test_rows_before_a_shard_that_fails_are_given(hub):
    hub.fail("GET /kept/.*train-00001", times=5, status=500)
    found = source()[0]
    got = []
    with pytest.raises(SourceError, match="continues where it stopped"):
        got.extend(items(found))
    last = [item for item in got if isinstance(item, Mark)][-1]
    before = [row for item in got if not isinstance(item, Mark) for row in flat(item)]
    assert last.cursor["rows"] == len(before) >= 150
    assert before + read(found, last.cursor) == read(found)


@pytest.mark.parametrize("asked", some(["train-0", "train-1"], less=1))
@pytest.mark.usefixtures("small_tables")
def test_an_ingest_that_is_interrupted_does_not_wait_for_the_hub(hub, tmp_path, asked):
    hub.add("org/big", {f"train-{i}.jsonl": jsonl(rows(60, i)) for i in range(2)})
    hub.fail(f"GET /kept/.*{asked}", times=5, status=500, headers={"Retry-After": "8"})

    def interrupt():
        while not hub.asked(f"GET /kept/.*{asked}"):
            time.sleep(0.01)
        time.sleep(0.3)  # it may still be used for a moment; then it waits
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with empty_corpus(tmp_path / "c.duckdb") as corpus, pytest.raises(KeyboardInterrupt):
        corpus.ingest(HubSource("hf://org/big text=question"), progress=False)
    interrupting.join()
    assert len(hub.asked(f"GET /kept/.*{asked}")) == 1, "it waited, and tried again"


# ---- secrets


def test_a_token_is_in_no_file_message_or_log(hub, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = HubSource(LINE)
    shown = HubSource(LINE, token=TOKEN)
    with duckplets.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(found, name="one")
        hub.fail("GET /kept/.*train-00001", times=5, status=500)
        with pytest.raises(SourceError) as error:
            corpus.ingest(source(token=TOKEN)[0], name="two")
        shown_all = [repr(found), repr(shown), str(found.settings()), str(shown.settings())]
        shown_all += [str(error.value), str(found.uri), caplog.text, str(corpus.status())]
    assert hub.tokens == {TOKEN}
    assert not any(TOKEN in text for text in shown_all)
    assert error.value.__cause__ is None
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not any(TOKEN.encode() in file.read_bytes() for file in files)


# ---- answers that no hub gives

ODD = [
    ("org/data$", b"{}"),
    ("org/data$", b'{"sha": "main"}'),
    ("org/data$", b"[" * 50_000),
    ("/tree/", b'{"type": "file"}'),
    ("/tree/", b'[{"type": "file", "path": "a"}]'),
]


def test_an_odd_answer_is_told(hub):
    for where, body in ODD:
        hub.faults.clear()
        hub.fail(where, times=9, status=200, body=body)
        assert message().startswith(f"the server at {hub.url} is no hub: its answer about org/d")
