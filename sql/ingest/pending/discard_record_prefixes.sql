-- Delete what belongs to a source's unpublished records from record_prefixes.
-- Parameters: $source_id, $unpublished.
DELETE FROM record_prefixes
WHERE record_key IN (
    SELECT record_key
    FROM records
    WHERE source_id = $source_id AND removed_version = $unpublished
)
