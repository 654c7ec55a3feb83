-- What else can be known of requested windows (Arrow asked: request, chunk_key).
-- Rows: by request.
SELECT
    records.record_id,
    sections.position AS section,
    sections.heading AS heading,
    CASE WHEN chunks.kind = 'window' THEN chunks.window_index END AS "window",
    chunks.token_count AS tokens,
    records.trust,
    records.date,
    records.meta
FROM asked
JOIN chunks ON chunks.chunk_key = asked.chunk_key
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY asked.request
