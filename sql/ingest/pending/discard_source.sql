-- Delete a source that was never seen.
-- Parameters: $source_id, $unpublished.
DELETE FROM sources WHERE source_id = $source_id AND removed_version = $unpublished
