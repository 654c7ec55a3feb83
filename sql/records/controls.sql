-- name: clear
-- Delete the index controls of a source.
-- Parameters: $source_id.
DELETE FROM index_controls WHERE source_id = $source_id

-- name: set
-- Store the index controls of a source.
-- Parameters: $source_id, $size (NULL for all), $size_mode, $weight, $seed.
INSERT INTO index_controls (source_id, size, size_mode, weight, seed)
VALUES ($source_id, $size, $size_mode, $weight, $seed)

-- name: sources
-- Return the sources of a version with the number of their records and their index controls.
-- Parameters: $version, $split (NULL for all).
-- Rows: by name.
SELECT
    sources.name,
    sources.source_id,
    count(records.record_key) FILTER (WHERE $split IS NULL OR served_in(splits.split) = $split) AS records,
    any_value(index_controls.size) AS size,
    any_value(index_controls.size_mode) AS size_mode,
    any_value(index_controls.weight) AS weight,
    any_value(index_controls.seed) AS seed
FROM sources
LEFT JOIN records
    ON records.source_id = sources.source_id
    AND is_live(records.added_version, records.removed_version, $version)
LEFT JOIN splits ON splits.record_key = records.record_key
LEFT JOIN index_controls ON index_controls.source_id = sources.source_id
WHERE is_live(sources.added_version, sources.removed_version, $version)
GROUP BY sources.name, sources.source_id
ORDER BY sources.name
