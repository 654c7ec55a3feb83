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
