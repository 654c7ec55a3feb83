-- Chunks that the selectors take, with the values that the strategy compares.
WITH anchors AS (
    SELECT *, meta['topic'] AS a0, md5_number_lower(json_array(a0)) AS class
    FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
),
positives AS (FROM chunks_of($source, $split, $version) WHERE position = 1),
negatives AS (
    SELECT *, meta['topic'] AS n0, md5_number_lower(json_array(n0)) AS bin
    FROM chunks_of($source, $split, $version) WHERE role = 'context'
),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        position = 1 AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),
-- Texts with their families; then by class the families whose copies are all in forbidden bins.
texts AS (
    SELECT text_hash, only_one(family) AS sole, count(DISTINCT family) AS families,
        sum(DISTINCT family) AS total FROM negatives GROUP BY ALL
),
written AS (SELECT DISTINCT unnest(writings) AS writing, text_hash FROM negatives),
-- Texts that a family must not draw: its anchors and answers, and the texts that only it has.
own_texts AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing)),
-- Answers to a question that several families ask.
known AS (
    SELECT DISTINCT asked.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing) WHERE answers
),
-- The texts of each part that a family or a question must not draw.
parts AS (SELECT DISTINCT class, family, question, unnest([0, class]) AS part FROM anchors),
-- The bins that a class must not draw from.
class_bins AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0 FROM negatives) AS negative
        ON (negative.n0 IS NOT DISTINCT FROM anchor.a0)
),
gone AS (
    SELECT class, text_hash, count(*) AS families, sum(family) AS total FROM (
        SELECT class, text_hash, family FROM class_bins JOIN (
            SELECT *, count(*) OVER (PARTITION BY text_hash, family) AS bins
            FROM (SELECT DISTINCT text_hash, family, bin FROM negatives)
        ) USING (bin) GROUP BY class, text_hash, family, bins HAVING count(*) = bins
    ) GROUP BY ALL
),
-- All texts (part 0), minus texts that lose families for a class, plus the remaining families.
suited AS (
    SELECT 0::UBIGINT AS part, 1 AS sign, text_hash, sole FROM texts
    UNION ALL SELECT class, -1, text_hash, sole FROM gone JOIN texts USING (text_hash)
    UNION ALL SELECT class, 1, text_hash,
        CASE texts.families - gone.families WHEN 1 THEN (texts.total - gone.total)::BIGINT END
    FROM gone JOIN texts USING (text_hash) WHERE texts.families > gone.families
),
-- The number of texts; the losses of each family and question; the overlap, where it matters.
totals AS (SELECT part, sum(sign) AS number FROM suited GROUP BY ALL),
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
GROUP BY record_key, record_id, added_version, id_hash, chunk_key
ORDER BY added_version, id_hash, record_key, anchors;
