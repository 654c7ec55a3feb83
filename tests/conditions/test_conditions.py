"""Conditions: what is accepted means to DuckDB what its text says, and the rest is refused."""

import re
import time

import duckdb
import pytest
from effort import often, some
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from duckplets.conditions.allowed import COLUMNS, FUNCTIONS
from duckplets.conditions.parse import pair_condition, where_condition
from duckplets.errors import RecipeError

ROWS = """
CREATE TABLE slot AS SELECT * FROM (VALUES
  ('a/1', DATE '2024-02-29', 'g', ['x', 'y'], MAP {'lang': 'en', 'n': '7', 'topic': 't'}, 0.5,
   TIMESTAMP '2024-01-01 10:00:00', TIMESTAMP '2024-01-02', 'a', 0, 'anchor', 'question',
   'it''s a Question; -- no?', 5, 'window', 0),
  ('a/2', DATE '2023-12-31', NULL, ['y'], MAP {'lang': 'de', 'n': 'x', 'topic': 't'}, 1.0,
   TIMESTAMP '2023-01-01 10:00:00', TIMESTAMP '2023-01-02', 'a', 1, 'context', NULL,
   'Größe "drei" 100%', 3, 'window', 1),
  ('b/3', NULL, 'g', NULL, MAP {}, 0.0,
   TIMESTAMP '2022-01-01', TIMESTAMP '2022-01-02', 'b', 2, 'context', 'answer',
   'abc', 1, 'summary', 0),
  ('b/4', DATE '2024-02-29', 'h', [], NULL, 0.25,
   TIMESTAMP '2022-01-01', TIMESTAMP '2022-01-02', 'b', 0, 'anchor', 'question',
   'question', 1, 'window', 0)
) AS rows (record_id, date, group_key, taxonomy, meta, trust, created_at, updated_at, source,
  position, role, heading, text, token_count, kind, window_index)
"""

ACCEPTED = """
DATE = '2024-02-29' AND "Role" = 'anchor'
date >= '2024-01-01' and meta['lang'] = 'en'
created_at < timestamp '2023-06-01 00:00:00' or updated_at is null
date + interval 3 day > date '2024-01-01'
date + interval '3 days' > date '2024-01-01'
date + (interval 1 month) - interval (position) day > '2024-01-01'
year(date) = 2024 and month(date) in (1, 2)
date_diff('day', date, date '2024-03-01') < 30
try_strptime(meta['n'], '%d') is null
taxonomy[1] = 'x'
taxonomy[1:2] = ['x', 'y']
'x' in taxonomy
len(taxonomy) between 1 and 2
meta['missing'] is null
coalesce(meta['lang'], 'none') not in ('en', 'none')
(try_cast(meta['n'] as double) > 3) is not false
position::varchar::int = 1
-position::int = -1
position not between 1 and 2
not (position = 1 or position = 2) and kind = 'window'
position + 2 * window_index - 1 >= 1
position % 2 = 1
(position + 1) // 2 = 1
-position < - 1
trust = 5e-1
trust >= .5
trust < 1_000
heading is null
heading is distinct from 'question'
group_key is distinct from heading
text like '%; -- %'
text like '%/*%' or text like '%''s%'
text like '%100!%' escape '!'
text similar to 'a.c'
text glob '[a-c]*'
regexp_replace(text, '[aeiou]', '', 'g') = 'bc'
contains(text, 'ö') and unicode(text) = 71
upper(left(text, 3)) || '-' || lower(right(text, 1)) = 'ABC-c'
length(trim(replace(text, ' ', ''))) > 3
levenshtein(text[:500], 'abd') <= 1
lower(text) like '%a%b%c%' or text ilike '%QUEST%'
regexp_replace(text, '\\s+', ' ', 'g') = regexp_replace(text[:500], '(a+|b)+', '', 'g')
len(string_split(text, ' ')) > 3 and lower(string_split(text, ' ')[1]) = 'größe'
concat(source, '/', split_part(record_id, '/', 2)) = record_id
case when position = 0 then true when heading is null then null else false end
case kind when 'window' then token_count else 0 end > 2
text = 'a' or text = 'abc' and position = 2
position is null is null
(position = 0) = (window_index = 0)
(date is null) in (true)
cast(position as boolean)
""".strip().splitlines()

REFUSED = {
    # text that is no single condition
    "": "a condition is SQL text",
    "1=1; drop table records": "drop table records",
    "1=1 -- x": "comment",
    "true /* x": "comment",
    "{# x #} true": r"\{ is not allowed",
    "text = 'open": "DuckDB's SQL",
    "role = 'anchor' role": 'near "role"',
    "copy records to 'x'": "DuckDB's SQL",
    "select 1": "subquery",
    "text = 'a\0b'": "NUL",
    "text = '\ud800'": "surrogate",
    # ways to other rows, tables and files
    "exists (select 1)": "subquery",
    "date in (select date from records)": "subquery",
    "position = all(values (1))": "subquery",
    "text like any (['a'])": "DuckDB's SQL",
    "read_text('/etc/passwd') is not null": "read_text",
    "getenv('HOME')='x'": "getenv",
    "sleep_ms(1000) is null": "sleep_ms",
    "main.lower(text) = 'x'": "main.lower",
    "\"read_text\"('x') = 1": "read_text is not on the list",
    "count(*) > 1": "count",
    "lower(text) filter (where true) = 'x'": "FILTER",
    "lower(text) over () = 'x'": "window",
    "lower(distinct text) = 'x'": "DISTINCT",
    "unnest(taxonomy) = 'x'": "unnest",
    "*": "star",
    "position = ?": r"\?",
    "#1 = 1": "#",
    # what is not the same twice
    "random() > 0.5": "the same at any time",
    "date < now()": "the same at any time",
    "created_at < current_timestamp": "the same at any time",
    "created_at::timestamptz = '2024-01-01'": "cast to timestamp",
    "created_at at time zone 'UTC' = '2024-01-01'": "time zone",
    "strptime(text, heading) is null": "format is quoted",
    # columns
    "records.date is null": "so write date",
    "langauge = 'en'": "unknown column langauge",
    "record_key = 1": "unknown column record_key",
    # syntax that is left out
    "text ~ 'a'": "~",
    "position ^ 2 = 1": r"\^",
    "text.lower() = 'x'": "lower\\(text\\)",
    "{'a': 1}['a'] = 1": r"\{",
    "$$x$$ = text": r"\$\$",
    "text collate nocase = 'a'": "COLLATE",
    "(position, 1) = (0, 1)": "function row",
    "text::varchar[] = []": "cast to list",
    "interval 3 fortnights > interval 1 day": "fortnights|near",
    "date + interval 3 day + 1 > date": "put parentheses",
    "date '2024-01-01'::varchar = text": "parentheses",
    "1 < 2 < 3": "DuckDB's SQL",
    "list_filter(taxonomy, x -> x = 'a') = []": "->",
    "len([x for x in taxonomy if x = 'a']) = 1": "lambda",
    # slips that sqlglot forgives
    "levenshtein(text, ) = 1": "DuckDB's SQL|each text",
    "regexp_replace(text, 'a', '',, 'g') = ''": "DuckDB's SQL",
    "position in []": "put parentheses",
    "+text = 'a'": "put parentheses",
    "case when true false end": "THEN|near",
    "try_cast(text as int > 3": "without its other half",
    "date + interval '3 days''x' > date": "interval",
    # nested types, on which sqlglot would spend hours
    "decimal(" * 9 + "1" + ")" * 9 + " = 1": "DuckDB's SQL",
    "array[" * 9 + "1" + "]" * 9 + " = 1": "not allowed",
    'text::"' + "decimal(" * 99 + '" = 1': "cast",
    # what is no condition
    "text": "is a value",
    "null": "is a value",
    "role = 'anchor' and text": "is a value",
}


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute(ROWS)
        yield connection


@pytest.mark.parametrize("text", ACCEPTED)
def test_an_accepted_condition_means_what_its_text_says(text, database):
    def answers(condition):
        query = f"SELECT ({condition}) FROM slot ORDER BY record_id"
        return database.execute(query).fetchall()

    tree = where_condition(text)
    assert all(column.table == "slot" for column in tree.find_all(exp.Column))
    assert answers(tree.sql(dialect="duckdb")) == answers(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_condition_says_why(text):
    with pytest.raises(RecipeError, match=f"(?si){REFUSED[text]}") as caught:
        where_condition(text)
    assert len(str(caught.value)) < 600
    names = "|".join(COLUMNS)  # a strategy refuses what a selector refuses
    with pytest.raises(RecipeError):
        pair_condition(re.sub(rf"(?<![.'\w])({names})\b(?! ')", r"anchor.\1", text))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1=1" + ")" * 10_000,
        "(" * 5_000,
        "not " * 2_000 + "true",
        "lower(" * 1_000 + "text" + ")" * 1_000 + " = 'x'",
        "case when " * 500 + "true" + " then true end" * 500,
        "1" + "::int" * 1_500 + " = 1",
        "taxonomy" + "[1]" * 2_000 + " = 'x'",
        "taxonomy" + "[:]" * 400 + " = 'x'",
        "text" + ".lower()" * 1_200 + " = 'x'",
        "1" + " + 1" * 2_000 + " = 1",
        "true is true" + " is true" * 1_000,
        " and ".join(["1=1"] * 10_000),
    ],
)
def test_nesting_and_length_are_bounded(text):
    started = time.process_time()
    with pytest.raises(RecipeError):
        where_condition(text)
    assert time.process_time() - started < 2


def test_a_function_keeps_its_name():
    for name in some(sorted(FUNCTIONS), less=40):
        arguments = "('a', '1', 'b')" if name == "if" else "('a', '1')"
        rendered = where_condition(f"{name}{arguments} is null").sql(dialect="duckdb")
        assert rendered == f"{name.upper()}{arguments} IS NULL"


def test_functions_exist_and_are_pure(database):
    query = """
        SELECT function_name, bool_and(function_type IN ('scalar', 'macro')
            AND coalesce(stability, 'CONSISTENT') = 'CONSISTENT')
        FROM duckdb_functions() GROUP BY function_name
    """
    pure = dict(database.execute(query).fetchall())
    grammar = {"coalesce", "if", "ifnull"}
    assert {name for name in FUNCTIONS - grammar if not pure.get(name)} == set()


ATOMS = ["slot.position", "1", "2.5", "'a'", "slot.text", "slot.taxonomy", "true", "null", "(1)"]
ATOMS += ["len(slot.text)", "slot.meta['a']", "slot.taxonomy[1]", "['a']", "slot.date"]
ATOMS += ["interval '3' day", "date '2024-01-01'", "case when true then 1 end"]
BINARY = ["+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "and", "or"]
BINARY += ["like", "not like", "ilike", "not ilike", "glob", "similar to"]
BINARY += ["is distinct from", "is not distinct from"]
SUFFIXES = [" is null", " is not null", " is true", "::int", " in (1, 2)", " not in (1, 2)"]
SUFFIXES += [" between 1 and 2", " in slot.taxonomy", "[1:2]", " like 'a' escape '!'", " notnull"]
OPERAND = st.tuples(
    st.sampled_from(["", "", "", "not ", "- "]),
    st.sampled_from(ATOMS),
    st.lists(st.sampled_from(SUFFIXES), max_size=1),
).map(lambda parts: parts[0] + parts[1] + "".join(parts[2]))


@settings(max_examples=often(400, less=30), deadline=None)
@given(OPERAND, st.lists(st.tuples(st.sampled_from(BINARY), OPERAND), max_size=3))
def test_precedence_is_duckdbs(database, first, rest):
    text = first + "".join(f" {operator} {operand}" for operator, operand in rest)
    try:
        tree = where_condition(text.replace("slot.", ""))
        said = database.execute(f"SELECT ({text}) FROM slot").fetchall()
    except (RecipeError, duckdb.Error):  # types that do not go together are DuckDB's to refuse
        return
    assert database.execute(f"SELECT ({parenthesised(tree)}) FROM slot").fetchall() == said


def parenthesised(tree):
    """Return the SQL of a tree with parentheses around every operation in it."""
    holder = exp.Paren(this=tree)
    for node in reversed(list(tree.walk())):
        operation = isinstance(node, exp.Binary | exp.Unary | exp.In | exp.Between | exp.Cast)
        if operation and not isinstance(node.parent, exp.Escape | exp.Paren):
            wrapper = exp.Paren()
            node.replace(wrapper)
            wrapper.set("this", node)
    return str(holder.this.sql(dialect="duckdb"))


PAIRS = """
negative.meta['topic'] = anchor.meta['topic'] and len(negative.text) < 2 * len(anchor.text)
Anchor.DATE is not distinct from NEGATIVE."Date"
negative.date != anchor.date or anchor.position = 1
not (anchor.date != negative.date or anchor.position = 1)
negative.date != anchor.date and negative.position = anchor.position
negative.meta['lang'] = 'en'
(anchor.date) = (negative.date + interval 1 day) and anchor.date > '2023-01-01'
anchor.position - negative.position = 1 and anchor.position > 0 and negative.text > 'b'
anchor.heading in (negative.heading, 'answer') or anchor.source in ('b', 'c')
anchor.taxonomy[1] in negative.taxonomy
list_has_any(anchor.taxonomy, negative.taxonomy) is not true
case when anchor.position = 0 and anchor.trust > 0 then negative.text = anchor.text else true end
substring(anchor.text, negative.position, 1) = 'a' or anchor.text[negative.position:2] > ''
anchor.date + interval (negative.position + anchor.position) day > '2024-03-01'
contains(anchor.text, left(negative.heading, 9)) or anchor.text = anchor.heading
""".strip().splitlines()


@pytest.mark.parametrize("text", PAIRS)
def test_a_pair_condition_taken_apart_means_what_its_text_says(text, database):
    pair = pair_condition(text)

    def answers(condition, anchors, negatives):
        query = (
            f"SELECT anchor.record_id, negative.record_id, ({condition}) "
            f"FROM {anchors} AS anchor CROSS JOIN {negatives} AS negative ORDER BY 1, 2"
        )
        return database.execute(query).fetchall()

    def named(letter, terms):
        columns = "".join(
            f", {t.sql(dialect='duckdb')} AS {letter}{i}" for i, t in enumerate(terms)
        )
        return f"(SELECT record_id{columns} FROM slot)"

    sides = named("a", pair.anchor_terms), named("n", pair.negative_terms)
    taken_apart = answers(pair.tree.sql(dialect="duckdb"), *sides)
    assert taken_apart == answers(text, "slot", "slot")


WRONG_PAIRS = [
    ("date = anchor.date", "anchor.date or negative.date"),
    ("anchor.date = positive.date", "anchor.date or negative.date"),
    ("main.anchor.date = negative.date", "anchor.date or negative.date"),
    ("anchor.dat = negative.date", "did you mean 'date'"),
    ("anchor.text", "is a value"),
    ("anchor = negative", "column anchor"),
    ("anchor.date < now() and negative.position = 0", "the same at any time"),
]


def test_a_strategy_says_whose_column():
    for text, why in WRONG_PAIRS:
        with pytest.raises(RecipeError, match=why):
            pair_condition(text)
