"""The commands `runs`, for saved runs and their ids, and `verify`, for certificates."""

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
_UNVERIFIED = 3  # exit code


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
    """List saved runs, print the ids they served, or delete one.

    Without RUN, the command lists the saved runs. With RUN, it prints one row of ids for each
    sample of all ranks: position, step, and the ids of its records. The run does not move.

    Args:
        run: Name of a saved run.
        start (--from STEP): The first step. [default: 0]
        stop (--to STEP): The step after the last. [default: the current step of the run]
        upcoming (--next N): Print the samples of the next N steps.
        worst (N): Print the N samples with the highest losses.
        out: FILE.jsonl or FILE.parquet. [default: stdout]
        certificate: Write a certificate of the run so far, for `duckplets verify`. It has settings
            and digests, without texts.
        card (FILE.md): Write a card: sources, licences, versions and digests. With --drawn FILE it
            also counts the records that share an n-gram of words with the texts of that file.
        drawn: Print where the run drew a text, as window or section. A file names several texts:
            the lines of a FILE.txt, the queries of a BEIR folder, or the column `text`.
        every (--all): With --drawn: plan every sample again, to find random negatives too.
        reset: Delete the run and its checkpoints; with --to only the checkpoints after that step.
        json: Print the list, or the result of --reset, as JSON. Ids are always JSON lines.

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
    values: dict[str, Any] = {"--from": start, "--next": upcoming, "--worst": worst, "--to": stop}
    values |= {"--out": out, "--certificate": certificate, "--drawn": drawn, "--card": card}
    options = [name for name, value in values.items() if value is not None]
    if run is None:
        if options or reset:
            name = (options or ["--reset"])[0]
            raise typer.BadParameter(f"{name} is for one run: give its name")
        _list(corpus, json=json)
        return
    if reset:
        if options not in ([], ["--to"]):
            raise typer.BadParameter(f"--reset allows only --to: remove {options[0]}")
        _delete(corpus, run, stop, json=json)
        return
    if certificate is not None:
        if len(options) > 1:
            raise typer.BadParameter(f"--certificate is for the whole run: remove {options[0]}")
        _certify(corpus, run, certificate)
        return
    if card is not None:
        if {*options} - {"--card", "--drawn"}:
            raise typer.BadParameter(f"--card is for the whole run: remove {options[0]}")
        _write_card(corpus, run, card, None if drawn is None else Path(drawn))
        return
    if every and drawn is None:
        raise typer.BadParameter("--all is for texts: add --drawn")
    alone = {"--next", "--worst", "--drawn"}.intersection(options)
    if alone and len(options) > 1 + (out is not None):
        raise typer.BadParameter(f"{options[0]} and {options[1]}: give one of them")
    if stop is not None and (start or 0) > stop:
        raise typer.BadParameter(f"--from {start} --to {stop}: the first is after the last")
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


def _drawn(sampler: Sampler, text: str, *, every: bool) -> Iterator[pa.Table]:
    """Return the positions of a text, or of the texts of a file, and print a summary."""
    from duckplets.proof.drawn import drawn, summary, texts_of

    try:
        is_path = Path(text).exists()
    except (OSError, ValueError):  # too long, or with a null character
        is_path = False
    texts = texts_of(Path(text)) if is_path else [text]
    found = drawn(sampler, texts, every=every)
    say(f"run {sampler.settings.run}: {summary(found, len(texts), every=every)}")
    return iter([found])


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


def _delete(corpus: Path, run: str, after: int | None, *, json: bool) -> None:
    from duckplets.runs.state import reset, state_path

    number = reset(state_path(existing(corpus)), run, after=after)
    removed = counted(number, "checkpoint")
    if json:
        output.print_document({"run": run, "after": after, "checkpoints": number})
    elif after is None:
        say(f"deleted run {run} and its {removed}")
    else:
        say(f"deleted {removed} of run {run} after step {after:,}")


def _served(sampler: Sampler, corpus: Path, start: int, stop: int | None) -> Iterator[pa.Table]:
    """Return the ids of served steps; the last step may be short."""
    batch, position = sampler.settings.global_batch, sampler.position
    last = position if stop is None else stop * batch
    if position < last < position + batch:
        last = position
    if last > position:
        next_one = command_line("runs", corpus, sampler.settings.run, "--next", "1")
        raise SamplerError(
            f"--to {stop}: run {sampler.settings.run!r} is saved at step {sampler.step}; for later "
            f"steps: {next_one}"
        )
    lows = range(start * batch, last, _PIECE)
    return (sampler.served(low, min(low + _PIECE, last)) for low in lows)


def _planned(sampler: Sampler, steps: int) -> Iterator[pa.Table]:
    most = max(1, _PIECE // sampler.settings.global_batch)
    while steps:
        count = min(most, steps)
        table = sampler.plan(count)
        if not table.num_rows:
            return
        yield table
        sampler.move(sampler.position + table.num_rows)
        steps -= count


@command(places={"certificate": "FILE"})
def verify(certificate: Path, sources: list[str] | None = None, json: bool = False) -> None:
    """Repeat a run from raw sources, and compare its batches.

    `duckplets runs CORPUS RUN --certificate FILE` writes FILE. The sources may have any format and
    order of rows; they are stored in a temporary corpus. The exit code is 0 for equal batches, 1
    for different ones, and 3 if a part could not be verified.

    Args:
        certificate: A certificate of `runs --certificate`.
        sources (--sources NAME=PATH): A source of the certificate. NAME@VERSION=PATH names one of
            several versions of the corpus. Repeat the option for each source.

    Example:
        duckplets verify run.json --sources faq=faq.csv
        duckplets verify run.json --sources news@1=old.csv --sources news@4=new.parquet
    """
    from duckplets.proof.certificate import Certificate
    from duckplets.proof.verify import verify as verified

    found = verified(certificate, _named(Certificate.read(certificate).names, sources or []))
    output.show(found, json=json)
    if not found.same or found.unverified:
        raise typer.Exit(1 if found.same is False else _UNVERIFIED)


def _named(names: list[str], options: list[str]) -> dict[str, str]:
    """Return paths by name; a name may contain an equals sign."""
    found = {}
    for option in options:
        name = next((n for n in names if option.startswith((f"{n}=", f"{n}@"))), "")
        rest, is_pair, path = option[len(name) :].partition("=")
        if not is_pair or not path:
            raise typer.BadParameter(f"--sources {option}: give NAME=PATH")
        found[name + rest] = path
    return found
