-- name: last
-- The key of the last file that texts are in.
SELECT coalesce(max(file_key), 0)
FROM placed_files

-- name: rows
-- The rows of a file that are texts of sections.
-- Parameters: $file_key.
-- Rows: ascending.
SELECT file_row
FROM stored_sections
WHERE file_key = $file_key
ORDER BY file_row

-- name: move
-- Set the name of a file that was written again.
-- Parameters: $file_key, $path, $size, $footer.
UPDATE placed_files
SET path = $path, size = $size, footer = $footer
WHERE file_key = $file_key

-- name: number_again
-- Number its rows again: texts without sections are gone.
-- Parameters: $file_key.
UPDATE stored_sections
SET file_row = numbered.file_row
FROM (
    SELECT section_key, row_number() OVER (ORDER BY file_row) - 1 AS file_row
    FROM stored_sections
    WHERE file_key = $file_key
) AS numbered
WHERE stored_sections.section_key = numbered.section_key

-- name: texts
-- The sections whose texts lie in some files, with their texts.
-- Parameters: $keys (of the files).
-- Rows: in any order.
SELECT section_key, text
FROM sections
WHERE
    section_key IN (SELECT section_key FROM stored_sections WHERE list_contains($keys, file_key))

-- name: longest
-- The bytes of the longest text that lies in some files.
-- Parameters: $keys (of the files).
SELECT max(strlen(text))
FROM sections
WHERE
    section_key IN (SELECT section_key FROM stored_sections WHERE list_contains($keys, file_key))

-- name: set_places
-- Set the new places of texts (Arrow moved: section_key, file_key, file_row).
UPDATE stored_sections
SET file_key = moved.file_key, file_row = moved.file_row, item = NULL
FROM moved
WHERE stored_sections.section_key = moved.section_key
