-- The queries that have a positive, with the ids of the documents that are relevant to them.
-- Rows: by source and section_key; relevant by section_key.
WITH pairs AS (
    SELECT DISTINCT source_id, query_key, section_key
    FROM exported_judgements
),
queries AS (
    SELECT
        pairs.source_id,
        pairs.query_key,
        list(exported_documents.id ORDER BY pairs.section_key) AS relevant
    FROM pairs
    JOIN exported_documents ON exported_documents.section_key = pairs.section_key
    GROUP BY pairs.source_id, pairs.query_key
)
SELECT records.record_id, sections.position, sections.text, queries.relevant
FROM queries
JOIN sections ON sections.section_key = queries.query_key
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = queries.source_id
ORDER BY sources.name, queries.query_key
