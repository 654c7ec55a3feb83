"""Read a paged HTTP API as a source, with the standard library, and repeat after an error.

python examples/custom_api.py [URL]

Without a URL it asks a small server of its own.
"""

import json
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duckplets as dp


class Articles:
    """Articles of an API that answers ``{"articles": […], "next": …}``.

    The cursor is what the API calls next: it goes into the query for the page that follows.
    """

    name = "articles"
    kind = "api"

    def __init__(self, url, waits=(0.2, 0.5, 2.0)):
        self.uri = url
        self.waits = waits

    def batches(self, cursor):
        """Yield pages of articles, from the one that the cursor names on."""
        page = {"articles": [], "next": cursor or "start"}
        while page["next"] is not None:
            page = self.page(page["next"])
            yield page["articles"], page["next"]

    def page(self, after):
        """Return a page; a server in trouble is asked again after a while."""
        url = f"{self.uri}?{urllib.parse.urlencode({'after': after})}"
        for seconds in self.waits:
            try:
                return answer(url)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500:
                    raise
            time.sleep(seconds)
        return answer(url)


def answer(url):
    """Return what an address answers, read as JSON."""
    with urllib.request.urlopen(url, timeout=30) as stream:
        return json.load(stream)


class Server(BaseHTTPRequestHandler):
    """A hundred and twenty articles by pages of fifty; the second page fails at first."""

    failed = False

    def do_GET(self):
        """Answer with a page of articles, and the next page."""
        after = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["after"][0]
        if after == "50" and not Server.failed:
            Server.failed = True
            self.send_error(500)
            return
        start = 0 if after == "start" else int(after)
        articles = [
            {
                "id": f"a{i}",
                "title": f"What lives on island {i}?",
                "body": f"On island {i} there are {i % 7 + 2} kinds of birds and a lighthouse.",
                "published": f"2023-05-{i % 28 + 1:02}",
                "by": ["Ada", "Ben"][i % 2],
            }
            for i in range(start, min(start + 50, 120))
        ]
        following = start + 50 if start + 50 < 120 else None
        data = json.dumps({"articles": articles, "next": following}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, text, *values):
        """Show what is asked for."""
        print(f"server: {text % values}")


@contextmanager
def served():
    """Serve on a free port for a while."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/articles"
        finally:
            server.shutdown()
            thread.join()


def read(url):
    """Ingest the articles, and show what has come of them."""
    source = dp.CustomSource(
        Articles(url), anchor="title", positive="body", id="id", date="published", meta="by"
    )
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(f"{folder}/api.duckdb") as corpus:
        report = corpus.ingest(source)
        print(f"{report.read} rows read, {report.added} records added: {corpus.split()}")
        record = corpus.sql("FROM live_records ORDER BY record_key LIMIT 1").to_pylist()[0]
        print(record["record_id"], record["date"], dict(record["meta"]))


if len(sys.argv) > 1:
    read(sys.argv[1])
else:
    with served() as url:
        read(url)
