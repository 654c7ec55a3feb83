-- Forget what was said about the index of a source.
-- Parameters: $source_id.
DELETE FROM index_controls WHERE source_id = $source_id
