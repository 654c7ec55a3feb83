-- The steps by which other kinds of recipes differ from plain.sql, equality.sql and inequality.sql.
-- A step takes the place of the one of its name; a new one comes before the first that reads it.

-- part: same_selectors
-- Anchor and positive are any sections: records of one whole text are written alike already.
known AS (SELECT question, text_hash FROM own WHERE FALSE),

-- part: own_texts
-- Each record has negatives of its own, so they are looked at one by one.
excluded AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing)),
usable AS (
    SELECT asked.record_key, asked.question, count(DISTINCT suits.text_hash) AS texts
    FROM (SELECT DISTINCT record_key, family, question FROM anchors) AS asked
    JOIN suits USING (record_key)
    LEFT JOIN (SELECT *, TRUE AS is_excluded FROM excluded) AS e
        ON e.family = asked.family AND e.text_hash = suits.text_hash
    LEFT JOIN (SELECT *, TRUE AS is_known FROM known) AS k
        ON k.question = asked.question AND k.text_hash = suits.text_hash
    WHERE is_excluded IS NULL AND is_known IS NULL AND suits.family IS DISTINCT FROM asked.family
    GROUP BY ALL
),
eligible AS (
    FROM anchors JOIN usable USING (record_key, question)
    JOIN (SELECT record_key, only_one(text_hash) AS sole FROM positives GROUP BY ALL) AS positive
        USING (record_key)
    WHERE sole IS DISTINCT FROM text_hash AND texts >= $negatives
)

-- part: same_record
-- Ready negatives of a record, whose family plays no part.
suits AS (SELECT record_key, text_hash, NULL AS family FROM negatives),

-- part: near_negative
-- Negatives of the record whose date is nearest.
suits AS (
    SELECT nearest.record_key, text_hash, family
    FROM nearest JOIN negatives ON other_key = negatives.record_key
),

-- part: filled
-- A record may draw its own ready negatives (no family), and those of other families.
suits AS (SELECT DISTINCT [record_key] AS class, text_hash, family FROM negatives),
texts AS (
    SELECT [] AS scope, 1 AS sign, text_hash, sole FROM sole_texts
    UNION ALL SELECT class, -1, text_hash, sole FROM suits JOIN sole_texts USING (text_hash)
    UNION ALL SELECT class, 1, text_hash, NULL FROM suits
),
excluded AS (
    SELECT scope, sign, family, text_hash FROM (
        SELECT family, written.text_hash FROM own JOIN written USING (writing)
        WHERE sole IS DISTINCT FROM family
    ) JOIN (SELECT DISTINCT scope, family FROM scopes) USING (family)
    JOIN texts USING (scope, text_hash)
    UNION SELECT scope, sign, sole, text_hash FROM texts WHERE sole IS NOT NULL
    UNION SELECT class, 1, family, written.text_hash
    FROM suits JOIN written USING (text_hash) JOIN own USING (writing, family)
),

-- part: near_positive
-- Contexts of the record whose date is nearest, as if they were the anchor's own.
positives AS (
    SELECT nearest.record_key, other.* EXCLUDE (record_key)
    FROM nearest JOIN chunks_of($source, $split, $version) AS other ON other_key = other.record_key
    WHERE role = 'context'
),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
    UNION ALL BY NAME SELECT DISTINCT record_key, anchors.family, positives.question,
        unnest(positives.writings) AS writing, FALSE AS asks, TRUE AS answers
    FROM anchors JOIN positives USING (record_key)
),

-- part: comparison
-- Dates of negatives for every date of anchors, and the dates with more texts than an anchor loses.
pairs AS (
    SELECT class, value FROM (SELECT DISTINCT class FROM anchors)
    JOIN (SELECT DISTINCT date AS value FROM negatives) ON value > class
),
losses AS (
    SELECT 'family' AS why, count(DISTINCT written.text_hash) AS texts
    FROM own JOIN written USING (writing) GROUP BY family
    UNION ALL SELECT 'sole', count(DISTINCT text_hash) FROM written WHERE sole IS NOT NULL GROUP BY sole
    UNION ALL SELECT 'question', count(DISTINCT text_hash) FROM answered GROUP BY question
),
answered AS (
    SELECT asked.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing) WHERE answers
),
ample AS (
    SELECT class, sum(texts) AS texts FROM pairs JOIN (
        SELECT value, count(*) AS texts
        FROM (SELECT text_hash, only_one(date) AS value FROM negatives GROUP BY ALL) GROUP BY ALL
    ) USING (value) GROUP BY ALL HAVING sum(texts) >= $negatives + (
        SELECT sum(most) FROM (SELECT max(texts) AS most FROM losses GROUP BY why)
    )
),
suits AS (
    SELECT class, text_hash, family FROM pairs JOIN negatives ON date = value
    LEFT JOIN (SELECT class, TRUE AS is_ample FROM ample) USING (class) WHERE is_ample IS NULL
),
known AS (
    SELECT DISTINCT class, question, text_hash FROM answered JOIN texts USING (text_hash)
),
counts AS (
    SELECT DISTINCT class, family, question, texts,
        coalesce(e.number, 0) AS excluded, coalesce(k.number, 0) AS known
    FROM anchors
    JOIN (FROM ample UNION ALL SELECT class, count(*) FROM texts GROUP BY ALL) USING (class)
    LEFT JOIN (SELECT class, family, count(*) AS number FROM excluded GROUP BY ALL) AS e
        USING (class, family)
    LEFT JOIN (SELECT class, question, count(*) AS number FROM known GROUP BY ALL) AS k
        USING (class, question)
),

-- part: verdicts
-- Verdicts on texts beside an asker's; denied: an answer for none of the record's windows.
askers AS (
    SELECT DISTINCT record_key, family, question, source, text_hash AS anchor_hash
    FROM own WHERE asks
),
said AS (
    SELECT askers.*, of_pair.text_hash, verdict
    FROM askers JOIN verdicts_at($version) AS of_pair USING (anchor_hash)
),
denied AS (
    SELECT record_key, question, text_hash
    FROM (SELECT *, count(*) OVER (PARTITION BY record_key, question) AS windows FROM askers)
    JOIN verdicts_at($version) AS of_pair USING (anchor_hash) WHERE verdict = 'negative'
    GROUP BY record_key, question, text_hash, windows HAVING count(DISTINCT anchor_hash) = windows
),
denied_of_all AS (
    SELECT record_key, text_hash
    FROM (SELECT *, count(*) OVER (PARTITION BY record_key) AS windows FROM (
        SELECT DISTINCT record_key, anchor_hash FROM askers
    )) JOIN verdicts_at($version) AS of_pair USING (anchor_hash) WHERE verdict = 'negative'
    GROUP BY record_key, text_hash, windows HAVING count(DISTINCT anchor_hash) = windows
),
excluded AS (
    SELECT family, written.text_hash FROM own JOIN written USING (writing)
    LEFT JOIN (SELECT *, TRUE AS is_denied FROM denied_of_all) AS d
        ON d.record_key = own.record_key AND d.text_hash = own.text_hash
    WHERE asks OR is_denied IS NULL
    UNION SELECT family, text_hash FROM said JOIN texts USING (text_hash) WHERE verdict <> 'negative'
    UNION SELECT sole, text_hash FROM texts WHERE sole IS NOT NULL
),
known AS (
    SELECT asked.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing)
    LEFT JOIN (SELECT *, TRUE AS is_denied FROM denied) AS d
        ON d.record_key = asked.record_key AND d.question = asked.question
        AND d.text_hash = own.text_hash
    WHERE answers AND is_denied IS NULL
    UNION SELECT question, text_hash FROM said JOIN texts USING (text_hash)
    WHERE verdict <> 'negative' AND source = $source
),
paired AS (
    SELECT anchors.chunk_key, positives.text_hash FROM anchors JOIN positives USING (record_key)
    LEFT JOIN verdicts_at($version) AS of_pair ON anchor_hash = anchors.text_hash
        AND of_pair.text_hash = positives.text_hash
    WHERE verdict IS DISTINCT FROM 'negative'
    UNION SELECT anchors.chunk_key, of_pair.text_hash FROM anchors
    JOIN verdicts_at($version) AS of_pair ON anchor_hash = anchors.text_hash
    JOIN positives AS promoted ON promoted.text_hash = of_pair.text_hash
    WHERE verdict = 'positive'
),
eligible AS (
    FROM anchors JOIN counts USING (family, question) LEFT JOIN shared USING (family, question)
    JOIN (SELECT chunk_key, only_one(text_hash) AS sole FROM paired GROUP BY ALL) AS positive
        USING (chunk_key)
    WHERE sole IS DISTINCT FROM text_hash
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
