"""Deadlines: what runs over a pool too long is stopped, and named."""

import random
import time
import unicodedata

import pyarrow as pa
import pytest
from effort import often
from prebuilt import prebuilt, toy_corpus

import duckplets as dp

SLOW = "levenshtein(anchor.text[:100], negative.text[:100]) > 600"


@prebuilt
def long_texts(path):
    corpus = dp.Corpus(path)
    records = [
        {"id": i, "q": f"q{i} " + "ab " * 34, "a": f"a{i} " + "ba " * 34} for i in range(400)
    ]
    corpus.ingest(records, name="s", anchor="q", positive="a", id="id")
    corpus.split(1, 0, 0)
    corpus.add_recipe(
        dp.TripletRecipe(
            "slow", dp.role("anchor"), dp.role("context"), dp.role("context"), strategy=dp.sql(SLOW)
        )
    )
    return corpus


ROWS = [{"anchor_id": "s/0", "negative_id": "s/1", "score": 1.0}]
WHERE_CONDITIONS_RUN = {
    "sampler": lambda corpus: corpus.sampler(),
    "pool": lambda corpus: corpus.pool("slow"),
    "status": lambda corpus: corpus.status(),
    "mine": lambda corpus: corpus.mine("slow"),
    "add_negatives": lambda corpus: corpus.add_negatives(ROWS, name="slow"),
}


def test_a_statement_over_a_pool_is_stopped_and_named(tmp_path):
    for seconds in (0, -1, "60", True, float("nan"), float("inf"), 1e30):
        with pytest.raises(dp.errors.QueryError, match="statement_timeout="):
            dp.Corpus(tmp_path / "a.duckdb", statement_timeout=seconds)
    assert not list(tmp_path.iterdir())
    long_texts(path := tmp_path / "long.duckdb").close()
    with dp.Corpus(path, statement_timeout=0.05) as corpus:
        for name, run in WHERE_CONDITIONS_RUN.items():
            started = time.monotonic()
            with pytest.raises(
                dp.errors.DeadlineError, match=r"'slow'.*levenshtein.*statement_timeout"
            ):
                run(corpus)
            assert time.monotonic() - started < 10, name
            assert corpus.count() == 400  # nothing was left behind that is in the way
        endless = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )
        with pytest.raises(dp.errors.DeadlineError, match="sql: its statement"):
            corpus.sql(endless)


def test_a_condition_that_fails_on_a_value_is_named(tmp_path):
    anchor = dp.role("anchor", where="text::int = 1")
    recipe = dp.TripletRecipe("r", anchor, dp.role("context"), dp.role("context"))
    why = pytest.raises(dp.errors.QueryError, match=r"'r', source 'toy'.*::int.*Could not convert")
    with toy_corpus(tmp_path / "c.duckdb", 20) as corpus, why:
        corpus.sampler(recipes=[recipe])


# ---- the hash of a normalised text is that of its definition, however it is reckoned


DEFINITION = r"""
md5_number_lower(lower(strip_accents(nfc_normalize(trim(
    regexp_replace(text, '\s+', ' ', 'g')
)))))
"""
# but for scripts whose marks make other words, such as kana
DIFFERENT = f"""
SELECT count(*) FROM made
WHERE normalised_hash(text) IS DISTINCT FROM {DEFINITION}
AND NOT regexp_matches(text, '[' || _internal.own_marks() || ']')
"""
SPACES = [*" \t\n\r\f\v", "  ", "\r\n", "\x85", "\xa0", "\u2003", "\u2028", "\u200b", "\u3000"]
LETTERS = [*"aBÉ\u0301ßİﬁ각😀\0", "e\u0301", "\u1100\u1161\u11a8"]


def test_it_is_that_of_the_definition(tmp_path):
    draw = random.Random(4)
    marks = [chr(c) for c in range(0x300, 0x1E000) if unicodedata.combining(chr(c))]
    composed = [chr(c) for c in range(0x110000) if unicodedata.decomposition(chr(c))]
    choices = [SPACES, SPACES, LETTERS, LETTERS, marks, composed]
    texts = [
        "".join(draw.choice(draw.choice(choices)) for _ in range(draw.randrange(9)))
        for _ in range(often(200_000, less=20_000))
    ]
    texts += [
        f"{before}x{between}y{after}" for before in SPACES for between in SPACES for after in SPACES
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        made = pa.table({"text": texts})
        with corpus.database.registered(made=made):
            ((wrong,),) = corpus.database.rows(DIFFERENT)
            asked = " A\n\tÉ ", "a e", "ae", "\u304c", "\u304b\u3099", "\u304b", "हिन्दी", "हनद"
            (found,) = corpus.database.rows(
                "SELECT list_transform($texts, lambda text: normalised_hash(text))",
                {"texts": list(asked)},
            )
    assert wrong == 0
    a, same, other, ga, composed, ka, hindi, bare = found[0]
    assert a == same != other
    assert ga == composed != ka
    assert hindi != bare
