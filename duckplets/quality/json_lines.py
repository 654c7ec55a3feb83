"""Write accepted records as JSON lines, so that the file and the corpus agree after any crash.

    rows of a transaction ─SQL→ lines ─append, fsync→ file ─its end, digest→ json_lines ─commit

The decision that matters: lines are made of what the corpus has stored, by one statement, within
the transaction that stores it, and that transaction says where the file ends. So a kill leaves at
most lines beyond that end, which the next intake cuts, and a file that is gone is written again by
the same statement, to the same bytes. Another file in its place is never written to: one that is
not as it was left has to have the digests that are stored, and only the file itself is cut.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from duckplets.base.atomic import written_aside
from duckplets.base.sanitize import counted, shown
from duckplets.db.database import Database
from duckplets.errors import DamagedFileError, DuckpletsError, SourceError
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.ingest.gates import Intake
from duckplets.quality.live_texts import portions
from duckplets.quality.report import metadata
from duckplets.text.characters import bytes_of

_LOG = logging.getLogger(f"{__name__}.JsonLines")
_BYTES, _RECORDS = 8 << 20, 8_192  # of the texts that are made lines of together
_READ = 1 << 20
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
_LAST = (1 << 63) - 1  # of all keys
_EMPTY = hashlib.sha256().hexdigest()


class _Part(NamedTuple):
    """Lines of one intake, as the corpus has noted them: a row of ``json_lines``."""

    part: int
    acquisition_id: int
    source: str
    first_byte: int
    end_byte: int
    first_key: int
    end_key: int
    lines: int
    digest: str


class JsonLinesFile:
    """A file of JSON lines that intakes append to, one by one: take_up, begin, append, close.

    Args:
        path: As the user gave it; SourceError where no file can be written there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.given = os.fspath(path)
        self.path = _checked(self.given)
        self._beside = self.path.with_name(f"{self.path.name}.meta.json")
        self.notes: list[str] = []
        self.name = ""  # from the folder of the corpus
        self._is_open = self._is_made = self._is_begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(failed=error is not None)

    # -- the file, before rows are read ---------------------------------------------------------

    def take_up(self, database: Database) -> None:
        """Bring the file to what is committed, or begin one; outside of transactions.

        Raises:
            SourceError: The file is not of this corpus, or cannot be written.
            DamagedFileError: It does not hold what was written, or cannot be written again.
        """
        if self._is_open:  # an intake before this one shares it
            return
        self._database = database
        folder = os.path.dirname(os.path.realpath(str(database.path)))
        self.name = os.path.relpath(self.path, folder)
        known = self._run("file")
        with self._writing():
            if known:
                self._agree(*known[0])
            else:
                self._claim()
        self._is_open = True

    def _claim(self) -> None:
        """Begin a file where there is none, or an empty one."""
        for path in (self.path, self._beside):
            if os.path.lexists(path) and (path != self.path or path.stat().st_size):
                raise SourceError(
                    f"jsonl={shown(repr(self.given))}: {shown(path)} is there already, and this "
                    f"corpus has not written it, so it stays as it is: give another file, or move "
                    f"it away"
                )
        self._is_made = not self.path.exists()
        with self.path.open("ab") as file:
            self._run("claim", inode=os.fstat(file.fileno()).st_ino)

    def _agree(self, inode: int, modified: int | None) -> None:
        """Bring a file that was written before to what is committed."""
        parts = self._parts()
        end = _end(parts)
        found = self.path.stat() if self.path.exists() else None
        if found is None or found.st_size < end:
            self._write_again(parts, found is not None)
        elif (found.st_size, found.st_mtime_ns, found.st_ino) != (end, modified, inode):
            self._check(parts)
            if found.st_size > end and (modified is not None or found.st_ino != inode):
                raise DamagedFileError(
                    f"{shown(self.path)} holds {counted(found.st_size - end, 'byte')} more than "
                    f"this corpus has written: what was added is not cut. Take it out, as by "
                    f"truncate -s {end} FILE, or give another jsonl="
                )
            self._cut(end)
        self._settle(None)

    def _check(self, parts: list[_Part]) -> None:
        """Compare the file with the digests of its parts."""
        with self.path.open("rb") as file:
            for part in parts:
                if _digest(file, part).hexdigest() != part.digest:
                    raise DamagedFileError(
                        f"{shown(self.path)} is not as it was written: bytes {part.first_byte:,} "
                        f"to {part.end_byte:,}, {counted(part.lines, 'line')} of source "
                        f"{shown(repr(part.source))}, have changed. Put it back as it was, move "
                        f"it away to have it written again, or give another jsonl="
                    )

    def _write_again(self, parts: list[_Part], is_shorter: bool) -> None:
        """Write the file from the corpus; what is left of it has to be how it begins."""
        before = self.path.open("rb") if is_shorter else None
        with before or nullcontext(), written_aside(self.path) as file:
            for part in parts:
                self._write_part_again(file, part, before)
        if parts:
            lines = counted(sum(part.lines for part in parts), "line")
            how = "was shorter than committed" if is_shorter else "was gone"
            self._note(f"jsonl: {shown(self.given)} {how}, and was written again: {lines}")

    def _write_part_again(self, file: BinaryIO, part: _Part, before: BinaryIO | None) -> None:
        digest = hashlib.sha256()
        for _, _, block in self._lines(part.acquisition_id, part.first_key, part.end_key - 1):
            left = before.read(len(block)) if before is not None else b""
            if left != block[: len(left)]:
                raise DamagedFileError(
                    f"{shown(self.path)} is shorter than it was, and is not how it began: it is "
                    f"another file. Move it away to have the old one written again, or give "
                    f"another jsonl="
                )
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != part.digest:
            raise DamagedFileError(
                f"{shown(self.path)} is gone or cut off, and cannot be written again: "
                f"{counted(part.lines, 'line')} of source {shown(repr(part.source))} are no longer "
                f"in the corpus as they were written (judge, chunk, denoise, normalise, or remove "
                f"with compact have changed them). Put it back from a copy, or give another jsonl="
            )

    def _cut(self, end: int) -> None:
        """Cut what is beyond a place; it was never committed."""
        with self.path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size > end:
                file.truncate(end)
                os.fsync(file.fileno())
                _LOG.info("cut %d bytes that were not committed from %s", size - end, self.path)

    # -- one transaction after the other --------------------------------------------------------

    def begin(self, of: Intake, acquisition_id: int) -> None:
        """Begin the part of an intake, or go on with it, within a transaction.

        Raises:
            SourceError: The file is gone.
        """
        if self._is_begun:
            self.notes = []  # of an intake that shares it
        self._is_begun = True
        parts, self._hash = self._parts(), hashlib.sha256()
        end = _end(parts)
        with self._writing():
            self._settle(None)
            self._cut(end)  # one before it may have failed between a line and its commit
        number = parts[-1].part + 1 if parts else 1
        if of.is_anew:
            own = (acquisition_id, of.name, end, end, of.record_key, of.record_key, 0, _EMPTY)
            self._part = _Part(number, *own)
            self._run("begin", **self._part._asdict())
            self._note_what_is_elsewhere(of)
            return
        self._part = next(part for part in parts if part.acquisition_id == acquisition_id)
        if not self._part.lines and self._part.end_byte < end:  # others were written meanwhile
            self._run("move", before=self._part.part, part=number, end=end)
            self._part = self._part._replace(part=number, first_byte=end, end_byte=end)
        with self._writing(), self.path.open("rb") as file:
            self._hash = _digest(file, self._part)

    def _note_what_is_elsewhere(self, of: Intake) -> None:
        before = {"source_id": of.source_id, "unpublished": UNPUBLISHED}
        if count := int(self._run("elsewhere", **before)[0][0]):
            self._note(
                f"jsonl: {counted(count, 'record')} of the source that came in before, without "
                f"this file, have no line in {shown(self.given)}"
            )

    def append(self) -> None:
        """Append the rows that were accepted since, and note it in their transaction.

        Raises:
            SourceError: The disk is full, the file cannot be written, or an unfinished intake of
                another source is writing it.
            DamagedFileError: Somebody else has written to it.
        """
        part = self._part
        # Without a buffer: what is in one would be written after all when the file is closed.
        with self._writing(), self.path.open("r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != part.end_byte:
                raise DamagedFileError(
                    f"{shown(self.path)} has {size:,} bytes and should have {part.end_byte:,}: "
                    f"something else writes to it. Nothing was appended; run the same again"
                )
            try:
                file.seek(part.end_byte)
                for key, count, block in self._lines(part.acquisition_id, part.end_key):
                    if not part.lines:
                        self._refuse_unfinished()
                    left = memoryview(block)
                    while left:
                        left = left[file.write(left) :]
                    self._hash.update(block)
                    part = part._replace(
                        end_byte=part.end_byte + len(block),
                        end_key=key + 1,
                        lines=part.lines + count,
                    )
                os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):  # then the next intake cuts it
                    os.ftruncate(file.fileno(), self._part.end_byte)
                raise
        self._part = part._replace(digest=self._hash.hexdigest())
        names = ("part", "end_byte", "end_key", "lines", "digest")
        self._run("advance", **{name: getattr(self._part, name) for name in names})

    def _refuse_unfinished(self) -> None:
        """Let the lines of an unfinished intake stay the last ones: they may be taken back."""
        own = {"acquisition_id": self._part.acquisition_id, "unpublished": UNPUBLISHED}
        if found := self._run("unfinished", **own):
            raise SourceError(
                f"jsonl={shown(repr(self.given))}: it ends with lines of source "
                f"{shown(repr(found[0][0]))}, whose intake is unfinished: run that one by itself "
                f"first, discard it with restart=True, or give another file"
            )

    def begin_again(self) -> None:
        """Take back the lines of the intake, before it is whole: some rows are no records."""
        part = self._part
        with self._writing():
            self._cut(part.first_byte)
        self._hash = hashlib.sha256()
        self._part = part._replace(
            end_byte=part.first_byte, end_key=part.first_key, lines=0, digest=_EMPTY
        )

    def _lines(self, number: int, low: int, high: int = _LAST) -> Iterator[tuple[int, int, bytes]]:
        """Yield lines of an intake, some megabytes at a time: the last key, how many, the bytes."""
        of = {"acquisition_id": number, "low": low, "high": high}
        sizes = self._database.table("quality/json_lines/sizes", of)
        keys = sizes["record_key"].to_numpy()
        for start, end in portions(sizes["bytes"].fill_null(0).to_numpy(), _BYTES, _RECORDS):
            of |= {"low": int(keys[start]), "high": int(keys[end - 1])}
            found = self._database.table("quality/json_lines/lines", of)["line"]
            block = b"".join(bytes_of(chunk)[0].data for chunk in found.chunks)
            yield of["high"], len(found), block

    # -- afterwards -----------------------------------------------------------------------------

    def close(self, *, failed: bool) -> None:
        """Leave the file as it is committed, with what there is to say of it beside it.

        Args:
            failed: Whether an error is under way, which is then the one to be told.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            with self._writing():
                parts = self._parts()
                self._cut(_end(parts))
                if not parts:
                    self._run("forget")
                    if self._is_made:
                        self.path.unlink()
                    return
                self._settle(self.path.stat().st_mtime_ns)
                self._write_metadata()
        except (DuckpletsError, OSError):
            if not failed:
                raise

    def _write_metadata(self) -> None:
        told = {"path": str(self.path), "corpus": os.path.realpath(str(self._database.path))}
        told |= metadata(self._database, self.name)
        with written_aside(self._beside) as file:
            file.write(f"{json.dumps(told, ensure_ascii=False, indent=1)}\n".encode())

    # -- statements, errors ---------------------------------------------------------------------

    def _run(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        of_file = {"path": self.name, **given}
        return self._database.run("quality/json_lines/" + statement, of_file)

    def _parts(self) -> list[_Part]:
        return [_Part(*row) for row in self._run("parts")]

    def _settle(self, modified: int | None) -> None:
        self._run("settle", inode=self.path.stat().st_ino, modified=modified)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        _LOG.info("%s", text)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say what could not be written, and what is left."""
        try:
            yield
        except OSError as error:
            raise SourceError(
                f"jsonl={shown(repr(self.given))}: {shown(error.filename or self.path)}: "
                f"{error.strerror}. What was committed stays, in the file and in the corpus; the "
                f"same command goes on there"
            ) from error


def refuse_another_file(of: Intake, acquisition_id: int, lines: JsonLinesFile | None) -> None:
    """Refuse to go on with an intake that has written another file of JSON lines, or none.

    Raises:
        SourceError: It has.
    """
    found = of.database.run("quality/json_lines/written_by", {"acquisition_id": acquisition_id})
    before = found[0][0] if found else None
    if before == (None if lines is None else lines.name):
        return
    told = "without jsonl=" if before is None else f"with jsonl={shown(repr(before))}"
    raise SourceError(
        f"source {shown(repr(of.name))} has an unfinished intake that began {told}: go on with it "
        f"as it began, or discard it with restart=True"
    )


def _checked(given: str) -> Path:
    """Return the real path of a file that can be written.

    Raises:
        SourceError: It is none.
    """
    what = f"jsonl={shown(repr(given))}"
    path = Path(os.path.realpath(given)) if "\0" not in given else Path()
    if given in ("", "-") or "\0" in given or not str(path).isprintable():
        raise SourceError(f"{what}: give the path of a file, which is gone on with later")
    if path.suffix.lower() in _COMPRESSED:
        raise SourceError(f"{what}: it is written uncompressed, so give FILE.jsonl")
    if not path.parent.is_dir():
        raise SourceError(f"{what}: there is no folder {shown(path.parent)}; make it first")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise SourceError(f"{what}: it is no plain file")
    return path


def _end(parts: list[_Part]) -> int:
    # A part without lines may stand after one that went on.
    return max((part.end_byte for part in parts), default=0)


def _digest(file: BinaryIO, part: _Part) -> Any:
    """Return the hash of the bytes of a part, as far as they are there."""
    found, left = hashlib.sha256(), part.end_byte - part.first_byte
    file.seek(part.first_byte)
    while left and (block := file.read(min(_READ, left))):
        found.update(block)
        left -= len(block)
    return found
