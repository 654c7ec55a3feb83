-- name: files
-- The Parquet files that texts were left in.
-- Rows: by file_key.
SELECT path, size, modified, footer
FROM _internal.placed_files
ORDER BY file_key

-- name: is_sealed
-- Whether statements reach no other file any more.
SELECT NOT current_setting('enable_external_access')::BOOLEAN

-- name: folder
-- The folder that paths of files begin in which do not begin at the root.
-- Parameters: $folder.
SET VARIABLE corpus_folder = $folder

-- name: allow
-- Files that statements may read.
-- Parameters: $paths.
SET allowed_paths = $paths

-- name: allow_folder
-- The folder of mined candidates, which statements may read.
-- Parameters: $paths.
SET allowed_directories = $paths
