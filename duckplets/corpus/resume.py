"""Open a saved run by the path of its corpus or of its token shards: ``duckplets.resume``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.deadline import STATEMENT_TIMEOUT
from duckplets.corpus.corpus import Corpus
from duckplets.errors import SamplerError
from duckplets.tokens.dataset import TokenShards

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.versions import Version


def resume(
    corpus_path: str | Path,
    run: str = "default",
    tag: str | None = None,
    state: str | Path | None = None,
    save_to: str | Path | None = None,
    *,
    version: Version = None,
    allow_drift: Collection[str] = (),
    memory_limit: str | None = None,
    threads: int | None = None,
    statement_timeout: float | None = STATEMENT_TIMEOUT,
    **overrides: Any,
) -> Sampler:
    """Open a saved run where it was saved, on a read-only corpus of its own.

    Args:
        corpus_path: The corpus file, or a folder of token shards.
        run: Name it was saved under.
        tag: A named checkpoint instead of the latest save.
        state: The state file; by default beside the corpus.
        save_to: Another state file to save to from now on.
        version: ``"newest"``, or the number of a corpus version: text that arrived since joins.
            From the cursor on each recipe begins a new epoch with the anchors of that version. New
            sources are drawn with their weights in the mixture. Saved with the run. Without it the
            run stays with the versions it has.
        allow_drift: Names of fingerprint fields that may differ from the saved ones.
        memory_limit: As for ``Corpus``. Token shards have no versions and are read without DuckDB,
            so this, ``version``, ``threads`` and ``statement_timeout`` are refused for them.
        threads: As for ``Corpus``.
        statement_timeout: As for ``Corpus``.
        overrides: Arguments of ``Corpus.sampler`` to change, such as ``steps``. Arguments that
            change the order must be named in ``allow_drift``. Fields of ``options`` change unless
            they are the default. A number of ``negatives`` keeps their other fields; ``Negatives``
            with another source or cut hold from the cursor on. With ``world_size`` the batch of all
            ranks stays what it was, and is divided among them. Another ``mixture`` is taken if all
            samples before stay what they were: phases may be added, moved or changed from here on.

    Raises:
        StateMismatchError: Nothing is saved there, or something differs.
        SamplerError: An argument is wrong, or is of a corpus and a folder was given.
    """
    if Path(corpus_path).is_dir():
        of_corpus = {"version": version, "memory_limit": memory_limit, "threads": threads}
        given = [f"{name}={value!r}" for name, value in of_corpus.items() if value is not None]
        if statement_timeout != STATEMENT_TIMEOUT:
            given.append(f"statement_timeout={statement_timeout!r}")
        if given:
            raise SamplerError(
                f"{', '.join(given)}: token shards have no versions, and are read without DuckDB; "
                f"leave it out, or give the path of a corpus"
            )
        how: dict[str, Any] = {"allow_drift": allow_drift, **overrides}
        return TokenShards(corpus_path).resume(run, tag, state, save_to, **how)
    corpus = Corpus(
        corpus_path,
        read_only=True,
        memory_limit=memory_limit,
        threads=threads,
        statement_timeout=statement_timeout,
    )
    try:
        sampler = corpus.resume(
            run, tag, state, save_to, version=version, allow_drift=allow_drift, **overrides
        )
    except BaseException:
        corpus.close()
        raise
    sampler.owned = corpus
    return sampler
