-- Every chunk that the selector matches.
WITH anchors AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role <> 'rejected' AND (slot.kind = 'window')
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors
FROM anchors JOIN records USING (record_key)
GROUP BY record_key, record_id, chunk_key
ORDER BY record_key, anchors;
