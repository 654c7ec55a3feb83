-- Delete a source's unpublished records.
-- Parameters: $source_id, $unpublished.
DELETE FROM records
WHERE source_id = $source_id AND removed_version = $unpublished
