-- Mark a source as removed.
-- Parameters: $source_id, $version.
UPDATE sources
SET removed_version = $version
WHERE source_id = $source_id
