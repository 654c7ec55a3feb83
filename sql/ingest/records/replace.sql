-- Mark the live records that rows of the table newer (Arrow: record_id) take the place of.
-- Parameters: $version.
-- Rows: one a record, the version that had added it.
UPDATE records
SET removed_version = $version
WHERE removed_version IS NULL AND record_id IN (SELECT record_id FROM newer)
RETURNING added_version
