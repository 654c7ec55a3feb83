-- Store documents (Arrow: document, section_key, length).
-- Parameters: $index.
INSERT INTO index_documents
SELECT $index, document, section_key, length
FROM new_documents
