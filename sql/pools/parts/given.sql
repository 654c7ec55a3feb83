-- The part of a pool of pairs that come as they were judged: nothing is drawn beside them, so what
-- negatives there are plays no part.

-- The anchors, each with the reason why its pair is left out, if it is.
WITH verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN label IS NULL THEN 'no label'
        WHEN positives IS NULL THEN 'no positive'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
)
SELECT 1
