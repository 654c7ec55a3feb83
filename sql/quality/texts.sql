-- name: places
-- The records of a version that have text, with its size in bytes.
-- Parameters: $version, $splits (names, in order, NULL for all), $sources (names, NULL for all),
-- $without (name of an excluded source, or NULL).
-- Rows: by split in that order, source_id and record_key. The first of equal texts survives.
WITH sizes AS (
    SELECT record_key, sum(strlen(text))::BIGINT AS size
    FROM sections
    WHERE role <> 'rejected'
    GROUP BY record_key
)
SELECT
    records.record_key,
    sizes.size,
    records.source_id,
    coalesce(list_position($splits::VARCHAR[], served_in(splits.split)) - 1, 0)::INTEGER AS split
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN sizes ON sizes.record_key = records.record_key
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND ($splits IS NULL OR list_contains($splits::VARCHAR[], served_in(splits.split)))
    AND ($sources IS NULL OR list_contains($sources::VARCHAR[], sources.name))
    AND ($without IS NULL OR sources.name <> $without)
ORDER BY split, records.source_id, records.record_key

-- name: sections
-- The texts of records (Arrow wanted: record_key).
-- Parameters: $low and $high, the least and the greatest key.
-- Rows: by record and position, one for each section that is not rejected.
SELECT sections.record_key, sections.text
FROM sections
JOIN wanted ON wanted.record_key = sections.record_key
WHERE sections.record_key BETWEEN $low AND $high AND sections.role <> 'rejected'
ORDER BY sections.record_key, sections.position

-- name: record_ids
-- The ids of requested records (Arrow requests: place, record_key).
-- Rows: by place.
SELECT requests.place, records.record_id
FROM requests
JOIN records ON records.record_key = requests.record_key
ORDER BY requests.place

-- name: remove
-- Mark records as removed (Arrow gone: record_key).
-- Parameters: $version.
UPDATE records
SET removed_version = $version
WHERE removed_version IS NULL AND record_key IN (SELECT record_key FROM gone)

-- name: by_source
-- The numbers of checked records (Arrow seen: record_key, found) and of found ones.
-- Rows: by source_id and split.
SELECT
    sources.name AS source,
    splits.split,
    count(*) AS records,
    count(*) FILTER (WHERE seen.found) AS found
FROM seen
JOIN records ON records.record_key = seen.record_key
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
GROUP BY sources.source_id, sources.name, splits.split
ORDER BY sources.source_id, splits.split
