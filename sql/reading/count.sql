-- How many records of a version there are to read.
-- Parameters: $version, $source (NULL for all), $split (NULL for all).
SELECT count(*)
FROM records
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    records.added_version <= $version
    AND coalesce(records.removed_version > $version, TRUE)
    AND ($source IS NULL OR sources.name = $source)
    AND ($split IS NULL OR splits.split = $split)
