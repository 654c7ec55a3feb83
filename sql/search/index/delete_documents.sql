-- Delete the documents of an index.
-- Parameters: $index.
DELETE FROM index_documents
WHERE index_key = $index
