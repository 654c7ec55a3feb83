"""Conditions that would take all memory or no end: refused before they run, or harmless."""

import sys
from pathlib import Path

import pytest
from effort import THOROUGH, some
from prebuilt import copied, prebuilt
from programs import ran

import duckplets as dp
from duckplets.conditions.parse import pair_condition, where_condition

GROWN = "replace(" * 9 + "text" + ", 'a', 'aaaaaaaaaa')" * 9
DEEP_REGEX = "((a{30}){30}){30}"

REFUSED = [
    # widths
    "length(format('{:2000000000}', text)) > 0",
    "length(format('{:{}}', text, 100000000)) > 0",
    "length(format('{0:>5000}{0:>5000}', position)) > 0",
    "length(format(meta['f'], position)) > 0",
    "length(printf('%*d', 1000000000, position)) > 0",
    "length(printf('%.999999999f', trust)) > 0",
    "length(printf(text, position)) > 0",
    "length(printf('" + "%s" * 300 + "', text)) > 0",
    "length(format('" + "{0}" * 300 + "', text)) > 0",
    "length(lpad(text, 1000000000, 'x')) > 0",
    "length(strftime(date, text)) > 0",
    "length(bar(trust, 0, 1, 1000000000)) > 0",
    # results longer than arguments: DuckDB works out the last one while it explains
    "length(" + "bin(" * 7 + "text" + ")" * 7 + ") > 0",
    "length(repeat(text, 9999)) > 0",
    "len(range(1000000000)) > 0",
    "len(list_resize([1], 1000000000)) > 0",
    "length(bitstring('1', 1000000000)) > 0",
    "length(hex(hex(text))) > 0",
    "length(list_reduce([text, text], (a, b) -> a || b)) > 0",
    "len([x || text for x in string_split(text, '')]) > 0",
    # what is put in, again and again
    f"length({GROWN}) > 0",
    "length(replace(text, 'a', text)) > 0",
    "length(replace(text, text, 'a')) > 0",
    f"length(replace(text, 'a', '{'b' * 900}')) > 0",
    f"length(regexp_replace(text, '', '{'b' * 450}', 'g')) > 0",
    f"length(regexp_replace(text, '(.)', '{chr(92)}1' || text, 'g')) > 0",
    "length(" + "concat(" * 9 + "text" + ", text, text, text, text, text, text)" * 9 + ") > 0",
    "length(text" + " || text" * 900 + ") > 0",
    "length(concat_ws(text, text, text)) > 0",
    "length(array_to_string(string_split(text, ''), text)) > 0",
    f"length(array_to_string(string_split(text, ''), '{'b' * 400}')) > 0",
    "length(" + "url_encode(" * 12 + "text" + ")" * 12 + ") > 0",
    # distances
    "levenshtein(text, text) > 3",
    "levenshtein(text[:501], heading[:500]) > 3",
    "damerau_levenshtein(text[:500], heading[:500]) > 3",
    "jaro_similarity(text, heading) > 0.5",
    "levenshtein(text[:400], 'a') + levenshtein(text[:400], heading[:400]) * 2 + "
    "levenshtein(text[:400], heading[1:400]) > 3",
    "levenshtein(text[position:], heading[:9]) > 3",
    "levenshtein(left(text, -1), 'a') > 3",
    "levenshtein(left_grapheme(text, 9), 'a') > 3",
    # searches
    "contains(text, text || 'b')",
    "contains(text, meta['x'])",
    f"contains(text, '{'a' * 600}b')",
    "len(string_split(text, heading)) > 1",
    # patterns
    "text like '%a_%a_%a_%b'",
    "text not like '%a!%%_b%_c' escape '!'",
    "text glob '*a?*a?*b'",
    "text[:500] like '%_a%_a%_a%_b'",
    "regexp_matches(text, heading[:500])",
    f"regexp_matches(text, '{DEEP_REGEX}')",
    f"regexp_matches(text, '{'(a?)' * 300}')",
    "length(regexp_replace(text, 'a(.*b)?', 'x', 'g')) > 0",
    "length(regexp_replace(text, 'a(.*b)?', 'x', heading)) > 0",
    "len(regexp_extract_all(text, 'a(.*b)?')) > 3",
    "len(regexp_split_to_array(text, 'a(b{0,})?')) > 3",
    # lists
    "len(" + "list_concat(" * 9 + "taxonomy" + ", string_split(text, ''))" * 9 + ") > 1",
    "len([" + "string_split(text, ''), " * 9 + "taxonomy]) > 1",
    "list_has_any(string_split(text, ''), list_reverse(list_reverse(list_reverse("
    "list_concat(string_split(text, ''), string_split(text, '')))))) = true",
    # depth and length
    "length(" + "lower(" * 19 + "text" + ")" * 19 + ") > 0 or " + " or ".join(
        f"reverse(text) || '{i}' = 'x'" for i in range(100)
    ),
]  # fmt: skip

ACCEPTED = [
    "strip_accents(lower(text)) <> 'x'",
    "length(replace(text, 'ab', 'abc')) > 3",
    "length(translate(text, 'abc', 'éèê')) > 3",
    "length(regexp_replace(text, '\\s+', ' ', 'g')) > 3",
    "len(regexp_extract_all(text, 'a')) > 3",
    "regexp_matches(text, '(a|b)*a(a|b){12}c')",
    "levenshtein(text[:500], reverse(text)[:500]) > 3",
    "jaro_similarity(text[:500], reverse(text)[:500]) > 0.1",
    "contains(text, 'aaaaaaaaaaaaaaaab') or true",
    "try_cast(text as double) is null",
    "length(reverse(upper(text))) > 3",
    "len(list_reverse(string_split(text[:5000], ''))) > 3",
]

SIZES = (20, 400) if THOROUGH else (1, 2)  # of the longest text, in MB; and how many of 200 kB

RUN = """
import re, sys, time
from pathlib import Path
import duckplets as dp
path, condition, timeout = sys.argv[1], sys.argv[2], float(sys.argv[3])
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
corpus = dp.Corpus(path, read_only=True, memory_limit="300MB", threads=2, statement_timeout=timeout)
recipe = dp.TextRecipe("t", dp.any_section())
corpus.sampler("texts", recipes=[recipe], options=dp.Options(prefetch=0)).close()
before, started = peak(), time.monotonic()
try:
    recipe = dp.TextRecipe("t", dp.any_section(where=condition))
    corpus.sampler("texts", recipes=[recipe], options=dp.Options(prefetch=0)).close()
    outcome = "ran"
except dp.DuckpletsError as error:
    outcome = type(error).__name__
print(outcome, peak() - before, round(time.monotonic() - started, 1))
"""


@prebuilt
def long_texts(path, megabytes, many):
    corpus = dp.Corpus(path)
    texts = [
        "ab " * (megabytes * 333_333),
        *(f"{i} " + "a" * 200_000 for i in range(many)),
        *(f"short text {i}" for i in range(200)),
    ]
    records = [{"id": i, "t": text} for i, text in enumerate(texts)]
    corpus.ingest(records, name="s", context="t", id="id")
    corpus.split(1, 0, 0)
    return corpus


@pytest.mark.parametrize("bomb", REFUSED)
def test_a_bomb_is_refused_before_anything_runs(bomb):
    with pytest.raises(dp.RecipeError) as caught:
        where_condition(bomb)
    assert len(str(caught.value)) < 700
    with pytest.raises(dp.RecipeError):
        pair_condition(bomb.replace("text", "anchor.text").replace("heading", "negative.heading"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nothing tells the peak here")
@pytest.mark.parametrize("condition", some(ACCEPTED, less=1))
def test_what_is_accepted_keeps_within_memory_and_time(condition, tmp_path):
    path, timeout = tmp_path / "long.duckdb", 5
    copied(path, long_texts.__wrapped__, *SIZES)
    run = ran(sys.executable, "-c", RUN, str(path), condition, str(timeout))
    assert run.returncode == 0, run.stderr[-2000:]
    outcome, megabytes, seconds = run.stdout.split()
    assert outcome in ("ran", "EmptyPoolError", "RecipeError", "DeadlineError"), run.stdout
    assert int(megabytes) <= 300 + 200, run.stdout
    assert float(seconds) <= timeout + 5, run.stdout
