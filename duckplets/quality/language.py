"""Identify the language of texts from a prefix, by py3langid or a user's detector."""

# A detector takes longer for a longer text (6,300 texts/s of 200 characters, 1,370 of 4,000), and
# its answer hardly changes. Probabilities have four places, so they are equal on every machine.

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Bits
from duckplets.errors import ExtensionError
from duckplets.quality import plugins
from duckplets.text.characters import LETTER, bytes_of, classes

UNDETERMINED = "undetermined"
_PLACES = 4

# codes of py3langid 0.4 and earlier models; "zxx" means "no language"
_CODES = (
    "ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu "
    "ext fa fi fo fr fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is "
    "it ja jv ka kab kik kk km kn ko ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne "
    "nl nn no nso oc om or pa pcm pl ps pt qu ro ru rw sa sdh se si sk sl sn so sq sr st sv sw ta "
    "te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo yue zh zu zxx"
)
CODES = frozenset(_CODES.split())


def detector_of(name: str) -> plugins.Detector:
    """Return a detector by name."""
    return _py3langid() if name == "py3langid" else plugins.detector(name)


def languages(texts: pa.Array, detector: str, prefix: int, letters: int) -> tuple[Any, Any]:
    """Return the language codes of texts, and probabilities, null where undetermined."""
    begins = pc.utf8_slice_codeunits(texts, 0, prefix)
    data, bounds = bytes_of(begins)
    found = Bits((classes(data) & LETTER) != 0).rank(bounds)
    enough = np.diff(found) >= max(1, letters)
    places = np.flatnonzero(enough)
    pairs = plugins.detected(detector_of(detector), begins.take(pa.array(places)).to_pylist())
    codes = np.full(len(texts), UNDETERMINED, object)
    shares = np.zeros(len(texts))
    codes[places] = [code for code, _ in pairs]
    shares[places] = np.round([share for _, share in pairs], _PLACES) if pairs else []
    return pa.array(codes.tolist(), pa.string()), pa.array(shares, mask=~enough)


@cache
def _py3langid() -> plugins.Detector:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise ExtensionError(
            "language= needs the package py3langid: pip install 'duckplets[quality]', or turn the "
            "gate off with language=None"
        ) from error
    import py3langid

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def detect(texts: list[str]) -> list[tuple[str, float]]:
        return [(code, min(1.0, share)) for code, share in map(identifier.classify, texts)]

    version = str(getattr(py3langid, "__version__", ""))
    return plugins.Detector("py3langid", detect, version, frozenset(identifier.labels))
