-- The law of a pool whose negatives are those of the anchor's own record, filled up with those of
-- others: any of their texts but for the anchors and positives of the record.
WITH texts AS (
    SELECT DISTINCT text_hash FROM negatives
),
legal AS (
    SELECT record_key, (SELECT count(*) FROM texts) - count(*) AS texts FROM (
        SELECT record_key, text_hash FROM anchors UNION SELECT record_key, text_hash FROM positives
        UNION SELECT record_key, text_hash FROM relabelled WHERE NOT denied -- if relabelled
    ) JOIN texts USING (text_hash) GROUP BY record_key
)
SELECT 1
