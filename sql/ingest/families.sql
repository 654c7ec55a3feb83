-- name: records
-- The records of a split as of a version, for the other statements. Comments must not name the
-- words that are replaced below: a value with a line break would end the comment.
-- Parameters: $split, $version.
-- Rows: in any order.
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

-- name: groups
-- The family of each record: its group, or without a group the normalised text of its anchor. A
-- record without an anchor has its first section instead.
-- Rows: one a record, by record_key.
SELECT
    records.record_key,
    coalesce(
        md5_number_lower('group' || chr(31) || any_value(records.group_key)),
        min(leading_sections.normalised_hash)
    ) AS family
FROM split_records AS records
JOIN leading_sections ON leading_sections.record_key = records.record_key
GROUP BY records.record_key
ORDER BY records.record_key

-- name: given
-- The family of each record by a value, and the rank of the value. Records without the value have
-- no family.
-- Rows: one a record with a value, by record_key.
WITH found AS (
    SELECT record_key, (family_value) AS value
    FROM split_records AS slot
),

-- Hashed and sorted once for each value: there are far fewer values than records.
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
-- A value of each record: as a text, as a number, and as a date in microseconds.
-- Rows: one a record, by record_key.
SELECT
    record_key, text, TRY_CAST(text AS DOUBLE) AS number,
    epoch_us(TRY_CAST(text AS TIMESTAMP)) AS moment
FROM (
    SELECT record_key, CAST((family_value) AS VARCHAR) AS text
    FROM split_records AS slot
) AS found
ORDER BY record_key
