"""What a data-set file says about gates and cleaning.

Gates belong to a source. Preprocessors belong to the corpus and clean the texts of all sources, so
what a data set says of cleaning is only compared with the corpus's settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, SourceError
from duckplets.quality.intake import QualityGates
from duckplets.quality.settings import Quality
from duckplets.text.normaliser import Normaliser
from duckplets.text.preprocessors import name_of

if TYPE_CHECKING:
    from duckplets.text.chunking import Chunking

_GATES = ("where", "size_mb", "limit")
_DOMAINS = ("general", "medical", "code")
_CLEAN = ("on", "off", "text", "code")
JUDGED = ("quality", "domain", *_GATES, "clean")
"""The keys of a data set that are about its texts."""


def judged(
    values: Mapping[str, Any], folder: Path, note: Callable[[str], None]
) -> tuple[dict[str, Any], str | None]:
    """Return arguments of an ingest, and how texts are to be cleaned, from keys of a data set.

    A settings file is looked for in the folder, and ``note`` collects each mistake.
    """
    gates = {key: values[key] for key in _GATES if key in values}
    for key, value in gates.items():
        tried(note, partial(QualityGates, **{key: value}))
    if "quality" in values or "domain" in values:
        given = values.get("quality"), values.get("domain")
        gates["quality"] = tried(note, partial(_quality, *given, folder))
    clean = values.get("clean")
    if isinstance(clean, bool):  # YAML reads on and off as booleans
        clean = "on" if clean else "off"
    if clean is not None and clean not in _CLEAN:
        note(f"clean={shown(repr(clean))}: give one of {', '.join(_CLEAN)}")
    return gates, clean


def tried(note: Callable[[str], None], make: Callable[[], Any]) -> Any:
    """Return what ``make`` makes; collect its mistake."""
    try:
        return make()
    except DuckpletsError as error:
        note(str(error))
        return None


def _quality(given: Any, domain: Any, folder: Path) -> Quality | None:
    """Return the settings of gates; None if they are off."""
    if domain is not None and domain not in _DOMAINS:
        raise SourceError(f"domain={shown(repr(domain))}: give one of {', '.join(_DOMAINS)}")
    if given is False:
        if domain is not None:
            raise SourceError("quality is off, and domain asks for gates: leave one out")
        return None
    if domain is not None and given is not None:
        if not isinstance(given, Mapping) or "preset" in given:
            raise SourceError(
                f"domain={domain!r} is the preset that a table quality begins with; beside "
                f"quality={shown(repr(given))} leave it out"
            )
        given = {"preset": domain, **given}
    given = domain if given is None else given
    if isinstance(given, str) and given.endswith(".toml"):
        given = folder / os.path.expanduser(given)
    return Quality.of(given)


def check_cleaning(name: str, clean: str | None, chunking: Chunking) -> None:
    """Refuse a data set whose cleaning differs from the corpus's."""
    found = chunking.preprocessors
    forms = {"code" if each.code else "text" for each in found if isinstance(each, Normaliser)}
    if clean not in {None, *forms, "on" if found else "off"}:
        has = ", ".join(map(name_of, found)) or "no preprocessor"
        raise SourceError(
            f"data set {name!r}: clean={clean!r}: a corpus cleans the texts of all its sources "
            f"alike, and this one has {has}: {_WAYS.get(str(clean), _WAYS['on'])}"
        )


_WAYS = {
    "off": "take it into a corpus of its own, or call chunk() without preprocessors first",
    "code": "take it into a corpus of its own, or call normalise(Normaliser(code=True)) first",
    "on": "call normalise() first (--normalise text)",
}
