"""Make a run again from raw sources, and compare it with its certificate.

sources ─ingest, version by version→ a corpus for the moment ─mine, open→ run ─chain→ equal, or not
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from duckplets.base.progress import Progress, bar
from duckplets.base.sanitize import counted, listed, shown
from duckplets.corpus.corpus import Corpus
from duckplets.db import files
from duckplets.errors import DuckpletsError, SourceError, StateMismatchError, nearest
from duckplets.ingest.options import IngestOptions
from duckplets.ingest.splits import SplitSettings
from duckplets.mining.store import Minings, folder_at, minings_in
from duckplets.proof.certificate import Certificate, links, live, marked, records_of
from duckplets.proof.sketch import RecordSketch
from duckplets.recipes.files import from_dict
from duckplets.runs.opening import reopened
from duckplets.search.analyzer_settings import Terms
from duckplets.sources.mapping import Mapped
from duckplets.text.chunking import Chunking
from duckplets.vectors.store import VectorStore

if TYPE_CHECKING:
    from duckplets.recipes.recipes import TripletRecipe

_NAMED = 20  # records named in a text
_OF_MINING = ("depth", "query_tokens", "scope", "shard_documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """The result of a comparison.

    Attributes:
        run: Name of the run.
        steps: Steps that the certificate is about.
        same: Whether the same batches were drawn; None if the run could not be made again.
        differs: The first steps that differ, from the first to before the last; or None.
        records: Records that differ, in words, by source.
        unverified: The parts that were not verified, with reasons.
    """

    run: str
    steps: int
    same: bool | None
    differs: tuple[int, int] | None
    records: tuple[str, ...]
    unverified: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The answer in words."""
        steps = f"{counted(self.steps, 'step')} of run {self.run!r}"
        if self.same is None:
            found = [f"{steps}: not verified"]
        elif self.same:
            found = [f"{steps}: the same batches"]
        elif self.differs is None:
            raise AssertionError(self)
        else:
            first, last = self.differs[0], self.differs[1] - 1
            which = f"steps {first:,} to {last:,}" if first < last else f"step {first:,}"
            found = [f"{steps}: other batches, first in {which}"]
        return [*found, *self.records, *(f"not verified: {each}" for each in self.unverified)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def verify(
    certificate: Certificate | str | Path,
    sources: Mapping[str, Any],
    *,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Verification:
    """Make a run again from raw sources and compare its batches with a certificate.

    The sources are stored in a corpus of their own, in a temporary folder, and read with the
    columns that the certificate has. Order of rows, format and threads do not matter.

    Args:
        certificate: The certificate, or its file.
        sources: By name what ``Corpus.ingest`` takes, mostly a path. ``NAME@VERSION`` where a
            source was read for several versions; ``labels@VERSION`` is a file of ``relabel``, and
            ``tokenizer`` a tokenizer's file. ``vectors`` and ``candidates`` are compared by their
            digests: the file and the folder beside the corpus.
        threads: Threads DuckDB may use; all cores by default.
        progress: Called with samples done and their number; True or False for a bar on stderr or
            none. Default: a bar if stderr is a terminal.

    Raises:
        SourceError: A source is missing or unknown, or cannot be read.
        StateMismatchError: The certificate is damaged, or of another version.
    """
    if not isinstance(certificate, Certificate):
        certificate = Certificate.read(certificate)
    _refuse_unknown(certificate, sources)
    with (
        tempfile.TemporaryDirectory(prefix="duckplets-verify-") as folder,
        Corpus(Path(folder) / "again.duckdb", threads=threads) as corpus,
        bar(progress, sys.stderr, "samples") as report,
    ):
        again = _Again(corpus, certificate, sources)
        try:
            again.make()
            return again.compared(report)
        except DuckpletsError:  # some are a ValueError too
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"the certificate is not as one is made, though its digests agree: "
                f"{type(error).__name__} {shown(str(error), 80)}; get it again"
            ) from error


class _Again:
    """A run that is made again."""

    def __init__(
        self, corpus: Corpus, certificate: Certificate, sources: Mapping[str, Any]
    ) -> None:
        self._corpus, self._certificate, self._given = corpus, certificate, sources
        self._settings = certificate.settings
        self._unverified: list[str] = []
        self._pins: dict[int, dict[str, Any]] = {}  # of minings, by their former number
        self._known: set[str] = set()  # sources that are there

    def make(self) -> None:
        """Ingest every version of the sources, and mine as it was mined then."""
        certificate, corpus = self._certificate, self._corpus
        self._cut()
        mined = [mining["corpus_version"] for mining in certificate.minings.values()]
        first = min([certificate.versions[0], *mined])
        for version, what, source in certificate.corpus["versions"]:
            if corpus.version < version:  # a collection makes two versions
                self._bring(version, what, source)
            if corpus.version < version:
                own = {"version": version, "what": what}
                corpus.database.run("proof/records/pass_over", own)
            if version == first:
                settings = SplitSettings(**self._settings["splits"])
                corpus.split(**settings.to_dict())
            self._mine(version)

    def _cut(self) -> None:
        """Set how sections are cut."""
        chunking = dict(self._settings["chunking"])
        if chunking["tokenizer"] is not None:
            chunking["tokenizer"] = self._given.get("tokenizer")
            if chunking["tokenizer"] is None:
                self._unverified.append("the tokenizer's file is not given: tokenizer=FILE")
        self._corpus.chunk(Chunking.from_json(chunking))

    def _bring(self, version: int, what: str, source: str | None) -> None:
        """Make a version as it was made."""
        if what == "remove" and source is not None:
            self._corpus.remove(source)
            self._known.discard(source)
        elif what == "relabel":
            rows = self._given.get(f"labels@{version}", self._given.get("labels"))
            if rows is None:
                self._unverified.append(f"labels of version {version}: give labels@{version}=FILE")
            else:
                self._corpus.relabel(rows)
        elif what == "ingest" and source is not None:
            self._ingest(version, source)
        elif what != "prefix" or self._settings["prefixes"]:
            self._unverified.append(f"version {version}, {shown(what, 40)}: it is not made again")

    def _ingest(self, version: int, source: str) -> None:
        every = self._certificate.corpus["sources"]
        of = (name for name, one in every.items() if one["documents"] == source)
        name = next(of, source)  # documents come with their queries
        rows = self._given.get(f"{name}@{version}", self._given.get(name))
        if rows is None:
            raise SourceError(
                f"source {name!r}, version {version}: it is not given; add {name}=PATH, or "
                f"{name}@{version}=PATH where the file was another one"
            )
        read_as = every[source]
        mapping = {} if hasattr(rows, "described") else _columns(read_as["mapping"] or {})
        how: dict[str, Any] = {"on_conflict": "replace" if name in self._known else "skip"}
        self._known.add(name)
        if name == source and every[name]["documents"] is None:
            how |= {"on_error": "skip", "trust": read_as["trust"]}
        if read_as["gates"] is not None:
            gates = read_as["gates"]
            how |= {gate: gates[gate] for gate in ("quality", "where", "limit")}
            how["options"] = IngestOptions(size_mb=gates["size_mb"])
            how["on_conflict"] = "skip"  # as gates have it
        self._corpus.ingest(rows, name=name, progress=False, **how, **mapping)

    def _mine(self, version: int) -> None:
        """Mine again what was mined at a version."""
        recipes = self._recipes()
        for number, mining in self._certificate.minings.items():
            if mining["corpus_version"] != version or mining["scorer"] != "bm25":
                continue
            how = {name: mining["settings"][name] for name in _OF_MINING}
            terms = Terms(**mining["settings"]["terms"])
            recipe = cast("TripletRecipe", from_dict(recipes[mining["source"], mining["recipe"]]))
            where = {"source": mining["source"], "split": mining["split"]}
            self._corpus.mine(recipe, terms=terms, progress=False, **where, **how)
            made = Minings(self._corpus.database).found(mining["recipe"], scorer="bm25", **where)
            if made:
                self._pins[int(number)] = {"mining": made[-1].key, "digest": made[-1].digest}

    def _recipes(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        parts = [self._settings, *self._settings["joins"]]
        every = (
            (name, one)
            for part in parts
            for name, recipes in part["recipes"].items()
            for one in recipes
        )
        return {(name, one["name"]): one for name, one in every}

    def compared(self, progress: Progress | None) -> Verification:
        """Compare records and batches."""
        certificate, differs, same = self._certificate, None, None
        records = tuple(self._differing())
        self._note_outside()
        steps = -(-certificate.drawn["position"] // certificate.saved.batch)
        if not self._is_drawn_outside:
            try:
                found = list(self._links(progress))
            except DuckpletsError as error:
                if not records:
                    raise
                found = []
                records = (*records, f"the run cannot be opened on these records: {error}")
            pairs = zip_longest(found, certificate.links)
            at = next((number for number, (a, b) in enumerate(pairs) if a != b), None)
            same = at is None
            if at is not None:
                every = certificate.drawn["every"]
                differs = at * every, min((at + 1) * every, steps)
        return Verification(
            run=certificate.run["run"],
            steps=steps,
            same=same,
            differs=differs,
            records=records,
            unverified=tuple(self._unverified),
        )

    @property
    def _is_drawn_outside(self) -> bool:
        """Whether batches depend on candidates or vectors that no source has."""
        scorers = {mining["scorer"] for mining in self._certificate.minings.values()}
        return bool(scorers - {"bm25"}) or self._settings["vectors"].get("missing") == "drop"

    def _links(self, progress: Progress | None) -> Iterator[str]:
        """Yield the chain of the run, opened on the corpus that was made again."""
        certificate, settings = self._certificate, {**self._certificate.run["settings"]}
        settings["columns"] = [name for name in settings["columns"] if "_vector" not in name]
        settings["vectors"] = {}
        run = _renumbered({**certificate.run, "settings": settings}, self._pins)
        saved = replace(certificate, run=run).saved
        state = self._corpus.path.with_suffix(".state.duckdb")
        drawn = certificate.drawn
        with reopened(self._corpus.database, saved, state) as sampler:
            every = drawn["every"] * saved.batch
            yield from links(sampler.planner, drawn["position"], every, progress)

    def _note_outside(self) -> None:
        """Note what could not be made again, and labels that are others."""
        found = self._certificate.outside
        for name, digest in found.items():
            kind = name.split()[0]
            if kind not in _DIGESTS:
                continue
            file = self._given.get(kind)
            if file is None:
                why = f"they do not follow from the sources; give {kind}=PATH to compare them"
                self._unverified.append(f"{name}: {why}")
            elif digest not in _DIGESTS[kind](str(file), name.removeprefix(f"{kind} ")):
                self._unverified.append(f"{name}: {shown(str(file), 80)} has others")
        if self._is_drawn_outside:
            self._unverified.append("batches: they are drawn by candidates or vectors of a model")
        if "labels" in found:
            version = max(self._certificate.versions)
            ((labels, total),) = self._corpus.database.run(
                "proof/records/labels", {"version": version}
            )
            if f"{labels}:{int(total):016x}" != found["labels"]:
                was = int(found["labels"].partition(":")[0])
                self._unverified.append(f"labels: {was:,} were there, {labels:,} are, or others")

    def _differing(self) -> Iterator[str]:
        """Yield the records that differ, in words, and how many could not be named."""
        certificate, database = self._certificate, self._corpus.database
        theirs, ours = certificate.records, records_of(database, certificate.versions)
        sources = [
            f"source {shown(name, 60)}, version {version}: "
            f"{counted(_count(theirs, name, version), 'record')} in the certificate, "
            f"{_count(ours, name, version):,} here"
            for name, version in _roots(theirs, ours)
        ]
        yield from sources
        if not sources:
            return
        _, keys, ids, contents = live(database, certificate.versions)
        cells = theirs["cells"]
        sketch = RecordSketch.of(ids, marked(keys, contents), cells)
        named, _, signs, rest = RecordSketch.of_text(theirs["sketch"], cells).less(sketch).named()
        here = {*named[signs < 0].tolist()}
        there = {*named[signs > 0].tolist()}
        asked = pa.table({"id_hash": pa.array(sorted(here), pa.uint64())})
        with database.registered(asked=asked):
            known = {row["id_hash"]: row for row in database.table("proof/records/ids").to_pylist()}
        for what, hashes in (
            ("another content", here & there),
            ("only here", here - there),
            ("missing here", there - here),
        ):
            words = [
                f"{shown(known[number]['source'], 40)} {shown(known[number]['record_id'], 80)}"
                if number in known
                else f"id hash {number:016x}"
                for number in sorted(hashes)
            ]
            if words:
                yield f"{what}: {counted(len(words), 'record')}: {listed(words, _NAMED)}"
        if rest:
            yield f"and about {rest:,} more, too many to name"


def _roots(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the sources and versions whose records differ."""
    for name in sorted({*theirs["roots"], *ours["roots"]}):
        one, other = (records["roots"].get(name, {}) for records in (theirs, ours))
        for version in sorted({*one, *other}, key=int):
            if one.get(version) != other.get(version):
                yield name, version


def _refuse_unknown(certificate: Certificate, sources: Mapping[str, Any]) -> None:
    names = certificate.names
    for given in sources:
        name, _, version = given.rpartition("@")
        if given not in names and not (name in names and version.isdecimal()):
            raise SourceError(
                f"the certificate has no source {given!r}{nearest(given, names)}; it has: "
                f"{listed(sorted(certificate.corpus['sources']), 5)}"
            )


def _columns(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how a source was read; a certificate is from outside, and its word imports nothing."""
    if ":" in str(mapping.get("converter", "")):
        raise SourceError(
            f"the certificate names a function that converts rows, "
            f"{shown(mapping['converter'], 60)!r}, and it is not imported by its word; in Python "
            f"give the source itself: dp.Source(…, converter=…)"
        )
    if "titles" in mapping:  # of files of text, whose dates are in their paths
        headed = bool(mapping.get("by_heading"))
        return {"titles": mapping["titles"], "by_heading": headed, "date": mapping.get("date")}
    if foreign := sorted(mapping.keys() - {field.name for field in fields(Mapped)}):
        raise StateMismatchError(f"the certificate: no column is called {shown(foreign[0], 60)!r}")
    return mapping


def _vector_digests(file: str, name: str) -> set[str]:
    """Return the digests of a set of vectors, which agree with its vectors."""
    store = VectorStore(Path(file.removesuffix(files.VECTORS) + ".duckdb"))
    if wrong := next(store.verify(), None):
        raise SourceError(f"vectors={shown(file, 80)}: {wrong}")
    return {commit.digest for commit in store.need(name).commits}


def _candidate_digests(folder: str, _: str) -> set[str]:
    """Return the digests of the minings of a folder."""
    found = folder_at(Path(folder.rstrip("/").removesuffix(files.CANDIDATES) + ".duckdb"))
    every, damaged = minings_in(found)
    if damaged:
        raise damaged[0]
    return {mining.digest for mining in every if mining.files(found) is not None}


_DIGESTS = {"vectors": _vector_digests, "candidates": _candidate_digests}


def _count(records: Mapping[str, Any], name: str, version: str) -> int:
    return int(records["roots"].get(name, {}).get(version, {}).get("records", 0))


def _renumbered(value: Any, pins: Mapping[int, Any]) -> Any:
    """Return JSON values that name the new minings instead of the former ones."""
    if isinstance(value, list | tuple):
        return [_renumbered(each, pins) for each in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {"mining", "digest"}:
        if value["mining"] not in pins:
            raise StateMismatchError("what was mined finds no anchor")
        return pins[value["mining"]]
    return {name: _renumbered(each, pins) for name, each in value.items()}
