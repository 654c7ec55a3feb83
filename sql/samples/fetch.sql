-- name: details
-- What else can be known of requested windows (Arrow asked: request, key).
-- Rows: by request.
SELECT
    records.record_id,
    sections.position AS section,
    sections.heading AS heading,
    CASE WHEN chunks.kind = 'window' THEN chunks.window_index END AS "window",
    chunks.token_count AS tokens,
    records.trust,
    records.date,
    records.meta,
    chunks.kind,
    chunks.overlap,
    chunks.start,
    chunks.length,
    chunks.start_token / sections.token_count AS start_ratio
FROM asked
JOIN chunks ON chunks.chunk_key = asked.key
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY asked.request

-- name: conversation_details
-- What else can be known of requested records (Arrow asked: request, key).
-- Rows: by request.
SELECT records.record_id, records.trust, records.date, records.meta
FROM asked
JOIN records ON records.record_key = asked.key
ORDER BY asked.request
