-- The keys of JSON lines, each once.
-- `input` is an Arrow table with a column `line`, registered for the moment.
-- Rows: by first appearance.
SELECT key
FROM (
    SELECT "row", unnest(keys) AS key, generate_subscripts(keys, 1) AS place
    FROM (
        SELECT
            "row",
            TRY(json_keys(line)) AS keys -- an error for what is no JSON, empty for other values
        FROM input
    ) AS documents
) AS appearances
GROUP BY key
ORDER BY min(("row", place))
