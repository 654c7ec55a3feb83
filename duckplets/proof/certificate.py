"""Write down the draws of a run and their causes, so that others can make it again.

run ─plan→ identities of its samples ─SHA-256, in a chain→ certificate ←root, sketch─ records

A certificate holds no text: settings, statements, digests. Its own digests find what was damaged on
the way; they are no signature, for who writes a certificate can write their digests too.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from duckplets.base.arrays import Integers, Words
from duckplets.base.atomic import written_aside
from duckplets.base.documents import read_document
from duckplets.base.progress import Progress, bar
from duckplets.base.settings import check, from_plain, to_plain
from duckplets.db.database import Database, engine_version
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.mining.pins import Pins
from duckplets.mining.store import Minings
from duckplets.order.permute import ORDER_VERSION, key
from duckplets.proof.sketch import RecordSketch, cells_for, root_of
from duckplets.runs.state import Save

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.plan import Plan, Planner
    from duckplets.samples.stream import Stream

_FORMAT = 1
_INTERVALS = 8192
_PIECE = 1 << 16  # positions planned at a time
_WHOLE = 100  # statements that are written whole
_MOST = 1 << 20  # bytes of a certificate
_DIGITS = 16  # hexadecimal, of a link
_IN_A_BLOCK = 64  # steps, within which samples may change places


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """The draws of a run and their causes, section by section, as JSON values.

    Attributes:
        made: Format, order version, and versions of the packages that made it.
        run: The run as state files keep it: settings, position, weights and minings on the way.
        corpus: Versions of the corpus, how each source was read, tables of split and chunks.
        statements: The pools' SQL, whole or as SHA-256, and which each recipe of a source has.
        records: By source and version the number of records and the root of their ids and
            contents; a sketch of all of them.
        minings: The minings, by number.
        outside: A digest of each input that no source has.
        drawn: Steps of an interval, the position it goes up to, and the chain of digests.
    """

    made: Mapping[str, Any]
    run: Mapping[str, Any]
    corpus: Mapping[str, Any]
    statements: Mapping[str, Any]
    records: Mapping[str, Any]
    minings: Mapping[str, Mapping[str, Any]]
    outside: Mapping[str, str]
    drawn: Mapping[str, Any]

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "certificate")

    @property
    def saved(self) -> Save:
        """The run, as it stood."""
        own = {name: self.run[name] for name in ("run", "kind", "joins", "epoch")}
        return Save.of_plain(
            {name: value for name, value in self.run.items() if name not in (*own, "settings")},
            **own,
            settings=self.settings,
            tag=None,
            corpus_version=self.run["settings"]["corpus_version"],
            order_version=self.made["order_version"],
            step=self.run["position"] // self.run["fingerprint"]["batch_size"],
            samples={},
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run, each recipe where it is drawn."""
        found = to_plain(self.run["settings"])
        definitions = found.pop("definitions")
        for part in (found, *found["joins"]):
            every = part["recipes"].items()
            part["recipes"] = {name: [definitions[at] for at in numbers] for name, numbers in every}
        return dict(found)

    @property
    def versions(self) -> list[int]:
        """The versions of the corpus that the run draws from."""
        return [self.run["settings"]["corpus_version"], *(join[1] for join in self.run["joins"])]

    @property
    def names(self) -> list[str]:
        """The names of the inputs that make the run again, the longest first."""
        outside = ("labels", "tokenizer", "vectors", "candidates")
        return sorted([*self.corpus["sources"], *outside], key=len, reverse=True)

    @property
    def links(self) -> list[str]:
        """The digests of the chain."""
        chain = self.drawn["chain"]
        return [chain[at : at + _DIGITS] for at in range(0, len(chain), _DIGITS)]

    def to_json(self) -> str:
        """Return it as a document, with a digest of each section.

        Raises:
            SamplerError: It would be larger than 1 MB.
        """
        sections = to_plain(self)
        digests = {name: _digest(value) for name, value in sections.items()}
        text = json.dumps({**sections, "digests": digests}, ensure_ascii=False, indent=1)
        if (size := len(text.encode())) > _MOST:
            raise SamplerError(
                f"the certificate of run {self.run['run']!r} would have {size:,} bytes, and "
                f"{_MOST:,} are the most: its recipes and weights over time take too much"
            )
        return text + "\n"

    def write(self, file: str | Path) -> None:
        """Write it to a file, which gets its name once it is complete."""
        text = self.to_json()
        with written_aside(Path(file)) as stream:
            stream.write(text.encode())

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """Read a certificate.

        Raises:
            StateMismatchError: It is none, was damaged, or is of another version.
        """
        found = read_document(Path(file), "JSON", StateMismatchError)
        if not isinstance(found, dict) or not {"made", "digests"} <= found.keys():
            raise StateMismatchError(f"{file}: it is no certificate of a run")
        digests = found.pop("digests")
        made = found["made"] if isinstance(found["made"], dict) else {}
        ours = {"format": _FORMAT, "order_version": ORDER_VERSION}
        for name, number in ours.items():
            if made.get(name) != number:
                raise StateMismatchError(
                    f"{file}: its {name} is {made.get(name)!r}, and this duckplets reads {number}; "
                    f"verify it with the version that made it"
                )
        wrong = [name for name in found if _digest(found[name]) != dict(digests).get(name)]
        if wrong:
            raise StateMismatchError(
                f"{file}: {', '.join(wrong)} does not agree with its digest; the file was damaged "
                f"or edited; get it again"
            )
        return from_plain(cls, found, StateMismatchError, str(file))


def certificate(
    sampler: Sampler, saved: Save, progress: Progress | bool | None = None
) -> Certificate:
    """Return the certificate of the draws of a run so far, for others to check.

    Every sample is planned again, some 100,000 a second.

    Args:
        sampler: The run.
        saved: The saved position of the run.
        progress: Called with samples done and their number; True or False for a bar on stderr or
            none. Default: a bar if stderr is a terminal.

    Raises:
        SamplerError: The run is over token shards.
    """
    database, settings = sampler.database, sampler.settings
    if database is None:
        raise SamplerError("certificate: a run over token shards has none")
    versions = [version.corpus_version for version in settings.versions]
    pins = [settings.candidates, settings.ranked, *(pin for _, pin in sampler.minings)]
    pins += [pin for join in settings.joins for pin in (join.candidates, join.ranked)]
    near = [settings.in_batch, *(join.in_batch for join in settings.joins)]
    pins += [each.minings for each in near if each is not None]
    minings = dict(_minings(database, pins))
    steps = max(1, -(-saved.steps // _INTERVALS))
    every = -(-steps // _IN_A_BLOCK) * _IN_A_BLOCK if steps > 1 else 1
    with bar(progress, sys.stderr, "samples") as report:
        chain = [*links(sampler.planner, saved.position, every * saved.batch, report)]
    return Certificate(
        made={
            "format": _FORMAT,
            "order_version": ORDER_VERSION,
            "duckplets": version_of("duckplets"),
            "duckdb": engine_version(),
        },
        run={
            **{name: getattr(saved, name) for name in ("run", "kind", "joins")},
            "settings": _once(saved.settings),
            "epoch": saved.epoch,
            "position": saved.position,
            **replace(saved, counts=(0, {}), change=None).plain(),
        },
        corpus=_corpus(database, settings, max(versions)),
        statements=_statements(sampler.planner.streams),
        records=records_of(database, versions),
        minings=minings,
        outside=_outside(database, settings, minings, max(versions)),
        drawn={"every": every, "position": saved.position, "chain": "".join(chain)},
    )


def records_of(database: Database, versions: Sequence[int]) -> dict[str, Any]:
    """Return roots of the records of some versions, and a sketch of all."""
    roots: dict[str, dict[str, Any]] = {}
    names, keys, ids, contents = live(database, versions)
    for (source, version), at in keys.items():
        own = ids[at], contents[at]
        roots.setdefault(source, {})[str(version)] = {"records": len(own[0]), "root": root_of(*own)}
    cells = cells_for(len(names))
    sketch = RecordSketch.of(ids, marked(keys, contents), cells)
    return {"roots": roots, "cells": cells, "sketch": sketch.to_text()}


def live(
    database: Database, versions: Sequence[int]
) -> tuple[Integers, dict[tuple[str, int], Integers], Words, Words]:
    """Return places of the records of each source and version; hashes of ids and contents."""
    rows = database.table("proof/records/live", {"versions": [*map(int, versions)]})
    sources = rows["source"].combine_chunks().dictionary_encode()
    added = rows["added_version"].to_numpy()
    number = sources.indices.to_numpy() * (int(added.max(initial=0)) + 1) + added
    order = np.argsort(number, kind="stable")
    stops = np.flatnonzero(np.diff(number[order], append=-1)) + 1
    keys = {
        (
            sources.dictionary[int(sources.indices[int(at[0])].as_py())].as_py(),
            int(added[at[0]]),
        ): at
        for at in np.split(order, stops[:-1])
        if len(at)
    }
    ids, contents = (rows[name].to_numpy() for name in ("id_hash", "content_hash"))
    return order, dict(sorted(keys.items())), ids, contents


def marked(keys: Mapping[tuple[str, int], Integers], contents: Words) -> Words:
    """Return contents mixed with source and version: what a sketch tells apart."""
    found = contents.copy()
    for (source, version), at in keys.items():
        found[at] ^= np.uint64(key("record", source, version))
    return found


def links(
    planner: Planner, stop: int, every: int, progress: Progress | None = None
) -> Iterator[str]:
    """Yield a chain of digests of the samples before a position, one an interval."""
    names = ((stream.source, stream.recipe.name, stream.value or "") for stream in planner.streams)
    labels = np.array([key("stream", *name) for name in names], np.uint64)
    digest = b""
    for start in range(0, stop, every):
        end = min(start + every, stop)
        found = hashlib.sha256(digest)
        for low in range(start, end, _PIECE):
            high = min(low + _PIECE, end)
            found.update(identities(planner.plan(low, high), labels).tobytes())
            if progress is not None:
                progress(high, stop)
        digest = found.digest()
        yield digest.hex()[:_DIGITS]


def identities(plan: Plan, labels: Words) -> Words:
    """Return what samples are: shape (samples, 3 + slots), of stream, swap, label and texts."""
    hashes = plan.hashes[: len(plan.chunks)]
    if (present := plan.present) is not None:
        hashes = np.where(present, hashes, np.uint64(0))
    labels_of = np.zeros(len(plan)) if plan.labels is None else plan.labels
    columns = [labels[plan.streams], plan.swapped.astype(np.uint64)]
    columns.append(labels_of.astype(np.float64).view(np.uint64))
    return np.ascontiguousarray(np.stack([*columns, *hashes], axis=1).astype("<u8"))


def _once(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the definition of each recipe once: thousands of sources share some."""
    found, numbers = json.loads(json.dumps(settings)), dict[str, int]()
    for part in (found, *found["joins"]):
        for name, recipes in part["recipes"].items():
            texts = [json.dumps(each) for each in recipes]
            part["recipes"][name] = [numbers.setdefault(text, len(numbers)) for text in texts]
    return {**found, "definitions": [*map(json.loads, numbers)]}


def _corpus(database: Database, settings: Any, version: int) -> dict[str, Any]:
    rows = database.table("proof/records/sources", {"version": version}).to_pylist()
    for row in rows:
        for name in ("mapping", "gates"):
            row[name] = None if row[name] is None else json.loads(row[name])
    sources = {row.pop("name"): row for row in rows}
    made = database.run("proof/records/versions", {"version": version})
    return {"versions": [list(row) for row in made], "sources": sources}


def _statements(streams: Iterable[Stream]) -> dict[str, Any]:
    numbers: dict[str, int] = {}
    recipes: dict[str, dict[str, int]] = {}
    for stream in streams:
        text, _ = stream.pool.compiled.statement("pool")
        number = numbers.setdefault(text, len(numbers))
        recipes.setdefault(stream.source, {})[stream.recipe.name] = number
    is_whole = len(numbers) <= _WHOLE
    kind, texts = "sql" if is_whole else "sha256", [*numbers]
    return {kind: texts if is_whole else [*map(_digest, texts)], "recipes": recipes}


def _minings(database: Database, pins: Iterable[Pins]) -> Iterator[tuple[str, dict[str, Any]]]:
    minings = Minings(database)
    every = (
        pins_of
        for pin in pins
        for recipes in pin.by_source.values()
        for pins_of in recipes.values()
    )
    for number in sorted({pin.mining for pins_of in every for pin in pins_of.values()}):
        one = minings.by_key(number)
        names = ("recipe", "source", "split", "scorer", "settings", "corpus_version")
        found = {name: getattr(one, name) for name in names}
        yield str(number), found | {"digest": one.digest}


def _outside(
    database: Database, settings: Any, minings: Mapping[str, Mapping[str, Any]], version: int
) -> dict[str, str]:
    """Return what no source has, by name: a digest of each."""
    found = {}
    for number, one in minings.items():
        if one["scorer"] != "bm25":
            found[f"candidates {number}, by {one['scorer']}"] = one["digest"]
    ((labels, total),) = database.run("proof/records/labels", {"version": version})
    if labels:
        found["labels"] = f"{labels}:{int(total):016x}"
    for one in settings.versions:
        found |= {f"vectors {name}": digest for name, digest in one.vectors.digests.items()}
    if tokenizer := settings.chunking.get("tokenizer"):
        found["tokenizer"] = tokenizer
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
