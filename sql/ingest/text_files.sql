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
-- A file has been written anew.
-- Parameters: $file_key, $path, $size, $footer.
UPDATE placed_files
SET path = $path, size = $size, footer = $footer
WHERE file_key = $file_key

-- name: number_again
-- It has the texts of sections only, in the same order.
-- Parameters: $file_key.
UPDATE stored_sections
SET file_row = numbered.file_row
FROM (
    SELECT section_key, row_number() OVER (ORDER BY file_row) - 1 AS file_row
    FROM stored_sections
    WHERE file_key = $file_key
) AS numbered
WHERE stored_sections.section_key = numbered.section_key
