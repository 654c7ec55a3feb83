"""Conditions put together from hostile pieces: refused, or harmless and what their text says."""

import random
import resource
import time
from collections import Counter
from itertools import product

import duckdb
import pytest
from effort import often

from duckplets.conditions.parse import pair_condition, where_condition
from duckplets.errors import RecipeError

ROWS = """
CREATE TABLE slot AS SELECT
    'r' || i AS record_id, DATE '2024-01-01' + i::INTEGER AS date, 'g' AS group_key,
    ['x', 'y'] AS taxonomy, MAP {'lang': 'en'} AS meta, 0.5 AS trust,
    TIMESTAMP '2024-01-01' AS created_at, TIMESTAMP '2024-01-02' AS updated_at, 'a' AS source,
    i::INTEGER AS position, 'anchor' AS role, 'heading' AS heading, repeat('ab ', 7000) AS text,
    5 AS token_count, 'window' AS kind, 0 AS window_index, 1.0 AS label
FROM range(20) AS numbers(i)
"""

VALUES = """
text|heading|date|position|meta|taxonomy|trust|true|null|1|'a'|'%_%'|''|1e308|-1
99999999999999999999
meta['lang']|taxonomy[1]|text[:500]|left(text, 9)|length(text)|created_at|"text"|"Text"
kind = 'window'
rowid|slot|slot.text|records.text|main.slot.text|current_date|current_user|user|session_user
label
*|slot.*|COLUMNS(*)|COLUMNS('t.*')|*COLUMNS(*)|$1|?|:x|$text|@position|#1|default|'\\x41'|$$a$$
$t$a$t$
U&'\\0041'|U&"\\0074ext"|E'\\x41'|x'41'|b'1'|'\u202e'|'\U0001f600'|\u2003text|te\u200bxt|\ufeff1
'it''s'
(select 1)|(select text from slot)|(from slot)|(values (1))|exists (select 1)
(with x as (select 1) from x)
(select getenv('HOME'))|read_text('/etc/passwd')|read_csv('/etc/passwd')|glob('/*')
'/etc/passwd'.read_text()
getenv('HOME')|getvariable('x')|current_setting('threads')|query('select 1')|query_table('slot')
duckdb_functions()|pragma_version()|nextval('s')|currval('s')|txid_current()|version()
alias(text)
hash(text)|create_sort_key(text, 'asc')|json_serialize_sql('select 1')
can_cast_implicitly(1, 'a')
pg_sleep(99)|sleep_ms(9999)|error('x')|random()|now()|uuid()|setseed(0.5)|write_log('x')
stats(text)
count(*)|sum(position)|row_number() over ()|lag(text) over (order by date)
string_agg(text, text)
{'a': text}|{'a': 1}.a|row(1, text)|struct_pack(a := 1)|map {'a': text}|union_value(a := 1)
[text, text]
[x for x in taxonomy]|[y || text for y in string_split(text, '') if true]|(x -> x)|lambda x: x
range(999999999)
repeat('x', 300000000)|repeat(text, 9999)|lpad(text, 999999999, 'x')|rpad('', 999999999, 'x')
bar(1, 0, 1, 9e8)
list_resize([1], 999999999)|generate_series(1, 1e9::bigint)|bitstring('1', 999999999)|1 << 62
factorial(33)
interval 1 day|interval '1 year 2 months'|interval (position) day|interval '99999999999' year
"""
FORMS = """
(¹)|((((((((¹))))))))|not ¹|- ¹|+ ¹|~ ¹|¹ and ²|¹ or ²|¹ = ²|¹ == ²|¹ <> ²|¹ < ²|¹ < ² < ¹
¹ is ²|¹ is not ²
¹ is null|¹ isnull|¹ is distinct from ²|¹ in (², ¹)|¹ in ²|¹ in (select ²)|¹ not in [²]
¹ between ² and ¹
¹ = any(²)|¹ > all (select ²)|¹ like ²|¹ ilike ²|¹ ~~ ²|¹ glob ²|¹ similar to ²
¹ like ² escape '!'|¹ ~ ²
¹ || ²|¹ || ² || ¹|¹ + ²|¹ * ²|¹ // ²|¹ % ²|¹ ** ²|¹ ^ ²|¹ & ²|¹ << ²|¹ -> ²|¹ ->> ²|¹ && ²
@ ¹|¹ !
¹::varchar|¹::varchar::varchar|¹::int|¹::json|¹::int[]|¹::varchar[]|¹::int[3]|¹::struct(a int)
¹::map(int, int)
cast(¹ as enum('a'))|cast(¹ as union(a int))|try_cast(¹ as decimal(38, 10))|¹::"decimal(9)"
¹::blob|¹::bit|¹::uuid
¹::slot|¹::timestamptz|cast(¹ as varchar collate nocase)|¹::varchar(9999999)|¹ collate nocase
¹ at time zone 'UTC'
¹[²]|¹[1:²]|¹[:]|¹[::2]|¹[²].a|¹.lower()|¹.text|(¹).text|(¹, ²)|[¹, ²]|{'a': ¹}|¹ as x|¹ x
(¹ as x)|x: ¹
case when ¹ then ² else ¹ end|case ¹ when ² then ¹ end|if(¹, ², ¹)|coalesce(¹, ²)|nullif(¹, ²)
try(¹)|unnest(¹)
lower(¹)|upper(¹)|reverse(¹)|strip_accents(¹)|url_encode(¹)|url_decode(¹)|regexp_escape(¹)
md5(¹)|length(¹)
repeat(¹, 9999)|lpad(¹, 9999, ²)|bin(¹)|bin(bin(bin(¹)))|hex(¹)|to_base64(¹)|to_json(¹)|chr(¹)
bitstring(¹, 99999)
concat(¹, ², ¹)|concat_ws(¹, ², ²)|replace(¹, 'a', ²)|replace(¹, ², 'aaaaaaaaaa')
translate(¹, ², ¹)|lower(distinct ¹)
regexp_replace(¹, '', ², 'g')|regexp_replace(¹, ², '', 'g')|regexp_matches(¹, ²)
regexp_extract_all(¹, ²)
regexp_matches(¹, '((a{30}){30}){30}')|regexp_replace(¹, '(a|b)*c', '\\\\1\\\\1', 'g')
string_split(¹, ²)
array_to_string(string_split(¹, ''), ²)|list_concat(¹, ²)|list_value(¹, ²)|list_reverse(¹)
flatten([[¹], [²]])
list_reduce([¹, ²], (a, b) -> a || b)|list_transform([¹], lambda x: ²)|list_filter(¹, x -> ²)
apply([¹], x -> x)
format('{:>999}{}', ¹, ²)|format(¹, ²)|printf('%*d', ¹, ²)|printf('%s%s', ¹, ²)|strftime(¹, ²)
strptime(¹, ²)
levenshtein(¹, ²)|damerau_levenshtein(¹[:500], ²[:500])|jaro_similarity(¹, ²)|contains(¹, ²)
editdist3(¹, ²)
struct_pack(a := ¹)|lower(text := ¹)|lower(text => ¹)|main.lower(¹)|system.main.lower(¹)
"lower"(¹)|text.lower(¹)
getvariable(¹)|current_setting(¹)|read_text(¹)|getenv(¹)|query(¹)|json_execute_serialized_sql(¹)
in_search_path(¹, ²)
¹ over ()|¹ over (partition by ²)|sum(¹) filter (where ²)|lower(¹ order by ²)
lower(¹) within group (order by ²)
¹; ²|¹; drop table slot|¹ -- ²|¹ /* ² */|/* ¹ */ ²|¹ --|¹ union select ²|¹ limit 1|¹ order by ²
¹ group by ²
¹) or (²|¹) from slot where (²|¹), (²|¹ from slot|select ¹|from slot select ¹|(¹|¹)|[¹|¹]|'¹|"¹
'¹'|"¹"|¹ '
interval (¹) day|interval ¹ day|date ¹|date '2024-01-01' + ¹|extract(year from ¹)
extract(¹ from ²)|position(¹ in ²)
substring(¹ from 1 for 2)|overlay(¹ placing ² from 1)|trim(both ¹ from ²)
¹ between symmetric ² and ¹|exists (¹)
array[¹]|array[array[array[¹]]]|map([¹], [²])|¹ is json|¹ notnull|grouping(¹)|columns(¹)
COLUMNS(c -> ¹)|pivot ¹
"""
SPACES = (" ", "  ", "\n", "\t", "\u00a0", "\u2003", "\ufeff", "\0", "\u200b")


def pieces(text):
    return [piece for line in text.strip("\n").split("\n") for piece in line.split("|") if piece]


def is_tame(text):
    try:
        return bool(where_condition(f"({text}) is null"))
    except RecipeError:
        return False


def conditions(many):
    """Yield conditions, every other one of tame pieces; some have odd spaces or are cut."""
    chance = random.Random(7)
    wild = pieces(VALUES), pieces(FORMS)
    tame = (
        [v for v in wild[0] if is_tame(v)],
        [
            f
            for f in wild[1]
            if any(is_tame(f.replace("¹", v).replace("²", v)) for v in ("1", "'a'"))
        ],
    )

    def composed(depth, values, forms):
        if depth == 0 or chance.random() < 0.2:
            return chance.choice(values)
        text = chance.choice(forms)
        for place in "¹²":
            text = text.replace(place, composed(depth - 1, values, forms))
        return text

    for number in range(many):
        text = composed(number % 6, *(tame if number % 2 else wild))
        if number % 7 == 0:
            text = text.replace(" ", chance.choice(SPACES))
        if number % 11 == 0:
            text = text[: chance.randrange(len(text) + 1)]
        if number % 13 == 0:
            text = chance.choice(["(", "not ", "lower(", "- ", "case when ", "["]) * 50 + text
        if number % 3:
            text = f"length(lower({text})) > 3" if number % 3 == 1 else f"({text}) is not null"
        yield text[:12_000]


@pytest.fixture(scope="module")
def table():
    config = {"threads": 1, "memory_limit": "256MB", "enable_external_access": "false"}
    with duckdb.connect(config=config) as connection:
        connection.execute(ROWS)
        yield connection


def outcome(text, table):
    """Say what becomes of a condition; one that is accepted is run as it was written, too."""
    try:
        tree = where_condition(text)
    except RecipeError as error:
        return "refused" if len(str(error)) < 700 else "refused at length"
    try:
        found = table.execute(f"SELECT ({tree.sql(dialect='duckdb')}) FROM slot").fetchall()
    except duckdb.Error:  # types that do not go together
        return "failed"
    assert found == table.execute(f"SELECT ({text}) FROM slot").fetchall()
    return "ran"


def test_hostile_conditions_are_refused_or_harmless(table):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = Counter()
    for text in conditions(often(10_000, less=250)):
        started = time.process_time()
        outcomes[outcome(text, table)] += 1
        assert time.process_time() - started < 3, text
    assert set(outcomes) == {"ran", "failed", "refused"}, outcomes
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400_000, f"{grown} kB"


FOREIGN = [
    v for v in pieces(VALUES) if any(w in v for w in ("select", "get", "read", "range", "(*)"))
]


def test_what_looks_elsewhere_is_refused_wherever_it_stands():
    forms = ("¹ is null", "length(¹::varchar) > 3", "case when ¹ = 1 then true end")
    for value, form, parse in product(FOREIGN, forms, (where_condition, pair_condition)):
        with pytest.raises(RecipeError):
            parse(form.replace("¹", value))
