-- The records of some sources of a version that can be read by number: the k-th of a source is its
-- record k.
-- Parameters: $version, $sources (names), $split (NULL for all).
-- Rows: by source_id and record_key.
SELECT records.source_id, records.record_key
FROM records
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND list_contains($sources::VARCHAR[], sources.name)
    AND ($split IS NULL OR splits.split = $split)
ORDER BY records.source_id, records.record_key
