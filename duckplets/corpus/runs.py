"""The verbs of a corpus that open runs and read records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.db.writes import CorpusFile
from duckplets.runs.state import state_path

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.recipes.mined import Negatives
    from duckplets.recipes.store import Recipe
    from duckplets.runs.forecast import Forecast
    from duckplets.runs.request import Kind, Options
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.versions import Version
    from duckplets.samples.no_duplicates import NoDuplicates


def sampler(
    corpus: CorpusFile,
    /,
    kind: Kind = "triplets",
    *,
    split: str = "train",
    recipes: Sequence[Recipe | str] | None = None,
    mixture: Mixture | Mapping[str, float] | str | Path | None = None,
    batch_size: int = 128,
    negatives: int | Negatives = 1,
    no_duplicates: NoDuplicates = False,
    batch_by: str | None = None,
    consistent: tuple[str, int] | Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    seed: int = 42,
    steps: int | None = None,
    epochs: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    run: str = "default",
    options: Options | None = None,
) -> Sampler:
    """Open a run over this corpus, pinned to its newest version.

    A file of a run has the same keys: ``corpus.sampler(**dp.load_run("run.toml"))``.

    Args:
        kind: Kind of samples. ``triplets``: anchor, positive and negatives. ``pairs``: anchor and
            positive. ``labelled_pairs``: with the labels of sources, or drawn: anchor and positive
            1, anchor and negative 0. ``lists``: an anchor's documents with ``labels`` and
            ``scores``: positives in turn, no more than negatives, then the negatives. ``texts``:
            single texts. ``messages``: converted conversations.
        split: The split of all texts of the run.
        recipes: Recipes, or names of stored ones. Default: the stored ones, otherwise the
            defaults of each source.
        mixture: Weight of each source, where a source without one is left out; a ``Mixture``;
            ``"proportional"``; ``"equal"``; or the path of a TOML file. Default: the weights
            declared with the sources, otherwise the shares that index controls give, otherwise
            ``"proportional"``: each anchor once an epoch.
        batch_size: Number of samples in a batch of each rank.
        negatives: Distinct negatives a triplet, or ``Negatives`` with their source and cut.
        no_duplicates: What must be unique in a batch of all ranks. True: texts; negatives are
            drawn again, and samples change places within blocks of 64 batches. A sample that fits
            in none gives its position to another (``displaced``). ``negatives``: draw only
            negatives again, until they differ from all texts of the batch. ``group``: also
            families, which are records of one ``group_key``, otherwise of one normalised anchor
            text. Or a value of records, such as ``"meta['entity']"``.
        batch_by: The common value of the samples in a global batch. ``source``: one source.
            ``recipe``: one recipe of a source. ``length``: also one of 16 length classes. Or a
            value of records, such as ``"meta['topic']"``. Shares of a mixture apply to batches.
            Remaining samples of all keys form mixed batches of neighbours. With ``source``,
            proportional shares have such mixed batches, and weights have none.
        consistent: Draw only pairs whose positive a scorer ranks high enough: ``("dense", 20)``
            leaves out a pair whose positive is not among the first 20 legal negatives, or a table
            of ``scorer``, ``within`` and ``min_score``. The scorer must have mined these recipes.
            Their texts stay no negatives; anchors without a pair are left out. Default: all pairs.
        columns: Columns of a batch; see ``Batch``. ``anchor_vector`` and the like of every text
            column, with ``:NAME`` where there are several sets of vectors.
        seed: Another seed gives another order.
        steps: Stop after N batches.
        epochs: Stop after N nominal epochs. The number of samples in an epoch is the number of
            anchors of all drawn sources. Without steps and epochs a run is endless.
        rank: Which of ``world_size`` ranks this is, from 0.
        world_size: Number of ranks that share each global batch, in slices by rank.
        run: Name to save under.
        options: Rare settings, as ``Options``.

    Raises:
        EmptyPoolError: Nothing is left, or a named recipe or source finds no anchor; it names all.
        StateMismatchError: Negatives that a recipe draws were not mined yet, or are stale.
        SamplerError, RecipeError, MixtureError, SplitError: An argument is wrong.
        VectorError: There are no such vectors, or texts lack one.
    """
    from duckplets.runs import opening
    from duckplets.runs.request import RunRequest, options_of

    request = RunRequest(
        kind=kind,
        split=split,
        recipes=recipes,
        mixture=mixture,  # type: ignore[arg-type] # which it turns into a Mixture
        batch_size=batch_size,
        negatives=negatives,  # type: ignore[arg-type]
        no_duplicates=no_duplicates,
        batch_by=batch_by,
        consistent=consistent,
        columns=columns,
        seed=seed,
        steps=steps,
        epochs=epochs,
        rank=rank,
        world_size=world_size,
        run=run,
        options=options_of(options),
    )
    opened = opening.open_run(
        corpus.database, request, state_path(corpus.path, request.options.state)
    )
    corpus.opened.add(opened)
    return opened


def forecast(corpus: CorpusFile, /, kind: Kind = "triplets", **run: Any) -> Forecast:
    """Return what a run would draw, without a sampler to close; see ``Sampler.forecast``.

    Args:
        kind: As for ``sampler``.
        run: Further arguments of ``sampler``, such as the result of ``load_run``.
    """
    with sampler(corpus, kind, **run) as opened:
        return opened.forecast()


def resume(
    corpus: CorpusFile,
    /,
    run: str = "default",
    tag: str | None = None,
    state: str | Path | None = None,
    save_to: str | Path | None = None,
    *,
    version: Version = None,
    allow_drift: Collection[str] = (),
    snapshot: str | Path | None = None,
    **overrides: Any,
) -> Sampler:
    """Open a saved run of this corpus where it was saved; see ``duckplets.resume``."""
    from duckplets.runs import opening

    sampler = opening.resume_run(
        corpus.database,
        run,
        tag,
        state_path(corpus.path, state),
        save_to=None if save_to is None else state_path(corpus.path, save_to),
        allow_drift=allow_drift,
        overrides=overrides,
        version=version,
        snapshot=snapshot,
    )
    corpus.opened.add(sampler)
    return sampler
