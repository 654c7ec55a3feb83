-- name: lengths
-- The tokens of the records of a split as of a version.
-- Parameters: $split, $version.
-- Rows: by record_key.
SELECT records.record_key, sum(sections.token_count)::BIGINT AS number
FROM records
JOIN splits ON splits.record_key = records.record_key
JOIN stored_sections AS sections ON sections.record_key = records.record_key
WHERE
    in_split(splits.split, $split)
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY records.record_key
ORDER BY records.record_key
