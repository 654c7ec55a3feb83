-- Append new_records (Arrow).
-- Parameters: $source_id, $version, $trust (of the source, for records without their own).
INSERT INTO records
SELECT
    record_key, record_id, $source_id, $version, NULL, date, group_key, taxonomy, meta,
    coalesce(trust, $trust), content_hash,
    coalesce(created_at, now()::TIMESTAMP), coalesce(updated_at, created_at, now()::TIMESTAMP)
FROM new_records
