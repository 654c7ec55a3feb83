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

_LARGE = 500_000  # records; a page of a larger corpus does not read all
_CUT = 1_200  # characters of a text on the page
_PLACE = ExportPlace(suffixes=(".html", ".htm"))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReportPage:
    """A page of a corpus; a notebook shows it in a cell.

    Attributes:
        data: The data of the page: ``title``, ``corpus``, ``version``, and ``sections`` of
            ``tables``. A table has ``title``, ``columns``, ``rows``, the ``total`` number of rows,
            ``made_by`` and ``note``. ``made_by`` is SQL or a Python call, as ``of`` tells
            (``corpus`` or ``python``).
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
    """Make a page of the corpus: an HTML file that needs no network; a notebook shows it.

    The page starts with an overview: sizes, shares, and problems with the command that helps. Then
    it shows sources, splits and lengths; recipes with samples; mined negatives; the mixture over
    steps, and its served samples; gates with examples; more samples. Every table has the SQL or the
    call that made it. Nothing is saved. For a corpus of more than half a million records, the page
    has no pools, and no samples until ``prepare`` has built a snapshot. The page reports this.

    Args:
        path: FILE.html; it appears only when it is complete. Default: no file.
        run: A saved run at its position. Default: a new run of triplets.
        mixture: As for ``sampler``; with a run it counts from its position.
        advice: The result of ``Corpus.advise``, to show with its plot.
        overwrite: Replace the file.

    Raises:
        SamplerError: The file exists, or cannot be written.
        ExtensionError: The package jinja2, of the extra ``report``, is missing.
        StateMismatchError: The run does not exist, or belongs to another corpus.
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
        "sections": [section.to_dict() for section in sections],
    }
    html = _page(data, sections)
    if path is not None:
        with appearing(path, _PLACE, overwrite=overwrite) as temporary:
            temporary.write_text(html, encoding="utf-8")
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
        recipes.notes.append(f"Only {command} counts pools of this size.")
    mixing = Section(name="mixture", title="Mixture")
    further = Section(name="samples", title="Samples")
    recipes.tables.extend(tables.pools(database, found))
    with _opened(corpus, database, run, mixture, is_large=is_large) as sampler:
        if isinstance(sampler, str):
            for section in (recipes, mixing):
                section.notes.append(sampler)
        else:
            if sampler.settings.kind == "messages":
                further.notes.append("duckplets show CORPUS --run NAME shows conversations.")
            else:
                by_recipe, following = drawn.samples(database, sampler, _CUT)
                recipes.tables.extend(by_recipe)
                further.tables.extend(following)
            mixing.tables.extend(drawn.mixture(sampler))
            mixing.notes.extend(sampler.describe().splitlines())
    sections = [
        tables.corpus(database, found),
        recipes,
        tables.mined(database, found),
        mixing,
        tables.gates(database, _CUT),
        further,
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
    """Yield the run of the page, or the reason why there is none."""
    snapshot = snapshots.overview(database, current_version(database)) or {}
    if is_large and not snapshot.get("current"):
        yield f"No samples were drawn: run duckplets prepare {shown(corpus.path)} first."
        return
    try:
        if run is None:
            sampler = corpus.sampler(
                columns=drawn.columns_of("triplets", 1),
                mixture=mixture,
                negatives=Negatives(allow_stale=True),
                options=Options(empty="skip", prefetch=0),
            )
        else:
            settings = state.load(state.state_path(corpus.path), run).settings
            columns = None
            if settings["kind"] != "messages":
                columns = drawn.columns_of(settings["kind"], settings["negatives"].get("num", 1))
            changes: dict[str, Any] = {} if mixture is None else {"mixture": mixture}
            sampler = corpus.resume(run, columns=columns, options=Options(prefetch=0), **changes)
    except DuckpletsError as error:
        if run is not None or mixture is not None:
            raise
        yield f"No samples were drawn: {error}"
        return
    sampler.notes[:] = not_of_saving(sampler.notes)
    with closing(sampler):
        yield sampler


# -- the page -----------------------------------------------------------------------------------


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
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
