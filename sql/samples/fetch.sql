-- name: details
-- Further facts about requested windows (Arrow requests: request, key).
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
FROM requests
JOIN chunks ON chunks.chunk_key = requests.key
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY requests.request

-- name: positive_labels
-- The labels of texts for anchors (Arrow requests: request, anchor, positive, version). Without one,
-- the label of the record's own pair. A label of a document holds for the texts of all its windows.
-- Rows: by request.
WITH pairs AS (
    SELECT
        requests.request, requests.version, positives.text_hash,
        unnest([text_side(anchors.text_hash), anchor_records.id_hash]) AS anchor,
        CASE WHEN positives.record_key = anchor_records.record_key THEN anchor_records.label END AS label
    FROM requests
    JOIN chunks AS anchors ON anchors.chunk_key = requests.anchor
    JOIN records AS anchor_records ON anchor_records.record_key = anchors.record_key
    JOIN chunks AS positives ON positives.chunk_key = requests.positive
),

labelled AS (SELECT * FROM labels SEMI JOIN pairs ON pairs.anchor = labels.anchor),

newest AS (
    SELECT pairs.request, newest_label(labels.label, labels.added_version) AS label
    FROM pairs
    JOIN (
        SELECT
            anchor, label, added_version, document, 0 AS first_version, NULL AS removed_version
        FROM labelled
        UNION ALL
        SELECT
            labelled.anchor, labelled.label, labelled.added_version,
            text_side(chunks.text_hash) AS document, records.added_version, records.removed_version
        FROM labelled
        JOIN records ON records.id_hash = labelled.document
        JOIN chunks ON chunks.record_key = records.record_key
    ) AS labels ON labels.anchor = pairs.anchor AND labels.document = text_side(pairs.text_hash)
    WHERE
        labels.added_version <= pairs.version
        AND is_live(labels.first_version, labels.removed_version, pairs.version)
    GROUP BY pairs.request
)

SELECT coalesce(any_value(newest.label), any_value(pairs.label)) AS label
FROM pairs
LEFT JOIN newest ON newest.request = pairs.request
GROUP BY pairs.request
ORDER BY pairs.request

-- name: positive_scores
-- The scores of positives for anchors in a mining (Arrow requests: request, anchor, positive).
-- Parameters: $files (of its positives).
-- Rows: by request.
SELECT max(ranked.score) AS score
FROM requests
JOIN chunks AS anchors ON anchors.chunk_key = requests.anchor
JOIN chunks AS positives ON positives.chunk_key = requests.positive
LEFT JOIN read_parquet($files) AS ranked
    ON ranked.anchor_section_key = anchors.section_key
    AND ranked.positive_section_key = positives.section_key
GROUP BY requests.request
ORDER BY requests.request

-- name: conversation_details
-- Further facts about requested records (Arrow requests: request, key).
-- Rows: by request.
SELECT records.record_id, records.trust, records.date, records.meta
FROM requests
JOIN records ON records.record_key = requests.key
ORDER BY requests.request
