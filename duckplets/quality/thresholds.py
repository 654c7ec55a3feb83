"""What each setting of quality may be, and its value in every preset.

name of a setting ─CHECKS→ a checked value        name of a preset ─PRESETS→ all values
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from duckplets.base.sanitize import shown
from duckplets.errors import QualityError, nearest

__all__ = ["BLANK", "CHECKS", "PII", "PRESETS", "THRESHOLDS"]

PII = ("email", "phone", "ssn", "ipv4", "card")
_LARGEST = 1 << 40


class Rule(NamedTuple):
    """What a setting may be.

    Attributes:
        allowed: In words, for messages.
        accept: Returns the value to keep, or raises ValueError or TypeError.
        is_flag: Whether it is True or False, so that False does not stand for None.
    """

    allowed: str
    accept: Callable[[Any], Any]
    is_flag: bool = False

    def __call__(self, name: str, value: Any) -> Any:
        """Return the checked value.

        Raises:
            QualityError: It is not what the setting may be.
        """
        try:
            return self.accept(value)
        except (TypeError, ValueError) as error:
            reason = str(error) or f"expected {self.allowed}"
            raise QualityError(f"{name}={shown(repr(value))}: {reason}") from None


def _number(value: Any, most: float, kinds: tuple[type, ...]) -> Any:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError
    number: Any = value
    if not math.isfinite(number) or not 0 <= number <= most:
        raise ValueError
    return value


def _count(value: Any) -> int | None:
    return None if value is None else int(_number(value, _LARGEST, (int,)))


def _some(value: Any) -> int:
    return max(1, int(_number(value, 100_000, (int,)))) if value else _refuse()


def _refuse() -> int:
    raise ValueError


def _float(most: float) -> Callable[[Any], float | None]:
    return lambda value: None if value is None else float(_number(value, most, (int, float)))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not all(isinstance(v, str) and v.strip() for v in value):
        raise TypeError
    return tuple(value)


def _licenses(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return _texts(value) or _refuse()  # type: ignore[return-value]


def _kinds(value: Any) -> tuple[str, ...]:
    kinds = _texts(value)
    if wrong := [kind for kind in kinds if kind not in PII]:
        raise ValueError(f"no kind {wrong[0]!r}{nearest(wrong[0], PII)}; known: {', '.join(PII)}")
    return tuple(kind for kind in PII if kind in kinds) or _refuse()  # type: ignore[return-value]


def _file(value: Any) -> str | Path:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise TypeError
    return value


def _choice(*choices: str | None) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        if value not in choices:
            close = nearest(value, [c for c in choices if c]) if isinstance(value, str) else ""
            raise ValueError(f"expected {' or '.join(map(repr, choices))}{close}")
        return value

    return accept


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError
    return value


_COUNT = Rule("a number from 0, or None", _count)
_SOME = Rule("a number from 1 to 100000", _some)
_SHARE = Rule("a number from 0 to 1, or None", _float(1))
_ANY = Rule("a number from 0, or None", _float(_LARGEST))
_FLAG = Rule("True or False", _flag, is_flag=True)
_WORDS = Rule("several texts, such as ('one', 'two')", _texts)

CHECKS: Mapping[str, Rule] = {
    "duplicates": _FLAG,
    "keep_rejected": _FLAG,
    "min_characters": _COUNT,
    "max_characters": _COUNT,
    "required": _WORDS,
    "licenses": Rule("one or more licences, such as ('mit',), or None", _licenses),
    "pii": Rule("", _choice("reject", "redact", None)),
    "pii_kinds": Rule("one or more kinds of personal data", _kinds),
    "max_pii_density": _ANY,
    "profanity": Rule(
        "the path of a word file, or None", lambda v: None if v is None else _file(v)
    ),
    "max_profanity_density": _ANY,
    "copyright": _WORDS,
    "min_words": _COUNT,
    "max_words": _COUNT,
    "min_word_length": _ANY,
    "max_word_length": _ANY,
    "max_hashes": _ANY,
    "max_ellipses": _ANY,
    "max_bullet_lines": _SHARE,
    "max_ellipsis_lines": _SHARE,
    "min_alphabetic_words": _SHARE,
    "min_stop_words": _COUNT,
    "max_duplicate_paragraphs": _SHARE,
    "max_duplicate_paragraph_characters": _SHARE,
    "max_duplicate_lines": _SHARE,
    "max_duplicate_line_characters": _SHARE,
    "max_top_2gram": _ANY,
    "max_top_3gram": _ANY,
    "max_top_4gram": _ANY,
    **{f"max_duplicate_{n}grams": _SHARE for n in range(5, 11)},
    "min_sentences": _COUNT,
    "lorem_ipsum": _FLAG,
    "curly_brackets": _FLAG,
    "min_punctuated_lines": _SHARE,
    "max_short_lines": _SHARE,
    "max_duplicate_filled_characters": _SHARE,
    "max_newlines": _ANY,
    "gates": _WORDS,
    "language": Rule(
        "a language code such as 'en', or None", lambda v: None if v is None else _name(v)
    ),
    "min_language_probability": _SHARE,
    "language_prefix": _SOME,
    "min_letters": Rule("a number from 0", lambda v: int(_number(v, _LARGEST, (int,)))),
    "undetermined": Rule("", _choice("accept", "reject")),
    "detector": Rule("the name of a detector", _name),
    "vocabulary": Rule("the path of a vocabulary, or 'medical'", _file),
    "min_domain_terms": _COUNT,
    "min_domain_density": _ANY,
    "min_domain_categories": _COUNT,
    "code_score": _SHARE,
    "code_early_gate": _FLAG,
}

THRESHOLDS = tuple(name for name, check in CHECKS.items() if check in (_COUNT, _SHARE, _ANY))

# All rules off, and what has to be something.
BLANK: Mapping[str, Any] = dict.fromkeys(CHECKS) | {
    "duplicates": True,
    "keep_rejected": True,
    "required": (),
    "pii_kinds": PII,
    "max_pii_density": 0.01,
    "max_profanity_density": 0.01,
    "copyright": (),
    "lorem_ipsum": True,
    "curly_brackets": True,
    "gates": (),
    "min_language_probability": 0.9,
    "language_prefix": 500,
    "min_letters": 20,
    "undetermined": "accept",
    "detector": "py3langid",
    "vocabulary": "medical",
    "code_early_gate": False,
}

_GENERAL = {
    "min_characters": 50,
    "pii": "reject",
    "copyright": ("copyright", "©", "all rights reserved"),
    "language": "en",
}
# The heads of source files name who holds the rights, so the phrases are off for code.
_CODE = {"min_characters": 50, "pii": "reject", "code_score": 0.15}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "general": _GENERAL,
    "medical": _GENERAL
    | {"min_domain_terms": 3, "min_domain_density": 0.05, "min_domain_categories": 2},
    "code": _CODE,
    "report": _CODE | {"code_score": 0.43, "code_early_gate": True},
    "gopher": {
        "min_words": 50,
        "max_words": 100_000,
        "min_word_length": 3.0,
        "max_word_length": 10.0,
        "max_hashes": 0.1,
        "max_ellipses": 0.1,
        "max_bullet_lines": 0.9,
        "max_ellipsis_lines": 0.3,
        "min_alphabetic_words": 0.8,
        "min_stop_words": 2,
        "max_duplicate_paragraphs": 0.3,
        "max_duplicate_paragraph_characters": 0.2,
        "max_duplicate_lines": 0.3,
        "max_duplicate_line_characters": 0.2,
        "max_top_2gram": 0.2,
        "max_top_3gram": 0.18,
        "max_top_4gram": 0.16,
        **{f"max_duplicate_{n}grams": round(0.2 - 0.01 * n, 2) for n in range(5, 11)},
    },
    "c4": {"min_sentences": 5, "lorem_ipsum": False, "curly_brackets": False},
    "fineweb": {
        "min_punctuated_lines": 0.12,
        "max_short_lines": 0.67,
        "max_duplicate_filled_characters": 0.01,
        "max_newlines": 0.3,
    },
}
