-- The law of a pool whose negatives are those of the anchor's own record.

-- A record may use the texts of its negatives but for those of its anchors and positives.
WITH pairs AS (
    SELECT DISTINCT bin AS class, bin
    FROM negatives
),
texts AS (
    SELECT DISTINCT record_key, text_hash
    FROM negatives
),
own_texts AS (
    SELECT record_key, text_hash FROM anchors
    UNION SELECT record_key, text_hash FROM positives
    UNION SELECT record_key, text_hash FROM relabelled WHERE NOT denied -- if relabelled
),
legal AS (
    SELECT anchored.record_key, count(usable.text_hash) AS texts
    FROM (SELECT DISTINCT record_key FROM anchors) AS anchored
    LEFT JOIN (
        SELECT texts.* FROM texts
        LEFT JOIN (SELECT *, TRUE AS is_own FROM own_texts) AS own USING (record_key, text_hash)
        WHERE own.is_own IS NULL
    ) AS usable USING (record_key)
    GROUP BY anchored.record_key
)
SELECT 1
