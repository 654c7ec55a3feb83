"""A store of objects on this machine, and a proxy before it that fails as networks do."""

from __future__ import annotations

import http.client
import logging
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY, SECRET = "AKIAOFTHETESTS", "the-secret-of-the-tests"

Fault = Callable[["Request"], str | None]
"""Says what is to go wrong with a request, if anything: see ``_Handler``."""


@dataclass(frozen=True)
class Request:
    """What was asked.

    Attributes:
        method: GET, PUT, …
        path: With the query.
        headers: Of the request, names in lower case.
        number: How many came before it.
    """

    method: str
    path: str
    headers: dict[str, str]
    number: int


@dataclass
class Proxy:
    """Passes requests on, and notes them.

    Attributes:
        port: Where it listens.
        behind: Port of the store.
        fault: What goes wrong.
        seen: All requests.
    """

    behind: int
    port: int = 0
    fault: Fault = lambda request: None
    seen: list[Request] = field(default_factory=list)

    def asked(self, method: str, part: str = "") -> list[Request]:
        """Return the requests of a method with something in their path."""
        return [each for each in self.seen if each.method == method and part in each.path]


class _Handler(BaseHTTPRequestHandler):
    """Passes a request on, unless the fault says otherwise.

    ``503``, ``403 AccessDenied`` and the like answer so; ``drop`` closes the connection before an
    answer, ``cut N`` after N bytes of the body, ``short N`` ends it there as if it were whole,
    ``slow N`` waits N milliseconds between parts.
    """

    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def do_any(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, len(self.proxy.seen))
        self.proxy.seen.append(request)
        what, _, detail = (self.proxy.fault(request) or "").partition(" ")
        if what == "drop":
            self.close_connection = True
        elif what.isdigit():
            self._refuse(int(what), detail or "SlowDown")
        else:
            self._pass_on(body, what, int(detail or 0))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815 - names of the library

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>of the test</Message></Error>".encode()
        self.send_response(status)
        if code == "PermanentRedirect":
            self.send_header("x-amz-bucket-region", "eu-north-1")
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _pass_on(self, body: bytes | None, what: str, detail: int) -> None:
        behind = http.client.HTTPConnection("127.0.0.1", self.proxy.behind, timeout=60)
        with closing(behind):
            behind.request(self.command, self.path, body, dict(self.headers.items()))
            answer = behind.getresponse()
            content = answer.read()
        self.send_response(answer.status)
        size = len(content[:detail]) if what == "short" else len(content)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else size
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if what == "cut":
            self.wfile.write(content[:detail])
            self.close_connection = True
        elif what == "slow":
            for low in range(0, len(content), 1 << 16):
                self.wfile.write(content[low : low + (1 << 16)])
                self.wfile.flush()
                time.sleep(detail / 1000)
        else:
            self.wfile.write(content[:size])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that went away."""


@contextmanager
def proxied(behind: int) -> Iterator[Proxy]:
    """Run a proxy before a port."""
    proxy = Proxy(behind)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    server: socketserver.BaseServer = _Quiet(("127.0.0.1", 0), handler)
    proxy.port = server.server_address[1]  # a host and a port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def store() -> Iterator[int]:
    """Run a store in this process, and yield its port."""
    moto = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()


def point_to(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Have everything of this test find a store at a port, and nothing of whoever runs it."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,  # the same for all tests: so is the client then
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_MAX_ATTEMPTS": "1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)


def client() -> Any:
    """Return what asks the store that this test points to."""
    return _client(os.environ["AWS_ENDPOINT_URL_S3"])


@cache
def _client(endpoint: str) -> Any:
    import boto3

    return boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
