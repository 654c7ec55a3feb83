-- Forget what was set for a source at a version, before something else is.
-- Parameters: $source_id, $version.
DELETE FROM source_prefixes
WHERE source_id = $source_id AND version = $version
