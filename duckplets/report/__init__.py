"""Make a page of a corpus: one HTML file that opens from disk without a network."""

# The page shows exactly its JSON data, so programs can read it too.

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import escape
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.base.stages import stage
from duckplets.corpus import snapshots
from duckplets.errors import DuckpletsError
from duckplets.export.files import ExportPlace, appearing, check
from duckplets.ingest.records import current_version
from duckplets.mining.views import show
from duckplets.recipes.mined import Negatives
from duckplets.report import drawn, tables
from duckplets.report.overview import overview
from duckplets.report.rendering import read, rendered, script_json, words
from duckplets.report.tables import Section
from duckplets.runs import state
from duckplets.runs.request import Options
from duckplets.runs.state import not_of_saving

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.db.database import Database
    from duckplets.order.mixture import Mixture
    from duckplets.runs.sampler import Sampler

_LARGE = 500_000  # records above which not all are read for a page
_CUT = 1_200  # characters shown of a text
_PLACE = ExportPlace(suffixes=(".html", ".htm"))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReportPage:
    """A page of a corpus; a notebook shows it in a cell.

    Attributes:
        data: What it shows: ``title``, ``corpus``, ``version``, and ``sections`` of ``tables``,
            each with ``title``, ``columns``, ``rows``, the ``total`` of rows there are,
            ``made_by`` (SQL of the ``corpus``, or a call in ``python``, as ``of`` says) and
            ``note``.
        html: The page.
        path: Its file, or None.
    """

    data: dict[str, Any]
    html: str
    path: Path | None = None

    def __repr__(self) -> str:
        tables = sum(len(section["tables"]) for section in self.data["sections"])
        where = "" if self.path is None else f", {shown(self.path)}"
        return f"ReportPage({tables} tables, {len(self.html):,} characters{where})"

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts" width="100%" height="720" title="Report of a corpus"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


@stage("report on")
def report(
    corpus: Corpus,
    /,
    path: str | Path | None = None,
    *,
    run: str | None = None,
    mixture: Mixture | Mapping[str, float] | str | Path | None = None,
    advice: Any = None,
    overwrite: bool = False,
) -> ReportPage:
    """Make a page to look at: an HTML file that needs no network; a notebook shows it.

    It begins with an overview: sizes, shares, and what needs attention, each with the command
    that helps. Then come sources, splits and lengths; recipes with samples; mined negatives; the
    mixture over steps, and what was served of it; gates with examples; samples to leaf through.
    Every table comes with the SQL, or the call, that made it. Nothing is saved. Of a corpus of
    more than half a million records pools are left out, and samples until ``prepare`` has made a
    snapshot, which the page says.

    Args:
        path: FILE.html, which appears whole or not at all; by default none is written.
        run: A saved run, as it stands; by default what a new one of triplets would draw.
        mixture: As for ``sampler``, or of the run from where it stands on.
        advice: What ``Corpus.advise`` returned, to be shown with its plot.
        overwrite: Replace the file.

    Raises:
        SamplerError: The file exists, or cannot be written.
        ExtensionError: The package jinja2, of the extra ``report``, is missing.
        StateMismatchError: No such run is saved, or it is of another corpus.
        MixtureError: The mixture is wrong.
    """
    database, path = corpus.database, None if path is None else Path(path)
    if path is not None:
        check(path, _PLACE, overwrite=overwrite)
    sections = _sections(corpus, database, run, mixture)
    if advice is not None:
        sections.append(advice.section())
    name = corpus.path.name
    data = {
        "title": f"{shown(name, 80)}, version {current_version(database)}",
        "corpus": words(name),
        "version": current_version(database),
        "duckplets": version_of("duckplets"),
        "sections": [_plain(section) for section in sections],
    }
    html = _page(data, sections)
    if path is not None:
        with appearing(path, _PLACE, overwrite=overwrite) as aside:
            aside.write_text(html, encoding="utf-8")
    return ReportPage(data=data, html=html, path=path)


def _sections(
    corpus: Corpus,
    database: Database,
    run: str | None,
    mixture: Mixture | Mapping[str, float] | str | Path | None,
) -> list[Section]:
    show(database)
    is_large = database.run("report/records")[0][0] > _LARGE
    found = corpus.status()
    recipes = Section(name="recipes", title="Recipes")
    if found["uncounted"]:
        command = f"Corpus({shown(str(corpus.path))!r}).status(pools=True)"
        recipes.notes.append(f"Pools of so many records are counted by {command} only.")
    mixing = Section(name="mixture", title="Mixture")
    leaf = Section(name="samples", title="Samples")
    recipes.tables.extend(tables.pools(database, found))
    with _opened(corpus, database, run, mixture, is_large=is_large) as sampler:
        if isinstance(sampler, str):
            for section in (recipes, mixing):
                section.notes.append(sampler)
        else:
            if sampler.settings.kind == "messages":
                leaf.notes.append("Conversations are shown by duckplets show CORPUS --run NAME.")
            else:
                each, next_ones = drawn.samples(database, sampler, _CUT)
                recipes.tables.extend(each)
                leaf.tables.extend(next_ones)
            mixing.tables.extend(drawn.mixture(sampler))
            mixing.notes.extend(sampler.describe().splitlines())
    sections = [
        tables.corpus(database, found),
        recipes,
        tables.mined(database, found),
        mixing,
        tables.gates(database, _CUT),
        leaf,
    ]
    for section in sections:
        section.tables.sort(key=lambda table: table.plot is None)  # plots first
    by_title = {table.title: table.records() for section in sections for table in section.tables}
    return [overview(corpus.path, found, by_title), *sections]


@contextmanager
def _opened(
    corpus: Corpus,
    database: Database,
    run: str | None,
    mixture: Mixture | Mapping[str, float] | str | Path | None,
    *,
    is_large: bool,
) -> Iterator[Sampler | str]:
    """Yield the run to draw from, or why there is none."""
    snapshot = snapshots.overview(database, current_version(database)) or {}
    served = bool(snapshot.get("current"))
    if is_large and not served:
        yield f"No samples were drawn: run duckplets prepare {shown(corpus.path)} first."
        return
    how = dict[str, Any]()
    try:
        if run is None:
            columns = drawn.columns_of("triplets", 1)
            sampler = corpus.sampler(
                columns=columns,
                mixture=mixture,
                negatives=Negatives(allow_stale=True),
                options=Options(empty="skip", prefetch=0),
            )
        else:
            settings = state.load(state.state_path(corpus.path), run).settings
            columns = None
            if settings["kind"] != "messages":
                columns = drawn.columns_of(settings["kind"], settings["negatives"].get("num", 1))
            if mixture is not None:
                how["mixture"] = mixture
            sampler = corpus.resume(run, columns=columns, options=Options(prefetch=0), **how)
    except DuckpletsError as error:
        if run is not None or mixture is not None:
            raise
        yield f"No samples were drawn: {error}"
        return
    sampler.notes[:] = not_of_saving(sampler.notes)
    with closing(sampler):
        yield sampler


# -- the page -----------------------------------------------------------------------------------


def _plain(section: Section) -> dict[str, Any]:
    """Return a section as plain JSON values."""
    head = {"name": section.name, "title": section.title, "notes": section.notes}
    return head | {"tables": [table.to_dict() for table in section.tables]}


def _page(data: dict[str, Any], sections: list[Section]) -> str:
    style, script = read("plot.css") + read("page.css"), read("page.js")
    return rendered(
        "page.html.jinja",
        data=data,
        sections=sections,
        json=script_json(data),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    """Return an element's hash for the Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
