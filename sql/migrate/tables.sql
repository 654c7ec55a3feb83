-- Base tables of the file.
-- Rows: one a table, any order.
SELECT table_name
FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal AND NOT temporary
