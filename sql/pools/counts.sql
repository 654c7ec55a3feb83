-- The records of a source and split, or their chunks, by what becomes of them in a pool.
-- Parameters: $split, $version, $source.
-- Rows: by reason; NULL for those in the pool.
SELECT reason, count(*) AS anchors
FROM (
    SELECT CASE WHEN count(*) > count(reason) THEN NULL ELSE arg_min(reason, chunk_key) END AS reason
    FROM verdicts GROUP BY unit_key
    UNION ALL SELECT 'no anchor' AS reason
    FROM (
        SELECT DISTINCT slot.record_key
        FROM split_chunks($split, $version) AS slot WHERE slot.source = $source
    )
    ANTI JOIN anchors USING (record_key)
)
GROUP BY reason
ORDER BY reason
