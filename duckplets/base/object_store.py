"""Parse addresses of objects in stores; list, read, write and remove objects in S3.

    address ─listing→ StoredObject: key, size, ETag ─ranges, If-Match→ file ─parts→ object

boto3 was chosen for S3 after trials of others. PyArrow's ``S3FileSystem`` (26.0) has no ETag in a
listing. It also finishes the upload of a writer after an exception, so half an object gets its
name. The package obstore (0.12) reads no profile files, and calls the metadata service in spite of
``AWS_EC2_METADATA_DISABLED``. The package s3fs (2026.9) reads a whole object without ``If-Match``,
cannot upload a prefix, and needs an old botocore. The credentials, region, endpoint and attempts
come from ``AWS_*`` variables and profile files. This module does not store or print them.

boto3 repeats broken requests and bodies. Its errors contain requests, so none of them is passed on.
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

CHANGED = "it has changed since it was listed, and only the listed version can be read"
_MISSING = ("NoSuchKey", "NotFound", "404")
_OTHER_REGION = (
    *("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "301"),
    *("IllegalLocationConstraintException", "IncorrectEndpoint"),
)
_KEYS = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
    "TokenRefreshRequired",
)
_BUSY = ("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "InternalError")
# Error classes of boto3 by name: it is imported only when a store is used.
_ANONYMOUS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
_NETWORK = {"ConnectionError", "HTTPClientError", "IncompleteReadError"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a listing."""

    bucket: str
    path: str  # its key
    size: int  # in bytes
    checksum: str  # ETag or generation, which changes with the content
    scheme: str = "s3"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}"


def is_address(value: object) -> bool:
    """Return whether a text is the address of an object, a prefix or a glob in a store."""
    return isinstance(value, str) and value.startswith(("s3://", "gs://", "az://", "abfs://"))


def address_of(text: str, error: type[DuckpletsError]) -> tuple[str, str, str]:
    """Return the scheme, the bucket and the key, glob or prefix of an address."""
    bare = without_secrets(text.partition("?")[0] if _SIGNED.search(text) else text)
    if bare != text:
        raise error(
            f"{shown(bare)}: an address has no user, password or signature; set credentials in "
            f"AWS_* variables or a profile (for gs:// and az:// as for their tools)"
        )
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise error(f"{shown(text)} is no address; write s3://bucket/key (or gs://, az://)")
    return found[1], found[2], found[3] or ""


@cache  # creating a client takes 0.2 s, and a dropped one leaves sockets open
def _client(process: int, variables: tuple[tuple[str, str], ...]) -> Any:
    """Return the boto3 client of this process, configured by the environment."""
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
    """Gives a transfer the listed size and ETag, and stops it on request."""

    def __init__(self, found: StoredObject, stop: threading.Event) -> None:
        self._found, self._stop = found, stop

    def on_queued(self, future: Any, **_: Any) -> None:
        """Set the size and the ETag that every request must match."""
        future.meta.provide_transfer_size(self._found.size)
        future.meta.provide_object_etag(self._found.checksum)

    def on_progress(self, future: Any, **_: Any) -> None:
        """Cancel the transfer after a request to stop."""
        if self._stop.is_set():
            future.cancel()

    def on_done(self, **_: Any) -> None:
        """Do nothing."""


class Store:
    """A bucket of an object store; ``passing`` is the error class for temporary failures."""

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
        failed = (transfers.CancelledError, transfers.RetriesExceededError)
        changed = transfers.S3DownloadFailedError
        self._foreign = (BotoCoreError, ClientError, changed, *failed)
        variables = sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))
        with self._translated(""):
            try:
                self._client = _client(os.getpid(), tuple(variables))
            except ValueError:
                raise error("AWS_ENDPOINT_URL is no http(s) address; correct it") from None

    # -- listing ----------------------------------------------------------------------------------

    def listed(self, prefix: str, most: int | None = None) -> list[StoredObject]:
        """Return the objects whose keys begin with a prefix, by key, without folder markers."""
        bounds = {"MaxItems": most, "PageSize": most}
        with self._translated(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, PaginationConfig=bounds
            )
            entries = [entry for page in pages for entry in page.get("Contents", ())]
        found = (StoredObject(self.bucket, e["Key"], e["Size"], e["ETag"]) for e in entries)
        return sorted((o for o in found if not o.path.endswith("/")), key=lambda o: o.path)

    # -- reading ----------------------------------------------------------------------------------

    def fetch(self, found: StoredObject, file: Path) -> None:
        """Download an object by range requests that match its ETag; ``stop`` ends the download."""
        from boto3.s3.transfer import TransferConfig, create_transfer_manager

        # The ETag is compared for range requests only.
        config = TransferConfig(multipart_threshold=1, multipart_chunksize=_RANGE)
        with (
            self._translated(found.path),
            create_transfer_manager(self._client, config) as manager,
        ):
            listed = _AsListed(found, self.stop)
            manager.download(self.bucket, found.path, str(file), None, [listed]).result()
        if self.stop.is_set() or file.stat().st_size != found.size:
            raise self._passing(f"{found}: the download was interrupted; run it again")

    def read(self, found: StoredObject) -> Iterator[bytes]:
        """Download an object, then yield its bytes."""
        with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
            self.fetch(found, Path(folder) / "object")
            with (Path(folder) / "object").open("rb") as file:
                yield from iter(lambda: file.read(_RANGE), b"")

    # -- writing ----------------------------------------------------------------------------------

    def put(self, file: Path, key: str) -> None:
        """Upload a file as an object, which is visible once complete; abort a failed upload."""
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(
            multipart_threshold=_PART, multipart_chunksize=_PART, max_concurrency=4
        )
        with self._translated(key), file.open("rb") as opened:
            self._client.upload_fileobj(opened, self.bucket, key, Config=config)

    def remove(self, keys: Iterable[str]) -> None:
        """Delete keys in this order; missing ones are ignored."""
        for key in keys:
            with self._translated(key):
                self._client.delete_object(Bucket=self.bucket, Key=key)

    # -- errors -----------------------------------------------------------------------------------

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """Translate errors of boto3."""
        try:
            yield
        except self._foreign as error:
            last = getattr(error, "last_exception", error)
            answer = getattr(last, "response", None)
            why, is_passing = self._failure(last) if answer is None else self._refusal(answer)
            kind = self._passing if is_passing else self._error
            raise kind(f"s3://{self.bucket}/{shown(key)}: {why}") from None

    def _refusal(self, answer: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the answer of the store in words, and whether it may differ later."""
        code = str(answer.get("Error", {}).get("Code", ""))
        facts = answer.get("ResponseMetadata", {})
        status = int(facts.get("HTTPStatusCode", 0))
        reason = f"{shown(code, 80)}, status {status}"
        if status in (412, 416):
            return CHANGED, False
        if code == "NoSuchBucket":
            return f"there is no bucket {self.bucket!r}; check its name and AWS_ENDPOINT_URL", False
        if code in _MISSING:
            return "there is no such object (any more)", False
        if code in _OTHER_REGION:
            headers = facts.get("HTTPHeaders", {})
            region = headers.get("x-amz-bucket-region", "the region of the bucket")
            return f"set AWS_REGION to {shown(region, 40)}; it has another value ({reason})", False
        if code in _KEYS:
            return f"the store refuses the credentials ({reason}); renew or correct them", False
        if status in (401, 403):
            advice = "ask the owner of the bucket"
            return f"the credentials have no right to that ({reason}); {advice}", False
        if status >= 500 or status == 429 or code in _BUSY:
            return f"the store cannot answer now ({reason}); run the same again", True
        return f"the store refuses that ({reason})", False

    def _failure(self, error: Exception) -> tuple[str, bool]:
        """Return why no answer arrived, and whether that may change."""
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & _ANONYMOUS:
            advice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            return f"there are no credentials for it: {advice}", False
        if "S3DownloadFailedError" in names:
            return CHANGED, False
        if "FlexibleChecksumError" in names:
            return "the downloaded data is damaged, by its checksum; run the same again", False
        if not names & _NETWORK:
            return f"{shown(without_secrets(str(error)), 300)}", False
        host = shown(urlsplit(self._client.meta.endpoint_url).netloc.rpartition("@")[2])
        if "SSLError" in names:
            return f"{host} has no trusted certificate; check AWS_CA_BUNDLE", False
        if "ConnectionError" in names:
            return f"{host} cannot be reached; check the network and AWS_ENDPOINT_URL", True
        return f"the connection to {host} broke off; run the same again", True
