-- The part of pools/allowed that looks closer, for a pool whose negatives are mined.
WITH doubtful_negatives AS (
    SELECT asked.class, FALSE AS narrow, some.text_hash, some.family
    FROM (SELECT DISTINCT class FROM doubts WHERE NOT narrow AND NOT hopeless) AS asked
    JOIN pairs USING (class)
    JOIN negatives AS some USING (class_group)
    UNION ALL
    SELECT asked.class, TRUE AS narrow, some.text_hash, some.family
    FROM (SELECT DISTINCT class FROM doubts WHERE narrow AND NOT hopeless) AS asked
    JOIN pairs USING (class)
    JOIN (
        SELECT class_group, text_hash, family
        FROM negatives
        WHERE family NOT IN (SELECT family FROM doubts WHERE narrow)
    ) AS some USING (class_group)
)
SELECT 1
