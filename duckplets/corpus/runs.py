"""Open runs and read records: the verbs of a corpus from sampler to read and report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.stages import stage
from duckplets.corpus.tokens import tokens_of
from duckplets.ingest import records

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.order.mixture import Mixture
    from duckplets.recipes.defaults import Preset
    from duckplets.recipes.store import Recipe
    from duckplets.records.order_reader import Order
    from duckplets.report import ReportPage
    from duckplets.runs.negative_policy import By
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.settings import Empty, Kind, Remainder
    from duckplets.runs.versions import Version
    from duckplets.samples.batch import Batch
    from duckplets.samples.no_duplicates import NoDuplicates
    from duckplets.samples.vector_columns import Missing


def sampler(
    corpus: Corpus,
    /,
    kind: Kind = "triplets",
    *,
    split: str = "train",
    recipes: Sequence[Recipe | str] | None = None,
    mixture: Mixture | Mapping[str, float] | str | Path | None = None,
    batch_size: int = 128,
    seed: int = 42,
    steps: int | None = None,
    epochs: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    remainder: Remainder = "keep",
    no_duplicates: NoDuplicates = False,
    negatives: int = 1,
    by: By | None = None,
    structural_negatives: bool = False,
    swap: bool | None = None,
    preset: Preset | None = None,
    prefixes: bool = True,
    prefetch: int = 2,
    columns: Sequence[str] | None = None,
    vectors: Missing = "error",
    run: str = "default",
    state: str | Path | None = None,
    long_sections: bool = True,
    allow_stale: bool = False,
    empty: Empty | None = None,
    snapshot: bool = True,
    tokenizer: str | Path | None = None,
    seq_length: int = 1024,
    pack: bool = False,
) -> Sampler:
    """Open a run over this corpus, pinned to its newest version.

    Args:
        kind: ``triplets``, ``pairs``, ``texts``, or ``messages`` of converted records.
        split: Every text of the run is of this split.
        recipes: Recipes or names of stored ones; by default the stored ones, else the
            defaults of each source.
        mixture: Weight of each source, of which what is not named is left out; or a
            ``Mixture``, ``"proportional"``, ``"equal"``, or the path of a TOML file. By default
            what was declared with the sources; else what index controls list, where some have
            any; else ``"proportional"``: an epoch has as many samples of a source as it has
            anchors, so each of them once.
        batch_size: Samples a batch, of each rank.
        seed: Another seed gives another order.
        steps: Stop after so many batches.
        epochs: Stop after so many nominal epochs, each as many samples as there are anchors in
            all sources drawn from; with neither the run is endless.
        rank: Which of ``world_size`` ranks this is, from 0.
        world_size: Number of ranks that share each global batch, in slices by rank.
        remainder: ``keep`` a last batch that is not full, ``drop`` it, or ``pad`` it with more.
        no_duplicates: Let no text come twice in a batch of all ranks. Negatives are drawn again
            for that, and samples change places within blocks of 64 batches; one that fits in
            none of them gives its position to another, which ``metrics()``, ``served`` and the
            forecast count (``displaced``). ``negatives``: only negatives are drawn again, until
            they differ from all texts of the batch, and anchors keep their order.
        negatives: Distinct negatives a triplet.
        by: Where negatives come from in recipes that leave it open: ``random``; ``bm25``,
            what was mined for them; or both by share, as in ``{"bm25": 0.5, "random": 0.5}``.
            A recipe without mined negatives draws at random, which ``notes`` say. By default
            mined ones where there are some, else random ones: ``describe()`` says which.
        structural_negatives: Add pairs with texts of other records, labelled 0, to those of
            sources with labels, which come as they were judged.
        swap: Let anchor and positive change places half of the time; by default they do not.
        preset: ``crate`` for defaults as the triplets crate has them: also the recipe
            ``anchor_anchor``, ``swap``, and all sources alike, an omitted one too. What is
            given holds.
        prefixes: Show metadata before texts, where records or sources have prefixes.
        prefetch: Blocks to prepare ahead in the background.
        columns: Columns of a batch; see ``Batch``. ``anchor_vector`` and the like
            of every text column, with ``:NAME`` where there are several sets of vectors.
        vectors: Whether texts without a vector are an ``error``, left out in whatever part of a
            sample (``drop``), or have ``null`` for it; where columns have vectors.
        run: Name to save under.
        state: The state file; by default beside the corpus.
        long_sections: Whether the defaults include the long-section recipe where it applies.
        allow_stale: Draw mined negatives even if records or the recipe have changed since.
        empty: Whether recipes and sources that find no anchor are an ``error`` or left out
            (``skip``), which is noted. By default those are an error that were named.
        snapshot: Whether to serve from a snapshot, and to make one of a large corpus.
        tokenizer: Of ``texts``: serve records as tokens by this file; see ``token_sampler``.
        seq_length: Tokens a row.
        pack: Whether rows of tokens are cut from texts laid end to end.

    Raises:
        EmptyPoolError: Nothing is left, or what was named finds no anchor; it names all.
        StateMismatchError: Negatives that a recipe draws were not mined yet, or are stale.
        SamplerError, RecipeError, MixtureError, SplitError: An argument is wrong.
        VectorError: There are no such vectors, or texts lack one.
    """
    arguments: dict[str, Any] = {"split": split, "run": run, "batch_size": batch_size}
    arguments |= {"seed": seed, "steps": steps, "epochs": epochs, "remainder": remainder}
    arguments |= {"rank": rank, "world_size": world_size, "no_duplicates": no_duplicates}
    arguments |= {"negatives": negatives, "structural_negatives": structural_negatives}
    arguments |= {"by": by, "swap": swap, "preset": preset, "prefixes": bool(prefixes)}
    arguments |= {"prefetch": prefetch, "vectors": vectors}
    if tokenizer is not None or pack:
        told = arguments | {"recipes": recipes, "columns": columns, "kind": kind}
        return tokens_of(corpus, told, tokenizer, seq_length, pack, mixture, state)
    from duckplets.runs import opening

    sampler = opening.open_run(
        corpus.database,
        kind,
        recipes=recipes,
        mixture=mixture,
        columns=columns,
        long_sections=long_sections,
        allow_stale=allow_stale,
        empty=empty,
        snapshot=bool(snapshot),
        state_path=corpus.state_path(state),
        beside=state is None,
        arguments=arguments,
    )
    corpus.owns(sampler)
    return sampler


def resume(
    corpus: Corpus,
    /,
    run: str = "default",
    tag: str | None = None,
    state: str | Path | None = None,
    save_to: str | Path | None = None,
    *,
    version: Version = None,
    allow_drift: Collection[str] = (),
    snapshot: bool = True,
    **overrides: Any,
) -> Sampler:
    """Open a saved run of this corpus where it was saved; see ``duckplets.resume``."""
    from duckplets.runs import opening

    sampler = opening.resume_run(
        corpus.database,
        run,
        tag,
        corpus.state_path(state),
        save_to=None if save_to is None else corpus.state_path(save_to),
        allow_drift=allow_drift,
        overrides=overrides,
        version=version,
        snapshot=bool(snapshot),
    )
    corpus.owns(sampler)
    return sampler


def read(
    corpus: Corpus,
    /,
    order: Order,
    *,
    batch_size: int = 128,
    split: str | None = None,
    source: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[Batch]:
    """Read records in any order, in batches; record k is the k-th, of a split or source.

    Args:
        order: An ``IndexSampler`` over ``count()`` records, a ``DataIndex``, or anything that
            yields ``RecordMetadata`` or integers; it may be endless. Numbers count from 0, in
            the order in which the records came, in a ``DataIndex`` within each source.
        batch_size: Records a batch; the last may have fewer.
        split: Number the records of this split only.
        source: Number the records of this source only.
        columns: ``index`` and ``record_key`` (of the order); ``record_id``, ``source``,
            ``split``, ``date``; ``meta``, ``group_key``, ``taxonomy``, ``trust``,
            ``created_at``, ``updated_at``, ``label``; ``text``, the texts of all sections but
            rejected replies joined by a blank line; ``anchor``, ``context`` and ``rejected``,
            lists of those of these roles. By default those up to ``date``, ``meta``, ``text``.

    Raises:
        SamplerError, SplitError: An argument is wrong; or, in the loop, the order names a
            record that is not there.
    """
    from duckplets.records import read as reading

    batches = reading.read(
        corpus.database,
        order,
        batch_size=batch_size,
        split=split,
        source=source,
        version=corpus.version,
        columns=columns,
    )
    corpus.owns(batches)
    return batches


def count(corpus: Corpus, /, *, split: str | None = None, source: str | None = None) -> int:
    """Return how many records there are to read."""
    from duckplets.records import read as reading

    return reading.count(
        corpus.database,
        split=split,
        source=source,
        version=records.current_version(corpus.database),
    )


@stage("report on")
def report(
    corpus: Corpus,
    /,
    path: str | Path | None = None,
    *,
    run: str | None = None,
    mixture: Mixture | Mapping[str, float] | str | Path | None = None,
    overwrite: bool = False,
) -> ReportPage:
    """Make a page to look at: an HTML file that needs no network; a notebook shows it.

    Of sources, splits and lengths; recipes with samples; mined negatives; the mixture over
    steps, and what was served of it; gates with examples; samples to leaf through. Every
    table comes with the SQL that made it. Nothing is saved. Of a corpus of more than half a
    million records pools are left out until ``status`` has counted them, and samples until
    ``prepare`` has made a snapshot, which the page says.

    Args:
        path: FILE.html, which appears whole or not at all; by default none is written.
        run: A saved run, as it stands; by default what a new one of triplets would draw.
        mixture: As for ``sampler``, or of the run from where it stands on.
        overwrite: Replace the file.

    Raises:
        SamplerError: The file exists, or cannot be written.
        ExtensionError: The package jinja2, of the extra ``report``, is missing.
        StateMismatchError: No such run is saved, or it is of another corpus.
        MixtureError: The mixture is wrong.
    """
    from duckplets import report

    target = None if path is None else Path(path)
    return report.report(
        corpus, corpus.database, target, run=run, mixture=mixture, overwrite=overwrite
    )
