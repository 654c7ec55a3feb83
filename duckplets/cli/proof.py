"""The command `verify`: make a run again from raw sources, and compare its batches."""

from __future__ import annotations

from pathlib import Path

import typer

from duckplets.cli import output
from duckplets.cli.verbs import command

UNVERIFIED = 3


@command(places={"certificate": "FILE"})
def verify(certificate: Path, sources: list[str] | None = None, json: bool = False) -> None:
    """Make a run again from raw sources, and compare its batches.

    FILE is what `duckplets runs CORPUS RUN --certificate FILE` wrote. The sources are stored in a
    corpus for the moment, in any format and order of rows. The exit code is 0 for the same batches,
    1 for others, 3 where something could not be verified.

    Args:
        certificate: What `runs --certificate` wrote.
        sources (--sources NAME=PATH): A source of the certificate; NAME@VERSION=PATH where it was
            read for several versions of the corpus. May be repeated.

    Example:
        duckplets verify run.json --sources faq=faq.csv
        duckplets verify run.json --sources news@1=old.csv --sources news@4=new.parquet
    """
    from duckplets.proof.certificate import Certificate
    from duckplets.proof.verify import verify as verified

    found = verified(certificate, _named(Certificate.read(certificate).names, sources or []))
    output.show(found, json=json)
    if not found.same or found.unverified:
        raise typer.Exit(1 if found.same is False else UNVERIFIED)


def _named(names: list[str], given: list[str]) -> dict[str, str]:
    """Return paths by names, which may have an equals sign themselves."""
    found = {}
    for each in given:
        name = next((n for n in names if each.startswith((f"{n}=", f"{n}@"))), "")
        rest, is_pair, path = each[len(name) :].partition("=")
        if not is_pair or not path:
            raise typer.BadParameter(f"--sources {each}: give NAME=PATH")
        found[name + rest] = path
    return found
