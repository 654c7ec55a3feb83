-- name: groups
-- The families of the records of a split as of a version: the group, else the normalised text of
-- the anchor, or of the first section where a record has none.
-- Parameters: $split, $version.
-- Rows: one a record, by record_key.
SELECT
    records.record_key,
    coalesce(
        md5_number_lower('group' || chr(31) || any_value(records.group_key)),
        min(leading_sections.normalised_hash)
    ) AS family
FROM records
JOIN splits ON splits.record_key = records.record_key
JOIN leading_sections ON leading_sections.record_key = records.record_key
WHERE
    in_split(splits.split, $split)
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY records.record_key
ORDER BY records.record_key

-- name: given
-- The families of the records of a split as of a version, by a value of theirs, which takes
-- the place of a name below, and the place of the value among all; records without one are in none.
-- Parameters: $split, $version.
-- Rows: one a record with a value, by record_key.
WITH found AS (
    SELECT record_key, (family_value) AS value
    FROM (
        SELECT
            records.record_key, records.record_id, records.date, records.group_key,
            records.taxonomy, records.meta, records.trust, records.created_at, records.updated_at,
            records.label, sources.name AS source
        FROM records
        JOIN splits ON splits.record_key = records.record_key
        JOIN sources ON sources.source_id = records.source_id
        WHERE
            in_split(splits.split, $split)
            AND is_live(records.added_version, records.removed_version, $version)
    ) AS slot
),

-- Hashed and put in order once each: there are far fewer than records.
numbered AS (
    SELECT
        value, md5_number_lower(json_array(value)) AS family,
        row_number() OVER (ORDER BY value) - 1 AS number
    FROM (SELECT DISTINCT value FROM found WHERE value IS NOT NULL)
)

SELECT record_key, family, number
FROM found
JOIN numbered USING (value)
ORDER BY record_key

-- name: read
-- A value of the records of a split as of a version, which takes the place of a name below: as a
-- text, and where it is one as a number, or as a date in microseconds.
-- Parameters: $split, $version.
-- Rows: one a record, by record_key.
SELECT
    record_key, text, TRY_CAST(text AS DOUBLE) AS number,
    epoch_us(TRY_CAST(text AS TIMESTAMP)) AS moment
FROM (
    SELECT record_key, CAST((family_value) AS VARCHAR) AS text
    FROM (
        SELECT
            records.record_key, records.record_id, records.date, records.group_key,
            records.taxonomy, records.meta, records.trust, records.created_at, records.updated_at,
            records.label, sources.name AS source
        FROM records
        JOIN splits ON splits.record_key = records.record_key
        JOIN sources ON sources.source_id = records.source_id
        WHERE
            in_split(splits.split, $split)
            AND is_live(records.added_version, records.removed_version, $version)
    ) AS slot
) AS found
ORDER BY record_key
