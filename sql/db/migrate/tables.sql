-- Tables and views of the file.
-- Rows: one each, any order.
SELECT table_name
FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal AND NOT temporary
UNION ALL
SELECT view_name
FROM duckdb_views()
WHERE database_name = current_database() AND NOT internal AND NOT temporary
