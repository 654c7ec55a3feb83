-- The first of a source's unpublished records; NULL if it has none.
-- Parameters: $source_id, $unpublished.
SELECT min(record_key)
FROM records
WHERE source_id = $source_id AND removed_version = $unpublished
