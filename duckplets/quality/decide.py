"""Decide the outcome of rows by metrics and thresholds alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Floats
from duckplets.db.database import Database
from duckplets.quality.conditions import is_true
from duckplets.quality.language import UNDETERMINED
from duckplets.quality.metrics import whole
from duckplets.quality.settings import PII, RULES, SETTINGS, Quality

_NEEDS = {  # rules that are off while another setting is None
    "max_profanity_density": "profanity",
    "undetermined": "language",
    "min_language_probability": "language",
    "code_early_gate": "code_score",
}


def _is_on(quality: Quality, rule: str) -> bool:
    value = getattr(quality, rule)
    if rule in _NEEDS and getattr(quality, _NEEDS[rule]) is None:
        return False
    if rule in ("lorem_ipsum", "curly_brackets"):
        return not value
    if rule == "max_pii_density" and quality.pii != "reject":
        return False
    return value is not None and value is not False and value != ()


def needed(quality: Quality) -> frozenset[str]:
    """Return the metrics that settings need, ``own:NAME`` for registered functions."""
    on = [rule for rule in RULES if _is_on(quality, rule)]
    names = {metric for rule in on for metric in RULES[rule]}
    if "max_pii_density" in on:
        names |= {PII[kind] for kind in quality.pii_kinds}
    return frozenset(names.union(*(condition.metrics for condition in quality.conditions)))


def decide(database: Database, metrics: pa.Table, quality: Quality) -> pa.Table:
    """Return ``row``, ``outcome`` (accepted or rejected), ``gate`` and ``rule`` for each row."""
    count = metrics.num_rows
    gate, rule = np.full(count, None, object), np.full(count, None, object)

    def reject(places: Flags, by: str, why: str) -> None:
        first = places & (rule == None)  # noqa: E711 - of each element
        gate[first], rule[first] = by, why

    metrics = whole(metrics)
    for name, facts in SETTINGS.items():
        if name == "gates":
            for condition in quality.conditions:
                reject(~is_true(database, condition, metrics), "content", condition.text)
        elif name in RULES and name != "duplicates" and _is_on(quality, name):
            reject(fails(name, quality, metrics), facts["gate"], name)
    outcome = np.where(rule == None, "accepted", "rejected")  # noqa: E711 - of each element
    columns = {"outcome": outcome, "gate": gate, "rule": rule}
    texts = {name: pa.array(values.tolist(), pa.string()) for name, values in columns.items()}
    return pa.table({"row": metrics["row"]} | texts).combine_chunks()


def _floats(metrics: pa.Table, name: str) -> Floats:
    """Return a metric, NaN where it is null."""
    values: Floats = metrics[name].cast(pa.float64()).to_numpy()
    return values


def _ratio(values: Floats, divisor: Floats) -> Floats:
    """Return quotients, infinite where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.where((divisor == 0) & ~np.isnan(values), np.inf, values / divisor)
    return ratios


def fails(rule: str, quality: Quality, metrics: pa.Table) -> Flags:
    """Return which rows fail one rule; ``metrics`` has all columns, and NaN fails no rule."""
    if rule in _OTHERS:
        return _OTHERS[rule](metrics, quality)
    values, *others = (_floats(metrics, name) for name in RULES[rule])
    if others:
        values = _ratio(values, others[0] if len(others) == 1 else others[0] - others[1])
    compare = np.less if rule.startswith("min_") else np.greater
    failed: Flags = compare(values, getattr(quality, rule))
    return failed


def _required(metrics: pa.Table, quality: Quality) -> Flags:
    present = metrics["present"].combine_chunks()
    owners = pc.list_parent_indices(present).to_numpy()
    names = present.flatten()
    lacks = np.zeros(len(present), np.bool_)
    for name in quality.required:
        has = np.zeros(len(present), np.bool_)
        has[owners[pc.equal(names, name).to_numpy(zero_copy_only=False)]] = True
        lacks |= ~has
    return lacks


def _licenses(metrics: pa.Table, quality: Quality) -> Flags:
    found = pc.utf8_lower(pc.utf8_trim(metrics["license"], " "))
    allowed = [name.strip().lower() for name in quality.licenses or ()]
    return ~_true(pc.is_in(found, pa.array(allowed, pa.string())))


def _max_pii_density(metrics: pa.Table, quality: Quality) -> Flags:
    found = sum(np.nan_to_num(_floats(metrics, PII[kind])) for kind in quality.pii_kinds)
    density = _ratio(np.asarray(found), _floats(metrics, "words"))
    limit: Any = quality.max_pii_density
    failed: Flags = density > limit
    return failed


def _undetermined(metrics: pa.Table, quality: Quality) -> Flags:
    is_rejected = quality.undetermined == "reject"
    return _true(pc.equal(metrics["language"], UNDETERMINED)) & is_rejected


def _language(metrics: pa.Table, quality: Quality) -> Flags:
    code = metrics["language"]
    known = pc.is_in(code, pa.array([UNDETERMINED, quality.language]))
    return _true(pc.is_valid(code)) & ~_true(known)


def _min_language_probability(metrics: pa.Table, quality: Quality) -> Flags:
    is_language = _true(pc.equal(metrics["language"], quality.language))
    limit: Any = quality.min_language_probability
    failed: Flags = is_language & (_floats(metrics, "language_probability") < limit)
    return failed


def _code_score(metrics: pa.Table, quality: Quality) -> Flags:
    """Compare the code score of the preset ``report``, whose weights are in hundredths."""
    lines = _floats(metrics, "code_lines")
    symbols, characters = _floats(metrics, "code_symbols"), _floats(metrics, "code_characters")
    score = _ratio(45 * _floats(metrics, "code_indented"), lines)
    score = score + 30 * _ratio(symbols, characters)
    score = score + 25 * _ratio(_floats(metrics, "code_keywords"), _floats(metrics, "code_words"))
    limit: Any = quality.code_score
    failed: Flags = np.where(lines < 3, 0, score / 100) < limit
    return failed


def _true(answers: pa.Array) -> Flags:
    found: Flags = pc.fill_null(answers, False).to_numpy(zero_copy_only=False)
    return found


# rules that are not a comparison with a limit
_OTHERS: Mapping[str, Callable[[pa.Table, Quality], Flags]] = {
    "required": _required,
    "licenses": _licenses,
    "max_pii_density": _max_pii_density,
    "copyright": lambda metrics, _: _floats(metrics, "copyright") > 0,
    "lorem_ipsum": lambda metrics, _: _floats(metrics, "lorem_ipsum") > 0,
    "curly_brackets": lambda metrics, _: _floats(metrics, "curly_brackets") > 0,
    "undetermined": _undetermined,
    "language": _language,
    "min_language_probability": _min_language_probability,
    "code_early_gate": lambda metrics, _: _true(pc.equal(metrics["code_early"], False)),
    "code_score": _code_score,
}
