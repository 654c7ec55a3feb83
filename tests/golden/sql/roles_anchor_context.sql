-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
positives AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
positive_texts AS (
    SELECT record_key, count(*) AS positives, min(text_hash) AS least, max(text_hash) AS greatest
    FROM positives GROUP BY record_key
),
-- Of the texts of negatives a record may use all but its own, and those that only it has.
texts AS (
    SELECT text_hash, min(record_key) AS first, max(record_key) AS last FROM negatives GROUP BY ALL
),
legal AS (
    SELECT record_key, (SELECT count(*) FROM texts) - count(*) AS texts FROM (
        SELECT record_key, text_hash FROM anchors UNION SELECT record_key, text_hash FROM positives
        UNION SELECT first, texts.text_hash
        FROM texts JOIN anchors ON first = record_key WHERE first = last
    ) JOIN texts USING (text_hash) GROUP BY record_key
),
-- The anchors, each with the reason why it is left out, if it is.
verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN positives IS NULL THEN 'no positive'
        WHEN least = text_hash AND greatest = text_hash THEN 'same text'
        WHEN coalesce(legal.texts, (SELECT count(*) FROM texts)) < $negatives THEN 'no negative'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN legal USING (record_key)
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors, positives
FROM verdicts JOIN records USING (record_key) WHERE reason IS NULL
GROUP BY record_key, record_id, positives ORDER BY record_key, anchors;
