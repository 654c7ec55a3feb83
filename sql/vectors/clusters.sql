-- name: texts_of_split
-- The texts of a split as of a version, each once.
-- Parameters: $split, $version.
-- Rows: in any order.
SELECT DISTINCT chunks.text_hash
FROM chunks
JOIN records ON records.record_key = chunks.record_key
JOIN splits ON splits.record_key = chunks.record_key
WHERE
    splits.split = $split
    AND is_live(records.added_version, records.removed_version, $version)
