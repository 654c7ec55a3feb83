-- Of a source's unpublished records with one id only the last is to be seen: remove the others
-- in the very version that adds them.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET added_version = $version, removed_version = $version
WHERE
    source_id = $source_id
    AND removed_version = $unpublished
    AND record_key NOT IN (
        SELECT max(record_key)
        FROM records
        WHERE source_id = $source_id AND removed_version = $unpublished
        GROUP BY record_id
    )
