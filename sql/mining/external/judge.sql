-- What the given scores of one source and split are about, by number: one row for each section
-- of the anchor and of the negative that a row can mean. Arrow: given_anchors (target, anchor),
-- given_documents (target, document), given_positives (record_key, target); a target is what
-- given_scores has, a record or a section.
-- Parameters: $source, $split.
CREATE OR REPLACE TEMP TABLE given_entries AS
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
        given_scores.*,
        given_positives.target IS NOT NULL AS is_positive,
        CASE WHEN given_positives.target IS NULL THEN given_scores.negative END AS document_target
    FROM given_scores
    JOIN here ON here.record_key = given_scores.anchor_record
    LEFT JOIN given_positives
        ON given_positives.record_key = given_scores.anchor_record
        AND given_positives.target = given_scores.negative
)

SELECT
    given_anchors.anchor,
    given_documents.document,
    scores.score,
    CASE
        WHEN scores.negative IS NULL THEN 'unknown negative'
        WHEN given_anchors.anchor IS NULL THEN 'not an anchor of the recipe'
        WHEN scores.is_positive THEN 'positive'
        WHEN theirs.record_key IS NULL THEN 'other source or split'
        WHEN given_documents.document IS NULL THEN 'not a negative of the recipe'
        ELSE 'candidate'
    END::ENUM(
        'unknown negative', 'not an anchor of the recipe', 'positive', 'other source or split',
        'not a negative of the recipe', 'candidate'
    ) AS fate
FROM scores
LEFT JOIN given_anchors ON given_anchors.target = scores.anchor
LEFT JOIN here AS theirs ON theirs.record_key = scores.negative_record
LEFT JOIN given_documents ON given_documents.target = scores.document_target
