-- Remove the live records whose ids a source's unpublished records take over.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET removed_version = $version
WHERE
    source_id = $source_id
    AND removed_version IS NULL
    AND record_id IN (
        SELECT record_id
        FROM records
        WHERE source_id = $source_id AND removed_version = $unpublished
    )
