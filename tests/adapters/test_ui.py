"""`duckplets ui` with the extension itself, and a stand-in for the site of its page."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import duckdb
import pytest

from duckplets.corpus import look_inside
from duckplets.db import extensions
from duckplets.db.database import Database
from duckplets.db.sessions import Session
from duckplets.errors import QueryError


@pytest.fixture
def site():
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"page")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No notebooks of who runs the tests, and no browser."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "xdg-open").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def test_the_page_is_served_here_with_the_questions(corpus_path, site, monkeypatch):
    need = extensions.need
    # Only an instance that takes unsigned extensions heeds another site.
    here = Session(duckdb.connect(config={"allow_unsigned_extensions": "true"}))
    monkeypatch.setattr(Database, "scratch", lambda: Database(here))

    def from_site(database, name, ways):
        need(database, name, ways)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        database.rows(f"SET GLOBAL ui_remote_url = '{site}'")
        database.rows(f"SET GLOBAL ui_local_port = {port}")

    monkeypatch.setattr(extensions, "need", from_site)
    database, address = look_inside.open_page(corpus_path)
    try:
        with urlopen(address, timeout=20) as answer:
            assert answer.read() == b"page"
        views = {row[0] for row in database.rows("SELECT view_name FROM duckdb_views()")}
        assert set(look_inside.QUESTIONS) <= views
        with pytest.raises(QueryError, match="read-only"):
            database.rows("DELETE FROM corpus.records")
    finally:
        database.close()
