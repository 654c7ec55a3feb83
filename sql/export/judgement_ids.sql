-- The ids of queries and of the documents that are relevant to them.
-- Rows: by source, section_key of the query and of the document.
SELECT records.record_id, sections.position, exported_documents.id
FROM exported_judgements
JOIN sections ON sections.section_key = exported_judgements.query_key
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = exported_judgements.source_id
JOIN exported_documents ON exported_documents.section_key = exported_judgements.section_key
ORDER BY sources.name, exported_judgements.query_key, exported_judgements.section_key
