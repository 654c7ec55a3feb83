-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, section_key, normalised_hash, position, family,
        0::UBIGINT AS class
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
positives AS (
    SELECT record_key, chunk_key, text_hash, section_key, normalised_hash
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, section_key, normalised_hash, family, 0::UBIGINT AS bin
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
positive_texts AS (
    SELECT record_key, count(*) AS positives, min(text_hash) AS least, max(text_hash) AS greatest
    FROM positives GROUP BY record_key
),
-- Texts of negatives, with the kin and the bin of those that have one only.
texts AS (
    SELECT text_hash, only_one(family) AS kin, only_one(bin) AS bin
    FROM negatives GROUP BY text_hash
),
class_texts AS (
    SELECT 0::UBIGINT AS class, count(*) AS texts FROM texts
),
-- Texts that are no negatives of a record, for they are its own, perhaps written another way.
own AS (
    SELECT record_key, text_hash, normalised_hash FROM anchors
    UNION SELECT record_key, text_hash, normalised_hash FROM positives
),
writings AS (
    SELECT DISTINCT normalised_hash, text_hash FROM negatives
),
own_texts AS (
    SELECT record_key, text_hash FROM own JOIN texts USING (text_hash)
    UNION SELECT own.record_key, writings.text_hash FROM own JOIN writings USING (normalised_hash)
),
-- Texts of positives that other records have for the same anchor text.
known_texts AS (
    SELECT DISTINCT question, writings.text_hash FROM (
        SELECT DISTINCT anchors.normalised_hash AS question, positives.normalised_hash
        FROM anchors JOIN positives USING (record_key) JOIN (
            SELECT normalised_hash FROM anchors GROUP BY ALL HAVING only_one(record_key) IS NULL
        ) AS shared ON shared.normalised_hash = anchors.normalised_hash
    ) JOIN writings USING (normalised_hash)
),
losses AS (
    SELECT 'kin' AS why, count(*) AS texts FROM texts WHERE kin IS NOT NULL GROUP BY kin
    UNION ALL SELECT 'own', count(*) FROM own_texts GROUP BY record_key
    UNION ALL SELECT 'known', count(*) FROM known_texts GROUP BY question
),
doubts AS (
    SELECT DISTINCT record_key, class, normalised_hash, anchors.family AS kin
    FROM anchors LEFT JOIN class_texts USING (class)
    WHERE coalesce(class_texts.texts, 0) < $negatives + (
        SELECT coalesce(sum(most), 0) FROM (SELECT max(texts) AS most FROM losses GROUP BY why)
    )
),
askers AS (
    SELECT *, unnest([0::UBIGINT, normalised_hash]) AS question
    FROM (SELECT *, unnest([class]) AS scope FROM doubts)
),
-- What can be drawn, text by text, with its kin if it has one only; scope 0 is for all classes.
stock AS (
    SELECT 0::UBIGINT AS scope, text_hash, 1 AS texts, kin FROM texts
),
asked_known AS MATERIALIZED (
    SELECT DISTINCT scope, question, text_hash FROM askers JOIN known_texts USING (question)
),
ledger AS (
    SELECT scope, 0::UBIGINT AS question, kin, sum(texts) AS texts FROM stock GROUP BY scope, kin
    UNION ALL SELECT scope, question, stock.kin, -sum(stock.texts)
    FROM asked_known JOIN stock USING (scope, text_hash) GROUP BY scope, question, stock.kin
),
asked_own AS MATERIALIZED (
    FROM askers JOIN own_texts USING (record_key)
),
of_own AS (
    SELECT record_key, class, normalised_hash, sum(stock.texts) AS texts
    FROM asked_own JOIN stock USING (scope, text_hash)
    LEFT JOIN (SELECT *, TRUE AS known FROM known_texts) AS told USING (question, text_hash)
    WHERE known IS NULL AND question > 0 AND stock.kin IS DISTINCT FROM asked_own.kin GROUP BY ALL
),
legal AS (
    SELECT record_key, class, normalised_hash,
        sum(coalesce(totals.texts, 0) - coalesce(ledger.texts, 0))
        - coalesce(any_value(of_own.texts), 0) AS texts
    FROM askers
    LEFT JOIN (SELECT scope, question, sum(texts) AS texts FROM ledger GROUP BY ALL) AS totals
        USING (scope, question)
    LEFT JOIN ledger USING (scope, question, kin)
    LEFT JOIN of_own USING (record_key, class, normalised_hash)
    GROUP BY record_key, class, normalised_hash
),
-- The anchors, each with the reason why it is left out, if it is.
verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN positives IS NULL THEN 'no positive'
        WHEN least = text_hash AND greatest = text_hash THEN 'same text'
        WHEN coalesce(legal.texts, (SELECT count(*) FROM texts)) < $negatives THEN 'no negative'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN legal USING (record_key, class, normalised_hash)
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors, positives
FROM verdicts JOIN records USING (record_key) WHERE reason IS NULL
GROUP BY record_key, record_id, positives ORDER BY record_key, anchors;
