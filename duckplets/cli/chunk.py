"""The command `chunk`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from duckplets.base.sanitize import counted
from duckplets.cli.app import corpus_at, say
from duckplets.cli.verbs import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckplets.text.preprocessors import AnyPreprocessor


@command("text.chunking:Chunking", without={"preprocessors"})
def chunk(
    corpus: Path,
    denoise: bool = False,
    max_digit_ratio: float | None = None,
    keep_tables: bool = False,
    normalise: Literal["text", "code"] | None = None,
    defaults: bool = False,
    **given: Any,
) -> None:
    """Cut the sections into windows with other settings.

    Ingest cuts what it adds, so this is needed only for settings other than the corpus has.
    What is not named stays as it is; with --defaults it is set to its default, and texts that
    were cleaned are again as they came unless --denoise or --normalise is given too.

    Args:
        denoise: Drop tables, lines of digits and lines without a letter.
        max_digit_ratio: Share of digits that a line may have. [default: 0.35]
        keep_tables: Leave Markdown tables as they are.
        normalise: text: one form of white space, quotes and punctuation; code: of line ends only.
        defaults: Set what is not named to its default.

    Example:
        duckplets chunk faq.duckdb --max-tokens 256 --overlap 32,64
        duckplets chunk faq.duckdb --chunker sentences
        duckplets chunk faq.duckdb --denoise --max-digit-ratio 0.25
    """
    from duckplets.corpus.status_text import settings
    from duckplets.text.chunking import Chunking
    from duckplets.text.denoiser import Denoiser
    from duckplets.text.normaliser import Normaliser

    if not denoise and (max_digit_ratio is not None or keep_tables):
        raise typer.BadParameter("--max-digit-ratio and --keep-tables are about --denoise")
    cleaners: list[AnyPreprocessor] = []
    if denoise:
        ratio = {} if max_digit_ratio is None else {"max_digit_ratio": max_digit_ratio}
        cleaners.append(Denoiser(strip_markdown=not keep_tables, **ratio))
    if normalise is not None:
        cleaners.append(Normaliser(code=normalise == "code"))
    with corpus_at(corpus) as opened:
        if cleaners:
            kept = () if defaults else opened.chunking().preprocessors
            given["preprocessors"] = _with_cleaners(kept, cleaners)
        if given.get("chunker") == "windows":
            given["chunker"] = None
        chunking = Chunking(**given) if defaults else opened.chunking(**given)
        sections = opened.chunk(chunking)
    same = "these are the settings it has already"
    say(f"cut {counted(sections, 'section')} again" if sections else same)
    say(f"chunks: {settings(chunking.fingerprint())}")


def _with_cleaners(
    kept: Sequence[AnyPreprocessor], cleaners: Sequence[AnyPreprocessor]
) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors with those of the same kinds replaced; ours come first.

    User functions are unknown here and left out.
    """
    from duckplets.text.preprocessors import Preprocessor

    kinds = {Preprocessor, *map(type, cleaners)}
    every = [*(each for each in kept if type(each) not in kinds), *cleaners]
    return tuple(sorted(every, key=lambda each: type(each).__name__))  # a Denoiser runs first
