-- name: parsed
-- Definitions of prefixes (Arrow written: number, definition) as nested lists.
-- Rows: in the order of written.
SELECT
    from_json(
        definition,
        '{"probability": "DOUBLE", "variants": [[{"key": "VARCHAR", "values": ["VARCHAR"],
        "presence": "DOUBLE", "column": "VARCHAR"}]]}'
    ) AS prefix
FROM written
ORDER BY number

-- name: own
-- The prefixes of records of their own (Arrow wanted: record_key), as nested lists.
-- Rows: by record_key.
SELECT
    from_json(
        record_prefixes.definition,
        '{"probability": "DOUBLE", "variants": [[{"key": "VARCHAR", "values": ["VARCHAR"],
        "presence": "DOUBLE", "column": "VARCHAR"}]]}'
    ) AS prefix
FROM wanted
JOIN record_prefixes ON record_prefixes.record_key = wanted.record_key
ORDER BY wanted.record_key

-- name: holders
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
    records.date,
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
