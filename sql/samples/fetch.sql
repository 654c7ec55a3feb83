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

-- name: positive_labels
-- The labels of positives beside their anchors, else those of their own pairs (Arrow asked: request,
-- anchor, positive, version).
-- Rows: by request.
WITH pairs AS (
    SELECT
        asked.request, asked.version,
        [text_side(anchors.text_hash), askers.id_hash] AS anchors,
        [text_side(positives.text_hash), records.id_hash] AS documents,
        CASE WHEN records.record_key = askers.record_key THEN records.label END AS label
    FROM asked
    JOIN chunks AS anchors ON anchors.chunk_key = asked.anchor
    JOIN records AS askers ON askers.record_key = anchors.record_key
    JOIN chunks AS positives ON positives.chunk_key = asked.positive
    JOIN records ON records.record_key = positives.record_key
),

sides AS (
    SELECT request, version, anchor, unnest(documents) AS document
    FROM (SELECT request, version, documents, unnest(anchors) AS anchor FROM pairs)
)

SELECT coalesce(said.label, pairs.label) AS label
FROM pairs
LEFT JOIN (
    SELECT sides.request, newest_label(labels.label, labels.added_version) AS label
    FROM sides
    JOIN labels ON labels.anchor = sides.anchor AND labels.document = sides.document
    WHERE labels.added_version <= sides.version
    GROUP BY sides.request
) AS said ON said.request = pairs.request
ORDER BY pairs.request

-- name: positive_scores
-- The scores that a mining gave to positives of anchors (Arrow asked: request, anchor, positive).
-- Parameters: $files (of its positives).
-- Rows: by request.
SELECT max(ranked.score) AS score
FROM asked
JOIN chunks AS anchors ON anchors.chunk_key = asked.anchor
JOIN chunks AS positives ON positives.chunk_key = asked.positive
LEFT JOIN read_parquet($files) AS ranked
    ON ranked.anchor_section_key = anchors.section_key
    AND ranked.positive_section_key = positives.section_key
GROUP BY asked.request
ORDER BY asked.request

-- name: conversation_details
-- What else can be known of requested records (Arrow asked: request, key).
-- Rows: by request.
SELECT records.record_id, records.trust, records.date, records.meta
FROM asked
JOIN records ON records.record_key = asked.key
ORDER BY asked.request
