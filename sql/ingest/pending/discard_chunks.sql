-- Delete what belongs to a source's unpublished records from chunks.
-- Parameters: $source_id, $unpublished.
DELETE FROM chunks
WHERE record_key IN (
    SELECT record_key
    FROM records
    WHERE source_id = $source_id AND removed_version = $unpublished
)
