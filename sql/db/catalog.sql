-- name: aside
-- Names mean DuckDB's own functions and views, whatever a file holds.
SET search_path = 'system.main'

-- name: database
-- The database of the file that an instance has open.
SELECT database_name
FROM duckdb_databases()
WHERE path IS NOT NULL

-- name: entries
-- Everything that the catalogs of an instance hold, with the SQL that made it. DuckDB counts its own
-- types in each database.
-- Rows: in any order.
SELECT database_name, 'TABLE' AS kind, schema_name, table_name AS name, sql
FROM duckdb_tables()
UNION ALL
SELECT database_name, 'VIEW', schema_name, view_name, sql
FROM duckdb_views()
UNION ALL
SELECT
    database_name,
    CASE function_type WHEN 'table_macro' THEN 'MACRO TABLE' ELSE 'MACRO' END,
    schema_name,
    function_name,
    concat(parameters::VARCHAR, parameter_types::VARCHAR, macro_definition)
FROM duckdb_functions()
WHERE database_name <> 'system'
UNION ALL
SELECT database_name, 'INDEX', schema_name, index_name, sql
FROM duckdb_indexes()
UNION ALL
SELECT database_name, 'SEQUENCE', schema_name, sequence_name, ''
FROM duckdb_sequences()
UNION ALL
SELECT database_name, 'TYPE', schema_name, type_name, ''
FROM duckdb_types()
UNION ALL
SELECT database_name, 'SCHEMA', '', schema_name, ''
FROM duckdb_schemas()

-- name: triggers
-- Triggers, which DuckDB has from 2.0 on, with their tables.
-- Rows: in any order.
SELECT database_name, 'TRIGGER', schema_name, trigger_name, table_name
FROM duckdb_triggers()

-- name: reading
-- How DuckDB's parser reads a query, as JSON; nothing in it is bound or run.
-- Parameters: $text.
SELECT json_serialize_sql($text)

-- name: applied
-- The migrations that a file records, read where names mean DuckDB's own. The name of its database
-- replaces `file`.
-- Rows: by number.
SELECT number, name, kind, checksum
FROM file._internal.schema_migrations
ORDER BY number

-- name: files
-- The Parquet files that texts were left in, read in the same way.
-- Rows: by file_key.
SELECT path, size, modified, footer
FROM file._internal.placed_files
ORDER BY file_key

-- name: record
-- The tables of applied migrations in all databases of an instance.
-- Rows: in any order.
SELECT database_name, sql
FROM duckdb_tables()
WHERE schema_name = '_internal' AND table_name = 'schema_migrations'

-- name: attach
-- An empty database beside the file, in which migrations make the expected entries.
ATTACH ':memory:' AS file (READ_WRITE)

-- name: use
-- Names mean what is in it.
USE file

-- name: detach
-- Done with it.
DETACH file
