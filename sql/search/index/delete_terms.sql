-- Delete the terms of an index.
-- Parameters: $index.
DELETE FROM index_terms
WHERE index_key = $index
