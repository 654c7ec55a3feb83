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
