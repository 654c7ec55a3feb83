-- Delete what belongs to a source's unpublished records from section_originals.
-- Parameters: $source_id, $unpublished.
DELETE FROM section_originals
WHERE record_key IN (
    SELECT record_key
    FROM records
    WHERE source_id = $source_id AND removed_version = $unpublished
)
