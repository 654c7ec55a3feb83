"""DuckDB's fts extension: the ways it is found, in their order, and what is said if it is not."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from duckplets.corpus import doctor
from duckplets.db import extensions
from duckplets.db.database import Database, engine_version
from duckplets.errors import ExtensionError, QueryError
from duckplets.search import analyzer
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import STEMMERS, Terms

try:
    WHEEL = extensions.wheel_file("fts")
except FileNotFoundError as error:
    pytest.skip(f"the wheel of fts: {error}", allow_module_level=True)


@pytest.fixture(autouse=True)
def bare_home(tmp_path, monkeypatch):
    """No extension is installed for the user of a test."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def install(monkeypatch):
    """What was to be downloaded; there is no network."""
    asked = []

    def refuse(database, name):
        asked.append(name)
        raise QueryError("IO Error: no route to host")

    monkeypatch.setattr(Database, "install_extension", refuse)
    return asked


@pytest.fixture(autouse=True)
def _nothing_is_open():
    """Forget the instances that the vocabularies of other tests have opened."""
    analyzer._instance.cache_clear()


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(extensions, "find_spec", lambda name: None)


def stems(database):
    return database.rows("SELECT stem('foxes', 'porter')") == [("fox",)]


def install_from_wheel(database, name):
    """What ``INSTALL fts`` does, without a network."""
    assert name == "fts"
    database._connection.install_extension(str(WHEEL))


def test_the_wheel_serves_where_nothing_is_installed_and_what_is_comes_first(install, monkeypatch):
    assert stems(extensions.stemming())
    assert extensions.fts_found() == f"from the wheel duckdb-extension-fts {engine_version()}"
    assert "duckdb_extension_fts" not in sys.modules
    install_from_wheel(Database.scratch(), "fts")
    monkeypatch.setattr(
        extensions, "wheel_file", lambda name: pytest.fail("the wheel was looked for")
    )
    assert stems(extensions.stemming())
    assert extensions.fts_found() == "installed"
    assert not install


@pytest.mark.usefixtures("no_wheel")
def test_without_a_wheel_it_is_installed_and_stays_so(monkeypatch):
    monkeypatch.setattr(Database, "install_extension", install_from_wheel)
    assert extensions.fts_found().startswith("not installed")
    assert stems(extensions.stemming())
    assert extensions.fts_found() == "installed"


@pytest.mark.usefixtures("no_wheel")
def test_where_there_is_no_way_the_error_names_both_and_why_each_failed(install):
    with pytest.raises(ExtensionError) as raised:
        extensions.stemming()
    text = str(raised.value)
    for said in (
        *("pip install 'duckplets[fts]'", "duckdb -c 'INSTALL fts'", "no route to host"),
        *("fts.duckdb_extension", "--stemmer none"),  # where it was looked for; how to go without
        "the wheel duckdb-extension-fts: not installed",
    ):
        assert said in text
    assert "\n" not in text
    assert install == ["fts"]


def test_a_wheel_for_another_duckdb_is_not_taken(tmp_path, install, monkeypatch):
    other = tmp_path / "extensions" / "v0.0.1"
    other.mkdir(parents=True)
    (other / "fts.duckdb_extension").write_bytes(WHEEL.read_bytes())
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(extensions, "find_spec", lambda name: spec)
    with pytest.raises(
        ExtensionError, match=rf"is for DuckDB v0\.0\.1, this is v{engine_version()}"
    ):
        extensions.stemming()


# ---- who needs it


@pytest.mark.usefixtures("no_wheel", "install")
def test_stemming_and_english_stop_words_need_it_and_words_as_they_are_do_not():
    for terms in (Terms(), Terms(stemmer="none", stop_words="english")):
        with pytest.raises(ExtensionError):
            Vocabulary(terms)
    words = Vocabulary(Terms(stemmer="none", stop_words=["the"]))
    assert words.read(pa.array(["The running foxes"])).key.tolist() == [-1, 0, 1]
    assert words.terms(0, 9).to_pylist() == ["running", "foxes"]


def test_the_stemmers_are_those_of_the_extension():
    database = extensions.stemming()
    for stemmer in STEMMERS:
        assert database.rows("SELECT stem('x', $s)", {"s": stemmer}) == [("x",)]
    with pytest.raises(QueryError) as raised:
        database.rows("SELECT stem('x', 'klingon')")
    assert len(STEMMERS) == 28
    assert "Unrecognized stemmer" in str(raised.value)


def test_doctor_says_which_way_and_downloads_nothing(install, monkeypatch):
    for wheel in (True, False):
        if not wheel:
            monkeypatch.setattr(extensions, "find_spec", lambda name: None)
        said = {check.what for check in doctor.environment() if check.ok}
        line = next(what for what in said if what.startswith("DuckDB's extension fts: "))
        assert ("from the wheel" in line) == wheel
        assert ("not installed; " in line and "duckplets[fts]" in line) != wheel
    assert not install
