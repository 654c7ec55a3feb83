"""Mine one recipe, source and split: guards, a scorer, and the stored candidates.

recipe's pool ─Guards→ excluded documents ─Scorer→ the best of each anchor ─→ NAME.candidates/
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from duckplets.artifacts.folder import ArtifactFolder
from duckplets.base.arrays import Integers
from duckplets.base.sanitize import counted
from duckplets.db.database import Database
from duckplets.engine.work import Work
from duckplets.errors import DamagedFileError, RecipeError
from duckplets.mining import policy, store
from duckplets.mining.blocks import TopDocuments
from duckplets.mining.guards import Guards
from duckplets.mining.report import PairReport
from duckplets.mining.store import Mining, Minings, OpenMining
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import Kinds, PoolReader, labels_of
from duckplets.recipes.mined import BM25, Mined, policy_for
from duckplets.recipes.recipes import TripletRecipe

log = logging.getLogger("duckplets")

MOST = 2048  # candidates of an anchor
_CANDIDATE_BYTES = 5  # bytes on disk per candidate, about
_MANY_MEGABYTES = 1000  # the size from which a warning is logged


def own_name(name: str, argument: str) -> str:
    """Return the name of a scorer; refuse a name that ``by=`` reserves."""
    if name in (BM25, "random"):
        raise RecipeError(f"{argument}={name!r}: by={name!r} is reserved; give another name")
    return name


Searched = Generator[tuple[slice, TopDocuments], None, None]  # a block of anchors and its result


class Scorer(ABC):
    """Rank candidates, under a name of its own."""

    name: str

    @abstractmethod
    def settings(self, job: Job) -> dict[str, Any]:
        """Return the settings that determine its candidates, together with records and recipe."""

    def order(self, job: Job) -> Integers | None:
        """Return the section keys of anchors in the order to search them, or None for any order."""
        return None

    @abstractmethod
    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield every block of anchors from number ``start``, with the best documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One recipe, source and split to mine."""

    database: Database
    scorer: Scorer
    depth: int
    recipe: TripletRecipe
    source: str
    split: str
    version: int
    work: Work

    @property
    def policy(self) -> Mined:
        """The policy of the recipe."""
        return policy_for(self.recipe.by, self.scorer.name)

    @property
    def kinds(self) -> Kinds:
        """Labels and documents of sources."""
        return labels_of(self.database, self.version)

    @property
    def ground(self) -> dict[str, str]:
        """Source and split of the searched documents."""
        documents = self.kinds.documents.get(self.source)
        if documents is None:
            return {"source": self.source, "split": self.split}
        return {"source": documents, "split": "every"}

    @property
    def threads(self) -> int:
        """Number of threads of the database."""
        return int(self.database.run("mining/mine/threads")[0][0])

    def is_due(self, minings: Minings) -> bool:
        """Return whether the stored mining is missing, damaged, stale or of other settings."""
        where = {"source": self.source, "split": self.split, "scorer": self.scorer.name}
        found = minings.found(self.recipe.name, **where)
        if not found or store.stale(self.database, found[-1], self.recipe, version=self.version):
            return True
        if found[-1].definition != store.definition_of(self.recipe):
            return True
        try:
            found[-1].files(minings.folder)
        except DamagedFileError:
            return True
        stored = dict(found[-1].settings)
        return stored.pop("depth") < self.depth or stored != self.scorer.settings(self)

    def guards(self) -> Guards:
        """Read the guards from the recipe's pool."""
        order, compiled = self.scorer.order(self), self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return Guards(self.database, reader, compiled, order)

    def run(self, folder: ArtifactFolder) -> PairReport | str:
        """Mine all remaining anchors; without anchors return the reason."""
        guards = self.guards()
        if len(guards.anchors) or self.recipe.mined:
            return self.mined(folder, guards)
        compiled = self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return reader.why_empty(compiled)

    def mined(self, folder: ArtifactFolder, guards: Guards, *, fresh: bool = False) -> PairReport:
        """Mine and report; with ``fresh`` an interrupted mining starts again."""
        documents = self.kinds.documents.get(self.source, "")
        target = Mining(
            recipe=self.recipe.name,
            source=self.source,
            documents=documents,
            split=self.split,
            scorer=self.scorer.name,
            definition=store.definition_of(self.recipe),
            settings={"depth": self.depth, **self.scorer.settings(self)},
            content=store.content(self.database, self.source, documents, self.split, self.version),
            corpus_version=self.version,
            anchors=len(guards.anchors),
            searched=len(guards.documents),
        )
        opened = OpenMining(folder, target, fresh=fresh)
        resumed = opened.mining.done
        if resumed < target.anchors:
            megabytes = target.anchors * self.depth * _CANDIDATE_BYTES / 1e6
            log.log(
                logging.WARNING if megabytes > _MANY_MEGABYTES else logging.INFO,
                "recipe %r, source %r, split %r: %s, up to %d candidates each, at most about "
                "%.1f MB in %s",
                *(self.recipe.name, self.source, self.split, counted(target.anchors, "anchor")),
                *(self.depth, megabytes, folder.path),
            )
            searched = self.scorer.search(self, guards, resumed)
            try:
                for block, found in searched:
                    keys, anchors = guards.sections.keys, guards.keys_of(block)
                    rows = store.candidate_table(keys, anchors, found)
                    positives = store.positive_table(keys, anchors, found.positives)
                    opened.append(rows, positives, len(anchors), store.counts_of(found))
                    self.work.tell(block.stop, target.anchors)
            finally:
                searched.close()
                opened.flush()
        is_whole = opened.mining.done == target.anchors
        return self._report(opened.finish() if is_whole else opened.mining, resumed)

    def _report(self, mining: Mining, resumed: int) -> PairReport:
        """Apply the policy of the recipe to the candidates, and report."""
        cuts = policy.outcomes(self.database, mining, self.policy)
        quantiles, unranked = policy.quantiles(self.database, mining)
        counts = {name: count for name, count in mining.counts.items() if name != "candidates"}
        outcomes = {name: cuts.pop(name, 0) for name in ("full", "short", "none")}
        return PairReport(
            recipe=mining.recipe,
            source=mining.source,
            split=mining.split,
            scorer=mining.scorer,
            mining=mining.key,
            anchors=mining.done,
            left=mining.anchors - mining.done,
            candidates=mining.candidates,
            outcomes={name: count for name, count in outcomes.items() if count},
            counts=counts | cuts,
            quantiles=quantiles,
            found=policy.found(self.database, mining),
            unranked=unranked,
            searched=mining.searched,
            resumed=resumed,
            seconds=mining.seconds,
        )

    def _compiled(self) -> CompiledPool:
        where: dict[str, Any] = {"source": self.source, "split": self.split}
        where |= {"version": self.version, **self.kinds.of(self.source)}
        return compile_pool(replace(self.recipe, by=self.scorer.name, consistent=None), **where)
