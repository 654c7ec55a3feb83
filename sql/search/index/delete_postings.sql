-- Delete the postings of an index.
-- Parameters: $index.
DELETE FROM index_postings
WHERE index_key = $index
