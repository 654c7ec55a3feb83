-- name: keys
-- Return the records of a version in the order of their numbers.
-- Parameters: $version, $sources (names, NULL for all), $split (NULL for all), $by_source.
-- Rows: by record_key, the order of arrival, so later records come last; first by source_id if
-- $by_source.
SELECT records.record_key
FROM records
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND ($sources IS NULL OR list_contains($sources::VARCHAR[], sources.name))
    AND ($split IS NULL OR served_in(splits.split) = $split)
ORDER BY CASE WHEN $by_source THEN records.source_id END, records.record_key

-- name: labels
-- Return id, source, split and date of requested records (Arrow requests: request, record_key).
-- Rows: in any order; request identifies the record.
SELECT
    requests.request,
    records.record_id,
    sources.name AS source,
    splits.split,
    records.date
FROM requests
JOIN records ON records.record_key = requests.record_key
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = requests.record_key

-- name: details
-- Return the other columns of requested records (Arrow requests: request, record_key).
-- Rows: in any order; request identifies the record.
SELECT
    requests.request,
    records.meta,
    records.group_key,
    records.taxonomy,
    records.trust,
    records.created_at,
    records.updated_at,
    records.label
FROM requests
JOIN records ON records.record_key = requests.record_key

-- name: texts
-- Return the sections of requested records (Arrow requests: request, record_key). Joining a record's
-- texts here, by an ordered string_agg, took nine times as long as fetching them.
-- Parameters: $role (NULL for all), $roles (names).
-- Rows: in any order; the reader sorts sections by section_key. role is a number in $roles.
SELECT
    requests.request,
    sections.section_key,
    list_position($roles::VARCHAR[], sections.role) - 1 AS role,
    sections.text
FROM requests
JOIN sections ON sections.record_key = requests.record_key
WHERE $role IS NULL OR sections.role = $role
