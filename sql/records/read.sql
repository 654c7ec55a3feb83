-- name: keys
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
    AND ($split IS NULL OR served_in(splits.split) = $split)
ORDER BY CASE WHEN $by_source THEN records.source_id END, records.record_key

-- name: labels
-- What requested records are called and where they belong (Arrow requests: request, record_key).
-- Rows: in any order; request says which is which.
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
-- What else is stored with requested records (Arrow requests: request, record_key).
-- Rows: in any order; request says which is which.
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
-- The sections of requested records (Arrow requests: request, record_key). Putting a record's
-- texts together here, by an ordered string_agg, took nine times as long as fetching them.
-- Parameters: $role (NULL for all), $roles (names).
-- Rows: in any order; a record's sections belong in that of section_key. The role is its number.
SELECT
    requests.request,
    sections.section_key,
    list_position($roles::VARCHAR[], sections.role) - 1 AS role,
    sections.text
FROM requests
JOIN sections ON sections.record_key = requests.record_key
WHERE $role IS NULL OR sections.role = $role
