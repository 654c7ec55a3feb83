-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
-- The date that each record looks for, within its source and within its category.
wanted AS (
    SELECT DISTINCT slot.record_key, (slot.date + 7)::DATE AS date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.date IS NOT NULL AND slot.role = 'anchor'
),
candidates AS (
    SELECT DISTINCT slot.record_key, slot.record_id, slot.date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot WHERE slot.date IS NOT NULL
        AND slot.role = 'context' AND (slot.trust >= 0.5)
),
-- Two records of each date, and two dates on either side: a record is never its own nearest.
candidate_dates AS (
    SELECT part, date, list({'id': record_id, 'key': record_key} ORDER BY record_id)[1:2] AS others,
        lag(date) OVER (PARTITION BY part ORDER BY date) AS previous_date,
        lead(date) OVER (PARTITION BY part ORDER BY date) AS next_date
    FROM candidates WHERE part IS NOT NULL GROUP BY part, date
),
around AS (
    SELECT wanted.record_key, wanted.part, wanted.date AS wanted_date,
        unnest([earlier.date, earlier.previous_date, later.date, later.next_date]) AS date
    FROM wanted
    ASOF LEFT JOIN candidate_dates AS earlier
        ON wanted.part = earlier.part AND wanted.date >= earlier.date
    ASOF LEFT JOIN candidate_dates AS later
        ON wanted.part = later.part AND wanted.date <= later.date
),
-- The nearest of them; of equally near ones the smaller record id.
nearest AS (
    SELECT record_key, other.key AS other_key FROM (
        SELECT record_key, abs(around.date - wanted_date) AS distance, unnest(others) AS other
        FROM around JOIN candidate_dates USING (part, date)
    ) WHERE other.key <> record_key
    QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
),
positives AS (
    SELECT nearest.record_key, slot.chunk_key, slot.text_hash
    FROM nearest JOIN split_chunks($split, $version) AS slot ON other_key = slot.record_key
    WHERE slot.role = 'context' AND (slot.trust >= 0.5)
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
