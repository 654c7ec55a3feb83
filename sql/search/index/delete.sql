-- Delete what an index is.
-- Parameters: $index.
DELETE FROM text_indexes
WHERE index_key = $index
