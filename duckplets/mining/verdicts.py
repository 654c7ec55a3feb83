"""Keep what somebody said of pairs of texts, and say what it changes.

relabel ─→ pair_verdicts, by the hashes of both texts ─a version─→ pools, and what policies leave

A verdict moves no record and makes no candidate stale: it is looked at when a pool is compiled and
when a policy cuts. A positive text joins the positives of the anchor's record, wherever in the
split it stands, if the recipe's selector takes it. What is positive or ambiguous is no negative.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.base.columns import column
from duckplets.base.sanitize import Reported, shown
from duckplets.base.tables import one_of, table_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import RecipeError
from duckplets.ingest import records

VERDICTS = ("positive", "ambiguous", "negative")
_OF = {"anchor": pa.string(), "text": pa.string(), "verdict": pa.string()}
_OF |= {"anchor_hash": pa.uint64(), "text_hash": pa.uint64()}
_FORMS = (("anchor", "text", "verdict"), ("anchor_hash", "text_hash", "verdict"))


@dataclass(frozen=True, kw_only=True, slots=True)
class RelabelReport(Reported):
    """What ``relabel`` stored; ``read == stored + unchanged + repeated``.

    Attributes:
        version: The version that has them; the one before, if nothing is new.
        read: Rows of the table.
        stored: Verdicts that are new, or others than before.
        unchanged: Verdicts that held already.
        repeated: Rows of a pair that comes again further down, which counts.
        changed: Stored verdicts that take the place of another.
        verdicts: How many hold now, of each kind.
        gone: Of these, pairs with a text that no record has now; they wait for it.
        across: Pairs called positive whose texts no split has both of: they join nothing.
    """

    version: int
    read: int
    stored: int
    unchanged: int
    repeated: int
    changed: int
    verdicts: dict[str, int]
    gone: int
    across: int


@changes("relabel pairs of")
def relabel(corpus: CorpusFile, /, table: Any, *, annotator: str | None = None) -> RelabelReport:
    """Store verdicts on pairs of texts, such as those of a model that judged mined negatives.

    A ``positive`` text joins the positives of its anchor in every recipe whose selector takes it,
    where a record of the split has it; with ``ambiguous`` it is neither positive nor negative;
    ``negative`` takes back what was said before, and a positive from its own record. Texts of
    windows count by themselves; of mined candidates a section is left out if one of its windows is.
    Runs that are saved at an older version go on unchanged, and no mining becomes stale.

    Args:
        table: Rows of ``anchor``, ``text`` and ``verdict``, with texts as batches have them; in
            the place of texts ``anchor_hash`` and ``text_hash``, as in the table ``chunks``. An
            Arrow table, data frame, mapping of columns, or the path of a Parquet file. Of rows on
            one pair the last counts.
        annotator: Who says so, for the table ``pair_verdicts``.

    Raises:
        RecipeError: A column is missing or of another type, or a verdict is none of the three.
    """
    database, rows = corpus.database, _checked(table_of(table, "relabel", RecipeError))
    version = records.current_version(database)
    with database.transaction():
        with database.registered(new_verdicts=rows):
            found = database.table("mining/verdicts/pairs", {"version": version})
        new = found.filter(pc.fill_null(pc.not_equal(found["verdict"], found["before"]), True))
        if len(new):
            version += 1
            with database.registered(new_verdicts=new):
                asked = {"annotator": annotator, "version": version}
                database.run("mining/verdicts/append", asked)
        of = {each.pop("verdict"): each for each in held(database, version)}
        report = RelabelReport(
            version=version,
            read=len(rows),
            stored=len(new),
            unchanged=len(found) - len(new),
            repeated=len(rows) - len(found),
            changed=len(new) - new["before"].null_count,
            verdicts={kind: each["pairs"] for kind, each in of.items()},
            gone=sum(each["gone"] for each in of.values()),
            across=of["positive"]["across"] if "positive" in of else 0,
        )
        if len(new):
            records.commit_version(database, version, "relabel", None, asdict(report))
    return report


def _checked(table: pa.Table) -> pa.Table:
    """Return the rows with their numbers, and all columns, those of the other form null."""
    what = "relabel", RecipeError
    form = one_of(_FORMS, table.column_names, *what)
    found = typed(table, {name: _OF[name] for name in form}, *what)
    known = pc.is_in(found["verdict"], pa.array(VERDICTS))
    if (row := pc.index(known, False).as_py()) >= 0:
        given = shown(repr(found["verdict"][row].as_py()), 80)
        raise RecipeError(f"relabel: verdict {given} in row {row}; give {', '.join(VERDICTS)}")
    missing = pa.nulls(len(table))
    columns = {n: found[n] if n in form else missing.cast(kind) for n, kind in _OF.items()}
    return pa.table({"row": column(np.arange(len(table)))} | columns)


def relabelled_sections(database: Database, version: int) -> tuple[Integers, Integers]:
    """Return sections of anchors, and of what verdicts forbid as their negatives, by both."""
    rows = database.table("mining/verdicts/sections", {"version": version})
    anchors, negatives = (rows[name].to_numpy() for name in rows.column_names)
    return anchors, negatives


def held(database: Database, version: int) -> list[dict[str, Any]]:
    """Return the verdicts that hold at a version, by kind: ``pairs``, ``gone`` and ``across``."""
    found: list[dict[str, Any]] = database.table(
        "mining/verdicts/counts", {"version": version}
    ).to_pylist()
    return found
