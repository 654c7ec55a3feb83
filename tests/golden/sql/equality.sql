-- Chunks that the selectors take, with the values that the strategy compares.
WITH anchors AS (
    SELECT *, meta['topic'] AS a0, md5_number_lower(json_array(a0)) AS class
    FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
),
positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
negatives AS (
    SELECT *, meta['topic'] AS n0, trust > 0.3 AS n1, md5_number_lower(json_array(n0, n1)) AS bin
    FROM chunks_of($source, $split, $version) WHERE role = 'context'
),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),
-- Texts of negatives, sole: the only family with the text; and all writings of these texts.
texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
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
parts AS (SELECT DISTINCT class, family, question, unnest([class]) AS part FROM anchors),
-- The bins that suit each class of anchors, and their texts.
class_bins AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, a0 FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, n0, n1 FROM negatives) AS negative
        ON (negative.n0 = anchor.a0 AND negative.n1)
),
suited AS (
    SELECT class AS part, 1 AS sign, text_hash, only_one(family) AS sole
    FROM class_bins JOIN negatives USING (bin) GROUP BY ALL
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
GROUP BY record_key, record_id, added_version, id_hash ORDER BY added_version, id_hash, record_key;
