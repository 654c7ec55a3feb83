"""Reach one repository of a hub by ``huggingface_hub``: its revision, its files, their content.

The client sends requests, reads all pages, resumes a broken download and uses its own cache. Other
failures are tried again here, with doubling waits, or as long as the hub asks. Its errors are never
passed on: they contain requests, and requests contain the token.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, PassingError, SourceError
from duckplets.sources.retry import PASSING_STATUSES

T = TypeVar("T")
Sleep = Callable[[float], Any]

TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_REQUESTED = 0.5, 8.0, 300.0  # seconds
_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")

_AGAIN = "running the same command again continues where it stopped"
_LOGIN = "log in with: hf auth login"
_TOKEN = f"give another as token= or HF_TOKEN, or {_LOGIN}"


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
        self._token = token.strip() if isinstance(token, str) else token
        is_text = isinstance(token, str) and re.fullmatch(r"\s*[!-~]+\s*", token)
        if token is not None and not is_text:
            raise SourceError("token= is no token: give the text that begins with hf_")
        self._hub = self._client.HfApi(endpoint=self.endpoint, token=self._token)
        self._sleep = sleep or self.stop.wait

    def info(self) -> Any:
        """Return the hub's facts of the newest commit, with its ``sha``."""
        found = self._tried(lambda: self._hub.dataset_info(self.repo))
        if not _COMMIT.fullmatch(str(found.sha)):
            raise self._odd(self.repo, f"sha is {found.sha!r}, no commit")
        return found

    def files(self, revision: str) -> list[Any]:
        """Return the files of a revision by path, each a ``RepoFile`` of the client."""

        def listed() -> list[Any]:
            found = self._hub.list_repo_tree(
                self.repo, repo_type="dataset", revision=revision, recursive=True
            )
            return [entry for entry in found if hasattr(entry, "size")]  # others are folders

        return sorted(self._tried(listed), key=lambda file: str(file.path))

    def fetch(self, file: Any, here: Path, revision: str) -> None:
        """Download a file, or copy it from the client's cache."""

        def downloaded() -> str:
            return self._client.hf_hub_download(  # type: ignore[no-any-return]
                self.repo,
                file.path,
                repo_type="dataset",
                revision=revision,
                endpoint=self.endpoint,
                token=self._token,
                local_dir=here.parent / "hub",
            )

        are_off = self._utils.are_progress_bars_disabled()
        self._utils.disable_progress_bars()  # ingest has its own
        try:
            os.replace(self._tried(downloaded, file.path), here)
        finally:
            if not are_off:
                self._utils.enable_progress_bars()

    def _headers(self) -> dict[str, str]:
        return dict(self._utils.build_hf_headers(token=self._token))

    def _tried(self, act: Callable[[], T], path: str = "") -> T:
        """Return the result of ``act``, retried where that may help."""
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SourceError(
                f"{self.repo} is on the Hub and HF_HUB_OFFLINE is set; unset it to read data sets"
            )
        what = f"{path} of {self.repo}" if path else self.repo
        tries, wait = 1, _FIRST_WAIT
        while True:
            try:
                return act()
            except DuckpletsError:
                raise
            except Exception as error:
                inner = error.__cause__  # the client reports it as a file missing from its cache
                is_wrapped = type(error).__name__ == "LocalEntryNotFoundError"
                if is_wrapped and isinstance(inner, Exception):
                    error = inner
                if refusal := self._refusal(error, what):
                    raise SourceError(refusal) from None
                if tries == TRIES:
                    failure = self._failure(error, what)
                    raise PassingError(f"{failure} ({TRIES} tries); {_AGAIN}") from None
                requested = _requested_wait(error)
            self._sleep(min(requested, _LONGEST_REQUESTED) or wait)
            if self.stop.is_set():
                raise PassingError(f"{what}: reading it was broken off")
            tries, wait = tries + 1, min(2 * wait, _LONGEST_WAIT)

    def _refusal(self, error: Exception, what: str) -> str:
        """Return why retrying is pointless; empty if it may help."""
        repo, hub, has_token = self.repo, self.endpoint, "authorization" in self._headers()
        kind, status = type(error).__name__, status_of(error)
        if kind in ("InvalidURL", "UnsupportedProtocol"):
            return f"HF_ENDPOINT={hub} is no http(s) address"
        if kind == "GatedRepoError":
            ways = (f", then {_LOGIN} or set HF_TOKEN", " with the account of the token")
            return f"{repo} is gated: ask for access at {hub}/datasets/{repo}{ways[has_token]}"
        if kind == "DisabledRepoError":
            return f"{repo} is disabled on {hub}: nobody can read it"
        if kind == "RevisionNotFoundError":
            return f"{repo} has no such revision (any more); start the ingest again"
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
        if status:
            return "" if status in PASSING_STATUSES else self._failure(error, what)
        if isinstance(error, OSError) and error.strerror and not _is_of_network(error):
            return f"{what} cannot be kept here: {error.strerror}"
        if _is_of_network(error) or isinstance(error, OSError):  # a size that does not fit
            return ""
        return str(self._odd(what, f"{kind}: {error}"))

    def _odd(self, what: str, why: str) -> SourceError:
        """Return the error for an answer that no hub gives."""
        return SourceError(
            f"the server at {self.endpoint} is no hub: its answer about {what} makes no sense: "
            f"{shown(why, 200)}"
        )

    def _failure(self, error: Exception, what: str) -> str:
        kind, status = type(error).__name__, status_of(error)
        if kind in ("ConnectError", "ConnectTimeout", "ProxyError"):
            text = re.sub(r"\[(Errno|WinError) -?\d+\]\s*", "", str(error)).strip().rstrip(".")
            text = text[:1].lower() + text[1:200] if text else "no connection"
            why = f"{text}; check the network and HF_ENDPOINT"
            return f"cannot reach {self.endpoint}: {why}"
        why = "the connection broke off"
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


def _is_of_network(error: Exception) -> bool:
    """Return whether a connection failed, by the client's library or the system."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"RequestError", "StreamError", "ConnectionError", "TimeoutError"})


def status_of(error: Any) -> int:
    """Return the HTTP status of an error; 0 without an answer."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def _requested_wait(error: Any) -> float:
    """Return the seconds an answer asks to wait, or 0."""
    after = error.response.headers.get("Retry-After", "").strip() if status_of(error) else ""
    if re.fullmatch("[0-9]{1,9}", after):
        return float(after)
    try:
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    except (ArithmeticError, OSError, TypeError, ValueError):
        return 0.0
