-- The keys of JSON lines, each once.
-- `input` is an Arrow table of (row, line, kind, …), registered for the moment.
-- Rows: by first appearance.
SELECT key
FROM (
    SELECT "row", unnest(keys) AS key, generate_subscripts(keys, 1) AS place
    FROM (
        SELECT "row", CASE WHEN kind = 'OBJECT' THEN json_keys(line) END AS keys
        FROM input
    ) AS documents
) AS appearances
GROUP BY key
ORDER BY min(("row", place))
