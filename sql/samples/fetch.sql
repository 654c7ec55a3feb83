-- name: record_of
-- The record that a section belongs to.
-- Parameters: $section_key.
SELECT records.record_id
FROM stored_sections AS sections
JOIN records ON records.record_key = sections.record_key
WHERE sections.section_key = $section_key

-- name: texts
-- The texts of requests (Arrow: request, section_key, start, length; -1 for the whole section).
-- Rows: in any order, for sorting them took a third of the time; request says which is which.
SELECT
    requests.request,
    CASE
        WHEN requests.length < 0 THEN sections.text
        ELSE substring(sections.text, requests.start + 1, requests.length)
    END AS text
FROM requests
JOIN sections ON sections.section_key = requests.section_key

-- name: prefixed_texts
-- The texts of requests, some with a line in front (Arrow: request, section_key, start, length as
-- for fetch/texts, and line, NULL for none).
-- Rows: in any order; request says which is which.
SELECT
    prefixed.request,
    CASE
        WHEN prefixed.line IS NULL AND prefixed.length < 0 THEN sections.text
        WHEN prefixed.line IS NULL
            THEN substring(sections.text, prefixed.start + 1, prefixed.length)
        WHEN prefixed.length < 0 THEN prefixed.line || chr(10) || sections.text
        ELSE
            prefixed.line || chr(10) || substring(
                sections.text, prefixed.start + 1, prefixed.length
            )
    END AS text
FROM prefixed
JOIN sections ON sections.section_key = prefixed.section_key

-- name: details
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
    records.meta,
    chunks.kind,
    chunks.overlap,
    chunks.start,
    chunks.length,
    chunks.start_token / sections.token_count AS start_ratio
FROM asked
JOIN chunks ON chunks.chunk_key = asked.chunk_key
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY asked.request
