-- name: json_values
-- The values of a .json file, as JSON text: elements of its array, or objects one after another.
-- Parameters: $path, $format ('array' or 'unstructured'), $largest (bytes of the largest value).
-- Rows: in the order of the file.
SELECT json AS line
FROM read_json_objects($path, format = $format, maximum_object_size = $largest)

-- name: kinds
-- What each JSON line is: OBJECT, ARRAY, …, or NULL for what is no JSON.
-- `input` is an Arrow table with a column `line`, registered for the moment. A statement of its
-- own, because every JSON function in one keeps four times the longest line set aside.
-- Rows: in the order of the input.
SELECT TRY(json_type(line)) AS kind
FROM input

-- name: keys
-- The first keys of JSON lines, each once.
-- `input` is an Arrow table of (row, fault, line, kind, …), registered for the moment.
-- Parameters: $most.
-- Rows: by first appearance.
SELECT key
FROM (
    SELECT "row", unnest(keys) AS key, generate_subscripts(keys, 1) AS place
    FROM (
        SELECT
            "row",
            CASE WHEN kind = 'OBJECT' AND fault IS NULL THEN json_keys(line)[:$most] END AS keys
        FROM input
    ) AS documents
) AS appearances
GROUP BY key
ORDER BY min(("row", place))
LIMIT $most

-- name: fields
-- The first keys of what JSON lines have at a place, each once.
-- `input` is an Arrow table of (row, fault, line, kind, …), registered for the moment.
-- Parameters: $pointer, $most.
-- Rows: in the order of the keys.
SELECT DISTINCT unnest(json_keys(line, $pointer)) AS key
FROM input
WHERE kind = 'OBJECT' AND fault IS NULL
ORDER BY key
LIMIT $most

-- name: left_out
-- Of JSON lines, which keys with a value nobody reads, as a JSON list; NULL where there are none.
-- `input` is an Arrow table of (row, fault, line, kind, …), registered for the moment.
-- Parameters: $known (the keys that are read, in lower case).
-- Rows: in the order of the input.
SELECT CASE WHEN len(others) > 0 THEN CAST(to_json(others) AS VARCHAR) END AS left_out
FROM (
    SELECT
        [
            k FOR k IN unknown
            IF json_type(line, concat('/', replace(replace(k, '~', '~0'), '/', '~1'))) <> 'NULL'
        ] AS others
    FROM (
        SELECT
            line,
            CASE
                WHEN kind = 'OBJECT' AND fault IS NULL
                THEN [k FOR k IN json_keys(line) IF NOT list_contains($known, lower(k))]
            END AS unknown
        FROM input
    ) AS documents
) AS judged

-- name: have
-- Whether any JSON line has something at all of some places.
-- `input` is an Arrow table of (row, fault, line, kind, …), registered for the moment.
-- Parameters: $pointers.
-- Rows: one.
SELECT
    coalesce(
        bool_or(len([p FOR p IN $pointers IF json_type(line, p) IS NULL]) = 0), FALSE
    ) AS found
FROM input
WHERE kind = 'OBJECT' AND fault IS NULL

-- name: documents
-- Lines that should hold one JSON object each, judged; blank ones are left out.
-- `input` is an Arrow table of (row, fault, modified, line, kind), registered for the moment.
-- Rows: in the order of the input.
SELECT
    "row",
    modified,
    CASE WHEN kind = 'OBJECT' AND fault IS NULL THEN line END AS document,
    CASE
        WHEN fault IS NOT NULL THEN fault
        WHEN kind IS NULL THEN 'invalid JSON'
        WHEN kind <> 'OBJECT' THEN 'not an object'
    END AS fault
FROM input
WHERE fault IS NOT NULL OR kind IS NOT NULL OR regexp_matches(line, '[^ \t\r\n]')
