-- Let a new source be seen.
-- Parameters: $source_id, $unpublished, $version.
UPDATE sources
SET added_version = $version, removed_version = NULL
WHERE source_id = $source_id AND removed_version = $unpublished
