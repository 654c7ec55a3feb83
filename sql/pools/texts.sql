-- The pool of a text recipe. The recipe fills in anchor_condition and unit_columns.
-- Parameters: $split, $version, $source.
-- Rows: one an anchor, by record_key and chunk_key.

-- Every chunk that the selector matches.
WITH anchors AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND anchor_condition
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors
FROM anchors JOIN records USING (record_key)
GROUP BY record_key, record_id, unit_columns
ORDER BY record_key, anchors
