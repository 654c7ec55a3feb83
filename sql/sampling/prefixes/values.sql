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
