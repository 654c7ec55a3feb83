-- The law of a pool whose strategy compares nothing, and whose negatives are not mined.

-- Of the texts of negatives a record may use all but its own, and those that only it has.
WITH texts AS (
    SELECT text_hash, min(record_key) AS first, max(record_key) AS last FROM negatives GROUP BY ALL
),
legal AS (
    SELECT record_key, (SELECT count(*) FROM texts) - count(*) AS texts FROM (
        SELECT record_key, text_hash FROM anchors UNION SELECT record_key, text_hash FROM positives
        UNION SELECT record_key, text_hash FROM relabelled WHERE NOT denied -- if relabelled
        UNION SELECT first, texts.text_hash FROM texts JOIN anchors ON first = record_key WHERE first = last
    ) JOIN texts USING (text_hash) GROUP BY record_key
),
pairs AS (
    SELECT 0::UBIGINT AS class, 0::UBIGINT AS bin
    WHERE FALSE
)
SELECT 1
