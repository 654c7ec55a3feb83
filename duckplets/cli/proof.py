"""The command `verify`: repeat a run from raw sources, and compare its batches."""

from __future__ import annotations

from pathlib import Path

import typer

from duckplets.cli import output
from duckplets.cli.verbs import command

_UNVERIFIED = 3  # exit code


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
