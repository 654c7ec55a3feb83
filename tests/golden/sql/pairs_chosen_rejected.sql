-- Chunks of the selectors; own: all anchors and answers of the split, also without the conditions.
WITH anchors AS (FROM chunks_of($source, $split, $version) WHERE role = 'anchor'),
positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'rejected'),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
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
suited AS (SELECT DISTINCT record_key, text_hash, NULL AS family FROM negatives),
-- Texts that each record may draw: neither excluded nor known.
usable AS (
    SELECT asked.*, count(DISTINCT suited.text_hash) AS texts
    FROM (SELECT DISTINCT record_key, family, question FROM anchors) AS asked
    JOIN suited USING (record_key)
    LEFT JOIN (SELECT *, TRUE AS is_own FROM own_texts) AS o
        ON o.family = asked.family AND o.text_hash = suited.text_hash
    LEFT JOIN (SELECT *, TRUE AS is_known FROM known) AS k
        ON k.question = asked.question AND k.text_hash = suited.text_hash
    WHERE is_own IS NULL AND is_known IS NULL AND suited.family IS DISTINCT FROM asked.family
    GROUP BY ALL
),
counts AS (SELECT *, 0 AS excluded, 0 AS known FROM usable),
shared AS (SELECT record_key, family, question, 0 AS shared FROM counts WHERE FALSE),
-- Anchors with a positive of another text, and with enough texts for negatives.
positive_texts AS (SELECT record_key, only_one(text_hash) AS single FROM positives GROUP BY ALL),
eligible AS (
    FROM anchors JOIN positive_texts USING (record_key)
    JOIN counts USING (record_key, family, question)
    LEFT JOIN shared USING (record_key, family, question)
    WHERE single IS DISTINCT FROM text_hash
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor FROM eligible
GROUP BY record_key, record_id, added_version, id_hash ORDER BY added_version, id_hash, record_key;
