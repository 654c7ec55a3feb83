"""List the files of a Hub repository and download them, complete and checked.

Session, headers and errors are those of ``huggingface_hub``. Its ``hf_hub_download`` (2.4.0, tried
on a file of 5 MB) deletes partial files on failure, checks sizes but not content, and sleeps for as
long as a hub asks without a way to stop it. Its ``list_repo_tree`` sleeps likewise, and sends the
token to any host the next page is on.

Requests are retried with doubling waits, or as long as the hub asks. Errors of the client are never
passed on: they hold requests, and those hold the token.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from duckplets.base.documents import Unreadable, decoded, from_json
from duckplets.base.sanitize import shown
from duckplets.base.settings import misfit
from duckplets.errors import PassingError, SourceError

T = TypeVar("T")
Sleep = Callable[[float], Any]

TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_ASKED = 0.5, 8.0, 300.0  # seconds
_TIMEOUT = 60.0  # seconds without data
_PASSING = (408, 425, 429, 500, 502, 503, 504)

_LARGEST_ANSWER = 16 << 20  # bytes; a page of a listing has a thousand files
_TOLD = ("x-error-code", "x-error-message", "retry-after")  # headers with the reason of a failure
_ENTRY = {"type": str, "path": str}
_FILE = _ENTRY | {"size": range(1 << 63), "oid": str, "lfs?": (None, {"oid?": (str, None)})}
_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")

_AGAIN = "running the same command again goes on where it stopped"
_LOGIN = "log in with: hf auth login"
_TOKEN = f"give another as token= or HF_TOKEN, or {_LOGIN}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository at a revision."""

    path: str  # path in the repository
    size: int  # in bytes
    oid: str  # git's SHA-1 of the file, or of its pointer
    sha256: str | None = None  # SHA-256 of the content, if the hub says so

    @property
    def checksum(self) -> str:
        """The expected value of ``digest`` after the content."""
        return self.sha256 or self.oid

    def digest(self) -> Any:
        """Return a hash object for the content."""
        if self.sha256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


class Stopped(Exception):  # noqa: N818 - it is no error: nobody wants the file any more
    """A download was stopped because its consumer was closed."""


class _Broken(Exception):  # noqa: N818 - it becomes an error, or is got over
    """The downloaded bytes are not the file."""


class Hub:
    """One repository of a hub."""

    done = "read from"  # what it says of failures

    def __init__(self, repo: str, token: str | None, sleep: Sleep | None = None) -> None:
        self._client = imported("huggingface_hub")
        self._utils = imported("huggingface_hub.utils")
        # Read now, not on import: notebooks set it afterwards.
        default = imported("huggingface_hub.constants").ENDPOINT
        self.endpoint = (os.environ.get("HF_ENDPOINT") or default).rstrip("/")
        self.repo = repo
        self.stop = threading.Event()
        self._token = _checked(token)
        self._sleep = sleep or self.stop.wait

    def revision(self) -> str:
        """Return the commit of the main branch."""
        found, _ = self._asked_for(self._api, {"sha": str})
        if not _COMMIT.fullmatch(found["sha"]):
            raise self._odd(self._api, f"sha is {found['sha']!r}, no commit")
        return str(found["sha"])

    def files(self, revision: str) -> list[HubFile]:
        """Return the files of a revision by path."""
        found, page, seen = list[HubFile](), "recursive=true", set[str]()
        while page:
            seen.add(page)
            address = f"{self._api}/tree/{revision}?{page}"
            listed, page = self._asked_for(address, [_ENTRY])  # of this host
            entries = [entry for entry in listed if entry["type"] == "file"]
            if wrong := misfit(entries, [_FILE]):
                raise self._odd(address, wrong)
            if page in seen or (page and not listed):
                raise self._odd(address, "its pages lead back to where they began, or nowhere")
            for entry in entries:
                sha256 = (entry.get("lfs") or {}).get("oid")
                found.append(HubFile(entry["path"], entry["size"], entry["oid"], sha256))
        return sorted(found, key=lambda file: file.path)

    def text(self, file: HubFile, revision: str, most: int) -> str:
        """Return the beginning of a text file, up to ``most`` bytes or its listed size."""
        size = min(file.size, most)

        def read() -> str:
            with self._opened(file, revision) as response:
                content = _beginning(response, size + 1)
            if len(content) > size == file.size:
                raise _Broken("more arrived than the hub lists")
            return content[:size].decode("utf-8", "replace")

        return self._tried(read, file.path)

    def fetch(self, file: HubFile, revision: str, part: Path) -> None:
        """Download a file to ``part``, continuing what is there."""
        self._tried(lambda: self._fetch(file, revision, part), file.path)

    @property
    def _api(self) -> str:
        return f"{self.endpoint}/api/datasets/{self.repo}"

    def _asked_for(self, address: str, shape: Any) -> tuple[Any, str]:
        """Return the answer of an address, and the query for its next page."""

        def ask() -> tuple[bytes, str]:
            with self._stream(address, {}) as response:
                content = _beginning(response, _LARGEST_ANSWER + 1)
                following = response.links.get("next", {}).get("url", "")
            return content, following

        content, following = self._tried(ask)
        try:
            found = from_json(decoded(content, _LARGEST_ANSWER))
            query = urlsplit(following).query
        except Unreadable as error:
            raise self._odd(address, f"it {error}") from None
        except ValueError as error:
            raise self._odd(address, f"its link leads to {following!r}: {error}") from None
        if wrong := misfit(found, shape):
            raise self._odd(address, wrong)
        return found, query

    def _odd(self, address: str, why: str) -> SourceError:
        """Return the error for an unexpected answer."""
        return SourceError(
            f"what answers at {self.endpoint} is no hub: its answer about {self.repo} makes no "
            f"sense: {shown(why)} ({shown(address)})"
        )

    @contextmanager
    def _stream(self, url: str, more: dict[str, str]) -> Iterator[Any]:
        """Open the streamed body of a successful answer.

        A failure is explained by status and headers: its body, of any length, is never read.
        """
        headers = self._headers() | {"Accept-Encoding": "identity"} | more
        session = self._utils.get_session()
        with session.stream("GET", url, headers=headers, timeout=_TIMEOUT) as response:
            told = response
            if response.status_code >= 400:
                kept = {name: response.headers[name] for name in _TOLD if name in response.headers}
                made = {"headers": kept, "request": response.request, "content": b"{}"}
                told = type(response)(response.status_code, **made)
            self._utils.hf_raise_for_status(told)
            yield response

    def _fetch(self, file: HubFile, revision: str, part: Path) -> None:
        with part.open("r+b") as out:
            digest = hashlib.file_digest(out, file.digest)
            start = out.tell()
            if start < file.size:
                with self._opened(file, revision, start) as response:
                    given = response.headers.get("Content-Range", "")
                    if start and not given.startswith(f"bytes {start}-"):  # from 0 again
                        digest = file.digest()
                        out.seek(out.truncate(0))
                    for block in response.iter_raw():
                        left = file.size - out.tell()
                        out.write(block[:left])
                        digest.update(block)
                        if self.stop.is_set():
                            raise Stopped
                        if len(block) > left:
                            break
            if out.tell() < file.size:
                raise _Broken("it broke off")
            if digest.hexdigest() != file.checksum:
                out.truncate(0)
                raise _Broken("what arrived is not what the hub lists")

    @contextmanager
    def _opened(self, file: HubFile, revision: str, start: int = 0) -> Iterator[Any]:
        """Open the streamed body of a file from byte ``start`` on."""
        url = self._client.hf_hub_url(
            self.repo, file.path, repo_type="dataset", revision=revision, endpoint=self.endpoint
        )
        # Lengths and ranges are those of the file, since it comes uncompressed.
        with self._stream(url, {"Range": f"bytes={start}-"} if start else {}) as response:
            yield response

    def _headers(self) -> dict[str, str]:
        return dict(self._utils.build_hf_headers(token=self._token))

    def _tried(self, act: Callable[[], T], path: str = "") -> T:
        """Return the result of ``act``, retried where that may help."""
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SourceError(
                f"{self.repo} is on the Hub and HF_HUB_OFFLINE is set; unset it to read data sets"
            )
        tries, wait = 1, _FIRST_WAIT
        while True:
            try:
                return act()
            except self._errors() as error:
                what = f"{path} of {self.repo}" if path else self.repo
                if refusal := self._refusal(error, what):
                    raise SourceError(refusal) from None
                if tries == TRIES:
                    failure = self._failure(error, what)
                    raise PassingError(f"{failure} ({TRIES} tries); {_AGAIN}") from None
                asked = _asked(error)
            self._sleep(min(asked, _LONGEST_ASKED) or wait)
            if self.stop.is_set():
                raise Stopped
            tries, wait = tries + 1, min(2 * wait, _LONGEST_WAIT)

    def _errors(self) -> tuple[type[Exception], ...]:
        """Return the errors of requests; those of the disk are not among them."""
        # httpx, under the name that the installed client uses
        http = imported(type(self._utils.get_session()).__module__.partition(".")[0])
        own = (_Broken, ConnectionError, TimeoutError)
        return (http.HTTPError, http.InvalidURL, http.StreamError, *own)

    def _refusal(self, error: Exception, what: str) -> str:
        """Return why retrying is pointless; empty if it may help."""
        repo, hub, has_token = self.repo, self.endpoint, "authorization" in self._headers()
        kind, status = type(error).__name__, status_of(error)
        if kind == "OfflineModeIsEnabled":
            return f"{what} is on the Hub and HF_HUB_OFFLINE is set"
        if kind in ("InvalidURL", "UnsupportedProtocol"):
            return f"HF_ENDPOINT={hub} is no http(s) address"
        if kind == "GatedRepoError":
            ways = (f", then {_LOGIN} or set HF_TOKEN", " with the account of the token")
            return f"{repo} is gated: ask for access at {hub}/datasets/{repo}{ways[has_token]}"
        if kind == "DisabledRepoError":
            return f"{repo} is disabled on {hub}: nobody can read it"
        if kind == "RevisionNotFoundError":
            return f"{repo} has no such revision (any more); begin the ingest anew"
        if kind == "RemoteEntryNotFoundError":
            return f"{what} is listed on {hub} and is not there"
        if status == 401 and has_token:
            return f"{hub} refuses the token; {_TOKEN}"
        if status in (401, 404):
            way = "and that the account of the token may read it" if has_token else f"or {_LOGIN}"
            return f"{repo} is no data set on {hub}, or it is private; check the name, {way}"
        if status == 403:
            way = f"the token has no right to it: {_TOKEN}" if has_token else _LOGIN
            return f"{hub} denies access to {what}; {way}"
        return self._failure(error, what) if status and status not in _PASSING else ""

    def _failure(self, error: Exception, what: str) -> str:
        """Return the error in words."""
        kind, status = type(error).__name__, status_of(error)
        if kind in ("ConnectError", "ConnectTimeout", "ProxyError"):
            why = f"{_reason(error)}; check the network and HF_ENDPOINT"
            return f"cannot reach {self.endpoint}: {why}"
        why = str(error) if isinstance(error, _Broken) else "the connection broke off"
        if status:
            why = "too many requests" if status == 429 else f"the hub answers with status {status}"
        elif "Timeout" in kind:
            why = "no answer came in time"
        return f"{what} cannot be {self.done} {self.endpoint}: {why}"


def imported(name: str) -> Any:
    """Import a module that an extra installs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = str(error.name or name).split(".")[0]
        raise SourceError(
            f"data sets on the Hub need {package}: pip install 'duckplets[hub]'"
        ) from error


def _checked(token: str | None) -> str | None:
    token = token.strip() if isinstance(token, str) else token
    if token is None or (isinstance(token, str) and re.fullmatch(r"[!-~]+", token)):
        return token
    raise SourceError("token= is no token: give the text that begins with hf_")


def _beginning(response: Any, most: int) -> bytes:
    """Return the first bytes of an answer without waiting for the rest."""
    content = bytearray()
    for block in response.iter_raw():
        content += block
        if len(content) >= most:
            break
    return bytes(content[:most])


def status_of(error: Any) -> int:
    """Return the HTTP status of an error; 0 without an answer."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def _asked(error: Any) -> float:
    """Return the seconds an answer asks to wait, or 0."""
    given = error.response.headers.get("Retry-After", "").strip() if status_of(error) else ""
    if re.fullmatch("[0-9]{1,9}", given):
        return float(given)
    try:
        return max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0)
    except (ArithmeticError, OSError, TypeError, ValueError):
        return 0.0


def _reason(error: Exception) -> str:
    """Return the system's reason of a connection error, in lower case without its number."""
    text = re.sub(r"\[(Errno|WinError) -?\d+\]\s*", "", str(error)).strip().rstrip(".")
    return text[:1].lower() + text[1:200] if text else "no connection"
