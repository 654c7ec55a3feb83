"""Settings of quality: every threshold of every gate, and presets of them.

    preset ─defaults─┐
    arguments, TOML ─┴─checked→ Quality ─to_dict→ JSON that an acquisition stores

The decision that matters: a setting that turns a gate off is None, and what a preset leaves out is
None. So the settings that are stored name each threshold that was used, whatever a later version
of a preset says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from duckplets.base.documents import read_document
from duckplets.base.sanitize import shown
from duckplets.errors import QualityError, nearest
from duckplets.quality import plugins
from duckplets.quality.conditions import Condition, condition
from duckplets.quality.thresholds import BLANK, CHECKS, PRESETS
from duckplets.quality.words import SHIPPED, WordFile, read_terms, read_words

__all__ = ["Quality"]

_PRESET: Any = type("Preset", (), {"__repr__": lambda _: "of the preset"})()


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """What text has to be like to be accepted: thresholds of gates, in the order of the gates.

    The gates are duplicates, schema, content and language_domain; the first that a row fails is
    its reason, and its rule has the name of the setting below. What is not given is as the preset
    has it, and None turns a rule off. A density is a number of matches for each word between white
    space. A limit is passed where it is exceeded, not where it is reached.

    Presets: ``general`` (at least 50 characters, personal data in at most 1 % of the words, none
    of three copyright phrases, English); ``medical`` (the same, and medical terms); ``code`` (at
    least 50 characters, personal data, code by a score of .15); ``report`` (code by a score of .43
    after a look at the first 256 characters); ``gopher``, ``c4`` and ``fineweb`` (the rules of
    these data sets, and no others).

    Attributes:
        preset: Where settings that are not given come from.
        duplicates: Whether equal texts are rejected but for one.
        keep_rejected: Whether the text of rejected rows is stored.
        min_characters: Of a text.
        max_characters: Of a text.
        required: Fields of a row that have to be there and not blank, such as ``("title",)``.
        licenses: Allowed values of the row's ``license``, whatever their case; a row without one
            is rejected.
        pii: ``"reject"`` by density, ``"redact"``: matches are replaced and nothing is rejected.
        pii_kinds: Which personal data counts, of email, phone, ssn, ipv4 and card. Looked for is
            what is written in ASCII. Preprocessors come first, so ``Corpus.normalise()`` before
            the ingest finds also what no-break spaces, typographic dashes or zero-width characters
            hide. Not looked for are names, IPv6 and postal addresses, full-width digits and ``＠``,
            e-mail addresses with letters beyond ASCII, and numbers over several lines.
        max_pii_density: Of personal data.
        profanity: A file with a word or phrase a line; variants such as ``sh1t`` are found, too.
        max_profanity_density: Of these words.
        copyright: Phrases of which none may stand in a text, whatever their case; () for off.
        min_words: Tokens that are not punctuation. From here on down to ``min_stop_words``: Gopher.
        max_words: Tokens that are not punctuation.
        min_word_length: Their mean length in characters.
        max_word_length: Their mean length in characters.
        max_hashes: ``#`` for each token.
        max_ellipses: ``...`` and ``…`` for each token.
        max_bullet_lines: Share of lines that begin with ``•`` or ``-``.
        max_ellipsis_lines: Share of lines that end with ``...`` or ``…``.
        min_alphabetic_words: Share of tokens with a letter.
        min_stop_words: How many of ``the be to of and that have with`` occur.
        max_duplicate_paragraphs: Share of paragraphs that stood before. Gopher's repetition rules
            down to ``max_duplicate_10grams``.
        max_duplicate_paragraph_characters: Of characters, in such paragraphs.
        max_duplicate_lines: Share of lines that stood before.
        max_duplicate_line_characters: Of characters, in such lines.
        max_top_2gram: Share of characters in the most frequent two tokens.
        max_top_3gram: In the most frequent three.
        max_top_4gram: In the most frequent four.
        max_duplicate_5grams: Share of characters in five tokens that stood before.
        max_duplicate_6grams: In six.
        max_duplicate_7grams: In seven.
        max_duplicate_8grams: In eight.
        max_duplicate_9grams: In nine.
        max_duplicate_10grams: In ten.
        min_sentences: Of lines that C4 keeps.
        lorem_ipsum: False rejects a text with a line that says so.
        curly_brackets: False rejects a text with ``{`` in a line.
        min_punctuated_lines: Share of lines that end a sentence. FineWeb down to ``max_newlines``.
        max_short_lines: Share of lines of at most 30 characters.
        max_duplicate_filled_characters: Of characters, in lines that stood before.
        max_newlines: Line breaks for each token.
        gates: SQL conditions over metrics and ``text`` that have to be true, and names of
            registered functions.
        language: Code of the language that is wanted.
        min_language_probability: Of that language.
        language_prefix: Characters that are looked at.
        min_letters: A prefix with fewer is ``undetermined``.
        undetermined: ``"accept"`` or ``"reject"``.
        detector: ``"py3langid"``, or a name that was registered.
        vocabulary: JSON or TOML file of terms by category, or ``"medical"``.
        min_domain_terms: Terms of the vocabulary in a text.
        min_domain_density: Of such terms.
        min_domain_categories: Categories that these are of.
        code_score: Least score of code.
        code_early_gate: Whether the first 256 characters need indentation and structure as well.

    Raises:
        QualityError: A setting is not what it may be, or a word file is missing, empty or
            malformed.
    """

    preset: str = field(default="general", kw_only=False)
    duplicates: bool = _PRESET
    keep_rejected: bool = _PRESET
    min_characters: int | None = _PRESET
    max_characters: int | None = _PRESET
    required: tuple[str, ...] = _PRESET
    licenses: tuple[str, ...] | None = _PRESET
    pii: str | None = _PRESET
    pii_kinds: tuple[str, ...] = _PRESET
    max_pii_density: float | None = _PRESET
    profanity: str | Path | None = _PRESET
    max_profanity_density: float | None = _PRESET
    copyright: tuple[str, ...] = _PRESET
    min_words: int | None = _PRESET
    max_words: int | None = _PRESET
    min_word_length: float | None = _PRESET
    max_word_length: float | None = _PRESET
    max_hashes: float | None = _PRESET
    max_ellipses: float | None = _PRESET
    max_bullet_lines: float | None = _PRESET
    max_ellipsis_lines: float | None = _PRESET
    min_alphabetic_words: float | None = _PRESET
    min_stop_words: int | None = _PRESET
    max_duplicate_paragraphs: float | None = _PRESET
    max_duplicate_paragraph_characters: float | None = _PRESET
    max_duplicate_lines: float | None = _PRESET
    max_duplicate_line_characters: float | None = _PRESET
    max_top_2gram: float | None = _PRESET
    max_top_3gram: float | None = _PRESET
    max_top_4gram: float | None = _PRESET
    max_duplicate_5grams: float | None = _PRESET
    max_duplicate_6grams: float | None = _PRESET
    max_duplicate_7grams: float | None = _PRESET
    max_duplicate_8grams: float | None = _PRESET
    max_duplicate_9grams: float | None = _PRESET
    max_duplicate_10grams: float | None = _PRESET
    min_sentences: int | None = _PRESET
    lorem_ipsum: bool = _PRESET
    curly_brackets: bool = _PRESET
    min_punctuated_lines: float | None = _PRESET
    max_short_lines: float | None = _PRESET
    max_duplicate_filled_characters: float | None = _PRESET
    max_newlines: float | None = _PRESET
    gates: tuple[str, ...] = _PRESET
    language: str | None = _PRESET
    min_language_probability: float | None = _PRESET
    language_prefix: int = _PRESET
    min_letters: int = _PRESET
    undetermined: str = _PRESET
    detector: str = _PRESET
    vocabulary: str | Path = _PRESET
    min_domain_terms: int | None = _PRESET
    min_domain_density: float | None = _PRESET
    min_domain_categories: int | None = _PRESET
    code_score: float | None = _PRESET
    code_early_gate: bool = _PRESET
    profane: WordFile | None = field(init=False, repr=False)
    terms: WordFile = field(init=False, repr=False)
    conditions: tuple[Condition, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Fill in the preset, check every setting and read the word files."""
        if self.preset not in PRESETS:
            close = nearest(str(self.preset), PRESETS)
            raise QualityError(
                f"preset={shown(repr(self.preset))}{close}: known are {', '.join(PRESETS)}"
            )
        own_values = {**BLANK, **PRESETS[self.preset]}
        for name, check in CHECKS.items():
            given = getattr(self, name)
            value = own_values[name] if given is _PRESET else check(name, given)
            object.__setattr__(self, name, value)
        if self.language is not None:
            _check_language(self.language, self.detector)
        profane = None if self.profanity is None else read_words(self.profanity)
        object.__setattr__(self, "profane", profane)
        object.__setattr__(self, "terms", read_terms(self.vocabulary))
        object.__setattr__(self, "conditions", tuple(map(condition, self.gates)))

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return settings from what stands for them.

        Args:
            value: Settings, the name of a preset, a TOML file, or a mapping of settings, such as
                ``to_dict`` gives.

        Raises:
            QualityError: It is none of these, a setting is wrong, or a word file is not what it
                was when the mapping was made.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            return cls._of_mapping(value, "quality")
        if isinstance(value, str) and value in PRESETS:
            return cls(preset=value)
        if isinstance(value, Path) or (isinstance(value, str) and value.endswith(".toml")):
            return cls.from_toml(value)
        raise QualityError(
            f"quality={shown(repr(value))}{nearest(str(value), PRESETS)}: expected one of "
            f"{', '.join(PRESETS)}, a file that ends in .toml, a mapping, or dp.Quality(...)"
        )

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read settings from a file: a key for each, and ``false`` for None.

        They stand at the top or in a table ``quality``. Word files are found from the folder of
        the file.

        Raises:
            QualityError: It cannot be read, or a setting is wrong.
        """
        path = Path(path)
        table = read_document(path, "TOML", QualityError)
        if set(table) == {"quality"} and isinstance(table["quality"], Mapping):
            table = table["quality"]
        for name in ("profanity", "vocabulary"):
            file = table.get(name)
            if isinstance(file, str) and not (name == "vocabulary" and file == SHIPPED):
                table = {**table, name: str(path.parent / file)}
        return cls._of_mapping(table, shown(path))

    @classmethod
    def _of_mapping(cls, table: Mapping[str, Any], where: str) -> Self:
        known = ["preset", *CHECKS]
        for key in table:
            if key not in known and key != "sha256":
                close = nearest(str(key), known)
                raise QualityError(f"{where}: unknown setting {shown(repr(key))}{close}")
        given: dict[str, Any] = {
            name: None if value is False and not CHECKS[name].is_flag else value
            for name, value in table.items()
            if name in CHECKS
        }
        made = cls(preset=table.get("preset", "general"), **given)
        for name, digest in (table.get("sha256") or {}).items():
            if made._digests().get(name) != digest:
                raise QualityError(
                    f"{where}: {name}={shown(repr(table.get(name)))} is not the file that it was "
                    f"when these settings were stored: its words have changed"
                )
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain JSON values, with the digests of the word files."""
        settings: dict[str, Any] = {"preset": self.preset}
        for name in CHECKS:
            value = getattr(self, name)
            value = list(value) if isinstance(value, tuple) else value
            settings[name] = str(value) if isinstance(value, Path) else value
        return settings | {"sha256": self._digests()}

    def fingerprint(self) -> str:
        """Return the SHA-256 of what decides: the settings, and what the word files say."""
        ignored = {"preset", "profanity", "vocabulary", "keep_rejected"}
        settings = {name: value for name, value in self.to_dict().items() if name not in ignored}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def _digests(self) -> dict[str, str]:
        digests = {"vocabulary": self.terms.sha256}
        return digests if self.profane is None else digests | {"profanity": self.profane.sha256}


def _check_language(code: str, detector: str) -> None:
    """Refuse a code that the detector never returns."""
    from duckplets.quality.language import CODES

    known = CODES if detector == "py3langid" else plugins.detector(detector).languages
    if code not in known:
        raise QualityError(
            f"language={code!r}{nearest(code, known)}: {detector} knows {', '.join(sorted(known))}"
        )
