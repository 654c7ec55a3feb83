-- The records of a version that can be read by number: the k-th of them is record k.
-- Parameters: $version, $source (NULL for all), $split (NULL for all).
-- Rows: by record_key, the order of arrival, so what is added later comes last.
SELECT records.record_key
FROM records
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND ($source IS NULL OR sources.name = $source)
    AND ($split IS NULL OR splits.split = $split)
ORDER BY records.record_key
