-- How many terms an index has.
-- Parameters: $index.
SELECT count(*)
FROM index_terms
WHERE index_key = $index
