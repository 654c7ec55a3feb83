-- name: names
-- Tables of a file.
-- Rows: by name.
SELECT table_name
FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal AND NOT temporary
ORDER BY table_name

-- name: rows
-- A number that every value of a table goes into, so that all of it is read.
-- Parameters: $table (its name).
SELECT bit_xor(hash(t)) FROM query_table($table) AS t
