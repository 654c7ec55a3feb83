-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, record_key::UBIGINT AS class
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
positives AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, record_key::UBIGINT AS bin
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
positive_texts AS (
    SELECT record_key, count(*) AS positives, min(text_hash) AS least, max(text_hash) AS greatest
    FROM positives GROUP BY record_key
),
-- Texts of negatives, with the kin and the bin of those that have one only.
texts AS (
    SELECT text_hash, only_one(record_key) AS kin, only_one(bin) AS bin
    FROM negatives GROUP BY text_hash
),
-- The date that each record looks for, within its source and within its category.
wanted AS (
    SELECT DISTINCT slot.record_key, (slot.date + -30)::DATE AS date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.date IS NOT NULL AND slot.role = 'anchor'
),
candidates AS (
    SELECT DISTINCT slot.record_key, slot.record_id, slot.date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot WHERE slot.date IS NOT NULL
        AND slot.source = $source AND slot.role = 'context'
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
pairs AS (
    SELECT record_key::UBIGINT AS class, other_key::UBIGINT AS bin
    FROM nearest
),
-- Only classes that draw fewer texts at the least, perhaps, than an anchor can lose are looked at.
group_texts AS (
    SELECT bin, count(*) AS texts FROM texts WHERE bin IS NOT NULL GROUP BY ALL
),
class_texts AS (
    SELECT pairs.class, sum(group_texts.texts) AS texts
    FROM pairs JOIN group_texts USING (bin) GROUP BY pairs.class
),
-- Which of them are no negatives of a record, for they are its own.
own_texts AS (
    SELECT record_key, text_hash FROM anchors JOIN texts USING (text_hash)
    UNION SELECT record_key, text_hash FROM positives JOIN texts USING (text_hash)
),
losses AS (
    SELECT 'kin' AS why, count(*) AS texts FROM texts WHERE kin IS NOT NULL GROUP BY kin
    UNION ALL SELECT 'own', count(*) FROM own_texts GROUP BY record_key
),
doubts AS (
    SELECT DISTINCT record_key, class, anchors.record_key AS kin
    FROM anchors LEFT JOIN class_texts USING (class)
    WHERE coalesce(class_texts.texts, 0) < $negatives + (
        SELECT coalesce(sum(most), 0) FROM (SELECT max(texts) AS most FROM losses GROUP BY why)
    )
),
askers AS (
    SELECT *, unnest([class]) AS scope FROM doubts
),
-- What can be drawn, text by text, with its kin if it has one only.
stock AS (
    SELECT pairs.class AS scope, text_hash, 1 AS texts, only_one(record_key) AS kin
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (bin) GROUP BY pairs.class, text_hash
),
-- How much there is, less what is of the anchor's kin, less what is forbidden besides.
ledger AS (
    SELECT scope, kin, sum(texts) AS texts FROM stock GROUP BY scope, kin
),
asked_own AS MATERIALIZED (
    FROM askers JOIN own_texts USING (record_key)
),
of_own AS (
    SELECT record_key, class, sum(stock.texts) AS texts
    FROM asked_own JOIN stock USING (scope, text_hash)
    WHERE stock.kin IS DISTINCT FROM asked_own.kin GROUP BY record_key, class
),
legal AS (
    SELECT record_key, class,
        sum(coalesce(totals.texts, 0) - coalesce(ledger.texts, 0))
        - coalesce(any_value(of_own.texts), 0) AS texts
    FROM askers
    LEFT JOIN (SELECT scope, sum(texts) AS texts FROM ledger GROUP BY ALL) AS totals
        USING (scope)
    LEFT JOIN ledger USING (scope, kin)
    LEFT JOIN of_own USING (record_key, class)
    GROUP BY record_key, class
),
-- The anchors, each with the reason why it is left out, if it is.
verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN positives IS NULL THEN 'no positive'
        WHEN least = text_hash AND greatest = text_hash THEN 'same text'
        WHEN coalesce(legal.texts, (SELECT count(*) FROM texts)) < $negatives THEN 'no negative'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN legal USING (record_key, class)
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors, positives
FROM verdicts JOIN records USING (record_key) WHERE reason IS NULL
GROUP BY record_key, record_id, positives ORDER BY record_key, anchors;
