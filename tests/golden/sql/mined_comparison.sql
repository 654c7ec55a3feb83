-- What the three selectors match, and the texts of each record's positives.
WITH anchors AS (
    SELECT record_key, chunk_key, text_hash, section_key, normalised_hash, position, family,
        slot.date AS a0, md5_number_lower(json_array(a0)) AS class
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'anchor'
),
-- The date that each record looks for, within its source and within its category.
wanted AS (
    SELECT DISTINCT slot.record_key, (slot.date + 3)::DATE AS date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.date IS NOT NULL AND slot.role = 'anchor'
),
candidates AS (
    SELECT DISTINCT slot.record_key, slot.record_id, slot.date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM guarded_chunks($split, $version) AS slot WHERE slot.date IS NOT NULL
        AND slot.role = 'context'
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
    SELECT nearest.record_key, slot.chunk_key, slot.text_hash, section_key, normalised_hash
    FROM nearest JOIN guarded_chunks($split, $version) AS slot ON other_key = slot.record_key
    WHERE slot.role = 'context'
),
negatives AS (
    SELECT record_key, chunk_key, text_hash, section_key, normalised_hash, family, slot.date AS n0,
        md5_number_lower(json_array(n0)) AS bin
    FROM guarded_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.role = 'context'
),
positive_texts AS (
    SELECT record_key, count(*) AS positives, min(text_hash) AS least, max(text_hash) AS greatest
    FROM positives GROUP BY record_key
),
-- Texts of negatives, with the kin and the bin of those that have one only.
texts AS (
    SELECT text_hash, only_one(family) AS kin, only_one(bin) AS bin
    FROM negatives GROUP BY text_hash
),
-- Every class of anchors with every bin of negatives, once each, however many chunks they have.
pairs AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0 FROM negatives) AS negative ON (negative.n0 > anchor.a0)
),
-- Only classes that draw fewer texts at the least, perhaps, than an anchor can lose are looked at.
group_texts AS (
    SELECT bin, count(*) AS texts FROM texts WHERE bin IS NOT NULL GROUP BY ALL
),
class_texts AS (
    SELECT pairs.class, sum(group_texts.texts) AS texts
    FROM pairs JOIN group_texts USING (bin) GROUP BY pairs.class
),
-- Texts that are no negatives of a record, for they are its own, perhaps written another way.
own AS (
    SELECT record_key, text_hash, normalised_hash FROM anchors
    UNION SELECT record_key, text_hash, normalised_hash FROM positives
),
writings AS (
    SELECT DISTINCT normalised_hash, text_hash FROM negatives
),
own_texts AS (
    SELECT record_key, text_hash FROM own JOIN texts USING (text_hash)
    UNION SELECT own.record_key, writings.text_hash FROM own JOIN writings USING (normalised_hash)
),
-- Texts of positives that other records have for the same anchor text.
known_texts AS (
    SELECT DISTINCT question, writings.text_hash FROM (
        SELECT DISTINCT anchors.normalised_hash AS question, positives.normalised_hash
        FROM anchors JOIN positives USING (record_key) JOIN (
            SELECT normalised_hash FROM anchors GROUP BY ALL HAVING only_one(record_key) IS NULL
        ) AS shared ON shared.normalised_hash = anchors.normalised_hash
    ) JOIN writings USING (normalised_hash)
),
losses AS (
    SELECT 'kin' AS why, count(*) AS texts FROM texts WHERE kin IS NOT NULL GROUP BY kin
    UNION ALL SELECT 'own', count(*) FROM own_texts GROUP BY record_key
    UNION ALL SELECT 'known', count(*) FROM known_texts GROUP BY question
),
doubts AS (
    SELECT DISTINCT record_key, class, normalised_hash, anchors.family AS kin
    FROM anchors LEFT JOIN class_texts USING (class)
    WHERE coalesce(class_texts.texts, 0) < $negatives + (
        SELECT coalesce(sum(most), 0) FROM (SELECT max(texts) AS most FROM losses GROUP BY why)
    )
),
askers AS (
    SELECT *, unnest([0::UBIGINT, normalised_hash]) AS question
    FROM (SELECT *, unnest([class]) AS scope FROM doubts)
),
-- What can be drawn, text by text, with its kin if it has one only.
stock AS (
    SELECT pairs.class AS scope, text_hash, 1 AS texts, only_one(family) AS kin
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (bin) GROUP BY pairs.class, text_hash
),
asked_known AS MATERIALIZED (
    SELECT DISTINCT scope, question, text_hash FROM askers JOIN known_texts USING (question)
),
ledger AS (
    SELECT scope, 0::UBIGINT AS question, kin, sum(texts) AS texts FROM stock GROUP BY scope, kin
    UNION ALL SELECT scope, question, stock.kin, -sum(stock.texts)
    FROM asked_known JOIN stock USING (scope, text_hash) GROUP BY scope, question, stock.kin
),
asked_own AS MATERIALIZED (
    FROM askers JOIN own_texts USING (record_key)
),
of_own AS (
    SELECT record_key, class, normalised_hash, sum(stock.texts) AS texts
    FROM asked_own JOIN stock USING (scope, text_hash)
    LEFT JOIN (SELECT *, TRUE AS known FROM known_texts) AS told USING (question, text_hash)
    WHERE known IS NULL AND question > 0 AND stock.kin IS DISTINCT FROM asked_own.kin GROUP BY ALL
),
legal AS (
    SELECT record_key, class, normalised_hash,
        sum(coalesce(totals.texts, 0) - coalesce(ledger.texts, 0))
        - coalesce(any_value(of_own.texts), 0) AS texts
    FROM askers
    LEFT JOIN (SELECT scope, question, sum(texts) AS texts FROM ledger GROUP BY ALL) AS totals
        USING (scope, question)
    LEFT JOIN ledger USING (scope, question, kin)
    LEFT JOIN of_own USING (record_key, class, normalised_hash)
    GROUP BY record_key, class, normalised_hash
),
-- The anchors, each with the reason why it is left out, if it is.
verdicts AS (
    SELECT anchors.*, positives, CASE
        WHEN positives IS NULL THEN 'no positive'
        WHEN least = text_hash AND greatest = text_hash THEN 'same text'
        WHEN coalesce(legal.texts, (SELECT count(*) FROM texts)) < $negatives THEN 'no negative'
    END AS reason
    FROM anchors LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN legal USING (record_key, class, normalised_hash)
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors, positives
FROM verdicts JOIN records USING (record_key) WHERE reason IS NULL
GROUP BY record_key, record_id, positives ORDER BY record_key, anchors;
