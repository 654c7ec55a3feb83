-- Mark the records of a source as removed; returns their number.
-- Parameters: $source_id, $version.
UPDATE records
SET removed_version = $version
WHERE source_id = $source_id AND removed_version IS NULL
