-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, slot.date AS a0,
        md5_number_lower(json_array(a0)) AS class
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
positives AS (
    SELECT record_key, chunk_key, text_hash FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, slot.date AS n0,
        md5_number_lower(json_array(n0)) AS bin
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
-- Only classes that draw fewer texts at the least, perhaps, than an anchor can lose are looked at.
group_texts AS (
    SELECT bin, count(*) AS texts FROM texts WHERE bin IS NOT NULL GROUP BY ALL
),
-- Every class of anchors with every bin of negatives, once each, however many chunks they have.
pairs AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0
    FROM negatives) AS negative ON anchor.a0 IS NOT DISTINCT FROM negative.n0
),
class_texts AS (
    SELECT class, (SELECT sum(texts)
    FROM group_texts) - coalesce(sum(group_texts.texts), 0) AS texts
    FROM (SELECT DISTINCT class FROM anchors) LEFT JOIN pairs USING (class)
    LEFT JOIN group_texts USING (bin) GROUP BY class
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
    SELECT *, unnest([0::UBIGINT, class]) AS scope FROM doubts
),
-- Texts of forbidden bins, and what is left of them elsewhere: sums tell if it is of one kin.
paired AS (
    SELECT pairs.class, text_hash, count(*) AS chunks, sum(record_key) AS kins,
        sum(record_key * record_key::HUGEINT) AS squares
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (bin) GROUP BY pairs.class, text_hash
),
whole AS (
    SELECT text_hash, count(*) AS chunks, sum(record_key) AS kins,
        sum(record_key * record_key::HUGEINT) AS squares
    FROM negatives JOIN (SELECT DISTINCT text_hash
    FROM paired) AS taken USING (text_hash)
    GROUP BY ALL
),
remaining AS (
    SELECT class, text_hash, whole.chunks - paired.chunks AS chunks,
        whole.kins - paired.kins AS kins, whole.squares - paired.squares AS squares
    FROM paired JOIN whole USING (text_hash)
),
-- What can be drawn: by all (scope 0), less what a class is paired with, plus what remains of that.
stock AS (
    SELECT 0::UBIGINT AS scope, text_hash, 1 AS texts, kin FROM texts
    UNION ALL SELECT class, text_hash, -1, texts.kin FROM paired JOIN texts USING (text_hash)
    UNION ALL SELECT class, text_hash, 1, only_of_sums(chunks, kins, squares)
    FROM remaining WHERE chunks > 0
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
