"""Store the labels of pairs: how well a text, or a document, answers an anchor.

relabel ─→ labels, by hashes of ids or texts ─a version─→ pools, policies

Labels change no record and make no candidates stale: pools and policies read them. A text with a
label of 1 or more joins the positives of the anchor. Its record must be in the split, and the
recipe's selector must take it. A text with a label above 0 is never a negative.
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
    """Report one call of ``relabel``; ``read == stored + unchanged + repeated``.

    Attributes:
        version: The version with the labels; the version before, if nothing is new.
        read: Rows of the table.
        stored: New and changed labels.
        unchanged: Labels that were stored before.
        repeated: Rows whose pair has a later row; the later row counts.
        changed: Stored labels that replace another.
        labels: All labels now: ``positive`` (1 or more), ``negative`` (0 or less), and
            ``ambiguous`` between.
        gone: Labelled pairs with a side that no record has now; they wait for it.
        across: Positive pairs without a split that has both sides; they have no effect.
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
    """Store labels of pairs, for example from a model that graded mined negatives.

    A label of 1 or more makes a text a positive of its anchor, if a record of the split has the
    text. It acts in every recipe whose selector takes the text. A text between 0 and 1 is neither
    positive nor negative. A label of 0 or less removes a positive, and the text may be a negative.
    Null removes an earlier label. A text label covers a window, and a document label covers all
    windows. A mined section is excluded if one of its windows is. Runs that are saved at an older
    version stay the same, and no mining becomes stale.

    Args:
        table: One column of each group. ``anchor`` (text), ``anchor_id`` (record) or
            ``anchor_hash``; ``text``, ``document_id`` or ``text_hash``; ``label`` (a finite number,
            or null) or ``verdict`` (``positive`` is 1, ``ambiguous`` 0.5, ``negative`` 0). Texts
            are as in batches, hashes as in the table ``chunks``. Records may be added later. An
            Arrow table, data frame, mapping of columns, or the path of a Parquet file. The last row
            of a pair counts.
        annotator: Author of the labels, for the table ``labels``.

    Raises:
        RecipeError: A column is missing or of another type, or a label or verdict is invalid.
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
                values = {"annotator": annotator, "version": version}
                database.run("mining/labels/append", values)
                database.run("mining/labels/keep_ids")
        rows_by_meaning = database.table("mining/labels/counts", {"version": version}).to_pylist()
        counts = {row.pop("meaning"): row for row in rows_by_meaning}
        report = RelabelReport(
            version=version,
            read=len(rows),
            stored=len(new),
            unchanged=len(found) - len(new),
            repeated=len(rows) - len(found),
            changed=len(new) - new["before"].null_count,
            labels={meaning: row["pairs"] for meaning, row in counts.items()},
            gone=sum(row["gone"] for row in counts.values()),
            across=counts["positive"]["across"] if "positive" in counts else 0,
        )
        if len(new):
            records.commit_version(database, version, "relabel", None, asdict(report))
    return report


_IDS = ("anchor_id", "document_id")


def _checked(table: pa.Table) -> pa.Table:
    """Return the rows with their numbers and labels, and all columns of both sides."""
    what = "relabel", RecipeError
    names = [
        one_of([(name,) for name in group], table.column_names, *what)[0] for group in _COLUMNS
    ]
    kinds = {name: group[name] for name, group in zip(names, _COLUMNS, strict=True)}
    is_removed = None
    if names[2] == "label" and table["label"].null_count:
        is_removed = pc.is_null(table["label"])
        filled = pc.if_else(is_removed, 0, table["label"])
        table = table.set_column(table.column_names.index("label"), "label", filled)
    found = typed(table, kinds, *what)
    known = (
        pc.is_finite(found["label"])
        if names[2] == "label"
        else pc.is_in(found["verdict"], pa.array(VERDICTS))
    )
    if (row := pc.index(known, False).as_py()) >= 0:
        value = shown(repr(found[names[2]][row].as_py()), 80)
        wanted = "a finite number, or null" if names[2] == "label" else ", ".join(VERDICTS)
        raise RecipeError(f"relabel: {names[2]} {value} in row {row}; give {wanted}")
    labels = found[names[2]]
    if names[2] == "verdict":
        places = pc.index_in(labels, pa.array(VERDICTS))
        labels = pa.array(VERDICTS.values()).take(places.combine_chunks())
    elif is_removed is not None:
        labels = pc.if_else(is_removed, pa.scalar(None, pa.float64()), labels)
    missing = pa.nulls(len(table))
    sides = _COLUMNS[0] | _COLUMNS[1]
    columns = {n: found[n] if n in names else missing.cast(kind) for n, kind in sides.items()}
    return pa.table({"row": column(np.arange(len(table))), "label": labels} | columns)


def relabelled_sections(database: Database, version: int) -> tuple[Integers, Integers]:
    """Return pairs of anchor section and forbidden negative section, sorted by both."""
    rows = database.table("mining/labels/sections", {"version": version})
    anchors, negatives = (rows[name].to_numpy() for name in rows.column_names)
    return anchors, negatives
