-- Chunks of the selectors; own: all anchors and answers of the split, also without the conditions.
WITH anchors AS (FROM chunks_of($source, $split, $version) WHERE role <> 'rejected'),
positives AS (FROM anchors),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role <> 'rejected'),
own AS (
    SELECT *, unnest(writings) AS writing, role <> 'rejected' AS asks,
        role <> 'rejected' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),
-- Texts of negatives, sole: the only family with the text; and all writings of these texts.
texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
written AS (SELECT DISTINCT unnest(writings) AS writing, text_hash FROM negatives),
-- Texts that a family must not draw: its anchors and answers, and the texts that only it has.
own_texts AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing)),
excluded AS (FROM own_texts UNION SELECT sole, text_hash FROM texts WHERE sole IS NOT NULL),
known AS (SELECT question, text_hash FROM own WHERE FALSE),
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
    WHERE texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor FROM eligible
GROUP BY record_key, record_id, added_version, id_hash ORDER BY added_version, id_hash, record_key;
