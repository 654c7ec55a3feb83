"""Write mined negatives, or the next steps of a run, to a data set on the Hub.

mined negatives or batches ─Parquet→ temporary folder ─card→ README.md ─one commit→ hf://org/name

All files appear in one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported, counted, listed
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.errors import EmptyPoolError, SamplerError, SourceError
from duckplets.export import export
from duckplets.export.card import Contents, card, drawn_from, exported_from
from duckplets.export.files import write_tables
from duckplets.sources.remote.download import Hub, Sleep, status_of
from duckplets.sources.remote.grammar import HubUri, parse_uri

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler

__all__ = ["PushReport", "push"]

_CARD = "README.md"
_OWN = ".gitattributes"  # the hub's own file


@dataclass(frozen=True, kw_only=True, slots=True)
class PushReport(Reported):
    """The result of writing to the Hub.

    Attributes:
        repo: The data set, as ``hf://org/name``.
        commit: The new commit.
        private: Whether only its owners see it.
        rows: Rows of all files.
        files: Names of the files.
        left_out: Anchors that the export of negatives excluded, by reason.
    """

    repo: str
    commit: str
    private: bool
    rows: int
    files: list[str]
    left_out: dict[str, int] = field(default_factory=dict)


@stage("push")
def push(
    corpus: CorpusFile,
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
    """Write mined negatives, or the next steps of a run, to a data set on the Hub, with a card.

    The rows are one Parquet file in one commit. The card has recipes and their SQL, counts of
    guards, seed and versions, the licences of the sources and the personal data that gates found.
    Rate limits and broken connections are tried again. A second call uploads each file once.

    Args:
        repo: ``hf://org/name`` or ``org/name``. It is created if it does not exist.
        sampler: Write the next steps of this run. Its position is then after them, and can be
            saved. Default: write mined negatives.
        steps: Number of steps of the run. Default: all of a bounded run.
        private: Create it as private. An existing data set keeps its visibility; a public one is
            refused, unless ``private=False``.
        overwrite: Replace all files of the data set; they stay in its history.
        token: A token with write permission. Default: ``HF_TOKEN``, otherwise the hub's own login.
            Only the hub gets it; it is never stored or shown.
        progress: As for ``mine``.
        negatives: Arguments of ``export``, with the format ``sentence-transformers``.

    Raises:
        SourceError: The hub refuses, the token may not write, or the data set has files.
            ``PassingError`` if a later try may succeed.
        SamplerError, RecipeError, SplitError, StateMismatchError, EmptyPoolError: As in
            ``export``.
    """
    uri = parse_uri(repo if repo.startswith("hf://") else f"hf://{repo}")
    if str(uri) != f"hf://{uri.repo}":
        raise SourceError(f"{repo!r}: a data set is written as a whole; give hf://{uri.repo}")
    if sampler is None and steps is not None:
        raise SamplerError(f"steps={steps!r} is for runs: give a sampler")
    if sampler is not None and negatives:
        raise SamplerError(f"{listed(negatives)}: for mined negatives only; remove it, or sampler=")
    if sampler is not None and steps is None and sampler.settings.end(lambda epoch: 0) is None:
        raise SamplerError("steps=None: this run is endless; give the number of steps to write")
    target = HubTarget(uri, token)
    with TemporaryDirectory(prefix="duckplets.") as name:
        path = Path(name) / "rows.parquet"
        if sampler is None:
            arguments = {"split": "train", **negatives, "progress": progress}
            report = export(corpus, path, "sentence-transformers", **arguments)
            parent = target.begin(private=private, overwrite=overwrite)
            contents = exported_from(corpus, report, arguments)
            return _send(corpus, target, path, contents, parent)
        parent = target.begin(private=private, overwrite=overwrite)
        start = sampler.position
        try:
            rows = _write_steps(sampler, steps, path)
            return _send(corpus, target, path, drawn_from(sampler, start, rows), parent)
        except BaseException:
            sampler.move(start)
            raise


def _send(
    corpus: CorpusFile, target: HubTarget, rows: Path, contents: Contents, parent: Parent
) -> PushReport:
    text = rows.with_name(_CARD)
    text.write_text(card(corpus, target.uri.name, contents), "utf-8", newline="\n")
    files = {_CARD: text, f"data/{contents.split}-00000-of-00001.parquet": rows}
    title = f"{counted(contents.rows, 'row')} of {contents.kind}"
    return PushReport(
        repo=str(target.uri),
        commit=target.commit(files, parent, title),
        private=parent.private,
        rows=contents.rows,
        files=list(files),
        left_out=dict(contents.left_out),
    )


def _write_steps(sampler: Sampler, steps: int | None, path: Path) -> int:
    tables = (batch.table for batch in islice(sampler, steps))
    first = next(tables, None)
    if first is None:
        raise EmptyPoolError(f"run {sampler.settings.run!r} is finished: it has no more samples")
    with path.open("wb") as file:
        return write_tables(chain([first], tables), first.schema, file)


@dataclass(frozen=True, slots=True)
class Parent:
    """The earlier state of a data set: its commit, visibility, and files to delete."""

    commit: str
    private: bool
    files: list[str]


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
        """Create the data set if it does not exist, and return its state."""
        self._tried(
            lambda: self._hub.create_repo(
                self.repo, repo_type="dataset", private=private, exist_ok=True
            )
        )
        found = self.info()
        if private and not found.private:
            raise SourceError(f"{self.uri} is public; give private=False, or another name")
        files = [file.path for file in self.files(found.sha) if file.path != _OWN]
        if files and not overwrite:
            raise SourceError(
                f"{self.uri} already has {counted(len(files), 'file')} ({listed(files, 3)}); give "
                f"another name, or replace them with overwrite=True"
            )
        return Parent(found.sha, found.private, files)

    def commit(self, files: Mapping[str, Path], parent: Parent, title: str) -> str:
        """Replace all files by local ones in one commit, and return it."""
        return self._tried(lambda: self._committed(files, parent, title))

    def _committed(self, files: Mapping[str, Path], parent: Parent, title: str) -> str:
        add, delete = self._client.CommitOperationAdd, self._client.CommitOperationDelete
        removed = [delete(name) for name in parent.files if name not in files]
        try:
            made = self._hub.create_commit(
                self.repo,
                [*removed, *(add(name, str(path)) for name, path in files.items())],
                commit_message=title,
                repo_type="dataset",
                parent_commit=parent.commit,
            )
        except RuntimeError as error:  # the client raises it for a failed upload
            raise error.__cause__ or ConnectionError() from None
        except ValueError as error:
            if status_of(error):
                raise
            raise SourceError(f"{self.endpoint} refuses the card: {error}") from None
        return str(made.oid)

    def _refusal(self, error: Exception, what: str) -> str:
        if status_of(error) in (409, 412):
            return (
                f"{self.uri} changed at the same time, by somebody else or by an earlier try: look "
                f"at its files, and run this again"
            )
        return super()._refusal(error, what)
