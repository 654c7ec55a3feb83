-- Sources and splits that have records at the newest version.
-- Parameters: $source (NULL for all), $split (NULL for all).
-- Rows: by source, then split.
SELECT DISTINCT sources.name AS source, splits.split
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE
    records.removed_version IS NULL
    AND sources.name = coalesce($source, sources.name)
    AND splits.split = coalesce($split, splits.split)
ORDER BY sources.name, splits.split
