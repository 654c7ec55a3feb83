-- Chunks that the selectors take, with the values that the strategy compares.
WITH anchors AS (
    SELECT *, date AS a0, md5_number_lower(json_array(a0)) AS class
    FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
),
-- The date that each record needs, within its source and within its category.
wanted AS (
    SELECT DISTINCT record_key, (date + 3)::DATE AS date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of($source, $split, $version) WHERE date IS NOT NULL AND role = 'anchor'
),
candidates AS (
    SELECT DISTINCT record_key, record_id, date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of(NULL, $split, $version) WHERE date IS NOT NULL AND role = 'context'
),
-- Two records of each date, and two dates on each side, because a record is not its own nearest.
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
-- The nearest record; the smaller record id wins a tie.
nearest AS (
    SELECT record_key, other.key AS other_key FROM (
        SELECT record_key, abs(around.date - wanted_date) AS distance, unnest(others) AS other
        FROM around JOIN candidate_dates USING (part, date)
    ) WHERE other.key <> record_key
    QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
),
-- Chunks of the nearest record, which count as answers of the anchor's own record.
near_positives AS (
    SELECT nearest.record_key, other.* EXCLUDE (record_key)
    FROM nearest JOIN (
        SELECT * FROM chunks_of(NULL, $split, $version) WHERE role = 'context'
    ) AS other ON other_key = other.record_key
),
positives AS (FROM near_positives),
negatives AS (
    SELECT *, date AS n0, md5_number_lower(json_array(n0)) AS bin
    FROM chunks_of($source, $split, $version) WHERE role = 'context'
),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks, role = 'context'
        AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
    UNION ALL BY NAME SELECT DISTINCT asked.*, near.question, near.text_hash,
        unnest(near.writings) AS writing, FALSE AS asks, TRUE AS answers
    FROM near_positives AS near JOIN (
        SELECT DISTINCT record_key, family, source
        FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
    ) AS asked USING (record_key)
),
-- Texts of negatives, sole: the only family with the text; and all writings of these texts.
texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
written AS (SELECT DISTINCT unnest(writings) AS writing, text_hash FROM negatives),
-- Texts that a family must not draw: its anchors and answers, and the texts that only it has.
own_texts AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing)),
excluded AS (FROM own_texts UNION SELECT sole, text_hash FROM texts WHERE sole IS NOT NULL),
-- Answers to a question that several families ask.
known AS (
    SELECT DISTINCT asked.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing) WHERE answers
),
-- The texts of each part that a family or a question must not draw.
parts AS (SELECT DISTINCT class, family, question, unnest([class]) AS part FROM anchors),
-- The bins that suit each class of anchors, and their texts.
class_bins AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0 FROM negatives) AS negative
        ON (negative.n0 > anchor.a0)
),
-- Classes with enough texts, whatever their anchors lose; then the texts of each other class.
ample AS (
    SELECT class AS part, sum(number) AS number FROM class_bins JOIN (
        SELECT bin, count(*) AS number
        FROM (SELECT text_hash, only_one(bin) AS bin FROM negatives GROUP BY ALL) GROUP BY ALL
    ) USING (bin) GROUP BY ALL HAVING sum(number) >= $negatives
        + (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM excluded GROUP BY family))
        + (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM known GROUP BY question))
),
suited AS (
    SELECT class AS part, 1 AS sign, text_hash, only_one(family) AS sole
    FROM class_bins JOIN negatives USING (bin)
    LEFT JOIN (SELECT part AS class, TRUE AS is_ample FROM ample) USING (class)
    WHERE is_ample IS NULL GROUP BY ALL
),
totals AS (FROM ample UNION ALL SELECT part, sum(sign) AS number FROM suited GROUP BY ALL),
lost AS (
    SELECT family, part, sign, text_hash FROM (
        FROM own_texts JOIN texts USING (text_hash) WHERE sole IS DISTINCT FROM family
    ) JOIN (SELECT DISTINCT family, part FROM parts) USING (family)
    JOIN suited USING (part, text_hash)
    UNION SELECT sole, part, sign, text_hash FROM suited WHERE sole IS NOT NULL
),
answered AS (SELECT question, part, sign, text_hash FROM known JOIN suited USING (text_hash)),
counts AS (
    SELECT class, family, question, sum(t.number) AS texts,
        coalesce(sum(e.number), 0) AS excluded, coalesce(sum(k.number), 0) AS known
    FROM parts JOIN totals AS t USING (part)
    LEFT JOIN (SELECT family, part, sum(sign) AS number FROM lost GROUP BY ALL) AS e
        USING (family, part)
    LEFT JOIN (SELECT question, part, sum(sign) AS number FROM answered GROUP BY ALL) AS k
        USING (question, part) GROUP BY ALL
),
shared AS (
    SELECT class, family, question, sum(sign) AS shared FROM (
        SELECT DISTINCT class, family, question, part, sign, text_hash
        FROM counts JOIN parts USING (class, family, question) JOIN lost USING (family, part)
        WHERE $negatives BETWEEN texts - excluded - known + 1 AND texts - greatest(excluded, known)
    ) JOIN answered USING (question, part, sign, text_hash) GROUP BY ALL
),
-- Anchors with a positive of another text, and with enough texts for negatives.
positive_texts AS (SELECT record_key, only_one(text_hash) AS single FROM positives GROUP BY ALL),
eligible AS (
    FROM anchors JOIN positive_texts USING (record_key)
    JOIN counts USING (class, family, question) LEFT JOIN shared USING (class, family, question)
    WHERE single IS DISTINCT FROM text_hash
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor FROM eligible
GROUP BY record_key, record_id, added_version, id_hash ORDER BY added_version, id_hash, record_key;
