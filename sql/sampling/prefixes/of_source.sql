-- The prefix of a source as of a version: the last that was set, or NULL for none.
-- Parameters: $source_id, $version.
-- Rows: one or none.
SELECT definition
FROM source_prefixes
WHERE source_id = $source_id AND version <= $version
ORDER BY version DESC
LIMIT 1
