-- The pool of a triplet recipe: its anchors, each with a usable positive and a legal negative.
-- What the recipe fills in: names ending in _condition, _terms or _columns, unit_key, and for
-- some strategies and selectors the parts pairs, class_texts, doubtful_negatives and positives.
-- It comes after pools/members.
-- Parameters: $source, $negatives (how many a sample has).
-- Rows: one an anchor, by record_key and chunk_key.
-- Every window the anchor selector matches. The class says which negatives suit it.
WITH anchors AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash, anchor_terms AS class, anchor_columns
    FROM members AS slot
    WHERE slot.source = $source AND anchor_condition
),

-- Every window an anchor's record may take its positive from.
positives AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash
    FROM members AS slot
    WHERE slot.source = $source AND positive_condition
),

-- Every window the negative selector matches, grouped by what the strategy compares.
negatives AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash, negative_terms AS class_group, negative_columns
    FROM members AS slot
    WHERE slot.source = $source AND negative_condition
),

-- Which groups of negatives each class of anchors must not draw from (or, where the strategy
-- demands an equality, the only ones it may draw from).
pairs AS (
    SELECT 0::UBIGINT AS class, 0::UBIGINT AS class_group
    WHERE FALSE
),

-- The texts an anchor's record can take its positive from: only the first and the last matter,
-- for if they are one, they all are.
positive_texts AS (
    SELECT
        record_key,
        count(*) AS positives,
        min(text_hash) AS first_text,
        max(text_hash) AS last_text
    FROM positives
    GROUP BY record_key
),

-- Texts found in one group only: they differ from group to group, so they can be added up.
group_texts AS (
    SELECT class_group, count(*) AS texts
    FROM (
        SELECT min(class_group) AS class_group
        FROM negatives
        GROUP BY text_hash
        HAVING min(class_group) = max(class_group)
    )
    GROUP BY class_group
),

-- How many different texts a class can draw, at the least. Where enough of them are left even
-- if all that can be illegal is among them, nothing needs a closer look.
class_texts AS (
    SELECT 0::UBIGINT AS class, 0 AS texts
),

-- No record has more windows than this, whatever its sections: read off the columns' ranges.
most_windows AS (
    SELECT
        (SELECT max(position) + 1 FROM sections)
        * (SELECT (max(window_index) + 2) * (count(DISTINCT overlap) + 1) FROM chunks) AS windows
),

risky_classes AS (
    SELECT classes.class, coalesce(class_texts.texts, 0) AS texts
    FROM (SELECT DISTINCT class FROM anchors) AS classes
    LEFT JOIN class_texts USING (class)
    WHERE coalesce(class_texts.texts, 0) < 3 * (SELECT windows FROM most_windows) + $negatives
),

-- A text the record has as anchor or positive is never its negative, so as many texts as that,
-- and those of its own negatives, can be illegal for it.
illegal_counts AS (
    SELECT record_key, count(*) AS illegal
    FROM (
        SELECT record_key FROM anchors
        UNION ALL
        SELECT record_key FROM positives
        UNION ALL
        SELECT record_key FROM negatives
    )
    WHERE record_key IN (
        SELECT record_key FROM anchors WHERE class IN (SELECT class FROM risky_classes)
    )
    GROUP BY record_key
),

doubts AS (
    SELECT DISTINCT anchors.record_key, anchors.class
    FROM anchors
    JOIN risky_classes USING (class)
    JOIN illegal_counts USING (record_key)
    WHERE risky_classes.texts < illegal_counts.illegal + $negatives
),

doubtful_negatives AS (
    SELECT 0::UBIGINT AS class, record_key, text_hash
    FROM negatives
),

doubtful_texts AS (
    SELECT class, text_hash, min(record_key) AS first_record, max(record_key) AS last_record
    FROM doubtful_negatives
    GROUP BY class, text_hash
),

illegal_texts AS (
    SELECT record_key, text_hash FROM anchors WHERE record_key IN (SELECT record_key FROM doubts)
    UNION
    SELECT record_key, text_hash FROM positives WHERE record_key IN (SELECT record_key FROM doubts)
),

-- Doubts resolved one by one: enough texts of other records that are none of the illegal ones.
resolved AS (
    SELECT doubts.record_key, doubts.class
    FROM doubts
    JOIN doubtful_texts USING (class)
    WHERE
        (
            doubtful_texts.first_record <> doubts.record_key
            OR doubtful_texts.last_record <> doubts.record_key
        )
        AND NOT EXISTS (
            FROM illegal_texts
            WHERE
                illegal_texts.record_key = doubts.record_key
                AND illegal_texts.text_hash = doubtful_texts.text_hash
        )
    GROUP BY doubts.record_key, doubts.class
    HAVING count(*) >= $negatives
),

verdicts AS (
    SELECT
        anchors.record_key,
        anchors.chunk_key,
        anchors.text_hash,
        anchors.class,
        positive_texts.positives,
        CASE
            WHEN positive_texts.positives IS NULL THEN 'no positive'
            -- A positive with the anchor's very text (the anchor itself, often) is none.
            WHEN
                same_condition
                AND positive_texts.first_text = anchors.text_hash
                AND positive_texts.last_text = anchors.text_hash
                THEN 'same text'
            WHEN doubts.class IS NOT NULL AND resolved.class IS NULL THEN 'no negative'
        END AS reason
    FROM anchors
    LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN doubts ON doubts.record_key = anchors.record_key AND doubts.class = anchors.class
    LEFT JOIN resolved
        ON resolved.record_key = anchors.record_key AND resolved.class = anchors.class
),

pool AS (
    SELECT
        min(record_key) AS record_key,
        list(chunk_key ORDER BY chunk_key) AS anchors,
        min(positives) AS positives
    FROM verdicts
    WHERE reason IS NULL
    GROUP BY unit_key
)
SELECT pool.record_key, records.record_id, pool.anchors, pool.positives
FROM pool
JOIN records ON records.record_key = pool.record_key
ORDER BY pool.record_key, pool.anchors
