"""Write mined negatives, or the next steps of a run, to a data set on the Hub.

mined negatives or batches ─Parquet→ temporary folder ─card→ README.md ─one commit→ hf://org/name

Everything appears in one commit, or nothing does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import file_digest, sha1, sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted, listed
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.errors import EmptyPoolError, SamplerError, SourceError
from duckplets.export import export_negatives
from duckplets.export.card import Contents, card, drawn_from, exported_from
from duckplets.sources.remote.download import Hub, Sleep, status_of
from duckplets.sources.remote.grammar import HubUri, parse_uri

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler

__all__ = ["PushReport", "push"]

_GROUP_ROWS = 16_384
_FILE_BYTES = 500_000_000  # the viewer of the Hub wants files below this
_CARD = "README.md"
_OWN = ".gitattributes"  # the hub's own file


@dataclass(frozen=True, kw_only=True, slots=True)
class PushReport(Reported):
    """What was written to the Hub.

    Attributes:
        repo: The data set, as ``hf://org/name``.
        commit: Its commit there.
        private: Whether only its owners see it.
        rows: Rows of all files.
        files: Names of the files.
        left_out: Anchors that the export of negatives left out, by reason.
    """

    repo: str
    commit: str
    private: bool
    rows: int
    files: list[str]
    left_out: dict[str, int] = field(default_factory=dict)


@stage("push")
def push(
    of: CorpusFile,
    /,
    repo: str,
    sampler: Sampler | None = None,
    *,
    steps: int | None = None,
    private: bool = True,
    overwrite: bool = False,
    token: str | None = None,
    progress: Progress | bool | None = None,
    **negatives: Any,
) -> PushReport:
    """Write mined negatives, or the next steps of a run, to a data set on the Hub, with its card.

    Parquet, in one commit. The card has recipes and their SQL, what guards left out, seed and
    versions, the licences of the sources and what gates found of personal data. Too many
    requests and broken connections are tried again; running it again uploads nothing twice.

    Args:
        repo: ``hf://org/name`` or ``org/name``; it is created where it is not there.
        sampler: The run whose next steps are written; it then stands behind them, and may be
            saved. Without one mined negatives are written.
        steps: So many of its steps; may be left out of a bounded run.
        private: Create it private. A data set that is there stays as it is; a public one is
            refused, unless ``private=False``.
        overwrite: Replace all files of a data set that has some; they stay in its history.
        token: That may write; else ``HF_TOKEN``, else the hub's own login. It is sent to the
            hub only, and neither stored nor shown.
        progress: As for ``mine``.
        negatives: Of ``export_negatives``, whose format is ``sentence-transformers``.

    Raises:
        SourceError: The hub refuses, the token may not write, or something is there already;
            ``PassingError`` where it may go well later.
        SamplerError, RecipeError, SplitError, StateMismatchError, EmptyPoolError: As of
            ``export_negatives``.
    """
    uri = parse_uri(repo if repo.startswith("hf://") else f"hf://{repo}")
    if str(uri) != f"hf://{uri.repo}":
        raise SourceError(f"{repo!r}: a data set is written as a whole; give hf://{uri.repo}")
    if sampler is None and steps is not None:
        raise SamplerError(f"steps={steps!r} is of a run: give its sampler")
    if sampler is not None and negatives:
        raise SamplerError(f"{listed(negatives)}: of mined negatives, not of a run's samples")
    if sampler is not None and steps is None and sampler.settings.end(lambda epoch: 0) is None:
        raise SamplerError("steps=None: this run is endless; say how many of its steps to write")
    target = HubTarget(uri, token)
    with TemporaryDirectory(prefix="duckplets.") as name:
        folder = Path(name)
        if sampler is None:
            given = {"split": "train", **negatives, "progress": progress}
            path = folder / "negatives.parquet"
            report = export_negatives(of, path, format="sentence-transformers", **given)
            contents = exported_from(of, report, given)
            path.rename(_shard(folder, contents.split, 0, 1))
            parent = target.begin(private=private, overwrite=overwrite)
            return _sent(of, target, folder, contents, parent)
        parent = target.begin(private=private, overwrite=overwrite)
        start = sampler.position
        try:
            rows = _write_steps(sampler, steps, folder)
            return _sent(of, target, folder, drawn_from(of, sampler, start, rows), parent)
        except BaseException:
            sampler.move(start)
            raise


def _sent(
    of: CorpusFile, target: HubTarget, folder: Path, contents: Contents, parent: Parent
) -> PushReport:
    (folder / _CARD).write_text(card(of, target.uri, contents), "utf-8", newline="\n")
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.*"))
    title = f"{counted(contents.rows, 'row')} of {contents.kind}"
    return PushReport(
        repo=str(target.uri),
        commit=target.commit({name: folder / name for name in names}, parent, title),
        private=parent.private,
        rows=contents.rows,
        files=names,
        left_out=dict(contents.left_out),
    )


def _shard(folder: Path, split: str, number: int, count: int) -> Path:
    (folder / "data").mkdir(exist_ok=True)
    return folder / "data" / f"{split}-{number:05d}-of-{count:05d}.parquet"


def _write_steps(sampler: Sampler, steps: int | None, folder: Path) -> int:
    """Write the next batches to files of some 500 MB; return their rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (batch.table for batch in islice(sampler, steps))
    rows, files = 0, list[Path]()
    table = next(tables, None)
    while table is not None:
        files.append(folder / f"{len(files)}.part")
        with files[-1].open("wb") as file, pq.ParquetWriter(file, table.schema) as writer:
            held = list[pa.Table]()
            while table is not None and file.tell() < _FILE_BYTES:
                held.append(table)
                rows += table.num_rows
                table = next(tables, None)
                if table is None or sum(part.num_rows for part in held) >= _GROUP_ROWS:
                    writer.write_table(pa.concat_tables(held))
                    held.clear()
            if held:
                writer.write_table(pa.concat_tables(held))
    if not rows:
        raise EmptyPoolError(f"run {sampler.settings.run!r}: no samples are left to write")
    for number, path in enumerate(files):
        path.rename(_shard(folder, sampler.settings.split, number, len(files)))
    return rows


@dataclass(frozen=True, slots=True)
class Parent:
    """What was in a data set before: its commit, visibility, and files to delete."""

    commit: str
    private: bool
    files: list[Any]  # each a ``RepoFile`` of the client


class HubTarget(Hub):
    """A repository to write to."""

    done = "written to"

    def __init__(self, uri: HubUri, token: str | None, sleep: Sleep | None = None) -> None:
        super().__init__(uri.repo, token, sleep)
        self.uri = uri
        if "authorization" not in self._headers():
            raise SourceError(
                f"{uri.repo}: writing to {self.endpoint} needs a token; give token= or HF_TOKEN, "
                f"or log in with: hf auth login"
            )

    def begin(self, *, private: bool, overwrite: bool) -> Parent:
        """Create the data set where it is not there, and return what it holds."""
        self._tried(
            lambda: self._hub.create_repo(
                self.repo, repo_type="dataset", private=private, exist_ok=True
            )
        )
        found = self.info()
        if private and not found.private:
            raise SourceError(
                f"{self.uri} is public; write there with private=False, or to another"
            )
        files = [file for file in self.files(found.sha) if file.path != _OWN]
        if files and not overwrite:
            raise SourceError(
                f"{self.uri} has {counted(len(files), 'file')} already "
                f"({listed((file.path for file in files), 3)}); give another name, or replace them "
                f"with overwrite=True"
            )
        return Parent(found.sha, found.private, files)

    def commit(self, files: Mapping[str, Path], parent: Parent, title: str) -> str:
        """Replace what is there by local files, in one commit; return it."""
        # Its own bars are shown on a terminal.
        with nullcontext() if sys.stderr.isatty() else self._quiet():
            return self._tried(lambda: self._committed(files, parent, title))

    def _committed(self, files: Mapping[str, Path], parent: Parent, title: str) -> str:
        add, delete = self._client.CommitOperationAdd, self._client.CommitOperationDelete
        gone = [delete(file.path) for file in parent.files if file.path not in files]
        try:
            made = self._hub.create_commit(
                self.repo,
                [*gone, *(add(name, str(path)) for name, path in files.items())],
                commit_message=title,
                repo_type="dataset",
                parent_commit=parent.commit,
            )
        except RuntimeError as error:  # what the client makes of a failed upload
            raise error.__cause__ or ConnectionError() from None
        except Exception as error:
            if isinstance(error, ValueError) and not status_of(error):  # of the card
                raise SourceError(f"{self.endpoint} refuses what is written: {error}") from None
            if status_of(error) in (401, 403, 429) or not (landed := self._landed(files)):
                raise
            return landed  # only the answer was lost
        return str(made.oid)

    def _landed(self, files: Mapping[str, Path]) -> str:
        """Return the newest commit if it has exactly these files."""
        revision = self.info().sha
        there = {file.path: file for file in self.files(revision) if file.path != _OWN}
        same = there.keys() == files.keys() and all(_is(files[n], there[n]) for n in files)
        return str(revision) if same else ""

    def _refusal(self, error: Exception, what: str) -> str:
        if status_of(error) in (409, 412):
            return f"{self.uri} was changed by somebody else meanwhile; run it again"
        return super()._refusal(error, what)


def _is(path: Path, file: Any) -> bool:
    """Return whether a file is what the hub lists, by its SHA-256 or git's SHA-1."""
    if path.stat().st_size != file.size:
        return False
    expected, digest = file.blob_id, sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    if file.lfs is not None:
        expected, digest = file.lfs.sha256, sha256()
    with path.open("rb") as stream:
        return bool(file_digest(stream, lambda: digest).hexdigest() == expected)
