"""The verbs of a corpus that open runs and read records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.db.writes import CorpusFile
from duckplets.errors import SamplerError

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.recipes.recipes import Preset
    from duckplets.recipes.store import Recipe
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.settings import By, Empty, Kind, Pairs, Remainder
    from duckplets.runs.versions import Version
    from duckplets.samples.no_duplicates import NoDuplicates
    from duckplets.tokens.sampler import TokenSampler
    from duckplets.vectors.columns import Missing


def sampler(
    corpus: CorpusFile,
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
    apart: tuple[str, float] | None = None,
    batch_by: str | None = None,
    negatives: int = 1,
    by: By | None = None,
    pairs: Pairs | None = None,
    swap: bool | None = None,
    preset: Preset | None = None,
    prefixes: bool = True,
    prefetch: int = 2,
    memory_mb: int | None = None,
    columns: Sequence[str] | None = None,
    vectors: Missing = "error",
    run: str = "default",
    state: str | Path | None = None,
    long_sections: bool = True,
    allow_stale: bool = False,
    empty: Empty | None = None,
    snapshot: str | Path | None = None,
    tokenizer: str | Path | None = None,
    seq_length: int = 1024,
    pack: bool = False,
) -> Sampler:
    """Open a run over this corpus, pinned to its newest version.

    Args:
        kind: triplets, pairs, texts, or messages of converted records.
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
            all sources drawn from; without these and steps a run is endless.
        rank: Which of ``world_size`` ranks this is, from 0.
        world_size: Number of ranks that share each global batch, in slices by rank.
        remainder: ``keep`` a last batch that is not full, ``drop`` it, or ``pad`` it with more.
        no_duplicates: Let no text come twice in a batch of all ranks. Negatives are drawn again
            for that, and samples change places within blocks of 64 batches; one that fits in
            none of them gives its position to another, which ``metrics()``, ``served`` and the
            forecast count (``displaced``). ``negatives``: only negatives are drawn again, until
            they differ from all texts of the batch, and anchors keep their order. ``group``:
            as True, and no two samples of one family in a batch, which are records of a
            ``group_key``, else with one normalised anchor text; or of one value of records, as in
            ``"meta['entity']"``, where records without a value are kept from none.
        apart: A scorer and a part of a score, as in ``("dense", 0.95)``: of no two samples of a
            batch has one a text that is a known positive of the other's anchor, or stands among
            the candidates that this scorer mined for it above that part of the score of its
            lowest-scoring positive. It also lets no text come twice. Samples give way as with
            ``no_duplicates=True``.
        batch_by: What the samples of a batch of all ranks share: their ``source``, their
            ``recipe`` and source, or also a key of their anchors: one of 16 classes of ``length``,
            or a value of records such as ``"meta['topic']"``. Shares of a mixture hold for
            batches. What is left of all keys, when each has filled whole batches, follows as mixed
            batches, neighbours in the order of keys together: each anchor still comes once an epoch
            of its recipe.
            With ``source`` in proportion to anchors, the rests of the sources fill mixed batches:
            each source gets exactly its anchors an epoch. With weights no batch is mixed.
        negatives: Distinct negatives a triplet.
        by: Where negatives come from in recipes that leave it open: ``random``; ``bm25``,
            what was mined for them; or both by share, as in ``{"bm25": 0.5, "random": 0.5}``.
            A recipe without mined negatives draws at random, which ``notes`` say. By default
            mined ones where there are some, else random ones: ``describe()`` says which.
        pairs: Of ``pairs``, whether they are those that were judged, of sources with labels
            (``labelled``), or ``drawn``: anchor and positive 1, anchor and negative 0. It has to
            be said where some sources have labels and others have none.
        swap: Let anchor and positive change places half of the time; by default off.
        preset: ``crate`` for defaults as the triplets crate has them: also the recipe
            ``anchor_anchor``, ``swap``, and all sources alike, an omitted one too. What is
            given holds.
        prefixes: Show metadata before texts, where records or sources have prefixes.
        prefetch: Blocks to prepare ahead in the background.
        memory_mb: Megabytes that texts may take which are read ahead, where the snapshot is larger
            than the memory of the machine; 128 by default.
        columns: Columns of a batch; see ``Batch``. ``anchor_vector`` and the like
            of every text column, with ``:NAME`` where there are several sets of vectors.
        vectors: Whether texts without a vector are an ``error``, left out in whatever part of a
            sample (``drop``), or have ``null`` for it; where columns have vectors.
        run: Name to save under.
        state: The state file; by default beside the corpus. A save makes it and its folders.
        long_sections: Whether the defaults include the long-section recipe where it applies.
        allow_stale: Draw mined negatives even if records or the recipe have changed since.
        empty: Whether recipes and sources that find no anchor are an ``error`` or left out
            (``skip``), which is noted. By default ``error`` for those that were named.
        snapshot: Folder of the snapshot that a large corpus is served from; by default
            ``NAME.snapshot`` beside it, where ``prepare`` makes it.
        tokenizer: Of ``texts``: serve records as tokens by this file; see ``token_sampler``.
        seq_length: Tokens a row.
        pack: Whether rows of tokens are cut from texts laid end to end.

    Raises:
        EmptyPoolError: Nothing is left, or what was named finds no anchor; it names all.
        StateMismatchError: Negatives that a recipe draws were not mined yet, or are stale.
        SamplerError, RecipeError, MixtureError, SplitError: An argument is wrong.
        VectorError: There are no such vectors, or texts lack one.
    """
    given = dict(locals())
    del given["corpus"]
    if tokenizer is not None or pack or seq_length != 1024:
        return _token_run(corpus, given)
    from duckplets.runs import opening

    sampler = opening.open_run(corpus.database, given, corpus.state_path(state))
    corpus.owns(sampler)
    return sampler


def _token_run(corpus: CorpusFile, given: Mapping[str, Any]) -> TokenSampler:
    """Open a run of tokens with the arguments of ``sampler``."""
    from duckplets.tokens.dataset import TokenShards, token_sampler

    if given["tokenizer"] is None:
        raise SamplerError("seq_length=, pack=: rows of tokens need tokenizer=, a tokenizers file")
    options = signature(sampler).parameters
    taken = {"tokenizer", "split", *signature(TokenShards.sampler).parameters}
    for name in given.keys() - taken:
        usual = "texts" if name == "kind" else options[name].default
        if given[name] != usual:
            raise SamplerError(
                f"{name}={given[name]!r}: a run of tokens is of texts, and has no such choice; "
                f"with tokenizer= leave it out, and give kind='texts'"
            )
    return token_sampler(corpus, **{n: v for n, v in given.items() if n in taken})


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
        corpus.state_path(state),
        save_to=None if save_to is None else corpus.state_path(save_to),
        allow_drift=allow_drift,
        overrides=overrides,
        version=version,
        snapshot=snapshot,
    )
    corpus.owns(sampler)
    return sampler
