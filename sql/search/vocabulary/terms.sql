-- The terms with keys from $low to below $high.
-- Parameters: $low, $high.
-- Rows: by key.
SELECT term_key, term
FROM terms
WHERE term_key >= $low AND term_key < $high
ORDER BY term_key
