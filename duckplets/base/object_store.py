"""Know the addresses of objects in stores; reach those of S3: list, read, put, remove.

    address ─listing→ StoredObject: key, size, ETag ─ranges, If-Match→ file ─parts→ object

S3 is reached through boto3, after trials of others. PyArrow's ``S3FileSystem`` (26.0) gives no ETag
in a listing and finishes the upload of a writer that an exception leaves, so half an object appears
under its name; obstore (0.12) reads no profile files and asks the metadata service although
``AWS_EC2_METADATA_DISABLED`` is set; s3fs (2026.9) reads a whole object without ``If-Match``, has
no uploads of a prefix, and holds botocore back. boto3 takes credentials, region, endpoint and
attempts from ``AWS_*`` variables and profile files as every tool of the store does; nothing of them
is taken, kept or shown here.

Requests and bodies that break off are repeated by boto3. No error of its is passed on: they hold
requests.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from duckplets.base.sanitize import shown, without_secrets
from duckplets.errors import DuckpletsError, ExtensionError

_ADDRESS = re.compile(r"(s3|gs|az|abfs)://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?:/(.*))?", re.DOTALL)
_SIGNED = re.compile(r"(?i)[?&](x-amz-|x-goog-|awsaccesskeyid=|signature=|expires=|sig=)")

_RANGE = 64 << 20  # bytes of one range request
_ATTEMPTS = 5  # unless AWS_RETRY_MODE says otherwise
_PART = 16 << 20  # bytes of an upload part; four are in flight at once

CHANGED = "it has changed since it was listed, and is read only as it was then"
_MISSING = ("NoSuchKey", "NotFound", "404")
_ELSEWHERE = (
    *("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "301"),
    *("IllegalLocationConstraintException", "IncorrectEndpoint"),
)
_KEYS = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    "TokenRefreshRequired",
)
_NOT_NOW = ("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "InternalError")
# Error classes of boto3 by name: it is imported only when a store is used.
_ANONYMOUS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
_OF_NETWORKS = {"ConnectionError", "HTTPClientError", "IncompleteReadError"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as listed.

    Attributes:
        bucket: Its bucket.
        path: Its key.
        size: In bytes.
        checksum: Its ETag or generation, which changes with the content.
        scheme: Of its address.
    """

    bucket: str
    path: str
    size: int
    checksum: str
    scheme: str = "s3"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}"


def is_address(given: object) -> bool:
    """Return whether a text is the address of an object, a prefix or a glob in a store."""
    return isinstance(given, str) and given.startswith(("s3://", "gs://", "az://", "abfs://"))


def address_of(given: str, error: type[DuckpletsError]) -> tuple[str, str, str]:
    """Return the scheme, the bucket and the key, glob or prefix of an address."""
    bare = without_secrets(given.partition("?")[0] if _SIGNED.search(given) else given)
    if bare != given:
        raise error(
            f"{shown(bare)}: an address has no user, password or signature in it; credentials come "
            f"from AWS_* variables or a profile (for gs:// and az:// from what their tools use)"
        )
    found = _ADDRESS.fullmatch(given)
    if found is None:
        raise error(f"{shown(given)} is no address; write s3://bucket/key, or gs:// or az:// so")
    return found[1], found[2], found[3] or ""


@cache  # creating a client takes 0.2 s, and a dropped one leaves sockets open
def _client(process: int, said: tuple[tuple[str, str], ...]) -> Any:
    """Return this process's boto3 client, configured by the environment."""
    import boto3
    from botocore.config import Config

    retries: Any = (
        {} if "AWS_RETRY_MODE" in os.environ else {"mode": "standard", "max_attempts": _ATTEMPTS}
    )
    config = Config(retries=retries, connect_timeout=10, read_timeout=60)
    # boto3 itself reads AWS_DEFAULT_REGION alone.
    session = boto3.session.Session(region_name=os.environ.get("AWS_REGION"))
    return session.client("s3", config=config)


class _AsListed:
    """Give a transfer the listed size and ETag, and stop it on request."""

    def __init__(self, found: StoredObject, stop: threading.Event) -> None:
        self._found, self._stop = found, stop

    def on_queued(self, future: Any, **_: Any) -> None:
        """Set the size and the ETag that every request must match."""
        future.meta.provide_transfer_size(self._found.size)
        future.meta.provide_object_etag(self._found.checksum)

    def on_progress(self, future: Any, **_: Any) -> None:
        """Stop the transfer if nobody wants the object any more."""
        if self._stop.is_set():
            future.cancel()

    def on_done(self, **_: Any) -> None:
        """Do nothing."""


class Store:
    """One bucket.

    Args:
        bucket: Its name.
        error: Error class to raise.
        passing: Error class for failures that may pass; by default ``error``.

    Raises:
        ExtensionError: The package ``boto3`` is missing.
    """

    def __init__(
        self,
        bucket: str,
        error: type[DuckpletsError],
        passing: type[DuckpletsError] | None = None,
    ) -> None:
        self.bucket, self.stop = bucket, threading.Event()
        self._error, self._passing = error, passing or error
        try:
            from botocore.exceptions import BotoCoreError, ClientError
            from s3transfer import exceptions as transfers
        except ModuleNotFoundError as missing:
            raise ExtensionError(
                "object stores need the package 'boto3': pip install 'duckplets[s3]'"
            ) from missing
        of_transfers = (transfers.CancelledError, transfers.RetriesExceededError)
        changed = transfers.S3DownloadFailedError
        self._foreign = (BotoCoreError, ClientError, changed, *of_transfers)
        said = tuple(sorted(each for each in os.environ.items() if each[0].startswith("AWS_")))
        with self._asking(""):
            try:
                self._client = _client(os.getpid(), said)
            except ValueError:
                raise error("AWS_ENDPOINT_URL is no http(s) address; correct it") from None

    # -- what is there ----------------------------------------------------------------------------

    def listed(self, prefix: str, most: int | None = None) -> list[StoredObject]:
        """Return the objects whose keys begin with a prefix, by key, without folder markers.

        An object with exactly that key comes first.
        """
        bounds = {"MaxItems": most, "PageSize": most}
        with self._asking(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, PaginationConfig=bounds
            )
            entries = [entry for page in pages for entry in page.get("Contents", ())]
        found = (StoredObject(self.bucket, e["Key"], e["Size"], e["ETag"]) for e in entries)
        return sorted((one for one in found if not one.path.endswith("/")), key=lambda o: o.path)

    # -- reading ----------------------------------------------------------------------------------

    def fetch(self, found: StoredObject, file: Path) -> None:
        """Download an object to a file by range requests that match its ETag.

        Interrupted bodies are requested again. ``stop`` ends the download.
        """
        from boto3.s3.transfer import TransferConfig, create_transfer_manager

        # Requests without a range would not be matched against the ETag.
        config = TransferConfig(multipart_threshold=1, multipart_chunksize=_RANGE)
        with (
            self._asking(found.path),
            create_transfer_manager(self._client, config) as manager,
        ):
            listed = _AsListed(found, self.stop)
            manager.download(self.bucket, found.path, str(file), None, [listed]).result()
        if self.stop.is_set() or file.stat().st_size != found.size:
            raise self._passing(f"{found}: reading it was broken off")

    def read(self, found: StoredObject) -> Iterator[bytes]:
        """Download an object, then yield its bytes."""
        with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
            self.fetch(found, Path(folder) / "object")
            with (Path(folder) / "object").open("rb") as file:
                yield from iter(lambda: file.read(_RANGE), b"")

    # -- writing ----------------------------------------------------------------------------------

    def put(self, file: Path, key: str) -> None:
        """Upload a file as an object, visible once complete; a failed upload is aborted."""
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(
            multipart_threshold=_PART, multipart_chunksize=_PART, max_concurrency=4
        )
        with self._asking(key), file.open("rb") as opened:
            self._client.upload_fileobj(opened, self.bucket, key, Config=config)

    def remove(self, keys: Iterable[str]) -> None:
        """Delete keys in this order; missing ones are ignored."""
        for key in keys:
            with self._asking(key):
                self._client.delete_object(Bucket=self.bucket, Key=key)

    # -- what goes wrong --------------------------------------------------------------------------

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        """Turn errors of boto3 into ours."""
        try:
            yield
        except self._foreign as error:
            last = getattr(error, "last_exception", error)
            answer = getattr(last, "response", None)
            why, passes = self._unasked(last) if answer is None else self._refusal(answer)
            kind = self._passing if passes else self._error
            raise kind(f"s3://{self.bucket}/{shown(key)}: {why}") from None

    def _refusal(self, answer: Mapping[str, Any]) -> tuple[str, bool]:
        """Return what the store answered, and whether it may answer otherwise later."""
        code = str(answer.get("Error", {}).get("Code", ""))
        facts = answer.get("ResponseMetadata", {})
        status = int(facts.get("HTTPStatusCode", 0))
        said = f"{shown(code, 80)}, status {status}"
        if status in (412, 416):
            return CHANGED, False
        if code == "NoSuchBucket":
            return f"there is no bucket {self.bucket!r}; check its name and AWS_ENDPOINT_URL", False
        if code in _MISSING:
            return "there is no such object (any more)", False
        if code in _ELSEWHERE:
            region = facts.get("HTTPHeaders", {}).get("x-amz-bucket-region", "that of the bucket")
            return f"set AWS_REGION to {shown(region, 40)}; this is another one ({said})", False
        if code in _KEYS:
            return f"the store refuses the credentials ({said}); renew or correct them", False
        if status in (401, 403):
            return f"the credentials have no right to that ({said}); ask the bucket's owner", False
        if status >= 500 or status == 429 or code in _NOT_NOW:
            return f"the store cannot answer now ({said}); the same again goes on", True
        return f"the store refuses that ({said})", False

    def _unasked(self, error: Exception) -> tuple[str, bool]:
        """Return why no answer came, and whether that may change."""
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & _ANONYMOUS:
            ways = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            return f"there are no credentials for it: {ways}", False
        if "S3DownloadFailedError" in names:
            return CHANGED, False
        if "FlexibleChecksumError" in names:
            return "what arrived is not what was stored, by its checksum", False
        if not names & _OF_NETWORKS:
            return f"{shown(without_secrets(str(error)), 300)}", False
        host = shown(urlsplit(self._client.meta.endpoint_url).netloc.rpartition("@")[2])
        if "SSLError" in names:
            return f"{host} has no certificate that is trusted; check AWS_CA_BUNDLE", False
        if "ConnectionError" in names:
            return f"{host} cannot be reached; check the network and AWS_ENDPOINT_URL", True
        return f"the connection to {host} broke off; the same again goes on", True
