"""List and download objects of any store by address.

s3://bucket/key               boto3, each range asked for with the ETag of the listing
gs://bucket/key  az://box/key  gcsfs and adlfs, filesystems of fsspec

Objects are downloaded as listed. A request to Google's store names the listed generation. Objects
of other stores are compared with their listing after the download, and refused if they changed.
Credentials come from the places that each store's own tools use.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.object_store import CHANGED, Store, StoredObject, address_of
from duckplets.base.prefetch import Lookahead
from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, ExtensionError, PassingError, SourceError

_RANGE = 64 << 20  # bytes of one request
_PATIENCE = 1.0  # seconds that a download has to end
_DENIED = (401, 403)
_OF_NETWORKS = {"AzureError", "ClientError", "TransportError"}  # by name
_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|\{[^}]+\}")
_WILD = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_HIDDEN = re.compile(r"/[._]")


class _Kind(NamedTuple):
    """How fsspec reaches a kind of store."""

    package: str
    extra: str
    module: str
    name: str
    tag: str  # key in ``info`` that identifies the content
    pin: str | None  # argument that requests it
    ways: str  # where credentials come from


_AZURE = _Kind(
    *("adlfs", "az", "adlfs", "AzureBlobFileSystem", "etag", None),
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with a key or a login",
)
_KINDS = {
    "gs": _Kind(
        *("gcsfs", "gs", "gcsfs.core", "GCSFileSystem", "generation", "generation"),
        "set GOOGLE_APPLICATION_CREDENTIALS, or call gcloud auth application-default login",
    ),
    "az": _AZURE,
    "abfs": _AZURE,
}


def store_of(scheme: str, bucket: str) -> Store | _FsspecStore:
    """Return the store of an address."""
    is_s3 = scheme not in _KINDS
    return Store(bucket, SourceError, PassingError) if is_s3 else _FsspecStore(scheme, bucket)


def objects_at(address: str) -> list[StoredObject]:
    """Return the objects that an address, a glob or a folder names."""
    scheme, bucket, key = address_of(address, SourceError)
    store, first = store_of(scheme, bucket), _GLOB.search(key)
    if first:
        listed = store.listed(key[: first.start()])
        fits = matching(key, [each.path for each in listed])
        found = [each for each, fit in zip(listed, fits, strict=True) if fit]
        fault = "matches no object"
    elif key == "" or key.endswith("/"):
        listed = store.listed(key)
        found = [each for each in listed if not _HIDDEN.search(f"/{each.path[len(key) :]}")]
        fault = "is a folder without objects"
    else:
        found = [each for each in store.listed(key, 1) if each.path == key]
        fault = "does not exist; the address of a folder ends with /"
    if not found:
        raise SourceError(f"{shown(address)} {fault}")
    return found


def matching(glob: str, paths: Sequence[str]) -> list[bool]:
    """Return whether a glob matches each path: ``**`` any folders, ``*`` and ``?`` in a name."""
    made, end = "", 0  # for RE2, which takes linear time: globs may come from a card
    for found in _GLOB.finditer(glob):
        made += re.escape(glob[end : found.start()])
        end, part = found.end(), found[0]
        inner = part[1:-1]
        if part[0] == "[":
            made += "[" + inner.replace("\\", "\\\\").replace("!", "^", 1) + "]"
        elif part[0] == "{":
            made += "(?:" + "|".join(map(re.escape, inner.split(","))) + ")"
        else:
            made += _WILD[part]
    expression = rf"(?s)\A(?:{made}{re.escape(glob[end:])})\z"
    try:
        fits = pc.match_substring_regex(pa.array(paths, pa.string()), expression)
    except (pa.ArrowException, UnicodeError) as error:
        raise SourceError(f"{glob!r} is no pattern of paths") from error
    return list(fits.to_pylist())


def _filesystem(scheme: str) -> Any:
    kind = _KINDS[scheme]
    try:
        made = getattr(import_module(kind.module), kind.name)
    except ModuleNotFoundError as missing:
        raise ExtensionError(
            f"{scheme}:// needs the package {kind.package!r}: pip install 'duckplets[{kind.extra}]'"
        ) from missing
    return made(use_listings_cache=False, skip_instance_cache=True)


class _FsspecStore:
    """One bucket of a store reached by fsspec."""

    def __init__(self, scheme: str, bucket: str) -> None:
        self._scheme, self._bucket, self._kind = scheme, bucket, _KINDS[scheme]
        self.stop = threading.Event()
        with self._translated(""):
            self._files = _filesystem(scheme)

    def listed(self, prefix: str, most: int | None = None) -> list[StoredObject]:
        """Return objects whose keys begin with a prefix; with ``most``, only the exact key."""
        found: list[Any] = []
        with self._translated(prefix):
            if most is not None:
                with suppress(FileNotFoundError):
                    found = [self._info(prefix)]
            else:
                place = f"{self._bucket}/{prefix.rpartition('/')[0]}".removesuffix("/")
                found = list(self._files.find(place, detail=True).values())
        made = (self._object(info) for info in found if info["type"] == "file")
        return sorted((o for o in made if o.path.startswith(prefix)), key=lambda o: o.path)

    def fetch(self, found: StoredObject, file: Path) -> None:
        """Download an object as it was listed; ``stop`` ends it."""
        name, pin = f"{self._bucket}/{found.path}", self._kind.pin
        pinned = {} if pin is None else {pin: found.checksum}
        try:
            with file.open("wb") as out:
                for start in range(0, found.size, _RANGE):
                    end = min(start + _RANGE, found.size)
                    with self._translated(found.path):
                        part = self._files.cat_file(name, start=start, end=end, **pinned)
                    out.write(part)
                    if self.stop.is_set():
                        raise PassingError(f"{found}: reading it was broken off")
        except OSError as error:  # a local error: errors of the store are translated
            raise SourceError(
                f"{found}: it cannot be kept here: {error.strerror}; give a folder with room "
                f"as TMPDIR"
            ) from error
        with self._translated(found.path):
            now = self._object(self._info(found.path))
        if now != found:
            raise SourceError(f"{found}: {CHANGED}")
        if file.stat().st_size != found.size:
            raise PassingError(f"{found}: reading it was broken off")

    def _info(self, key: str) -> dict[str, Any]:
        return dict(self._files.info(f"{self._bucket}/{key}"))

    def _object(self, info: dict[str, Any]) -> StoredObject:
        key = str(info["name"]).removeprefix(f"{self._bucket}/")
        tag = str(info[self._kind.tag])
        return StoredObject(self._bucket, key, int(info["size"]), tag, self._scheme)

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """Translate errors of a filesystem, which may contain requests."""
        try:
            yield
        except DuckpletsError:
            raise
        except Exception as error:
            why, passes = self._refusal(error)
            message = f"{self._scheme}://{self._bucket}/{shown(key)}: {why}"
            raise (PassingError if passes else SourceError)(message) from None

    def _refusal(self, error: Exception) -> tuple[str, bool]:
        """Return why there is no answer, and whether retrying may help."""
        names = [kind.__name__ for kind in type(error).__mro__]
        code = str(getattr(error, "status_code", None) or getattr(error, "code", None))
        status = int(code) if code.isdigit() else 0
        if isinstance(error, FileNotFoundError) or status == 404:
            return "there is no such object or bucket (any more)", False
        if isinstance(error, PermissionError) or status in _DENIED:
            return f"the credentials have no right to that; {self._kind.ways}", False
        if isinstance(error, ValueError) or "GoogleAuthError" in names:
            return f"there are no credentials for it: {self._kind.ways}", False
        if status == 429 or status >= 500:
            return f"the store cannot answer now (status {status}); the same again goes on", True
        if status:
            return f"the store refuses that ({names[0]}, status {status})", False
        passes = isinstance(error, OSError) or bool(_OF_NETWORKS.intersection(names))
        return f"the store cannot be reached ({names[0]}); check the network", passes


# -- to this machine ------------------------------------------------------------------------------


class Remote(Protocol):
    """A remote file."""

    @property
    def path(self) -> str:
        """Path within its repository or bucket; its suffix tells the format."""


F = TypeVar("F", bound=Remote)


def suffix_of(path: str) -> str:
    """Return the suffix of a file name, such as ``.jsonl.gz``."""
    parts = path.rsplit("/", 1)[-1].lower().split(".")
    count = 2 if len(parts) > 2 and parts[-1] in ("gz", "zst") else 1
    found = "." + ".".join(parts[-count:]) if len(parts) > count else ""
    known = re.fullmatch(r"(\.[a-z0-9]{1,10}){0,2}", found)
    return found if known else ""  # from outside, and part of a local name


def arrivals(
    files: Sequence[F],
    fetch: Callable[[F, Path], None],
    stop: Callable[[], None] = lambda: None,
) -> Generator[tuple[F, Path], None, None]:
    """Yield downloaded files, each stored until the next is requested."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="duckplets-"))
    except OSError as error:
        raise SourceError(
            f"no folder can be made for downloaded files: {error.strerror or error}; "
            f"give one as TMPDIR"
        ) from error

    def fetched(number: int, file: F) -> Path:
        here = folder / f"{number}{suffix_of(file.path)}"
        fetch(file, here)
        return here

    calls = (partial(fetched, number, file) for number, file in enumerate(files))
    coming = Lookahead(calls, "duckplets-arrivals", stop=stop, patience=_PATIENCE)
    try:
        for file, here in zip(files, coming, strict=True):
            yield file, here
            with suppress(OSError):
                here.unlink()
    finally:
        coming.close()
        shutil.rmtree(folder, ignore_errors=True)
