-- Resolve the external scores of one source and split to section numbers. There is a row for each
-- pair of a section of the anchor and a section of the negative. Equal pairs are one row, with the
-- lowest and the highest score. A block of anchors is a range of rows. Arrow:
-- external_anchors (record_key, anchor), external_documents (record_key, document),
-- external_positives (record_key, positive). A positive has its record key as document.
-- Parameters: $source, $split, $documents (the source of negatives).
CREATE OR REPLACE TEMP TABLE external_entries AS
WITH here AS (
    SELECT record_key
    FROM live_records
    WHERE source = $source AND in_split(split, $split)
),

of_negatives AS (
    SELECT record_key
    FROM live_records
    WHERE source = $documents AND in_split(split, $split)
),

-- A positive must not join a document. As a condition of that join this would prevent a hash join.
scores AS (
    SELECT
        external_scores.*,
        positives.positive IS NOT NULL AS is_positive,
        CASE WHEN positives.positive IS NULL THEN external_scores.negative END AS no_positive
    FROM external_scores
    JOIN here ON here.record_key = external_scores.anchor
    LEFT JOIN external_positives AS positives
        ON positives.record_key = external_scores.anchor
        AND positives.positive = external_scores.negative
)

SELECT
    anchors.anchor,
    CASE WHEN scores.is_positive THEN scores.negative ELSE documents.document END AS document,
    CASE
        WHEN scores.negative IS NULL THEN 'unknown negative'
        WHEN anchors.anchor IS NULL THEN 'not an anchor of the recipe'
        WHEN scores.is_positive THEN 'positive'
        WHEN of_negatives.record_key IS NULL THEN 'other source or split'
        WHEN documents.document IS NULL THEN 'not a negative of the recipe'
        ELSE 'candidate'
    END::ENUM(
        'unknown negative', 'not an anchor of the recipe', 'positive', 'other source or split',
        'not a negative of the recipe', 'candidate'
    ) AS fate,
    min(scores.score) AS lowest,
    max(scores.score) AS score,
    count(*) AS times
FROM scores
LEFT JOIN external_anchors AS anchors ON anchors.record_key = scores.anchor
LEFT JOIN of_negatives ON of_negatives.record_key = scores.negative
LEFT JOIN external_documents AS documents ON documents.record_key = scores.no_positive
GROUP BY ALL
ORDER BY anchors.anchor
