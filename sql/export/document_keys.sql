-- The documents, in the order in which they are written.
-- Rows: by source and section_key.
SELECT exported_documents.section_key
FROM exported_documents
JOIN sources ON sources.source_id = exported_documents.source_id
ORDER BY sources.name, exported_documents.section_key
