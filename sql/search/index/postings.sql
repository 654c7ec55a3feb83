-- The postings of some documents of an index: from $low to below $high.
-- Parameters: $index, $low, $high.
-- Rows: by term_key, then document.
SELECT term_key, document, frequency
FROM index_postings
WHERE index_key = $index AND document >= $low AND document < $high
ORDER BY term_key, document
