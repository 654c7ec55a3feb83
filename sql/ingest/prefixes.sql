-- name: append
-- Store the prefixes of records of their own (Arrow new_prefixes: record_key, definition).
INSERT INTO record_prefixes
SELECT record_key, definition
FROM new_prefixes

-- name: clear_source
-- Forget what was set for a source at a version, before something else is.
-- Parameters: $source_id, $version.
DELETE FROM source_prefixes
WHERE source_id = $source_id AND version = $version

-- name: set_source
-- Set the prefix of a source from a version on.
-- Parameters: $source_id, $version, $definition (JSON, or NULL for none).
INSERT INTO source_prefixes
VALUES ($source_id, $version, $definition)

-- name: of_sources
-- The prefixes that hold for the sources of a version.
-- Parameters: $version.
-- Rows: by name of the source.
WITH latest AS (
    SELECT source_id, definition
    FROM source_prefixes
    WHERE version <= $version
    QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY version DESC) = 1
)
SELECT sources.source_id, sources.name, latest.definition
FROM latest
JOIN sources ON sources.source_id = latest.source_id
WHERE
    latest.definition IS NOT NULL
    AND is_live(sources.added_version, sources.removed_version, $version)
ORDER BY sources.name

-- name: filled
-- Which columns of a source's records have a value at all, whatever their version.
-- Parameters: $source_id.
SELECT
    TRUE AS source,
    count(date) > 0 AS date,
    count(group_key) > 0 AS "group",
    coalesce(bool_or(len(taxonomy) > 0), FALSE) AS taxonomy,
    TRUE AS trust
FROM records
WHERE source_id = $source_id

-- name: meta_keys
-- The keys of meta of a source's records, whatever their version.
-- Parameters: $source_id.
-- Rows: by key.
SELECT DISTINCT unnest(map_keys(meta)) AS name
FROM records
WHERE source_id = $source_id
ORDER BY name

-- name: of_records
-- The records of a version with a prefix of their own: their number, and the length of the prefixes,
-- in all and by place. Another corpus has other numbers.
-- Parameters: $version.
SELECT
    count(*) AS records,
    coalesce(sum(strlen(record_prefixes.definition)), 0)::BIGINT AS lengths,
    coalesce(
        sum((records.record_key % 1000003)::HUGEINT * strlen(record_prefixes.definition)), 0
    )::VARCHAR AS places
FROM record_prefixes
JOIN records ON records.record_key = record_prefixes.record_key
WHERE is_live(records.added_version, records.removed_version, $version)
