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

-- name: texts
-- The folder of texts of the corpus.
-- Parameters: $folder.
SET VARIABLE corpus_texts = $folder

-- name: allow
-- Files that statements may read.
-- Parameters: $paths.
SET allowed_paths = $paths

-- name: allow_folder
-- The folders of mined candidates and of texts, which statements may read.
-- Parameters: $paths.
SET allowed_directories = $paths
