-- Parts of a triplet pool whose strategy names what an anchor must not draw from.
WITH class_texts AS (
    SELECT
        classes.class,
        (SELECT coalesce(sum(texts), 0) FROM group_texts) - coalesce(forbidden.texts, 0) AS texts
    FROM (SELECT DISTINCT class FROM anchors) AS classes
    LEFT JOIN (
        SELECT pairs.class, sum(group_texts.texts) AS texts
        FROM pairs
        JOIN group_texts USING (class_group)
        GROUP BY pairs.class
    ) AS forbidden USING (class)
),

doubtful_negatives AS (
    SELECT classes.class, negatives.record_key, negatives.text_hash
    FROM (SELECT DISTINCT class FROM doubts) AS classes
    CROSS JOIN negatives
    WHERE NOT EXISTS (
        FROM pairs
        WHERE pairs.class = classes.class AND pairs.class_group = negatives.class_group
    )
)
SELECT 1
