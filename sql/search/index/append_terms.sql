-- Store terms (Arrow: term_key, term, document_count).
-- Parameters: $index.
INSERT INTO index_terms
SELECT $index, term_key, term, document_count
FROM new_terms
