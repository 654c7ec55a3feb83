"""A small hub on 127.0.0.1, as the real client speaks to it: data sets, revisions, faults.

    with Hub() as hub:
        hub.add("org/name", {"train.jsonl": b"..."})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)

``python tests/hub_server.py FOLDER`` serves the data sets FOLDER/org/name until its standard
input ends, and prints its address.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_ThisIsTheTokenThatOpensDoors"
POOR = "hf_AnotherTokenThatOpensNothing"
Content = bytes | Path
LARGE = 1000  # bytes from which a file is kept elsewhere, as LFS keeps it


@dataclass
class Fault:
    """What happens to the next requests whose path matches, instead of an answer.

    Attributes:
        path: Expression that is searched for in ``METHOD /path``.
        times: How many of them.
        status: Sent instead of the file; 0 to send the file and break off.
        after: Bytes of the body before the connection is dropped; None to send all.
        headers: Sent besides.
        body: Sent with a status.
    """

    path: str
    times: int = 1
    status: int = 0
    after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"


@dataclass
class Repo:
    """A data set with all its revisions, the newest last."""

    revisions: dict[str, dict[str, Content]] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    disabled: bool = False

    def change(self, files: dict[str, Content]) -> str:
        """Add a revision; returns its commit."""
        listing = f"{len(self.revisions)}" + "".join(f"{p}{len_of(c)}" for p, c in files.items())
        commit = hashlib.sha1(listing.encode()).hexdigest()
        self.revisions[commit] = dict(files)
        return commit

    @property
    def head(self) -> str:
        return list(self.revisions)[-1]


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: a client that gives up is none of the test's output."""


class Hub:
    """The server; ``requests`` lists what it was asked, as ``METHOD /path [range]``."""

    def __init__(self, page: int = 3, port: int = 0) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.uploads: dict[str, bytes] = {}  # by their SHA-256
        self.page = page
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def add(self, name: str, files: dict[str, Content], **more: Any) -> Repo:
        self.repos[name] = Repo(**more)
        self.repos[name].change(files)
        return self.repos[name]

    def fail(self, path: str, **more: Any) -> None:
        self.faults.append(Fault(path, **more))

    def asked(self, path: str) -> list[str]:
        """Return the requests that match an expression."""
        return [request for request in self.requests if re.search(path, request)]

    def fault_of(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and re.search(fault.path, request):
                fault.times -= 1
                return fault
        return None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Hub:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def len_of(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


_DIGESTS: dict[tuple[str, int], str] = {}


def sha256_of(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    known = (str(content), content.stat().st_mtime_ns)
    if known not in _DIGESTS:
        with content.open("rb") as file:
            _DIGESTS[known] = hashlib.file_digest(file, "sha256").hexdigest()
    return _DIGESTS[known]


def entry_of(path: str, content: Content) -> dict[str, Any]:
    """Return a file as the tree lists it."""
    size = len_of(content)
    entry: dict[str, Any] = {"type": "file", "path": path, "size": size}
    if size >= LARGE:
        sha256 = sha256_of(content)
        entry["lfs"] = {"oid": sha256, "size": size, "pointerSize": 130}
        return entry | {"oid": hashlib.sha1(sha256.encode()).hexdigest()}
    data = content if isinstance(content, bytes) else content.read_bytes()
    return entry | {"oid": hashlib.sha1(b"blob %d\0" % size + data).hexdigest()}


class _Dropped(Exception):  # noqa: N818 - a sign, no error
    """The connection is to be closed at once."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self._body = self.rfile.read(length)
        self._answer()

    @property
    def hub(self) -> Hub:
        return self.server.hub

    def _answer(self) -> None:
        split = urlsplit(self.path)
        path = unquote(split.path)
        shown = f"{self.command} {path} {self.headers.get('Range', '')}".strip()
        self.hub.requests.append(shown)
        self._fault = self.hub.fault_of(shown)
        try:
            if self._fault and self._fault.status:
                self._send(self._fault.status, self._fault.body, **self._fault.headers)
            elif self._fault and self._fault.after is not None and "/api/" in path:
                raise _Dropped
            elif self.command in ("POST", "PUT"):
                self._write(path)
            elif found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(/.*)?", path):
                self._api(found[1], found[2] or "", parse_qs(split.query))
            elif found := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                self._resolve(found[1], found[2], found[3])
            elif found := re.fullmatch(r"/kept/([^/]+/[^/]+)/([^/]+)/(.+)", path):
                self._file(self.hub.repos[found[1]].revisions[found[2]][found[3]], found[2])
            else:
                self._send(404, b"{}")
        except (_Dropped, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _repo(self, name: str) -> Repo | None:
        """Return a repository that may be seen; None after an answer that it may not."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token:
            self.hub.tokens.add(token)
        if token not in ("", TOKEN, POOR):
            said = "Invalid credentials in Authorization header"
            self._send(401, b"{}", **{"X-Error-Message": said})
            return None
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and token != TOKEN):
            code = {"X-Error-Code": "RepoNotFound"}
            self._send(404 if token else 401, b'{"error": "Repository not found"}', **code)
            return None
        if repo.disabled:
            self._send(403, b"{}", **{"X-Error-Message": "Access to this resource is disabled."})
            return None
        return repo

    def _api(self, name: str, rest: str, query: dict[str, list[str]]) -> None:
        repo = self._repo(name)
        if repo is None:
            return
        what, _, revision = rest.strip("/").partition("/")
        revision = repo.head if revision in ("", "main", "HEAD") else revision
        if revision not in repo.revisions:
            self._send(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        elif what == "tree":
            self._tree(name, repo.revisions[revision], revision, query)
        elif what in ("", "revision"):
            self._json({"id": name, "sha": revision, "private": repo.private})
        else:
            self._send(404, b"{}", **{"X-Error-Code": "EntryNotFound"})

    def _write(self, path: str) -> None:
        """Answer what creates a repository and commits to it, as LFS clients speak."""
        if found := re.fullmatch(r"/kept/([0-9a-f]{64})", path):  # it is signed, and has no token
            assert hashlib.sha256(self._body).hexdigest() == found[1]
            self.hub.uploads[found[1]] = self._body
            self._json({})
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            said = "You don't have the rights to create a dataset under this namespace"
            self._send(403, b"{}", **{"X-Error-Message": said})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            asked = json.loads(self._body)
            name = f"{asked['organization']}/{asked['name']}"
            there = name in self.hub.repos
            if not there:
                private = asked["visibility"] == "private"
                self.hub.add(name, {".gitattributes": b"*.parquet lfs\n"}, private=private)
            body = json.dumps({"url": f"{self.hub.url}/datasets/{name}"}).encode()
            self._send(409 if there else 200, body)
        elif re.fullmatch(r"/api/datasets/[^/]+/[^/]+/preupload/main", path):
            modes = {True: "lfs", False: "regular"}
            files = [file["path"] for file in json.loads(self._body)["files"]]
            found_modes = [
                {"path": p, "uploadMode": modes[p.endswith(".parquet")], "shouldIgnore": False}
                for p in files
            ]
            self._json({"files": found_modes})
        elif path.endswith(".git/info/lfs/objects/batch"):
            objects = json.loads(self._body)["objects"]
            for each in objects:
                if each["oid"] not in self.hub.uploads:
                    href = f"{self.hub.url}/kept/{each['oid']}"
                    each["actions"] = {"upload": {"href": href}}
            self._json({"objects": objects, "transfer": "basic"})
        elif found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/commit/main", path):
            self._commit(found[1])
        else:
            self._send(404, b"{}")

    def _commit(self, name: str) -> None:
        repo, (header, *changes) = (
            self.hub.repos[name],
            [json.loads(line) for line in self._body.splitlines()],
        )
        if header["value"].get("parentCommit", repo.head) != repo.head:
            self._send(412, b"{}")
            return
        files = dict(repo.revisions[repo.head])
        for change in changes:
            value = change["value"]
            if change["key"] == "deletedFile":
                del files[value["path"]]
            elif change["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                files[value["path"]] = self.hub.uploads[value["oid"]]
        oid = repo.change(files)
        self._json({"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{oid}", "commitOid": oid})

    def _tree(
        self, name: str, files: dict[str, Content], revision: str, query: dict[str, list[str]]
    ) -> None:
        """Answer with a page of all files and folders."""
        entries = [entry_of(path, content) for path, content in sorted(files.items())]
        folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
        entries += [
            {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
            for path in sorted(folders - {"."})
        ]
        start = int(query.get("cursor", ["0"])[0])
        more = {}
        if start + self.hub.page < len(entries):
            at = f"{self.hub.url}/api/datasets/{name}/tree/{revision}"
            link = f"{at}?recursive=true&cursor={start + self.hub.page}"
            more["Link"] = f'<{link}>; rel="next"'
        self._json(entries[start : start + self.hub.page], **more)

    def _resolve(self, name: str, revision: str, path: str) -> None:
        repo = self._repo(name)
        if repo is None:
            return
        if repo.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 403 if "Authorization" in self.headers else 401
            self._send(status, b"{}", **{"X-Error-Code": "GatedRepo"})
            return
        revision = repo.head if revision == "main" else revision
        files = repo.revisions.get(revision)
        if files is None or path not in files:
            code = "RevisionNotFound" if files is None else "EntryNotFound"
            self._send(404, b"{}", **{"X-Error-Code": code})
            return
        content = files[path]
        if len_of(content) >= LARGE:  # the hub sends clients on to where large files are
            sha256 = sha256_of(content)
            headers = {
                "Location": f"{self.hub.url}/kept/{name}/{revision}/{path}",
                "X-Repo-Commit": revision,
                "X-Linked-Etag": f'"{sha256}"',
                "X-Linked-Size": str(len_of(content)),
                "ETag": f'"{sha256}"',
            }
            self._send(302, b"", **headers)
        else:
            self._file(content, revision)

    def _file(self, content: Content, revision: str) -> None:
        size = len_of(content)
        start, end = 0, size
        ranged = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if ranged:
            start = int(ranged[1])
            end = min(int(ranged[2]) + 1, size) if ranged[2] else size
            if start >= size:
                self._send(416, b"", **{"Content-Range": f"bytes */{size}"})
                return
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", f'"{entry_of("", content)["oid"]}"')
        self.send_header("X-Repo-Commit", revision)
        self.send_header("Accept-Ranges", "bytes")
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        if self.command != "HEAD":
            self._stream(content, start, end)

    def _stream(self, content: Content, start: int, end: int) -> None:
        fault = self._fault
        stop = end if fault is None or fault.after is None else min(end, start + fault.after)
        for block in blocks(content, start, stop):
            self.wfile.write(block)
        self.wfile.flush()
        if stop < end:
            raise _Dropped

    def _json(self, value: Any, **headers: str) -> None:
        self._send(200, json.dumps(value).encode(), **headers)

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def blocks(content: Content, start: int, end: int) -> Iterator[bytes]:
    """Yield a part of a content in blocks."""
    if isinstance(content, bytes):
        for at in range(start, end, 1 << 16):
            yield content[at : min(at + (1 << 16), end)]
        return
    with content.open("rb") as file:
        file.seek(start)
        while start < end and (block := file.read(min(1 << 20, end - start))):
            start += len(block)
            yield block


def main() -> None:
    folder = Path(sys.argv[1])
    with Hub() as hub:
        for repo in sorted(folder.glob("*/*")):
            files: dict[str, Content] = {
                file.relative_to(repo).as_posix(): file
                for file in repo.rglob("*")
                if file.is_file()
            }
            hub.add(repo.relative_to(folder).as_posix(), files)
        print(hub.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
