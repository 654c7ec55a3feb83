-- The id of a record.
-- Parameters: $record_key.
SELECT record_id
FROM records
WHERE record_key = $record_key
