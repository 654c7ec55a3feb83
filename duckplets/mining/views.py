"""Show what was mined in SQL: views over the files beside the corpus, which follow from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict

from duckplets.db.database import Database
from duckplets.db.queries import literal, query
from duckplets.errors import DamagedFileError
from duckplets.mining.store import MANIFEST, Minings, writing

_OF_CANDIDATES = "All that was mined, before any cut, best first"


def keep_only(database: Database, pinned: Collection[int]) -> int:
    """Forget minings that no run draws from, nor would; return how many."""
    minings = Minings(database)
    if not minings.finished:
        return 0
    kept = {mining.key for mining in minings.found()} | {*pinned}
    gone = [key for key in minings.finished if key not in kept]
    with writing(database) as folder:
        for key in gone:
            (folder.path / MANIFEST.format(key)).unlink(missing_ok=True)
        folder.sweep()
    show(database)
    return len(gone)


def show(database: Database) -> None:
    """Let the views of mined candidates and positives have what is current."""
    minings = Minings(database)
    if not any(minings.folder.manifests()) and not database.run("mining/store/is_any_shown")[0][0]:
        return
    told, parts, positives = [], list[str](), list[str]()
    for mining in minings.found():
        try:
            mining.files(minings.folder)
            mining.files(minings.folder, "positives")
        except DamagedFileError:
            continue
        names, others = (
            [part[of]["name"] for part in mining.parts] for of in ("file", "positives")
        )
        shown = {"candidates": mining.candidates, "files": names, "positive_files": others}
        told.append(asdict(mining) | shown)
        parts += names
        positives += others
    folder = minings.folder.path.name + "/"
    texts = [_filled("mining/store/minings", minings=json.dumps(told, ensure_ascii=False))]
    if parts:
        texts.append(_filled("mining/store/candidates", folder=folder, parts=json.dumps(parts)))
        asked = {"folder": folder, "positives": json.dumps(positives)}
        texts.append(_filled("mining/store/mined_positives", **asked))
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
        known_by = f"{_OF_CANDIDATES} ({digest})"
        for text in [*texts, _filled("mining/store/known_by", digest=known_by)]:
            database.rows(text)
        for view, name, comment in columns:
            text = _filled("mining/store/column", comment=comment)
            database.rows(text.replace("minings.generation", f"{view}.{name}"))


def _filled(name: str, **values: str) -> str:
    """Return a statement with its values filled in."""
    text = query(name)
    for parameter, value in values.items():
        text = text.replace(f"${parameter}", literal(value))
    return text
