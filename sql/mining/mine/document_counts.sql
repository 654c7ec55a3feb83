-- How many of some documents (Arrow eligible: document) have each term of an index.
-- Parameters: $index.
SELECT index_postings.term_key, count(*) AS document_count
FROM index_postings
JOIN eligible ON eligible.document = index_postings.document
WHERE index_postings.index_key = $index
GROUP BY index_postings.term_key
