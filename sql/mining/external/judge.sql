-- What the external scores of one source and split are about, by number: one row for each section
-- of the anchor and of the negative that a row can mean. Arrow: external_anchors (target, anchor),
-- external_documents (target, document), external_positives (record_key, target); a target is what
-- external_scores has, a record or a section.
-- Parameters: $source, $split.
CREATE OR REPLACE TEMP TABLE external_entries AS
WITH here AS (
    SELECT records.record_key
    FROM records
    JOIN sources ON sources.source_id = records.source_id
    JOIN splits ON splits.record_key = records.record_key
    WHERE sources.name = $source AND splits.split = $split
),

-- A positive is not looked for among the documents. (As a condition of that join it would keep
-- DuckDB from hashing.)
scores AS (
    SELECT
        external_scores.*,
        external_positives.target IS NOT NULL AS is_positive,
        CASE WHEN external_positives.target IS NULL THEN external_scores.negative END AS document_target
    FROM external_scores
    JOIN here ON here.record_key = external_scores.anchor_record
    LEFT JOIN external_positives
        ON external_positives.record_key = external_scores.anchor_record
        AND external_positives.target = external_scores.negative
)

SELECT
    external_anchors.anchor,
    external_documents.document,
    scores.score,
    CASE
        WHEN scores.negative IS NULL THEN 'unknown negative'
        WHEN external_anchors.anchor IS NULL THEN 'not an anchor of the recipe'
        WHEN scores.is_positive THEN 'positive'
        WHEN theirs.record_key IS NULL THEN 'other source or split'
        WHEN external_documents.document IS NULL THEN 'not a negative of the recipe'
        ELSE 'candidate'
    END::ENUM(
        'unknown negative', 'not an anchor of the recipe', 'positive', 'other source or split',
        'not a negative of the recipe', 'candidate'
    ) AS fate
FROM scores
LEFT JOIN external_anchors ON external_anchors.target = scores.anchor
LEFT JOIN here AS theirs ON theirs.record_key = scores.negative_record
LEFT JOIN external_documents ON external_documents.target = scores.document_target
