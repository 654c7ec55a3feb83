-- Chunks that the selectors take; own: anchors and answers of the split, whatever conditions say.
WITH anchors AS (
    SELECT *, [meta['topic']] AS class FROM chunks_of($source, $split, $version) WHERE role = 'anchor'
),
positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),

-- The texts of negatives by their writings, and with the family of those that only one has.
sole_texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
written AS (
    SELECT DISTINCT unnest(writings) AS writing, text_hash, sole
    FROM negatives JOIN sole_texts USING (text_hash)
),

-- Texts that suit a class: all of them (scope []), but for texts of its value (-1), and of these
-- again those that other values have, too (1).
suits AS (
    SELECT text_hash, [meta['topic']] AS class, min(family) AS least, max(family) AS greatest
    FROM negatives GROUP BY ALL
),
texts AS (
    SELECT [] AS scope, 1 AS sign, text_hash, sole FROM sole_texts
    UNION ALL SELECT class, -1, text_hash, sole FROM suits JOIN sole_texts USING (text_hash)
    UNION ALL SELECT class, 1, text_hash, CASE WHEN least = greatest THEN least END FROM (
        SELECT class, text_hash, min(least) OVER others AS least, max(greatest) OVER others AS greatest
        FROM suits WINDOW others AS (
            PARTITION BY text_hash
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        )
    ) WHERE least IS NOT NULL
),

-- Texts that a family may not draw: its anchors and answers, and the texts that only it has.
scopes AS (SELECT DISTINCT class, family, question, unnest([[], class]) AS scope FROM anchors),
excluded AS (
    SELECT scope, sign, family, text_hash FROM (
        SELECT family, written.text_hash FROM own JOIN written USING (writing)
        WHERE sole IS DISTINCT FROM family
    ) JOIN (SELECT DISTINCT scope, family FROM scopes) USING (family)
    JOIN texts USING (scope, text_hash)
    UNION SELECT scope, sign, sole, text_hash FROM texts WHERE sole IS NOT NULL
),

-- Answers to a question that several families ask.
known AS (
    SELECT DISTINCT scope, sign, asked.question, texts.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing)
    JOIN texts ON texts.text_hash = written.text_hash WHERE answers
),

-- How many texts there are, how many each family and question lose, and where in doubt both.
counts AS (
    SELECT class, family, question, sum(t.number) AS texts,
        coalesce(sum(e.number), 0) AS excluded, coalesce(sum(k.number), 0) AS known
    FROM scopes JOIN (SELECT scope, sum(sign) AS number FROM texts GROUP BY ALL) AS t USING (scope)
    LEFT JOIN (SELECT scope, family, sum(sign) AS number FROM excluded GROUP BY ALL) AS e
        USING (scope, family)
    LEFT JOIN (SELECT scope, question, sum(sign) AS number FROM known GROUP BY ALL) AS k
        USING (scope, question)
    GROUP BY ALL
),
doubted AS MATERIALIZED (
    SELECT class, scope, sign, family, question, text_hash
    FROM counts JOIN scopes USING (class, family, question) JOIN excluded AS e USING (scope, family)
    WHERE texts - excluded - known < $negatives AND texts - greatest(excluded, known) >= $negatives
),
shared AS (
    SELECT class, family, question, sum(sign) AS shared
    FROM doubted JOIN known USING (scope, sign, question, text_hash) GROUP BY ALL
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
