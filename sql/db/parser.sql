-- name: reading
-- How DuckDB's parser reads expressions, as JSON; nothing in them is bound or run.
-- A parameter would import pandas: duckplets/db/parser.py puts the text itself in its place.
-- Parameters: $expressions (joined by what closes one and opens the next).
SELECT json_serialize_sql(concat('SELECT (', $expressions, ')'))

-- name: table_functions
-- The names of DuckDB's own table functions.
SELECT function_name
FROM duckdb_functions()
WHERE function_type = 'table'
