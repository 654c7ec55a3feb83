-- Chunks of the selectors; own: all anchors and answers of the split, also without the conditions.
WITH anchors AS (FROM chunks_of($source, $split, $version) WHERE role = 'anchor'),
-- The date that each record needs, within its source and within its category.
wanted AS (
    SELECT DISTINCT record_key, (date + 7)::DATE AS date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of($source, $split, $version) WHERE date IS NOT NULL AND role = 'anchor'
),
candidates AS (
    SELECT DISTINCT record_key, record_id, date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of(NULL, $split, $version) WHERE date IS NOT NULL AND role = 'context'
        AND (trust >= 0.5)
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
        SELECT * FROM chunks_of(NULL, $split, $version) WHERE role = 'context' AND (trust >= 0.5)
    ) AS other ON other_key = other.record_key
),
positives AS (FROM near_positives),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
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
-- The number of texts; the losses of each family and question; the overlap, where it matters.
counts AS (
    SELECT DISTINCT family, question, (SELECT count(*) FROM texts) AS texts,
        coalesce(e.number, 0) AS excluded, coalesce(k.number, 0) AS known FROM anchors
    LEFT JOIN (SELECT family, count(*) AS number FROM excluded GROUP BY ALL) AS e USING (family)
    LEFT JOIN (SELECT question, count(*) AS number FROM known GROUP BY ALL) AS k USING (question)
),
shared AS (
    SELECT family, question, count(*) AS shared FROM (
        SELECT DISTINCT family, question, text_hash FROM counts JOIN excluded AS e USING (family)
        WHERE $negatives BETWEEN texts - excluded - known + 1 AND texts - greatest(excluded, known)
    ) JOIN known USING (question, text_hash) GROUP BY ALL
),
-- Anchors with a positive of another text, and with enough texts for negatives.
positive_texts AS (SELECT record_key, only_one(text_hash) AS single FROM positives GROUP BY ALL),
eligible AS (
    FROM anchors JOIN positive_texts USING (record_key)
    JOIN counts USING (family, question) LEFT JOIN shared USING (family, question)
    WHERE single IS DISTINCT FROM text_hash
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor FROM eligible
GROUP BY record_key, record_id, added_version, id_hash ORDER BY added_version, id_hash, record_key;
