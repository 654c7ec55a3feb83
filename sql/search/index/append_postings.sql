-- Store postings (Arrow: term_key, document, frequency).
-- Parameters: $index.
INSERT INTO index_postings
SELECT $index, term_key, document, frequency
FROM new_postings
