"""The command `runs`: saved runs, the ids that they served or will serve, and their end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import counted
from duckplets.cli import output
from duckplets.cli.app import corpus_at, existing, say, tell
from duckplets.cli.options import command_line, introduce
from duckplets.cli.verbs import command
from duckplets.errors import SamplerError

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.runs.sampler import Sampler

_PIECE = 1 << 16  # positions computed at a time


@command(places={"run": "RUN"})
def runs(
    corpus: Path,
    run: str | None = None,
    start: int | None = None,
    stop: int | None = None,
    upcoming: int | None = None,
    worst: int | None = None,
    out: Path | None = None,
    certificate: Path | None = None,
    card: Path | None = None,
    drawn: str | None = None,
    every: bool = False,
    reset: bool = False,
    json: bool = False,
) -> None:
    """List saved runs, print the ids they served, or forget one.

    Without RUN the saved runs are listed. With RUN rows are ids without texts, one a sample of all
    ranks: position, step, and the ids of its records. Nothing is saved or moved.

    Args:
        run: Name of a saved run.
        start (--from STEP): The first step. [default: 0]
        stop (--to STEP): The step after the last. [default: where the run stands]
        upcoming (--next N): Print what is served in the next N steps.
        worst (N): Print the N samples with the highest losses.
        out: FILE.jsonl or FILE.parquet. [default: stdout]
        certificate: Write what the run drew so far and what it follows from, for
            `duckplets verify`: settings and digests, no texts.
        card (FILE.md): Write a card: sources, licences, versions, digests; with --drawn FILE also
            how many records share an n-gram of words with the texts of that file.
        drawn: Print where a text was drawn, as window or section; or each text of a FILE.txt by
            line, of a BEIR folder's queries, or of the column `text` of another file.
        every (--all): With --drawn: plan every sample again, to find random negatives too.
        reset: Forget the run and its checkpoints; with --to only those after that step.
        json: Print the list, or what --reset forgot, as JSON; ids are JSON lines always.

    Example:
        duckplets runs faq.duckdb
        duckplets runs faq.duckdb default --from 100 --to 110
        duckplets runs faq.duckdb default --out served.parquet
        duckplets runs faq.duckdb default --next 10
        duckplets runs faq.duckdb default --worst 20
        duckplets runs faq.duckdb default --certificate default.json
        duckplets runs faq.duckdb default --card run.md
        duckplets runs faq.duckdb default --drawn 'the answer to question 7' --all
        duckplets runs faq.duckdb default --to 5000 --reset
        duckplets runs faq.duckdb default --reset
    """
    asked: dict[str, Any] = {"--from": start, "--next": upcoming, "--worst": worst, "--to": stop}
    asked |= {"--out": out, "--certificate": certificate, "--drawn": drawn, "--card": card}
    given = [name for name, value in asked.items() if value is not None]
    if run is None and (given or reset):
        raise typer.BadParameter(f"{(given or ['--reset'])[0]} is about one run: give its name")
    if run is None:
        _list(corpus, json=json)
        return
    if reset:
        if given not in ([], ["--to"]):
            raise typer.BadParameter(f"--reset takes --to alone: leave {given[0]} out")
        _forget(corpus, run, stop, json=json)
        return
    if certificate is not None:
        if len(given) > 1:
            raise typer.BadParameter(f"--certificate is of the whole run: leave {given[0]} out")
        _certify(corpus, run, certificate)
        return
    if card is not None:
        if {*given} - {"--card", "--drawn"}:
            raise typer.BadParameter(f"--card is of the whole run: leave {given[0]} out")
        _write_card(corpus, run, card, None if drawn is None else Path(drawn))
        return
    if every and drawn is None:
        raise typer.BadParameter("--all is about texts: give --drawn with it")
    alone = {"--next", "--worst", "--drawn"}.intersection(given)
    if alone and len(given) > 1 + (out is not None):
        raise typer.BadParameter(f"{given[0]} and {given[1]}: give one of them")
    if stop is not None and (start or 0) > stop:
        raise typer.BadParameter(f"--from {start} --to {stop}: give two in order")
    output.check(out)
    with corpus_at(corpus, read_only=True) as opened, opened.resume(run) as sampler:
        if drawn is not None:
            tables = _drawn(sampler, drawn, every=every)
        elif worst is not None:
            tables = iter([sampler.worst(worst)])
        elif upcoming is not None:
            introduce(sampler)
            tables = _planned(sampler, upcoming)
        else:
            tables = _served(sampler, corpus, start or 0, stop)
        samples, step = output.put(tables, out), sampler.step
    if not samples and drawn is None:
        say(f"no sample to print: run {run} is saved at step {step:,}")
    elif out is not None and samples:
        say(f"wrote the ids of {counted(samples, 'sample')} to {out}")


def _drawn(sampler: Sampler, asked: str, *, every: bool) -> Iterator[pa.Table]:
    """Return where texts were drawn, and say how often."""
    from duckplets.proof.drawn import drawn, summary, texts_of

    texts = texts_of(Path(asked)) if _is_path(asked) else [asked]
    found = drawn(sampler, texts, every=every)
    say(f"run {sampler.settings.run}: {summary(found, len(texts), every=every)}")
    return iter([found])


def _is_path(asked: str) -> bool:
    try:
        return Path(asked).exists()
    except (OSError, ValueError):  # too long, or with a null character
        return False


def _certify(corpus: Path, run: str, file: Path) -> None:
    if not file.parent.is_dir():
        raise typer.BadParameter(f"--certificate {file}: there is no folder {file.parent}")
    with corpus_at(corpus, read_only=True) as opened, opened.resume(run) as sampler:
        sampler.certificate().write(file)
        step = sampler.step
    say(f"wrote the certificate of {counted(step, 'step')} of run {run} to {file}")


def _write_card(corpus: Path, run: str, file: Path, against: Path | None) -> None:
    from duckplets.proof.card import write_card

    if not file.parent.is_dir():
        raise typer.BadParameter(f"--card {file}: there is no folder {file.parent}")
    with corpus_at(corpus, read_only=True) as opened, opened.resume(run) as sampler:
        write_card(opened, sampler, file, against)
    say(f"wrote the card of run {run} to {file}")


def _list(corpus: Path, *, json: bool) -> None:
    from duckplets.corpus.status_text import cursor_lines
    from duckplets.runs.state import cursors, state_path

    found = cursors(state_path(existing(corpus)))
    if json:
        output.print_document(found)
    else:
        tell(*cursor_lines(found))


def _forget(corpus: Path, run: str, after: int | None, *, json: bool) -> None:
    from duckplets.runs.state import reset, state_path

    number = reset(state_path(existing(corpus)), run, after=after)
    removed = counted(number, "checkpoint")
    if json:
        output.print_document({"run": run, "after": after, "checkpoints": number})
    elif after is None:
        say(f"forgot run {run} and its {removed}")
    else:
        say(f"forgot {removed} of run {run} after step {after:,}")


def _served(sampler: Sampler, corpus: Path, start: int, stop: int | None) -> Iterator[pa.Table]:
    """Return the ids of steps that were served; the last one may be short."""
    batch, position = sampler.settings.global_batch, sampler.position
    last = position if stop is None else stop * batch
    if position < last < position + batch:
        last = position
    if last > position:
        next_one = command_line("runs", corpus, sampler.settings.run, "--next", "1")
        raise SamplerError(
            f"--to {stop}: run {sampler.settings.run!r} is saved at step {sampler.step} and has "
            f"served nothing after it; it will serve: {next_one}"
        )
    lows = range(start * batch, last, _PIECE)
    return (sampler.served(low, min(low + _PIECE, last)) for low in lows)


def _planned(sampler: Sampler, steps: int) -> Iterator[pa.Table]:
    """Yield the ids of the next steps, moving the sampler."""
    most = max(1, _PIECE // sampler.settings.global_batch)
    while steps:
        count = min(most, steps)
        table = sampler.plan(count)
        if not table.num_rows:
            return
        yield table
        sampler.move(sampler.position + table.num_rows)
        steps -= count
