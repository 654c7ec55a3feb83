-- Delete what belongs to a source's unpublished records from sections.
-- Parameters: $source_id, $unpublished.
DELETE FROM sections
WHERE record_key IN (
    SELECT record_key
    FROM records
    WHERE source_id = $source_id AND removed_version = $unpublished
)
