-- Let a source's unpublished records be seen.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET added_version = $version, removed_version = NULL
WHERE source_id = $source_id AND removed_version = $unpublished
