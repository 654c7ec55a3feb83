-- The documents of an index.
-- Parameters: $index.
-- Rows: by document.
SELECT document, section_key, length
FROM index_documents
WHERE index_key = $index
ORDER BY document
