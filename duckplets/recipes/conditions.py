"""Parse and check the conditions that users write in recipes, and return sqlglot trees.

A condition is one boolean expression over the columns of a record and one of its sections. What
is not known to be harmless is refused: the syntax, the functions and the types are allow-lists,
so a subquery, a table, a file or a setting has no way in. Nothing here touches a database.

Functions reach DuckDB under the name the user gave: sqlglot's own function nodes are switched
off, because they rewrite calls between dialects. What may stand in a condition is in
``condition_rules``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from duckplets.errors import RecipeError
from duckplets.recipes.condition_costs import LONG_COLUMNS, check_costs
from duckplets.recipes.condition_rules import (
    COLUMNS,
    FUNCTIONS,
    PIECES,
    check_reading,
    check_text,
    check_tokens,
    check_tree,
    check_types,
    short,
)

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "COLUMNS",
    "FUNCTIONS",
    "PairCondition",
    "free_condition",
    "pair_condition",
    "where_condition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """A condition on an anchor and a candidate negative, taken apart for a join.

    Terms are evaluated for every row, also where a CASE or an AND around them would have spared
    it: ``try_cast`` is the safe way to turn text into a number.

    Attributes:
        tree: The condition over the columns ``anchor.a0, anchor.a1, …, negative.n0, …``.
        anchor_terms: What ``a0, a1, …`` stand for, over columns of ``slot``.
        negative_terms: What ``n0, n1, …`` stand for, over columns of ``slot``.
        equality: Where the condition is true, an anchor term equals a negative term.
        inequality: Where the condition is false, an anchor term equals a negative term. (Where
            it is NULL, as ``!=`` is beside a NULL, nothing is said.)
    """

    tree: exp.Expression
    anchor_terms: tuple[exp.Expression, ...]
    negative_terms: tuple[exp.Expression, ...]
    equality: bool
    inequality: bool


def where_condition(text: str) -> exp.Expression:
    """Parse the condition of a selector; its columns come back as those of ``slot``.

    The tree is everybody's who asks for this condition: whoever changes it changes a copy.

    Raises:
        RecipeError: It is not one condition over ``COLUMNS`` and ``FUNCTIONS``.
    """
    return _where_condition(_text_of(text))


def pair_condition(text: str) -> PairCondition:
    """Parse the condition of an ``sql()`` strategy, over columns ``anchor.x`` and ``negative.x``.

    Raises:
        RecipeError: It is not one condition over ``COLUMNS`` and ``FUNCTIONS``.
    """
    return _pair_condition(_text_of(text))


def free_condition(text: str, columns: Mapping[str, bool]) -> exp.Expression:
    """Parse a condition over other columns than those of records; they come back in lower case.

    Args:
        text: The condition.
        columns: Names in lower case; true where a column holds texts of any length.

    Raises:
        RecipeError: It is not one condition over these columns and ``FUNCTIONS``.
    """
    from sqlglot import exp

    texts = frozenset(name for name, is_long in columns.items() if is_long)
    tree = _parse(_text_of(text), columns=tuple(columns), texts=texts)
    for column in tree.find_all(exp.Column):
        column.this.replace(exp.to_identifier(column.name.lower(), quoted=True))
    return tree


def _text_of(condition: str) -> str:
    if not isinstance(condition, str) or not condition.strip():
        raise RecipeError(f"a condition is SQL text such as \"role = 'anchor'\", not {condition!r}")
    return condition


@lru_cache(maxsize=4096)
def _where_condition(text: str) -> exp.Expression:
    return _on_slot(_parse(text))


@lru_cache(maxsize=4096)
def _pair_condition(text: str) -> PairCondition:
    tree, terms = _lift(_parse(text, "anchor", "negative"))
    return PairCondition(
        tree=tree,
        anchor_terms=tuple(terms["anchor"].values()),
        negative_terms=tuple(terms["negative"].values()),
        equality=_has_equality(tree, holds=True),
        inequality=_has_equality(tree, holds=False),
    )


def _parse(
    text: str,
    *sides: str,
    columns: Collection[str] = COLUMNS,
    texts: frozenset[str] = LONG_COLUMNS,
) -> exp.Expression:
    """Parse and check a condition over plain columns, or over those of the named sides."""
    from sqlglot import errors, exp

    try:
        check_text(text)
        dialect, parser = _grammar()
        tokens = dialect.tokenize(text)
        check_tokens(text, tokens)
        check_types(tokens, parser.TYPE_TOKENS, columns)
        _read_as_columns(tokens, parser.TYPE_TOKENS, columns)
        trees = parser(dialect=dialect).parse_into(exp.Condition, tokens, text)
        if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
            raise RecipeError("not one condition")
        check_tree(trees[0], sides, columns)
        check_reading(trees[0], tokens, parser.TYPE_TOKENS)
        check_costs(trees[0], texts)
    except errors.SqlglotError as error:
        raise _refusal(text, f"not a condition in DuckDB's SQL{_near(error)}") from error
    except RecursionError as error:
        raise _refusal(text, "nested too deeply") from error
    except RecipeError as error:
        raise _refusal(text, str(error)) from None
    return trees[0]


def _read_as_columns(tokens: list[Any], types: set[Any], columns: Collection[str]) -> None:
    """Let the text in ``text[:500]`` be a column, where sqlglot would read a type."""
    for before, token, bracket, colon in zip(
        [None, *tokens], tokens, tokens[1:], tokens[2:], strict=False
    ):
        sliced = token.text.lower() in columns and (bracket.text, colon.text) == ("[", ":")
        cast = before is not None and before.text.lower() in ("::", "as")
        if sliced and token.token_type in types and not cast:
            token.token_type = type(token.token_type).VAR


def _refusal(condition: str, why: str) -> RecipeError:
    return RecipeError(f"condition {short(condition)!r}: {why}")


def _near(error: Any) -> str:
    """Say where sqlglot stopped, when it knows."""
    details = getattr(error, "errors", None)
    return f" near {details[0]['highlight']!r}" if details and details[0]["highlight"] else ""


@cache
def _grammar() -> tuple[Any, Any]:
    """Return DuckDB's dialect, and its parser less all knowledge of single functions."""
    from sqlglot.dialects.duckdb import DuckDB

    base: Any = DuckDB.Parser
    rules = {
        "FUNCTIONS": {},
        "FUNCTION_PARSERS": {n: base.FUNCTION_PARSERS[n] for n in ("CAST", "TRY_CAST", "EXTRACT")},
        "NO_PAREN_FUNCTIONS": {},
        "NO_PAREN_FUNCTION_PARSERS": {"CASE": base.NO_PAREN_FUNCTION_PARSERS["CASE"]},
    }
    return DuckDB(), type(base)("ConditionParser", (base,), rules)


def _on_slot(tree: exp.Expression) -> exp.Expression:
    """Name the columns of a tree in lower case as those of ``slot``."""
    from sqlglot import exp

    for column in list(tree.find_all(exp.Column)):
        new = exp.column(column.name.lower(), table="slot")
        if column is tree:
            return new
        column.replace(new)
    return tree


def _lift(tree: exp.Expression) -> tuple[exp.Expression, dict[str, dict[str, exp.Expression]]]:
    """Replace what looks at one side only, in the order of the text, by numbered columns.

    Returns:
        The new tree, and for each side its terms under their own SQL, which is what makes two
        spellings of one term the same term.
    """
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    sides = _sides(tree)
    terms: dict[str, dict[str, exp.Expression]] = {"anchor": {}, "negative": {}}
    holder = exp.Paren(this=tree)
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        seen = sides.get(id(node), frozenset())
        if len(seen) == 1 and type(node).__name__ not in PIECES:
            (side,) = seen
            term = _on_slot(node.unnest().copy())
            sql = term.sql(dialect=DuckDB)
            terms[side].setdefault(sql, term)
            number = list(terms[side]).index(sql)
            node.replace(exp.column(f"{side[0]}{number}", table=side))
        elif seen:
            stack.extend(reversed(list(node.iter_expressions())))
    return holder.this, terms


def _sides(tree: exp.Expression) -> dict[int, frozenset[str]]:
    """Return, by the id of a node, which sides the columns under it belong to."""
    from sqlglot import exp

    sides: dict[int, frozenset[str]] = {}
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Column):
            sides[id(node)] = frozenset({node.table.lower()})
        if node.parent is not None and id(node) in sides:
            above = sides.get(id(node.parent), frozenset())
            sides[id(node.parent)] = above | sides[id(node)]
    return sides


def _has_equality(tree: exp.Expression, *, holds: bool) -> bool:
    """Say whether the tree being true (or false) makes two terms of both sides equal."""
    from sqlglot import exp

    stack: list[tuple[Any, bool]] = [(tree, holds)]
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
