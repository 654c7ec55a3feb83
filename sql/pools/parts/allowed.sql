-- Parts of the law where pairs are the only groups that a class may draw from.
WITH class_texts AS (
    SELECT pairs.class, sum(group_texts.texts) AS texts
    FROM pairs JOIN group_texts USING (class_group) GROUP BY pairs.class
),

-- What can be drawn, text by text, with its kin if it has one only.
stock AS (
    SELECT pairs.class AS scope, text_hash, 1 AS texts, only_one(kin_key) AS kin
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (class_group) GROUP BY pairs.class, text_hash
)
SELECT 1
