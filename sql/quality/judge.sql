-- name: append_unjudged
-- Append the records of the newest version that no gate has seen, as accepted and not measured.
INSERT INTO judgements
WITH unjudged AS MATERIALIZED (
    SELECT record_key, record_id, source_id
    FROM records
    WHERE
        removed_version IS NULL
        AND record_key NOT IN (SELECT record_key FROM judgements WHERE record_key IS NOT NULL)
),

sizes AS (
    SELECT sections.record_key, sum(strlen(sections.text) + 2)::BIGINT - 2 AS bytes
    FROM sections
    JOIN unjudged ON unjudged.record_key = sections.record_key
    WHERE sections.role <> 'rejected'
    GROUP BY sections.record_key
)

SELECT
    (SELECT coalesce(max(judgement_key), 0) FROM judgements)
    + row_number() OVER (ORDER BY unjudged.record_key),
    NULL, unjudged.source_id, sources.name, NULL, -unjudged.record_key, NULL, unjudged.record_id,
    unjudged.record_key, 'accepted', NULL, NULL, record_hashes.digest, sizes.bytes, NULL, NULL
FROM unjudged
JOIN sources ON sources.source_id = unjudged.source_id
JOIN record_hashes ON record_hashes.record_key = unjudged.record_key
JOIN sizes ON sizes.record_key = unjudged.record_key

-- name: fields
-- The fields of records (Arrow wanted: record_key) that gates need, without texts.
-- Rows: by record_key.
SELECT
    any_value(records.date) AS date, any_value(records.group_key) AS group_key,
    any_value(records.taxonomy) AS taxonomy, any_value(records.meta) AS meta,
    any_value(records.created_at) AS created_at, any_value(records.updated_at) AS updated_at,
    list({'heading': sections.heading}) AS sections
FROM records
JOIN wanted ON wanted.record_key = records.record_key
JOIN stored_sections AS sections ON sections.record_key = records.record_key
GROUP BY records.record_key
ORDER BY records.record_key

-- name: rows
-- The rows whose outcome other thresholds may change: rejected rows and live records, of sources in
-- the newest version. The column has_text says whether the text of a rejected row was stored.
-- Parameters: $unpublished, $low, $high (numbers, both included).
-- Rows: by number.
WITH stored AS (SELECT source_id, "row" FROM rejected_rows)

SELECT
    judgements.judgement_key AS number, judgements.source, judgements.record_key,
    judgements.outcome, judgements.gate, judgements.rule, judgements.digest,
    judgements.measured, judgements.metrics,
    judgements.outcome = 'accepted' OR stored.row IS NOT NULL AS has_text
FROM judgements
JOIN sources ON sources.source_id = judgements.source_id AND sources.removed_version IS NULL
LEFT JOIN acquisitions ON acquisitions.acquisition_id = judgements.acquisition_id
LEFT JOIN stored ON stored.source_id = judgements.source_id AND stored.row = judgements.row
LEFT JOIN records ON records.record_key = judgements.record_key
WHERE
    judgements.judgement_key BETWEEN $low AND $high
    AND coalesce(acquisitions.version, 0) <> $unpublished
    AND (
        judgements.outcome = 'rejected'
        OR (judgements.outcome = 'accepted' AND records.removed_version IS NULL)
    )
ORDER BY number

-- name: shared
-- The rows (Arrow candidates: number, passes) that share a text or an id with another row.
-- Rows: in the order of arrival.
WITH rows AS (
    SELECT
        candidates.number, candidates.passes, judgements.record_id, judgements.digest,
        judgements.row, judgements.acquisition_id,
        coalesce(acquisitions.first_record_key, -judgements.row) AS began
    FROM candidates
    JOIN judgements ON judgements.judgement_key = candidates.number
    LEFT JOIN acquisitions ON acquisitions.acquisition_id = judgements.acquisition_id
)
SELECT number, record_id, digest, passes
FROM rows
WHERE
    digest IN (SELECT digest FROM rows GROUP BY digest HAVING count(*) > 1)
    OR record_id IN (SELECT record_id FROM rows GROUP BY record_id HAVING count(*) > 1)
ORDER BY began, acquisition_id NULLS FIRST, row

-- name: rejected_texts
-- The sections of some rejected rows (Arrow wanted: number).
-- Rows: by number.
SELECT wanted.number, rejected_rows.sections
FROM wanted
JOIN judgements ON judgements.judgement_key = wanted.number
JOIN rejected_rows
    ON rejected_rows.source_id = judgements.source_id AND rejected_rows.row = judgements.row
ORDER BY wanted.number

-- name: set_metrics
-- Store the metrics of rows (Arrow judged: number, measured, metrics).
UPDATE judgements
SET metrics = judged.metrics, measured = judged.measured
FROM judged
WHERE judgements.judgement_key = judged.number

-- name: change
-- Store the new outcome of rows (Arrow changed: number, outcome, gate, rule, record_key).
UPDATE judgements
SET
    outcome = changed.outcome,
    gate = changed.gate,
    rule = changed.rule,
    record_key = changed.record_key
FROM changed
WHERE judgements.judgement_key = changed.number

-- name: whole_records
-- Records (Arrow wanted: number, record_key) in the columns of rejected_rows.
-- Rows: by number.
WITH texts AS (
    SELECT
        coalesce(sections.record_key, originals.record_key) AS record_key,
        list(
            {
                'role': coalesce(sections.role, originals.role),
                'heading': coalesce(sections.heading, originals.heading),
                'text': sections.text,
                'original': originals.text
            }
            ORDER BY coalesce(sections.position, originals.position)
        ) AS sections
    FROM (
        SELECT * FROM sections WHERE record_key IN (SELECT record_key FROM wanted)
    ) AS sections
    FULL JOIN (
        SELECT * FROM section_originals WHERE record_key IN (SELECT record_key FROM wanted)
    ) AS originals
        ON originals.record_key = sections.record_key
        AND originals.position = sections.position
    GROUP BY ALL
)

SELECT
    wanted.number, judgements.acquisition_id, judgements.source_id, judgements.row,
    records.record_id, records.content_hash, texts.sections, records.date, records.group_key,
    records.taxonomy, records.meta, records.trust, records.created_at, records.updated_at,
    conversations.messages, conversations.rejected_messages,
    record_prefixes.definition::VARCHAR AS prefix, records.label
FROM wanted
JOIN judgements ON judgements.judgement_key = wanted.number
JOIN records ON records.record_key = wanted.record_key
JOIN texts ON texts.record_key = wanted.record_key
LEFT JOIN conversations ON conversations.record_key = wanted.record_key
LEFT JOIN record_prefixes ON record_prefixes.record_key = wanted.record_key
ORDER BY wanted.number

-- name: append_rejected
-- Append rejected (Arrow), whole records.
INSERT INTO rejected_rows BY NAME
SELECT * EXCLUDE (number)
FROM rejected

-- name: rejected
-- Rejected rows (Arrow wanted: number, place) that become records.
-- Rows: by place.
SELECT
    wanted.number, judgements.digest, rejected_rows.*, sources.trust AS source_trust
FROM wanted
JOIN judgements ON judgements.judgement_key = wanted.number
JOIN sources ON sources.source_id = judgements.source_id
JOIN rejected_rows
    ON rejected_rows.source_id = judgements.source_id AND rejected_rows.row = judgements.row
ORDER BY wanted.place

-- name: forget_rejected
-- Delete rejected rows that are records now (Arrow wanted: number).
DELETE FROM rejected_rows
WHERE (source_id, row) IN (
    SELECT judgements.source_id, judgements.row
    FROM wanted
    JOIN judgements ON judgements.judgement_key = wanted.number
)

-- name: order_of_rejected
-- Rejected rows (Arrow wanted: number) that become records.
-- Rows: in the order of arrival.
SELECT wanted.number, judgements.source_id
FROM wanted
JOIN judgements ON judgements.judgement_key = wanted.number
LEFT JOIN acquisitions ON acquisitions.acquisition_id = judgements.acquisition_id
ORDER BY
    coalesce(acquisitions.first_record_key, -judgements.row), judgements.acquisition_id NULLS FIRST,
    judgements.row

-- name: last
-- The largest number of a judged row, 0 for none.
SELECT coalesce(max(judgement_key), 0)
FROM judgements
