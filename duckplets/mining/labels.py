"""Keep the labels of pairs: how well a text, or a document, answers an anchor.

relabel ─→ labels, by hashes of ids or texts ─a version─→ pools, and what policies leave

A label moves no record and makes no candidate stale: pools read it when they are compiled, and
policies when they cut. A text with a label of 1 or more joins the positives of the anchor, wherever
in the split it stands, if the recipe's selector takes it. One with a label above 0 is no negative.
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

VERDICTS = {"positive": 1.0, "ambiguous": 0.5, "negative": 0.0}
_COLUMNS: tuple[dict[str, pa.DataType], ...] = (  # a table has one of each
    {"anchor": pa.string(), "anchor_id": pa.string(), "anchor_hash": pa.uint64()},
    {"text": pa.string(), "document_id": pa.string(), "text_hash": pa.uint64()},
    {"label": pa.float64(), "verdict": pa.string()},
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RelabelReport(Reported):
    """What ``relabel`` stored; ``read == stored + unchanged + repeated``.

    Attributes:
        version: The version that has them; the one before, if nothing is new.
        read: Rows of the table.
        stored: Labels that are new, or others than before.
        unchanged: Labels that held already.
        repeated: Rows of a pair that comes again further down, which counts.
        changed: Stored labels that take the place of another.
        labels: Labels that hold now: ``positive`` (1 or more), ``negative`` (0 or less), and
            ``ambiguous`` between.
        gone: Of these, pairs with a side that no record has now; they wait for it.
        across: Positive pairs whose sides no split has both of: they join nothing.
    """

    version: int
    read: int
    stored: int
    unchanged: int
    repeated: int
    changed: int
    labels: dict[str, int]
    gone: int
    across: int


@changes("relabel pairs of")
def relabel(corpus: CorpusFile, /, table: Any, *, annotator: str | None = None) -> RelabelReport:
    """Store labels of pairs, such as those of a model that judged mined negatives.

    A label of 1 or more makes a text a positive of its anchor, in every recipe whose selector takes
    it, where a record of the split has it. Between 0 and 1 it is neither positive nor negative. 0
    or less removes a positive, and the text may be a negative. Null takes back what was said
    before. Texts of windows count by themselves, and a document by all its windows. Of mined
    candidates a section is left out if one of its windows is. Runs that are saved at an older
    version go on unchanged, and no mining becomes stale.

    Args:
        table: Rows of ``anchor`` (its text), ``anchor_id`` (its record) or ``anchor_hash``; of
            ``text``, ``document_id`` or ``text_hash``; and of ``label`` (a finite number, or null)
            or ``verdict`` (``positive`` is 1, ``ambiguous`` 0.5, ``negative`` 0). Texts are as
            batches have them, hashes as in the table ``chunks``. Records may come later. An Arrow
            table, data frame, mapping of columns, or the path of a Parquet file. Of rows on one
            pair the last counts.
        annotator: Who says so, for the table ``labels``.

    Raises:
        RecipeError: A column is missing or of another type, or a label or verdict is none.
    """
    database, rows = corpus.database, _checked(table_of(table, "relabel", RecipeError))
    version = records.current_version(database)
    with database.transaction():
        with database.registered(new_labels=rows):
            found = database.table("mining/labels/pairs", {"version": version})
        same = pc.or_kleene(
            pc.equal(found["label"], found["before"]),
            pc.and_(pc.is_null(found["label"]), pc.is_null(found["before"])),
        )
        new = found.filter(pc.invert(pc.fill_null(same, False)))
        if len(new):
            version += 1
            ids = pa.concat_arrays([pc.cast(rows[n].combine_chunks(), pa.string()) for n in _IDS])
            with database.registered(new_labels=new, new_ids=pa.table({"id": ids})):
                asked = {"annotator": annotator, "version": version}
                database.run("mining/labels/append", asked)
                database.run("mining/labels/keep_ids")
        counts = database.table("mining/labels/counts", {"version": version})
        of = {each.pop("meaning"): each for each in counts.to_pylist()}
        report = RelabelReport(
            version=version,
            read=len(rows),
            stored=len(new),
            unchanged=len(found) - len(new),
            repeated=len(rows) - len(found),
            changed=len(new) - new["before"].null_count,
            labels={kind: each["pairs"] for kind, each in of.items()},
            gone=sum(each["gone"] for each in of.values()),
            across=of["positive"]["across"] if "positive" in of else 0,
        )
        if len(new):
            records.commit_version(database, version, "relabel", None, asdict(report))
    return report


_IDS = ("anchor_id", "document_id")


def _checked(table: pa.Table) -> pa.Table:
    """Return the rows with their numbers and labels, and all columns of both sides."""
    what = "relabel", RecipeError
    names = [one_of([(name,) for name in of], table.column_names, *what)[0] for of in _COLUMNS]
    kinds = {name: of[name] for name, of in zip(names, _COLUMNS, strict=True)}
    taken_back = None
    if names[2] == "label" and table["label"].null_count:
        taken_back = pc.is_null(table["label"])
        filled = pc.if_else(taken_back, 0, table["label"])
        table = table.set_column(table.column_names.index("label"), "label", filled)
    found = typed(table, kinds, *what)
    known = (
        pc.is_finite(found["label"])
        if names[2] == "label"
        else pc.is_in(found["verdict"], pa.array(VERDICTS))
    )
    if (row := pc.index(known, False).as_py()) >= 0:
        given = shown(repr(found[names[2]][row].as_py()), 80)
        wanted = "a finite number, or null" if names[2] == "label" else ", ".join(VERDICTS)
        raise RecipeError(f"relabel: {names[2]} {given} in row {row}; give {wanted}")
    labels = found[names[2]]
    if names[2] == "verdict":
        places = pc.index_in(labels, pa.array(VERDICTS))
        labels = pa.array(VERDICTS.values()).take(places.combine_chunks())
    elif taken_back is not None:
        labels = pc.if_else(taken_back, pa.scalar(None, pa.float64()), labels)
    missing = pa.nulls(len(table))
    sides = {name: kind for of in _COLUMNS[:2] for name, kind in of.items()}
    columns = {n: found[n] if n in names else missing.cast(kind) for n, kind in sides.items()}
    return pa.table({"row": column(np.arange(len(table))), "label": labels} | columns)


def relabelled_sections(database: Database, version: int) -> tuple[Integers, Integers]:
    """Return sections of anchors, and of what labels forbid as their negatives, by both."""
    rows = database.table("mining/labels/sections", {"version": version})
    anchors, negatives = (rows[name].to_numpy() for name in rows.column_names)
    return anchors, negatives
