-- Set the prefix of a source from a version on.
-- Parameters: $source_id, $version, $definition (JSON, or NULL for none).
INSERT INTO source_prefixes
VALUES ($source_id, $version, $definition)
