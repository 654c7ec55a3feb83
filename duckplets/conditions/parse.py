"""Parse and check the conditions of users, and return sqlglot trees.

text ─DuckDB's parser→ allowed ─sqlglot→ equal again? ─→ limited (costs) ─→ tree

A condition is one boolean expression over the columns of a record and one of its sections. DuckDB's
parser reads it, and only listed elements may occur (``allowed``). The library sqlglot reads it too,
for composing pools. Its tree is used only if DuckDB reads it back as the same condition, with and
without parentheses around every part.

Functions keep the name that the user wrote: sqlglot's own function nodes are switched off, since
they rewrite calls between dialects. Importing this module imports sqlglot, so recipes import it
only if they have a condition.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from sqlglot import errors, exp
from sqlglot.dialects.duckdb import DuckDB

from duckplets.conditions.allowed import COLUMNS, check_reading, check_text, form, short
from duckplets.conditions.costs import LONG_COLUMNS, PIECES, Costs, check_costs, sql_of
from duckplets.db.parser import reading
from duckplets.errors import RecipeError

_SPAN = re.compile(r"\b(interval\s*)'\s*([+-]?\d+)\s*([a-z]+)\s*'", re.IGNORECASE)
_KEYWORDS = ("interval", "null")  # types to sqlglot
_OF_CHUNKS = {"kind", "window_index"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """A condition on an anchor and a candidate negative, split into terms for a join."""

    tree: exp.Expression  # over the columns ``anchor.a0, anchor.a1, …, negative.n0, …``
    anchor_terms: tuple[exp.Expression, ...]  # meaning of a0, a1, …, over columns of ``slot``
    negative_terms: tuple[exp.Expression, ...]  # meaning of n0, n1, …, in the same way
    equality: bool  # if the condition is true, an anchor term equals a negative term
    # If it is false, an anchor term equals a negative term. (A NULL result implies nothing.)
    inequality: bool
    is_conjunctive: bool  # it is a conjunction of equalities, and of terms of one side


@lru_cache(maxsize=4096)
def where_condition(text: str) -> exp.Expression:
    """Parse the condition of a selector over ``slot``; the tree is shared: change a copy only."""
    return _on_slot(_parse(text))


@lru_cache(maxsize=4096)
def pair_condition(text: str) -> PairCondition:
    """Parse the condition of an ``sql()`` strategy over ``anchor.x`` and ``negative.x``."""
    tree, terms = _lift(_parse(text, "anchor", "negative"))
    return PairCondition(
        tree=tree,
        anchor_terms=tuple(terms["anchor"].values()),
        negative_terms=tuple(terms["negative"].values()),
        equality=_has_equality(tree, is_true=True),
        inequality=_has_equality(tree, is_true=False),
        is_conjunctive=all(map(_is_simple, _conjuncts(tree))),
    )


def free_condition(text: str, columns: Mapping[str, bool]) -> exp.Expression:
    """Parse a condition over other columns; True marks columns with texts of any length."""
    texts = frozenset(name for name, is_long in columns.items() if is_long)
    tree = _parse(text, columns=tuple(columns), texts=texts)
    for column in tree.find_all(exp.Column):
        column.this.replace(exp.to_identifier(column.name.lower(), quoted=True))
    return tree


def _parse(
    text: str,
    *sides: str,
    columns: Collection[str] = COLUMNS,
    texts: frozenset[str] = LONG_COLUMNS,
) -> exp.Expression:
    """Parse and check a condition over plain columns, or over the columns of sides."""
    if not text.strip():
        raise RecipeError(f"a condition is SQL text such as \"role = 'anchor'\", not {text!r}")
    try:
        check_text(text)
        # sqlglot reads INTERVAL '3 days' as this, DuckDB as a cast
        sql = _SPAN.sub(r"\1'\2' \3", text)
        (frame, parts), count = check_reading(reading(sql), reading("TRUE"), sides, columns, sql)
        dialect, parser = _grammar()
        tokens = dialect.tokenize(sql)
        _read_as_columns(tokens, parser.TYPE_TOKENS)
        tree: exp.Expression
        (tree,) = parser(dialect=dialect).parse_into(exp.Condition, tokens, sql)
        whole = _parenthesised(tree)
        both = form(reading(tree.sql(dialect=dialect), whole))
        if both != (frame, parts * 2) or len(list(tree.find_all(exp.Column))) != count:
            raise RecipeError(f"put parentheses around its parts; it was read as {short(whole)}")
        _check_value(tree)
        check_costs(tree, texts)
    except RecipeError as error:
        raise _refusal(text, str(error)) from None
    except (errors.SqlglotError, ValueError) as error:
        raise _refusal(text, "an ambiguous condition: simplify it") from error
    except RecursionError as error:
        raise _refusal(text, "nested too deeply") from error
    return tree


def _refusal(condition: str, why: str) -> RecipeError:
    return RecipeError(f"condition {short(condition)!r}: {why}")


@cache
def _grammar() -> tuple[Any, Any]:
    """Return DuckDB's dialect, and its parser without special rules for functions."""
    base: Any = DuckDB.Parser
    changed = {
        "FUNCTIONS": {},
        "FUNCTION_PARSERS": {n: base.FUNCTION_PARSERS[n] for n in ("CAST", "TRY_CAST", "EXTRACT")},
        "NO_PAREN_FUNCTIONS": {},
        "NO_PAREN_FUNCTION_PARSERS": {"CASE": base.NO_PAREN_FUNCTION_PARSERS["CASE"]},
    }
    return DuckDB(), type(base)("ConditionParser", (base,), changed)


def _read_as_columns(tokens: list[Any], types: set[Any]) -> None:
    """Let type names be columns or functions, except in casts and before quoted text."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        cast = before is not None and before.text.lower() in ("::", "as")
        literal = after is not None and after.token_type.name == "STRING"
        if token.token_type in types and not (cast or literal or token.text.lower() in _KEYWORDS):
            token.token_type = type(token.token_type).VAR


def _parenthesised(tree: exp.Expression) -> str:
    """Return the SQL of a tree with parentheses around every operation."""
    enclosed = exp.Paren(this=tree.copy())
    for node in reversed(list(enclosed.walk())):
        operation = isinstance(node, exp.Binary | exp.Unary | exp.In | exp.Between | exp.Cast)
        chain = isinstance(node, exp.Connector) and type(node) is type(node.parent)
        if operation and not chain and not isinstance(node.parent, exp.Escape | exp.Paren):
            wrapper = exp.Paren()
            node.replace(wrapper)
            wrapper.set("this", node)
    return str(enclosed.this.sql(dialect=DuckDB, copy=False))


def _check_value(tree: exp.Expression) -> None:
    """Refuse expressions that are not boolean."""
    truths = exp.Predicate | exp.Escape | exp.Boolean | exp.Anonymous | exp.Case
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Connector | exp.Not | exp.Paren):
            stack.extend(node.iter_expressions())
        elif not isinstance(node, truths) and not node.is_type("boolean"):
            raise RecipeError(f"{sql_of(node)} is a value, not a condition: compare it")


def _on_slot(tree: exp.Expression) -> exp.Expression:
    """Qualify columns with ``slot``, in lower case."""

    def named(node: Any) -> Any:
        is_column = isinstance(node, exp.Column)
        return exp.column(node.name.lower(), table="slot") if is_column else node

    found: exp.Expression = tree.transform(named)
    return found


def _lift(tree: exp.Expression) -> tuple[exp.Expression, dict[str, dict[str, exp.Expression]]]:
    """Replace one-sided parts by numbered columns; return the tree, and the terms by SQL."""
    terms: dict[str, dict[str, exp.Expression]] = {"anchor": {}, "negative": {}}
    enclosed = exp.Paren(this=tree)
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        sides = {column.table.lower() for column in node.find_all(exp.Column)}
        if len(sides) == 1 and type(node).__name__ not in PIECES:
            (side,) = sides
            term = _on_slot(node.unnest())
            sql = term.sql(dialect=DuckDB)
            terms[side].setdefault(sql, term)
            number = list(terms[side]).index(sql)
            node.replace(exp.column(f"{side[0]}{number}", table=side))
        elif sides:
            # chains are flattened: columns would be searched at each link
            chain = isinstance(node, exp.Connector)
            parts = node.flatten(unnest=False) if chain else node.iter_expressions()
            stack.extend(reversed(list(parts)))
    return enclosed.this, terms


def _has_equality(tree: exp.Expression, *, is_true: bool) -> bool:
    """Return whether a true (or false) tree implies that terms of both sides are equal."""
    stack: list[tuple[Any, bool]] = [(tree, is_true)]
    while stack:
        node, truth = stack.pop()
        if isinstance(node, exp.Paren | exp.Not):
            stack.append((node.this, truth ^ isinstance(node, exp.Not)))
        elif isinstance(node, exp.And if truth else exp.Or):
            stack.extend((child, truth) for child in node.iter_expressions())
        elif type(node).__name__ in (("EQ", "NullSafeEQ") if truth else ("NEQ", "NullSafeNEQ")):
            columns = [c for c in (node.this, node.expression) if isinstance(c, exp.Column)]
            if {column.table for column in columns} == {"anchor", "negative"}:
                return True
    return False


def _conjuncts(tree: Any) -> list[Any]:
    return list(tree.flatten(unnest=False)) if isinstance(tree, exp.And) else [tree]


def _is_simple(part: Any) -> bool:
    """Return whether a part is an equality of two terms, or a term of one side."""
    bare = part.unnest()
    sides = [bare.this, bare.expression] if isinstance(bare, exp.EQ | exp.NullSafeEQ) else [bare]
    return all(isinstance(side, exp.Column) for side in sides)


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of a condition that depends on the text of a section, not on windows."""

    sql: str  # over columns of ``slot``
    copies: int  # largest number of texts that it produces


def text_facts(
    tree: exp.Expression, where: str | None = None
) -> tuple[exp.Expression, dict[str, Fact]]:
    """Replace parts of a condition on texts, in rows ``where``, by columns of facts."""
    enclosed = exp.Paren(this=tree.copy())
    sizes, facts = Costs(enclosed).sizes, {}
    stack: list[Any] = [enclosed.this]
    while stack:
        node = stack.pop()
        columns = {column.name for column in node.find_all(exp.Column)}
        if "text" not in columns:
            continue
        value = type(node).__name__ not in PIECES | {"Column", "Paren"}
        if value and not columns & _OF_CHUNKS and not sizes[id(node)].is_long:
            sql = node.sql(dialect=DuckDB)
            sql = f"({sql})" if where is None else f"CASE WHEN {where} THEN ({sql}) END"
            name = f"fact_{hashlib.sha256(sql.encode()).hexdigest()[:16]}"
            facts[name] = Fact(sql, Costs(node).copies)
            node.replace(exp.column(name, table="slot"))
        else:
            stack.extend(node.iter_expressions())
    return enclosed.this, facts
