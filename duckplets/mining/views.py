"""Show mined candidates in SQL: views over the files next to the corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict

from duckplets.db.database import Database
from duckplets.db.queries import literal, query
from duckplets.errors import DamagedFileError
from duckplets.mining.store import MANIFEST, Minings, writing

_CANDIDATES = "All mined candidates, before any cut, best first"


def keep_only(database: Database, pinned: Collection[int]) -> int:
    """Delete minings that no saved or new run draws from; return their number."""
    minings = Minings(database)
    if not minings.finished:
        return 0
    used = {mining.key for mining in minings.found()} | {*pinned}
    unused = [key for key in minings.finished if key not in used]
    with writing(database) as folder:
        for key in unused:
            (folder.path / MANIFEST.format(key)).unlink(missing_ok=True)
        folder.sweep()
    show(database)
    return len(unused)


def show(database: Database) -> None:
    """Update the views of mined candidates and positives."""
    minings = Minings(database)
    if not any(minings.folder.manifests()) and not database.run("mining/store/is_any_shown")[0][0]:
        return
    rows, parts, positives = [], list[str](), list[str]()
    for mining in minings.found():
        try:
            mining.files(minings.folder)
            mining.files(minings.folder, "positives")
        except DamagedFileError:
            continue
        names = [part["file"]["name"] for part in mining.parts]
        others = [part["positives"]["name"] for part in mining.parts]
        shown = {"candidates": mining.candidates, "files": names, "positive_files": others}
        rows.append(asdict(mining) | shown)
        parts += names
        positives += others
    folder = minings.folder.path.name + "/"
    texts = [_filled("mining/store/minings", minings=json.dumps(rows, ensure_ascii=False))]
    if parts:
        texts.append(_filled("mining/store/candidates", folder=folder, parts=json.dumps(parts)))
        values = {"folder": folder, "positives": json.dumps(positives)}
        texts.append(_filled("mining/store/mined_positives", **values))
    else:
        texts += [query("mining/store/no_candidates"), query("mining/store/no_positives")]
    if database.read_only:
        for text in texts:
            database.rows(text.replace("OR REPLACE VIEW", "OR REPLACE TEMP VIEW"))
        return
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
    if database.run("mining/store/shown", {"digest": digest})[0][0]:
        return
    with database.transaction():
        columns = database.run("mining/store/columns")
        comments = _filled("mining/store/known_by", digest=f"{_CANDIDATES} ({digest})")
        for text in [*texts, comments]:
            database.rows(text)
        for view, name, comment in columns:
            text = _filled("mining/store/column", comment=comment)
            database.rows(text.replace("minings.generation", f"{view}.{name}"))


def _filled(name: str, **values: str) -> str:
    """Return a statement with literal values; a view takes no parameters."""
    text = query(name)
    for parameter, value in values.items():
        text = text.replace(f"${parameter}", literal(value))
    return text
