-- The law of a pool that compares: by the terms of its strategy, or with texts that are known to be
-- positives. A negative is of another kin than the anchor (kin_key: the record, or the family), of
-- a bin that its class may draw from, and of no text that is forbidden. All is counted by text,
-- class and kin, so it takes time in proportion to the rows, also where one kin holds most of them.
-- (Materialized, so that stock is never joined before: that would be every anchor with every text.)
-- This is the law where all bins suit; parts/allowed and parts/forbidden take the place of some.
-- Parameters: $negatives.

-- Texts of negatives, with the kin and the bin of those that have one only.
WITH texts AS (
    SELECT text_hash, only_one(kin_key) AS kin, only_one(bin) AS bin
    FROM negatives GROUP BY text_hash
),

-- Which of them are no negatives of a record, for they are its own.
own_texts AS (
    SELECT record_key, text_hash FROM anchors JOIN texts USING (text_hash)
    UNION SELECT record_key, text_hash FROM positives JOIN texts USING (text_hash)
    UNION SELECT record_key, text_hash FROM relabelled JOIN texts USING (text_hash) WHERE NOT denied -- if relabelled
),

-- Only classes that draw fewer texts at the least, perhaps, than an anchor can lose are looked at.
group_texts AS (
    SELECT bin, count(*) AS texts FROM texts WHERE bin IS NOT NULL GROUP BY ALL
),
class_texts AS (
    SELECT 0::UBIGINT AS class, count(*) AS texts FROM texts
),
losses AS (
    SELECT 'kin' AS why, count(*) AS texts FROM texts WHERE kin IS NOT NULL GROUP BY kin
    UNION ALL SELECT 'own', count(*) FROM own_texts GROUP BY record_key
),
doubts AS (
    SELECT DISTINCT law_keys, anchors.kin_key AS kin
    FROM anchors LEFT JOIN class_texts USING (class)
    WHERE coalesce(class_texts.texts, 0) < $negatives + (
        SELECT coalesce(sum(most), 0) FROM (SELECT max(texts) AS most FROM losses GROUP BY why)
    )
),

-- What can be drawn, text by text, with its kin if it has one only; scope 0 is for all classes.
stock AS (
    SELECT 0::UBIGINT AS scope, text_hash, 1 AS texts, kin FROM texts
),
askers AS (
    SELECT *, unnest(class_scopes) AS scope FROM doubts
),

-- How much there is, less what is of the anchor's kin, less what is forbidden besides.
ledger AS (
    SELECT scope, kin, sum(texts) AS texts FROM stock GROUP BY scope, kin
),
asked_own AS MATERIALIZED (
    FROM askers JOIN own_texts USING (record_key)
),
of_own AS (
    SELECT law_keys, sum(stock.texts) AS texts FROM asked_own JOIN stock USING (scope, text_hash)
    WHERE stock.kin IS DISTINCT FROM asked_own.kin GROUP BY law_keys
),
legal AS (
    SELECT law_keys,
        sum(coalesce(totals.texts, 0) - coalesce(ledger.texts, 0))
        - coalesce(any_value(of_own.texts), 0) AS texts
    FROM askers
    LEFT JOIN (SELECT scope_keys, sum(texts) AS texts FROM ledger GROUP BY ALL) AS totals
        USING (scope_keys)
    LEFT JOIN ledger USING (scope_keys, kin) LEFT JOIN of_own USING (law_keys) GROUP BY law_keys
),
pairs AS (
    SELECT 0::UBIGINT AS class, 0::UBIGINT AS bin
    WHERE FALSE
)
SELECT 1
