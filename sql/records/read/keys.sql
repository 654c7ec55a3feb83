-- The records of a version that can be read by number: the k-th of them, or of a source, is record
-- k.
-- Parameters: $version, $sources (names, NULL for all), $split (NULL for all), $by_source.
-- Rows: by record_key, the order of arrival, so what is added later comes last; before that by
-- source_id if $by_source.
SELECT records.record_key
FROM records
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND ($sources IS NULL OR list_contains($sources::VARCHAR[], sources.name))
    AND ($split IS NULL OR splits.split = $split)
ORDER BY CASE WHEN $by_source THEN records.source_id END, records.record_key
