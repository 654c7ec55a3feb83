"""Define the settings of quality: every threshold with its check, metrics and presets."""

# None turns a rule off. Stored settings have every threshold, so a later preset changes none.

# ruff: noqa: RUF009 - the called functions make fields

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from duckplets.base.documents import read_document
from duckplets.base.sanitize import listed, shown
from duckplets.base.settings import Bounds, check, from_plain
from duckplets.errors import QualityError, nearest
from duckplets.quality import plugins
from duckplets.quality.conditions import Condition, condition
from duckplets.quality.words import SHIPPED, WordFile, read_terms, read_words

PII = {
    "email": "emails",
    "phone": "phones",
    "ssn": "ssns",
    "ipv4": "addresses",
    "ipv6": "ipv6_addresses",
    "iban": "ibans",
    "card": "cards",
}
"""Kinds of personal data, and the metric of each."""

PRESETS: Mapping[str, str | None] = {
    "general": None,
    "medical": "general",
    "code": None,
    "report": "code",
    "gopher": None,
    "c4": None,
    "fineweb": None,
}
"""Presets, and the preset that each extends."""

_PRESET: Any = type("Preset", (), {"__repr__": lambda _: "of the preset"})()
_LARGEST = 1 << 40
_RIGHTS = ("copyright", "©", "all rights reserved")
_CODE = ("code_lines", "code_indented", "code_symbols", "code_characters", "code_keywords")

Count = Annotated[int, Bounds(0, _LARGEST)] | None
Share = Annotated[float, Bounds(0, 1)] | None
Amount = Annotated[float, Bounds(0, _LARGEST)] | None
Texts = tuple[str, ...]
Kinds = tuple[Literal["email", "phone", "ssn", "ipv4", "ipv6", "iban", "card"], ...]


def _rule(gate: str | None, *metrics: str, off: Any = None, **presets: Any) -> Any:
    """Declare a setting."""
    facts = {"gate": gate, "metrics": metrics, "off": off, "presets": presets}
    return field(default=_PRESET, metadata=facts)


_setting = partial(_rule, None)
_schema, _content = partial(_rule, "schema"), partial(_rule, "content")
_domain = partial(_rule, "language_domain")


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """Thresholds that a text must meet to be accepted, in the order of the gates.

    The gates are duplicates, schema, content and language_domain. The reason for a rejected row is
    the first gate that it fails; the rule has the name of the setting below. The preset gives the
    value of every setting that you omit. None turns a rule off. A density is the number of matches
    divided by the number of words between white space. A value equal to the limit is accepted.

    Presets:

    - ``general``: at least 50 characters, personal data in at most 1 % of the words, none of three
      copyright phrases, English.
    - ``medical``: the same, and medical terms.
    - ``code``: at least 50 characters, personal data, a code score of at least .15.
    - ``report``: a code score of at least .43, after a check of the first 256 characters.
    - ``gopher``, ``c4`` and ``fineweb``: the rules of these data sets, and no others.

    Attributes:
        preset: The preset of omitted settings.
        duplicates: Whether to reject all equal texts except the first.
        keep_rejected: Whether to store the text of rejected rows. It is stored redacted if the row
            fails ``max_pii_density``.
        min_characters: Least number of characters.
        max_characters: Largest number of characters.
        required: Fields that must not be blank in a row, such as ``("title",)``: columns with
            text or metadata, ``id``, ``date``, ``group_key``, ``taxonomy``, ``created_at`` and
            ``updated_at``. A field that the source does not store is an error.
        licenses: Allowed values of the metadata column ``license``, in any case. A row without a
            licence is rejected; a source without ``meta="license"`` is an error.
        pii: ``"reject"`` rejects texts by density. ``"redact"`` replaces matches and rejects none.
        pii_kinds: Kinds of personal data to count: ``email``, ``phone``, ``ssn``, ``ipv4``,
            ``ipv6``, ``iban`` and ``card``. They must be written in ASCII. Preprocessors run first,
            so ``Corpus.chunk(normalise=True)`` before the ingest also finds data with no-break
            spaces, typographic dashes or zero-width characters. Gates do not find names, postal
            addresses, full-width digits and ``＠``, e-mail addresses with letters beyond ASCII, and
            numbers over several lines. They ignore numbers of versions and sections, such as
            ``version 1.2.3.4``, and names of files, such as ``icon@2x.png``.
        max_pii_density: Largest density of personal data.
        profanity: A file with a word or phrase a line. Whole words are found in any case, as the
            file spells them: list disguised spellings, such as ``d@mn``, too. None: off, as in all
            presets, for the package has no list.
        max_profanity_density: Largest density of these words.
        copyright: Phrases that reject a text, in any case; () turns the rule off.
        min_words: Least number of tokens that are not punctuation. The rules from here down to
            ``min_stop_words`` are Gopher's.
        max_words: Largest number of such tokens.
        min_word_length: Least mean length of such tokens in characters.
        max_word_length: Largest mean length of such tokens in characters.
        max_hashes: ``#`` for each token.
        max_ellipses: ``...`` and ``…`` for each token.
        max_bullet_lines: Share of lines that begin with ``•`` or ``-``.
        max_ellipsis_lines: Share of lines that end with ``...`` or ``…``.
        min_alphabetic_words: Share of tokens with a letter.
        min_stop_words: How many of ``the be to of and that have with`` occur.
        max_duplicate_paragraphs: Share of paragraphs that occurred before in the text. The rules
            down to ``max_duplicate_10grams`` are Gopher's repetition rules.
        max_duplicate_paragraph_characters: Share of characters in such paragraphs.
        max_duplicate_lines: Share of lines that occurred before in the text.
        max_duplicate_line_characters: Share of characters in such lines.
        max_top_2gram: Share of characters in the most frequent two tokens.
        max_top_3gram: Share of characters in the most frequent three tokens.
        max_top_4gram: Share of characters in the most frequent four tokens.
        max_duplicate_5grams: Share of characters in five tokens that occurred before.
        max_duplicate_6grams: The same for six tokens.
        max_duplicate_7grams: The same for seven tokens.
        max_duplicate_8grams: The same for eight tokens.
        max_duplicate_9grams: The same for nine tokens.
        max_duplicate_10grams: The same for ten tokens.
        min_sentences: Least number of sentences in the lines that C4 keeps.
        lorem_ipsum: False rejects a text with a line that contains "lorem ipsum".
        curly_brackets: False rejects a text with ``{`` in a line.
        min_punctuated_lines: Share of lines that end a sentence. The rules down to
            ``max_newlines`` are FineWeb's.
        max_short_lines: Share of lines of at most 30 characters.
        max_duplicate_filled_characters: Share of characters in lines that occurred before.
        max_newlines: Line breaks for each token.
        gates: SQL conditions over metrics and ``text`` that must be true, and names of registered
            functions.
        language: Code of the language to accept.
        min_language_probability: Least probability of that language.
        language_prefix: Number of characters that the detector reads.
        min_letters: A prefix with fewer letters is ``undetermined``.
        undetermined: ``"accept"`` or ``"reject"``.
        detector: ``"py3langid"``, or a registered name.
        vocabulary: JSON or TOML file of terms by category, or ``"medical"``.
        min_domain_terms: Least number of terms of the vocabulary in a text.
        min_domain_density: Least density of such terms.
        min_domain_categories: Least number of categories of such terms.
        code_score: Least score of code.
        code_early_gate: Whether the first 256 characters need indentation and structure as well.

    Raises:
        QualityError: A setting has a wrong value, or a word file is missing, empty or malformed.
    """

    preset: str = field(default="general", kw_only=False)
    duplicates: bool = _rule("duplicates", "sha256", off=True)
    keep_rejected: bool = _setting(off=True)
    required: Texts = _schema("present", off=())
    min_characters: Count = _schema("characters", general=50, code=50)
    max_characters: Count = _schema("characters")
    licenses: Texts | None = _schema("license")
    pii: Literal["reject", "redact"] | None = _setting(general="reject", code="reject")
    pii_kinds: Kinds = _setting(off=tuple(PII))
    max_pii_density: Amount = _content("words", off=0.01)
    profanity: str | Path | None = _setting()
    max_profanity_density: Amount = _content("profanity", "words", off=0.01)
    # The heads of source files name the owner of the rights, so the phrases are off for code.
    copyright: Texts = _content("copyright", off=(), general=_RIGHTS)
    min_words: Count = _content("plain_tokens", gopher=50)
    max_words: Count = _content("plain_tokens", gopher=100_000)
    min_word_length: Amount = _content("plain_characters", "plain_tokens", gopher=3.0)
    max_word_length: Amount = _content("plain_characters", "plain_tokens", gopher=10.0)
    max_hashes: Amount = _content("hashes", "tokens", gopher=0.1)
    max_ellipses: Amount = _content("ellipses", "tokens", gopher=0.1)
    max_bullet_lines: Share = _content("bullet_lines", "lines", gopher=0.9)
    max_ellipsis_lines: Share = _content("ellipsis_lines", "lines", gopher=0.3)
    min_alphabetic_words: Share = _content("alphabetic_tokens", "tokens", gopher=0.8)
    min_stop_words: Count = _content("stop_words", gopher=2)
    max_duplicate_paragraphs: Share = _content("duplicate_paragraphs", "paragraphs", gopher=0.3)
    max_duplicate_paragraph_characters: Share = _content(
        "duplicate_paragraph_characters", "characters", gopher=0.2
    )
    max_duplicate_lines: Share = _content("duplicate_lines", "pieces", gopher=0.3)
    max_duplicate_line_characters: Share = _content(
        "duplicate_line_characters", "characters", gopher=0.2
    )
    max_top_2gram: Amount = _content("top_2gram", "characters", gopher=0.2)
    max_top_3gram: Amount = _content("top_3gram", "characters", gopher=0.18)
    max_top_4gram: Amount = _content("top_4gram", "characters", gopher=0.16)
    max_duplicate_5grams: Share = _content("duplicate_5grams", "characters", gopher=0.15)
    max_duplicate_6grams: Share = _content("duplicate_6grams", "characters", gopher=0.14)
    max_duplicate_7grams: Share = _content("duplicate_7grams", "characters", gopher=0.13)
    max_duplicate_8grams: Share = _content("duplicate_8grams", "characters", gopher=0.12)
    max_duplicate_9grams: Share = _content("duplicate_9grams", "characters", gopher=0.11)
    max_duplicate_10grams: Share = _content("duplicate_10grams", "characters", gopher=0.1)
    lorem_ipsum: bool = _content("lorem_ipsum", off=True, c4=False)
    curly_brackets: bool = _content("curly_brackets", off=True, c4=False)
    min_sentences: Count = _content("sentences", c4=5)
    min_punctuated_lines: Share = _content("punctuated_lines", "filled_lines", fineweb=0.12)
    max_short_lines: Share = _content("short_lines", "filled_lines", fineweb=0.67)
    max_duplicate_filled_characters: Share = _content(
        "duplicate_filled_characters", "characters", "newlines", fineweb=0.01
    )
    max_newlines: Amount = _content("newlines", "tokens", fineweb=0.3)
    gates: Texts = _setting(off=())
    undetermined: Literal["accept", "reject"] = _domain("language", off="accept")
    language: str | None = _domain("language", "language_probability", general="en")
    min_language_probability: Share = _domain("language_probability", off=0.9)
    language_prefix: Annotated[int, Bounds(1, 100_000)] = _setting(off=500)
    min_letters: Annotated[int, Bounds(0, _LARGEST)] = _setting(off=20)
    detector: str = _setting(off="py3langid")
    vocabulary: str | Path = _setting(off=SHIPPED)
    min_domain_terms: Count = _domain("domain_terms", medical=3)
    min_domain_density: Amount = _domain("domain_terms", "words", medical=0.05)
    min_domain_categories: Count = _domain("domain_categories", medical=2)
    code_early_gate: bool = _domain("code_early", off=False, report=True)
    code_score: Share = _domain(*_CODE, "code_words", code=0.15, report=0.43)
    profane: WordFile | None = field(init=False, repr=False)
    terms: WordFile = field(init=False, repr=False)
    conditions: tuple[Condition, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            close = nearest(str(self.preset), PRESETS)
            raise QualityError(
                f"preset={shown(repr(self.preset))}{close}: known are {', '.join(PRESETS)}"
            )
        for name, facts in SETTINGS.items():
            if getattr(self, name) is _PRESET:
                object.__setattr__(self, name, _value_in(self.preset, facts))
            elif getattr(self, name) is None and facts["off"] == ():
                object.__setattr__(self, name, ())
        check(self, QualityError)
        self._check_texts()
        if self.language is not None:
            _check_language(self.language, self.detector)
        profane = None if self.profanity is None else read_words(self.profanity)
        object.__setattr__(self, "profane", profane)
        object.__setattr__(self, "terms", read_terms(self.vocabulary))
        object.__setattr__(self, "conditions", tuple(map(condition, self.gates)))

    def _check_texts(self) -> None:
        kinds = tuple(kind for kind in PII if kind in self.pii_kinds)
        object.__setattr__(self, "pii_kinds", kinds)
        for name in ("pii_kinds", "licenses"):
            if getattr(self, name) == ():
                raise QualityError(f"{name}=(): give one or more, or omit {name}=")
        for name in ("required", "licenses", "copyright", "gates"):
            if not all(text.strip() for text in getattr(self, name) or ()):
                value = shown(repr(getattr(self, name)))
                raise QualityError(f"{name}={value}: a text is blank; remove it")

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return settings from any of their forms.

        Args:
            value: Settings, the name of a preset, a TOML file, or a mapping of settings, as
                ``to_dict`` returns it.

        Raises:
            QualityError: It is none of these, a setting is wrong, or a word file has changed since
                the mapping was made.
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
        """Read settings from a file, with a key for each, and ``false`` for None.

        The keys are at the top or in a table ``quality``. Paths of word files are relative to the
        folder of the file.

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
        values = {name: value for name, value in table.items() if name != "sha256"}
        settings = from_plain(cls, values, QualityError, where)
        for name, digest in (table.get("sha256") or {}).items():
            if settings._digests().get(name) != digest:
                raise QualityError(
                    f"{where}: {name}={shown(repr(table.get(name)))} has changed since these "
                    f"settings were stored: its words have changed"
                )
        return settings

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain JSON values, with the digests of the word files."""
        settings: dict[str, Any] = {"preset": self.preset}
        for name in SETTINGS:
            value = getattr(self, name)
            value = list(value) if isinstance(value, tuple) else value
            settings[name] = str(value) if isinstance(value, Path) else value
        return settings | {"sha256": self._digests()}

    def fingerprint(self) -> str:
        """Return the SHA-256 of the settings and word files."""
        ignored = {"preset", "profanity", "vocabulary", "keep_rejected"}
        settings = {name: value for name, value in self.to_dict().items() if name not in ignored}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def _digests(self) -> dict[str, str]:
        digests = {"vocabulary": self.terms.sha256}
        return digests if self.profane is None else digests | {"profanity": self.profane.sha256}


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    setting.name: setting.metadata for setting in fields(Quality) if setting.metadata
}
"""The facts that ``_rule`` gets about every setting, by name; rules are in the order of checks."""

RULES: Mapping[str, tuple[str, ...]] = {
    name: facts["metrics"] for name, facts in SETTINGS.items() if facts["gate"] is not None
}
"""The metrics that each rule is compared with."""


def _value_in(preset: str | None, facts: Mapping[str, Any]) -> Any:
    """Return the value of a setting in a preset."""
    while preset is not None:
        if preset in facts["presets"]:
            return facts["presets"][preset]
        preset = PRESETS[preset]
    return facts["off"]


def _check_language(code: str, detector: str) -> None:
    """Refuse a language code that the detector never returns."""
    from duckplets.quality.language import CODES

    known = CODES if detector == "py3langid" else plugins.detector(detector).languages
    if code not in known:
        raise QualityError(
            f"language={code!r}{nearest(code, known)}: {detector} knows {listed(sorted(known))}"
        )
