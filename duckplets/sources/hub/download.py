"""Requests to a hub: what is in a repository, and files of it, written aside until they are whole.

They are made with the session, the headers and the errors of ``huggingface_hub``, and files are
streamed, instead of by ``hf_hub_download``: that one keeps its own cache, of links, which nothing
may evict from, and cannot be stopped between two blocks. Its listings of files wait and try by
themselves, for minutes.

A request is tried several times, waiting twice as long each time, or as long as the hub asks for.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

from duckplets.errors import SourceError
from duckplets.sources.hub.failures import Failure, explain, hub_errors, imported

T = TypeVar("T")

TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_ASKED = 0.5, 8.0, 300.0  # seconds
_TIMEOUT = 60.0  # seconds without a byte
_BLOCK = 1 << 20

AGAIN = "running the same command again goes on where it stopped"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository at a revision.

    Attributes:
        path: Within the repository.
        size: In bytes.
        oid: Git's SHA-1 of it, or of what stands for it where the content is kept elsewhere.
        sha256: Of its content, where the hub says so.
    """

    path: str
    size: int
    oid: str
    sha256: str | None = None

    def digest(self) -> Any:
        """Return a hash to be fed with the content."""
        if self.sha256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)

    def is_content(self, digest: Any) -> bool:
        """Return whether a hash is that of the content."""
        return bool(digest.hexdigest() == (self.sha256 or self.oid))


class Stopped(Exception):  # noqa: N818 - it is no error: nobody wants the file any more
    """A download was broken off because what it is for has been closed."""


class Hub:
    """One repository of a hub.

    Args:
        repo: Its name, ``org/name``.
        token: To show to the hub; None for ``HF_TOKEN`` or the hub's own login.
        sleep: Waits that many seconds; by default until it is no longer wanted.
    """

    def __init__(
        self, repo: str, token: str | None, sleep: Callable[[float], Any] | None = None
    ) -> None:
        hub = imported("huggingface_hub")
        # Read now, not when the package was imported: a notebook sets it afterwards.
        given = os.environ.get("HF_ENDPOINT") or hub.constants.ENDPOINT
        self.endpoint = given.rstrip("/")
        self.repo = repo
        self.stop = threading.Event()
        self._token = _checked(token)
        self._sleep = sleep or self.stop.wait

    def __repr__(self) -> str:
        return f"Hub({self.endpoint!r}, {self.repo!r})"

    def revision(self) -> str:
        """Return the commit that the main branch stands at."""
        api = imported("huggingface_hub").HfApi(endpoint=self.endpoint, token=self._token)
        info = self._tried(lambda: api.dataset_info(self.repo, timeout=_TIMEOUT), "")
        return str(info.sha)

    def files(self, revision: str) -> list[HubFile]:
        """Return the files of a revision, by path."""
        return sorted(self._tree(revision), key=lambda file: file.path)

    def text(self, file: HubFile, revision: str) -> str:
        """Return a small text file."""

        def read() -> str:
            with self._opened(file, revision, 0) as response:
                return bytes(response.read()).decode("utf-8", "replace")

        return self._tried(read, file.path)

    def fetch(self, file: HubFile, revision: str, part: Path) -> None:
        """Bring a file whole to ``part``, going on with what is there of it already.

        Raises:
            SourceError: It cannot be had.
            Stopped: ``stop`` was set meanwhile.
        """
        self._tried(lambda: self._fetch(file, revision, part), file.path)

    def _tree(self, revision: str) -> Iterator[HubFile]:
        """Yield the files of a revision, page by page."""
        listing = f"{self.endpoint}/api/datasets/{self.repo}/tree/{quote(revision, safe='')}"
        page = "recursive=true"
        while page:  # asked for here, wherever the link to the next one leads
            entries, page = self._tried(partial(self._page, f"{listing}?{page}"), "")
            for entry in entries:
                if entry["type"] == "file":
                    lfs = entry.get("lfs") or {}
                    yield HubFile(entry["path"], entry["size"], entry["oid"], lfs.get("oid"))

    def _page(self, link: str) -> tuple[list[dict[str, Any]], str]:
        utils = imported("huggingface_hub.utils")
        headers = self._headers()
        response = utils.get_session().get(link, headers=headers, timeout=_TIMEOUT)
        utils.hf_raise_for_status(response)
        return response.json(), urlsplit(response.links.get("next", {}).get("url", "")).query

    def _tried(self, act: Callable[[], T], path: str) -> T:
        """Return what ``act`` does, trying again where that may help."""
        wait = _FIRST_WAIT
        for left in range(TRIES - 1, -1, -1):
            try:
                self._refuse_offline()
                return act()
            except SourceError:
                raise
            except hub_errors() as error:
                token = "authorization" in self._headers()
                failure = explain(error, self.endpoint, self.repo, path, token)
                # What failed may hold the request's headers, so it goes no further.
                if not failure.passes:
                    raise SourceError(failure.message) from None
                if not left:
                    raise SourceError(_gave_up(failure)) from None
            self._sleep(min(failure.wait, _LONGEST_ASKED) if failure.wait else wait)
            if self.stop.is_set():
                raise Stopped
            wait = min(2 * wait, _LONGEST_WAIT)
        raise AssertionError  # the last try returns or raises

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = imported("huggingface_hub.utils").build_hf_headers(
            token=self._token
        )
        return headers

    def _refuse_offline(self) -> None:
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SourceError(
                f"{self.repo} is on the Hub and HF_HUB_OFFLINE is set; unset it to read data sets"
            )

    def _opened(self, file: HubFile, revision: str, start: int) -> Any:
        utils = imported("huggingface_hub.utils")
        headers = self._headers()
        headers["Accept-Encoding"] = "identity"  # lengths and ranges are of the file itself
        if start:
            headers["Range"] = f"bytes={start}-"
        place = f"{quote(revision, safe='')}/{quote(file.path)}"
        url = f"{self.endpoint}/datasets/{self.repo}/resolve/{place}"
        return _Response(utils, url, headers)

    def _fetch(self, file: HubFile, revision: str, part: Path) -> None:
        try:
            self._receive(file, revision, part)
        except OSError as error:
            if (error.errno is not None and error.filename is not None) or error.errno in _DISK:
                reason = error.strerror or str(error)
                raise SourceError(f"{part} cannot be written: {reason}; {AGAIN}") from error
            raise

    def _receive(self, file: HubFile, revision: str, part: Path) -> None:
        with part.open("r+b") as out:
            start = out.seek(0, os.SEEK_END)
            if start > file.size:
                start = out.truncate(0)
            digest = file.digest()
            _feed(digest, part)
            if start < file.size:
                digest = self._append(file, revision, start, out, digest)
        if part.stat().st_size < file.size:
            raise Failure("it broke off")
        if not file.is_content(digest):
            part.write_bytes(b"")
            raise Failure("what arrived is not what the hub lists")

    def _append(self, file: HubFile, revision: str, start: int, out: BinaryIO, digest: Any) -> Any:
        """Write what comes after ``start``; returns the digest of the whole."""
        with self._opened(file, revision, start) as response:
            if start and not _begins_at(response, start):  # all of it comes anew
                start, digest = out.truncate(0), file.digest()
            out.seek(start)
            for block in response.iter_raw():
                start += len(block)
                if start > file.size:
                    break
                out.write(block)
                digest.update(block)
                if self.stop.is_set():
                    raise Stopped
        return digest


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Response:
    """A streamed answer whose status was good."""

    def __init__(self, utils: Any, url: str, headers: dict[str, str]) -> None:
        self._utils = utils
        self._stream = utils.get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT)

    def __enter__(self) -> Any:
        response = self._stream.__enter__()
        try:
            self._utils.hf_raise_for_status(response)
        except BaseException:
            self._stream.__exit__(None, None, None)
            raise
        return response

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)


def _checked(token: str | None) -> str | None:
    token = token.strip() if isinstance(token, str) else token
    if token is None or (isinstance(token, str) and re.fullmatch(r"[!-~]+", token)):
        return token
    raise SourceError("token= is no token: give the text that begins with hf_")


def _begins_at(response: Any, start: int) -> bool:
    given = response.headers.get("Content-Range", "")
    return bool(response.status_code == 206 and given.startswith(f"bytes {start}-"))


def _feed(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)


def _gave_up(failure: Failure) -> str:
    return f"{failure.message} ({TRIES} tries); {AGAIN}"
