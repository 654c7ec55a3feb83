-- name: definitions
-- Definitions of prefixes as nested lists. First the definitions of sources (Arrow written: number,
-- definition), then the definitions of single records (Arrow wanted: record_key).
-- Rows: by number, then by record_key.
WITH definitions AS (
    SELECT false AS own, number, definition
    FROM written
    UNION ALL
    SELECT true AS own, wanted.record_key AS number, record_prefixes.definition
    FROM wanted
    JOIN record_prefixes ON record_prefixes.record_key = wanted.record_key
)

SELECT
    from_json(
        definition,
        '{"probability": "DOUBLE", "variants": [[{"key": "VARCHAR", "values": ["VARCHAR"],
        "presence": "DOUBLE", "column": "VARCHAR"}]]}'
    ) AS prefix
FROM definitions
ORDER BY own, number

-- name: by_record
-- The source of every record, and whether it has a prefix of its own.
-- Rows: in any order.
SELECT
    records.record_key,
    records.source_id,
    records.record_key IN (SELECT record_prefixes.record_key FROM record_prefixes) AS own
FROM records

-- name: columns
-- Columns of records that a prefix may show (Arrow wanted: record_key).
-- Rows: by record_key.
SELECT
    sources.name AS source,
    CASE
        WHEN records.date BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'
            THEN records.date::VARCHAR
    END AS date,
    records.group_key AS "group",
    records.taxonomy,
    records.trust::VARCHAR AS trust
FROM wanted
JOIN records ON records.record_key = wanted.record_key
JOIN sources ON sources.source_id = records.source_id
ORDER BY wanted.record_key

-- name: meta
-- The meta of records that a prefix may show (Arrow wanted: record_key).
-- Rows: by record_key.
SELECT records.meta
FROM wanted
JOIN records ON records.record_key = wanted.record_key
ORDER BY wanted.record_key

-- name: values
-- One column of all records, as a prefix may show it.
-- Parameters: $column (source, date, group, trust, or any other for meta), $key (of meta).
-- Rows: in any order.
SELECT
    records.record_key,
    CASE $column
        WHEN 'source' THEN sources.name
        WHEN 'date'
            THEN
                CASE
                    WHEN records.date BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'
                        THEN records.date::VARCHAR
                END
        WHEN 'group' THEN records.group_key
        WHEN 'trust' THEN records.trust::VARCHAR
        ELSE records.meta[$key]
    END AS value
FROM records
JOIN sources ON sources.source_id = records.source_id
