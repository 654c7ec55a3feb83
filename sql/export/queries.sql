-- The anchors of pools as a table (their windows are listed in pool_anchors; Arrow: chunk_key).
-- Anchors of one text and source are one query: the first of them.
CREATE TEMP TABLE exported_queries AS
WITH found AS (
    SELECT DISTINCT chunks.section_key
    FROM pool_anchors
    JOIN chunks ON chunks.chunk_key = pool_anchors.chunk_key
)
SELECT
    found.section_key,
    sections.record_key,
    records.source_id,
    md5(sections.text) AS text_hash,
    min(found.section_key) OVER (PARTITION BY records.source_id, md5(sections.text)) AS query_key
FROM found
JOIN sections ON sections.section_key = found.section_key
JOIN records ON records.record_key = sections.record_key
