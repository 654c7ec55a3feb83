"""The command `watch`: a page in the terminal of where a run stands, for which no save waits.

A run tells where it stands when it saves, and its state file is copied to be looked at: so nobody
waits, and what is shown is as of the last save.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from duckplets.base.shown import shown
from duckplets.cli.app import CORPUS, existing, tell
from duckplets.cli.options import RUN, STATE
from duckplets.cli.page import page
from duckplets.errors import CorpusLockedError, StateMismatchError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from duckplets.db.probe import Signature
    from duckplets.order.schedule import Schedule
    from duckplets.sampling.saved import Run
    from duckplets.sampling.settings import RunSettings
    from duckplets.sampling.standing import Save, Standing

_SECOND = 1.0  # between two looks
_PATIENCE = 10.0  # seconds that --once tries to find the file at rest
_SOURCES = 60  # that a log shows
_UNCOMPARED = "the corpus is open to write in another process, so the run was not compared with it"
_HEAD = 11  # lines that a page has above its sources


def watch(
    corpus: CORPUS,
    run: RUN = "default",
    state: STATE = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one page, in plain text, and end.")
    ] = False,
) -> None:
    """Show where a run stands and what it has drawn, once a second until Ctrl-C.

    CORPUS may be a folder of token shards. A run tells its state file where it stands when it
    saves, so the page is as of the last save; how fast it goes is known from two of them. The file
    is copied to be read: the run waits for nobody. Where nothing is saved yet, it is waited for.

    Example:
        duckplets watch faq.duckdb
        duckplets watch faq.duckdb --run hard --once >> training.log
    """
    from rich.console import Console

    watched = _Watched(existing(corpus), run, state)
    if once:
        plain = Console(color_system=None, force_terminal=False, highlight=False)
        with plain.capture() as printed:
            plain.print(watched.page(watched.look(_PATIENCE), plain, _SOURCES))
        tell(*(line.rstrip() for line in printed.get().splitlines()))
        return
    console = Console(highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        raise typer.BadParameter("stdout is no terminal that can show a page: give --once")
    with console.screen():
        while True:
            console.update_screen(watched.shown(console))
            time.sleep(_SECOND)


class _Watched:
    """A run, looked at again where its state file has changed.

    Args:
        corpus: The corpus file, or a folder of token shards.
        run: Name of the run.
        state: The state file; by default beside the corpus.
    """

    def __init__(self, corpus: Path, run: str, state: Path | None) -> None:
        from duckplets.sampling.state import state_path

        self._corpus, self._run, self._path = corpus, run, state or state_path(corpus)
        self._seen: Signature | None = None  # the file, when it was read
        self._standing: Standing | None = None
        self._saves: set[Save] = set()  # also such as others have replaced since
        self._is_saved = False
        self._is_compared = False  # the run with the corpus

    def shown(self, console: Console) -> RenderableType:
        """Return what is to be seen now: figures and how old they are, or what is waited for."""
        from rich.text import Text

        from duckplets.db.probe import signature

        waiting = ""
        try:
            if self._standing is None or self._seen != signature(self._path):
                self._standing = self.look()
        except CorpusLockedError:  # what was seen last stays, and grows older
            waiting = "a save is under way; looking again"
        except StateMismatchError as error:
            if self._is_saved:
                raise
            self._standing, waiting = None, str(error)
            self._saves.clear()
        if self._standing is None:
            return Text(f"waiting for run {shown(repr(self._run))} to be saved: {waiting}")
        return self.page(self._standing, console, console.height - _HEAD, waiting)

    def page(self, found: Standing, console: Console, most: int, note: str = "") -> RenderableType:
        """Return the page of what was seen, with so many lines for sources."""
        notes = [note, "" if self._is_compared else _UNCOMPARED]
        return page(found, console.width, most, [*filter(None, notes)])

    def look(self, seconds: float = 0.0) -> Standing:
        """Read the state file.

        Args:
            seconds: How long to try while it is being written.

        Raises:
            StateMismatchError: The run is not saved there, or is none over what is watched.
            CorpusLockedError: The file was being written all the time.
        """
        from duckplets.db.probe import signature
        from duckplets.sampling import state
        from duckplets.sampling.standing import standing

        self._is_saved = False
        if not self._path.exists():
            raise StateMismatchError(f"{self._path} does not exist yet")
        seen = signature(self._path)
        known = self._standing is not None
        with state.copied(self._path, seconds=seconds, known=known) as copy:
            saves = [save for save in state.cursors(copy) if save["run"] == self._run]
            last = max(saves, key=lambda save: (save["saved_at"], save["step"]), default={})
            run, cursor = state.load(copy, self._run, last.get("tag"))
        self._is_saved = True
        schedule = self._schedule(run)
        self._saves |= {(save["saved_at"], save["step"]) for save in saves}
        self._seen = seen
        return standing(run, cursor, schedule, last["saved_at"], self._saves)

    def _schedule(self, run: Run) -> Schedule:
        """Return the schedule of a run over what is watched.

        Raises:
            StateMismatchError: It is one over something else.
        """
        from duckplets.sampling.eras import schedule_of
        from duckplets.sampling.settings import saved_settings
        from duckplets.tokens.runs import TokenShards
        from duckplets.tokens.sampler import TokenSettings

        of_tokens, is_folder = run.kind == "tokens", self._corpus.is_dir()
        if of_tokens is not is_folder:
            what = "a folder of token shards" if of_tokens else "a corpus file"
            raise StateMismatchError(f"run {run.name!r} of {self._path} is over {what}: give that")
        if of_tokens:
            shards = TokenShards(self._corpus)
            settings = cast(TokenSettings, saved_settings(run, TokenSettings))
            same = settings.folder.get("fingerprint") == shards.manifest.fingerprint
            self._compared(run, same=same)
            return shards.schedule(settings, run.events)
        of_corpus = saved_settings(run)
        if not self._is_compared:
            self._compare(run, of_corpus)
        return schedule_of(of_corpus, run.events)

    def _compare(self, run: Run, settings: RunSettings) -> None:
        """Compare the records of a run with those of the corpus, if that can be read now."""
        from duckplets.db.database import Database
        from duckplets.ingest.records import current_version
        from duckplets.serving.snapshot import fingerprint

        version = settings.corpus_version
        with suppress(CorpusLockedError):  # the run itself may have it open to write
            with closing(Database.open(self._corpus, read_only=True, threads=1)) as database:
                same = version <= current_version(database)
                same = same and fingerprint(database, version) == settings.records
            self._compared(run, same=same)

    def _compared(self, run: Run, *, same: bool) -> None:
        self._is_compared = True
        if not same:
            raise StateMismatchError(
                f"run {run.name!r} of {self._path} is of other text than {self._corpus} has: the "
                f"state file is of another corpus, or of another folder of shards"
            )
