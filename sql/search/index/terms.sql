-- The vocabulary of an index.
-- Parameters: $index.
SELECT term, term_key
FROM index_terms
WHERE index_key = $index
