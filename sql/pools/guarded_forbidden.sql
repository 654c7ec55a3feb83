-- The parts of pools/forbidden that look closer, for a pool whose negatives are mined.
WITH more_class_texts AS (
    SELECT
        classes.class,
        (SELECT count(*) FROM negative_texts) - coalesce(forbidden.texts, 0) AS texts
    FROM (SELECT DISTINCT class FROM anchors) AS classes
    LEFT JOIN (
        SELECT pairs.class, sum(whole_group_texts.texts) AS texts
        FROM pairs
        JOIN whole_group_texts USING (class_group)
        GROUP BY pairs.class
    ) AS forbidden USING (class)
),

doubtful_negatives AS (
    SELECT drawable.class, drawable.narrow, drawable.text_hash, drawable.family
    FROM (
        SELECT asked.class, FALSE AS narrow, some.class_group, some.text_hash, some.family
        FROM (SELECT DISTINCT class FROM doubts WHERE NOT narrow AND NOT hopeless) AS asked
        CROSS JOIN negatives AS some
        UNION ALL
        SELECT asked.class, TRUE AS narrow, some.class_group, some.text_hash, some.family
        FROM (SELECT DISTINCT class FROM doubts WHERE narrow AND NOT hopeless) AS asked
        CROSS JOIN (
            SELECT class_group, text_hash, family
            FROM negatives
            WHERE family NOT IN (SELECT family FROM doubts WHERE narrow)
        ) AS some
    ) AS drawable
    WHERE NOT EXISTS (
        FROM pairs
        WHERE pairs.class = drawable.class AND pairs.class_group = drawable.class_group
    )
)
SELECT 1
