-- The pool of a triplet recipe: its anchors, each with a usable positive and legal negatives. The
-- law (files of pools/parts) comes before the verdicts and says in `legal` how many different
-- texts a negative can have; who is not listed there can have them all.
-- What the recipe fills in: names ending in _condition or _columns, law_keys and same_text. Lines
-- that end with `-- if mined`, or `-- if distinct` (anchor and positive must differ), stay only
-- there; `-- if binary` and `graded` are of sources whose records have such labels.
-- Parameters: $split, $version, $source, $negatives (how many a sample has).
-- Rows: one an anchor, by record_key and chunk_key.

-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, anchor_columns FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND anchor_condition
),
positives AS (
    SELECT record_key, chunk_key, text_hash, positive_columns FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND positive_condition
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, negative_columns FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND negative_condition
),
positive_texts AS (
    SELECT record_key, count(*) AS positives, min(text_hash) AS least, max(text_hash) AS greatest
    FROM positives GROUP BY record_key
),

-- The anchors, each with the reason why it is left out, if it is.
verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN positives IS NULL AND label = 0 THEN 'labelled negative' -- if binary
        WHEN positives IS NULL AND label IS NOT NULL THEN 'grade without a condition' -- if graded
        WHEN positives IS NULL THEN 'no positive'
        WHEN least = text_hash AND greatest = text_hash THEN same_text -- if distinct
        WHEN coalesce(legal.texts, (SELECT count(*) FROM texts)) < $negatives THEN 'no negative'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN legal USING (law_keys)
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors, positives
FROM verdicts JOIN records USING (record_key) WHERE reason IS NULL
GROUP BY record_key, record_id, positives, unit_columns ORDER BY record_key, anchors
