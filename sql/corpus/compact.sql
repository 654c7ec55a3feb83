-- name: keep_records
-- Note the records to keep: records that a version needs, and records of unfinished ingests.
-- Parameters: $versions (the newest and those that runs are pinned to), $unpublished.
CREATE OR REPLACE TEMP TABLE kept_records AS
SELECT record_key, source_id
FROM records
WHERE
    removed_version = $unpublished
    OR EXISTS (
        SELECT 1
        FROM (SELECT unnest($versions::BIGINT[]) AS version) AS needed
        WHERE is_live(records.added_version, records.removed_version, needed.version)
    )

-- name: keep_sources
-- Note the sources to keep: sources of a needed version, of unfinished ingests, and of records to keep.
-- Parameters: $versions, $unpublished.
CREATE OR REPLACE TEMP TABLE kept_sources AS
SELECT source_id, name
FROM sources
WHERE
    removed_version = $unpublished
    OR source_id IN (SELECT source_id FROM kept_records)
    OR EXISTS (
        SELECT 1
        FROM (SELECT unnest($versions::BIGINT[]) AS version) AS needed
        WHERE is_live(sources.added_version, sources.removed_version, needed.version)
    )

-- name: keep_sections
-- Note the sections to keep.
CREATE OR REPLACE TEMP TABLE kept_sections AS
SELECT section_key
FROM stored_sections AS sections
WHERE record_key IN (SELECT record_key FROM kept_records)

-- name: keep_indexes
-- Note the indexes to keep: indexes of kept sections only. The others are stale.
CREATE OR REPLACE TEMP TABLE kept_indexes AS
SELECT index_key
FROM text_indexes
WHERE
    source_id IN (SELECT source_id FROM kept_sources)
    AND index_key NOT IN (
        SELECT index_key
        FROM index_documents
        WHERE section_key NOT IN (SELECT section_key FROM kept_sections)
    )

-- name: tables
-- The tables of the corpus, each with its columns and its rows.
-- Rows: by name.
SELECT tables.table_name, list(columns.column_name)
FROM duckdb_tables() AS tables
JOIN duckdb_columns() AS columns USING (table_oid)
WHERE NOT tables.internal AND NOT tables.temporary AND columns.database_name = current_database()
GROUP BY tables.table_name
ORDER BY tables.table_name

-- name: count
-- The rows of a table.
-- Parameters: $table.
SELECT count(*)
FROM query_table($table)

-- name: whole
-- All rows of a table.
-- Parameters: $table.
-- Rows: as they were stored, here and below.
FROM query_table($table)

-- name: label_ids
-- The ids of labels that no record has, now or once others are gone.
-- Parameters: $table.
SELECT *
FROM query_table($table)
UNION
SELECT id_hash, record_id
FROM records
WHERE
    record_id NOT IN (SELECT record_id FROM records SEMI JOIN kept_records USING (record_key))
    AND id_hash IN (SELECT anchor FROM labels UNION ALL SELECT document FROM labels)

-- name: of_records
-- The rows of a table that belong to kept records, or to no record.
-- Parameters: $table.
SELECT *
FROM query_table($table)
WHERE record_key IS NULL OR record_key IN (SELECT record_key FROM kept_records)

-- name: of_sections
-- The rows of a table that belong to kept sections.
-- Parameters: $table.
SELECT *
FROM query_table($table)
WHERE section_key IN (SELECT section_key FROM kept_sections)

-- name: of_indexes
-- The rows of a table that belong to kept indexes.
-- Parameters: $table.
SELECT *
FROM query_table($table)
WHERE index_key IN (SELECT index_key FROM kept_indexes)

-- name: of_sources
-- The rows of a table that belong to kept sources.
-- Parameters: $table.
SELECT *
FROM query_table($table)
WHERE source_id IN (SELECT source_id FROM kept_sources)

-- name: of_names
-- The rows of a table that belong to kept sources, by their names.
-- Parameters: $table.
SELECT *
FROM query_table($table)
WHERE source IN (SELECT name FROM kept_sources)

-- name: last_keys
-- The last used key of each kind; for indexes, the last key of their sequence.
SELECT
    (SELECT greatest(max(source_id), last_key('source')) FROM sources) AS source,
    (SELECT coalesce(last_value, 0) FROM duckdb_sequences() WHERE sequence_name = 'text_index_keys')
        AS index

-- name: set_keys
-- Keep the last used keys.
-- Parameters: $value (JSON).
DELETE FROM settings
WHERE name = 'keys';

INSERT INTO settings
VALUES ('keys', $value)

-- name: use_up
-- Use up a number of index keys.
-- Parameters: $numbers.
SELECT max(nextval('text_index_keys'))
FROM range($numbers)

-- name: texts
-- The texts of the chunks that are left.
-- Rows: ascending.
SELECT DISTINCT text_hash
FROM chunks
ORDER BY text_hash
