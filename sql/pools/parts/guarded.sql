-- Parts of the law where negatives are mined: what could well be a positive is no negative either.
-- Texts are forbidden by their normalised texts too.

-- Texts that are no negatives of a record, for they are its own, perhaps written another way.
WITH own AS (
    SELECT record_key, text_hash, normalised_hash FROM anchors
    UNION SELECT record_key, text_hash, normalised_hash FROM positives
),
writings AS (
    SELECT DISTINCT normalised_hash, text_hash FROM negatives
),
own_texts AS (
    SELECT record_key, text_hash FROM own JOIN texts USING (text_hash)
    UNION SELECT own.record_key, writings.text_hash FROM own JOIN writings USING (normalised_hash)
    UNION SELECT record_key, text_hash FROM relabelled JOIN texts USING (text_hash) WHERE NOT denied -- if relabelled
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
askers AS (
    SELECT *, unnest([0::UBIGINT, normalised_hash]) AS question
    FROM (SELECT *, unnest(class_scopes) AS scope FROM doubts)
),
asked_known AS MATERIALIZED (
    SELECT DISTINCT scope, question, text_hash FROM askers JOIN known_texts USING (question)
),
ledger AS (
    SELECT scope, 0::UBIGINT AS question, kin, sum(texts) AS texts FROM stock GROUP BY scope, kin
    UNION ALL SELECT scope, question, stock.kin, -sum(stock.texts)
    FROM asked_known JOIN stock USING (scope, text_hash) GROUP BY scope, question, stock.kin
),
of_own AS (
    SELECT law_keys, sum(stock.texts) AS texts FROM asked_own JOIN stock USING (scope, text_hash)
    LEFT JOIN (SELECT *, TRUE AS known FROM known_texts) AS told USING (question, text_hash)
    WHERE known IS NULL AND question > 0 AND stock.kin IS DISTINCT FROM asked_own.kin GROUP BY ALL
)
SELECT 1
