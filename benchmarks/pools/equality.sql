-- Chunks that the selectors take; own: anchors and answers of the split, whatever conditions say.
WITH anchors AS (
    SELECT *, meta['topic'] AS class FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
),
positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),

-- Negatives that suit each class of anchors.
suits AS (
    SELECT class, text_hash, family
    FROM (SELECT DISTINCT class FROM anchors) JOIN negatives ON meta['topic'] = class
),

-- The texts of negatives by their writings; by class, with the family of those that only one has.
written AS (
    SELECT DISTINCT unnest(writings) AS writing, text_hash, sole FROM negatives
    JOIN (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL) USING (text_hash)
),
texts AS (SELECT class, text_hash, only_one(family) AS sole FROM suits GROUP BY ALL),

-- Texts that a family may not draw: its anchors and answers, and the texts that only it has.
excluded AS (
    SELECT class, family, text_hash FROM (
        SELECT family, written.text_hash FROM own JOIN written USING (writing)
        WHERE sole IS DISTINCT FROM family
    ) JOIN (SELECT DISTINCT class, family FROM anchors) USING (family)
    JOIN texts USING (class, text_hash)
    UNION SELECT class, sole, text_hash FROM texts WHERE sole IS NOT NULL
),

-- Answers to a question that several families ask.
known AS (
    SELECT DISTINCT class, asked.question, texts.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing)
    JOIN texts ON texts.text_hash = written.text_hash WHERE answers
),

-- How many texts there are, how many each family and question lose, and where in doubt both.
counts AS (
    SELECT DISTINCT class, family, question, texts,
        coalesce(e.number, 0) AS excluded, coalesce(k.number, 0) AS known
    FROM anchors
    JOIN (SELECT class, count(*) AS texts FROM texts GROUP BY ALL) USING (class)
    LEFT JOIN (SELECT class, family, count(*) AS number FROM excluded GROUP BY ALL) AS e
        USING (class, family)
    LEFT JOIN (SELECT class, question, count(*) AS number FROM known GROUP BY ALL) AS k
        USING (class, question)
),
doubted AS MATERIALIZED (
    SELECT class, family, question, text_hash FROM counts JOIN excluded AS e USING (class, family)
    WHERE texts - excluded - known < $negatives AND texts - greatest(excluded, known) >= $negatives
),
shared AS (
    SELECT class, family, question, count(*) AS shared
    FROM doubted JOIN known USING (class, question, text_hash) GROUP BY ALL
),

-- Anchors with a positive of another text, and with enough texts for negatives.
eligible AS (
    FROM anchors JOIN counts USING (class, family, question)
    LEFT JOIN shared USING (class, family, question)
    JOIN (SELECT record_key, only_one(text_hash) AS sole FROM positives GROUP BY ALL) AS positive
        USING (record_key)
    WHERE sole IS DISTINCT FROM text_hash
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors
FROM eligible GROUP BY ALL ORDER BY record_key
