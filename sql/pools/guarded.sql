-- The pool of a triplet recipe whose negatives are mined: as pools/triplets, but a negative that
-- could well be a positive is not legal. It is also of another family than the anchor (the group,
-- else the record), and its text is none of those in own_texts and known_texts below, which look
-- at the normalised texts of whole sections. The recipe fills in the same names and parts. It comes
-- after pools/guarded_members.
-- Parameters: $source, $negatives (how many a sample has), $mining (0 for none).
-- Rows: one an anchor, by record_key and chunk_key.
WITH anchors AS (
    SELECT
        slot.record_key,
        slot.chunk_key,
        slot.section_key,
        slot.text_hash,
        slot.normal,
        slot.family,
        anchor_terms AS class,
        anchor_columns
    FROM members AS slot
    WHERE slot.source = $source AND anchor_condition
),

positives AS (
    SELECT slot.record_key, slot.chunk_key, slot.text_hash, slot.section_key, slot.normal
    FROM members AS slot
    WHERE slot.source = $source AND positive_condition
),

negatives AS (
    SELECT
        slot.record_key,
        slot.chunk_key,
        slot.section_key,
        slot.text_hash,
        slot.normal,
        slot.family,
        negative_terms AS class_group,
        negative_columns
    FROM members AS slot
    WHERE slot.source = $source AND negative_condition
),

pairs AS (
    SELECT 0::UBIGINT AS class, 0::UBIGINT AS class_group
    WHERE FALSE
),

positive_texts AS (
    SELECT
        record_key,
        count(*) AS positives,
        min(text_hash) AS first_text,
        max(text_hash) AS last_text
    FROM positives
    GROUP BY record_key
),

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

class_texts AS (
    SELECT 0::UBIGINT AS class, 0 AS texts
),

-- What negatives have: their texts and normalised texts, and whose they are. What is of one family
-- only is no negative within it.
negative_texts AS (
    SELECT
        text_hash,
        min(family) AS first_family,
        max(family) AS last_family,
        min(class_group) = max(class_group) AS of_one_group
    FROM negatives
    GROUP BY text_hash
),

negative_normals AS (
    SELECT normal, min(family) AS first_family, max(family) AS last_family
    FROM negatives
    GROUP BY normal
),

anchor_texts AS (
    SELECT DISTINCT record_key, class, family, normal
    FROM anchors
),

own AS (
    SELECT record_key, family, text_hash, normal
    FROM anchors
    UNION ALL
    SELECT positives.record_key, anchored.family, positives.text_hash, positives.normal
    FROM positives
    JOIN (SELECT DISTINCT record_key, family FROM anchors) AS anchored USING (record_key)
),

-- Normalised texts that are no negatives of a record, for they are those of its own anchors and
-- positives; and that are no negatives of an anchor's text, for some record with that text has them
-- for a positive. (Where one record alone has that text, they are its own.)
own_normals AS (
    SELECT DISTINCT own.record_key, own.family, own.normal
    FROM own
    JOIN negative_normals USING (normal)
    WHERE
        negative_normals.first_family <> own.family OR negative_normals.last_family <> own.family
),

known_normals AS (
    SELECT DISTINCT shared.normal, positives.normal AS positive_normal
    FROM (
        SELECT normal
        FROM anchor_texts
        GROUP BY normal
        HAVING min(record_key) <> max(record_key)
    ) AS shared
    JOIN anchor_texts USING (normal)
    JOIN positives USING (record_key)
),

-- The same as texts of negatives, for these are what is drawn.
writings AS (
    SELECT
        found.normal,
        found.text_hash,
        negative_texts.first_family,
        negative_texts.last_family
    FROM (
        SELECT DISTINCT normal, text_hash
        FROM negatives
        WHERE normal IN (
            SELECT normal FROM own_normals
            UNION ALL
            SELECT positive_normal FROM known_normals
        )
    ) AS found
    JOIN negative_texts USING (text_hash)
),

own_texts AS (
    SELECT own.record_key, own.text_hash
    FROM own
    JOIN negative_texts USING (text_hash)
    WHERE negative_texts.first_family <> own.family OR negative_texts.last_family <> own.family
    UNION
    SELECT own_normals.record_key, writings.text_hash
    FROM own_normals
    JOIN writings USING (normal)
    WHERE writings.first_family <> own_normals.family OR writings.last_family <> own_normals.family
),

known_texts AS (
    SELECT DISTINCT known_normals.normal, writings.text_hash
    FROM known_normals
    JOIN writings ON writings.normal = known_normals.positive_normal
),

-- How many texts each group has, and another lower bound of what a class can draw: texts that are
-- in none of its forbidden groups.
whole_group_texts AS (
    SELECT class_group, count(DISTINCT text_hash) AS texts
    FROM negatives
    GROUP BY class_group
),

more_class_texts AS (
    SELECT 0::UBIGINT AS class, 0 AS texts
),

-- How many texts are of one family only, and how many of those are of one group.
family_texts AS (
    SELECT
        first_family AS family,
        count(*) AS texts,
        count(*) FILTER (WHERE of_one_group) AS of_one_group
    FROM negative_texts
    WHERE first_family = last_family
    GROUP BY first_family
),

-- Anchors for which there might be too few texts, if all that are illegal were among those that
-- their class can draw; hopeless where no class could have enough. Of the largest family most can
-- be doubtful, so only what lies outside is looked at for them: the narrow ones.
doubts AS (
    SELECT
        anchor_texts.record_key,
        anchor_texts.class,
        anchor_texts.family,
        anchor_texts.normal,
        anchor_texts.family = largest.family AS narrow,
        (SELECT count(*) FROM negative_texts)
        - coalesce(family_texts.texts, 0)
        - coalesce(of_own.texts, 0)
        < $negatives AS hopeless
    FROM anchor_texts
    CROSS JOIN (
        SELECT coalesce(arg_max(family, (texts, -family)), -1) AS family
        FROM family_texts
    ) AS largest
    LEFT JOIN class_texts USING (class)
    LEFT JOIN more_class_texts ON more_class_texts.class = anchor_texts.class
    LEFT JOIN family_texts ON family_texts.family = anchor_texts.family
    LEFT JOIN (SELECT record_key, count(*) AS texts FROM own_texts GROUP BY record_key) AS of_own
        ON of_own.record_key = anchor_texts.record_key
    LEFT JOIN (SELECT normal, count(*) AS texts FROM known_texts GROUP BY normal) AS of_known
        ON of_known.normal = anchor_texts.normal
    WHERE
        greatest(
            coalesce(class_texts.texts, 0) - coalesce(family_texts.of_one_group, 0),
            coalesce(more_class_texts.texts, 0) - coalesce(family_texts.texts, 0)
        )
        < coalesce(of_own.texts, 0) + coalesce(of_known.texts, 0) + $negatives
),

doubtful_negatives AS (
    SELECT 0::UBIGINT AS class, FALSE AS narrow, text_hash, family
    FROM negatives
),

-- From here on the legal texts of these anchors are counted: all that the class can draw, less
-- those of the family, less the known ones, less the own ones that are not known.
doubtful_texts AS (
    SELECT class, narrow, text_hash, min(family) AS first_family, max(family) AS last_family
    FROM doubtful_negatives
    GROUP BY class, narrow, text_hash
),

texts_of_class AS (
    SELECT class, narrow, count(*) AS texts
    FROM doubtful_texts
    GROUP BY class, narrow
),

texts_of_family AS (
    SELECT class, narrow, first_family AS family, count(*) AS texts
    FROM doubtful_texts
    WHERE first_family = last_family
    GROUP BY class, narrow, first_family
),

-- Materialized, so that what these name is never joined before them: that would be every anchor
-- with every text.
asked_known AS MATERIALIZED (
    SELECT asked.class, asked.narrow, asked.normal, known_texts.text_hash
    FROM (SELECT DISTINCT class, narrow, normal FROM doubts WHERE NOT hopeless) AS asked
    JOIN known_texts USING (normal)
),

asked_own AS MATERIALIZED (
    SELECT
        doubts.record_key,
        doubts.class,
        doubts.narrow,
        doubts.normal,
        doubts.family,
        own_texts.text_hash
    FROM doubts
    JOIN own_texts USING (record_key)
    WHERE NOT doubts.hopeless
),

doubtful_known AS (
    SELECT
        asked_known.class,
        asked_known.narrow,
        asked_known.normal,
        doubtful_texts.first_family,
        doubtful_texts.last_family
    FROM asked_known
    JOIN doubtful_texts USING (class, narrow, text_hash)
),

texts_known AS (
    SELECT class, narrow, normal, count(*) AS texts
    FROM doubtful_known
    GROUP BY class, narrow, normal
),

texts_known_of_family AS (
    SELECT class, narrow, normal, first_family AS family, count(*) AS texts
    FROM doubtful_known
    WHERE first_family = last_family
    GROUP BY class, narrow, normal, first_family
),

texts_own AS (
    SELECT asked_own.record_key, asked_own.class, asked_own.normal, count(*) AS texts
    FROM asked_own
    JOIN doubtful_texts USING (class, narrow, text_hash)
    WHERE
        (
            doubtful_texts.first_family <> asked_own.family
            OR doubtful_texts.last_family <> asked_own.family
        )
        AND NOT EXISTS (
            FROM known_texts
            WHERE
                known_texts.normal = asked_own.normal
                AND known_texts.text_hash = asked_own.text_hash
        )
    GROUP BY asked_own.record_key, asked_own.class, asked_own.normal
),

without_negative AS (
    SELECT doubts.record_key, doubts.class, doubts.normal
    FROM doubts
    LEFT JOIN texts_of_class USING (class, narrow)
    LEFT JOIN texts_of_family USING (class, narrow, family)
    LEFT JOIN texts_known USING (class, narrow, normal)
    LEFT JOIN texts_known_of_family USING (class, narrow, normal, family)
    LEFT JOIN texts_own USING (record_key, class, normal)
    WHERE
        doubts.hopeless
        OR coalesce(texts_of_class.texts, 0)
        - coalesce(texts_of_family.texts, 0)
        - coalesce(texts_known.texts, 0)
        + coalesce(texts_known_of_family.texts, 0)
        - coalesce(texts_own.texts, 0)
        < $negatives
),

verdicts AS (
    SELECT
        anchors.record_key,
        anchors.chunk_key,
        anchors.section_key,
        anchors.text_hash,
        anchors.class,
        anchors.normal,
        anchors.family,
        positive_texts.positives,
        CASE
            WHEN positive_texts.positives IS NULL THEN 'no positive'
            -- A positive with the anchor's very text (the anchor itself, often) is none.
            WHEN
                same_condition
                AND positive_texts.first_text = anchors.text_hash
                AND positive_texts.last_text = anchors.text_hash
                THEN 'same text'
            WHEN without_negative.class IS NOT NULL THEN 'no negative'
            WHEN dropped.anchor_section_key IS NOT NULL THEN 'too few candidates'
        END AS reason
    FROM anchors
    LEFT JOIN positive_texts USING (record_key)
    LEFT JOIN without_negative
        ON without_negative.record_key = anchors.record_key
        AND without_negative.class = anchors.class
        AND without_negative.normal = anchors.normal
    LEFT JOIN mined_anchors AS dropped
        ON dropped.mining_key = $mining
        AND dropped.anchor_section_key = anchors.section_key
        AND dropped.outcome = 'dropped'
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
