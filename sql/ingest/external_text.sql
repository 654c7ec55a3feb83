-- name: inside
-- The sections whose texts are in the corpus.
SELECT section_key, record_key, position, role, heading, text, token_count, normalised_hash
FROM _internal.stored_sections

-- name: comments
-- The comments of the view `sections`. A new view has none.
-- Rows: one for each column, and one for the view itself (name NULL).
SELECT column_name AS name, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND table_name = 'sections' AND comment IS NOT NULL
UNION ALL
SELECT NULL AS name, comment
FROM duckdb_views()
WHERE database_name = current_database() AND view_name = 'sections' AND comment IS NOT NULL

-- name: own
-- The sections whose texts lie in files of the corpus. Each is in one of these files, by its key.
-- duckplets/ingest/sections_view.py replaces `cells` with the rows of the files.
SELECT
    stored.section_key,
    stored.record_key,
    stored.position,
    stored.role,
    stored.heading,
    cells.text,
    stored.token_count,
    stored.normalised_hash
FROM _internal.stored_sections AS stored
JOIN cells ON cells.section_key = stored.section_key
WHERE stored.file_key IS NOT NULL

-- name: outside
-- The sections whose texts lie in files of users, with the same columns and adjacent keys.
-- duckplets/ingest/sections_view.py replaces `cells` (the rows of the files), `paths`, `first_key`,
-- `last_key` and `cell_text` (by heading).
SELECT
    stored.section_key,
    stored.record_key,
    stored.position,
    stored.role,
    stored.heading,
    cell_text AS text,
    stored.token_count,
    stored.normalised_hash
FROM _internal.stored_sections AS stored
-- DuckDB learns from the left side which files and row groups it need not look at.
LEFT JOIN cells
    ON cells.file_row_number = stored.file_row
    AND cells.filename = list_extract(paths, stored.file_key - first_key + 1)
WHERE stored.file_key BETWEEN first_key AND last_key

-- name: files
-- The files that texts of sources are left in.
-- Rows: by file_key.
SELECT file_key, source_id, path, size, modified, footer, columns
FROM placed_files
ORDER BY file_key

-- name: of_source
-- How many files texts of a source are left in.
-- Parameters: $name (of the source).
SELECT count(*)
FROM placed_files
JOIN sources ON sources.source_id = placed_files.source_id
WHERE sources.name = $name AND sources.removed_version IS NULL

-- name: add_files
-- Note the files new_files (Arrow), with the keys they have there.
-- Parameters: $source_id.
INSERT INTO placed_files BY NAME
SELECT file_key, $source_id AS source_id, path, size, modified, footer, columns
FROM new_files

-- name: sum_new
-- The number of texts of new_sections (Arrow), and a sum of their hashes.
SELECT count(*) AS texts, coalesce(sum(hash(section_key, text)), 0) AS total
FROM new_sections

-- name: sum_stored
-- The same numbers for the sections from a key on, as statements read them.
-- Parameters: $first (section key).
SELECT count(*) AS texts, coalesce(sum(hash(section_key, text)), 0) AS total
FROM sections
WHERE section_key >= $first

-- name: mark_lost
-- Change the hash of records whose texts are gone with their files, so that runs pinned to earlier
-- versions are refused.
-- Parameters: $gone (keys of files).
UPDATE records
SET content_hash = 0
WHERE
    record_key IN (SELECT record_key FROM stored_sections WHERE list_contains($gone, file_key))

-- name: empty_lost
-- Keep the keys of sections whose texts are gone, without texts.
-- Parameters: $gone (keys of files).
UPDATE stored_sections
SET text = '', file_key = NULL, file_row = NULL, item = NULL
WHERE list_contains($gone, file_key)

-- name: forget_files
-- Forget files.
-- Parameters: $gone (their keys).
DELETE FROM placed_files
WHERE list_contains($gone, file_key)

-- name: forget_unused
-- Forget files in which no text is any more.
DELETE FROM placed_files
WHERE file_key NOT IN (SELECT file_key FROM stored_sections WHERE file_key IS NOT NULL)

-- name: wrong
-- The first record from a section key on with a text that differs from the ingested one.
-- Parameters: $first (section key).
SELECT arg_min(records.record_id, chunks.chunk_key)
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
WHERE
    sections.section_key >= $first
    AND chunks.section_key >= $first
    AND md5_number_lower(substring(sections.text, chunks.start + 1, chunks.length))
    IS DISTINCT FROM chunks.text_hash
