-- The pool of a text recipe: every window its selector matches, by anchor. The recipe fills in
-- anchor_condition and unit_key. It comes after pools/members.
-- Parameters: $source.
-- Rows: one an anchor, by record_key and chunk_key.
WITH anchors AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash
    FROM members AS slot
    WHERE slot.source = $source AND anchor_condition
),

pool AS (
    SELECT
        min(record_key) AS record_key,
        list(chunk_key ORDER BY chunk_key) AS anchors
    FROM anchors
    GROUP BY unit_key
)
SELECT pool.record_key, records.record_id, pool.anchors
FROM pool
JOIN records ON records.record_key = pool.record_key
ORDER BY pool.record_key, pool.anchors
