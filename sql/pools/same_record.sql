-- The parts of a triplet pool whose negatives are those of the anchor's own record: each anchor is
-- looked at, for a record has few of them.
-- Parameters: $negatives (how many a sample has).
WITH pairs AS (
    SELECT DISTINCT class_group AS class, class_group
    FROM negatives
),

doubts AS (
    SELECT DISTINCT record_key, class
    FROM anchors
),

doubtful_texts AS (
    SELECT DISTINCT class_group AS class, text_hash
    FROM negatives
),

illegal_texts AS (
    SELECT record_key, text_hash FROM anchors
    UNION
    SELECT record_key, text_hash FROM positives
),

resolved AS (
    SELECT doubts.record_key, doubts.class
    FROM doubts
    JOIN doubtful_texts USING (class)
    WHERE NOT EXISTS (
        FROM illegal_texts
        WHERE
            illegal_texts.record_key = doubts.record_key
            AND illegal_texts.text_hash = doubtful_texts.text_hash
    )
    GROUP BY doubts.record_key, doubts.class
    HAVING count(*) >= $negatives
)
SELECT 1
