-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, slot.meta['topic'] AS a0,
        md5_number_lower(json_array(a0)) AS class
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
positives AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, slot.meta['topic'] AS n0, slot.trust > 0.3 AS n1,
        md5_number_lower(json_array(n0, n1)) AS bin
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
-- Every class of anchors with every bin of negatives, once each, however many chunks they have.
pairs AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0, n1
    FROM negatives) AS negative ON (negative.n0 = anchor.a0 AND negative.n1)
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
