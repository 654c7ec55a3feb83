"""The command `chunk`, and the cleaning options it shares with others."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import counted
from duckplets.cli.app import CORPUS, corpus_at, say
from duckplets.cli.options import NORMALISE
from duckplets.cli.verbs import option, optional, options_of, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckplets.text.denoiser import Denoiser
    from duckplets.text.normaliser import Normaliser
    from duckplets.text.preprocessors import AnyPreprocessor


def _settings() -> list[Parameter]:
    """Return the fields of ``Chunking`` as options without defaults."""
    options = options_of("text.chunking:Chunking", without={"preprocessors"})
    return [optional(each) for each in options]


@with_options(_settings())
def chunk(
    corpus: CORPUS,
    denoise: Annotated[
        bool,
        typer.Option("--denoise", help="Drop tables, lines of digits and lines without a letter."),
    ] = False,
    max_digit_ratio: Annotated[
        float | None,
        option("Share of digits that a line may have. [default: 0.35]"),
    ] = None,
    keep_tables: Annotated[
        bool, typer.Option("--keep-tables", help="Leave Markdown tables as they are.")
    ] = False,
    normalise: NORMALISE = None,
    defaults: Annotated[
        bool,
        typer.Option("--defaults", help="Set what is not named to its default."),
    ] = False,
    **given: Any,
) -> None:
    """Cut the sections into windows with other settings.

    Ingest cuts what it adds, so this is needed only for settings other than the corpus has.
    What is not named stays as it is; with --defaults it is set to its default, and texts that
    were cleaned are again as they came unless --denoise or --normalise is given too.

    Example:
        duckplets chunk faq.duckdb --max-tokens 256 --overlap 32,64
        duckplets chunk faq.duckdb --chunker sentences
        duckplets chunk faq.duckdb --denoise --max-digit-ratio 0.25
    """
    from duckplets.corpus.status_text import settings
    from duckplets.text.chunking import Chunking

    cleaners = cleaners_of(denoise, max_digit_ratio, normalise, tables=not keep_tables)
    with corpus_at(corpus) as opened:
        if cleaners:
            kept = () if defaults else opened.chunking().preprocessors
            given["preprocessors"] = with_cleaners(kept, cleaners)
        if given.get("chunker") == "windows":
            given["chunker"] = None
        chunking = Chunking(**given) if defaults else opened.chunking(**given)
        sections = opened.chunk(chunking)
    same = "these are the settings it has already"
    say(f"cut {counted(sections, 'section')} again" if sections else same)
    say(f"chunks: {settings(chunking.fingerprint())}")


def cleaners_of(
    denoise: bool, ratio: float | None, normalise: str | None, *, tables: bool = True
) -> list[Denoiser | Normaliser]:
    """Return the preprocessors that options ask for, in their order of work.

    Raises:
        typer.BadParameter: An option belongs to one that is not asked for.
    """
    if not denoise and (ratio is not None or not tables):
        raise typer.BadParameter("--max-digit-ratio and --keep-tables are about --denoise")
    from duckplets.text.denoiser import Denoiser
    from duckplets.text.normaliser import Normaliser

    found: list[Denoiser | Normaliser] = []
    if denoise:
        given = {} if ratio is None else {"max_digit_ratio": ratio}
        found.append(Denoiser(strip_markdown=tables, **given))
    if normalise is not None:
        found.append(Normaliser(code=normalise == "code"))
    return found


def with_cleaners(
    kept: Sequence[AnyPreprocessor], cleaners: Sequence[AnyPreprocessor]
) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors with those of the same kinds replaced; ours come first.

    User functions are unknown here and left out.
    """
    from duckplets.text.preprocessors import Preprocessor

    kinds = {Preprocessor, *map(type, cleaners)}
    every = [*(each for each in kept if type(each) not in kinds), *cleaners]
    return tuple(sorted(every, key=lambda each: type(each).__name__))  # a Denoiser runs first
