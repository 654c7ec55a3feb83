-- The records of a source and split, or their windows, by what becomes of them in a pool.
-- Parameters: $source.
-- Rows: by reason; NULL for those in the pool.
SELECT reason, count(*) AS anchors
FROM (
    SELECT CASE WHEN count(*) > count(reason) THEN NULL ELSE any_value(reason) END AS reason
    FROM verdicts
    GROUP BY unit_key
    UNION ALL
    SELECT 'no anchor' AS reason
    FROM (SELECT DISTINCT slot.record_key FROM members AS slot WHERE slot.source = $source)
    WHERE record_key NOT IN (SELECT record_key FROM anchors)
)
GROUP BY reason
ORDER BY reason
