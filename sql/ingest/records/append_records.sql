-- Append new_records (Arrow).
-- Parameters: $source_id, $version, $removed_version (NULL, or that of unpublished records),
-- $trust (of the source, for records without their own).
INSERT INTO records
SELECT
    record_key, record_id, $source_id, $version, $removed_version, date, group_key, taxonomy, meta,
    coalesce(trust, $trust), content_hash,
    coalesce(created_at, now()::TIMESTAMP), coalesce(updated_at, created_at, now()::TIMESTAMP)
FROM new_records
