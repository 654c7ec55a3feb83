-- The queries that have a positive.
-- Rows: by source and section_key.
SELECT records.record_id, sections.position, sections.text
FROM (SELECT DISTINCT source_id, query_key FROM exported_judgements) AS queries
JOIN sections ON sections.section_key = queries.query_key
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = queries.source_id
ORDER BY sources.name, queries.query_key
