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
