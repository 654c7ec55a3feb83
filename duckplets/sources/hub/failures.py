"""What can go wrong between here and a hub, each in a sentence of our own.

Nothing of the client's own errors is passed on: they hold requests, and those hold the token.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

from duckplets.errors import SourceError

_LOGIN = "log in with: hf auth login"
_TOKEN = f"give another as token= or HF_TOKEN, or {_LOGIN}"
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class Failure(Exception):  # noqa: N818 - it becomes an error, or is got over
    """What went wrong with a request.

    Args:
        message: What to tell the user.
        passes: Whether it may go well the next time.
        wait: Seconds the hub asks to wait before, 0 where it does not say.
    """

    def __init__(self, message: str, *, passes: bool = True, wait: float = 0.0) -> None:
        super().__init__(message)
        self.message, self.passes, self.wait = message, passes, wait


def imported(name: str) -> Any:
    """Return a module that an extra installs.

    Raises:
        SourceError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = str(error.name or name).split(".")[0]
        raise SourceError(
            f"data sets on the Hub need {package}: pip install 'duckplets[hub]'"
        ) from error


def hub_errors() -> tuple[type[Exception], ...]:
    """Return what a request to a hub can raise."""
    session = imported("huggingface_hub.utils").get_session()
    # httpx, or the name it goes by in the installed version of the client.
    client = imported(type(session).__module__.partition(".")[0])
    own = (Failure, json.JSONDecodeError, KeyError, OSError)
    return (client.HTTPError, client.InvalidURL, client.StreamError, *own)


def explain(error: Exception, endpoint: str, repo: str, path: str, token: bool) -> Failure:
    """Return what an error means for the user.

    Args:
        error: One of ``hub_errors``.
        endpoint: Of the hub.
        repo: ``org/name``.
        path: Of the file that was asked for; nothing for listings.
        token: Whether a token was sent.
    """
    what = f"{path} of {repo}" if path else repo
    if isinstance(error, Failure):
        return Failure(
            f"{what} cannot be read from {endpoint}: {error.message}",
            passes=error.passes,
            wait=error.wait,
        )
    response = getattr(error, "response", None)
    if response is not None:
        return _of_answer(error, response, endpoint, repo, what, token)
    if isinstance(error, (json.JSONDecodeError, KeyError)):
        message = f"what answers at {endpoint} is no hub: its answer about {repo} makes no sense"
        return Failure(message, passes=False)
    return _of_connection(error, endpoint, what)


def _of_answer(
    error: Exception, response: Any, endpoint: str, repo: str, what: str, token: bool
) -> Failure:
    status, kind = int(response.status_code), type(error).__name__
    message = None
    if kind == "GatedRepoError":
        message = _gated(endpoint, repo, token)
    elif kind == "DisabledRepoError":
        message = f"{repo} is disabled on {endpoint}: nobody can read it"
    elif kind == "RevisionNotFoundError":
        message = f"{repo} has no such revision (any more); begin the ingest anew"
    elif kind == "RemoteEntryNotFoundError":
        message = f"{what} is listed on {endpoint} and is not there"
    elif status == 401 and token:
        message = f"{endpoint} refuses the token; {_TOKEN}"
    elif status in (401, 404):
        message = f"{repo} is no data set on {endpoint}, or it is private; check the name"
        message += ", and that the account of the token may read it" if token else f", or {_LOGIN}"
    elif status == 403:
        message = f"{endpoint} denies access to {what}; "
        message += f"the token has no right to it: {_TOKEN}" if token else _LOGIN
    if message:
        return Failure(message, passes=False)
    says = "too many requests" if status == 429 else f"the hub answers with status {status}"
    message = f"{what} cannot be read from {endpoint}: {says}"
    return Failure(message, passes=status in _PASSING, wait=_asked(response.headers))


def _gated(endpoint: str, repo: str, token: bool) -> str:
    ask = f"{repo} is gated: ask for access at {endpoint}/datasets/{repo}"
    if token:
        return f"{ask} with the account of the token"
    return f"{ask}, then {_LOGIN} or set HF_TOKEN"


def _asked(headers: Any) -> float:
    """Return how many seconds an answer asks to wait."""
    given = str(headers.get("Retry-After", "")).strip()
    if given.isdigit():
        return float(given)
    try:
        return max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def _of_connection(error: Exception, endpoint: str, what: str) -> Failure:
    kind = type(error).__name__
    if kind == "OfflineModeIsEnabled":
        return Failure(f"{what} is on the Hub and HF_HUB_OFFLINE is set", passes=False)
    if kind in ("InvalidURL", "UnsupportedProtocol"):
        return Failure(f"HF_ENDPOINT={endpoint} is no http(s) address", passes=False)
    if kind in ("ConnectError", "ConnectTimeout", "ProxyError"):
        reason = _reason(error)
        return Failure(f"cannot reach {endpoint}: {reason}; check the network and HF_ENDPOINT")
    if "Timeout" in kind:
        return Failure(f"{what} cannot be read from {endpoint}: no answer came in time")
    return Failure(f"{what} cannot be read from {endpoint}: the connection broke off")


def _reason(error: Exception) -> str:
    """Return what the system says of a connection, in small letters and without its number."""
    text = re.sub(r"\[(Errno|WinError) -?\d+\]\s*", "", str(error)).strip().rstrip(".")
    return text[:1].lower() + text[1:200] if text else "no connection"
