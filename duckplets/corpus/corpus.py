"""Open a corpus, which is one DuckDB file, and bind the verbs to it by name.

with dp.Corpus("faq.duckdb") as corpus:
    corpus.ingest("faq.csv", anchor="question", positive="answer")
    corpus.split(train=0.8, validation=0.1, test=0.1, seed=42)
    for batch in corpus.sampler("triplets", batch_size=256): ...

A verb is a function of a room that takes the corpus first: ``corpus.mine(...)`` is ``mine(corpus,
...)`` of ``duckplets.mining.mine``. A room is imported when a verb of it is first called.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

from duckplets.base.deadline import STATEMENT_TIMEOUT, Timeout
from duckplets.base.live_set import LiveSet
from duckplets.base.old_names import refusing_old, sentence
from duckplets.base.sanitize import html_table
from duckplets.base.settings import checked
from duckplets.corpus import maintenance as _maintenance
from duckplets.db import files, migrate
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError, QueryError, SamplerError
from duckplets.ingest import records
from duckplets.pools import macros


class Room:
    """A module of the package; ``room.verb`` binds a verb before the module is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> Verb:
        return Verb(self._name, verb)


class Verb:
    """A verb that replaces itself by the imported function when first used."""

    def __init__(self, room: str, name: str) -> None:
        self._room, self._name = room, name

    def __get__(self, corpus: object, owner: type) -> Any:
        function = getattr(import_module(f"duckplets.{self._room}"), self._name)
        function = refusing_old(self._name, function)
        setattr(owner, self._name, function)
        return function if corpus is None else MethodType(function, corpus)


if TYPE_CHECKING:
    from duckplets import advise as _advise
    from duckplets import export as _export
    from duckplets import report as _report
    from duckplets.adapters import evaluation as _evaluation
    from duckplets.corpus import compact as _compact
    from duckplets.corpus import ingest as _ingest
    from duckplets.corpus import quality as _quality
    from duckplets.corpus import recipes as _recipes
    from duckplets.corpus import runs as _runs
    from duckplets.corpus import status as _status
    from duckplets.export import hub as _hub
    from duckplets.ingest import checkpoint as _checkpoint
    from duckplets.ingest import chunks as _chunks
    from duckplets.ingest import prefixes as _prefixes
    from duckplets.ingest import splits as _splits
    from duckplets.mining import external as _external
    from duckplets.mining import labels as _labels
    from duckplets.mining import mine as _mine
    from duckplets.mining import policy as _policy
    from duckplets.records import index_controls as _controls
    from duckplets.records import read as _read
    from duckplets.records.read import Records
    from duckplets.runs.sampler import Sampler
    from duckplets.tokens import dataset as _token_runs
    from duckplets.tokens import shards as _shards
    from duckplets.vectors import add as _vectors
    from duckplets.vectors import embed as _embed
    from duckplets.vectors import knn as _knn
    from duckplets.vectors import rescore as _rescore
else:
    _evaluation, _report = map(Room, ("adapters.evaluation", "report"))
    _compact, _recipes = map(Room, ("corpus.compact", "corpus.recipes"))
    _ingest, _quality = map(Room, ("corpus.ingest", "corpus.quality"))
    _runs, _status = map(Room, ("corpus.runs", "corpus.status"))
    _advise, _export = map(Room, ("advise", "export"))
    _hub = Room("export.hub")
    _checkpoint, _chunks = map(Room, ("ingest.checkpoint", "ingest.chunks"))
    _prefixes, _splits = map(Room, ("ingest.prefixes", "ingest.splits"))
    _external, _mine = map(Room, ("mining.external", "mining.mine"))
    _labels = Room("mining.labels")
    _policy, _knn = map(Room, ("mining.policy", "vectors.knn"))
    _controls, _read = map(Room, ("records.index_controls", "records.read"))
    _shards, _token_runs = map(Room, ("tokens.shards", "tokens.dataset"))
    _embed, _vectors = map(Room, ("vectors.embed", "vectors.add"))
    _rescore = Room("vectors.rescore")


class Corpus:
    """A corpus file, opened or created.

    Args:
        path: The file, by convention ``NAME.duckdb``.
        read_only: Open it to share: any number of processes may then read it at once.
        memory_limit: Memory for DuckDB, such as ``"2GB"``; 1 GB by default.
        threads: Threads DuckDB may use; all cores by default. No result depends on it.
        statement_timeout: Seconds that one statement over a pool, with the conditions of its
            recipe, or one of yours in ``sql`` may take; None for no end.

    Attributes:
        database: The connections, for the verbs; statements of yours go to ``sql``.

    Raises:
        MigrationError: The path holds something else, or an old schema opened read-only.
        MissingFileError: There is nothing to read (a ``FileNotFoundError``).
        CorpusLockedError: Another process has it open for writing.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        memory_limit: str | None = None,
        threads: int | None = None,
        statement_timeout: float | None = STATEMENT_TIMEOUT,
    ) -> None:
        timeout = checked("statement_timeout", statement_timeout, Timeout, QueryError)
        path = Path(path)
        if not read_only:
            migrate.create(path, "corpus")
        database = Database.open(
            path, read_only=read_only, memory_limit=memory_limit, threads=threads
        )
        database.statement_timeout = timeout
        self.database, self.read_only = database, read_only
        self.path = database.path = path.absolute()  # the working directory may change
        self.opened: LiveSet[Sampler | Records] = LiveSet()  # closed with the corpus
        try:
            if read_only:
                migrate.check(self.database, "corpus")
                macros.check(self.database)
            else:
                with self.database.changing("migrate"):
                    migrate.migrate(self.database, "corpus")
                    macros.check(self.database)
                    self.database.following = macros.following
                    is_any = files.next_to(path, files.CANDIDATES).is_dir()
                    if is_any or self.database.run("mining/store/is_any_shown")[0][0]:
                        from duckplets.mining.views import show

                        show(self.database)  # what was mined while it was read only
        except BaseException:
            self.database.close()
            raise

    ingest = _ingest.ingest
    sources = _ingest.sources
    split = _splits.split
    chunk = _chunks.chunk
    set_prefix = _prefixes.set_prefix
    set_index_controls = _controls.set_index_controls
    data_index = _controls.data_index

    unfinished = _checkpoint.unfinished
    remove = _maintenance.remove
    quality = _quality.quality
    deduplicate = _quality.deduplicate
    decontaminate = _quality.decontaminate

    add_recipe = _recipes.add_recipe
    recipes = _recipes.recipes
    pool = _recipes.pool
    sql = _recipes.sql
    status = _status.status

    search = _knn.search
    mine = _mine.mine
    rescore = _rescore.rescore
    add_negatives = _external.add_negatives
    negatives = _policy.negatives
    relabel = _labels.relabel
    export = _export.export
    push = _hub.push
    evaluator = _evaluation.evaluator

    embed = _embed.embed
    add_vectors = _vectors.add_vectors
    vectors = _vectors.vectors

    shard = _shards.shard
    token_sampler = _token_runs.token_sampler

    sampler = _runs.sampler
    forecast = _runs.forecast
    resume = _runs.resume
    read = _read.read
    count = _read.count
    report = _report.report
    advise = _advise.advise

    compact = _compact.compact
    prepare = _maintenance.prepare

    if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

        def __getattr__(self, name: str) -> NoReturn:
            said = sentence(f"Corpus.{name}")
            raise AttributeError(said or f"'Corpus' object has no attribute {name!r}")

    @property
    def version(self) -> int:
        """The newest committed version; 0 for an empty corpus."""
        return records.current_version(self.database)

    def close(self) -> None:
        """Close the samplers, what reads records, and the file."""
        for opened in self.opened:
            opened.close()
        self.database.close()

    def __repr__(self) -> str:
        mode = ", read_only=True" if self.read_only else ""
        name = f"Corpus({str(self.path)!r}{mode})"
        from duckplets.corpus.status import in_a_line

        try:
            return f"<{name}: {in_a_line(self.database)}>"
        except DuckpletsError:  # it was closed, or belongs to another process
            return name

    def _repr_html_(self) -> str:
        firsts = self.database.table("corpus/status/first_texts").to_pylist()
        caption = f"{self.path}, version {self.version}"
        header = ("source", "records", "first text")
        return html_table(caption, header, [row.values() for row in firsts])

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise SamplerError(
            f"a corpus cannot be pickled or copied: it has a file open. Open {str(self.path)!r} in "
            f"each process, read_only=True, or let duckplets.torch.SamplerDataset do so"
        )
